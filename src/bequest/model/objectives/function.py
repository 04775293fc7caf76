"""A user's own loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.core.arrays import is_whole, refuse_masked
from bequest.core.curvature import Curvature
from bequest.errors import (
    DimensionMismatch,
    GradientMismatch,
    InvalidObjective,
    NotConvex,
    NotFinite,
)
from bequest.model.objectives.base import Objective, Singles

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Matrix, Vector

_EPSILON = float(np.finfo(float).eps)
# Relative size of the steps of central differences: eps^(1/3), where their two errors balance.
_STEP = _EPSILON ** (1 / 3)
# Estimated ranges are widened by this much: a sample never meets the extremes.
_WIDENING = 0.1
# Up to this dimension the Hessian is formed, a product per coordinate; beyond, Lanczos.
_DENSE_DIM = 300


class Function(Objective):
    """A loss given by ``value_and_grad(x) -> (float, vector)``, scipy.optimize's convention.

    Args:
        value_and_grad: returns the value and the gradient at x.
        dim: number of unknowns.
        curvature: (a, b) or a Curvature if you know one. Without it the range is estimated at a
            few seeded points, and marked as estimated (``curvature.certified`` is False).
        hvp: ``hvp(x, v)``, the Hessian-vector product; central differences of gradients if absent.
        check: compare the gradient with differences of the value, once, at construction.
        seed: of the points used by the estimate and the check.

    >>> f = Function(lambda x: (x @ x, 2 * x), dim=3, curvature=(2.0, 2.0))
    >>> f.value([1.0, 0.0, 0.0]), f.hvp(np.zeros(3), [1.0, 0.0, 0.0]).round(6)
    (1.0, array([2., 0., 0.]))
    """

    def __init__(
        self,
        value_and_grad: Callable[[Vector], tuple[float, ArrayLike]],
        *,
        dim: int,
        curvature: Curvature | tuple[float, float] | None = None,
        hvp: Callable[[Vector, Vector], ArrayLike] | None = None,
        check: bool = True,
        seed: int = 0,
    ) -> None:
        if not callable(value_and_grad):
            raise InvalidObjective(
                f"value_and_grad is {value_and_grad!r}, which cannot be called.",
                remedy="Pass a function x -> (value, gradient).",
            )
        if not is_whole(dim, least=1):
            raise DimensionMismatch(f"dim is {dim}.", remedy="Pass a whole number >= 1.")
        self._value_and_grad, self._hvp, self._dim = value_and_grad, hvp, int(dim)
        points = _sample_points(self._dim, seed)
        given = None
        if curvature is not None:
            given = as_curvature(
                curvature, remedy="Pass (a, b), a Curvature, or None to estimate it."
            )
        if check:
            self._check(points, seed, given)
        self._range = estimate_curvature(self, points) if given is None else given

    @property
    def dim(self) -> int:
        """Number of unknowns."""
        return self._dim

    @property
    def curvature(self) -> Curvature:
        """As given, or as estimated."""
        return self._range

    @property
    def family(self) -> Hashable:
        """Functions of one dimension share a stack, though it can only call them one by one."""
        return (Function, self._dim)

    def stack(self, members: Sequence[Any]) -> FunctionStack:
        """Return these functions as one stack."""
        return FunctionStack(members)

    def evaluate(self, x: Vector) -> tuple[float, Vector]:
        """Return value and gradient, checked for shape."""
        answer = self._value_and_grad(np.array(x))
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise InvalidObjective(
                f"value_and_grad returned a {type(answer).__name__}.",
                remedy="Return a pair (value, gradient).",
            )
        value, gradient = answer
        refuse_masked(gradient, "The gradient")
        slope = np.asarray(gradient, dtype=float)
        if slope.shape != (self._dim,):
            raise DimensionMismatch(
                f"The gradient has shape {slope.shape}, but dim is {self._dim}.",
                remedy=f"Return a vector of length {self._dim} as the second result.",
            )
        return float(value), slope

    def product(self, x: Vector, v: Vector) -> Vector:
        """Return H(x) v, by central differences of gradients if no hvp was given."""
        if self._hvp is not None:
            answer = self._hvp(np.array(x), np.array(v))
            refuse_masked(answer, "The hvp")
            given = np.asarray(answer, dtype=float)
            if given.shape != (self._dim,):
                raise DimensionMismatch(
                    f"The hvp has shape {given.shape}, but dim is {self._dim}.",
                    remedy=f"Return a vector of length {self._dim}.",
                )
            return given
        size = float(np.linalg.norm(v))
        if size == 0:
            return np.zeros(self._dim)
        h = _STEP * (1 + float(np.linalg.norm(x))) / size
        ahead, behind = self.evaluate(x + h * v)[1], self.evaluate(x - h * v)[1]
        product: Vector = (ahead - behind) / (2 * h)
        return product

    def _check(self, points: Matrix, seed: int, curvature: Curvature | None) -> None:
        """Compare gradient with value, hvp with gradient, and the curvature with both."""
        directions = np.random.default_rng([seed, 1]).standard_normal(points.shape)
        for x, direction in zip(points, directions, strict=True):
            v = direction / np.linalg.norm(direction)
            value, gradient = self.evaluate(x)
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                raise NotFinite(
                    f"value_and_grad gives a value or gradient that is not finite at {x[:4]}...",
                    remedy="Make it finite everywhere, or pass check=False if it is where you run.",
                )
            h = _STEP * (1 + float(np.linalg.norm(x)))
            ahead, behind = self.evaluate(x + h * v), self.evaluate(x - h * v)
            size = float(np.linalg.norm(gradient))
            _agree(
                "gradient",
                "value",
                float(gradient @ v),
                (ahead[0] - behind[0]) / (2 * h),
                # differences of a large value are known to its rounding only
                tolerance=1e-4 * size + 10 * _EPSILON * abs(value) / h,
            )
            bend_along = float((ahead[1] - behind[1]) @ v) / (2 * h)
            if curvature is not None and not _within(bend_along, curvature, _EPSILON * size / h):
                raise InvalidObjective(
                    f"The curvature was given as [{curvature.a:.4g}, {curvature.b:.4g}], but "
                    f"along a random direction it is {bend_along:.4g}.",
                    remedy="Give bounds that hold everywhere, or none to have them estimated.",
                )
            if self._hvp is not None:
                product, difference = self.product(x, v), (ahead[1] - behind[1]) / (2 * h)
                bend = float(np.linalg.norm(difference))
                rounding = 10 * _EPSILON * size / h
                for w in (v, np.roll(v, 1)):  # a second direction sees what is not symmetric
                    _agree(
                        "hvp",
                        "gradient",
                        float(product @ w),
                        float(difference @ w),
                        tolerance=1e-4 * bend + rounding,
                    )

    def __repr__(self) -> str:
        return f"Function(dim={self.dim}, {self.curvature})"


class FunctionStack(Singles[Function]):
    """Functions, called one after the other."""

    def values(self, X: Matrix) -> Vector:
        """Return f_i(x_i) for every member."""
        return np.array([f.evaluate(x)[0] for f, x in zip(self.members, X, strict=True)])

    def gradients(self, X: Matrix, out: Matrix) -> None:
        """Write grad f_i(x_i) into ``out``."""
        for row, (f, x) in enumerate(zip(self.members, X, strict=True)):
            out[row] = f.evaluate(x)[1]

    def products(self, X: Matrix, V: Matrix) -> Matrix:
        """Return the Hessian-vector products."""
        return np.array([f.product(x, v) for f, x, v in zip(self.members, X, V, strict=True)])

    def total_hessian(self, x: Vector) -> Matrix:
        """Return the sum of the members' Hessians, a product per coordinate."""
        total: Matrix = np.sum([_dense_hessian(f, x) for f in self.members], axis=0)
        return total


