"""The hostile bed: random instances that no will was made for.

Nine families of losses on five kinds of graphs, one to four leavers, exits from round 1 to 630,
most of them early: when the first node leaves, many a network has hardly begun. ``instance(seed)``
draws everything from its seed. Forty-five seeds in a row hold every family on every kind of graph.

Whoever tunes a will looks at the seeds of ``DEV`` only. Those of ``HELD_OUT`` are for the study
``robustness``: its numbers are of instances that nobody has tuned on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.methods import GradientTracking
from bequest.model import graphs, problems
from bequest.model.events import Departure, most_heterogeneous
from bequest.model.objectives import Huber, LeastSquares, Logistic, Quadratic, Softmax
from bequest.model.problem import Problem
from bequest.solver import solve

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.methods import Method
    from bequest.model.graph import Graph
    from bequest.model.objectives import Objective
    from bequest.model.run import Run
    from bequest.model.wills import Will

    Rng = np.random.Generator

DEV = range(500)
HELD_OUT = range(10_000, 10_540)
# held out too, with more unknowns than a whole Hessian fits into ten vectors for: of the others it
# is one in seven
LARGE = range(20_000, 20_315)
# the largest network, and the last round at which a node may leave
NODES, LAST = 20, 630
MOST_LEAVERS = 4
# from nearly flat losses to well conditioned ones
L2 = (1e-4, 0.1)


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


def instance(seed: int, *, large: bool = False) -> Instance:
    """Draw an instance: the same one from the same seed, on every machine.

    Args:
        seed: what it is drawn from.
        large: whether it has 16 unknowns or more, and not one time in seven only.
    """
    rng = np.random.default_rng([16, seed])
    family = tuple(FAMILIES)[seed % len(FAMILIES)]
    kind = tuple(GRAPHS)[seed // len(FAMILIES) % len(GRAPHS)]
    n = int(rng.integers(4, NODES + 1))
    small = rng.random() < 0.85 and not large
    dim = int(rng.integers(1, 16) if small else rng.integers(16, 41))
    network, graph = GRAPHS[kind](rng, n)
    problem = FAMILIES[family](rng, graph.n, dim)
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
    first = _log_uniform(rng, 1, LAST)
    if rng.random() < 0.25:
        return [int(first)] * leavers
    others = [_log_uniform(rng, first, LAST) for _ in range(leavers - 1)]
    return sorted(int(t) for t in (first, *others))


def _start(rng: Rng, problem: Problem) -> Matrix:
    """Draw zeros for all, or a point for all, or a point for each, near x* or far from it."""
    kind = rng.choice(["zeros", "one", "each"], p=[0.5, 0.3, 0.2])
    if kind == "zeros":
        return np.zeros((problem.n, problem.dim))
    points = rng.standard_normal((1 if kind == "one" else problem.n, problem.dim))
    return np.tile(_log_uniform(rng, 0.3, 30) * points, (problem.n // len(points), 1))


def _log_uniform(rng: Rng, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


# -- graphs ---------------------------------------------------------------------------------------


def _chords(rng: Rng, n: int) -> tuple[str, Graph]:
    most = n * (n - 3) // 2
    chords = int(rng.integers(1, max(min(n, most), 1) + 1))
    return "ring with chords", graphs.ring_with_chords(n, chords, seed=_seed(rng))


def _grid(rng: Rng, n: int) -> tuple[str, Graph]:
    rows = int(rng.integers(2, int(np.sqrt(n)) + 1))
    return "grid", graphs.grid(rows, n // rows)


def _extreme(rng: Rng, n: int) -> tuple[str, Graph]:
    if rng.random() < 0.5:
        return "star", graphs.star(n)
    return "complete", graphs.complete(n)


def _random(rng: Rng, n: int) -> tuple[str, Graph]:
    probability = min(1.0, rng.uniform(1.2, 2.5) * np.log(n) / n)
    return "Erdős–Rényi", graphs.erdos_renyi(n, probability, seed=_seed(rng))


GRAPHS: dict[str, Callable[[Rng, int], tuple[str, Graph]]] = {
    "ring": lambda _, n: ("ring", graphs.ring(n)),
    "ring with chords": _chords,
    "grid": _grid,
    "star or complete": _extreme,
    "Erdős–Rényi": _random,
}


# -- losses ---------------------------------------------------------------------------------------


def _shared(rng: Rng, n: int, dim: int) -> Problem:
    kappa = _log_uniform(rng, 2, 1000)
    spectrum = "log" if rng.random() < 0.5 else "linear"
    return problems.quadratics(
        n, dim, 1.0, kappa, seed=_seed(rng), basis="shared", spectrum=spectrum
    )


def _tilted(rng: Rng, n: int, dim: int) -> Problem:
    kappa = _log_uniform(rng, 2, 300)
    return problems.quadratics(n, dim, 1.0, kappa, seed=_seed(rng), basis="tilted")


def _independent(rng: Rng, n: int, dim: int) -> Problem:
    """Every node has its own basis and its own condition number."""
    return Problem([_quadratic(rng, dim, _log_uniform(rng, 1, 1000)) for _ in range(n)])


def _unequal(rng: Rng, n: int, dim: int) -> Problem:
    """Some nodes' losses are a thousand times as curved as others'."""
    return Problem(
        [
            _quadratic(rng, dim, _log_uniform(rng, 1, 10), scale=_log_uniform(rng, 0.03, 30))
            for _ in range(n)
        ]
    )


def _least_squares(rng: Rng, n: int, dim: int) -> Problem:
    l2, truth = _log_uniform(rng, *L2), 3 * rng.standard_normal(dim)
    return Problem([_regression(rng, truth, l2) for _ in range(n)])


def _logistic(rng: Rng, n: int, dim: int) -> Problem:
    l2, direction = _log_uniform(rng, *L2), rng.standard_normal(dim)
    return Problem([_classification(rng, direction, l2) for _ in range(n)])


def _softmax(rng: Rng, n: int, dim: int) -> Problem:
    """Every silo has mostly one or two of the classes."""
    classes = int(rng.integers(2, 5))
    features = max(dim // classes, 1)
    l2, centres = _log_uniform(rng, *L2), 1.5 * rng.standard_normal((classes, features))
    losses = []
    for _ in range(n):
        shares = rng.dirichlet(np.full(classes, 0.3))
        y = rng.choice(classes, size=int(rng.integers(5, 40)), p=shares)
        X = centres[y] + rng.standard_normal((len(y), features))
        losses.append(Softmax(X, y, classes=classes, l2=l2))
    return Problem(losses)


def _huber(rng: Rng, n: int, dim: int) -> Problem:
    l2, truth = _log_uniform(rng, *L2), 3 * rng.standard_normal(dim)
    return Problem([_robust(rng, truth, l2) for _ in range(n)])


def _mixed(rng: Rng, n: int, dim: int) -> Problem:
    """Losses of four kinds in one network."""
    l2, truth = _log_uniform(rng, *L2), 2 * rng.standard_normal(dim)
    kinds: tuple[Callable[[], Objective], ...] = (
        lambda: _quadratic(rng, dim, _log_uniform(rng, 1, 100), scale=0.1),
        lambda: _regression(rng, truth, l2),
        lambda: _classification(rng, truth, l2),
        lambda: _robust(rng, truth, l2),
    )
    return Problem([kinds[int(rng.integers(len(kinds)))]() for _ in range(n)])


FAMILIES: dict[str, Callable[[Rng, int, int], Problem]] = {
    "quadratics, one basis": _shared,
    "quadratics, tilted": _tilted,
    "quadratics, own bases": _independent,
    "quadratics, own scales": _unequal,
    "least squares": _least_squares,
    "logistic": _logistic,
    "softmax": _softmax,
    "Huber": _huber,
    "mixed": _mixed,
}


# -- the loss of one node -------------------------------------------------------------------------


def _quadratic(rng: Rng, dim: int, kappa: float, scale: float = 1.0) -> Quadratic:
    Q, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    eigenvalues = scale * np.exp(rng.uniform(0, np.log(kappa), dim))
    A = (Q * eigenvalues) @ Q.T
    return Quadratic((A + A.T) / 2, 5 * rng.standard_normal(dim))


def _regression(rng: Rng, truth: Vector, l2: float) -> LeastSquares:
    """Few samples, along few directions, of about the same truth."""
    X = _collinear(rng, int(rng.integers(1, 2 * len(truth) + 3)), len(truth))
    own = truth + _log_uniform(rng, 0.1, 3) * rng.standard_normal(len(truth))
    return LeastSquares(X, X @ own + 0.3 * rng.standard_normal(len(X)), l2=l2)


def _classification(rng: Rng, direction: Vector, l2: float) -> Logistic:
    """Samples with nearly the same label throughout, and features of the silo's own range."""
    m, dim = int(rng.integers(5, 60)), len(direction)
    positive = rng.random(m) < rng.beta(0.3, 0.3)
    scales = np.exp(rng.normal(0, 0.5, dim))
    towards = np.where(positive, 1.0, -1.0)[:, None] * direction / np.sqrt(dim)
    X = (towards + rng.standard_normal((m, dim))) * scales + 0.5 * rng.standard_normal(dim)
    return Logistic(X, positive.astype(int), l2=l2)


def _robust(rng: Rng, truth: Vector, l2: float) -> Huber:
    """A third of the nodes lie so far off that their losses are linear where the others meet."""
    m, dim = int(rng.integers(2, 2 * len(truth) + 8)), len(truth)
    X = rng.standard_normal((m, dim))
    y = X @ truth + 0.5 * rng.standard_normal(m)
    if rng.random() < 1 / 3:
        y += rng.choice([-1, 1]) * _log_uniform(rng, 5, 200)
    outliers = rng.random(m) < 0.15
    y[outliers] += 50 * rng.standard_normal(int(outliers.sum()))
    return Huber(X, y, delta=_log_uniform(rng, 0.3, 3), l2=l2)


def _collinear(rng: Rng, m: int, dim: int) -> Matrix:
    rank = int(rng.integers(1, dim + 1))
    spread = np.geomspace(1, 0.1, rank)
    X = (rng.standard_normal((m, rank)) * spread) @ rng.standard_normal((rank, dim))
    return np.asarray(X / np.sqrt(rank) + 0.05 * rng.standard_normal((m, dim)))


def _seed(rng: Rng) -> int:
    return int(rng.integers(2**31))
