"""A loss whose data stay where they are."""

from __future__ import annotations

from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.core.arrays import is_whole
from bequest.errors import DimensionMismatch, InvalidObjective
from bequest.model.objectives.base import Objective, Singles, check_formulas
from bequest.model.objectives.function import as_curvature

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from bequest.core.arrays import Matrix, Tensor, Vector
    from bequest.core.curvature import Curvature
    from bequest.model.objectives.minibatches import Draws

_HOW = (
    "On the host that holds the data, print(loader().curvature), and pass these two numbers, or "
    "a wider range, as curvature=(a, b)."
)
# Relative to b. What is certified differs by rounding only between machines; what was seen at a
# few points by differences of gradients, by their error.
_ROUNDING, _DIFFERENCES = 1e-9, 1e-4


class Loaded(Objective):
    """A private loss that is loaded when it is first evaluated, in the process that does so.

    Only its declaration is known before: the number of unknowns and the range of its curvature.
    A pickled one holds the loader and the declaration, never the data, also after it was loaded.
    So nothing is computed from all the data in one place: there is no optimum to measure errors
    against (OptimumUnknown), and a step is chosen by the declared ranges.

    Args:
        loader: called without arguments, returns the loss (any other Objective). It must not hold
            the data itself, or these travel with it: give it a path, as ``bequest.data.loader``
            does.
        dim: number of unknowns.
        curvature: (a, b) or a Curvature that holds the loss's own range; a wider one is allowed
            and makes for smaller steps and less exact legacies.

    Raises:
        DimensionMismatch: when it is loaded and has another number of unknowns.
        InvalidObjective: when it is loaded and is no loss, or is curved more or less than declared.

    >>> from bequest.model.objectives import Quadratic
    >>> f = Loaded(lambda: Quadratic([[2.0]], [1.0]), dim=1, curvature=(1.0, 3.0))
    >>> f.curvature, f.gradient([2.0])
    (Curvature(a=1.0, b=3.0, certified=True), array([2.]))
    """

    def __init__(
        self,
        loader: Callable[[], Objective],
        *,
        dim: int,
        curvature: Curvature | tuple[float, float] | None = None,
    ) -> None:
        if isinstance(loader, str | PurePath):
            raise InvalidObjective(
                f'The loader is the path "{loader}", which does not say what to make of the file.',
                remedy="Pass bequest.data.loader(path, label=..., loss=...).",
            )
        if not callable(loader):
            raise InvalidObjective(
                f"The loader is a {type(loader).__name__}, which cannot be called.",
                remedy="Pass a function without arguments that reads the data and returns the "
                "loss, or bequest.data.loader(path, ...).",
            )
        if not is_whole(dim, least=1):
            raise DimensionMismatch(f"dim is {dim}.", remedy="Pass a whole number >= 1.")
        if curvature is None:
            raise InvalidObjective(
                "The curvature is not declared, and only the host may look at the data.",
                remedy=_HOW,
            )
        self._loader, self._dim = loader, int(dim)
        self._range = as_curvature(curvature, remedy=_HOW)

    @property
    def loader(self) -> Callable[[], Objective]:
        """What loads it."""
        return self._loader

    @property
    def dim(self) -> int:
        """Number of unknowns, as declared."""
        return self._dim

    @property
    def curvature(self) -> Curvature:
        """As declared, also once it is loaded: all nodes go by the same range."""
        return self._range

    @property
    def family(self) -> Hashable:
        """What they are is not known before they are loaded, so they stack by dimension alone."""
        return (Loaded, self._dim)

    @property
    def hessian_work(self) -> float:
        """That of the loss itself, which is loaded for it: only the decision of a will asks."""
        return self.load().hessian_work

    @property
    def constant_hessian(self) -> bool:
        """That of the loss itself, which is loaded for it: only the decision of a will asks."""
        return self.load().constant_hessian

    @property
    def precision(self) -> float:
        """That of the loss itself, which is loaded for it: only the end of a run asks."""
        return self.load().precision

    @property
    def is_stochastic(self) -> bool:
        """That of the loss itself, which is loaded for it: only rounds ask."""
        return self.load().is_stochastic

    @property
    def convexified(self) -> Objective:
        """Itself, with the range that was declared, unless the loss is no convex one."""
        return self if self._range.a >= 0 else self.load().convexified

    def draws(self, node: int, incarnation: int) -> Draws:
        """Return those of the loss itself."""
        return self.load().draws(node, incarnation)

    def stack(self, members: Sequence[Any]) -> LoadedStack:
        """Return these losses as one stack, without loading them."""
        return LoadedStack(members)

    def load(self) -> Objective:
        """Return the loss itself; the first call loads it and holds it against what was declared.

        Call it on the host to find out whether a declaration is right before a run does.
        """
        return self._loss

    @cached_property
    def _loss(self) -> Objective:
        try:
            loss = self._loader()
        except Exception as error:
            error.add_note(f"It was to be loaded by {self._name}.")
            raise
        if not isinstance(loss, Objective):
            raise InvalidObjective(
                f"What {self._name} loaded is a {type(loss).__name__}.",
                remedy="Return a loss such as bequest.Logistic(X, y, l2).",
            )
        check_formulas(loss, f"What {self._name} loaded")
        if loss.dim != self._dim:
            raise DimensionMismatch(
                f"What {self._name} loaded has dim {loss.dim}, but dim {self._dim} was declared.",
                remedy=f"Declare dim={loss.dim} for every node, or correct the data (a column too "
                "many or too few? the bias?).",
            )
        low, high = loss.met
        slack = (_ROUNDING if loss.curvature.certified else _DIFFERENCES) * high
        if low < self._range.a - slack or high > self._range.b + slack:
            # ten digits: fewer than the slack, so that what is copied from here will do
            raise InvalidObjective(
                f"What {self._name} loaded has a curvature in [{low:.10g}, {high:.10g}], but "
                f"[{self._range.a:.10g}, {self._range.b:.10g}] was declared.",
                remedy="Declare a range that holds it; a wider one is allowed, at the price of "
                "smaller steps.",
            )
        return loss

    @property
    def _name(self) -> str:
        # never its repr: a partial's shows its arguments
        return str(getattr(self._loader, "__name__", type(self._loader).__name__))

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_loader", "_dim", "_range")}

    def __repr__(self) -> str:
        return f"Loaded({self._name}, dim={self.dim}, {self.curvature})"


