"""A user's own loss: what is estimated, what is checked, and what is let through."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bequest as bq

some = settings(deadline=None, max_examples=25, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def rotation(rng, dim):
    return np.linalg.qr(rng.standard_normal((dim, dim)))[0]


def quadratic(spectrum, seed=0, *, aligned=False):
    """value_and_grad, and the Hessian, of a quadratic with that spectrum in a random basis."""
    rng = np.random.default_rng(seed)
    dim = len(spectrum)
    Q, c = np.eye(dim) if aligned else rotation(rng, dim), rng.standard_normal(dim)
    A = (Q * np.asarray(spectrum, dtype=float)) @ Q.T
    A = (A + A.T) / 2
    return (lambda x: (float((x - c) @ A @ (x - c)) / 2, A @ (x - c))), A


# --- curvature ----------------------------------------------------------------------------------


@some
@given(
    seed=seeds,
    dim=st.sampled_from([1, 2, 7, 30, 64]),
    low=st.sampled_from([0.0, 1e-3, 1.0]),
    high=st.sampled_from([1.0, 10.0, 1e3]),
)
def test_the_estimated_range_of_a_small_quadratic_brackets_the_truth(seed, dim, low, high):
    rng = np.random.default_rng(seed)
    spectrum = rng.uniform(low, high, dim)
    spectrum[0], spectrum[-1] = low, high
    estimate = bq.Function(quadratic(spectrum, seed)[0], dim=dim).curvature
    assert not estimate.certified
    assert estimate.a <= spectrum.min()
    assert estimate.b >= high
    assert estimate.b <= 1.2 * high
    if dim <= 8:  # beyond, a few products leave the lower end open
        assert estimate.a >= 0.8 * spectrum.min() - 1e-6 * high


@pytest.mark.parametrize("aligned", [False, True], ids=["rotated", "aligned"])
@pytest.mark.parametrize("dim", [65, 130])
@pytest.mark.parametrize(
    "shape",
    {
        "even": lambda d: np.linspace(1, 100, d),
        "isotropic": lambda d: np.full(d, 2.0),
        "two clusters": lambda d: np.repeat([1.0, 5.0], [d // 2, d - d // 2]),
        "one outlier above": lambda d: np.r_[np.linspace(1, 2, d - 1), 1e4],
        "one outlier below": lambda d: np.r_[1e-2, np.linspace(1, 2, d - 1)],
        "one flat direction": lambda d: np.r_[0.0, np.linspace(1, 2, d - 1)],
        "half flat": lambda d: np.repeat([0.0, 1.0], [d // 2, d - d // 2]),
        "ill conditioned": lambda d: np.geomspace(1, 1e5, d),
    }.items(),
    ids=lambda shape: shape[0],
)
def test_the_estimated_range_of_a_large_quadratic_brackets_the_truth(dim, shape, aligned):
    spectrum = shape[1](dim)
    value_and_grad = quadratic(spectrum, aligned=aligned)[0]
    estimate = bq.Function(value_and_grad, dim=dim).curvature
    assert not estimate.certified
    assert estimate.a <= spectrum.min()
    assert estimate.b >= spectrum.max()
    assert estimate.b <= 1.2 * spectrum.max()


@pytest.mark.parametrize("dim", [3, 80])
def test_a_linear_loss_is_estimated_to_have_no_curvature(dim):
    slope = np.linspace(1, 2, dim)
    estimate = bq.Function(lambda x: (float(slope @ x), slope), dim=dim).curvature
    assert estimate.a == 0.0
    assert estimate.b == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("dim", [3, 80])
def test_a_loss_that_curves_downwards_is_refused(dim):
    spectrum = np.r_[-1.0, np.linspace(1, 2, dim - 1)]
    with pytest.raises(bq.errors.NotConvex, match="-1") as caught:
        bq.Function(quadratic(spectrum)[0], dim=dim)
    assert caught.type is bq.errors.NotConvex


def test_the_estimate_is_the_same_every_time_and_depends_on_the_seed():
    def value_and_grad(x):
        return float(np.logaddexp(x, -x).sum() + x @ x / 2), np.tanh(x) + x

    one, again = (bq.Function(value_and_grad, dim=3, seed=1).curvature for _ in range(2))
    other = bq.Function(value_and_grad, dim=3, seed=2).curvature
    assert one == again
    assert one != other
    for estimate in (one, other):
        assert estimate.b >= 2.0  # at the origin, where tanh' is 1
        assert 0.9 <= estimate.a <= 2.0


def test_a_given_range_is_taken_at_its_word():
    value_and_grad = quadratic([1.0, 4.0])[0]
    pair = bq.Function(value_and_grad, dim=2, curvature=(0.5, 8.0)).curvature
    assert (pair.a, pair.b, pair.certified) == (0.5, 8.0, True)
    guess = bq.Curvature(0.5, 8.0, certified=False)
    assert bq.Function(value_and_grad, dim=2, curvature=guess).curvature == guess


def test_a_problem_is_certified_only_if_all_of_its_losses_are():
    value_and_grad = quadratic([1.0, 4.0])[0]
    known = bq.Function(value_and_grad, dim=2, curvature=(1.0, 4.0))
    guessed = bq.Function(value_and_grad, dim=2)
    plain = bq.Quadratic(np.eye(2), [0.0, 0.0])
    assert bq.Problem([plain, known]).certified
    assert not bq.Problem([plain, known, guessed]).certified


# --- Hessian-vector products --------------------------------------------------------------------


@some
@given(seed=seeds, far=st.sampled_from([0.0, 1.0, 1e3]), size=st.sampled_from([1e-6, 1.0, 1e6]))
def test_products_by_differences_are_accurate_at_any_scale(seed, far, size):
    rng = np.random.default_rng(seed)
    value_and_grad, A = quadratic(np.geomspace(1, 100, 6), seed)
    f = bq.Function(value_and_grad, dim=6, curvature=(1, 100))
    x, v = far * rng.standard_normal(6), size * rng.standard_normal(6)
    error = np.linalg.norm(f.hvp(x, v) - A @ v)
    assert error <= 1e-8 * 100 * np.linalg.norm(v)
    np.testing.assert_array_equal(f.hvp(x, np.zeros(6)), np.zeros(6))


def test_products_by_differences_follow_a_hessian_that_changes():
    def value_and_grad(x):
        return float(np.exp(x).sum()), np.exp(x)

    f = bq.Function(value_and_grad, dim=4, curvature=(0.0, 1e3))
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, v = rng.standard_normal((2, 4))
        np.testing.assert_allclose(f.hvp(x, v), np.exp(x) * v, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(f.hessian(x), np.diag(np.exp(x)), rtol=1e-8, atol=1e-9)


def test_a_given_product_is_used_instead_of_differences():
    calls = []

    def hvp(x, v):
        calls.append(1)
        return 2.0 * v

    f = bq.Function(lambda x: (x @ x, 2 * x), dim=3, curvature=(2, 2), hvp=hvp, check=False)
    np.testing.assert_array_equal(f.hvp(np.ones(3), [1.0, 2.0, 3.0]), [2.0, 4.0, 6.0])
    assert calls


def test_the_callable_gets_a_point_of_its_own():
    """A loss that scribbles on its argument does not change the run's iterates."""

    def scribbles(x):
        value, gradient = float(x @ x), 2 * x
        x[:] = np.nan
        return value, gradient

    f = bq.Function(scribbles, dim=2, curvature=(2, 2))
    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(f.gradient(x), [2.0, 4.0])
    np.testing.assert_array_equal(x, [1.0, 2.0])
    np.testing.assert_allclose(f.hvp(x, x), [2.0, 4.0], rtol=1e-8)


