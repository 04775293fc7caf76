"""The baseline: consensus ADMM remembers nodes that leave without any farewell.

Decentralised consensus ADMM puts an average z_ij on every edge and asks x_i = z_ij = x_j of its
ends, with the multipliers u_ij at i and u_ji at j. With one penalty rho, a round is

    x_i    <- argmin f_i(x) + sum_j [<u_ij, x> + rho/2 |x - z_ij|^2]   (an exact prox per node)
    z_ij   <- (x_i + x_j)/2                                    (one vector each way per edge)
    u_ij   <- u_ij + rho/2 (x_i - x_j)                                     (so u_ji = -u_ij)

from x = z = u = 0. In the letters of the source c = rho/2 and alpha_i = sum_j u_ij.

When node i leaves, it sends nothing and no node adapts: every neighbour j goes on with the last
u_ji and z_ij. The edge that is gone becomes a quadratic <u_ji, x> + rho/2 |x - z_ij|^2, which j
holds for ever. By the optimality of its last prox, what node i's neighbours hold sums to

    <g, x> + rho/2 sum_j |x - z_ij|^2,   z_ij of the round BEFORE the last, g = grad h_i(x_i)

with h_i = f_i + what node i itself held: a gradient-anchored quadratic of curvature rho deg_i, a
legacy in all but name (eq:legacy) whose curvature the graph decides and not the loss. Multipliers
cancel on the edges that are left, so the survivors' ADMM converges to

    argmin sum_S f_j(x) + sum over frozen edges held in S of <u_ji, x> + rho/2 |x - z_ij|^2.

**The price**: a minimisation per node and round where gradient tracking takes one gradient.

**The penalty** decides speed and memory at once: with a small one the nodes agree slowly, so that
the last multipliers are far from the gradients at the optimum; with a large one they move slowly,
and remember too stiffly. The rule here is

    rho = sqrt(mu L) n / |E|,

sqrt(mu L) over half the mean degree. It is the usual scaling and its factor 1 is measured, not
proven. In tab:stress (kappa = 100, k = 8, t1 = 50; seeds 0 to 19) it ends at 0.076 in the median
and 0.19 at worst, where GT-C ends at 0.57 and 2.5; the best multiple for the median is 0.9 (0.071
and 0.23), with half or twice the rule it is 0.15 (at worst 0.73). On logistic losses
L overstates the curvature by far, and a quarter of it is much better: breast cancer ends at 6.6e-3
with the rule and at 6e-7 with a quarter of it, GT-C at 0.35. A bare ring wants several times as
much (for speed, without departures).

Source: W. Shi, Q. Ling, K. Yuan, G. Wu, W. Yin, "On the Linear Convergence of the ADMM in
Decentralized Consensus Optimization", IEEE Transactions on Signal Processing 62(7), 2014.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bequest.core import topology
from bequest.core.arrays import Indices, Matrix, Vector, frozen, is_whole
from bequest.core.legacy import Legacy
from bequest.errors import InvalidMethod, OptimumUnknown
from bequest.model.events import Departure, schedule
from bequest.model.graph import Graph, as_graph, epoch_edges
from bequest.model.problem import Problem

# What a node sends to each neighbour in each round: x_i. (Gradient tracking sends two.)
VECTORS = 1

# A prox is exact when its gradient is at most this fraction of the terms that add up to it.
_EXACT = 1e-13
# Where rounding does not allow that, the Newton steps shrink; this accuracy must be reached.
_ROUNDING_FLOOR = 1e-9
_SHORTEST = 2.0**-20
_MAX_STEPS = 200
# A step with an old Hessian is good if it reduces the gradient to this fraction.
_GOOD = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class FrozenEdge:
    """What ``holder`` keeps of its edge to ``node``, which left at the end of ``round``.

    That is <u, x - z> + rho/2 |x - z|^2, u the holder's last multiplier, z the last average.
    """

    holder: int
    node: int
    round: int
    memory: Legacy


@dataclass(frozen=True, slots=True, eq=False)
class AdmmRun:
    """The result of a run.

    Attributes:
        rho: the penalty, as given or chosen.
        survivors: the nodes that were there to the end, ascending.
        x: their iterates after the last round, one row each.
        error: max |x_i - x*| over the nodes that are there, round by round from round 0; in the
            round of a departure over the nodes that stay, as in ``Run.error``.
        limit: where the survivors converge, however long that takes.
        frozen: every edge that froze, in order. If its holder left later, only the gradient of
            the edge survives, in the edges that froze then.
        prox_solves: number of exact minimisations, one per node and round.
        vectors: number of vectors that travel over an edge per round, each way.
    """

    rho: float
    survivors: tuple[int, ...]
    x: Matrix
    error: Vector
    limit: Vector
    frozen: tuple[FrozenEdge, ...]
    prox_solves: int
    vectors: int = VECTORS


def penalty(problem: Problem, graph: Graph) -> float:
    """Return rho = sqrt(mu L) n / |E|, the penalty that is used where none is given.

    Raises:
        InvalidMethod: in regime (C), where this would be zero.
    """
    if problem.mu <= 0:
        raise InvalidMethod(
            "The penalty sqrt(mu L) n / |E| is zero: not every loss is strongly convex.",
            remedy="Pass rho.",
        )
    return float(np.sqrt(problem.mu * problem.L) * problem.n / max(len(graph.edges), 1))


def run(
    problem: Problem,
    graph: Graph,
    leaving: Sequence[Departure],
    *,
    rho: float | None = None,
    rounds: int,
) -> AdmmRun:
    """Run consensus ADMM whose dead neighbours' edge variables freeze.

    Where the survivors' network falls apart it is bridged as everywhere else
    (``topology.remove``, the lowest-id neighbour that stays being the hub); a bridge starts with
    the average of its ends and a zero multiplier.

    Args:
        problem: the losses, one per node.
        graph: which nodes talk to each other.
        leaving: which nodes leave for good, and after which round.
        rho: the penalty; ``penalty(problem, graph)`` by default.
        rounds: number of rounds.

    Raises:
        InvalidMethod: a penalty or a number of rounds that makes no sense.
        OptimumUnknown: a prox was not found to rounding.

    >>> from bequest.paper.studies import setups
    >>> setup = setups.section51(seed=0)
    >>> leaving = setup.worst_leave([100])
    >>> found = run(setup.problem, setup.graph, leaving, rounds=400)
    >>> found.prox_solves == 20 * 100 + 19 * 300
    True
    >>> bool(found.error[-1] < 1e-4)
    True
    """
    if not is_whole(rounds, least=0):
        raise InvalidMethod(f"rounds is {rounds}.", remedy="Use a whole number >= 0.")
    network = as_graph(graph, problem.n)
    strength = penalty(problem, network) if rho is None else float(rho)
    if not (np.isfinite(strength) and strength > 0):
        raise InvalidMethod(f"rho is {rho}.", remedy="Use a positive number.")
    changes = schedule(leaving, n=problem.n, rounds=rounds)
    departures = {t: now.departures for t, now in changes.items() if now.departures}
    execution = _AdmmExecution(problem, network, strength)
    optimum = problem.optimum()
    error = np.empty(rounds + 1)
    error[0] = execution.farthest(optimum)
    for t in range(1, rounds + 1):
        execution.advance()
        if t in departures:
            execution.leave(departures[t], t)
        error[t] = execution.farthest(optimum)
    return AdmmRun(
        rho=strength,
        survivors=tuple(execution.nodes.tolist()),
        x=frozen(execution.X),
        error=frozen(error),
        limit=frozen(execution.limit()),
        frozen=tuple(execution.frozen),
        prox_solves=execution.prox_solves,
    )


class _AdmmExecution:
    """One run under way; row j of every array of nodes belongs to ``nodes[j]``."""

    def __init__(self, problem: Problem, graph: Graph, rho: float) -> None:
        self.problem, self.rho = problem, rho
        self.network = graph.network()
        self.frozen: list[FrozenEdge] = []
        self.prox_solves = 0
        self.nodes, self.edges = epoch_edges(self.network)
        self.X = np.zeros((problem.n, problem.dim))
        # Of edge (i, j), i < j: the average z_ij and the multiplier u_ij = -u_ji.
        self.average = np.zeros((len(self.edges), problem.dim))
        self.dual = np.zeros_like(self.average)
        self.prox = _Prox(problem)
        self._settle()

    def _settle(self) -> None:
        """Prepare what stays the same until the membership changes."""
        count, rows = len(self.edges), np.arange(len(self.edges))
        self._ends = np.zeros((count, self.nodes.size))
        self._ends[rows, self.edges[:, 0]] = self._ends[rows, self.edges[:, 1]] = 1.0
        self._signs = self._ends.copy()
        self._signs[rows, self.edges[:, 1]] = -1.0
        memories = [self._held_by([node]) for node in self.nodes.tolist()]
        self._slopes = np.array([memory.p for memory in memories])
        etas = np.array([memory.eta for memory in memories])
        self.prox.settle(self.nodes, self.rho * self._ends.sum(axis=0) + etas, self.X)

    def _held_by(self, nodes: Sequence[int]) -> Legacy:
        held = (edge.memory for edge in self.frozen if edge.holder in nodes)
        return sum(held, start=Legacy.zero(self.problem.dim))

    def advance(self) -> None:
        """Carry out one round."""
        slopes = self._slopes + self._signs.T @ self.dual - self.rho * (self._ends.T @ self.average)
        self.X = self.prox.solve(self.X, slopes)
        self.average = self._ends @ self.X / 2
        self.dual = self.dual + self.rho / 2 * (self._signs @ self.X)
        self.prox_solves += self.nodes.size

    def leave(self, leavers: Sequence[int], t: int) -> None:
        """Freeze the edges of the nodes that leave after round t, and bridge the network."""
        pairs = [(int(i), int(j)) for i, j in self.nodes[self.edges]]
        for edge, (i, j) in enumerate(pairs):
            for holder, other, sign in ((i, j, 1.0), (j, i, -1.0)):
                if other in leavers and holder not in leavers:
                    memory = Legacy.anchored(
                        other,
                        anchor=self.average[edge],
                        value=0.0,
                        gradient=sign * self.dual[edge],
                        eta=self.rho,
                    )
                    self.frozen.append(FrozenEdge(holder, other, t, memory))
        for leaver in leavers:
            hub = topology.choose_heir(self.network, leaver, leaving=leavers, load=lambda _: 0)
            topology.remove(self.network, leaver, hub=hub)
        before = {pair: edge for edge, pair in enumerate(pairs)}
        self.X = self.X[np.isin(self.nodes, list(self.network))]
        self.nodes, self.edges = epoch_edges(self.network)
        average, dual = (
            self.X[self.edges].mean(axis=1),
            np.zeros((len(self.edges), self.X.shape[1])),
        )
        for edge, (i, j) in enumerate(self.nodes[self.edges]):
            if (int(i), int(j)) in before:
                old = before[int(i), int(j)]
                average[edge], dual[edge] = self.average[old], self.dual[old]
        self.average, self.dual = average, dual
        self._settle()

    def farthest(self, point: Vector) -> float:
        """Return the largest distance of a node to a point."""
        return float(np.linalg.norm(self.X - point, axis=1).max())

    def limit(self) -> Vector:
        """Return the minimiser of the survivors' losses and all that they hold."""
        nodes = self.nodes.tolist()
        held = self._held_by(nodes)
        return self.problem.among(nodes).minimiser(held, start=self.X.mean(axis=0))