class LoadedStack(Singles[Loaded]):
    """Losses that are loaded one by one, when they are evaluated."""

    @property
    def at_hand(self) -> bool:
        """Not even once they are loaded: what a run says must not depend on the order of calls."""
        return False

    @property
    def precision(self) -> float:
        """The coarsest one of the members, which are loaded for it."""
        return max(f.precision for f in self.members)

    def values(self, X: Matrix) -> Vector:
        """Return f_i(x_i) for every member."""
        return np.array([f.load().value(x) for f, x in zip(self.members, X, strict=True)])

    def gradients(self, X: Matrix, out: Matrix) -> None:
        """Write grad f_i(x_i) into ``out``."""
        for row, (f, x) in enumerate(zip(self.members, X, strict=True)):
            out[row] = f.load().gradient(x)

    def products(self, X: Matrix, V: Matrix) -> Matrix:
        """Return the Hessian-vector products."""
        return np.array([f.load().hvp(x, v) for f, x, v in zip(self.members, X, V, strict=True)])

    def bounds(self) -> Tensor:
        """Return those of the members, where they are."""
        return np.array([member.load().bound() for member in self.members])

    def total_hessian(self, x: Vector) -> Matrix:
        """Return the sum of the members' Hessians."""
        total: Matrix = np.sum([f.load().hessian(x) for f in self.members], axis=0)
        return total