# --- the check ----------------------------------------------------------------------------------

DIM = 6
RIGHT, HESSIAN = quadratic(np.linspace(1, 3, DIM), seed=3)


def penalised(x, l2=0.05):
    value, gradient = RIGHT(x)
    return value + l2 / 2 * x @ x, gradient


def one_coordinate(x):
    value, gradient = RIGHT(x)
    gradient[2] += 0.5 * x[2] + 0.1
    return value, gradient


WRONG_GRADIENTS = {
    "wrong sign": lambda x: (RIGHT(x)[0], -RIGHT(x)[1]),
    "twice too large": lambda x: (RIGHT(x)[0], 2 * RIGHT(x)[1]),
    "half": lambda x: (RIGHT(x)[0], RIGHT(x)[1] / 2),
    "one wrong coordinate": one_coordinate,
    "penalty missing": penalised,
    "slope missing": lambda x: (RIGHT(x)[0] + 0.1 * x.sum(), RIGHT(x)[1]),
    "wrong sign under a large constant": lambda x: (RIGHT(x)[0] + 1e6, -RIGHT(x)[1]),
}
WRONG_PRODUCTS = {
    "wrong sign": lambda x, v: -HESSIAN @ v,
    "twice too large": lambda x, v: 2 * HESSIAN @ v,
    "diagonal only": lambda x, v: np.diag(HESSIAN) * v,
    "the gradient": lambda x, v: RIGHT(x)[1],
    "one wrong row": lambda x, v: HESSIAN @ v + np.eye(DIM)[1] * v[1],
    "not symmetric": lambda x, v: HESSIAN @ v + np.r_[v[1], -v[0], np.zeros(DIM - 2)],
}


