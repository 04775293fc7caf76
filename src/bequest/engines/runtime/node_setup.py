"""From a plan to what real nodes begin with, and from what they end with to an outcome.

Whatever carries real nodes (a virtual network, a cluster) founds them and takes stock of them in
the same way; that is what stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import mixing
from bequest.core.arrays import EPSILON, frozen
from bequest.engines.base import first_pace
from bequest.errors import InvalidPlacement
from bequest.model.graph import epoch_edges
from bequest.model.outcome import Outcome, Status
from bequest.protocol.node import Node
from bequest.protocol.steward import Charter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bequest.core.arrays import Vector
    from bequest.core.legacy import Legacy
    from bequest.core.methods import Method
    from bequest.core.steps import StepChoice
    from bequest.engines.runtime.ledger import Ledger
    from bequest.engines.runtime.round_recorder import RoundRecorder
    from bequest.model.objectives.base import Objective
    from bequest.model.plan import Plan
    from bequest.model.wills import Setting, Will
    from bequest.protocol.messages import Purpose


@dataclass(frozen=True, slots=True, eq=False)
class NodeSetup:
    """Everything that one node begins with, its private loss included; see ``Node``."""

    ident: int
    objective: Objective
    method: Method
    setting: Setting
    start: Vector
    will: Will | None
    host: str
    checkpoint_every: int | None
    purpose: Purpose | None = None
    known: tuple[int, ...] = ()
    receipt: Legacy | None = None
    incarnation: int = 0

    def build(self) -> Node:
        """Return the node."""
        return Node(
            self.ident,
            self.objective,
            method=self.method,
            setting=self.setting,
            start=self.start,
            will=self.will,
            host=self.host,
            checkpoint_every=self.checkpoint_every,
            purpose=self.purpose,
            known=self.known,
            receipt=self.receipt,
            incarnation=self.incarnation,
        )


@dataclass(frozen=True, slots=True, eq=False)
class FinalState:
    """Where a node is when the run is over.

    Attributes:
        ident: the node.
        x: its iterate.
        inherited: what it remembers of others.
        strength: the least curvature of what it minimises, what it inherited included.
        stiffness: likewise the largest.
        precision: the relative rounding of its loss.
    """

    ident: int
    x: Vector
    inherited: Legacy
    strength: float
    stiffness: float
    precision: float

    @classmethod
    def of(cls, node: Node) -> FinalState:
        """Return where this node is."""
        own, more = node.objective.curvature, node.inherited.curvature
        low, high = own.a + more[0], own.b + more[1]
        return cls(node.ident, node.x, node.inherited, low, high, node.objective.precision)


def complete_placement(placement: Mapping[int, str], n: int) -> dict[int, str]:
    """Return node -> the name of its host, if each of the n nodes has one and nothing else does.

    Raises:
        InvalidPlacement: it is not so.
    """
    missing = [node for node in range(n) if node not in placement]
    unknown = [node for node in placement if node not in range(n)]
    nameless = [node for node, host in placement.items() if str(host) == ""]
    if nameless and not unknown:
        raise InvalidPlacement(
            f"The host of node {nameless[0]} has no name.", remedy="Give every host a name."
        )
    if missing or unknown:
        odd = f"names node {unknown[0]!r}" if unknown else f"leaves out node {missing[0]}"
        raise InvalidPlacement(
            f"The placement {odd}.", remedy=f"Give each of the nodes 0..{n - 1} a host."
        )
    return {node: str(placement[node]) for node in range(n)}


def opening_pace(plan: Plan) -> StepChoice:
    """Return the pace that the first members begin with."""
    nodes, edges = epoch_edges(plan.network())
    return first_pace(plan, nodes, mixing.metropolis(edges, nodes.size))


def charter_of(plan: Plan, first: StepChoice) -> Charter:
    """Return what every steward of this run goes by."""
    return Charter(
        network={node: frozenset(others) for node, others in plan.network().items()},
        stops=tuple(sorted({*plan.schedule, plan.rounds})),
        buddies=0 if plan.checkpoint_every is None else plan.buddies,
        method=plan.method,
        pace=first.value,
        crashes={t: changes.crashes for t, changes in plan.schedule.items()},
        arrivals={
            t: (*changes.forgets, *changes.returns, *changes.joins)
            for t, changes in plan.schedule.items()
        },
        forgets={t: changes.forgets for t, changes in plan.schedule.items()},
        modulus=plan.modulus,
        shared_floor=plan.shared_floor,
        recallable=frozenset(filter(plan.may_recall, range(plan.problem.n))),
    )


def setup_of(
    plan: Plan,
    ident: int,
    *,
    host: str,
    pace: float,
    t: int = 0,
    purpose: Purpose | None = None,
    receipt: Legacy | None = None,
    incarnation: int = 0,
) -> NodeSetup:
    """Return what a node begins with that comes after round t.

    Args:
        plan: the run.
        ident: which node.
        host: the host it is on, as "machine/host" where hosts share machines.
        pace: the one number that all nodes agree on.
        t: when.
        purpose: what it wants, if it is not there from the start.
        receipt: what is remembered of it, if it has been there before.
        incarnation: how often it has been there before.
    """
    will = plan.wills.get(ident)
    if will is not None and plan.lacks_pilot(will):
        will = None  # it does not leave as planned, and has nothing to write a checkpoint with
    return NodeSetup(
        ident,
        plan.problem.objective(ident),
        plan.method,
        plan.setting(ident, will, pace=pace, target=t),
        plan.start[ident],
        will,
        host,
        plan.checkpoint_every if plan.buddies else None,
        purpose,
        plan.known.get(ident, ()),
        receipt,
        incarnation,
    )


def planned_crashes(plan: Plan) -> set[tuple[int, int]]:
    """Return the crashes of the plan, as (node, the round after which it crashes)."""
    return {(node, t) for t, changes in plan.schedule.items() for node in changes.crashes}


def departure_after(plan: Plan, node: int, t: int) -> int | None:
    """Return the round after which a node that is there after round t is to leave, if it is."""
    planned = (s for s, changes in plan.schedule.items() if node in changes.departures)
    return min((s for s in planned if s > t), default=None)


def comers(plan: Plan, t: int) -> Iterable[tuple[Purpose, int]]:
    """Yield the nodes that come from outside at the end of round t, in that order."""
    changes = plan.schedule[t]
    order: Sequence[tuple[Purpose, tuple[int, ...]]] = (
        ("forget", changes.forgets),
        ("return", changes.returns),
        ("join", changes.joins),
    )
    for purpose, idents in order:
        for ident in idents:
            yield purpose, ident


def outcome_of(
    plan: Plan, recorder: RoundRecorder, ledger: Ledger, states: Sequence[FinalState]
) -> Outcome:
    """Return what is to be reported; ``states`` are the members' at the end, ascending."""
    recorder.catch_up()  # it may have ended before its time
    if not states:
        # Before an epoch has begun its members are the nodes that were to be there.
        members = recorder.members or set(range(plan.problem.n)) - plan.absent
        ledger.end(members, recorder.measured)
    X = np.array([node.x for node in states]).reshape(-1, plan.problem.dim)
    settled = recorder.is_bounded and recorder.metrics.settled(
        strength=sum(node.strength for node in states),
        stiffness=sum(node.stiffness for node in states),
        size=float(np.abs(X).max(initial=0.0)),
        precision=max((node.precision for node in states), default=EPSILON),
    )
    status = Status.DIVERGED
    if recorder.is_bounded:
        status = Status.CONVERGED if settled else Status.UNFINISHED
    if not states and recorder.is_bounded:
        status = Status.LOST
    return Outcome(
        status=status,
        trajectory=recorder.metrics.trajectory(),
        departures=tuple(ledger.departures),
        changes=tuple(ledger.changes),
        survivors=tuple(node.ident for node in states),
        x=frozen(X),
        inherited={n.ident: n.inherited for n in states if not n.inherited.is_zero},
        lost=tuple(sorted(ledger.lost)),
        steps=tuple(ledger.steps),
    )
