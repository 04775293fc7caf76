"""What every loss over labelled samples shares: the data, its padding, its Gram matrix."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bequest.errors import DimensionMismatch
from bequest.model.objectives.base import Objective, Stack, checked, checked_scalar, refuse_extreme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Indices, Matrix, Vector
    from bequest.core.curvature import Curvature


class SampleLoss(Objective):
    """A mean over samples (rows of X, entries of y) plus l2/2 |x|^2.

    ``divisor`` replaces the number of samples that the sum over them is divided by. Silos of
    different sizes that are given one common divisor weigh every sample alike; by default every
    silo weighs alike.
    """

    def __init__(self, X: ArrayLike, y: ArrayLike, l2: float, divisor: float | None) -> None:
        self.X: Matrix = checked(X, "X", ndim=2)
        self.y: Vector = checked(y, "y", ndim=1)
        self.l2 = checked_scalar(l2, "l2")
        if self.X.shape[0] != self.y.size:
            raise DimensionMismatch(
                f"X has {self.X.shape[0]} rows, y has {self.y.size} entries.",
                remedy="Pass one row of X per entry of y.",
            )
        self.divisor = (
            float(self.y.size)
            if divisor is None
            else checked_scalar(divisor, "divisor", positive=True)
        )
        refuse_extreme(
            self.l2 + float(np.vdot(self.X, self.X)) / self.divisor,
            "the features, for instance to unit variance",
            nothing=self.l2 == 0 and not self.X.any(),
        )

    @abstractmethod
    def _certify(self) -> Curvature:
        """Return the certified curvature; computed once, when first asked for."""

    @cached_property
    def curvature(self) -> Curvature:
        """The certified range, from the extreme eigenvalues of X'X/m."""
        return self._certify()

    @property
    def samples(self) -> int:
        """How many there are."""
        return int(self.y.size)

    def among(self, rows: Indices) -> Self:
        """Return the loss on these samples alone, which is that of all in the mean."""
        part = copy(self)
        for name in ("_alone", "curvature"):  # what was computed of all samples
            vars(part).pop(name, None)
        part.X, part.y = self.X[rows], self.y[rows]
        part.divisor = self.divisor * rows.size / self.y.size
        return part

    def batch_gradient(self, x: ArrayLike, rows: Indices) -> Vector:
        """Return the gradient on these samples alone."""
        return self.among(rows).gradient(x)

    @property
    def size_class(self) -> int:
        """Which power of two the sample count fits into: those of one class are padded together."""
        return (self.y.size - 1).bit_length()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(samples={self.y.size}, dim={self.dim}, l2={self.l2:g})"


class SampleStack(Stack):
    """Losses over samples, padded to the longest with samples of weight zero."""

    def __init__(self, members: Sequence[Any]) -> None:
        self.members: list[Any] = list(members)
        longest = max(m.y.size for m in members)
        self.X = np.zeros((len(members), longest, members[0].X.shape[1]))
        self.y = np.zeros((len(members), longest))
        self.weight = np.zeros((len(members), longest))
        for row, m in enumerate(members):
            self.X[row, : m.y.size], self.y[row, : m.y.size] = m.X, m.y
            self.weight[row, : m.y.size] = 1.0 / m.divisor
        self.l2 = np.array([m.l2 for m in members])[:, None]

    @property
    def shape(self) -> tuple[int, int]:
        """(members, dim)."""
        return len(self.members), self.members[0].dim

    @property
    def gradient_work(self) -> float:
        """Every sample is predicted, and pulled back."""
        return 2.0 * float(sum(m.y.size for m in self.members)) * self.shape[1]

    @property
    def hessian_work(self) -> float:
        """One outer product per sample."""
        return float(sum(m.y.size for m in self.members)) * float(self.shape[1]) ** 2

    def curvatures(self) -> tuple[Vector, Vector]:
        """Return the certified bounds of every member."""
        ranges = [m.curvature for m in self.members]
        return np.array([r.a for r in ranges]), np.array([r.b for r in ranges])

    def take(self, rows: Indices) -> Self:
        """Return the stack of these members."""
        return type(self)([self.members[row] for row in rows])

    def member(self, row: int) -> Objective:
        """Return one member as a loss of its own."""
        member: Objective = self.members[row]
        return member


def gram_ends(X: Matrix, divisor: float) -> tuple[float, float]:
    """Return the extreme eigenvalues of X'X/divisor, through the smaller Gram matrix."""
    m, d = X.shape
    eigenvalues = np.linalg.eigvalsh(X.T @ X if d <= m else X @ X.T) / divisor
    most = max(float(eigenvalues[-1]), 0.0)
    least = float(eigenvalues[0]) if d <= m else 0.0
    # What is below rounding is a collinear column, not curvature.
    return (least if least > d * 1e-14 * most else 0.0), most
