"""The problems and networks that several studies share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bequest.core.arrays import Vector, norm
from bequest.core.bounds import Pilot
from bequest.core.legacy import Legacy
from bequest.core.methods import GradientTracking
from bequest.engines.base import Engine
from bequest.model import events, graphs, problems, wills
from bequest.model.events import Departure
from bequest.model.graph import Graph
from bequest.model.objectives import Objective
from bequest.model.problem import Problem
from bequest.model.problems import Basis
from bequest.model.run import Run
from bequest.model.wills import Will
from bequest.solver import calibrate, solve

NODES, DIM, CHORDS = 20, 10, 15
SEEDS = 20
# Rounds between two departures of tab:stress.
GAP = 40
# A curvature may leave its range by this fraction of the largest one: rounding.
ROUNDING = 1e-9

# By the names of the paper. Its experiments select Legacy-GT's anchors by oracle distances.
PAPER: dict[str, Will] = {
    "classic": wills.Classic(),
    "GT-C": wills.Consensus(),
    "GT-M": wills.LocalTrack(),
    "GT-P": wills.PointOnly(),
    "Legacy-GT": wills.Adaptive(rule="oracle"),
}


@dataclass(frozen=True)
class Setup:
    """A problem on a network with a step; departures and wills are up to the study."""

    problem: Problem
    graph: Graph
    step: float

    def run(
        self,
        will: Will,
        leaving: Sequence[Departure],
        *,
        rounds: int,
        pilot: Pilot | None = None,
        engine: Engine | None = None,
    ) -> Run:
        """Carry it out."""
        return solve(
            self.problem,
            self.graph,
            departures=leaving,
            will=will,
            method=GradientTracking(step=self.step),
            rounds=rounds,
            pilot=pilot,
            engine=engine,
        )

    def pilot(self, rounds: int) -> Pilot:
        """Measure the network's certificate, once for all runs of a study."""
        method = GradientTracking(step=self.step)
        return calibrate(self.problem, self.graph, rounds=rounds, method=method)

    def worst_leave(self, rounds: Sequence[int]) -> list[Departure]:
        """Return departures of the most heterogeneous nodes."""
        return events.most_heterogeneous(self.problem, rounds=rounds)


def _quadratics(
    seed: int, *, L: float, step: float | None = None, dim: int = DIM, basis: Basis = "random"
) -> Setup:
    problem = problems.quadratics(n=NODES, dim=dim, mu=1.0, L=float(L), seed=seed, basis=basis)
    network = graphs.ring_with_chords(NODES, chords=CHORDS, seed=seed)
    return Setup(problem, network, 0.2 / problem.L if step is None else step)


def section51(seed: int) -> Setup:
    """Sec. 5.1: twenty quadratics with eigenvalues in [1, 10] on a ring with 15 chords."""
    return _quadratics(seed, L=10.0, step=0.02)


def stress(kappa: float, seed: int) -> Setup:
    """tab:stress: one eigenbasis for all, so that the sum is as ill-conditioned as its parts."""
    return _quadratics(seed, L=kappa, step=0.2 / kappa, basis="shared")


def tilted(kappa: float, seed: int) -> Setup:
    """Return the stress problem with eigenbases and spectra that differ a little per node."""
    return _quadratics(seed, L=kappa, basis="tilted")


def many_unknowns(basis: Basis, seed: int) -> Setup:
    """Return the stress problem, or its tilted variant, in a hundred dimensions."""
    return _quadratics(seed, L=100.0, step=0.2 / 100, dim=100, basis=basis)


def offset(seed: int, dim: int) -> Vector:
    """Return a random direction of length 1."""
    direction: Vector = np.random.default_rng([seed, 1]).standard_normal(dim)
    return direction / norm(direction)


def legacy_of(loss: Objective, anchor: Vector, eta: float) -> Legacy:
    """Return the paper's legacy of node 0's loss, with this anchor and curvature."""
    value, gradient = loss.value(anchor), loss.gradient(anchor)
    return Legacy.anchored(0, anchor=anchor, value=value, gradient=gradient, eta=eta)


def follow(
    setup: Setup, leaving: Sequence[Departure], *, rounds: int, pilot: Pilot
) -> tuple[dict[str, Vector], dict[str, dict[str, object]]]:
    """Return every method's error, round by round, and where it ended and why."""
    arrays: dict[str, Vector] = {}
    facts: dict[str, dict[str, object]] = {}
    for name, will in PAPER.items():
        run = setup.run(will, leaving, rounds=rounds, pilot=pilot)
        arrays[name] = run.error
        facts[name] = {
            "status": str(run.status),
            "final": float(run.error[-1]),
            "bias": bias(run),
            "choices": choices(run),
        }
    return arrays, facts


def choices(run: Run) -> list[str]:
    """Return which branch each leaver took, in order."""
    return [record.choice for record in run.departures]


def largest(run: Run) -> dict[str, float]:
    """Return the size of the largest farewell."""
    vectors = max(record.vectors for record in run.departures)
    return {"vectors": vectors, "bytes": max(record.bytes for record in run.departures)}


def bias(run: Run) -> float:
    """Return |limit - x*|: how far the limit of the survivors is from the optimum.

    A run that diverged has one too: with a smaller step it would converge to that limit.
    """
    return norm(run.surrogate_minimiser - run.optimum)


def illegal(run: Run) -> int:
    """Return how many legacies have a curvature outside the range of their loss."""
    count = 0
    for record in run.departures:
        if record.legacy is not None:
            a, b = float(run.problem.a[record.node]), float(run.problem.b[record.node])
            low, high = record.legacy.curvature
            count += not (a - ROUNDING * b <= low and high <= b + ROUNDING * b)
    return count


def spaced(first: int, departures: int) -> list[int]:
    """Return the rounds of tab:stress: the first, and then one every 40."""
    return [first + GAP * m for m in range(departures)]
