"""From what nodes and the steward report to the records of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.core import recall
from bequest.core.legacy import Legacy
from bequest.model.outcome import ChangeRecord, DepartureRecord
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
    Recalled,
    Withdrawn,
)

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.core.steps import StepChoice
    from bequest.model.plan import Plan
    from bequest.protocol.events import Arrival, Effect, Handover

_NO_CHECKPOINT = "no node had a checkpoint of it"
# A checkpoint that is adopted is one of the latest; older ones need not be explained any more.
_REMEMBERED = 8


class Ledger:
    """Everything worth recording, in order.

    Attributes:
        departures: who left, and who was lost.
        changes: who came, came back or was forgotten.
        steps: the step, and every time it was lowered.
        lost: the original nodes that no node remembers.
        receipts: node -> the memory of its loss, as it was handed over or adopted.
        dropped: the messages that were not acted upon, as (receiver, record).
        failures: who could not go on, and why, until its loss is recorded.
    """

    def __init__(self, plan: Plan, first: StepChoice) -> None:
        self._plan = plan
        self._hindsight = plan.hindsight(0)
        self.departures: list[DepartureRecord] = []
        self.changes: list[ChangeRecord] = []
        self.steps: list[StepChoice] = [first]
        self.lost: tuple[int, ...] = ()
        self.receipts: dict[int, Legacy] = {}
        self.dropped: list[tuple[int, Dropped]] = []
        self.failures: dict[int, str] = {}
        self._latest: dict[int, Vector] = {}
        self._checkpoints: dict[int, dict[int, Checkpointed]] = {}
        self._prepared: dict[tuple[int, int], Decided | Adopted | Recalled | Withdrawn] = {}
        # (epoch, node, its receipt before that epoch), the latest last
        self._receipts_before: list[tuple[int, int, Legacy | None]] = []

    def observe(self, process: int, effect: Effect) -> None:
        """Take note of one effect."""
        if isinstance(effect, Completed):
            self.remember(process, effect.x)
        elif isinstance(effect, Decided):
            self._prepared[effect.epoch, process] = effect
        elif isinstance(effect, Adopted | Recalled | Withdrawn):
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

    def go_back(self, epoch: int) -> None:
        """Hold the receipts of that epoch: all nodes that have begun a later one are lost.

        What has happened stays on record; but the network remembers again what it did then.
        """
        while self._receipts_before and self._receipts_before[-1][0] > epoch:
            _, node, receipt = self._receipts_before.pop()
            if receipt is None:
                self.receipts.pop(node, None)
            else:
                self.receipts[node] = receipt

    def commit(self, change: Committed) -> None:
        """Record a change that has come into force."""
        for handover in change.handovers:
            self._left(change, handover)
        for adoption in change.adoptions:
            self._crashed(change, adoption)
        if change.arrival is not None:
            self._arrived(change, change.arrival)
        if change.step is not None and change.step.value != self.steps[-1].value:
            self.steps.append(change.step)
        self.lost = change.lost
        self._prepared = {key: p for key, p in self._prepared.items() if key[0] > change.epoch}
        if change.round in self._plan.counted and change.arrival is not None:
            self._hindsight = self._plan.hindsight(change.round)

    def _left(self, change: Committed, handover: Handover) -> None:
        decided = self._prepared[change.epoch, handover.node]
        assert isinstance(decided, Decided)  # noqa: S101 - leavers decide before anything begins
        bequest, farewell = decided.bequest, decided.farewell
        self._keep_receipt(change, handover.node, bequest.legacy)
        self.departures.append(
            DepartureRecord.of_farewell(
                handover.node,
                decided.round,
                bequest,
                self._hindsight,
                will=decided.will,
                heir=None if farewell is None else handover.heir,
                sent=(0.0, 0) if farewell is None else (farewell.vectors, farewell.nbytes),
                x=decided.x,
                passed_on=decided.passed_on,
                blur=decided.blur,
                lost=decided.forgets,
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
        # Of this incarnation only: the next one may be lost for another reason.
        failure = self.failures.pop(adoption.node, None)
        own = inherited = Legacy.zero(self._plan.problem.dim)
        if isinstance(adopted, Recalled):
            explained, own = _recalled(adopted.legacy), adopted.legacy or own
        elif explained is None:
            mingled = f"{_NO_CHECKPOINT}, {recall.MINGLED}"
            lost = mingled if self._plan.may_recall(adoption.node) else _NO_CHECKPOINT
            why = lost if adopted is None else "it had no will"
            explained = Bequest("none", why)
        if isinstance(adopted, Adopted):
            own = own if adopted.own is None else adopted.own
            inherited = inherited if adopted.inherited is None else adopted.inherited
        will = self._plan.wills.get(adoption.node)
        record = DepartureRecord.of_crash(
            adoption.node,
            change.round,
            explained,
            self._hindsight,
            will="none" if will is None else will.title,
            adopter=adoption.adopter,
            own=own,
            inherited=inherited,
            x=self._latest.get(adoption.node, np.array(self._plan.start[adoption.node])),
            lost=adoption.lost,
            bridges=adoption.bridges,
            checkpoint=None if made is None or made.bequest is None else checkpoint,
            failure=failure,
        )
        self._keep_receipt(change, adoption.node, record.legacy)
        self.departures.append(record)

    def _arrived(self, change: Committed, arrival: Arrival) -> None:
        withdrawn = self._prepared.get((change.epoch, arrival.node))
        exact = not isinstance(withdrawn, Withdrawn) or withdrawn.exact
        self._keep_receipt(change, arrival.node, None)
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
        """Record that after round t all nodes that were left are lost, and everything with them."""
        gone = tuple(sorted(members))
        counted = self._plan.counted[max(t for t in self._plan.counted)]
        adoptions = tuple(Adoption(node, None, (node,), ()) for node in gone)
        lost = tuple(sorted(counted))
        self.commit(Committed(-1, t, False, (), (), adoptions, None, None, lost))

    def _keep_receipt(self, change: Committed, node: int, legacy: Legacy | None) -> None:
        self._receipts_before.append((change.epoch, node, self.receipts.pop(node, None)))
        if legacy is not None:
            self.receipts[node] = legacy


def _recalled(legacy: Legacy | None) -> Bequest:
    """Return what the survivors decided about a node that left nothing."""
    if legacy is None:
        return Bequest("none", f"{_NO_CHECKPOINT}, {recall.DOUBTED}")
    return Bequest("recall", f"{_NO_CHECKPOINT}, {recall.TRUSTED}", legacy)
