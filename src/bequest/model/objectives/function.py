"""A user's own loss."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from bequest.core.arrays import EPSILON, is_whole, norm, refuse_masked
from bequest.core.curvature import Curvature
from bequest.errors import (
    DimensionMismatch,
    GradientMismatch,
    InvalidObjective,
    NotConvex,
    NotFinite,
)
from bequest.model.objectives.base import Objective, Singles
from bequest.model.objectives.derivatives import check_gradient, grain, step_size

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Matrix, Vector

# Estimated ranges are widened by this much: a sample never meets the extremes.
_WIDENING = 0.1
# Hessian-vector products per sampled point that an estimate may take, in any dimension.
_PRODUCTS = 8
# How many answers are looked at to tell the precision of a loss that was not checked.
_ANSWERS = 8


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

    In any dimension the check takes 13 calls as a rule, and no more than 69; the
    estimate takes 68 at most. Neither is made if you pass ``check=False`` and a curvature.

    Value and gradient may be computed in float32, which is noticed (``precision``): steps of
    differences are longer then, and what is derived from them is less accurate. Coarser ones
    cannot be checked.

    >>> f = Function(lambda x: (x @ x, 2 * x), dim=3, curvature=(2.0, 2.0))
    >>> f.value([1.0, 0.0, 0.0]), f.hvp(np.zeros(3), [1.0, 0.0, 0.0]).round(6)
    (1.0, array([2., 0., 0.]))
    """

    # What it has learnt from its answers is no part of what it is.
    learnt: ClassVar[frozenset[str]] = frozenset({"_precision", "_grains"})

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
        if hvp is not None and not callable(hvp):
            raise InvalidObjective(
                f"hvp is {hvp!r}, which cannot be called.",
                remedy="Pass a function (x, v) -> H(x) v, or none.",
            )
        if not is_whole(dim, least=1):
            raise DimensionMismatch(f"dim is {dim}.", remedy="Pass a whole number >= 1.")
        if not is_whole(seed, least=0):
            raise InvalidObjective(f"seed is {seed!r}.", remedy="Pass a whole number >= 0.")
        self._value_and_grad, self._hvp, self._dim = value_and_grad, hvp, int(dim)
        self._seed, self._is_checked = seed, bool(check)  # a check tells the precision, too
        self._precision: float | None = None
        self._grains: list[float] = []  # of the first answers, as long as it is not known
        given = None
        if curvature is not None:
            given = as_curvature(
                curvature, remedy="Pass (a, b), a Curvature, or None to estimate it."
            )
        if check:
            self._check(given)
        self._met: tuple[float, float] | None = None
        self._range = self._estimate() if given is None else given

    @property
    def dim(self) -> int:
        """Number of unknowns."""
        return self._dim

    @property
    def curvature(self) -> Curvature:
        """As given, or as estimated."""
        return self._range

    @property
    def met(self) -> tuple[float, float]:
        """As given; of an estimated range what was seen, without what it was widened by."""
        return super().met if self._met is None else self._met

    @property
    def precision(self) -> float:
        """The relative rounding of value and gradient: 2e-16 in float64, 1e-7 in float32."""
        if self._precision is None:
            # Round numbers look coarse, so the finest answer tells. Where there are none yet, a
            # point that is not round is asked for.
            seen = self._grains or [self._grain_at(_sample_points(self._dim, self._seed)[1])]
            self._precision = min(seen)
        return self._precision

    @property
    def family(self) -> Hashable:
        """Functions of one dimension share a stack, though it can only call them one by one."""
        return (Function, self._dim)

    def stack(self, members: Sequence[Any]) -> FunctionStack:
        """Return these functions as one stack."""
        return FunctionStack(members)

    def evaluate(self, x: Vector) -> tuple[float, Vector]:
        """Return value and gradient, checked for shape."""
        answer = self._ask(x)
        numbers = self._as_numbers(*answer)
        if self._precision is None and len(self._grains) < _ANSWERS:
            self._grains.append(grain(*answer))
        return numbers

    def answer(self, x: Vector) -> tuple[float, Vector]:
        """Return value and gradient, and learn nothing from them."""
        return self._as_numbers(*self._ask(x))

    def _ask(self, x: Vector) -> tuple[Any, Any]:
        """Return value and gradient of the types that the callable gives them."""
        answer = self._value_and_grad(np.array(x))
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise InvalidObjective(
                f"value_and_grad returned a {type(answer).__name__}.",
                remedy="Return a pair (value, gradient).",
            )
        return answer

    def _grain_at(self, x: Vector) -> float:
        """Return the relative rounding of value and gradient at x."""
        answer = self._ask(x)
        self._as_numbers(*answer)
        return grain(*answer)

    def _as_numbers(self, value: object, gradient: object) -> tuple[float, Vector]:
        """Return what the callable gave as float64, or refuse it."""
        return float(_real(value, (), "The value")), _real(gradient, (self._dim,), "The gradient")

    def product(self, x: Vector, v: Vector) -> Vector:
        """Return H(x) v, by central differences of gradients if no hvp was given."""
        if self._hvp is not None:
            return _real(self._hvp(np.array(x), np.array(v)), (self._dim,), "The hvp")
        size = float(np.linalg.norm(v))
        if size == 0:
            return np.zeros(self._dim)
        if self._precision is None:  # asked where it is needed: elsewhere it may not be defined
            self._precision = self._grain_at(x)
        h = step_size(self._precision) * (1 + norm(x)) / size
        ahead, behind = self.evaluate(x + h * v)[1], self.evaluate(x - h * v)[1]
        product: Vector = (ahead - behind) / (2 * h)
        return product

    @property
    def product_is_difference(self) -> bool:
        """Whether there is no hvp but differences of gradients."""
        return self._hvp is None

    def noise(self, x: Vector) -> float:
        """Return how far off a product with a unit vector at x may be, for rounding."""
        if not self.product_is_difference:
            return 0.0
        h = step_size(self.precision) * (1 + norm(x))
        return 4 * self.precision * norm(self.evaluate(x)[1]) / h

    def _check(self, curvature: Curvature | None) -> None:
        """Compare gradient with value, hvp with gradient, and the curvature with both."""
        points = _sample_points(self._dim, self._seed)
        trials = check_gradient(self.evaluate, points, self._seed, self.precision)
        self._precision = trials[0].precision
        for trial in trials:
            along = float(trial.bend @ trial.v)
            if curvature is not None and not _within(along, curvature, trial.bend_error):
                raise InvalidObjective(
                    f"The curvature was given as [{curvature.a:.4g}, {curvature.b:.4g}], but "
                    f"along a random direction it is {along:.4g}.",
                    remedy="Give bounds that hold everywhere, or none to have them estimated.",
                )
            if self._hvp is not None:
                product = self.product(trial.x, trial.v)
                # a second direction sees what is not symmetric
                for w in (trial.v, np.roll(trial.v, 1)):
                    tolerance = 1e-4 * norm(trial.bend) + trial.bend_error
                    _agree(float(product @ w), float(trial.bend @ w), tolerance)

    def _estimate(self) -> Curvature:
        """Return the range of the Hessian's eigenvalues over a few points, widened by a tenth.

        It is an estimate: curvature the points did not meet is not in it, and ``certified`` says
        so. What a few products leave open of a large Hessian counts on the safe side.
        """
        points = _sample_points(self._dim, self._seed)
        starts = np.random.default_rng([self._seed, 2]).standard_normal(points.shape)
        seen = [_hessian_ends(self, x, q) for x, q in zip(points, starts, strict=True)]
        noise = max(ends.noise for ends in seen)
        lowest, highest = min(ends.low for ends in seen), max(ends.high for ends in seen)
        if lowest < -(1e-4 * abs(highest) + noise):
            raise NotConvex(
                f"The Hessian has the eigenvalue {lowest:.3g} at a sampled point.",
                remedy="Use a convex loss, or pass the curvature if you know that it is convex.",
            )
        self._met = max(lowest, 0.0), max(highest, 0.0)
        floor = min(ends.low - ends.low_error for ends in seen)
        roof = max(ends.high + ends.high_error for ends in seen)
        # What finite differences cannot tell from zero is zero.
        a = floor * (1 - _WIDENING) if floor > 1e-6 * highest + noise else 0.0
        b = max(highest * (1 + _WIDENING), roof, 0.0)
        return Curvature(a, b, certified=False)

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

    def terms(self, x: Vector, scale: Vector) -> Vector:
        """Return what no formula says, more of it where the rounding is coarser."""
        return super().terms(x, scale) * self.precision / EPSILON

    @property
    def precision(self) -> float:
        """The coarsest one of the members."""
        return max(f.precision for f in self.members)

    @property
    def blur(self) -> float:
        """The error of differences, where they are all there is."""
        by_differences = [f.precision for f in self.members if f.product_is_difference]
        return 10 * step_size(max(by_differences)) ** 2 if by_differences else 0.0

    def total_hessian(self, x: Vector) -> Matrix:
        """Return the sum of the members' Hessians, a product per coordinate."""
        total: Matrix = np.sum([_dense_hessian(f, x) for f in self.members], axis=0)
        return total


