"""What every loss over labelled samples shares: the data, its padding, its Gram matrix."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import csr_array, issparse

from bequest.core.arrays import is_whole
from bequest.errors import DimensionMismatch, InvalidObjective
from bequest.model.objectives.base import Objective, Stack, checked, checked_scalar, refuse_extreme
from bequest.model.objectives.rows import DenseRows, canonical, side_by_side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Indices, Matrix, Vector
    from bequest.core.curvature import Curvature
    from bequest.model.objectives.rows import Features

# Up to this size a Gram matrix of sparse samples is written out to find its eigenvalues.
_DENSE = 2000
# Of samples of more numbers than this in all, losses of more than that are evaluated one by one,
# where they are: a call takes little beside it. The others are put beside each other by as many.
_MUCH, _ALONE, _TOGETHER = 2**22, 2**15, 2**20
# Products after which a bound on the largest eigenvalue hardly sinks any more.
_PRODUCTS = 30


def batches(members: Sequence[Objective]) -> list[list[int]]:
    """Return which losses of one family to evaluate together: all, unless they are too large.

    What is put beside each other is copied, and its work takes as much room again.
    """
    sizes = [m.X.size if isinstance(m, SampleLoss) and not issparse(m.X) else 0 for m in members]
    if sum(sizes) <= _MUCH:
        return [[*range(len(members))]]
    found: list[list[int]] = []
    room = 0
    for place, size in enumerate(sizes):
        if size > _ALONE:
            found.append([place])
            continue
        if size > room:
            found.append([])
            room = _TOGETHER
            mixed = found[-1]
        mixed.append(place)
        room -= size
    return found


class SampleLoss(Objective):
    """A weighted mean over samples (rows of X, entries of y) plus l2/2 |x|^2.

    Args:
        X: a row per sample; a SciPy sparse matrix stays sparse.
        y: a label per sample.
        l2: the weight of the penalty.
        divisor: what the sum over the samples is divided by, instead of their number or the sum of
            their weights. Silos of different sizes that are given one common divisor weigh every
            sample alike; by default every silo weighs alike.
        sample_weight: how much each sample counts, >= 0; one by default.
        unpenalised: the columns of X whose coefficients the penalty leaves alone, such as [-1] for
            a last column of ones: an intercept. The loss is then strongly convex only where the
            samples make it so.
    """

    def __init__(
        self,
        X: ArrayLike | Features,
        y: ArrayLike,
        l2: float,
        divisor: float | None,
        sample_weight: ArrayLike | None,
        unpenalised: Sequence[int],
    ) -> None:
        self.X: Features = _sparse(X) if issparse(X) else checked(X, "X", ndim=2)
        self.y: Vector = checked(y, "y", ndim=1)
        self.l2 = checked_scalar(l2, "l2")
        if self.X.shape[0] != self.y.size:
            raise DimensionMismatch(
                f"X has {self.X.shape[0]} rows, y has {self.y.size} entries.",
                remedy="Pass one row of X per entry of y.",
            )
        self.sample_weight = None if sample_weight is None else self._weights(sample_weight)
        self.unpenalised = _columns(unpenalised, int(self.X.shape[1]))
        if divisor is not None:
            self.divisor = checked_scalar(divisor, "divisor", positive=True)
        elif self.sample_weight is None:
            self.divisor = float(self.y.size)
        else:
            self.divisor = float(self.sample_weight.sum())
        if self.divisor == 0:
            raise InvalidObjective(
                "Every sample has weight 0, so that there is no mean of them.",
                remedy="Pass a positive sample_weight for some, or a divisor.",
            )
        weighted = self._weighted
        data = weighted.data if issparse(weighted) else weighted
        refuse_extreme(
            self.l2 + float(np.vdot(data, data)) / self.divisor,
            "the features, for instance to unit variance",
            nothing=self.l2 == 0 and not data.any(),
        )

    def _weights(self, sample_weight: ArrayLike) -> Vector:
        weights: Vector = checked(sample_weight, "sample_weight", ndim=1)
        if weights.size != self.y.size:
            raise DimensionMismatch(
                f"sample_weight has {weights.size} entries, y has {self.y.size}.",
                remedy="Pass one weight per sample.",
            )
        if (weights < 0).any():
            where = int(np.argmax(weights < 0))
            raise InvalidObjective(
                f"sample_weight is {weights[where]:g} for sample {where}.",
                remedy="Pass weights >= 0; a sample that is not to count has weight 0.",
            )
        return weights

    @property
    def _weighted(self) -> Features:
        """The samples, each times the root of its weight."""
        if self.sample_weight is None:
            return self.X
        roots = np.sqrt(self.sample_weight)[:, None]
        return csr_array(self.X.multiply(roots)) if issparse(self.X) else self.X * roots

    def _penalty(self, features: int) -> Vector:
        """Return the penalty's curvature along each column of X."""
        penalty = np.full(features, self.l2)
        penalty[list(self.unpenalised)] = 0.0
        return penalty

    def _ends(self) -> tuple[float, float]:
        """Return the extreme eigenvalues of X'X/m, samples weighted."""
        return gram_ends(self._weighted, self.divisor)

    @property
    def _floor(self) -> float:
        """What the penalty alone gives every direction."""
        return 0.0 if self.unpenalised else self.l2

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
        if self.sample_weight is not None:
            part.sample_weight = self.sample_weight[rows]
        part.divisor = self.divisor * rows.size / self.y.size
        return part

    def batch_gradient(self, x: ArrayLike, rows: Indices) -> Vector:
        """Return the gradient on these samples alone."""
        return self.among(rows).gradient(x)

    @property
    def size_class(self) -> tuple[int, bool]:
        """Which power of two the sample count fits into, and whether the samples are sparse.

        Those of one class are padded together.
        """
        return (self.y.size - 1).bit_length(), bool(issparse(self.X))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(samples={self.y.size}, dim={self.dim}, l2={self.l2:g})"