class _Prox:
    """argmin f_i(x) + <p_i, x> + eta_i/2 |x|^2 for all nodes at once, to rounding.

    Newton steps that keep a factored Hessian while it is good enough: always on quadratics, where
    every solve is one step, and for many rounds once the iterates move little. Steps are damped
    until the gradient shrinks, which a short enough Newton step always achieves.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._objectives = [problem.objective(node) for node in range(problem.n)]
        self._eta = np.full(problem.n, np.nan)
        self._inverse = np.empty((problem.n, problem.dim, problem.dim))

    def settle(self, nodes: Indices, eta: Vector, X: Matrix) -> None:
        """Set which nodes there are, and the curvature of each one's quadratic."""
        self._nodes = nodes
        self._losses = self._problem.among(nodes)
        at_origin = self._losses.gradients(np.zeros_like(X))
        self._at_origin = np.linalg.norm(at_origin, axis=1)
        changed = np.flatnonzero(self._eta[nodes] != eta)
        self._eta[nodes] = eta
        for row in changed:
            self._factor(int(row), X[row])

    def _factor(self, row: int, x: Vector) -> None:
        node = int(self._nodes[row])
        hessian = self._objectives[node].hessian(x)
        self._inverse[node] = np.linalg.inv(hessian + self._eta[node] * np.eye(x.size))

    def solve(self, start: Matrix, p: Matrix) -> Matrix:
        """Return the minimisers, one row per node, beginning at ``start``."""
        eta = self._eta[self._nodes][:, None]
        X = start.copy()
        own = self._losses.gradients(X)
        G = own + p + eta * X
        size = np.linalg.norm(G, axis=1)
        parts = [np.linalg.norm(part, axis=1) for part in (own, p, eta * X)]
        scale = np.sum(parts, axis=0) + self._at_origin
        length, fresh = np.ones(size.size), np.zeros(size.size, dtype=bool)
        for _ in range(_MAX_STEPS):
            todo = ~(size <= np.where(length < _SHORTEST, _ROUNDING_FLOOR, _EXACT) * scale)
            if not todo.any():
                return X
            trial = X - length[:, None] * np.matvec(self._inverse[self._nodes], G)
            G_trial = self._losses.gradients(trial) + p + eta * trial
            size_trial = np.linalg.norm(G_trial, axis=1)
            better = todo & (size_trial <= np.where(fresh, 1 - length / 4, _GOOD) * size)
            X[better], G[better], size[better] = trial[better], G_trial[better], size_trial[better]
            for row in np.flatnonzero(todo & ~better & ~fresh):
                self._factor(int(row), X[row])
            length = np.where(better, 1.0, np.where(fresh, length / 2, length))
            fresh = todo & ~better
        stuck = int(self._nodes[int(np.argmax(todo))])
        raise OptimumUnknown(
            f"A prox of node {stuck} was not found to rounding in {_MAX_STEPS} Newton steps.",
            remedy="Pass a larger rho, or a loss that is smooth.",
        )