@pytest.mark.parametrize("name", WRONG_GRADIENTS)
def test_a_wrong_gradient_is_caught_at_construction(name):
    with pytest.raises(bq.errors.GradientMismatch, match="gradient") as caught:
        bq.Function(WRONG_GRADIENTS[name], dim=DIM, curvature=(1, 3))
    assert caught.type is bq.errors.GradientMismatch
    assert "check=False" in caught.value.remedy


@pytest.mark.parametrize("name", WRONG_GRADIENTS)
def test_a_wrong_gradient_passes_if_nobody_is_to_check(name):
    f = bq.Function(WRONG_GRADIENTS[name], dim=DIM, curvature=(1, 3), check=False)
    x = np.ones(DIM)
    np.testing.assert_array_equal(f.gradient(x), WRONG_GRADIENTS[name](x)[1])


@pytest.mark.parametrize("name", WRONG_PRODUCTS)
def test_a_wrong_hessian_vector_product_is_caught_at_construction(name):
    with pytest.raises(bq.errors.GradientMismatch, match="hvp") as caught:
        bq.Function(RIGHT, dim=DIM, curvature=(1, 3), hvp=WRONG_PRODUCTS[name])
    assert caught.type is bq.errors.GradientMismatch
    assert caught.value.remedy


@pytest.mark.parametrize("name", WRONG_PRODUCTS)
def test_a_wrong_hessian_vector_product_passes_if_nobody_is_to_check(name):
    f = bq.Function(RIGHT, dim=DIM, curvature=(1, 3), hvp=WRONG_PRODUCTS[name], check=False)
    x, v = np.ones(DIM), np.arange(DIM, dtype=float)
    np.testing.assert_array_equal(f.hvp(x, v), WRONG_PRODUCTS[name](x, v))


@some
@given(seed=seeds, dim=st.integers(1, 12), constant=st.sampled_from([0.0, -1e3, 1e8]))
def test_a_right_gradient_is_never_refused(seed, dim, constant):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.integers(-4, 5)
    value_and_grad, A = quadratic(scale * rng.uniform(0, 1, dim), seed)

    def shifted(x):
        value, gradient = value_and_grad(x)
        return value + constant * scale, gradient

    f = bq.Function(shifted, dim=dim, curvature=(0.0, scale), hvp=lambda x, v: A @ v, seed=seed % 7)
    assert f.dim == dim


@pytest.mark.parametrize("kind", [bq.Logistic, bq.LeastSquares, bq.Huber])
def test_the_losses_of_the_library_pass_the_check(kind):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 4)), rng.integers(2, size=20)
    loss = kind(X, y if kind is bq.Logistic else y + 0.3 * rng.standard_normal(20), l2=0.1)
    twin = bq.Function(
        lambda x: (loss.value(x), loss.gradient(x)),
        dim=4,
        curvature=loss.curvature,
        hvp=loss.hvp,
    )
    x = rng.standard_normal(4)
    assert twin.value(x) == loss.value(x)
    np.testing.assert_array_equal(twin.gradient(x), loss.gradient(x))


