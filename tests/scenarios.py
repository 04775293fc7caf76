"""Random but reproducible problems, networks and departures, for tests of every layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import bequest as bq
from bequest.core import topology

WILLS = {
    "classic": bq.wills.Classic(),
    "forgetful": bq.wills.Forgetful(),
    "consensus": bq.wills.Consensus(),
    "local-track": bq.wills.LocalTrack(),
    "point-only": bq.wills.PointOnly(),
    "point-only small cap": bq.wills.PointOnly(cap=0.01),
    "adaptive oracle": bq.wills.Adaptive(rule="oracle"),
    "adaptive certified": bq.wills.Adaptive(rule="certified"),
    "adaptive sensitivity": bq.wills.Adaptive(rule="certified", drop="sensitivity"),
}
# All that choose their paces themselves, for every epoch.
METHODS = {
    "gradient tracking": bq.methods.GradientTracking(),
    "DIGing": bq.methods.DIGing(),
    "EXTRA": bq.methods.EXTRA(),
    "exact diffusion": bq.methods.ExactDiffusion(),
    "NIDS": bq.methods.NIDS(),
    "NIDS, hessian": bq.methods.NIDS("hessian"),
    "ADMM": bq.methods.ADMM(),
    "ADMM, hessian": bq.methods.ADMM("hessian"),
    "DGD": bq.methods.DGD(),
}
EXACT_METHODS = {name: method for name, method in METHODS.items() if method.is_exact}
# Wills whose decisions the reference takes as given.
BEYOND = (bq.wills.Drift, bq.wills.FullHessian, bq.wills.Budget)
Losses = Callable[[np.random.Generator, int, int], list[bq.Objective]]


@dataclass
class Scenario:
    """A run that may be started: everything ``bq.solve`` needs but the will."""

    objectives: list[bq.Objective]
    graph: bq.Graph
    departures: list
    rounds: int
    step: float
    start: np.ndarray

    @property
    def problem(self) -> bq.Problem:
        return bq.Problem(self.objectives)


def objectives(
    rng: np.random.Generator, n: int, dim: int, *, mixed: bool, l2: float = 0.1
) -> list[bq.Objective]:
    """Quadratics, or every kind of loss side by side."""
    made = [_quadratic, _logistic, _squares, _huber, _function, _softmax]
    kinds = made if dim % 2 == 0 else made[:-1]
    picks = rng.integers(len(kinds), size=n) if mixed else np.zeros(n, dtype=int)
    return [kinds[pick](rng, dim, l2) for pick in picks]


def _quadratic(rng, dim, l2):
    root = rng.standard_normal((dim, dim)) / np.sqrt(dim)
    return bq.Quadratic(root @ root.T + l2 * np.eye(dim), 3 * rng.standard_normal(dim))


def _logistic(rng, dim, l2):
    m = int(rng.integers(2, 20))
    return bq.Logistic(rng.standard_normal((m, dim)), rng.integers(2, size=m), l2=l2)


def _squares(rng, dim, l2):
    m = int(rng.integers(1, 12))
    return bq.LeastSquares(rng.standard_normal((m, dim)), rng.standard_normal(m), l2=l2)


def _huber(rng, dim, l2):
    m = int(rng.integers(1, 12))
    return bq.Huber(rng.standard_normal((m, dim)), 5 * rng.standard_normal(m), delta=0.7, l2=l2)


def _softmax(rng, dim, l2):
    m = int(rng.integers(2, 9))
    X, y = rng.standard_normal((m, dim // 2)), rng.integers(2, size=m)
    return bq.Softmax(X, y, classes=2, l2=l2)


def _function(rng, dim, l2):
    centre, weight = rng.standard_normal(dim), rng.uniform(0.5, 2.0, dim)

    def value_and_grad(x):
        # a smooth convex loss that is not quadratic: sum of w log cosh(x - c)
        gap = x - centre
        value = weight @ np.logaddexp(gap, -gap) + l2 / 2 * x @ x
        return float(value), weight * np.tanh(gap) + l2 * x

    return bq.Function(value_and_grad, dim=dim, curvature=(l2, l2 + float(weight.max())))


def graph(rng: np.random.Generator, n: int) -> bq.Graph:
    """One of the families that a network of n nodes can have."""
    seed = int(rng.integers(2**31))
    choices = [
        lambda: bq.graphs.path(n),
        lambda: bq.graphs.ring(n),
        lambda: bq.graphs.star(n),
        lambda: bq.graphs.complete(n),
        lambda: bq.graphs.grid(1, n) if n % 2 else bq.graphs.grid(2, n // 2),
        lambda: bq.graphs.erdos_renyi(n, 0.6, seed),
        lambda: bq.graphs.ring_with_chords(n, max(0, min(n, n * (n - 1) // 2 - n)), seed),
    ]
    return choices[int(rng.integers(len(choices)))]()


def scenario(seed: int, *, rounds: int = 40) -> Scenario:
    """Few or many departures, alone or several in one round, of ends, hubs and heirs."""
    rng = np.random.default_rng(seed)
    n, dim = int(rng.integers(2, 10)), int(rng.integers(1, 5))
    losses = objectives(rng, n, dim, mixed=bool(rng.integers(2)))
    leavers = rng.permutation(n)[: int(rng.integers(1, n))]
    # few distinct rounds, so that several often leave at once
    when = rng.integers(1, rounds + 1, size=max(1, int(rng.integers(1, 5))))
    departures = [bq.Departure(int(node), int(rng.choice(when))) for node in leavers]
    stiffest = max(loss.curvature.b for loss in losses)
    start = rng.standard_normal((n, dim)) if rng.integers(2) else rng.standard_normal(dim)
    return Scenario(losses, graph(rng, n), departures, rounds, 0.1 / stiffest, start)


def ill_conditioned(rng: np.random.Generator, n: int, dim: int) -> list[bq.Objective]:
    """Quadratics of one condition number, anything up to a million, and with a basis each."""
    kappa = 10 ** rng.uniform(0, 6)
    losses = []
    for _ in range(n):
        basis = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
        values = np.exp(rng.uniform(0, np.log(kappa), dim))
        values[0], values[-1] = kappa, 1.0
        A = (basis * values) @ basis.T
        losses.append(bq.Quadratic((A + A.T) / 2, 5 * rng.standard_normal(dim)))
    return losses


def _some(rng: np.random.Generator, n: int, dim: int) -> list[bq.Objective]:
    return objectives(rng, n, dim, mixed=bool(rng.integers(2)))


def membership(seed: int, *, rounds: int = 60, make: Losses = _some) -> Scenario:
    """Every kind of event, alone and together, in any order that makes sense."""
    rng = np.random.default_rng([seed, 7])
    n, dim = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    losses = make(rng, n, dim)
    network = graph(rng, n)
    joining = _who_can_be_missing(rng, network)
    here, waiting = set(range(n)) - joining, set(joining)
    gone: dict[int, bool] = {}  # node -> whether it is forgotten
    events: list = []

    def some(nodes, most):
        count = min(int(rng.integers(0, most + 1)), len(nodes))
        return [int(node) for node in rng.permutation(sorted(nodes))[:count]]

    for t in sorted({int(t) for t in rng.integers(1, rounds + 1, size=int(rng.integers(2, 9)))}):
        leaving = some(here, len(here) - 1 if rng.random() < 0.2 else min(2, len(here) - 1))
        before = dict(gone)
        for node in leaving:
            events.append((bq.Crash if rng.random() < 0.5 else bq.Departure)(node, t))
            gone[node] = False
            here.remove(node)
        for node in some([node for node, forgotten in before.items() if not forgotten], 1):
            events.append(bq.Forget(node, t))
            gone[node] = True
            del before[node]
        for node in some(before, 2):
            events.append(bq.Return(node, t))
            here.add(node)
            del gone[node]
        for node in some(waiting, 2):
            named = tuple(some(set(range(n)) - {node}, 3))
            events.append(bq.Join(node, t, named if named and rng.random() < 0.5 else None))
            here.add(node)
            waiting.remove(node)
    events += [bq.Join(node, rounds) for node in waiting]
    stiffest = max(loss.curvature.b for loss in losses)
    start = rng.standard_normal((n, dim)) if rng.integers(2) else rng.standard_normal(dim)
    mixed = [events[k] for k in rng.permutation(len(events))]
    return Scenario(losses, network, mixed, rounds, 0.1 / stiffest, start)


def _who_can_be_missing(rng: np.random.Generator, network: bq.Graph) -> set[int]:
    """Some nodes without which the rest of the network still holds together."""
    missing: set[int] = set()
    for node in rng.permutation(network.n)[: int(rng.integers(0, network.n))].tolist():
        rest = network.network()
        for other in missing | {node}:
            for neighbour in rest.pop(other):
                if neighbour in rest:
                    rest[neighbour].discard(other)
        if rest and len(topology.components(rest)) == 1:
            missing.add(node)
    return missing
