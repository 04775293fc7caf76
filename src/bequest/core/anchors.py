"""The points a legacy can be anchored at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import norm

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.history import EpochPath

    Correction = Callable[[Matrix], Matrix]

# How strongly differences that say almost the same are damped, relative to the strongest one:
# once hardly at all, for quadratics, once enough to bridle nonlinear losses.
_DAMPING = (1e-20, 1e-12)
# A prediction needs this many pairs: fewer differences span nothing.
LEAST_PAIRS = 5
# It is left alone if its predecessors, without the latest one and two pairs, are this close to it
# relative to the step it takes.
_STEADY = 0.3
# No step is longer than this many times |z|/mu, the distance at which a gradient z is plausible.
_REACH = 10.0
# Differences this small are not numbers one can calculate with.
_NOTHING = 1e-150


def local_track(
    gradient: Callable[[Vector], Vector], start: Vector, *, smoothness: float, rounds: int
) -> Vector:
    """Return u after ``rounds`` steps u+ = u - grad f(u)/L of a node's own descent from ``start``.

    It needs no communication, so it need not run along: a leaver computes it when it leaves.
    Stops early where the steps no longer change a bit.

    Paper: alg:lgt (the auxiliary local run).
    """
    u = np.array(start, dtype=float)
    if smoothness == 0:
        return u
    for _ in range(rounds):
        following = u - gradient(u) / smoothness
        if np.array_equal(following, u):
            break
        u = following
    return u


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Where a node expects the optimum, from its own path alone.

    Attributes:
        point: the optimum as predicted.
        earlier: what the same formula said without the latest pair, and without the latest two.
        wobble: how far the prediction has moved since.
        doubt: the wobble, weighed by how far ahead of the path the prediction lies: what
            predictions from different epochs are compared by.
    """

    point: Vector
    earlier: tuple[Vector, ...]
    wobble: float
    doubt: float

    def is_steady(self, x: Vector, reach: float) -> bool:
        """Whether to believe it at x: it hardly wobbles and does not lie out of reach."""
        ahead = norm(self.point - x)
        return 0 < ahead <= reach and self.wobble <= _STEADY * ahead


def downhill(
    gradient: Callable[[Vector], Vector], start: Vector, *, low: float, high: float, steps: int
) -> Vector:
    """Return where so many accelerated steps lead, of a loss curved between low > 0 and high.

    Nesterov's constant momentum: the distance shrinks by about 1 - sqrt(low/high) per step.
    """
    root = float(np.sqrt(low / high))
    momentum = (1 - root) / (1 + root)
    x = y = np.array(start, dtype=float)
    for _ in range(steps):
        before, x = x, y - gradient(y) / high
        y = x + momentum * (x - before)
    return x


def reach(path: EpochPath, modulus: float) -> float:
    """Return how far from the latest iterate the optimum can plausibly be."""
    if modulus > 0:
        return _REACH * norm(path.Z[0]) / modulus
    # Without strong convexity a gradient says nothing about distances; the path itself does.
    return _REACH * norm(path.X[0] - path.X[-1])


def predictions(path: EpochPath, correct: Correction) -> list[Prediction]:
    """Return what the pairs of one epoch say about the optimum, the least damped one first.

    A tracker is the network's mean gradient, z = Hbar (x - x*) as long as Hbar is constant and
    the nodes agree. Differences of pairs span what is known of Hbar; z is explained by them as
    far as it can be (g), and what is left is corrected by an approximate inverse:

        xhat = x - dX g - B (z - dZ g),   g = argmin |z - dZ g|.

    Args:
        path: the pairs.
        correct: B, on the columns of a matrix: the inverse of the node's own Hessian, or a step.

    Beyond the paper.
    """
    if len(path) < LEAST_PAIRS:
        return []
    found = []
    for damping in _DAMPING:
        point, *earlier = (_extrapolate(path.until(k), correct, damping) for k in range(3))
        shifts = [norm(point - before) for before in earlier]
        ahead = norm(point - path.X[0])
        doubts = [
            shift * np.sqrt(ahead / max(norm(path.X[0] - x), np.finfo(float).tiny))
            for shift, x in zip(shifts, path.X[1:], strict=False)
        ]
        if np.isfinite(ahead) and np.isfinite(doubts).all():
            found.append(Prediction(point, tuple(earlier), max(shifts), float(max(doubts))))
    return found


def _extrapolate(path: EpochPath, correct: Correction, damping: float) -> Vector:
    x, z = path.X[0], path.Z[0]
    dX, dZ = -np.diff(path.X, axis=0).T, -np.diff(path.Z, axis=0).T
    sizes = np.linalg.norm(dZ, axis=0)
    told = sizes > _NOTHING
    if not told.any():
        return np.asarray(x - correct(z))
    dX, dZ = dX[:, told] / sizes[told], dZ[:, told] / sizes[told]
    U, s, Vt = np.linalg.svd(dZ, full_matrices=False)
    g = Vt.T @ (s / (s**2 + damping * s[0] ** 2) * (U.T @ z))
    return np.asarray(x - dX @ g - correct(z - dZ @ g))
