"""A run once more, from its log: real nodes, and no network.

Fresh nodes and a fresh steward are given what is in the log, one event after the other, and
nothing else. After each event the state must be the one that the run was in, bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bequest import journal
from bequest.engines.loop.engine import Execution, Loop
from bequest.engines.loop.narration import Admitted, Founded, Killed, Replaced, name_of, told
from bequest.engines.loop.network import VirtualNetwork, Weather
from bequest.errors import ReplayDiffers
from bequest.journal import End
from bequest.protocol.events import Lost
from bequest.protocol.messages import STEWARD
from bequest.version import provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bequest.engines.base import Progress
    from bequest.engines.loop.narration import Happening
    from bequest.engines.runtime.node_setup import NodeSetup
    from bequest.journal import Entry, Log, LoggedEvent
    from bequest.model.outcome import Outcome
    from bequest.model.plan import Plan
    from bequest.protocol.events import Effect, Input
    from bequest.protocol.node import Node
    from bequest.protocol.steward import Steward

    # Hears of every entry of the log, and of what processes did about it: (entry, effects).
    Dispatcher = Callable[[Entry, Sequence[tuple[int, Effect]]], None]


@dataclass(frozen=True)
class Replay:
    """An engine that repeats a run; ``solve`` with the same arguments gives the same Run.

    Args:
        log: of which run.
        until: the last event to repeat; None for all.
        listen: hears of every event, and of what processes did about it.
    """

    log: Log
    until: int | None = None
    listen: Dispatcher | None = field(default=None, repr=False)

    def run(self, plan: Plan, progress: Progress | None = None) -> Outcome:
        """Repeat the run.

        Raises:
            ReplayDiffers: an event leaves a process in another state than it did then.
            InvalidLog: the log cannot be read to its end; all before that was repeated.
        """
        rerun = _Rerun(self.log, plan, progress)
        with np.errstate(over="ignore", invalid="ignore"):
            for entry in self.log.entries():
                if rerun.broken is not None and not (isinstance(entry, End) and entry.why):
                    raise rerun.broken
                rerun.effects.clear()
                differs = None if isinstance(entry, End) else rerun.repeat(entry)
                if self.listen is not None:
                    self.listen(entry, rerun.effects)
                if differs is not None:
                    raise differs
                if rerun.count == self.until:  # what follows need not even be readable
                    break
            return rerun.outcome()


class _Rerun(Execution):
    """The same run, but what arrives comes from the log."""

    def __init__(self, log: Log, plan: Plan, progress: Progress | None) -> None:
        self.effects: list[tuple[int, Effect]] = []
        self.count = 0
        # Where the rerun breaks off; that is right if the run broke off there.
        self.broken: ReplayDiffers | None = None
        self._log, self._witness = log, _Witness()
        super().__init__(Loop(hosts=log.hosts, scribe=self._witness), plan, progress)
        self.world.network = _Nowhere()

    def _observe(self, process: int, effect: Effect) -> None:
        self.effects.append((process, effect))
        super()._observe(process, effect)

    def repeat(self, record: LoggedEvent) -> ReplayDiffers | None:
        """Repeat an event; return how the result differs, if it does."""
        witness = self._witness
        witness.forget()
        self.count += 1
        self.world.network.time = record.time
        try:
            self._happen(record)
        except Exception as error:  # noqa: BLE001 - a log can hold anything
            wrong = self._differs(record, f"cannot be repeated: {type(error).__name__}: {error}")
            if record.state not in (None, witness.state):
                return wrong
            self.broken = wrong
            return None
        if record.state is None or (witness.what == record.what and witness.state == record.state):
            return None
        if witness.state is None:
            return self._differs(record, f"cannot be repeated: {name_of(record.process)} is gone")
        return self._differs(record, "leads to another state than it did in the run")

    def _happen(self, record: LoggedEvent) -> None:
        world, process = self.world, record.process
        match record.what:
            case Founded():
                self.found()
            case Admitted(request):
                self.admit(process, request.purpose, self._stop)
            case Killed():
                if process == STEWARD:
                    world.kill_steward()
                else:
                    world.kill(process, noticed=False)
            case Replaced():
                world.start_steward(self.supervisor.stewards.inquire())
            case event:
                if isinstance(event, Lost):  # the supervisor had given the verdict before
                    self.supervisor.tick(math.inf)
                world.give(process, event)

    @property
    def _stop(self) -> int:
        """The round after which all nodes wait for one from outside; 0 if they do not."""
        steward = self.world.steward
        return steward.present.round_reached if steward is not None and steward.awaited else 0

    def _start_node(self, setup: NodeSetup, leaves: int | None) -> None:
        _ = leaves  # when it leaves is in the log
        super()._start_node(setup, None)

    def _differs(self, record: LoggedEvent, what: str) -> ReplayDiffers:
        ours, theirs = provenance(), self._log.provenance
        others = [f"{k} {v} (here {ours.get(k)})" for k, v in theirs.items() if ours.get(k) != v]
        remedy = "Report it with the log: the same events must lead to the same states."
        if others:
            remedy = f"Replay it where it was written: with {', '.join(others)}."
        elif self._log.origin is not None:
            remedy = (
                "If the run file names a table, see whether that was changed; if not, report it "
                "with the log: the same events must lead to the same states."
            )
        return ReplayDiffers(
            f"Event {record.number} ({name_of(record.process)}: {told(record.what)}) {what}."
            f"\n{self.world.narrate(record.process)}",
            remedy=remedy,
        )


class _Witness:
    """Sees the state after every event, as the journal of the run did."""

    def __init__(self) -> None:
        self.what: Input | Happening | None = None
        self.state: str | None = None

    def forget(self) -> None:
        """Forget the last event."""
        self.what = self.state = None

    def began(self, engine: Loop) -> None:
        """Nothing is written down."""

    def before(self, time: float, process: int, what: Input | Happening) -> None:  # noqa: ARG002
        """Hear of the event."""
        self.what = what

    def after(self, machine: Node | Steward) -> None:
        """See the state."""
        self.state = journal.digest(machine)


class _Nowhere(VirtualNetwork):
    """A network on which nothing travels."""

    def __init__(self) -> None:
        super().__init__(Weather(), lambda _: "")

    def send(self, sender: int, receiver: int, event: Input, *, after: float = 0.0) -> None:
        """Drop it: what arrives is in the log."""
