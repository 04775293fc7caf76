"""Columns far from zero, or of any size, beside an intercept that has no penalty."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from bequest.sklearn import SiloHuber, SiloLogisticRegression, SiloRidge


@pytest.mark.parametrize("offset", [0.0, 1e6, 3e6, 1e9])
def test_a_shift_of_a_column_moves_the_intercept_alone(offset):
    """Exactly so: the intercept has no penalty. (The column itself loses digits to the offset.)"""
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((100, 1)).round(3)
    X = offset + noise
    y = (noise[:, 0] + 0.7 * rng.standard_normal(100) > 0).astype(int)
    silos = np.arange(100) % 3
    near = SiloLogisticRegression().fit(noise, y, silos=silos)
    far = SiloLogisticRegression().fit(X, y, silos=silos)
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-5)
    np.testing.assert_allclose(far.decision_function(X), near.decision_function(noise), atol=1e-4)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e6, 1e8])
def test_fewer_rows_than_columns_at_any_scale(scale):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((2, 5)) * scale
    y = X @ rng.standard_normal(5) + 3
    ours = SiloRidge(alpha=1.0).fit(X, y, silos=[0, 1])
    theirs = Ridge(alpha=1.0, solver="svd").fit(X, y)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-6)
    np.testing.assert_allclose(
        ours.coef_, theirs.coef_, rtol=1e-6, atol=1e-9 * abs(theirs.coef_).max()
    )


def test_a_constant_column_leaves_the_mean_to_the_intercept():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(100, 1e6), rng.standard_normal(100)])
    y = 3 + rng.standard_normal(100)
    ours, theirs = SiloRidge().fit(X, y, silos=np.arange(100) % 4), Ridge(solver="svd").fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-8)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-6)


def test_outliers_beside_large_columns():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((200, 3)) * 1e4
    w = rng.standard_normal(3)
    y = X @ w + 1e-3 * rng.standard_normal(200)
    y[:10] += 50
    model = SiloHuber().fit(X, y, silos=np.arange(200) % 4)
    assert set(np.flatnonzero(model.outliers_)) >= set(range(10))
    np.testing.assert_allclose(model.coef_, w, rtol=1e-6)
    assert abs(model.intercept_) < 1e-2