def estimate_curvature(function: Function, points: Matrix) -> Curvature:
    """Return the range of the Hessian's eigenvalues over ``points``, widened by a tenth.

    Dense for small dimensions, Lanczos on Hessian-vector products beyond. It is an estimate:
    curvature the points did not meet is not in it, and ``certified`` says so.
    """
    ends = np.array([_hessian_ends(function, x) for x in points])
    lowest, highest = float(ends[:, 0].min()), float(ends[:, 1].max())
    if lowest < -1e-4 * max(abs(highest), 1e-300):
        raise NotConvex(
            f"The Hessian has the eigenvalue {lowest:.3g} at a sampled point.",
            remedy="Use a convex loss, or pass the curvature if you know that it is convex.",
        )
    # What finite differences cannot tell from zero is zero.
    a = lowest * (1 - _WIDENING) if lowest > 1e-6 * highest else 0.0
    return Curvature(a, max(highest, 0.0) * (1 + _WIDENING), certified=False)


def seen_range(curvature: Curvature) -> tuple[float, float]:
    """Return the ends of a range, those of an estimated one without its widening: what was met.

    >>> seen_range(Curvature(0.9, 2.2, certified=False))
    (1.0, 2.0)
    """
    if curvature.certified:
        return curvature.a, curvature.b
    return curvature.a / (1 - _WIDENING), curvature.b / (1 + _WIDENING)


