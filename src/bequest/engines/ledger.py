"""From what nodes and the steward report to the records of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.model.hindsight import Hindsight
from bequest.model.run import ChangeRecord, DepartureRecord
from bequest.model.wills import Bequest
from bequest.protocol.events import (
    Adopted,
    Adoption,
    Checkpointed,
    Committed,
    Completed,
    Decided,
    Dropped,
    Failed,
    Withdrawn,
)

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.core.legacy import Legacy
    from bequest.core.steps import StepChoice
    from bequest.engines.base import Plan
    from bequest.protocol.events import Arrival, Effect, Handover

# A checkpoint that is adopted is one of the latest; older ones need not be explained any more.
_REMEMBERED = 8


class Ledger:
    """Everything worth recording, in order.

    Attributes:
        departures: who left, and who was lost.
        changes: who came, came back or was forgotten.
        steps: the step, and every time it was lowered.
        lost: the original nodes that nobody remembers.
        receipts: node -> the memory of its loss, as it was handed over or adopted.
        dropped: the messages that were not acted upon, as (receiver, record).
        failures: who could not go on, and why, until its loss is recorded.
    """

    def __init__(self, plan: Plan, first: StepChoice) -> None:
        self._plan = plan
        self._hindsight = Hindsight(plan.problem, plan.counted[0], plan.optima, 0)
        self.departures: list[DepartureRecord] = []
        self.changes: list[ChangeRecord] = []
        self.steps: list[StepChoice] = [first]
        self.lost: tuple[int, ...] = ()
        self.receipts: dict[int, Legacy] = {}
        self.dropped: list[tuple[int, Dropped]] = []
        self.failures: dict[int, str] = {}
        self._latest: dict[int, Vector] = {}
        self._checkpoints: dict[int, dict[int, Checkpointed]] = {}
        self._prepared: dict[tuple[int, int], Decided | Adopted | Withdrawn] = {}

    def observe(self, process: int, effect: Effect) -> None:
        """Take note of one effect."""
        if isinstance(effect, Completed):
            self.remember(process, effect.x)
        elif isinstance(effect, Decided):
            self._prepared[effect.epoch, process] = effect
        elif isinstance(effect, Adopted | Withdrawn):
            self._prepared[effect.epoch, effect.node] = effect
        elif isinstance(effect, Checkpointed):
            kept = self._checkpoints.setdefault(process, {})
            kept[effect.round] = effect
            if len(kept) > _REMEMBERED:
                del kept[min(kept)]
        elif isinstance(effect, Dropped):
            self.dropped.append((process, effect))
        elif isinstance(effect, Failed):
            self.failures[process] = effect.why

    def remember(self, process: int, x: Vector) -> None:
        """Keep the latest iterate of a node, in case that it is lost."""
        self._latest[process] = x

    def commit(self, change: Committed) -> None:
        """Record a change that has come into force."""
        for handover in change.handovers:
            self._left(change, handover)
        for adoption in change.adoptions:
            self._crashed(change, adoption)
        if change.arrival is not None:
            self._arrived(change, change.arrival)
        if change.step is not None:
            self.steps.append(change.step)
        self.lost = change.lost
        self._prepared = {key: p for key, p in self._prepared.items() if key[0] > change.epoch}
        if change.round in self._plan.counted and change.arrival is not None:
            plan, t = self._plan, change.round
            self._hindsight = Hindsight(plan.problem, plan.counted[t], plan.optima, t)

    def _left(self, change: Committed, handover: Handover) -> None:
        decided = self._prepared[change.epoch, handover.node]
        assert isinstance(decided, Decided)  # noqa: S101 - leavers decide before anything begins
        bequest, farewell = decided.bequest, decided.farewell
        self._keep_receipt(handover.node, bequest.legacy)
        self.departures.append(
            DepartureRecord(
                node=handover.node,
                round=decided.round,
                will=decided.will,
                choice=bequest.choice,
                why=bequest.why,
                heir=None if farewell is None else handover.heir,
                vectors=0.0 if farewell is None else farewell.vectors,
                bytes=0 if farewell is None else farewell.nbytes,
                bounds=dict(bequest.bounds),
                predicted=dict(bequest.predicted),
                hindsight=self._hindsight.displacements(handover.node, bequest.branches),
                x=decided.x,
                legacy=bequest.legacy,
                anchor=bequest.anchor,
                passed_on=decided.passed_on,
                blur=decided.blur,
                lost=decided.forgets,
                exact_handoff=True,
                bridges=handover.bridges,
            )
        )

    def _crashed(self, change: Committed, adoption: Adoption) -> None:
        adopted = self._prepared.get((change.epoch, adoption.node))
        checkpoint = adopted.round if isinstance(adopted, Adopted) else None
        made = self._checkpoints.get(adoption.node, {}).get(
            -1 if checkpoint is None else checkpoint
        )
        explained = made.bequest if made is not None and adopted is not None else None
        # Of its own life: whoever comes back and is lost again has not failed for the same reason.
        failure = self.failures.pop(adoption.node, None)
        if explained is None:
            why = "nobody had a checkpoint of it" if adopted is None else "it had no will"
            explained = Bequest("none", why)
        own = adopted.own if isinstance(adopted, Adopted) else None
        inherited = adopted.inherited if isinstance(adopted, Adopted) else None
        parts = [part for part in (own, inherited) if part is not None]
        will = self._plan.wills.get(adoption.node)
        legacy = None if own is None or own.is_zero else own
        self._keep_receipt(adoption.node, legacy)
        self.departures.append(
            DepartureRecord(
                node=adoption.node,
                round=change.round,
                will="none" if will is None else will.title,
                choice=explained.choice,
                why=explained.why if failure is None else failure,
                heir=adoption.adopter,
                vectors=sum((part.vectors for part in parts), 0.0),
                bytes=sum(part.nbytes for part in parts),
                bounds=dict(explained.bounds),
                predicted=dict(explained.predicted),
                hindsight=self._hindsight.displacements(adoption.node, explained.branches),
                x=self._latest.get(adoption.node, np.array(self._plan.start[adoption.node])),
                legacy=legacy,
                anchor=explained.anchor,
                passed_on=() if inherited is None else tuple(inherited.lineage),
                blur=None,
                lost=adoption.lost,
                exact_handoff=True,
                bridges=adoption.bridges,
                crashed=True,
                failed=failure is not None,
                checkpoint=None if made is None or made.bequest is None else checkpoint,
            )
        )

    def _arrived(self, change: Committed, arrival: Arrival) -> None:
        withdrawn = self._prepared.get((change.epoch, arrival.node))
        exact = not isinstance(withdrawn, Withdrawn) or withdrawn.exact
        self.receipts.pop(arrival.node, None)
        self.failures.pop(arrival.node, None)
        self.changes.append(
            ChangeRecord.of(
                arrival.purpose,
                arrival.node,
                change.round,
                holder=arrival.holder,
                sponsor=arrival.sponsor,
                neighbours=arrival.neighbours,
                exact=exact,
            )
        )

    def end(self, members: set[int], t: int) -> None:
        """Record that after round t everybody who was left is lost, and everything with them."""
        gone = tuple(sorted(members))
        counted = self._plan.counted[max(t for t in self._plan.counted)]
        adoptions = tuple(Adoption(node, None, (node,), ()) for node in gone)
        lost = tuple(sorted(counted))
        self.commit(Committed(-1, t, False, (), (), adoptions, None, None, lost))

    def _keep_receipt(self, node: int, legacy: Legacy | None) -> None:
        if legacy is None:
            self.receipts.pop(node, None)
        else:
            self.receipts[node] = legacy
