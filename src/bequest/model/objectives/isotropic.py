"""A loss whose minimiser is a vector: how a silo puts its vector into a sum over silos."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bequest.core.curvature import Curvature
from bequest.model.objectives.base import Objective, Stack, checked
from bequest.model.objectives.loaded import Loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Indices, Matrix, Tensor, Vector


class Isotropic(Objective):
    """f(x) = 1/2 |x - c|^2, for vectors of any length: there is no matrix.

    Every coordinate goes its own way, whatever its size, and a legacy is an exact memory of it.

    Paper: cor:quad.

    >>> Isotropic([3.0, -1.0]).gradient([0.0, 0.0])
    array([-3.,  1.])
    """

    stacked = (*Objective.stacked, "curvature")

    def __init__(self, c: ArrayLike) -> None:
        self.c: Vector = checked(c, "c", ndim=1)

    @property
    def dim(self) -> int:
        """Number of unknowns."""
        return self.c.size

    @property
    def curvature(self) -> Curvature:
        """One, everywhere and in every direction."""
        return Curvature(1.0, 1.0)

    @property
    def family(self) -> Hashable:
        """All of one dimension stack."""
        return (Isotropic, self.dim)

    def stack(self, members: Sequence[Any]) -> IsotropicStack:
        """Return these losses as one stack."""
        return IsotropicStack(np.stack([member.c for member in members]))

    def __repr__(self) -> str:
        return f"Isotropic(dim={self.dim})"


class IsotropicStack(Stack):
    """Isotropic losses of one dimension."""

    def __init__(self, c: Matrix) -> None:
        self.c = c

    @property
    def shape(self) -> tuple[int, int]:
        """(members, dim)."""
        return self.c.shape[0], self.c.shape[1]

    @property
    def constant_hessian(self) -> bool:
        """They are quadratics."""
        return True

    @property
    def hessian_work(self) -> float:
        """There is nothing to compute, but a matrix to fill."""
        return float(self.shape[1]) ** 2

    def values(self, X: Matrix) -> Vector:
        """Return f_i(x_i) for every member."""
        offset = X - self.c
        values: Vector = np.einsum("ni,ni->n", offset, offset) / 2
        return values

    def gradients(self, X: Matrix, out: Matrix) -> None:
        """Write x_i - c_i into ``out``."""
        np.subtract(X, self.c, out=out)

    def products(self, X: Matrix, V: Matrix) -> Matrix:  # noqa: ARG002 - constant Hessian
        """Return v_i."""
        return V.copy()

    def total_hessian(self, x: Vector) -> Matrix:
        """Return the identity, once per member."""
        return self.shape[0] * np.eye(x.size)

    def curvatures(self) -> tuple[Vector, Vector]:
        """Return ones."""
        ones = np.ones(self.shape[0])
        return ones, ones.copy()

    def bounds(self) -> Tensor:
        """Return the identity per member."""
        return np.broadcast_to(np.eye(self.shape[1]), (*self.shape, self.shape[1])).copy()

    def total_majoriser(self, x: Vector) -> Matrix:
        """Return the Hessian: the sum is its own majoriser."""
        return self.total_hessian(x)

    def terms(self, x: Vector, scale: Vector) -> Vector:  # noqa: ARG002 - a formula
        """Return the sum of |x| + |c_i|."""
        total: Vector = self.shape[0] * np.abs(x) + np.abs(self.c).sum(axis=0)
        return total

    def take(self, rows: Indices) -> Self:
        """Return the stack of these members."""
        return type(self)(self.c[rows])

    def member(self, row: int) -> Isotropic:
        """Return one member as a loss of its own."""
        return Isotropic(self.c[row])


@dataclass(frozen=True, slots=True)
class _Made:
    """Computes a vector where the data are, and makes a loss of it."""

    vector: Callable[[], Vector]

    @property
    def __name__(self) -> str:
        """What messages call it."""
        return str(getattr(self.vector, "__name__", type(self.vector).__name__))

    def __call__(self) -> Isotropic:
        """Return the loss."""
        return Isotropic(self.vector())


def on_its_host(vector: Callable[[], Vector], size: int) -> Loaded:
    """Return the loss of a vector that only the host of the data can compute.

    Args:
        vector: computes it there; it is pickled, so it must hold no data, but say where they are.
        size: how many entries it has.
    """
    return Loaded(_Made(vector), dim=size, curvature=Curvature(1.0, 1.0))
