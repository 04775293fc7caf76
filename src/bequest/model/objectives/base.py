"""What a loss can do, alone and stacked with others of its kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeGuard, TypeVar

import numpy as np

from bequest.core.arrays import EPSILON, is_fixed, refuse_masked
from bequest.core.unfinished import refuse_unfinished
from bequest.errors import DimensionMismatch, InvalidObjective, NotFinite
from bequest.model.overrides import replaced

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Indices, Matrix, Tensor, Vector
    from bequest.core.curvature import Curvature
    from bequest.model.objectives.minibatches import Draws


# Runs compute with squares of gradients, which are products of two numbers of the data: larger ones
# leave the range of float64. Curvatures are such products.
LARGEST = 1e75
# The one object that NumPy has for it.
_FLOAT = np.dtype(np.float64)
# Kinds of arrays that NumPy makes numbers of, and that are none.
_NO_NUMBERS = {"c": "complex numbers", "U": "text", "S": "bytes", "M": "dates", "m": "durations"}

Single = TypeVar("Single", bound="Objective")


class Stack(ABC):
    """Losses of one kind, evaluated together: row i of every argument belongs to member i.

    The formulas of a loss stand in its stack and nowhere else; a single loss is a stack of one.
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(members, dim)."""

    @property
    def constant_hessian(self) -> bool:
        """Whether every member is a quadratic."""
        return False

    @property
    def gradient_work(self) -> float:
        """About how many multiplications the gradients of all members take."""
        members, dim = self.shape
        return float(members) * float(dim)

    @property
    def hessian_work(self) -> float:
        """Likewise for ``total_hessian``; infinite where it is no formula."""
        return float("inf")

    @property
    def attains(self) -> bool:
        """Whether every member, and with it their sum, has a minimiser for certain.

        Quadratics and piecewise quadratics do if they are bounded from below, others need not.
        """
        return self.constant_hessian

    @abstractmethod
    def values(self, X: Matrix) -> Vector:
        """Return f_i(x_i) for every member."""

    @abstractmethod
    def gradients(self, X: Matrix, out: Matrix) -> None:
        """Write grad f_i(x_i) into row i of ``out``."""

    @abstractmethod
    def products(self, X: Matrix, V: Matrix) -> Matrix:
        """Return the Hessian-vector products H_i(x_i) v_i."""

    @abstractmethod
    def total_hessian(self, x: Vector) -> Matrix:
        """Return the sum of the members' Hessians at one point."""

    @abstractmethod
    def curvatures(self) -> tuple[Vector, Vector]:
        """Return the certified bounds (a_i) and (b_i)."""

    def roots(self, x: Vector) -> Iterator[Matrix] | None:  # noqa: ARG002 - samples have some
        """Return matrices R whose sum of R'R is the total Hessian, to their own last digits.

        None where the Hessian is only known as a sum, whose small eigenvalues are rounding.
        """
        return None

    def ceiling(self) -> Vector:
        """Return, per coordinate, a bound from above on the diagonal of the total Hessian."""
        return np.full(self.shape[1], float(self.curvatures()[1].sum()))

    def bounds(self) -> Tensor:
        """Return, per member, a matrix that no Hessian of it exceeds anywhere."""
        most = self.curvatures()[1]
        return most[:, None, None] * np.eye(self.shape[1])

    def total_majoriser(self, x: Vector) -> Matrix:  # noqa: ARG002 - some know a closer one
        """Return the Hessian of a quadratic that touches the sum at x and is nowhere below it."""
        return np.diag(self.shape[1] * self.ceiling())

    def terms(self, x: Vector, scale: Vector) -> Vector:
        """Return, per coordinate, the absolute values of all that the total gradient sums up.

        The gradient at x is known to their rounding, so that a slope far below them is none. Where
        no formula says what they are, it is H x that cancels, |H_ij| <= scale_i scale_j, ``scale``
        being the square root of the Hessian's diagonal; and x is of the order of one at least.
        """
        parts = np.empty(self.shape)
        self.gradients(np.broadcast_to(x, self.shape), parts)
        total: Vector = np.abs(parts).sum(axis=0)
        return total + scale * float(scale @ (1 + np.abs(x)))

    @property
    def precision(self) -> float:
        """The relative rounding of values and gradients; that of float64 where formulas are."""
        return EPSILON

    @property
    def blur(self) -> float:
        """How far off ``total_hessian`` is, as a part of its largest entry; formulas are not."""
        return 0.0

    @property
    def certified(self) -> bool:
        """Whether these bounds are proven for every member."""
        return True

    @property
    def is_stochastic(self) -> bool:
        """Whether the rounds of some member take a few of its samples each."""
        return False

    @property
    def at_hand(self) -> bool:
        """Whether the data may be looked at here, and not only where a member is evaluated."""
        return True

    @abstractmethod
    def take(self, rows: Indices) -> Self:
        """Return the stack of these members."""

    @abstractmethod
    def member(self, row: int) -> Objective:
        """Return one member as a loss of its own."""


