"""The contract between ``solve`` and whatever carries the nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.bounds import Pilot
    from bequest.core.legacy import Legacy
    from bequest.core.steps import StepChoice
    from bequest.model.graph import Graph
    from bequest.model.problem import Problem
    from bequest.model.run import DepartureRecord, Status, Trajectory
    from bequest.model.wills import Will

    Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that has been validated; an engine need not check anything again.

    Attributes:
        problem: everybody's losses.
        graph: who talks to whom at the start.
        schedule: round -> who leaves at its end, ascending.
        wills: leaver -> its will.
        rounds: how many.
        step: a fixed step, or None to have one chosen and, where it must be, lowered.
        start: one row per node.
        pilot: for the wills that need one.
        optimum: x*, to measure the error against; None if it is not known.
    """

    problem: Problem
    graph: Graph
    schedule: Mapping[int, tuple[int, ...]]
    wills: Mapping[int, Will]
    rounds: int
    step: float | None
    start: Matrix
    pilot: Pilot | None
    optimum: Vector | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an engine reports."""

    status: Status
    trajectory: Trajectory
    departures: tuple[DepartureRecord, ...]
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
