"""Newton directions, and what is flat or rounding in them.

Nothing here depends on the units of the unknowns. Lengths are measured, and what is flat is
decided, after every coordinate was scaled by the square root of its curvature; and a slope is held,
coordinate by coordinate, against the terms that it is the sum of.

A Hessian X'DX that was added up has lost what is below 1e-16 of it: columns whose mean is 1e6 of
their deviations, beside an intercept, have a direction with 1e-12 of the curvature, and most digits
of that are gone. The samples themselves still know it: their singular values are the square roots.
So where a Hessian is nearly singular, and samples made it, what is flat is read off them. They are
factored, which is dear, only where they do not simply confirm what the Hessian shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bequest.core.arrays import EPSILON, norm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bequest.core.arrays import Matrix, Vector

    Magnitude = Callable[[Vector, Vector], Vector]
    Descent = Callable[[Vector, Vector, Magnitude], "Direction"]

# Eigenvalues below this part of the largest (times sqrt(dim)) are rounding, not curvature.
_FLAT = 1e-13
# Singular values of samples below this part of the largest (times sqrt(dim)) are rounding.
_THIN = 1e-14
# Scaled curvature above this needs no second thought.
_FAINT = 1e-9
# Gradients below this part of the terms they are the sum of are rounding, not slope.
LEVEL = 1e-13
# Entries of a basis below this are zero.
ROUNDING = 1e-11
# So often a gradient is asked for the noise in it.
_TRIALS = 4
# Depths are squares of slopes: those of rounding differ by so much.
_NOISE = 1e4
# How far off a direction is beside others that are curved alike.
_BLUNT = 1e-14
# So many times the dimension of rows are factored at once.
_ROWS = 4
# A coordinate that has lost this much of its curvature has none.
_GONE = 1e-40


class Valley(NamedTuple):
    """What is known of a Hessian that is nearly singular, after scaling.

    Attributes:
        bends: the curvature in every direction that has some, ascending, and
        span: an orthonormal basis of these.
        flat: one of all others.
        power: a direction is blurred by that power of how many times more another one is curved: 1
            if all is read off the Hessian, and a half if it is read off the samples.
        scale: per coordinate, the square root of the curvature.
    """

    bends: Vector
    span: Matrix
    flat: Matrix
    power: float
    scale: Vector

    @property
    def blunt(self) -> float:
        """How far off the flat directions are."""
        ratio = float(self.bends.max() / self.bends.min()) if self.bends.size else 0.0
        return float(_BLUNT * ratio**self.power)

    def solve(self, slope: Vector) -> Vector:
        """Return H^-1 s in the scaled directions that have curvature."""
        return np.asarray(self.span @ ((self.span.T @ (slope / self.scale)) / self.bends))

    def depths(self, slope: Vector) -> Vector:
        """Return how far below the minimum lies in each of these directions."""
        return np.asarray((self.span.T @ (slope / self.scale)) ** 2 / self.bends / 2)

    def agrees(self, parts: Iterable[Matrix]) -> bool:
        """Whether samples, too, see clear curvature here and none in the flat directions."""
        if not self.bends.size or self.bends.min() <= _FAINT * self.bends.max():
            return False
        basis = self.flat / self.scale[:, None]
        seen = sum((np.square(part @ basis).sum(axis=0) for part in parts), np.zeros(1))
        most = self.scale.size * self.bends.max() * _THIN**2
        return bool((seen <= most).all())

    def without(self, v: Vector, hidden: Vector) -> Valley:
        """Return the same with all that is flat in which a vector spans no more than is hidden."""
        deep = self.bends * (self.span.T @ (self.scale * v)) ** 2 / 2 > hidden
        flat = np.hstack([self.flat, self.span[:, ~deep]])
        return self._replace(bends=self.bends[deep], span=self.span[:, deep], flat=flat)

    def shortened(self, v: Vector) -> Vector:
        """Return the shortest of all vectors that differ in the flat directions only.

        That is the one in the range of the Hessian, and the one without any part in the flat
        directions: the basis with fewer vectors is the cleaner one.
        """
        if self.span.shape[1] <= self.flat.shape[1]:
            basis = np.linalg.qr(_sparse(self.span, self.blunt) * self.scale[:, None])[0]
            return np.asarray(basis @ (basis.T @ v), dtype=float)
        basis = np.linalg.qr(_sparse(self.flat, self.blunt) / self.scale[:, None])[0]
        return np.asarray(v - basis @ (basis.T @ v), dtype=float)


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
        valley: what is known of the Hessian, if it is nearly singular.
    """

    step: Vector
    curved: bool
    scale: Vector
    sizes: Vector
    faint: Callable[[], Matrix]
    roof: Vector
    valley: Valley | None = None

    def length(self, v: Vector) -> float:
        """Return the length of a vector in the units of this direction."""
        return norm(self.scale * v)

    def leaves(self, slope: Vector, part: float) -> bool:
        """Whether a gradient is more than that part of its terms, in any coordinate."""
        return not bool((np.abs(slope) <= part * self.sizes).all())

    def doubt(self, x: Vector, gradient: Callable[[Vector], Vector]) -> Vector:
        """Return the depths that rounding hides: what the last digits of x do to a gradient there.

        Where curvature is h, a gradient that is off by e is that of a point e^2 / 2h higher.
        """
        if self.valley is None:
            return np.zeros(0)
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (_TRIALS, x.size))
        slope = gradient(x)
        moved = [gradient(x + EPSILON * np.abs(x) * sign) - slope for sign in signs]
        return np.asarray(np.max([self.valley.depths(change) for change in moved], axis=0))

    def closest(
        self,
        x: Vector,
        start: Vector,
        gradient: Callable[[Vector], Vector],
        magnitude: Magnitude,
        value: float,
    ) -> Vector:
        """Return the minimiser next to the start, given one; itself where that is uncertain.

        Points that differ by what rounding hides are all minimisers; ``value`` is the size of the
        loss.
        """
        whole = self.valley
        if whole is None:
            return x
        # what is nearly flat has to stay at rounding; what is flat needs no proof
        for valley, floor in (
            (whole.without(x - start, _NOISE * self.doubt(x, gradient)), 0.0),
            (whole, EPSILON * value),
        ):
            if not valley.flat.size:
                continue
            near = start + valley.shortened(x - start)
            for _ in range(_TRIALS):  # a flat direction that is off a little led uphill
                near = near - valley.shortened(valley.solve(gradient(near)) / valley.scale)
            slope, hidden = gradient(near), float(self.doubt(near, gradient).sum())
            sound = float(whole.depths(slope).sum()) <= max(_NOISE * hidden, floor)
            sizes = _sizes(magnitude, near, self.scale)
            if sound and not self._replace(sizes=sizes).leaves(slope, LEVEL):
                return near
        return x