def _hessian_ends(function: Function, x: Vector) -> tuple[float, float]:
    if function.dim <= _DENSE_DIM:
        hessian = _dense_hessian(function, x)
        if not np.isfinite(hessian).all():
            raise NotFinite(
                f"The curvature at {x[:4]}... is not finite.",
                remedy="Make the loss finite everywhere, or pass the curvature.",
            )
        eigenvalues = np.linalg.eigvalsh(hessian)
        return float(eigenvalues[0]), float(eigenvalues[-1])
    return _lanczos_end(function, x, "SA"), _lanczos_end(function, x, "LA")


def _lanczos_end(function: Function, x: Vector, which: str) -> float:
    from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

    def product(v: Vector) -> Vector:
        bent = function.product(x, v)
        if not np.isfinite(bent).all():
            raise NotFinite(
                f"The curvature at {x[:4]}... is not finite.",
                remedy="Make the loss finite everywhere, or pass the curvature.",
            )
        return bent

    operator = LinearOperator((function.dim, function.dim), matvec=product, dtype=np.float64)
    start = np.cos(np.arange(function.dim) * 1.618033988749895)
    if not np.any(product(start)):
        return 0.0  # no curvature at all, which ARPACK takes for an error
    options = {"k": 1, "v0": start, "ncv": 40, "tol": 1e-6, "return_eigenvectors": False}
    try:
        return float(eigsh(operator, which=which, **options)[0])
    except ArpackNoConvergence:
        # The lower end of a wide spectrum is the hard one, and zero is always a lower bound.
        if which == "SA":
            return 0.0
        raise InvalidObjective(
            "The largest curvature could not be estimated.", remedy="Pass the curvature."
        ) from None
    except ArpackError as error:
        raise InvalidObjective(
            f"The curvature could not be estimated: {error}", remedy="Pass the curvature."
        ) from error


def _dense_hessian(function: Function, x: Vector) -> Matrix:
    columns: Matrix = np.array([function.product(x, e) for e in np.eye(function.dim)])
    return (columns + columns.T) / 2


def _sample_points(dim: int, seed: int) -> Matrix:
    points = np.random.default_rng([seed, 0]).standard_normal((4, dim))
    points[0] = 0.0  # where runs start unless told otherwise
    return points


def as_curvature(given: object, *, remedy: str) -> Curvature:
    """Return what a user gave for a curvature as one, or refuse it with this remedy."""
    if isinstance(given, Curvature):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        return Curvature(float(given[0]), float(given[1]))
    raise InvalidObjective(f"The curvature is {given!r}.", remedy=remedy)


def _within(bend: float, curvature: Curvature, rounding: float) -> bool:
    slack = 1e-4 * curvature.b + 10 * rounding + 1e-9
    return curvature.a - slack <= bend <= curvature.b + slack


def _agree(claim: str, source: str, claimed: float, measured: float, *, tolerance: float) -> None:
    if not abs(claimed - measured) <= 1e-4 * abs(measured) + tolerance + 1e-12:
        raise GradientMismatch(
            f"The {claim} disagrees with the {source}: along a random direction it says "
            f"{claimed:.6g}, differences of the {source} say {measured:.6g}.",
            remedy=f"Correct the {claim} (sign? factor? a term left out?), "
            "or pass check=False if the loss is noisy on purpose.",
        )
