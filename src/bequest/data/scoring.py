"""From features to what a linear model says of them: one path for estimators and loaded models.

Two of them with the same numbers agree to the last bit, however their arrays lie in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.special import expit, softmax

if TYPE_CHECKING:
    from bequest.core.arrays import Matrix, Vector


def linear_scores(X: Any, coef: Matrix, intercept: Any) -> Matrix:  # noqa: ANN401 - sparse, too
    """Return a score per row and row of coefficients; a vector where there is a single one."""
    rows = csr_array(X) if issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
    weights = np.ascontiguousarray(np.atleast_2d(coef), dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        scores: Matrix = rows @ weights.T + np.atleast_1d(intercept)
    return scores[:, 0].copy() if scores.shape[1] == 1 else scores


def probabilities(scores: Matrix) -> Matrix:
    """Return the probability of every class: of two, from the score of the second one."""
    if scores.ndim == 1:
        return np.column_stack([expit(-scores), expit(scores)])
    found: Matrix = softmax(scores, axis=1)
    return found


def logarithms(shares: Matrix) -> Matrix:
    """Return the logarithms of probabilities; what is impossible in float64 is minus infinity."""
    with np.errstate(divide="ignore"):
        return np.log(shares)


def most_likely(scores: Matrix) -> Any:  # noqa: ANN401 - an array of whole numbers
    """Return the number of the most probable class."""
    return (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)


def accuracy(right: Vector, weights: Vector | None) -> float:
    """Return the share of rows that are right, by their weights."""
    return float(np.average(right, weights=weights))


def determination(y: Vector, predicted: Vector, weights: Vector | None) -> float:
    """Return R^2: 1 for what is exact, 0 for what does as well as the mean of y."""
    counts = np.ones(y.size) if weights is None else weights
    missed = float(np.sum(counts * (y - predicted) ** 2))
    spread = float(np.sum(counts * (y - np.average(y, weights=counts)) ** 2))
    if spread == 0.0:
        return 1.0 if missed == 0.0 else 0.0
    return 1.0 - missed / spread