class SampleStack(Stack):
    """Losses over samples, padded to the longest with samples of weight zero."""

    def __init__(self, members: Sequence[Any]) -> None:
        self.members: list[Any] = list(members)
        longest = max(m.y.size for m in members)
        if len(members) == 1 or issparse(members[0].X):
            self.rows = side_by_side([m.X for m in members], longest)
        else:
            self.rows = DenseRows.gathered(members, longest)
        self.y = np.zeros((len(members), longest))
        self.weight = np.zeros((len(members), longest))
        for row, m in enumerate(members):
            self.y[row, : m.y.size] = m.y
            counts = 1.0 if m.sample_weight is None else m.sample_weight
            self.weight[row, : m.y.size] = counts / m.divisor
        repeats = members[0].dim // self.rows.features
        #: the penalty's curvature, per member and coordinate
        self.penalty: Matrix = np.array(
            [np.tile(m._penalty(self.rows.features), repeats) for m in members]
        )

    @property
    def shape(self) -> tuple[int, int]:
        """(members, dim)."""
        return len(self.members), self.members[0].dim

    @property
    def gradient_work(self) -> float:
        """Every sample is predicted, and pulled back."""
        samples = float(sum(m.y.size for m in self.members))
        dense = samples * self.rows.features
        return 2.0 * min(dense, self.rows.entries) * self.shape[1] / self.rows.features

    @property
    def hessian_work(self) -> float:
        """One outer product per sample."""
        return float(sum(m.y.size for m in self.members)) * float(self.shape[1]) ** 2

    def curvatures(self) -> tuple[Vector, Vector]:
        """Return the certified bounds of every member."""
        ranges = [m.curvature for m in self.members]
        return np.array([r.a for r in ranges]), np.array([r.b for r in ranges])

    @cached_property
    def whole_penalty(self) -> Vector:
        """That of all members together, per coordinate."""
        whole: Vector = self.penalty.sum(axis=0)
        return whole

    def penalties(self, X: Matrix) -> Vector:
        """Return the value of the penalty of every member."""
        values: Vector = np.vecdot(self.penalty * X, X) / 2
        return values

    def take(self, rows: Indices) -> Self:
        """Return the stack of these members."""
        return type(self)([self.members[row] for row in rows])

    def member(self, row: int) -> Objective:
        """Return one member as a loss of its own."""
        member: Objective = self.members[row]
        return member


