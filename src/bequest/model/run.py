"""The frozen result of a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.core.arrays import frozen, norm
from bequest.core.legacy import Legacy
from bequest.errors import Diverged, InvalidObjective, OptimumUnknown
from bequest.model.certify import certify
from bequest.model.objectives.loaded import Loaded
from bequest.model.objectives.network import Network
from bequest.model.outcome import Status
from bequest.model.showing import Shown
from bequest.model.silo_names import called

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.bounds import Pilot
    from bequest.core.certificates import Certificate
    from bequest.core.steps import StepChoice
    from bequest.model.graph import Graph
    from bequest.model.outcome import ChangeRecord, DepartureRecord, Outcome, Trajectory
    from bequest.model.plan import Plan
    from bequest.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Run(Shown):
    """What came out of ``bequest.solve``: the plan, and what the engine reported.

    Its arrays are read-only. ``provenance`` has the versions and settings to run it again.
    """

    plan: Plan
    outcome: Outcome
    provenance: Mapping[str, str]

    @property
    def problem(self) -> Problem:
        """What was solved."""
        return self.plan.problem

    @property
    def graph(self) -> Graph:
        """On which network."""
        return self.plan.graph

    @property
    def pilot(self) -> Pilot | None:
        """The certificate of the network's error, where a will needed one."""
        return self.plan.pilot

    @property
    def status(self) -> Status:
        """How it ended."""
        return self.outcome.status

    @property
    def trajectory(self) -> Trajectory:
        """One number per round of everything that was measured."""
        return self.outcome.trajectory

    @cached_property
    def departures(self) -> tuple[DepartureRecord, ...]:
        """What happened at each departure and crash, in order; with the nodes' names, if any."""
        names, records = self.problem.names, self.outcome.departures
        return tuple(one.with_names(names) for one in records) if names else records

    @cached_property
    def changes(self) -> tuple[ChangeRecord, ...]:
        """What happened when a node returned, joined or was forgotten, in order."""
        names, records = self.problem.names, self.outcome.changes
        return tuple(one.with_names(names) for one in records) if names else records

    @property
    def survivors(self) -> tuple[int, ...]:
        """The ids that are left, ascending."""
        return self.outcome.survivors

    @property
    def x(self) -> Matrix:
        """The survivors' iterates, one row each, in the order of ``survivors``."""
        return self.outcome.x

    @property
    def inherited(self) -> Mapping[int, Legacy]:
        """Survivor -> what it inherited; survivors that inherited nothing are not in it."""
        return self.outcome.inherited

    @property
    def lost(self) -> tuple[int, ...]:
        """The original nodes that no node remembers, ascending."""
        return self.outcome.lost

    @property
    def steps(self) -> tuple[StepChoice, ...]:
        """The step and why, and every time it was lowered."""
        return self.outcome.steps

    @property
    def error(self) -> Vector:
        """error[t]: distance of the worst node alive after round t to the optimum of ALL the data.

        All the data that counts by then: see ``optima``. ``inf`` from the round on at which a run
        diverged.
        """
        if self.trajectory.error is None:
            raise self.plan.optima.unknown
        return self.trajectory.error

    @property
    def invariant_gap(self) -> Vector:
        """|sum z - sum grad h| per round: zero but for rounding (prop:invariant)."""
        return self.trajectory.invariant_gap

    @property
    def optimum(self) -> Vector:
        """x*: the optimum of ALL the data, leavers included, that counts at the end.

        Computed now, at any cost, if the run did not.
        """
        return self.optima[max(self.optima)]

    @property
    def optima(self) -> Mapping[int, Vector]:
        """Round -> the optimum aimed at from its end on, beginning with 0.

        It moves when a node joins or is forgotten. Computed like ``optimum``.
        """
        return self.plan.optima.ask()

    @property
    def step(self) -> float:
        """The step in force at the end."""
        return self.steps[-1].value

    @property
    def rounds(self) -> int:
        """How many rounds were asked for."""
        return self.trajectory.invariant_gap.size - 1

    @cached_property
    def limit(self) -> Vector:
        """Where the survivors go: ``surrogate_minimiser``.

        NaN if the run diverged, or if its method is not exact (DGD), which ends beside it.
        """
        if self.status is Status.DIVERGED or not self.plan.method.is_exact:
            return frozen(np.full(self.problem.dim, np.nan))
        return self.surrogate_minimiser

    @cached_property
    def surrogate_minimiser(self) -> Vector:
        """Argmin of the survivors' losses and legacies, whether or not the run gets there.

        Paper: eq:surrogate.
        """
        if not self.survivors:
            raise OptimumUnknown(
                "No node is left, so nothing is minimised any more.",
                remedy="Keep checkpoints with more buddies, on other hosts.",
            )
        memory = sum(self.inherited.values(), Legacy.zero(self.problem.dim))
        centre = self.x.mean(axis=0) if self.status is not Status.DIVERGED else None
        return frozen(self.problem.among(self.survivors).minimiser(memory, start=centre))

    @property
    def model(self) -> Any:  # noqa: ANN401 - what the framework calls its parameters
        """The survivors' mean, in the form that the framework of their models has for it.

        Raises:
            InvalidObjective: their losses are no models.
        """
        loss = self.problem.objective(self.survivors[0]) if self.survivors else None
        loss = loss.load() if isinstance(loss, Loaded) else loss
        if not isinstance(loss, Network):
            raise InvalidObjective(
                "The nodes hold no model of a framework.",
                remedy="Take the coefficients: run.x has a row per survivor.",
            )
        return loss.model(self.x.mean(axis=0))

    @property
    def limit_error(self) -> float:
        """Distance of the limit to the optimum of ALL the data, which no round makes up for.

        NaN if the run diverged.
        """
        return norm(self.limit - self.optimum)

    @cached_property
    def certificate(self) -> Certificate:
        """What the theorems promise for this run, with their premises checked on it."""
        return certify(self)

    def raise_for_status(self) -> Run:
        """Return the run, or raise Diverged if it did, or if no node is left."""
        if self.status is Status.DIVERGED:
            raise Diverged(
                f"The run diverged with step {self.step:.3g}.",
                remedy="Use a smaller step, or step=None to have one chosen; "
                "cap the weight of PointOnly wills.",
            )
        if self.status is Status.LOST:
            first = next((r for r in self.departures if r.failed), self.departures[-1])
            raise Diverged(
                "No node is left, and nothing is remembered: "
                f"{called(first.node, self.problem.names)} was lost after round {first.round}, "
                f"{first.why}.",
                remedy="Use a smaller step if a gradient was not finite; checkpoints and buddies "
                "let others remember a node that fails.",
            )
        return self

    def __repr__(self) -> str:
        changes = f", changes={len(self.changes)}" if self.changes else ""
        lost = f", forgotten={list(self.lost)}" if self.lost else ""
        end = "" if self.trajectory.error is None else f", error={self.trajectory.error[-1]:.3g}"
        return (
            f"Run({self.status}, rounds={self.rounds}, survivors={len(self.survivors)}, "
            f"departures={len(self.departures)}{lost}{changes}{end})"
        )