class Singles(Stack, Generic[Single]):
    """Losses that cannot be joined into arrays: they are kept, and asked, one by one."""

    def __init__(self, members: Sequence[Single]) -> None:
        self.members = list(members)

    @property
    def shape(self) -> tuple[int, int]:
        """(members, dim)."""
        return len(self.members), self.members[0].dim

    def curvatures(self) -> tuple[Vector, Vector]:
        """Return the bounds of every member, as it states them."""
        ranges = [m.curvature for m in self.members]
        return np.array([r.a for r in ranges]), np.array([r.b for r in ranges])

    @property
    def certified(self) -> bool:
        """Whether every member is certain of its bounds."""
        return all(m.curvature.certified for m in self.members)

    @property
    def is_stochastic(self) -> bool:
        """Whether the rounds of some member take a few of its samples each."""
        return any(m.is_stochastic for m in self.members)

    def take(self, rows: Indices) -> Self:
        """Return the stack of these members."""
        return type(self)([self.members[row] for row in rows])

    def member(self, row: int) -> Single:
        """Return one member as a loss of its own."""
        return self.members[row]


class Objective(ABC):
    """The private loss of one node: value, gradient, Hessian-vector product and curvature.

    ``stacked`` are the attributes that a run takes from the stack and never from the loss itself.
    A derived loss that replaces one of them must give it a stack of its own.
    """

    stacked: ClassVar[tuple[str, ...]] = ("value", "gradient", "hvp", "hessian")

    def __new__(cls, *_: Any, **__: Any) -> Self:  # noqa: ANN401 - whatever __init__ takes
        """Refuse a class that is not finished."""
        refuse_unfinished(cls, InvalidObjective, page="own-loss")
        return super().__new__(cls)

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of unknowns."""

    @property
    @abstractmethod
    def curvature(self) -> Curvature:
        """The range of its curvature (as:fun)."""

    @property
    def met(self) -> tuple[float, float]:
        """The least and the largest curvature that it is known to have: the ends of its range."""
        return self.curvature.a, self.curvature.b

    @property
    @abstractmethod
    def family(self) -> Hashable:
        """Losses of equal family can be stacked into one array operation."""

    @property
    def hessian_work(self) -> float:
        """About how many multiplications ``hessian`` takes; infinite where it is no formula."""
        return self._alone.hessian_work

    @property
    def constant_hessian(self) -> bool:
        """Whether it is a quadratic and knows it; False where it is none or cannot tell."""
        return self._alone.constant_hessian

    @property
    def precision(self) -> float:
        """The relative rounding of value and gradient: that of float64 where formulas are."""
        return self._alone.precision

    @property
    def is_stochastic(self) -> bool:
        """Whether rounds take a few of its samples each (``minibatches``)."""
        return False

    @property
    def convexified(self) -> Objective:
        """What a memory of it is made of: itself, or where it is not convex a convex model."""
        return self

    def draws(self, node: int, incarnation: int) -> Draws:
        """Return the gradients that the rounds of a node use, from its entry on."""
        from bequest.model.objectives.minibatches import Draws

        _ = node, incarnation  # of no importance to a loss that is the same every time
        return Draws(self)

    @abstractmethod
    def stack(self, members: Sequence[Any]) -> Stack:
        """Return these losses, all of this one's family, as one stack."""

    @cached_property
    def _alone(self) -> Stack:
        return self.stack([self])

    @property
    def alone(self) -> Stack:
        """The loss as a stack of one, with its formulas."""
        return self._alone

    def _row(self, x: ArrayLike, name: str = "x") -> Matrix:
        # What nodes pass, in every round: nothing has to be looked into.
        if type(x) is np.ndarray and x.dtype is _FLOAT and x.shape == (self.dim,):
            return x[None]
        refuse_masked(x, name)
        row = np.asarray(x, dtype=float)
        if row.shape != (self.dim,):
            raise DimensionMismatch(
                f"{name} has shape {row.shape}, but this {type(self).__name__} has dim {self.dim}.",
                remedy=f"Pass a vector of length {self.dim}.",
            )
        return row[None]

    def value(self, x: ArrayLike) -> float:
        """Return f(x)."""
        return float(self._alone.values(self._row(x))[0])

    def gradient(self, x: ArrayLike) -> Vector:
        """Return grad f(x)."""
        row = self._row(x)
        out = np.empty(row.shape)
        self._alone.gradients(row, out)
        return out.reshape(-1)

    def hvp(self, x: ArrayLike, v: ArrayLike) -> Vector:
        """Return the Hessian-vector product H(x) v."""
        product: Vector = self._alone.products(self._row(x), self._row(v, "v"))[0]
        return product

    def bound(self) -> Matrix:
        """Return a matrix that its Hessian exceeds nowhere."""
        matrix: Matrix = self._alone.bounds()[0]
        return matrix

    def hessian(self, x: ArrayLike) -> Matrix:
        """Return the Hessian at x, dim by dim."""
        return self._alone.total_hessian(self._row(x)[0])


