"""The minimiser of a smooth convex function, to the last digits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import norm
from bequest.errors import OptimumUnknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Matrix, Vector

ACCURACY = 1e-12
# An ill-conditioned Hessian limits what rounding lets anybody reach, to about kappa * 1e-16.
_ROUNDING_FLOOR = 1e-8
_PATIENCE = 3
_MAX_STEPS = 200


def newton(
    value: Callable[[Vector], float],
    gradient: Callable[[Vector], Vector],
    solve: Callable[[Vector, Vector], Vector],
    start: Vector,
) -> Vector:
    """Return argmin by damped Newton steps, accurate to 1e-12 (1 + |x|).

    Where the condition number puts that below rounding (kappa > 1e4 or so), the steps go on
    until they no longer shrink.

    Args:
        value: f(x).
        gradient: grad f(x).
        solve: (x, r) -> H(x)^-1 r, with the pseudo-inverse where H is singular.
        start: where to begin; where minimisers form a set, the limit lies close to it.

    Raises:
        OptimumUnknown: no minimiser was found to that accuracy.
    """
    x = np.array(start, dtype=float)
    best, stalled = np.inf, 0
    slope, level = gradient(x), value(x)
    for _ in range(_MAX_STEPS):
        direction = -solve(x, slope)
        length = norm(direction)
        if not np.isfinite(length):
            break
        relative = length / (1 + norm(x))
        stalled = stalled + 1 if length >= best / 2 else 0
        if (stalled and relative <= ACCURACY) or (
            stalled >= _PATIENCE and relative <= _ROUNDING_FLOOR
        ):
            return x
        best = min(best, length)
        x, level, slope = _line_search(value, gradient, x, level, slope, direction)
    raise OptimumUnknown(
        "The minimiser was not found to 1e-12: the loss may have none "
        f"(stopped at |x| = {norm(x):.3g} with gradient norm {norm(slope):.3g}).",
        remedy="Add regularisation (l2 > 0), or check that loss is convex and gradient exact.",
    )


def _line_search(
    value: Callable[[Vector], float],
    gradient: Callable[[Vector], Vector],
    x: Vector,
    level: float,
    slope: Vector,
    direction: Vector,
) -> tuple[Vector, float, Vector]:
    """Return the next point, its value and its gradient."""
    descent = float(slope @ direction)
    size, current = 1.0, norm(slope)
    for _ in range(60):
        candidate = x + size * direction
        reached = value(candidate)
        tilt = gradient(candidate)
        # Close to the minimiser values are all rounding, and the gradient is the better judge.
        if reached <= level + 1e-4 * size * descent or norm(tilt) <= current / 2:
            return candidate, reached, tilt
        size /= 2
    return x + direction, value(x + direction), gradient(x + direction)


def pseudo_solve(hessian: Matrix, right: Vector) -> Vector:
    """Return H^-1 r for symmetric H >= 0; the smallest solution where H is singular."""
    try:
        factor = np.linalg.cholesky(hessian)
    except np.linalg.LinAlgError:
        return _spectral_solve(hessian, right)
    diagonal = np.diagonal(factor)
    if diagonal.min() ** 2 <= 1e-13 * diagonal.max() ** 2:
        return _spectral_solve(hessian, right)
    return np.asarray(np.linalg.solve(hessian, right), dtype=float)


def _spectral_solve(hessian: Matrix, right: Vector) -> Vector:
    eigenvalues, basis = np.linalg.eigh(hessian)
    keep = eigenvalues > eigenvalues[-1] * len(eigenvalues) * np.finfo(float).eps
    solution: Vector = basis[:, keep] @ ((basis[:, keep].T @ right) / eigenvalues[keep])
    return solution


def conjugate_gradients(product: Callable[[Vector], Vector], right: Vector) -> Vector:
    """Return H^-1 r for symmetric H >= 0 known through its products only."""
    from scipy.sparse.linalg import LinearOperator, cg

    operator = LinearOperator((right.size, right.size), matvec=product, dtype=np.float64)
    solution: Vector = cg(operator, right, rtol=1e-10, maxiter=10 * right.size)[0]
    return solution
