"""From a plan to what real nodes begin with, and from what they end with to an outcome.

Whatever carries real nodes (a virtual network, a cluster) founds them and takes stock of them in
the same way; that is what stands here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import mixing
from bequest.core.arrays import frozen
from bequest.engines.base import Outcome, first_step
from bequest.errors import InvalidWill
from bequest.model.graph import epoch_edges
from bequest.model.run import Status
from bequest.protocol.node import Node
from bequest.protocol.steward import Charter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bequest.core.arrays import Vector
    from bequest.core.legacy import Legacy
    from bequest.core.steps import StepChoice
    from bequest.engines.base import Plan
    from bequest.engines.film import Film
    from bequest.engines.ledger import Ledger
    from bequest.model.objectives.base import Objective
    from bequest.model.wills import Setting, Will
    from bequest.protocol.messages import Purpose


@dataclass(frozen=True, slots=True, eq=False)
class Seat:
    """Everything that one node begins with, its private loss included; see ``Node``."""

    ident: int
    objective: Objective
    setting: Setting
    start: Vector
    will: Will | None
    host: str
    checkpoint_every: int | None
    purpose: Purpose | None = None
    known: tuple[int, ...] = ()
    receipt: Legacy | None = None
    life: int = 0

    def fill(self) -> Node:
        """Return the node."""
        return Node(
            self.ident,
            self.objective,
            setting=self.setting,
            start=self.start,
            will=self.will,
            host=self.host,
            checkpoint_every=self.checkpoint_every,
            purpose=self.purpose,
            known=self.known,
            receipt=self.receipt,
            life=self.life,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Ending:
    """Where a node is when the run is over.

    Attributes:
        ident: who.
        x: its iterate.
        inherited: what it remembers of others.
        strength: the least curvature of what it minimises, what it inherited included.
        stiffness: likewise the largest.
    """

    ident: int
    x: Vector
    inherited: Legacy
    strength: float
    stiffness: float

    @classmethod
    def of(cls, node: Node) -> Ending:
        """Return where this node is."""
        own, more = node.objective.curvature, node.inherited.curvature
        return cls(node.ident, node.x, node.inherited, own.a + more[0], own.b + more[1])


def check_wills(plan: Plan) -> None:
    """Refuse what only rows of arrays can do."""
    for node, will in plan.wills.items():
        if getattr(will, "handoff", "exact") != "exact":
            raise InvalidWill(
                f'The will of node {node} has handoff="printed".',
                remedy="The printed correction is an ablation for the vector engine; real nodes "
                "keep the invariant.",
            )


def opening_step(plan: Plan) -> StepChoice:
    """Return the step that those who are there at the start begin with."""
    nodes, edges = epoch_edges(plan.network())
    return first_step(plan, nodes, mixing.metropolis(edges, nodes.size))


def charter_of(plan: Plan, first: StepChoice) -> Charter:
    """Return what every steward of this run goes by."""
    return Charter(
        network={node: frozenset(others) for node, others in plan.network().items()},
        stops=tuple(sorted({*plan.schedule, plan.rounds})),
        buddies=0 if plan.checkpoint_every is None else plan.buddies,
        step=first.value,
        adaptive=plan.step is None,
        losses={t: changes.crashes for t, changes in plan.schedule.items()},
        arrivals={
            t: (*changes.forgets, *changes.returns, *changes.joins)
            for t, changes in plan.schedule.items()
        },
    )


def seat_of(
    plan: Plan,
    ident: int,
    *,
    host: str,
    step: float,
    t: int = 0,
    purpose: Purpose | None = None,
    receipt: Legacy | None = None,
    life: int = 0,
) -> Seat:
    """Return what a node begins with that comes after round t.

    Args:
        plan: the run.
        ident: which node.
        host: the host it is on, as "machine/host" where hosts share machines.
        step: everybody's step.
        t: when.
        purpose: what it wants, if it is not there from the start.
        receipt: what is remembered of it, if it has been there before.
        life: how often it has been there before.
    """
    will = plan.wills.get(ident)
    if will is not None and plan.pilot is None and will.needs_pilot_in(plan.problem.regime):
        will = None  # it does not leave as planned, and has nothing to write a checkpoint with
    return Seat(
        ident,
        plan.problem.objective(ident),
        plan.setting(will, step=step, target=t),
        plan.start[ident],
        will,
        host,
        plan.checkpoint_every if plan.buddies else None,
        purpose,
        plan.known.get(ident, ()),
        receipt,
        life,
    )


def departure_after(plan: Plan, node: int, t: int) -> int | None:
    """Return the round after which a node that is there after round t is to leave, if it is."""
    planned = (s for s, changes in plan.schedule.items() if node in changes.departures)
    return min((s for s in planned if s > t), default=None)


def comers(plan: Plan, t: int) -> Iterable[tuple[Purpose, int]]:
    """Yield who comes from outside at the end of round t, in the order in which they do."""
    changes = plan.schedule[t]
    order: Sequence[tuple[Purpose, tuple[int, ...]]] = (
        ("forget", changes.forgets),
        ("return", changes.returns),
        ("join", changes.joins),
    )
    for purpose, idents in order:
        for ident in idents:
            yield purpose, ident


def outcome_of(plan: Plan, film: Film, ledger: Ledger, endings: Sequence[Ending]) -> Outcome:
    """Return what is to be reported; ``endings`` are the members' at the end, ascending."""
    film.catch_up()  # it may have ended before its time
    if not endings:
        # Before an epoch has begun its members are those who were to be there.
        there = film.members or set(range(plan.problem.n)) - plan.absent
        ledger.end(there, film.measured)
    X = np.array([node.x for node in endings]).reshape(-1, plan.problem.dim)
    settled = film.is_bounded and film.gauges.settled(
        strength=sum(node.strength for node in endings),
        stiffness=sum(node.stiffness for node in endings),
        size=float(np.abs(X).max(initial=0.0)),
    )
    status = Status.DIVERGED
    if film.is_bounded:
        status = Status.CONVERGED if settled else Status.UNFINISHED
    if not endings:
        status = Status.LOST
    return Outcome(
        status=status,
        trajectory=film.gauges.trajectory(),
        departures=tuple(ledger.departures),
        changes=tuple(ledger.changes),
        survivors=tuple(node.ident for node in endings),
        x=frozen(X),
        inherited={n.ident: n.inherited for n in endings if not n.inherited.is_zero},
        lost=tuple(sorted(ledger.lost)),
        steps=tuple(ledger.steps),
    )