class _Ends(NamedTuple):
    """The ends of a spectrum, how far beyond them it may reach, and the noise of its products."""

    low: float
    low_error: float
    high: float
    high_error: float
    noise: float


def _hessian_ends(function: Function, x: Vector, start: Vector) -> _Ends:
    """Return the ends of the Hessian's spectrum at x, by Lanczos's iteration.

    It is exact up to ``_PRODUCTS`` dimensions; beyond, what is left over of the last product
    bounds how far an eigenvalue is from the one that was found.
    """
    basis = np.empty((0, function.dim))
    q = start / norm(start)
    diagonal: list[float] = []
    beside: list[float] = []
    for _ in range(min(function.dim, _PRODUCTS)):
        basis = np.vstack([basis, q])
        bent = function.product(x, q)
        if not np.isfinite(bent).all():
            raise NotFinite(
                f"The curvature at {x[:4]}... is not finite.",
                remedy="Make the loss finite everywhere, or pass the curvature.",
            )
        diagonal.append(float(q @ bent))
        for _ in range(2):  # twice is enough
            bent = bent - basis.T @ (basis @ bent)
        beside.append(norm(bent))
        if beside[-1] == 0:
            break
        q = bent / beside[-1]
    left = 0.0 if len(diagonal) == function.dim else beside[-1]
    T = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    values, vectors = np.linalg.eigh(T)
    errors = left * np.abs(vectors[-1])
    low = float(values[0])
    if low < 0:
        # Long differences leave out enough to make this up of a convex function. Along the
        # direction itself they do not: the slope of a convex function never falls.
        v = basis.T @ vectors[:, 0]
        low = float(v @ function.product(x, v))
    return _Ends(
        low,
        float(errors[0]),
        float(values[-1]),
        float(errors[-1]),
        function.noise(x),
    )


