"""Columns far from zero beside an intercept: a direction with 1e-12 of the curvature counts."""

import numpy as np
import oracle
import pytest

import bequest as bq
from bequest.errors import OptimumUnknown

KINDS = ["logistic", "softmax", "least squares", "huber"]
# the penalty, whether the intercept has one, and whether the last column is the first one again
PENALTIES = {
    "none": (0.0, False, False),
    "free intercept": (1e-3, False, False),
    "all": (1e-3, True, False),
    "collinear": (0.0, False, True),
}


def silos(kind, rng, *, offset, scale, penalty, shape=(2, 30, 2)):
    """Losses whose columns have a mean of ``offset`` deviations."""
    n, m, d = shape
    l2, penalised, collinear = PENALTIES[penalty]
    truth, mean = rng.standard_normal(d), offset * rng.uniform(0.5, 1.0, d)
    made = []
    for _ in range(n):
        Z = rng.standard_normal((m, d))
        columns = Z + mean
        if collinear:
            columns[:, -1] = columns[:, 0]
        X, t = np.column_stack([scale * columns, np.ones(m)]), Z @ truth
        options = {"l2": l2, "unpenalised": [] if penalised else [-1]}
        if kind == "logistic":
            made.append(bq.Logistic(X, t + rng.logistic(size=m) > 0, **options))
        elif kind == "softmax":
            made.append(bq.Softmax(X, rng.integers(3, size=m), classes=3, **options))
        elif kind == "least squares":
            made.append(bq.LeastSquares(X, t + rng.standard_normal(m), **options))
        else:
            made.append(bq.Huber(X, t + rng.standard_t(2, size=m), delta=0.5, **options))
    return made


def above(made, x, best):
    """How far above the minimum a point lies, as a part of it."""
    exact = sum(oracle.value(loss, best) for loss in made)
    return float((sum(oracle.value(loss, x) for loss in made) - exact) / exact)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("kind", KINDS)
def test_a_minimum_is_found_to_rounding_or_said_to_be_beyond_it(kind, scale, penalty):
    if kind == "softmax" and PENALTIES[penalty][0] == 0:
        penalty = "free intercept"  # it needs one
    for offset in (1e2, 1e4, 1e6):
        made = silos(
            kind, np.random.default_rng(int(offset)), offset=offset, scale=scale, penalty=penalty
        )
        if kind == "softmax" and scale == 1e8 and offset == 1e4:
            # a common shift of all classes is curved by the penalty alone: 1e-27 of the rest
            with pytest.raises(OptimumUnknown, match="Float64 cannot tell"):
                bq.Problem(made).optimum()
            continue
        x = bq.Problem(made).optimum()
        assert above(made, x, oracle.descended(made)) <= 1e-10


def test_of_collinear_columns_far_from_zero_both_get_the_same_share():
    """The shortest of all minimisers: it is the flat direction that is left alone, and no other."""
    made = silos(
        "least squares", np.random.default_rng(0), offset=1e4, scale=1e4, penalty="collinear"
    )
    x = bq.Problem(made).optimum()
    assert x[0] == pytest.approx(x[1], rel=1e-6)
    assert above(made, x, oracle.descended(made)) <= 1e-12


def test_what_rounding_hides_is_said():
    """Columns that differ by 1e-13 only: the samples are not collinear, but no gradient tells."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 2)) * [1.0, 1e-13] @ np.array([[1.0, 1.0], [0.0, 1.0]])
    with pytest.raises(OptimumUnknown, match="rounding of the gradient hides a depth"):
        bq.Problem([bq.LeastSquares(X, 1e3 * rng.standard_normal(40))]).optimum()


@pytest.mark.parametrize("kind", KINDS)
def test_roots_are_those_of_the_hessian(kind):
    for sparse in (False, True):
        made = silos(kind, np.random.default_rng(4), offset=1.0, scale=1.0, penalty="all")
        if sparse:
            from scipy.sparse import csr_array

            options = {"classes": 3} if kind == "softmax" else {}
            made = [type(f)(csr_array(f.X), f.y, l2=f.l2, **options) for f in made]
        for losses in (made, [bq.Minibatches(f, 4, seed=1) for f in made]):
            problem = bq.Problem(losses)
            x = np.random.default_rng(5).standard_normal(problem.dim)
            for _, stack in problem.stacks:
                whole = sum(R.T @ R for R in stack.roots(x))
                np.testing.assert_allclose(whole, stack.total_hessian(x), rtol=0, atol=1e-14)
