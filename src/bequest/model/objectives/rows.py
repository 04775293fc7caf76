"""The samples of several losses side by side, dense or sparse: predictions, and the way back.

Every array of samples has a row per loss, padded to the longest with samples that have no features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.sparse import block_diag, csr_array, issparse, vstack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.core.arrays import Matrix, Tensor, Vector

# A matrix or a csr_array; SciPy has no types.
Features: TypeAlias = Any
# Numbers that are copied at a time.
_AT_ONCE = 2**20


class DenseRows:
    """Samples as one array: losses by samples by features."""

    def __init__(self, parts: Sequence[Matrix], longest: int) -> None:
        if len(parts) == 1:  # nothing to put beside it: the samples as they are
            self.X = parts[0][None]
            return
        self.X = np.zeros((len(parts), longest, parts[0].shape[1]))
        for row, part in enumerate(parts):
            self.X[row, : part.shape[0]] = part

    @classmethod
    def gathered(cls, members: Sequence[Any], longest: int) -> DenseRows:
        """Return the samples of losses, which share them from now on.

        Of two copies one is enough: a table may be most of what the memory holds. Losses give them
        up one after the other, and the memory of zeros is taken as it is filled.
        """
        rows = object.__new__(cls)
        rows.X = np.zeros((len(members), longest, members[0].X.shape[1]))
        parts = [rows.X[row, : member.X.shape[0]] for row, member in enumerate(members)]
        for member, part in zip(members, parts, strict=True):
            part[:] = member.X
            part.setflags(write=False)
            member.X = part
        rows.X.setflags(write=False)
        return rows

    @property
    def features(self) -> int:
        """How many features a sample has."""
        return int(self.X.shape[2])

    @property
    def entries(self) -> float:
        """How many numbers they are, but for the padding with nothing."""
        return float(self.X.size)

    def absolute(self) -> DenseRows:
        """Return the same with the absolute values of all features."""
        same = object.__new__(DenseRows)
        same.X = np.abs(self.X)
        return same

    def predict(self, X: Matrix) -> Matrix:
        """Return a_k'x_i for every sample k of every loss i."""
        predictions: Matrix = np.matvec(self.X, X)
        return predictions

    def combine(self, samples: Matrix) -> Matrix:
        """Return the sum over k of samples_ik a_k for every loss i."""
        combined: Matrix = np.vecmat(samples, self.X)
        return combined

    def predict_each(self, maps: Tensor) -> Tensor:
        """Return W_i a_k for every sample k of every loss i; the W_i are classes by features."""
        scores: Tensor = self.X @ maps.transpose(0, 2, 1)
        return scores

    def combine_each(self, samples: Tensor) -> Tensor:
        """Return the sum over k of samples_ik a_k', classes by features, for every loss i."""
        combined: Tensor = samples.transpose(0, 2, 1) @ self.X
        return combined

    def of(self, loss: int) -> Matrix:
        """Return the samples of one loss, a row each."""
        samples: Matrix = self.X[loss]
        return samples

    def gram(self, weights: Matrix) -> Matrix:
        """Return the sum over all samples of all losses of weights_ik a_k a_k'."""
        return _gram(self.X.reshape(-1, self.features), weights.reshape(-1))

    def grams(self, weights: Matrix) -> Tensor:
        """Return the same for every loss."""
        if self.X.size > _AT_ONCE:
            return np.array([_gram(*one) for one in zip(self.X, weights, strict=True)])
        grams: Tensor = np.einsum("nk,nkd,nke->nde", weights, self.X, self.X, optimize=True)
        return grams

    def squares(self, weights: Matrix) -> Vector:
        """Return the diagonal of ``gram``."""
        diagonal: Vector = np.einsum("nk,nkd,nkd->d", weights, self.X, self.X)
        return diagonal