def dense_descent(
    hessian: Callable[[Vector], Matrix],
    ceiling: Vector | None = None,
    *,
    blur: float = 0.0,
    roots: Callable[[Vector], Iterable[Matrix] | None] | None = None,
) -> Descent:
    """Return the Newton directions of a function whose Hessian can be formed.

    Where there is a slope but no curvature, that slope is followed first.

    Args:
        hessian: the Hessian at x.
        ceiling: per coordinate, the most that its diagonal can be, the scale of a coordinate that
            is flat where it is looked at; the most that was met by default.
        blur: how far off the Hessian is, as a part of its largest diagonal entry.
        roots: at x, matrices R whose sum of R'R is the Hessian; None if there are none.
    """
    most = ceiling

    def descend(x: Vector, slope: Vector, magnitude: Magnitude) -> Direction:
        nonlocal most
        H = hessian(x)
        diagonal = np.diagonal(H)
        most = diagonal if most is None else np.maximum(most, diagonal)
        scale, roof = _scales(diagonal, most, blur), _scales(most, most, 0.0)

        def way(step: Vector, *, curved: bool, valley: Valley | None = None) -> Direction:
            faint = lambda: _faint(H, roof, blur)  # noqa: E731 - seldom asked for
            return Direction(step, curved, scale, sizes, faint, roof, valley)

        sizes = _sizes(magnitude, x, scale)
        if not np.isfinite(H).all():
            return way(np.full_like(slope, np.nan), curved=False)
        S, s = H / scale / scale[:, None], slope / scale
        if _well_conditioned(S):
            return way(-np.asarray(np.linalg.solve(S, s)) / scale, curved=True)
        valley = _seen(S, scale, blur)
        if roots is not None and (parts := roots(x)) is not None and not valley.agrees(parts):
            valley = _seen_by_samples(roots(x) or (), scale)
        # That much of the slope leaks into flat directions that are not known exactly.
        noise = LEVEL * np.abs(valley.flat.T) @ (sizes / scale) + valley.blunt * norm(s)
        inclined = np.abs(valley.flat.T @ s) > noise
        if inclined.any():
            span = valley.flat[:, inclined]
            return way(-(span @ (span.T @ s)) / scale, curved=False, valley=valley)
        return way(-valley.solve(slope) / scale, curved=True, valley=valley)

    return descend


