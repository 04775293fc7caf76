"""Quadratic losses, the ones for which the theory can be read off exactly."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bequest.core.curvature import Curvature
from bequest.errors import DimensionMismatch, NotConvex, NotSymmetric
from bequest.model.objectives.base import Objective, Stack, checked, refuse_extreme

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Indices, Matrix, Tensor, Vector

# A batch of small products is all overhead; one block-diagonal product is not. From this
# dimension on a product per node is large enough to pay for itself (benchmarks/rounds.py).
_BLOCK_DIM = 32
_BLOCK_NODES = 64


class Quadratic(Objective):
    """f(x) = 1/2 (x - c)' A (x - c), with A symmetric and positive semidefinite.

    >>> f = Quadratic([[2.0, 0.0], [0.0, 4.0]], [1.0, 1.0])
    >>> f.value([2.0, 2.0]), f.gradient([2.0, 2.0]), f.curvature
    (3.0, array([2., 4.]), Curvature(a=2.0, b=4.0, certified=True))
    """

    stacked = (*Objective.stacked, "curvature")

    def __init__(self, A: ArrayLike, c: ArrayLike) -> None:
        self.A: Matrix = checked(A, "A", ndim=2)
        self.c: Vector = checked(c, "c", ndim=1)
        rows, columns = self.A.shape
        if rows != columns or columns != self.c.size:
            raise DimensionMismatch(
                f"A is {rows}x{columns} and c has {self.c.size} entries.",
                remedy="A must be square, with as many rows as c has entries.",
            )
        asymmetry = float(np.abs(self.A - self.A.T).max())
        if asymmetry > 1e-10 * float(np.abs(self.A).max()):
            raise NotSymmetric(
                f"A is not symmetric: A and its transpose differ by {asymmetry:.3g}.",
                remedy="Pass (A + A.T) / 2, which gives the same loss.",
            )
        refuse_extreme(float(np.abs(self.A).max()), "A", nothing=not self.A.any())
        self._curvature = _curvature(*_spectrum_ends(self.A[None]))

    @property
    def dim(self) -> int:
        """Number of unknowns."""
        return self.c.size

    @property
    def curvature(self) -> Curvature:
        """Smallest and largest eigenvalue of A."""
        return self._curvature

    @property
    def family(self) -> Hashable:
        """All quadratics of one dimension stack."""
        return (Quadratic, self.dim)

    def stack(self, members: Sequence[Any]) -> QuadraticStack:
        """Return these quadratics as one stack."""
        return QuadraticStack(np.stack([m.A for m in members]), np.stack([m.c for m in members]))

    def __repr__(self) -> str:
        return f"Quadratic(dim={self.dim}, {self.curvature})"


class QuadraticStack(Stack):
    """Quadratics of one dimension, in the array layout that is fastest for their size."""

    def __init__(self, A: Tensor, c: Matrix) -> None:
        self.A, self.c = np.ascontiguousarray(A), c
        self._slope = np.einsum("nij,nj->ni", A, c)  # A c, so that a gradient is A x - A c

    @property
    def shape(self) -> tuple[int, int]:
        """(members, dim)."""
        return self.c.shape[0], self.c.shape[1]

    @property
    def constant_hessian(self) -> bool:
        """They are quadratics."""
        return True

    @property
    def gradient_work(self) -> float:
        """A product per member."""
        return float(self.A.size)

    @property
    def hessian_work(self) -> float:
        """A sum over the members."""
        return float(self.A.size)

    @cached_property
    def _blocks(self) -> Any:  # noqa: ANN401 - scipy's sparse arrays are untyped
        """The members' matrices on the diagonal of one sparse matrix, where that is faster."""
        from scipy.sparse import bsr_array

        n, d = self.shape
        if n < _BLOCK_NODES or d >= _BLOCK_DIM:
            return None
        return bsr_array((self.A, np.arange(n), np.arange(n + 1)), shape=(n * d, n * d))

    def _multiply(self, X: Matrix) -> Matrix:
        if self._blocks is None:
            product: Matrix = np.matvec(self.A, X)
        else:
            product = (self._blocks @ X.reshape(-1)).reshape(X.shape)
        return product

    def values(self, X: Matrix) -> Vector:
        """Return f_i(x_i) for every member."""
        offset = X - self.c
        values: Vector = np.einsum("ni,ni->n", offset, self._multiply(offset)) / 2
        return values

    def gradients(self, X: Matrix, out: Matrix) -> None:
        """Write A_i x_i - A_i c_i into ``out``."""
        product = np.matvec(self.A, X, out=out) if self._blocks is None else self._multiply(X)
        np.subtract(product, self._slope, out=out)

    def products(self, X: Matrix, V: Matrix) -> Matrix:  # noqa: ARG002 - constant Hessian
        """Return A_i v_i."""
        return self._multiply(V)

    def total_hessian(self, x: Vector) -> Matrix:  # noqa: ARG002 - constant Hessian
        """Return the sum of the A_i."""
        total: Matrix = self.A.sum(axis=0)
        return total

    def curvatures(self) -> tuple[Vector, Vector]:
        """Return the extreme eigenvalues of every A_i."""
        return self._ends

    def total_majoriser(self, x: Vector) -> Matrix:
        """Return the Hessian: the sum is its own majoriser."""
        return self.total_hessian(x)

    def bounds(self) -> Tensor:
        """Return the Hessians: they are the same everywhere."""
        return self.A

    def ceiling(self) -> Vector:
        """Return the diagonal of the sum of the A_i."""
        return np.diagonal(self.total_hessian(self.c[0]))

    def terms(self, x: Vector, scale: Vector) -> Vector:  # noqa: ARG002 - a formula
        """Return the sum of |A_i| (|x| + |c_i|)."""
        total: Vector = np.matvec(np.abs(self.A), np.abs(x) + np.abs(self.c)).sum(axis=0)
        return total

    @cached_property
    def _ends(self) -> tuple[Vector, Vector]:
        return _spectrum_ends(self.A)

    def take(self, rows: Indices) -> Self:
        """Return the stack of these members."""
        return type(self)(self.A[rows], self.c[rows])

    def member(self, row: int) -> Quadratic:
        """Return one member as a loss of its own."""
        return Quadratic(self.A[row], self.c[row])


def _spectrum_ends(A: Tensor) -> tuple[Vector, Vector]:
    """Return the extreme eigenvalues; tiny negative ones of a singular A are rounding, so 0."""
    eigenvalues: Matrix = np.asarray(np.linalg.eigvalsh(A), dtype=float)
    a, b = eigenvalues[:, 0].copy(), eigenvalues[:, -1]
    noise = A.shape[-1] * 1e-14 * np.abs(eigenvalues).max(axis=1)
    a[np.abs(a) <= noise] = 0.0
    if (a < 0).any():
        worst = int(np.argmin(a))
        raise NotConvex(
            f"A has the eigenvalue {a[worst]:.3g}, so the quadratic has no minimum"
            f"{f' (member {worst})' if len(a) > 1 else ''}.",
            remedy="Pass a positive semidefinite A, for instance A + l2 * I.",
        )
    return a, np.maximum(b, 0.0)


def _curvature(a: Vector, b: Vector) -> Curvature:
    return Curvature(float(a[0]), float(b[0]))
