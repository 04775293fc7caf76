"""The same silos as processes of a cluster, and what happens to three of them is real.

Of the ten silos of ``digits`` that of 7 is killed (SIGKILL), that of 3 is preempted (SIGTERM), and
that of 8 leaves as it had planned to. Each of the three has a process of its own.
"""

from __future__ import annotations

import os
import signal
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from bequest.engines.ray import Ray, one_cluster
from bequest.experiments.digits import CHORDS, DIGITS, LEAVERS, Outcome, ending_of, setting
from bequest.model import graphs, wills
from bequest.model.events import Departure
from bequest.solver import solve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from bequest.engines.ray import View
    from bequest.model.wills import Will

SCHEDULE = "for real"
KILLED, PREEMPTED, PLANNED = LEAVERS
# Rounds from which on the first two are got rid of, and after which the third one leaves.
AT = {KILLED: 50, PREEMPTED: 150, PLANNED: 300}
WILLS: Mapping[str, Will] = {
    will.title: will for will in (wills.Classic(), wills.Drift(), wills.Drift(rank=4))
}
ROUNDS = 600


class Reaper:
    """Watches a run, and sends the signals when their time has come.

    Attributes:
        sent: digit -> the signal that its silo got, and after which round.
    """

    def __init__(self, watch: Callable[[View], None] | None = None) -> None:
        self._watch = watch
        self.sent: dict[int, tuple[signal.Signals, int]] = {}

    def __call__(self, view: View) -> None:
        """Look at a view of the run."""
        for digit, what in ((KILLED, signal.SIGKILL), (PREEMPTED, signal.SIGTERM)):
            if digit not in self.sent and view.round >= AT[digit] and view.status is None:
                self.sent[digit] = what, view.round
                os.kill(view.hosts[f"silo {digit}"].pid, what)
        if self._watch is not None:
            self._watch(view)


@one_cluster()
def study(
    seed: int,
    *,
    engine: Ray | None = None,
    watching: Callable[[str], AbstractContextManager[Callable[[View], None] | None]] | None = None,
) -> Outcome:
    """Run the study once, on this machine: only here can processes be sent signals.

    Args:
        seed: of the chords, and of the choice of test images.
        engine: the cluster to use, if not one of its own; all its machines must be this one.
        watching: given a will's name, gives what is to hear how its run goes.
    """
    problem, exam = setting(seed)
    graph = graphs.ring_with_chords(len(DIGITS), chords=CHORDS, seed=seed)
    placement = {digit: f"silo {digit}" if digit in LEAVERS else "the others" for digit in DIGITS}
    endings = []
    for name, will in WILLS.items():
        with nullcontext() if watching is None else watching(name) as watch:
            reaper = Reaper(watch)
            run = solve(
                problem,
                graph,
                departures=[Departure(PLANNED, AT[PLANNED])],
                will=will,
                rounds=ROUNDS,
                checkpoint_every=20,
                engine=replace(
                    engine or Ray(), placement=placement, cpus_per_host=0.0, watch=reaper
                ),
            )
        endings.append(ending_of(SCHEDULE, name, run, exam))
    return Outcome(exam, exam.score(problem.optimum()), tuple(endings))