def _seen(S: Matrix, scale: Vector, blur: float = 0.0) -> Valley:
    """Return what a scaled Hessian shows."""
    eigenvalues, basis = np.linalg.eigh(S)
    most = max(float(eigenvalues[-1]), 0.0)
    curved = eigenvalues > max(_FLAT * float(np.sqrt(eigenvalues.size)) * most, blur)
    bends = eigenvalues[curved]
    return Valley(bends, basis[:, curved], basis[:, ~curved], 1.0, scale)


def _seen_by_samples(parts: Iterable[Matrix], scale: Vector) -> Valley:
    """Return what samples show of the Hessian that they make, which has twice the digits."""
    values, basis = np.linalg.svd(_triangle(parts, scale))[1:]
    sizes = np.zeros(scale.size)
    sizes[: values.size] = values
    curved = sizes > _THIN * float(np.sqrt(scale.size)) * float(sizes.max())
    return Valley(sizes[curved] ** 2, basis[curved].T, basis[~curved].T, 0.5, scale)


def _triangle(parts: Iterable[Matrix], scale: Vector) -> Matrix:
    """Return one matrix R whose R'R is the sum of theirs, after scaling, with few rows."""
    held, height = [np.empty((0, scale.size))], 0
    for part in parts:
        held.append(part / scale)
        height += len(part)
        if height > _ROWS * scale.size:
            held, height = [_upper(held)], 0
    return _upper(held)


def _upper(held: list[Matrix]) -> Matrix:
    return np.asarray(np.linalg.qr(np.vstack(held), mode="r"))


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


def _sparse(basis: Matrix, blunt: float) -> Matrix:
    """Return another basis of the same space, each vector with as few coordinates as can be.

    Where scales are far apart, zeros that are only rounding would outweigh what is not.
    """
    from scipy.linalg import qr

    rows = qr(basis.T, mode="r", pivoting=True)[1][: basis.shape[1]]
    sparse = basis @ np.linalg.inv(basis[rows])
    return np.where(np.abs(sparse) > max(ROUNDING, blunt), sparse, 0.0)


def pseudo_solve(H: Matrix, right: Vector) -> Vector:
    """Return H^-1 r for symmetric H >= 0; the smallest solution where H is singular."""
    scale = _scales(np.diagonal(H), np.diagonal(H), 0.0)
    valley = _seen(H / scale / scale[:, None], scale)
    solution = valley.solve(right) / scale
    return valley.shortened(solution) if valley.flat.size else solution


def conjugate_gradients(product: Callable[[Vector], Vector], right: Vector) -> Vector:
    """Return H^-1 r for symmetric H >= 0 known through its products only."""
    from scipy.sparse.linalg import LinearOperator, cg

    operator = LinearOperator((right.size, right.size), matvec=product, dtype=np.float64)
    solution: Vector = cg(operator, right, rtol=1e-10, maxiter=10 * right.size)[0]
    return solution