# --- what it refuses ----------------------------------------------------------------------------


def test_what_cannot_be_called_is_refused():
    with pytest.raises(bq.errors.InvalidObjective, match="value_and_grad") as caught:
        bq.Function(3.0, dim=2)
    assert caught.type is bq.errors.InvalidObjective


@pytest.mark.parametrize("dim", [0, -1, 2.5, float("nan"), float("inf")])
def test_a_dimension_that_is_not_a_whole_positive_number_is_refused(dim):
    with pytest.raises(bq.errors.DimensionMismatch, match="dim") as caught:
        bq.Function(RIGHT, dim=dim)
    assert caught.type is bq.errors.DimensionMismatch


def test_a_gradient_of_the_wrong_shape_is_refused():
    for wrong in (lambda x: (0.0, np.zeros(3)), lambda x: (0.0, 1.0)):
        with pytest.raises(bq.errors.DimensionMismatch, match="gradient") as caught:
            bq.Function(wrong, dim=2, curvature=(0, 1))
        assert caught.type is bq.errors.DimensionMismatch
        assert "length 2" in caught.value.remedy


@pytest.mark.parametrize("product", [lambda x, v: 3.0, lambda x, v: np.zeros(DIM + 1)])
def test_a_hessian_vector_product_of_the_wrong_shape_is_refused(product):
    with pytest.raises(bq.errors.DimensionMismatch, match="hvp") as caught:
        bq.Function(RIGHT, dim=DIM, curvature=(1, 3), hvp=product)
    assert caught.type is bq.errors.DimensionMismatch


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_is_refused(poison):
    for wrong in (lambda x: (poison, x), lambda x: (0.0, np.full(2, poison))):
        with pytest.raises(bq.errors.NotFinite, match="finite") as caught:
            bq.Function(wrong, dim=2, curvature=(0, 1))
        assert caught.type is bq.errors.NotFinite


def test_a_loss_that_is_not_finite_and_not_checked_has_no_curvature_to_estimate():
    with pytest.raises(bq.errors.NotFinite):
        bq.Function(lambda x: (np.nan, np.full(3, np.nan)), dim=3, check=False)


def test_an_impossible_range_is_refused():
    with pytest.raises(bq.errors.InvalidObjective, match="along a random direction"):
        bq.Function(RIGHT, dim=DIM, curvature=(-1.0, 1.0))
    with pytest.raises(bq.errors.InvalidObjective):
        bq.Function(RIGHT, dim=DIM, curvature=(2.0, 1.0))
    with pytest.raises(bq.errors.InvalidObjective):
        bq.Function(RIGHT, dim=DIM, curvature=(0.0, np.inf))


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("value", "gradient"),
    [
        (np.ones(1), [1.0, 2.0]),
        (None, [1.0, 2.0]),
        ("1", [1.0, 2.0]),
        (1j, [1.0, 2.0]),
        (np.eye(2), [1.0, 2.0]),
        (1.0, None),
        (1.0, [1j, 2.0]),
        (1.0, ["a", "b"]),
        (1.0, [None, 2.0]),
        (1.0, [[1.0], [2.0, 3.0]]),
        (1.0, [[1.0, 2.0]]),
    ],
)
def test_values_and_gradients_that_are_not_numbers_are_refused(value, gradient, check):
    with pytest.raises(bq.errors.InvalidInput, match=r"Return a (number|vector of length 2)\."):
        bq.Function(lambda _: (value, gradient), dim=2, check=check)


@pytest.mark.parametrize("product", [None, [1j, 2.0], ["a", "b"], 1.0, [[1.0, 2.0]]])
def test_a_product_that_is_not_a_vector_is_refused(product):
    with pytest.raises(bq.errors.InvalidInput, match=r"The hvp .* Return a vector of length 2\."):
        bq.Function(lambda x: (x @ x / 2, x), dim=2, hvp=lambda x, v: product)