def check_formulas(loss: Objective, name: str) -> None:
    """Refuse a loss that replaces what stands in the stack of the class it is derived from."""
    owner = next(kind for kind in type(loss).__mro__ if "stack" in vars(kind))
    wrong = replaced(loss, loss.stacked, owner)
    if wrong is not None:
        raise InvalidObjective(
            f"{name} is a {type(loss).__name__} with a {wrong} of its own, but losses of its "
            f"family are evaluated together, by the formulas of {owner.__name__}.",
            remedy="Pass a Function with your own value_and_grad (and hvp), or give the class a "
            "stack of its own.",
        )


def checked(values: ArrayLike, what: str, *, ndim: int) -> np.ndarray:
    """Return a read-only float64 array, or say what is wrong with it.

    It is a copy, unless nothing can change what was given: samples may be most of what the memory
    holds.
    """
    refuse_masked(values, what)
    try:
        # NumPy would read text and count days since 1970.
        kind = _NO_NUMBERS.get(np.asarray(values).dtype.kind)
        if kind is not None:
            raise TypeError(kind)
        array = values if _may_be_kept(values) else _in_rows(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidObjective(
            f"{what} is not an array of numbers: {str(error).rstrip('.')}.",
            remedy="Pass a rectangular array of real numbers.",
        ) from error
    if array.ndim != ndim or 0 in array.shape:
        raise DimensionMismatch(
            f"{what} has shape {array.shape}, but needs {ndim} dimension(s), none of them empty.",
            remedy=f"Pass an array with {ndim} dimension(s).",
        )
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise NotFinite(
            f"{what} holds {array[where]} at index {where}.",
            remedy="Remove or impute missing and infinite entries first.",
        )
    if max(array.max(), -array.min()) > LARGEST:
        where = tuple(int(i) for i in np.unravel_index(np.abs(array).argmax(), array.shape))
        raise NotFinite(
            f"{what} holds {array[where]:.3g} at index {where}, too large to compute with: what "
            "becomes of it in a run is infinite in float64.",
            remedy=f"Rescale {what}, for instance to unit variance; up to {LARGEST:g} is allowed.",
        )
    return array


def refuse_extreme(curvature: float, what: str, *, nothing: bool) -> None:
    """Refuse a curvature whose square, or one over it, is beyond float64.

    Args:
        curvature: the largest of a loss, from above.
        what: where it comes from.
        nothing: whether it is zero for certain.
    """
    if nothing or LARGEST**-2 <= curvature <= LARGEST**2:
        return
    raise NotFinite(
        f"The curvature of this loss is {curvature:.3g}, too "
        f"{'large' if curvature > 1 else 'small'} to compute with in float64.",
        remedy=f"Rescale {what}.",
    )


def _may_be_kept(values: ArrayLike) -> TypeGuard[np.ndarray]:
    """Whether these numbers lie side by side, row by row, in an array that nothing can change."""
    if type(values) is not np.ndarray or values.dtype != np.float64 or not is_fixed(values):
        return False
    return values.flags.c_contiguous


def _in_rows(values: ArrayLike) -> np.ndarray:
    """Return a read-only copy, row by row.

    The last bits of a product depend on the layout, and may depend on nothing but the numbers.
    """
    array = np.array(values, dtype=np.float64, order="C")
    array.setflags(write=False)
    return array


def checked_scalar(value: float, what: str, *, positive: bool = False) -> float:
    """Return a finite, non-negative (or positive) number, or say what is wrong with it."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not np.isfinite(number) or number < 0 or (positive and number == 0):
        bound = "> 0" if positive else ">= 0"
        raise InvalidObjective(f"{what} is {value}.", remedy=f"Pass a finite number {bound}.")
    return number + 0.0  # zero has no sign
