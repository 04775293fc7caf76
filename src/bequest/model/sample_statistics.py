"""Statistics of some samples, dense or sparse, that need not count alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import issparse

from bequest.core.samples import principal

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from bequest.core.arrays import Matrix, Vector
    from bequest.model.objectives.rows import Features

# Sparse samples of one class are written out up to so many numbers. Beyond that directions are
# found by products, and clusters among projections on so many random directions.
_WRITTEN_OUT, _PROJECTED = 1 << 22, 64


def close_up(points: Features, rng: np.random.Generator) -> Matrix:
    """Return dense points that are as far from each other: projected where there are too many."""
    if not issparse(points):
        return np.asarray(points)
    if points.shape[0] * points.shape[1] <= _WRITTEN_OUT:
        return np.asarray(points.toarray())
    basis = rng.standard_normal((points.shape[1], _PROJECTED)) / np.sqrt(_PROJECTED)
    return np.asarray(points @ basis)


def statistics(points: Features, weights: Vector | None, rank: int) -> tuple[float, Vector, Matrix]:
    """Return the weight of a cluster, its mean, and rows that span how it spreads."""
    count = int(points.shape[0])
    if weights is None:
        total, mean = float(count), np.asarray(points.mean(axis=0)).reshape(-1)
        roots = np.full(count, 1.0 / np.sqrt(count))
    else:
        total = float(weights.sum())
        mean, roots = np.asarray(weights @ points) / total, np.sqrt(weights / total)
    if not rank:
        return total, mean, np.zeros((0, mean.size))
    if issparse(points) and points.shape[0] * points.shape[1] > _WRITTEN_OUT:
        return total, mean, _sparse_principal(points, mean, roots, rank)
    apart = (points.toarray() if issparse(points) else points) - mean
    if weights is None:
        return total, mean, principal(apart / np.sqrt(count), rank)
    return total, mean, principal(apart * roots[:, None], rank)


def _sparse_principal(points: csr_array, mean: Vector, roots: Vector, rank: int) -> Matrix:
    """Return the main directions of diag(roots) (points - mean), which is never written out."""
    from scipy.sparse.linalg import LinearOperator, svds

    def forth(v: Vector) -> Vector:
        seen: Vector = roots * (points @ v.reshape(-1) - float(mean @ v.reshape(-1)))
        return seen

    def back(u: Vector) -> Vector:
        weighted = roots * u.reshape(-1)
        pulled: Vector = points.T @ weighted - mean * float(weighted.sum())
        return pulled

    operator = LinearOperator(points.shape, matvec=forth, rmatvec=back, dtype=np.float64)
    most = min(rank, min(points.shape) - 1)
    begin = np.cos(np.arange(min(points.shape)) * 1.618033988749895)  # the same every time
    _, sizes, directions = svds(operator, k=most, v0=begin)
    order = np.argsort(-sizes)
    out = np.zeros((rank, mean.size))
    out[:most] = sizes[order, None] * directions[order]
    return out