def _real(given: object, shape: tuple[int, ...], what: str) -> Vector:
    """Return what a user's function returned as real numbers of this shape, or refuse it.

    Raises:
        DimensionMismatch: it has another shape.
        InvalidObjective: it is not numbers, or complex ones.
    """
    refuse_masked(given, what)
    wanted = f"a vector of length {shape[0]}" if shape else "a number"
    try:
        numbers = np.asarray(given)
        if numbers.dtype.kind in "cUSOMm":  # complex, text, objects (None too), times
            raise TypeError(numbers.dtype)
        numbers = numbers.astype(float)
    except (TypeError, ValueError, RuntimeError) as misfit:
        raise InvalidObjective(
            f"{what} is {reprlib.repr(given)}, which is not {wanted}.", remedy=f"Return {wanted}."
        ) from misfit
    if numbers.shape != shape:
        raise DimensionMismatch(
            f"{what} has shape {numbers.shape} instead of {shape}.", remedy=f"Return {wanted}."
        )
    return numbers


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
        try:
            return Curvature(float(given[0]), float(given[1]))
        except (TypeError, OverflowError):
            pass  # refused below
        except ValueError as error:  # text; or what a Curvature refuses, in words of its own
            if isinstance(error, InvalidObjective):
                raise
    raise InvalidObjective(f"The curvature is {given!r}.", remedy=remedy)


def _within(bend: float, curvature: Curvature, error: float) -> bool:
    slack = 1e-4 * curvature.b + error
    return curvature.a - slack <= bend <= curvature.b + slack


def _agree(claimed: float, measured: float, tolerance: float) -> None:
    if not abs(claimed - measured) <= 1e-4 * abs(measured) + tolerance:
        raise GradientMismatch(
            f"The hvp disagrees with the gradient: along a random direction it says "
            f"{claimed:.6g}, differences of the gradient say {measured:.6g}.",
            remedy="Correct the hvp (sign? factor? a term left out?), or pass check=False if the "
            "loss is noisy on purpose.",
        )
