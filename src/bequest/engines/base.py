"""The contract between ``solve`` and whatever carries the nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from bequest.core import mixing, steps
from bequest.core.arrays import frozen
from bequest.core.steps import StepChoice
from bequest.model.wills import Estate, Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scipy.sparse import csr_array

    from bequest.core.anchors import Prediction
    from bequest.core.arrays import Indices, Matrix, Vector
    from bequest.core.bounds import Pilot
    from bequest.core.history import Chapter
    from bequest.core.legacy import Legacy
    from bequest.core.topology import Network
    from bequest.model.events import Changes
    from bequest.model.graph import Graph
    from bequest.model.optima import Optima
    from bequest.model.problem import Problem
    from bequest.model.run import ChangeRecord, DepartureRecord, Status, Trajectory
    from bequest.model.wills import Will

    Progress = Callable[[int], None]


# Looking for a good step may take this part of the gradients of the run.
_FRACTION = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that has been validated; an engine need not check anything again.

    Attributes:
        problem: everybody's losses.
        graph: who talks to whom, if everybody is there.
        schedule: round -> what happens at its end.
        wills: node -> its will; everybody who leaves in good order has one.
        rounds: how many.
        step: a fixed step, or None to have one chosen and, where it must be, lowered.
        start: one row per node.
        pilot: for the wills that need one.
        buddies: how many others keep a node's checkpoints.
        checkpoint_every: so many rounds lie between two checkpoints; None for no checkpoints.
        absent: who is not there at the start.
        known: node that joins or returns -> whom it would talk to, ascending.
        counted: round -> whose losses make up the target from its end on; 0 for the start.
        optima: likewise -> x*, to measure the error against; computed when first asked for.
    """

    problem: Problem
    graph: Graph
    schedule: Mapping[int, Changes]
    wills: Mapping[int, Will]
    rounds: int
    step: float | None
    start: Matrix
    pilot: Pilot | None
    buddies: int
    checkpoint_every: int | None
    absent: frozenset[int]
    known: Mapping[int, tuple[int, ...]]
    counted: Mapping[int, frozenset[int]]
    optima: Optima

    def network(self) -> Network:
        """Return who talks to whom at the start, as a mapping that the caller may change."""
        network = self.graph.network()
        for node in self.absent:
            for other in network.pop(node):
                if other in network:
                    network[other].discard(node)
        return network

    def setting(self, will: Will | None, *, step: float, target: int) -> Setting:
        """Return what everybody knows, as far as this will, if there is one, may know it.

        ``target`` is the round after which what is aimed at was last changed.
        """
        return Setting(
            n=self.problem.n,
            mu=self.problem.mu,
            kappa=self.problem.kappa,
            step=step,
            pilot=self.pilot if will is not None and will.needs_pilot else None,
            optimum=self.optima.at(target) if will is not None and will.needs_oracle else None,
        )

    def estate(
        self,
        node: int,
        *,
        round: int,  # noqa: A002 - the word for it, everywhere
        remaining: int,
        x: Vector,
        z: Vector,
        step: float,
        target: int,
        recent: Chapter | None = None,
        carried: Prediction | None = None,
    ) -> Estate:
        """Return what a node with a will has when it decides, as far as the will may know it."""
        will = self.wills[node]
        return Estate(
            node=node,
            round=round,
            remaining=remaining,
            objective=self.problem.objective(node),
            x=frozen(x),
            z=frozen(z),
            start=frozen(self.start[node]),
            setting=self.setting(will, step=step, target=target),
            recent=recent,
            carried=carried,
            by_gradients=will.by_gradients,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an engine reports."""

    status: Status
    trajectory: Trajectory
    departures: tuple[DepartureRecord, ...]
    changes: tuple[ChangeRecord, ...]
    survivors: tuple[int, ...]
    x: Matrix
    inherited: Mapping[int, Legacy]
    lost: tuple[int, ...]
    steps: tuple[StepChoice, ...]


class Engine(Protocol):
    """Carries out plans."""

    def run(self, plan: Plan, progress: Progress | None = None) -> Outcome:
        """Carry out the plan; ``progress`` hears of rounds as they are completed."""
        ...


def first_step(plan: Plan, nodes: Indices, weights: csr_array) -> StepChoice:
    """Return the step to begin with, for these nodes (ascending) with these weights."""
    if plan.step is not None:
        return StepChoice(plan.step, 0, "as given")
    stiffest = float(plan.problem.b[nodes].max())
    smallest = mixing.smallest_eigenvalue(weights)
    gap = mixing.spectral_gap(weights, rough=True)
    safe = steps.safe_step(smoothness=stiffest, smallest_eigenvalue=smallest)
    losses = plan.problem.among(nodes)
    modulus = losses.smallest_mean_curvature(
        plan.start[nodes].mean(axis=0), gradients=_FRACTION * plan.rounds
    )
    balanced = steps.balanced_step(smoothness=stiffest, modulus=modulus, gap=gap)
    if safe <= balanced:
        return StepChoice(
            safe, 0, f"half of what is stable at smoothness {stiffest:.4g} on this graph"
        )
    return StepChoice(
        balanced,
        0,
        f"balances the descent of the mean (curvature {modulus:.4g}) and the mixing of the "
        f"graph (gap {gap:.3g}); stable up to {2 * safe:.3g}",
    )
