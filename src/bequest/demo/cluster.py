"""The same silos as processes of a cluster, which loses three of them for real.

The process of silo 7 is killed (SIGKILL), that of silo 3 is preempted (SIGTERM), and silo 8 leaves
as planned. Each of the three has a process of its own.
"""

from __future__ import annotations

import os
import signal
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from bequest.demo.digits import CHORDS, DIGITS, LEAVERS, Comparison, scored, setting
from bequest.engines.ray import Ray, one_cluster
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
# The first two get their signals from these rounds on; the third one leaves after its round.
AT = {KILLED: 50, PREEMPTED: 150, PLANNED: 300}
# As in the story without a cluster: the one that forgets comes first, the default last.
WILLS: Mapping[str, Will] = {
    will.title: will
    for will in (wills.Classic(), wills.Drift(), wills.Drift(rank=4), wills.Adaptive())
}
ROUNDS = 600


class Reaper:
    """Watches a run and sends the signals; ``sent`` is digit -> which signal, in which round."""

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
) -> Comparison:
    """Run each will once, on this machine: signals reach only its own processes.

    Args:
        seed: of the chords, and of the choice of test images.
        engine: the cluster to use, all on this machine; by default one that is started here.
        watching: given a will's name, returns a context whose value hears how its run goes.
    """
    problem, exam = setting(seed)
    graph = graphs.ring_with_chords(len(DIGITS), chords=CHORDS, seed=seed)
    placement = {digit: f"silo {digit}" if digit in LEAVERS else "the others" for digit in DIGITS}
    runs = []
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
        runs.append(scored(SCHEDULE, name, run, exam))
    return Comparison(exam, exam.score(problem.optimum()), tuple(runs))