class SparseRows:
    """Samples as one sparse matrix, a block per loss along its diagonal; nothing becomes dense."""

    def __init__(self, parts: Sequence[csr_array], longest: int) -> None:
        self.features = int(parts[0].shape[1])
        padded = [_padded(part, longest) for part in parts]
        self._set(csr_array(block_diag(padded, format="csr")), len(parts), longest)

    def _set(self, blocks: csr_array, losses: int, longest: int) -> None:
        self._blocks, self._losses, self._longest = blocks, losses, longest
        self._back = csr_array(blocks.T)

    @property
    def entries(self) -> float:
        """How many numbers they are."""
        return float(self._blocks.nnz)

    def absolute(self) -> SparseRows:
        """Return the same with the absolute values of all features."""
        same = object.__new__(SparseRows)
        same.features = self.features
        same._set(abs(self._blocks), self._losses, self._longest)
        return same

    def predict(self, X: Matrix) -> Matrix:
        """Return a_k'x_i for every sample k of every loss i."""
        predictions: Matrix = self._blocks @ np.ascontiguousarray(X).reshape(-1)
        return predictions.reshape(self._losses, self._longest)

    def combine(self, samples: Matrix) -> Matrix:
        """Return the sum over k of samples_ik a_k for every loss i."""
        combined: Matrix = self._back @ samples.reshape(-1)
        return combined.reshape(self._losses, self.features)

    def predict_each(self, maps: Tensor) -> Tensor:
        """Return W_i a_k for every sample k of every loss i; the W_i are classes by features."""
        classes = maps.shape[1]
        columns = maps.transpose(0, 2, 1).reshape(-1, classes)
        scores: Tensor = np.asarray(self._blocks @ columns)
        return scores.reshape(self._losses, self._longest, classes)

    def combine_each(self, samples: Tensor) -> Tensor:
        """Return the sum over k of samples_ik a_k', classes by features, for every loss i."""
        classes = samples.shape[2]
        combined = np.asarray(self._back @ samples.reshape(-1, classes))
        parts: Tensor = combined.reshape(self._losses, self.features, classes).transpose(0, 2, 1)
        return parts

    def of(self, loss: int) -> Matrix:
        """Return the samples of one loss, a row each, written out."""
        samples: Matrix = self._part(loss).toarray()
        return samples

    def gram(self, weights: Matrix) -> Matrix:
        """Return the sum over all samples of all losses of weights_ik a_k a_k'."""
        rows = vstack([self._part(loss) for loss in range(self._losses)], format="csr")
        total: Matrix = (rows.T @ rows.multiply(weights.reshape(-1, 1))).toarray()
        return total

    def grams(self, weights: Matrix) -> Tensor:
        """Return the same for every loss."""
        parts = [self._part(loss) for loss in range(self._losses)]
        pairs = zip(parts, weights, strict=True)
        return np.array([(p.T @ p.multiply(w[:, None])).toarray() for p, w in pairs])

    def squares(self, weights: Matrix) -> Vector:
        """Return the diagonal of ``gram``."""
        squared: Matrix = (self._back.power(2) @ weights.reshape(-1)).reshape(-1, self.features)
        diagonal: Vector = squared.sum(axis=0)
        return diagonal

    def _part(self, loss: int) -> csr_array:
        rows = slice(loss * self._longest, (loss + 1) * self._longest)
        return self._blocks[rows, loss * self.features : (loss + 1) * self.features]


SampleRows: TypeAlias = DenseRows | SparseRows


def side_by_side(parts: Sequence[Features], longest: int) -> SampleRows:
    """Return the samples of several losses, all of them dense or all sparse."""
    return SparseRows(parts, longest) if issparse(parts[0]) else DenseRows(parts, longest)


def _gram(rows: Matrix, weights: Vector) -> Matrix:
    """Return the sum of weights_k a_k a_k': of many samples some at a time, for each is copied."""
    some = rows.shape[0] if rows.size <= _AT_ONCE else max(1, _AT_ONCE // rows.shape[1])
    total: Matrix = np.zeros((rows.shape[1], rows.shape[1]))
    for first in range(0, rows.shape[0], some):
        part = rows[first : first + some]
        total += part.T @ (weights[first : first + some, None] * part)
    return total


def canonical(X: Any) -> csr_array:  # noqa: ANN401 - SciPy's sparse matrices have no common type
    """Return a copy in the one form that equal matrices have.

    No entry twice, no zero written out, rows in order, and indices no wider than they have to be.
    """
    whole = csr_array(X, copy=True)
    whole.sum_duplicates()
    whole.eliminate_zeros()
    narrow = max(whole.nnz, *whole.shape) <= np.iinfo(np.int32).max
    for name in ("indices", "indptr"):
        index = getattr(whole, name)
        setattr(whole, name, index.astype(np.int32 if narrow else np.int64, copy=False))
    return whole


def _padded(part: csr_array, longest: int) -> csr_array:
    rows, features = part.shape
    ends = np.concatenate([part.indptr, np.full(longest - rows, part.indptr[-1])])
    return csr_array((part.data, part.indices, ends), shape=(longest, features))
