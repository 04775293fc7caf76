"""Newton directions, and what is flat or rounding in them.

Nothing here depends on the units of the unknowns. Lengths are measured, and what is flat is
decided, after every coordinate was scaled by the square root of its curvature; and a slope is held,
coordinate by coordinate, against the terms that it is the sum of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bequest.core.arrays import norm

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Matrix, Vector

    Magnitude = Callable[[Vector, Vector], Vector]
    Descent = Callable[[Vector, Vector, Magnitude], "Direction"]

# Eigenvalues below this part of the largest (times sqrt(dim)) are rounding, not curvature.
_FLAT = 1e-13
# Scaled curvature above this needs no second thought.
_FAINT = 1e-9
# Gradients below this part of the terms they are the sum of are rounding, not slope.
LEVEL = 1e-13
# Entries of a basis below this are zero.
ROUNDING = 1e-11
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
        noise = LEVEL * np.abs(basis.T) @ (sizes / scale)
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
        curved = unmet <= max(LEVEL * norm(sizes / scale), 0.5 * norm(s))
        step = -(scaled if curved else s) / scale
        return Direction(step, curved, scale, sizes, lambda: np.empty((x.size, 0)), scale)

    return descend


def _sizes(magnitude: Magnitude, x: Vector, scale: Vector) -> Vector:
    """Return the terms of the gradient, and what the rounding of others brings into a coordinate.

    Steps solve for all coordinates at once, to the rounding of the largest terms: a hundredth of
    ``LEVEL``. Without that, what is zero would have to be so to the last bit.
    """
    terms = magnitude(x, scale)
    return terms + 0.01 * float(np.max(terms / scale)) * scale


def _scales(diagonal: Vector, most: Vector, blur: float) -> Vector:
    """Return the square roots of the diagonal; those of the most it can be where it vanishes."""
    bent = diagonal > np.maximum(_GONE * most, blur * most.max())
    scale = np.sqrt(np.where(bent, diagonal, np.maximum(most, 0.0)))
    return np.where(scale > 0, scale, 1.0)


def _well_conditioned(S: Matrix) -> bool:
    """Whether every eigenvalue of S = LL' is above ``_FAINT``.

    The smallest one is at least 1 / |L^-1|^2. The pivots of L do not tell: they may all be far
    above it, and after a small one the next is rounding divided by it.
    """
    try:
        inverse = np.linalg.inv(np.linalg.cholesky(S))
    except np.linalg.LinAlgError:
        return False
    return bool(norm(inverse) < _FAINT**-0.5)


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
    return np.where(np.abs(sparse) > ROUNDING, sparse, 0.0)


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
