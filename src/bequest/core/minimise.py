"""The minimiser of a smooth convex function to the last digits, or an honest no."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bequest.core.arrays import norm
from bequest.errors import OptimumUnknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Matrix, Vector

    Descent = Callable[[Vector, Vector, float], "Direction"]

ACCURACY = 1e-12
# An ill-conditioned Hessian limits what rounding lets anybody reach, to about kappa * 1e-16.
_ROUNDING_FLOOR = 1e-8
_PATIENCE = 3
MAX_STEPS = 200
# Eigenvalues below this part of the largest (times sqrt(dim)) are rounding, not curvature.
_FLAT = 1e-13
# Gradients below this part of the terms they are the sum of are rounding, not slope.
_LEVEL = 1e-13


class Direction(NamedTuple):
    """Where to go from a point.

    ``curved``: whether curvature said so (a Newton step), or only the slope of a part without
    curvature, whose length means nothing. ``flat``: a basis of the directions without curvature.
    """

    step: Vector
    curved: bool
    flat: Matrix


def newton(
    value: Callable[[Vector], float],
    gradient: Callable[[Vector], Vector],
    descent: Descent,
    start: Vector,
    magnitude: Callable[[Vector], float] | None = None,
    *,
    steps: int = MAX_STEPS,
) -> Vector:
    """Return argmin by damped Newton steps, accurate to 1e-12 (1 + |x|).

    Where the condition number puts that below rounding (kappa > 1e4 or so), the steps go on
    until they no longer shrink. Where minimisers form a set, one close to the start is found.

    Args:
        value: f(x).
        gradient: grad f(x).
        descent: (x, gradient, noise) -> the Direction; ``dense_descent`` or ``product_descent``.
        start: where to begin.
        magnitude: how large the terms are whose sum the gradient is, which tells a slope from
            rounding; the largest gradient met on the way by default.
        steps: how many steps to try.

    Raises:
        OptimumUnknown: no minimiser was found to that accuracy.
    """
    x = np.array(start, dtype=float)
    slope, level = gradient(x), value(x)
    first, steepest = level, norm(slope)
    shortest, previous, stalled = np.inf, np.inf, 0
    for _ in range(min(steps, MAX_STEPS)):
        if not (np.isfinite(level) and np.isfinite(slope).all() and np.isfinite(x).all()):
            break
        steepest = max(steepest, norm(slope))
        noise = _LEVEL * (steepest if magnitude is None else magnitude(x))
        step, curved, flat = descent(x, slope, noise)
        length = norm(step)
        if not np.isfinite(length):
            break
        stalled = stalled + 1 if length >= 0.9 * shortest else 0
        shrinking = min(length / previous, 0.9) if previous > 0 else 0.0
        # Steps that shrink by a factor q leave q/(1-q) times the last one to go.
        left = length * max(1.0, shrinking / (1 - shrinking)) / (1 + norm(x))
        if curved and (left <= ACCURACY or (stalled >= _PATIENCE and left <= _ROUNDING_FLOOR)):
            travelled = flat @ (flat.T @ (x - start))
            if norm(travelled) > 1e-6 * norm(x - start):
                flat = np.column_stack([flat, travelled / norm(travelled)])
            _refuse_runaway(value, x, flat, scale=abs(first) + abs(level))
            return x + step if left <= ACCURACY else x
        shortest, previous = min(shortest, length), length
        x, level, slope = _line_search(value, gradient, x, level, slope, step)
    raise OptimumUnknown(
        "The minimiser was not found to 1e-12: the loss may have none "
        f"(stopped at |x| = {norm(x):.3g} with gradient norm {norm(slope):.3g}).",
        remedy="Add regularisation (l2 > 0), or check that loss is convex and gradient exact.",
    )


def quadratic(
    gradient: Callable[[Vector], Vector],
    descent: Descent,
    start: Vector,
    magnitude: Callable[[Vector], float],
) -> Vector:
    """Return argmin of a function with a constant Hessian: one solve, refined while it helps.

    As accurate as rounding and the condition number allow, whatever that is.

    Raises:
        OptimumUnknown: there is a slope without curvature, so there is no minimiser.
    """
    x, previous = np.array(start, dtype=float), np.inf
    for _ in range(10):
        slope = gradient(x)
        step, curved, _ = descent(x, slope, _LEVEL * magnitude(x))
        length = norm(step)
        if not curved or not np.isfinite(length):
            raise OptimumUnknown(
                f"There is no minimiser: a slope of {norm(slope):.3g} meets no curvature.",
                remedy="Add regularisation (l2 > 0).",
            )
        if length >= previous / 2:
            break
        x, previous = x + step, length
    return x


def _line_search(
    value: Callable[[Vector], float],
    gradient: Callable[[Vector], Vector],
    x: Vector,
    level: float,
    slope: Vector,
    direction: Vector,
) -> tuple[Vector, float, Vector]:
    """Return the next point, its value and its gradient."""
    descent, steepness = float(slope @ direction), norm(slope)

    def at(size: float) -> tuple[Vector, float, Vector]:
        candidate = x + size * direction
        return candidate, value(candidate), gradient(candidate)

    size = 1.0
    found = at(size)
    # Close to the minimiser values are all rounding, and the gradient is the better judge.
    # (Better than a value that rises: steps that halve the gradient can go in circles.)
    while not (
        found[1] <= level + 1e-4 * size * descent
        or (norm(found[2]) <= steepness / 2 and found[1] <= level + 1e-12 * abs(level))
    ):
        size /= 2
        if size < 1e-18:
            return at(1.0)
        found = at(size)
    # A slope that has hardly eased is followed further: steps along it are not Newton's.
    while size >= 1.0 and float(found[2] @ direction) < 0.5 * descent and size < 1e18:
        further = at(2 * size)
        if not further[1] < found[1]:
            break
        size, found = 2 * size, further
    return found


def _refuse_runaway(
    value: Callable[[Vector], float], x: Vector, flat: Matrix, *, scale: float
) -> None:
    """Refuse a point at which the loss has only become too flat to descend any further.

    Separable logistic losses decrease for ever, until slope and curvature both vanish in
    rounding. What gives it away: in a direction without curvature a loss that has minimisers
    rises both ways in the end, or neither way; this one rises one way only.
    """
    far = 1e4 * (1 + norm(x))
    here, noise = value(x), 1e-8 * (scale + 1e-300)
    for v in flat.T:
        ahead, behind = value(x + far * v) - here, value(x - far * v) - here
        if (not ahead <= noise) != (not behind <= noise):
            raise OptimumUnknown(
                f"There is no minimiser: the loss may have none but at infinity, and is flat to "
                f"rounding at |x| = {norm(x):.3g}.",
                remedy="Add regularisation (l2 > 0).",
            )


def dense_descent(hessian: Callable[[Vector], Matrix]) -> Descent:
    """Return the Newton directions of a function whose Hessian can be formed.

    Where there is a slope but no curvature, that slope is followed first.
    """
    largest = 0.0  # the largest curvature met: what has vanished beside it counts as flat

    def descend(x: Vector, slope: Vector, noise: float) -> Direction:
        nonlocal largest
        H = hessian(x)
        nothing = np.empty((slope.size, 0))
        if not np.isfinite(H).all():
            return Direction(np.full_like(slope, np.nan), False, nothing)
        stiffest = float(np.diagonal(H).max())
        largest = max(largest, stiffest)
        if stiffest > 1e-9 * largest and _well_conditioned(H):
            return Direction(-np.asarray(np.linalg.solve(H, slope)), True, nothing)
        eigenvalues, basis = np.linalg.eigh(H)
        curved = eigenvalues > _cutoff(eigenvalues)
        # Flat eigenvectors are known to eps * kappa only; that much of the slope leaks into them.
        blur = (
            1e-14 * norm(slope) * eigenvalues[-1] / eigenvalues[curved].min() if curved.any() else 0
        )
        inclined = ~curved & (np.abs(basis.T @ slope) > noise + blur)
        if inclined.any():
            span = basis[:, inclined]
            scale = max(float(eigenvalues[-1]), 0.0) or 1.0
            return Direction(-(span @ (span.T @ slope)) / scale, False, nothing)
        span = basis[:, curved]
        return Direction(
            -(span @ ((span.T @ slope) / eigenvalues[curved])),
            True,
            basis[:, ~curved | (eigenvalues <= _FLAT * largest)],
        )

    return descend


def product_descent(product: Callable[[Vector, Vector], Vector]) -> Descent:
    """Return the Newton directions of a function known through H(x) v only."""

    def descend(x: Vector, slope: Vector, noise: float) -> Direction:
        step = -conjugate_gradients(lambda v: product(x, v), slope)
        unmet = norm(slope + product(x, step))
        curved = unmet <= max(noise, 0.5 * norm(slope))  # otherwise mostly slope, hardly curvature
        return Direction(step if curved else -slope, curved, np.empty((slope.size, 0)))

    return descend


def _well_conditioned(H: Matrix) -> bool:
    try:
        pivots = np.diagonal(np.linalg.cholesky(H)) ** 2
    except np.linalg.LinAlgError:
        return False
    return bool(pivots.min() > 1e-9 * np.diagonal(H).max())


def _cutoff(eigenvalues: Vector) -> float:
    return _FLAT * float(np.sqrt(eigenvalues.size)) * max(float(eigenvalues[-1]), 0.0)


def pseudo_solve(H: Matrix, right: Vector) -> Vector:
    """Return H^-1 r for symmetric H >= 0; the smallest solution where H is singular."""
    eigenvalues, basis = np.linalg.eigh(H)
    curved = eigenvalues > _cutoff(eigenvalues)
    span = basis[:, curved]
    return np.asarray(span @ ((span.T @ right) / eigenvalues[curved]), dtype=float)


def conjugate_gradients(product: Callable[[Vector], Vector], right: Vector) -> Vector:
    """Return H^-1 r for symmetric H >= 0 known through its products only."""
    from scipy.sparse.linalg import LinearOperator, cg

    operator = LinearOperator((right.size, right.size), matvec=product, dtype=np.float64)
    solution: Vector = cg(operator, right, rtol=1e-10, maxiter=10 * right.size)[0]
    return solution
