"""The hostile bed: random instances that no will was made for.

Nine families of losses on five kinds of graphs, one to four leavers, exits from round 1 to 630,
most of them early: when the first node leaves, many a network has hardly begun. ``instance(seed)``
draws everything from its seed. Forty-five seeds in a row hold every family on every kind of graph.

These losses are strongly convex. Six more families (``CONVEX``) are not, unless samples make them
so: intercepts without a penalty, and least squares without any.

Wills are tuned on the seeds of ``DEV`` only. Those of ``HELD_OUT`` are for the study
``robustness``: its numbers are of instances that no will was tuned on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.methods import GradientTracking
from bequest.model import graphs
from bequest.model.events import Departure, most_heterogeneous
from bequest.paper.studies.hostile_losses import CONVEX, FAMILIES, drawn_seed, log_uniform
from bequest.solver import solve

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.methods import Method
    from bequest.model.graph import Graph
    from bequest.model.problem import Problem
    from bequest.model.run import Run
    from bequest.model.wills import Will

    Rng = np.random.Generator

DEV = range(500)
HELD_OUT = range(40_000, 40_540)
# held out too, with more unknowns than a whole Hessian fits into ten vectors for: of the others it
# is one in seven
LARGE = range(50_000, 50_315)
# held out too, of losses that are not strongly convex: every family on every kind of graph 8 times
FLAT = range(60_000, 60_240)
# the largest network, and the last round at which a node may leave
NODES, LAST = 20, 630
MOST_LEAVERS = 4
# curvature below this part of the largest is none
_FLAT = 1e-11


@dataclass(frozen=True)
class Instance:
    """A problem on a graph, where it starts, who leaves, and after which rounds.

    Attributes:
        seed: what it was drawn from.
        family: the kind of losses.
        network: the kind of graph.
        problem: the losses.
        graph: the network.
        start: where every node starts, a row each.
        departures: who leaves after which round, in order.
        chosen: whether the most heterogeneous nodes leave, and not random ones.
    """

    seed: int
    family: str
    network: str
    problem: Problem
    graph: Graph
    start: Matrix
    departures: tuple[Departure, ...]
    chosen: bool

    @property
    def n(self) -> int:
        """How many nodes there are at first."""
        return self.problem.n

    @property
    def dim(self) -> int:
        """How many unknowns there are."""
        return self.problem.dim

    @property
    def rounds(self) -> int:
        """The last exit: what a will has done shows in the limit, and later rounds change none."""
        return self.departures[-1].round

    @property
    def first(self) -> int:
        """The first exit."""
        return self.departures[0].round

    @cached_property
    def optimum(self) -> Vector:
        """x*, of all nodes."""
        return self.problem.optimum()

    @cached_property
    def curved(self) -> Matrix:
        """A basis of the directions in which the sum is curved at x*; minimisers differ in others.

        All directions, where every loss is strongly convex.
        """
        if self.problem.mu > 0:
            return np.eye(self.dim)
        values, basis = np.linalg.eigh(self.problem.all_nodes.total_hessian(self.optimum))
        return np.asarray(basis[:, values > _FLAT * values[-1]])

    @cached_property
    def scale(self) -> float:
        """How far the farthest node starts from x*."""
        return float(np.linalg.norm(self.start - self.optimum, axis=1).max())

    @cached_property
    def stage(self) -> float:
        """The error when the first node leaves, over that at the start, with gradient tracking."""
        until = solve(
            self.problem,
            self.graph,
            method=GradientTracking(),
            rounds=self.first,
            start=self.start,
            optimum=self.optimum,
        )
        return float(until.error[-1]) / self.scale

    def run(self, will: Will, method: Method | None = None, *, times: int = 1) -> Run:
        """Carry it out until the last exit, with ``times`` as many rounds before every exit."""
        return solve(
            self.problem,
            self.graph,
            departures=[Departure(one.node, times * one.round) for one in self.departures],
            will=will,
            method=method,
            rounds=times * self.rounds,
            start=self.start,
            optimum=self.optimum,
        )


def instance(seed: int, *, large: bool = False, convex: bool = False) -> Instance:
    """Draw an instance: the same one from the same seed, on every machine.

    Args:
        seed: what it is drawn from.
        large: whether it has 16 unknowns or more, and not one time in seven only.
        convex: whether its losses are convex, and not strongly convex.
    """
    families = CONVEX if convex else FAMILIES
    rng = np.random.default_rng([16, seed])
    family = tuple(families)[seed % len(families)]
    kind = tuple(GRAPHS)[seed // len(families) % len(GRAPHS)]
    n = int(rng.integers(4, NODES + 1))
    small = rng.random() < 0.85 and not large
    dim = int(rng.integers(1, 16) if small else rng.integers(16, 41))
    network, graph = GRAPHS[kind](rng, n)
    problem = families[family](rng, graph.n, dim)
    leavers = int(rng.integers(1, min(MOST_LEAVERS, graph.n - 2) + 1))
    exits = _exits(rng, leavers)
    chosen = bool(rng.random() < 0.5)
    if chosen:
        departures = most_heterogeneous(problem, exits)
    else:
        nodes = rng.permutation(graph.n)[:leavers].tolist()
        departures = [Departure(node, t) for node, t in zip(nodes, exits, strict=True)]
    start = _start(rng, problem)
    return Instance(seed, family, network, problem, graph, start, tuple(departures), chosen)


def _exits(rng: Rng, leavers: int) -> list[int]:
    """Draw rounds in order, log-uniformly; one time in four all leave at once."""
    first = log_uniform(rng, 1, LAST)
    if rng.random() < 0.25:
        return [int(first)] * leavers
    others = [log_uniform(rng, first, LAST) for _ in range(leavers - 1)]
    return sorted(int(t) for t in (first, *others))


def _start(rng: Rng, problem: Problem) -> Matrix:
    """Draw zeros for all, or a point for all, or a point for each, near x* or far from it."""
    kind = rng.choice(["zeros", "one", "each"], p=[0.5, 0.3, 0.2])
    if kind == "zeros":
        return np.zeros((problem.n, problem.dim))
    points = rng.standard_normal((1 if kind == "one" else problem.n, problem.dim))
    return np.tile(log_uniform(rng, 0.3, 30) * points, (problem.n // len(points), 1))


# -- graphs ---------------------------------------------------------------------------------------


def _chords(rng: Rng, n: int) -> tuple[str, Graph]:
    most = n * (n - 3) // 2
    chords = int(rng.integers(1, max(min(n, most), 1) + 1))
    return "ring with chords", graphs.ring_with_chords(n, chords, seed=drawn_seed(rng))


def _grid(rng: Rng, n: int) -> tuple[str, Graph]:
    rows = int(rng.integers(2, int(np.sqrt(n)) + 1))
    return "grid", graphs.grid(rows, n // rows)


def _extreme(rng: Rng, n: int) -> tuple[str, Graph]:
    if rng.random() < 0.5:
        return "star", graphs.star(n)
    return "complete", graphs.complete(n)


def _random(rng: Rng, n: int) -> tuple[str, Graph]:
    probability = min(1.0, rng.uniform(1.2, 2.5) * np.log(n) / n)
    return "Erdős–Rényi", graphs.erdos_renyi(n, probability, seed=drawn_seed(rng))


GRAPHS: dict[str, Callable[[Rng, int], tuple[str, Graph]]] = {
    "ring": lambda _, n: ("ring", graphs.ring(n)),
    "ring with chords": _chords,
    "grid": _grid,
    "star or complete": _extreme,
    "Erdős–Rényi": _random,
}
