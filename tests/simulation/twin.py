"""The same history once more, as rows of arrays: what happened must be what the vector engine does.

That is a question only where every node completed every round: when a node is lost by accident,
the others go on from wherever they were, and the vector engine knows nothing of that.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np

import bequest as bq
from bequest.core import topology
from bequest.model.events import Changes
from bequest.model.plan import Plan
from bequest.protocol.membership_register import domains_of

if __package__:
    from simulation.books import Violation
else:
    from books import Violation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bequest.model.outcome import Outcome
    from bequest.model.wills import Bequest, Estate
    from bequest.protocol.events import Committed

_CLOSE = 1e-9
# In the order in which they happen at the end of a round.
_KINDS = ("crashes", "departures", "forgets", "returns", "joins")


# --- wills that remember, and one that recalls ---------------------------------------------------


@dataclass(frozen=True)
class Noting(bq.wills.Will):
    """A will that notes from what it decided, and what: (node, round) -> all of it, in order."""

    inner: bq.wills.Will
    notes: dict[tuple[int, int], list[tuple[Estate, Bequest]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    label = "noting"

    @property
    def title(self):
        return self.inner.title

    @property
    def needs_history(self):
        return self.inner.needs_history

    @property
    def by_gradients(self):
        return self.inner.by_gradients

    @property
    def forgets(self):
        return self.inner.forgets

    def decide(self, estate):
        decided = self.inner.decide(estate)
        self.notes[estate.node, estate.round].append((estate, decided))
        return decided


@dataclass(frozen=True)
class Recalling(Noting):
    """A will that must be asked what a noting one was asked, and answers as that one did.

    Extrapolations amplify the last digit in which two engines differ; what is extrapolated from is
    compared instead.
    """

    def decide(self, estate):
        differences = []
        for noted, decided in reversed(self.notes[estate.node, estate.round]):
            wrong = _differing(estate, noted)
            if not wrong:
                return decided if self.needs_history else self.inner.decide(estate)
            differences.append(wrong)
        raise Violation(
            f"the will of node {estate.node} was asked something else after round {estate.round}: "
            f"{differences or 'nothing at all'}"
        )


def _differing(one: Estate, other: Estate) -> list[str]:
    """Return in what two estates differ."""
    same = {
        "remaining": one.remaining == other.remaining,
        "x": _is_close(one.x, other.x),
        "z": _is_close(one.z, other.z),
        "start": np.array_equal(one.start, other.start),
        "step": one.setting.step == other.setting.step,
        "recent": _same_path(one, other),
        "carried": (one.carried is None) == (other.carried is None),
    }
    return [f"{name}: not as if" for name, equal in same.items() if not equal]


def _same_path(one: Estate, other: Estate) -> bool:
    if one.recent is None or other.recent is None:
        return one.recent is other.recent
    return _is_close(one.recent.X, other.recent.X) and _is_close(one.recent.Z, other.recent.Z)


def _is_close(one: np.ndarray, other: np.ndarray, scale: float = 1.0) -> bool:
    if np.shape(one) != np.shape(other):
        return False
    size = scale + np.abs(other).max(initial=0.0)
    return bool((np.abs(np.subtract(one, other)) <= _CLOSE * size).all())


# --- the history ---------------------------------------------------------------------------------


def history(changes: Sequence[Committed], until: Mapping[int, int]) -> dict[int, Changes] | None:
    """Return what happened as a schedule; None if one cannot say it.

    In a schedule every node is lost at once after a round, and every node leaves at once, and that
    comes before any node comes; and a step is lowered once, after all of that.

    Args:
        changes: the epochs that began, in order.
        until: epoch -> the round after which every node stopped; at once, if more was to come.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    last: dict[int, Committed] = {}
    for change in changes[1:]:
        now = _happened(change)
        earlier = found.setdefault(change.round, [])
        if now and (change.round == 0 or [*earlier, *now] != sorted({*earlier, *now})):
            return None
        kinds = {kind for kind, _ in now}
        if kinds & {0, 1} and kinds & {kind for kind, _ in earlier}:
            return None
        before = last.get(change.round)
        if now and earlier and before is not None and until[before.epoch] != change.round:
            return None
        earlier += now
        last[change.round] = change
    return {
        t: Changes(*(tuple(n for k, n in happened if k == kind) for kind in range(len(_KINDS))))
        for t, happened in sorted(found.items())
        if t
    }


