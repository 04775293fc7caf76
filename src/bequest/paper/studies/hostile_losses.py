"""The losses of the hostile bed: nine families that are strongly convex, and six that are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.model import problems
from bequest.model.objectives import Huber, LeastSquares, Logistic, Quadratic, Softmax
from bequest.model.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Matrix, Vector
    from bequest.model.objectives import Objective
    from bequest.model.objectives.linear import LinearModel

    Rng = np.random.Generator

# from nearly flat losses to well conditioned ones
L2 = (1e-4, 0.1)


def _shared(rng: Rng, n: int, dim: int) -> Problem:
    kappa = log_uniform(rng, 2, 1000)
    spectrum = "log" if rng.random() < 0.5 else "linear"
    return problems.quadratics(
        n, dim, 1.0, kappa, seed=drawn_seed(rng), basis="shared", spectrum=spectrum
    )


def _tilted(rng: Rng, n: int, dim: int) -> Problem:
    kappa = log_uniform(rng, 2, 300)
    return problems.quadratics(n, dim, 1.0, kappa, seed=drawn_seed(rng), basis="tilted")


def _independent(rng: Rng, n: int, dim: int) -> Problem:
    """Every node has its own basis and its own condition number."""
    return Problem([_quadratic(rng, dim, log_uniform(rng, 1, 1000)) for _ in range(n)])


def _unequal(rng: Rng, n: int, dim: int) -> Problem:
    """Some nodes' losses are a thousand times as curved as others'."""
    return Problem(
        [
            _quadratic(rng, dim, log_uniform(rng, 1, 10), scale=log_uniform(rng, 0.03, 30))
            for _ in range(n)
        ]
    )


def _least_squares(rng: Rng, n: int, dim: int) -> Problem:
    l2, truth = log_uniform(rng, *L2), 3 * rng.standard_normal(dim)
    return Problem([_regression(rng, truth, l2) for _ in range(n)])


def _logistic(rng: Rng, n: int, dim: int) -> Problem:
    l2, direction = log_uniform(rng, *L2), rng.standard_normal(dim)
    return Problem([_classification(rng, direction, l2) for _ in range(n)])


def _softmax(rng: Rng, n: int, dim: int) -> Problem:
    """Every silo has mostly one or two of the classes."""
    classes = int(rng.integers(2, 5))
    features = max(dim // classes, 1)
    l2, centres = log_uniform(rng, *L2), 1.5 * rng.standard_normal((classes, features))
    losses = []
    for _ in range(n):
        shares = rng.dirichlet(np.full(classes, 0.3))
        y = rng.choice(classes, size=int(rng.integers(5, 40)), p=shares)
        X = centres[y] + rng.standard_normal((len(y), features))
        losses.append(Softmax(X, y, classes=classes, l2=l2))
    return Problem(losses)


def _huber(rng: Rng, n: int, dim: int) -> Problem:
    l2, truth = log_uniform(rng, *L2), 3 * rng.standard_normal(dim)
    return Problem([_robust(rng, truth, l2) for _ in range(n)])


def _mixed(rng: Rng, n: int, dim: int) -> Problem:
    """Losses of four kinds in one network."""
    l2, truth = log_uniform(rng, *L2), 2 * rng.standard_normal(dim)
    kinds: tuple[Callable[[], Objective], ...] = (
        lambda: _quadratic(rng, dim, log_uniform(rng, 1, 100), scale=0.1),
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


# -- losses that are convex, and not strongly convex ----------------------------------------------


def _free_logistic(rng: Rng, n: int, dim: int) -> Problem:
    l2, direction = log_uniform(rng, *L2), rng.standard_normal(dim)
    drawn = [_classification(rng, direction, l2) for _ in range(n)]
    return Problem(
        [Logistic(_and_ones(f), (f.y > 0).astype(int), l2=l2, unpenalised=[-1]) for f in drawn]
    )


def _free_softmax(rng: Rng, n: int, dim: int) -> Problem:
    """A shift of all intercepts changes nothing; and no intercept holds a class that is missing."""
    made = _softmax(rng, n, dim)
    drawn = [made.objective(node) for node in range(n)]
    return Problem(
        [
            Softmax(_and_ones(f), f.y.astype(int), classes=f.classes, l2=f.l2, unpenalised=[-1])
            for f in drawn
            if isinstance(f, Softmax)
        ]
    )


def _free_least_squares(rng: Rng, n: int, dim: int) -> Problem:
    l2, truth = log_uniform(rng, *L2), 3 * rng.standard_normal(dim)
    level, losses = log_uniform(rng, 0.3, 30), []
    for _ in range(n):
        f = _regression(rng, truth, l2)
        y = f.y + level * (1 + 0.3 * rng.standard_normal())
        losses.append(LeastSquares(_and_ones(f), y, l2=l2, unpenalised=[-1]))
    return Problem(losses)


def _free_huber(rng: Rng, n: int, dim: int) -> Problem:
    l2, truth = log_uniform(rng, *L2), 3 * rng.standard_normal(dim)
    drawn = [_robust(rng, truth, l2) for _ in range(n)]
    return Problem(
        [Huber(_and_ones(f), f.y + 2, delta=f.delta, l2=l2, unpenalised=[-1]) for f in drawn]
    )


def _unpenalised(rng: Rng, n: int, dim: int) -> Problem:
    truth = 3 * rng.standard_normal(dim)
    return Problem([_regression(rng, truth, 0.0) for _ in range(n)])


def _redundant(rng: Rng, n: int, dim: int) -> Problem:
    """The last column is a combination of the others, in every silo the same."""
    truth, mix = 3 * rng.standard_normal(dim), rng.standard_normal(dim)
    drawn = [_regression(rng, truth, 0.0) for _ in range(n)]
    return Problem([LeastSquares(np.column_stack([f.X, f.X @ mix]), f.y) for f in drawn])


CONVEX: dict[str, Callable[[Rng, int, int], Problem]] = {
    "logistic, free intercept": _free_logistic,
    "softmax, free intercept": _free_softmax,
    "least squares, free intercept": _free_least_squares,
    "Huber, free intercept": _free_huber,
    "least squares, no penalty": _unpenalised,
    "least squares, redundant column": _redundant,
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
    own = truth + log_uniform(rng, 0.1, 3) * rng.standard_normal(len(truth))
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
        y += rng.choice([-1, 1]) * log_uniform(rng, 5, 200)
    outliers = rng.random(m) < 0.15
    y[outliers] += 50 * rng.standard_normal(int(outliers.sum()))
    return Huber(X, y, delta=log_uniform(rng, 0.3, 3), l2=l2)


def _collinear(rng: Rng, m: int, dim: int) -> Matrix:
    rank = int(rng.integers(1, dim + 1))
    spread = np.geomspace(1, 0.1, rank)
    X = (rng.standard_normal((m, rank)) * spread) @ rng.standard_normal((rank, dim))
    return np.asarray(X / np.sqrt(rank) + 0.05 * rng.standard_normal((m, dim)))


def _and_ones(loss: LinearModel | Softmax) -> Matrix:
    return np.column_stack([np.asarray(loss.X), np.ones(loss.samples)])


# -- draws ----------------------------------------------------------------------------------------


def log_uniform(rng: Rng, low: float, high: float) -> float:
    """Draw a number between these, as likely within any factor of two."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def drawn_seed(rng: Rng) -> int:
    """Draw a seed for what is drawn elsewhere."""
    return int(rng.integers(2**31))