def gram_ends(X: Features, divisor: float) -> tuple[float, float]:
    """Return the extreme eigenvalues of X'X/divisor, through the smaller Gram matrix.

    Where that of sparse samples is too large to be written out, zero, and a bound from above:
    max (Gv)_i/v_i over all coordinates, for G = |X|'|X| and any v > 0.
    """
    m, d = X.shape
    if issparse(X) and min(m, d) > _DENSE:
        return 0.0, _largest_from_above(abs(X)) / divisor
    gram = X.T @ X if d <= m else X @ X.T
    eigenvalues = np.linalg.eigvalsh(gram.toarray() if issparse(gram) else gram) / divisor
    most = max(float(eigenvalues[-1]), 0.0)
    least = float(eigenvalues[0]) if d <= m else 0.0
    # What is below rounding is a collinear column, not curvature.
    return (least if least > d * 1e-14 * most else 0.0), most


def quadratic_ends(X: Features, divisor: float, penalty: Vector) -> tuple[float, float]:
    """Return the extreme eigenvalues of X'X/divisor + diag(penalty), where they are not all alike.

    Directions that neither a sample nor a column without penalty has a part in are curved by the
    penalty alone, so that the rest is looked at within the space of these.
    """
    m, d = X.shape
    most = float(penalty.max())
    if issparse(X) and min(m, d) > _DENSE:
        return 0.0, most + _largest_from_above(abs(X)) / divisor
    free = np.flatnonzero(penalty < most)
    dense = X.toarray() if issparse(X) and d > m else X
    if d <= m + free.size:
        gram = X.T @ X
        whole = (gram.toarray() if issparse(gram) else gram) / divisor + np.diag(penalty)
        eigenvalues = np.linalg.eigvalsh(whole)
    else:
        within = np.linalg.qr(np.hstack([dense.T, np.eye(d)[:, free]]))[0]
        seen = dense @ within
        whole = seen.T @ seen / divisor + within.T @ (penalty[:, None] * within)
        eigenvalues = np.sort(np.append(np.linalg.eigvalsh(whole), most))
    high = max(float(eigenvalues[-1]), 0.0)
    low = float(eigenvalues[0])
    return (low if low > d * 1e-14 * high else 0.0), high


def _largest_from_above(X: csr_array) -> float:
    """Return a bound on the largest eigenvalue of X'X, for X without negative entries."""
    v = np.ones(X.shape[1])
    best = np.inf
    for _ in range(_PRODUCTS):
        image = X.T @ (X @ v)
        best = min(best, float((image / v).max()))
        # no coordinate may vanish: one without samples counts with what is left of it
        v = image / image.max() + 1e-12 if image.max() > 0 else v
    return best * (1.0 + int(X.shape[1]) * 1e-15)


def _sparse(X: Any) -> csr_array:  # noqa: ANN401 - SciPy's sparse matrices have no common type
    """Return a read-only copy in one form, whatever form it had, or say what is wrong with it."""
    if X.ndim != 2 or 0 in X.shape:
        raise DimensionMismatch(
            f"X has shape {X.shape}, but needs 2 dimensions, none of them empty.",
            remedy="Pass a sparse matrix with a row per sample.",
        )
    whole = canonical(X)
    if whole.nnz:
        whole.data = checked(whole.data, "X", ndim=1)
    else:
        whole.data = whole.data.astype(float)
    for part in (whole.data, whole.indices, whole.indptr):
        part.setflags(write=False)
    return whole


def _columns(unpenalised: Sequence[int], features: int) -> tuple[int, ...]:
    """Return these columns counted from the front, ascending, each once."""
    found = set()
    for column in unpenalised:
        if not is_whole(column, least=-features) or column >= features:
            raise InvalidObjective(
                f"unpenalised names column {column}, and X has {features}.",
                remedy=f"Name columns by 0..{features - 1}, or from the end by -1..-{features}.",
            )
        found.add(int(column) % features)
    return tuple(sorted(found))
