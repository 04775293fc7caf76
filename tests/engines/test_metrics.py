"""What is measured of long rows, piece by piece, is what is measured of short ones."""

import numpy as np
import pytest

from bequest.core import mixing
from bequest.engines import metrics


@pytest.mark.parametrize("dim", [1, metrics._WIDE - 1, metrics._WIDE + 1, 3 * metrics._WIDE])
def test_long_rows_are_measured_like_short_ones(dim):
    X, Z, G = np.random.default_rng(dim).standard_normal((3, 5, dim))
    middle, spread, slope, gap = metrics._of_long_rows(X, Z, G)
    mean = X.mean(axis=0)
    assert middle == pytest.approx(np.linalg.norm(mean))
    assert spread == pytest.approx(np.linalg.norm(X - mean, axis=1).max())
    assert slope == pytest.approx(np.linalg.norm(G.sum(axis=0)))
    assert gap == pytest.approx(np.linalg.norm((Z - G).sum(axis=0)))


def test_what_is_not_finite_is_told_as_such():
    X, Z, G = np.ones((3, 4, metrics._WIDE + 1))
    G[2, -1], X[1, 0] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        middle, spread, slope, _ = metrics._of_long_rows(X, Z, G)
    assert np.isnan(middle)
    assert np.isnan(spread)
    assert slope == np.inf


def test_averages_of_all_nodes_have_the_bits_of_each_of_them():
    rows = np.random.default_rng(1).standard_normal((4, 2 * mixing._PIECE + 7))
    orders = [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3]]
    shares = [[0.5, 0.5], [0.25, 0.5, 0.25], [0.3, 0.3, 0.4], [0.1, 0.9]]
    found, expected = np.empty_like(rows), np.empty_like(rows)
    mixing.weigh_all(shares, orders, rows, found)
    for share, order, out in zip(shares, orders, expected, strict=True):
        mixing.weigh(share, [rows[k] for k in order], out)
    np.testing.assert_array_equal(found, expected)