def _happened(change: Committed) -> list[tuple[int, int]]:
    """Return what one epoch began with, as (which kind, who)."""
    gone = [(0, a.node) for a in change.adoptions] + [(1, h.node) for h in change.handovers]
    if change.arrival is None:
        return sorted(gone)
    kind = {"forget": 2, "return": 3, "join": 4}[change.arrival.purpose]
    return [(kind, change.arrival.node)]


def replanned(plan: Plan, schedule: Mapping[int, Changes], **fields: object) -> Plan:
    """Return the plan of another schedule."""
    counted, everybody = {0: plan.counted[0]}, plan.counted[0]
    for t, changes in sorted(schedule.items()):
        then = everybody.difference(changes.forgets).union(changes.joins, changes.returns)
        if then != everybody:
            counted[t] = everybody = then
    kept = {name: getattr(plan, name) for name in Plan.__dataclass_fields__}
    return Plan(**{**kept, "schedule": schedule, "counted": counted, **fields})


# --- the comparison ------------------------------------------------------------------------------


def relive(plan: Plan, hosts: Mapping[int, str]) -> Outcome:
    """Let the vector engine, which knows no hosts, choose heirs and buddies as on these."""

    def domains(node: int) -> tuple[str, ...]:
        return domains_of(hosts[node])

    with ExitStack() as stack:
        for choose in (topology.choose_heir, topology.choose_buddies):
            stack.enter_context(mock.patch.dict(choose.__kwdefaults__, domains=domains))
        return bq.engines.Vector().run(plan)


def compare(mine: Outcome, other: Outcome, rounds: int) -> None:
    """Refuse any difference between what the nodes did and what the vector engine does.

    After the last round the vector engine has one change, and the nodes may have had several: a
    step that was lowered in between has no round to go with.
    """
    for name in ("status", "survivors", "lost", "changes"):
        if getattr(mine, name) != getattr(other, name):
            ours, theirs = getattr(mine, name), getattr(other, name)
            raise Violation(f"{name}: {ours} of the nodes, {theirs} of the vector engine")
    for one, two in zip(mine.departures, other.departures, strict=True):
        if _story(one) != _story(two):
            raise Violation(f"{_story(one)} of the nodes, {_story(two)} of the vector engine")
        _compare_legacies(one.legacy, two.legacy, f"the legacy of {one.node}")
    ours, theirs = ([(s.since, s.why) for s in o.steps if s.since < rounds] for o in (mine, other))
    if ours != theirs:
        raise Violation(f"{mine.steps} of the nodes, {other.steps} of the vector engine")
    if not _is_close(mine.x, other.x):
        raise Violation(f"the nodes are at {mine.x}, the vector engine is at {other.x}")
    if mine.inherited.keys() != other.inherited.keys():
        raise Violation(f"{mine.inherited} of the nodes, {other.inherited} of the vector engine")
    for node, legacy in mine.inherited.items():
        _compare_legacies(legacy, other.inherited[node], f"what {node} has inherited")
    for name in ("gradient_norm", "disagreement"):
        ours, theirs = getattr(mine.trajectory, name), getattr(other.trajectory, name)
        if not _is_close(ours, theirs):
            raise Violation(f"{name}: {ours} of the nodes, {theirs} of the vector engine")


def _story(record: bq.DepartureRecord) -> tuple:
    return (
        record.node, record.round, record.will, record.choice, record.heir, record.vectors,
        record.bytes, record.passed_on, record.lost, record.bridges, record.crashed,
        record.checkpoint, record.exact_handoff,
    )  # fmt: skip


def _compare_legacies(one: bq.Legacy | None, other: bq.Legacy | None, whose: str) -> None:
    if one is None or other is None:
        same = one is other
    else:
        same = (
            (one.lineage, one.blended) == (other.lineage, other.blended)
            and _is_close(one.hessian(), other.hessian())
            and _is_close(one.p, other.p, 10.0)
            and _is_close(np.array(one.c), np.array(other.c), 100.0)
        )
    if not same:
        raise Violation(f"{whose} is {one} of the nodes, {other} of the vector engine")
