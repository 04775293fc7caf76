"""The minimiser of a smooth convex function to the last digits, or an honest no.

Nothing here depends on the units of the unknowns. Lengths are measured, and what is flat is
decided, after every coordinate was scaled by the square root of its curvature; and a slope is held,
coordinate by coordinate, against the terms that it is the sum of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bequest.core.arrays import norm
from bequest.errors import OptimumUnknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Matrix, Vector

    Point = tuple[Vector, float, Vector]
    Magnitude = Callable[[Vector, Vector], Vector]
    Descent = Callable[[Vector, Vector, Magnitude], "Direction"]

ACCURACY = 1e-12
_PATIENCE = 3
MAX_STEPS = 500
# After so many steps it is time to ask whether they lead anywhere.
_EVERY = 25
# Eigenvalues below this part of the largest (times sqrt(dim)) are rounding, not curvature.
_FLAT = 1e-13
# Scaled curvature above this needs no second thought.
_FAINT = 1e-9
# Gradients below this part of the terms they are the sum of are rounding, not slope.
_LEVEL = 1e-13
# What is returned leaves no more than this part: that of an error of ACCURACY, and some rounding.
_GROUND = 1e-11
# Entries of a basis below this are zero.
_ROUNDING = 1e-11
# A coordinate that has lost this much of its curvature has none.
_GONE = 1e-40


class Direction(NamedTuple):
    """Where to go from a point.

    Attributes:
        step: the way there.
        curved: whether curvature said so (a Newton step), or only the slope of a part without
            curvature, whose length means nothing.
        scale: per coordinate, the square root of the curvature: lengths are those of scale * x.
        sizes: per coordinate, the terms of the gradient.
        faint: an orthonormal basis of the directions roof * x in which next to no curvature is
            left, and
        roof: the scale where there is as much curvature as there can be.
    """

    step: Vector
    curved: bool
    scale: Vector
    sizes: Vector
    faint: Callable[[], Matrix]
    roof: Vector

    def length(self, v: Vector) -> float:
        """Return the length of a vector in the units of this direction."""
        return norm(self.scale * v)

    def leaves(self, slope: Vector, part: float) -> bool:
        """Whether a gradient is more than that part of its terms, in any coordinate."""
        return not bool((np.abs(slope) <= part * self.sizes).all())


def newton(
    value: Callable[[Vector], float],
    gradient: Callable[[Vector], Vector],
    descent: Descent,
    start: Vector,
    magnitude: Magnitude | None = None,
    *,
    detour: Descent | None = None,
    exists: bool = False,
    steps: int = MAX_STEPS,
) -> Vector:
    """Return argmin by damped Newton steps, accurate to 1e-12 of its length.

    Where the condition number of the scaled Hessian puts that below rounding (1e4 or so), the steps
    go on until they no longer shrink. Where minimisers form a set, one close to the start is found.
    Either way no coordinate of the gradient is more than rounding beside its terms.

    Args:
        value: f(x).
        gradient: grad f(x).
        descent: (x, gradient, magnitude) -> the Direction; ``dense_descent`` or
            ``product_descent``.
        start: where to begin.
        magnitude: (x, scale) -> how large the terms are whose sum the gradient is, per coordinate,
            which tells a slope from rounding; the largest gradient met on the way by default.
        detour: where to go from where curvature leads astray (kinks, slopes without curvature);
            the way of ``descent`` by default.
        exists: whether there is a minimiser for certain (strong convexity).
        steps: how many steps to try.

    Raises:
        OptimumUnknown: no minimiser was found to that accuracy.
    """
    x = np.array(start, dtype=float)
    slope, level = gradient(x), value(x)
    first, steepest = level, norm(slope)
    shortest, previous, stalled = np.inf, np.inf, 0

    def largest(x: Vector, _: Vector) -> Vector:
        return np.full_like(x, steepest)

    for taken in range(min(steps, MAX_STEPS)):
        if not (np.isfinite(level) and np.isfinite(slope).all() and np.isfinite(x).all()):
            break
        steepest = max(steepest, norm(slope))
        terms = largest if magnitude is None else magnitude
        way = descent(x, slope, terms)
        length, size = way.length(way.step), way.length(x)
        if not np.isfinite(length):
            break
        stalled = stalled + 1 if length >= 0.9 * shortest else 0
        shrinking = min(length / previous, 0.9) if previous > 0 else 0.0
        # Steps that shrink by a factor q leave q/(1-q) times the last one to go.
        left = length * max(1.0, shrinking / (1 - shrinking))
        found = None
        if way.curved and left <= ACCURACY * size:
            found = x + way.step
            found = None if way.leaves(gradient(found), _GROUND) else found
        elif way.curved and stalled >= _PATIENCE and not way.leaves(slope, _LEVEL):
            found = x
        scale = abs(first) + abs(level)
        if found is not None:
            _refuse_runaway(value, found, start, way, scale=scale, exists=exists)
            return found
        if not exists and taken % _EVERY == _EVERY - 1:
            _refuse_runaway(value, x, start, way, scale=scale, exists=False, early=True)
        shortest, previous = min(shortest, length), length
        nearby = _backtrack(value, gradient, x, level, slope, way)
        if nearby is None:
            turns = [way.step] if detour is None else [way.step, detour(x, slope, terms).step]
            ends = [_follow(value, gradient, x, slope, step) for step in turns]
            nearby = min(ends, key=lambda end: np.nan_to_num(end[1], nan=np.inf))
        x, level, slope = nearby
    raise _unknown(
        f"stopped at |x| = {norm(x):.3g} with gradient norm {norm(slope):.3g}", exists=exists
    )


def quadratic(
    gradient: Callable[[Vector], Vector],
    descent: Descent,
    start: Vector,
    magnitude: Magnitude,
    *,
    exists: bool = False,
) -> Vector:
    """Return argmin of a function with a constant Hessian: one solve, refined while it helps.

    As accurate as rounding and the condition number of the scaled Hessian allow, whatever that is;
    no coordinate of the gradient is more than rounding beside its terms.

    Args:
        gradient: grad f(x).
        descent: as in ``newton``.
        start: where to begin, and what to stay close to where minimisers form a set.
        magnitude: as in ``newton``.
        exists: as in ``newton``.

    Raises:
        OptimumUnknown: there is a slope without curvature, so there is no minimiser, or the
            numbers are beyond float64.
    """
    x, previous = np.array(start, dtype=float), np.inf
    for _ in range(10):
        slope = gradient(x)
        way = descent(x, slope, magnitude)
        length = way.length(way.step)
        if np.isfinite(length) and not way.curved:
            slant = f"a slope of {norm(slope):.3g} meets no curvature beyond rounding"
            raise _no_curvature(slant, exists=exists)
        if not length < previous / 2:
            break
        x, previous = x + way.step, length
    if way.leaves(gradient(x), _GROUND):
        raise _unknown(f"a gradient of norm {norm(slope):.3g} is left", exists=exists)
    return x


def _unknown(where: str, *, exists: bool) -> OptimumUnknown:
    """Return why a search ended without a minimiser."""
    if exists:
        return OptimumUnknown(
            f"The minimiser, which there is, was not found to rounding ({where}).",
            remedy="Bring the features to one scale, add regularisation (a larger l2), or check "
            "that value and gradient are exact.",
        )
    return OptimumUnknown(
        f"The minimiser was not found to rounding: the loss may have none ({where}).",
        remedy="Add regularisation (l2 > 0), or check that loss is convex and gradient exact.",
    )


def _no_curvature(why: str, *, exists: bool) -> OptimumUnknown:
    """Return what to say of a loss that is flat, as far as float64 can tell."""
    if exists:
        return OptimumUnknown(
            f"Float64 cannot tell where the minimiser is: {why}.",
            remedy="Add more regularisation (a larger l2), or drop features that are nearly "
            "combinations of others.",
        )
    return OptimumUnknown(
        f"There is no minimiser: {why}.",
        remedy="Add regularisation (l2 > 0), or drop features that are combinations of others.",
    )


def _backtrack(
    value: Callable[[Vector], float],
    gradient: Callable[[Vector], Vector],
    x: Vector,
    level: float,
    slope: Vector,
    way: Direction,
) -> Point | None:
    """Return a point on the way of a Newton step, or None where only a small part of it helps."""
    if not way.curved:
        return None
    descent, steepness = float(slope @ way.step), norm(slope / way.scale)
    exhausted = abs(descent) <= _LEVEL * float(way.sizes @ np.abs(way.step))
    for size in (1.0, 0.5, 0.25, 0.125, 0.0625):
        there = x + size * way.step
        now, ahead = value(there), gradient(there)
        along = float(ahead @ way.step)
        # A convex loss that still falls at the end of a step has fallen all the way. Close to the
        # minimiser values are rounding, and the gradient is the better judge; unless the value
        # rises by more than that, since steps that halve the gradient can go in circles.
        eased = exhausted or norm(ahead / way.scale) <= steepness / 2
        if (
            now <= level + 1e-4 * size * descent
            or along <= 0
            or (eased and now <= level + 1e-12 * abs(level))
        ):
            short = size == 1.0 and along < 0.5 * descent and not exhausted
            return _follow(value, gradient, x, slope, way.step) if short else (there, now, ahead)
    return None


def _follow(
    value: Callable[[Vector], float],
    gradient: Callable[[Vector], Vector],
    x: Vector,
    slope: Vector,
    step: Vector,
) -> Point:
    """Return a point as far along a step as it takes to halve the slope: no value is needed."""
    steepness, size, near, far = abs(float(slope @ step)), 1.0, 0.0, np.inf
    for _ in range(60):
        there = x + size * step
        ahead = gradient(there)
        along = float(ahead @ step)
        if abs(along) <= steepness / 2:
            break
        near, far = (size, far) if along < 0 else (near, size)
        size = 2 * size if far == np.inf else (near + far) / 2
    return there, value(there), ahead


def _refuse_runaway(
    value: Callable[[Vector], float],
    x: Vector,
    start: Vector,
    way: Direction,
    *,
    scale: float,
    exists: bool,
    early: bool = False,
) -> None:
    """Refuse a point at which the loss has only become too flat to descend any further.

    Separable logistic losses decrease for ever, until slope and curvature both vanish in
    rounding. What gives it away: in a direction without curvature a loss that has minimisers
    rises both ways in the end, or neither way; this one rises one way only. (``early``, where the
    other way may be the one to the minimiser, it must be flat all along.)
    """
    basis, moved = way.faint(), way.roof * (x - start)
    travelled = basis @ (basis.T @ moved)
    if norm(travelled) <= 1e-6 * norm(moved):
        return
    travelled[np.abs(travelled) < _ROUNDING * norm(travelled)] = 0.0
    v = travelled / way.roof
    leap = 1e4 * (np.sqrt(scale) + way.length(x)) / way.length(v) * v
    here, noise = value(x), 1e-8 * (scale + 1e-300)
    ahead, behind = value(x + leap) - here, value(x - leap) - here
    if ahead <= noise and not behind <= noise and not (early and ahead < -noise):
        raise _no_curvature(
            f"from |x| = {norm(x):.3g} on the loss is flat to rounding, but one way only",
            exists=exists,
        )


def dense_descent(
    hessian: Callable[[Vector], Matrix], ceiling: Vector | None = None, *, blur: float = 0.0
) -> Descent:
    """Return the Newton directions of a function whose Hessian can be formed.

    Where there is a slope but no curvature, that slope is followed first.

    Args:
        hessian: the Hessian at x.
        ceiling: per coordinate, the most that its diagonal can be, the scale of a coordinate that
            is flat where it is looked at; the most that was met by default.
        blur: how far off the Hessian is, as a part of its largest diagonal entry.
    """
    most = ceiling

    def descend(x: Vector, slope: Vector, magnitude: Magnitude) -> Direction:
        nonlocal most
        H = hessian(x)
        diagonal = np.diagonal(H)
        most = diagonal if most is None else np.maximum(most, diagonal)
        scale, roof = _scales(diagonal, most, blur), _scales(most, most, 0.0)

        def way(step: Vector, *, curved: bool) -> Direction:
            return Direction(step, curved, scale, sizes, lambda: _faint(H, roof, blur), roof)

        sizes = _sizes(magnitude, x, scale)
        if not np.isfinite(H).all():
            return way(np.full_like(slope, np.nan), curved=False)
        S, s = H / scale / scale[:, None], slope / scale
        if _well_conditioned(S):
            return way(-np.asarray(np.linalg.solve(S, s)) / scale, curved=True)
        eigenvalues, basis = np.linalg.eigh(S)
        curved = eigenvalues > max(_cutoff(eigenvalues), blur)
        # Flat eigenvectors are known to eps * kappa only; that much of the slope leaks into them.
        leak = 1e-14 * norm(s) * eigenvalues[-1] / eigenvalues[curved].min() if curved.any() else 0
        noise = _LEVEL * np.abs(basis.T) @ (sizes / scale)
        inclined = ~curved & (np.abs(basis.T @ s) > noise + leak)
        if inclined.any():
            span = basis[:, inclined]
            return way(-(span @ (span.T @ s)) / scale, curved=False)
        span = basis[:, curved]
        step = -(span @ ((span.T @ s) / eigenvalues[curved])) / scale
        if not curved.all():
            step = _shortest(step, span, basis[:, ~curved], scale)
        return way(step, curved=True)

    return descend


def _faint(H: Matrix, roof: Vector, blur: float) -> Matrix:
    """Return a basis of the directions with less than a billionth of what curvature can be."""
    S = H / roof / roof[:, None]
    if _well_conditioned(S):
        return np.empty((roof.size, 0))
    eigenvalues, basis = np.linalg.eigh(S)
    return np.asarray(basis[:, eigenvalues <= max(_FAINT, blur)])


def product_descent(
    product: Callable[[Vector, Vector], Vector], ceiling: Vector | None = None
) -> Descent:
    """Return the Newton directions of a function known through H(x) v only."""

    def descend(x: Vector, slope: Vector, magnitude: Magnitude) -> Direction:
        scale = np.ones_like(x) if ceiling is None else _scales(ceiling, ceiling, 0.0)
        sizes = _sizes(magnitude, x, scale)
        s = slope / scale
        scaled = conjugate_gradients(lambda v: product(x, v / scale) / scale, s)
        unmet = norm(s - product(x, scaled / scale) / scale)
        # otherwise mostly slope, hardly curvature
        curved = unmet <= max(_LEVEL * norm(sizes / scale), 0.5 * norm(s))
        step = -(scaled if curved else s) / scale
        return Direction(step, curved, scale, sizes, lambda: np.empty((x.size, 0)), scale)

    return descend


def _sizes(magnitude: Magnitude, x: Vector, scale: Vector) -> Vector:
    """Return the terms of the gradient, and what the rounding of others brings into a coordinate.

    Steps solve for all coordinates at once, to the rounding of the largest terms: a hundredth of
    ``_LEVEL``. Without that, what is zero would have to be so to the last bit.
    """
    terms = magnitude(x, scale)
    return terms + 0.01 * float(np.max(terms / scale)) * scale


def _scales(diagonal: Vector, most: Vector, blur: float) -> Vector:
    """Return the square roots of the diagonal; those of the most it can be where it vanishes."""
    bent = diagonal > np.maximum(_GONE * most, blur * most.max())
    scale = np.sqrt(np.where(bent, diagonal, np.maximum(most, 0.0)))
    return np.where(scale > 0, scale, 1.0)


def _well_conditioned(S: Matrix) -> bool:
    try:
        pivots = np.diagonal(np.linalg.cholesky(S)) ** 2
    except np.linalg.LinAlgError:
        return False
    return bool(pivots.min() > _FAINT)


def _cutoff(eigenvalues: Vector) -> float:
    return _FLAT * float(np.sqrt(eigenvalues.size)) * max(float(eigenvalues[-1]), 0.0)


def _shortest(step: Vector, span: Matrix, flat: Matrix, scale: Vector) -> Vector:
    """Return the shortest of all steps that differ in the directions without curvature only.

    That is the one in the range of the Hessian, and the one without any part in those directions:
    the basis with fewer vectors is the cleaner one.

    Args:
        step: one of these steps.
        span: an orthonormal basis of the scaled directions with curvature.
        flat: likewise of those without.
        scale: per coordinate.
    """
    if span.shape[1] <= flat.shape[1]:
        basis = np.linalg.qr(_sparse(span) * scale[:, None])[0]
        return np.asarray(basis @ (basis.T @ step), dtype=float)
    basis = np.linalg.qr(_sparse(flat) / scale[:, None])[0]
    return np.asarray(step - basis @ (basis.T @ step), dtype=float)


def _sparse(basis: Matrix) -> Matrix:
    """Return another basis of the same space, each vector with as few coordinates as can be.

    Where scales are far apart, zeros that are only rounding would outweigh what is not.
    """
    from scipy.linalg import qr

    rows = qr(basis.T, mode="r", pivoting=True)[1][: basis.shape[1]]
    sparse = basis @ np.linalg.inv(basis[rows])
    return np.where(np.abs(sparse) > _ROUNDING, sparse, 0.0)


def pseudo_solve(H: Matrix, right: Vector) -> Vector:
    """Return H^-1 r for symmetric H >= 0; the smallest solution where H is singular."""
    scale = _scales(np.diagonal(H), np.diagonal(H), 0.0)
    eigenvalues, basis = np.linalg.eigh(H / scale / scale[:, None])
    curved = eigenvalues > _cutoff(eigenvalues)
    span = basis[:, curved]
    solution: Vector = span @ ((span.T @ (right / scale)) / eigenvalues[curved]) / scale
    return solution if curved.all() else _shortest(solution, span, basis[:, ~curved], scale)


def conjugate_gradients(product: Callable[[Vector], Vector], right: Vector) -> Vector:
    """Return H^-1 r for symmetric H >= 0 known through its products only."""
    from scipy.sparse.linalg import LinearOperator, cg

    operator = LinearOperator((right.size, right.size), matvec=product, dtype=np.float64)
    solution: Vector = cg(operator, right, rtol=1e-10, maxiter=10 * right.size)[0]
    return solution
