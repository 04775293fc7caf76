"""Every loss against formulas written out here, against differences, and against its curvature."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import bequest as bq

some = settings(deadline=None, max_examples=40, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
dims = st.integers(1, 6)
counts = st.integers(1, 12)
# From no curvature of its own to much more than the data's.
penalties = st.sampled_from([0.0, 1e-3, 0.1, 7.0])


@dataclass
class Case:
    """A loss, and what it should be, term by term and sample by sample."""

    loss: bq.Objective
    value: object
    gradient: object
    hessian: object


def quadratic(rng, dim, m, l2):
    root = rng.standard_normal((dim, dim))
    A, c = root @ root.T + l2 * np.eye(dim), rng.standard_normal(dim)
    return Case(
        bq.Quadratic(A, c),
        lambda x: sum(
            A[i, j] * (x - c)[i] * (x - c)[j] / 2 for i in range(dim) for j in range(dim)
        ),
        lambda x: np.array([sum(A[i, j] * (x - c)[j] for j in range(dim)) for i in range(dim)]),
        lambda _: A,
    )


def linear_model(loss, X, y, l2, phi, slope, bend):
    m, dim = X.shape
    return Case(
        loss,
        lambda x: sum(phi(X[k] @ x, y[k]) for k in range(m)) / m + l2 / 2 * sum(x**2),
        lambda x: sum(slope(X[k] @ x, y[k]) * X[k] for k in range(m)) / m + l2 * x,
        lambda x: (
            sum(bend(X[k] @ x, y[k]) * np.outer(X[k], X[k]) for k in range(m)) / m
            + l2 * np.eye(dim)
        ),
    )


def logistic(rng, dim, m, l2):
    X, s = rng.standard_normal((m, dim)), rng.choice([-1.0, 1.0], m)
    return linear_model(
        bq.Logistic(X, s, l2=l2),
        X,
        s,
        l2,
        lambda t, y: np.log1p(np.exp(-y * t)),
        lambda t, y: -y / (1 + np.exp(y * t)),
        lambda t, _: 1 / (2 + 2 * np.cosh(t)),
    )


def squares(rng, dim, m, l2):
    X, y = rng.standard_normal((m, dim)), rng.standard_normal(m)
    return linear_model(
        bq.LeastSquares(X, y, l2=l2),
        X,
        y,
        l2,
        lambda t, b: (t - b) ** 2 / 2,
        lambda t, b: t - b,
        lambda _, __: 1.0,
    )


def huber(rng, dim, m, l2, delta=0.8):
    X, y = rng.standard_normal((m, dim)), 3 * rng.standard_normal(m)

    def phi(t, b):
        r = abs(t - b)
        return r * r / 2 if r <= delta else delta * r - delta * delta / 2

    def slope(t, b):
        return t - b if abs(t - b) <= delta else delta * np.sign(t - b)

    def bend(t, b):
        return float(abs(t - b) <= delta)

    return linear_model(bq.Huber(X, y, delta=delta, l2=l2), X, y, l2, phi, slope, bend)


def softmax(rng, dim, m, l2, classes=3):
    X, y = rng.standard_normal((m, dim)), rng.integers(classes, size=m)

    def shares(x, k):
        scores = [x[c * dim : (c + 1) * dim] @ X[k] for c in range(classes)]
        total = sum(np.exp(score) for score in scores)
        return np.array([np.exp(score) / total for score in scores])

    def gradient(x):
        miss = [shares(x, k) - np.eye(classes)[y[k]] for k in range(m)]
        return sum(np.kron(miss[k], X[k]) for k in range(m)) / m + l2 * x

    def hessian(x):
        total = l2 * np.eye(classes * dim)
        for k in range(m):
            p = shares(x, k)
            total += np.kron(np.diag(p) - np.outer(p, p), np.outer(X[k], X[k])) / m
        return total

    return Case(
        bq.Softmax(X, y, classes=classes, l2=l2),
        lambda x: sum(-np.log(shares(x, k)[y[k]]) for k in range(m)) / m + l2 / 2 * x @ x,
        gradient,
        hessian,
    )


def function(rng, dim, m, l2):
    c, w = rng.standard_normal(dim), rng.uniform(0.5, 2.0, dim)

    def value(x):
        return float(sum(w * np.log(np.cosh(x - c))) + l2 / 2 * x @ x)

    def gradient(x):
        return w * np.tanh(x - c) + l2 * x

    return Case(
        bq.Function(
            lambda x: (value(x), gradient(x)),
            dim=dim,
            curvature=(l2, l2 + float(w.max())),
            hvp=lambda x, v: w / np.cosh(x - c) ** 2 * v + l2 * v,
        ),
        value,
        gradient,
        lambda x: np.diag(w / np.cosh(x - c) ** 2 + l2),
    )


BUILDERS = {
    "quadratic": quadratic,
    "logistic": logistic,
    "least squares": squares,
    "huber": huber,
    "softmax": softmax,
    "function": function,
}
every_kind = pytest.mark.parametrize("kind", BUILDERS)


def away_from_kinks(loss, x, distance):
    """Huber's second derivative jumps where a residual passes delta; differences must not."""
    if isinstance(loss, bq.Huber):
        margins = np.abs(np.abs(loss.X @ x - loss.y) - loss.delta)
        assume((margins > distance * (1 + np.linalg.norm(loss.X, axis=1))).all())


def derivative(f, x, v, h):
    """Fourth-order central difference along v: errors of h^4 and of rounding/h only."""
    near = np.asarray(f(x + h * v)) - f(x - h * v)
    far = np.asarray(f(x + 2 * h * v)) - f(x - 2 * h * v)
    return (8 * near - far) / (12 * h)


# --- values, gradients, Hessians ----------------------------------------------------------------


@every_kind
@some
@given(seed=seeds, dim=dims, m=counts, l2=penalties)
def test_a_loss_is_its_formula_written_out(kind, seed, dim, m, l2):
    rng = np.random.default_rng(seed)
    case = BUILDERS[kind](rng, dim, m, l2)
    x, v = 2 * rng.standard_normal((2, case.loss.dim))
    away_from_kinks(case.loss, x, 1e-9)
    tight = {"rtol": 1e-11, "atol": 1e-12}
    np.testing.assert_allclose(case.loss.value(x), case.value(x), **tight)
    np.testing.assert_allclose(case.loss.gradient(x), case.gradient(x), **tight)
    np.testing.assert_allclose(case.loss.hessian(x), case.hessian(x), **tight)
    np.testing.assert_allclose(case.loss.hvp(x, v), case.hessian(x) @ v, **tight)


@every_kind
@some
@given(seed=seeds, dim=dims, m=counts, l2=penalties)
def test_gradient_and_hessian_are_the_derivatives_of_what_they_claim(kind, seed, dim, m, l2):
    rng = np.random.default_rng(seed)
    loss = BUILDERS[kind](rng, dim, m, l2).loss
    x, v = rng.standard_normal((2, loss.dim))
    v /= np.linalg.norm(v)
    h = 1e-3
    away_from_kinks(loss, x, 3 * h)
    scale = 1 + abs(loss.value(x)) + np.abs(loss.gradient(x)).max() + loss.curvature.b
    assert abs(loss.gradient(x) @ v - derivative(loss.value, x, v, h)) <= 1e-10 * scale
    slope = derivative(loss.gradient, x, v, h)
    np.testing.assert_allclose(loss.hvp(x, v), slope, rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(loss.hessian(x) @ v, slope, rtol=0, atol=1e-10 * scale)


@every_kind
def test_a_hessian_is_symmetric_and_made_of_its_products(kind):
    rng = np.random.default_rng(5)
    loss = BUILDERS[kind](rng, 4, 9, 0.1).loss
    x = rng.standard_normal(loss.dim)
    H = loss.hessian(x)
    assert H.shape == (loss.dim, loss.dim)
    np.testing.assert_allclose(H, H.T, rtol=0, atol=1e-15 * np.abs(H).max())
    columns = np.array([loss.hvp(x, e) for e in np.eye(loss.dim)]).T
    np.testing.assert_allclose(H, columns, rtol=0, atol=1e-14 * np.abs(H).max())


@every_kind
def test_asking_leaves_the_point_as_it_was(kind):
    loss = BUILDERS[kind](np.random.default_rng(2), 3, 5, 0.1).loss
    x = np.linspace(-1, 1, loss.dim)
    before = x.copy()
    loss.value(x), loss.gradient(x), loss.hvp(x, x), loss.hessian(x)
    np.testing.assert_array_equal(x, before)
    loss.gradient(x)[:] = np.nan  # the caller's copy, not the loss's memory
    assert np.isfinite(loss.gradient(x)).all()


@every_kind
def test_a_point_of_the_wrong_length_is_refused(kind):
    loss = BUILDERS[kind](np.random.default_rng(2), 3, 5, 0.1).loss
    right, wrong = np.zeros(loss.dim), np.zeros(loss.dim + 1)
    for ask in (loss.value, loss.gradient, loss.hessian, lambda x: loss.hvp(right, x)):
        with pytest.raises(bq.errors.DimensionMismatch, match=f"dim {loss.dim}"):
            ask(wrong)
        with pytest.raises(bq.errors.DimensionMismatch):
            ask(0.0)


def test_changing_the_data_afterwards_changes_nothing():
    A, c = np.eye(2), np.zeros(2)
    X, y = np.ones((3, 2)), np.array([0.0, 1.0, 1.0])
    losses = [bq.Quadratic(A, c), bq.Logistic(X, y), bq.LeastSquares(X, y), bq.Huber(X, y)]
    losses.append(bq.Softmax(X, y, classes=2))
    before = [loss.gradient(np.full(loss.dim, 0.5)) for loss in losses]
    A[:], c[:], X[:], y[:] = 9, 9, 9, 0
    for loss, gradient in zip(losses, before, strict=True):
        np.testing.assert_array_equal(loss.gradient(np.full(loss.dim, 0.5)), gradient)


# --- curvature ----------------------------------------------------------------------------------


@every_kind
@some
@given(
    seed=seeds,
    dim=dims,
    m=counts,
    l2=penalties,
    far=st.sampled_from([0.0, 0.1, 1.0, 10.0, 100.0]),
)
def test_no_hessian_leaves_the_certified_range(kind, seed, dim, m, l2, far):
    rng = np.random.default_rng(seed)
    loss = BUILDERS[kind](rng, dim, m, l2).loss
    a, b = loss.curvature.a, loss.curvature.b
    assert loss.curvature.certified
    for _ in range(3):
        eigenvalues = np.linalg.eigvalsh(loss.hessian(far * rng.standard_normal(loss.dim)))
        assert eigenvalues[0] >= a - 1e-12 * b
        assert eigenvalues[-1] <= b + 1e-12 * b


@pytest.mark.parametrize("kind", ["quadratic", "least squares"])
@some
@given(seed=seeds, dim=dims, m=counts, l2=penalties)
def test_quadratic_losses_attain_both_ends_of_their_curvature(kind, seed, dim, m, l2):
    rng = np.random.default_rng(seed)
    loss = BUILDERS[kind](rng, dim, m, l2).loss
    eigenvalues = np.linalg.eigvalsh(loss.hessian(rng.standard_normal(dim)))
    assert loss.curvature.a == pytest.approx(eigenvalues[0], rel=0, abs=1e-13 * eigenvalues[-1])
    assert loss.curvature.b == pytest.approx(eigenvalues[-1], rel=1e-13)


@some
@given(seed=seeds, dim=dims, m=counts, l2=penalties)
def test_logistic_attains_its_largest_curvature_at_the_origin(seed, dim, m, l2):
    loss = logistic(np.random.default_rng(seed), dim, m, l2).loss
    top = np.linalg.eigvalsh(loss.hessian(np.zeros(dim)))[-1]
    assert loss.curvature.b == pytest.approx(top, rel=1e-13)
    assert loss.curvature.a == l2


@some
@given(seed=seeds, dim=dims, m=counts, l2=penalties)
def test_huber_attains_its_largest_curvature_where_every_residual_is_small(seed, dim, m, l2):
    rng = np.random.default_rng(seed)
    X, x = rng.standard_normal((m, dim)), rng.standard_normal(dim)
    loss = bq.Huber(X, X @ x + rng.uniform(-0.9, 0.9, m), delta=1.0, l2=l2)
    assert loss.curvature.b == pytest.approx(np.linalg.eigvalsh(loss.hessian(x))[-1], rel=1e-13)
    away = bq.Huber(X, X @ x + 5.0, delta=1.0, l2=l2)
    np.testing.assert_array_equal(away.hessian(x), l2 * np.eye(dim))
    assert away.curvature.a == l2


@some
@given(seed=seeds, features=st.integers(1, 4), classes=st.integers(2, 6), m=counts, l2=penalties)
def test_softmax_comes_as_close_to_its_bound_as_two_dominant_classes_bring_it(
    seed, features, classes, m, l2
):
    """With two equally likely classes and no chance for the others, diag(p) - pp' reaches 1/2."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(m), rng.standard_normal((m, features))])
    loss = bq.Softmax(X, rng.integers(classes, size=m), classes=classes, l2=l2)
    W = np.zeros((classes, features + 1))
    W[2:, 0] = -60.0
    top = np.linalg.eigvalsh(loss.hessian(W.ravel()))[-1]
    assert top <= loss.curvature.b * (1 + 1e-12)
    assert top >= loss.curvature.b * (1 - 1e-12)
    for tilt in (1e-3, 0.1, 1.0):
        W[0, 0] = tilt
        assert np.linalg.eigvalsh(loss.hessian(W.ravel()))[-1] <= loss.curvature.b * (1 + 1e-12)


@some
@given(seed=seeds, m=counts, l2=penalties)
def test_softmax_has_no_curvature_along_a_shift_of_all_classes(seed, m, l2):
    rng = np.random.default_rng(seed)
    loss = softmax(rng, 2, m, l2).loss
    shift = np.tile(rng.standard_normal(2), 3)
    bend = loss.hvp(rng.standard_normal(6), shift)
    np.testing.assert_allclose(bend, l2 * shift, rtol=0, atol=1e-14 * (1 + l2))
    assert loss.curvature.a == l2


@some
@given(
    seed=seeds,
    dim=st.integers(1, 5),
    m=st.sampled_from([1, 2, 3, 10, 100, 3000]),
    l2=penalties,
    how=st.sampled_from(["copied", "combined", "zero", "fewer samples"]),
)
def test_collinear_data_have_exactly_the_curvature_of_the_penalty(seed, dim, m, l2, how):
    rng = np.random.default_rng(seed)
    X = 10.0 ** rng.integers(-3, 4) * rng.standard_normal((m, dim))
    if how == "copied":
        X = np.column_stack([X, X[:, 0]])
    elif how == "combined":
        X = np.column_stack([X, X @ rng.standard_normal(dim)])
    elif how == "zero":
        X = np.column_stack([X, np.zeros(m)])
    else:
        X = rng.standard_normal((m := min(m, 10), m + dim))
    y = rng.standard_normal(m)
    assert bq.LeastSquares(X, y, l2=l2).curvature.a == l2
    assert bq.Huber(X, y, l2=l2).curvature.a == l2


@some
@given(seed=seeds, dim=dims, m=counts, l2=penalties)
def test_fewer_samples_than_features_still_give_the_right_largest_curvature(seed, dim, m, l2):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((m, m + dim)), rng.integers(2, size=m)
    top = np.linalg.norm(X, 2) ** 2 / m
    assert bq.LeastSquares(X, y, l2=l2).curvature.b == pytest.approx(l2 + top, rel=1e-12)
    assert bq.Logistic(X, y, l2=l2).curvature.b == pytest.approx(l2 + top / 4, rel=1e-12)
    assert bq.Softmax(X, y, classes=2, l2=l2).curvature.b == pytest.approx(l2 + top / 2, rel=1e-12)


def test_a_condition_number_of_a_million_is_measured_to_many_digits():
    rng = np.random.default_rng(3)
    Q = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    A = (Q * np.geomspace(1.0, 1e6, 12)) @ Q.T
    loss = bq.Quadratic((A + A.T) / 2, np.zeros(12))
    assert loss.curvature.a == pytest.approx(1.0, abs=1e-8)
    assert loss.curvature.b == pytest.approx(1e6, rel=1e-12)
    U = np.linalg.qr(rng.standard_normal((50, 12)))[0]
    data = np.sqrt(50) * (U * np.geomspace(1.0, 1e3, 12)) @ Q.T
    squares = bq.LeastSquares(data, rng.standard_normal(50))
    assert squares.curvature.a == pytest.approx(1.0, abs=1e-8)
    assert squares.curvature.b == pytest.approx(1e6, rel=1e-12)
    assert squares.curvature.kappa == pytest.approx(1e6, rel=1e-8)


def test_one_sample_of_one_feature_is_computed_by_hand():
    assert bq.LeastSquares([[3.0]], [1.0], l2=0.5).curvature == bq.Curvature(9.5, 9.5)
    assert bq.Logistic([[2.0]], [1], l2=0.5).curvature == bq.Curvature(0.5, 1.5)
    assert bq.Huber([[3.0]], [1.0], l2=0.5).curvature == bq.Curvature(0.5, 9.5)
    assert bq.Softmax([[2.0]], [1], classes=2, l2=0.5).curvature == bq.Curvature(0.5, 2.5)
    assert bq.Quadratic([[7.0]], [1.0]).curvature == bq.Curvature(7.0, 7.0)
    assert bq.LeastSquares([[3.0]], [1.0], l2=0.5).value([1.0]) == pytest.approx(2.25, rel=1e-15)
    assert bq.Logistic([[2.0]], [1]).gradient([0.0]) == pytest.approx([-1.0], rel=1e-15)
    assert bq.Huber([[3.0]], [1.0]).gradient([1.0]) == pytest.approx([3.0], rel=1e-15)
    assert bq.Softmax([[2.0]], [1], classes=2).gradient([0.0, 0.0]) == pytest.approx([1.0, -1.0])


def test_data_of_zeros_have_no_curvature_but_the_penalty():
    zeros = np.zeros((4, 2))
    for l2 in (0.0, 0.3):
        for loss in (
            bq.LeastSquares(zeros, np.ones(4), l2=l2),
            bq.Logistic(zeros, np.ones(4), l2=l2),
            bq.Softmax(zeros, np.ones(4), classes=2, l2=l2),
            bq.Huber(zeros, np.ones(4), l2=l2),
        ):
            assert loss.curvature == bq.Curvature(l2, l2)
    assert bq.Quadratic(np.zeros((2, 2)), [1.0, 2.0]).curvature == bq.Curvature(0.0, 0.0)


def test_a_singular_quadratic_is_convex_and_not_refused_for_its_rounding():
    rng = np.random.default_rng(0)
    for rank in range(1, 20):
        root = rng.standard_normal((20, rank)) * 10.0 ** rng.integers(-6, 7)
        loss = bq.Quadratic(root @ root.T, np.zeros(20))
        assert loss.curvature.a == 0.0
        assert loss.curvature.b == pytest.approx(np.linalg.norm(root, 2) ** 2, rel=1e-12)


# --- extremes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [-1.0, 1.0])
@pytest.mark.parametrize("prediction", [-1e4, -40.0, 40.0, 1e4])
def test_extreme_logistic_predictions_cost_what_they_should(prediction, label):
    loss = bq.Logistic([[prediction]], [label])
    x = [1.0]
    margin = label * prediction
    assert loss.value(x) == pytest.approx(max(0.0, -margin), rel=1e-15, abs=1e-17)
    expected = -label * prediction if margin < 0 else 0.0
    assert loss.gradient(x) == pytest.approx([expected], rel=1e-15, abs=1e-12)
    assert np.isfinite(loss.hessian(x)).all()
    assert np.isfinite(loss.hvp(x, x)).all()


@pytest.mark.parametrize("scale", [-1e4, 1e4])
@pytest.mark.parametrize("kind", ["logistic", "least squares", "huber", "softmax"])
def test_predictions_of_ten_thousand_stay_finite(kind, scale):
    rng = np.random.default_rng(1)
    loss = BUILDERS[kind](rng, 3, 8, 0.1).loss
    reach = np.abs(loss.X).sum(axis=1).min()
    x = np.full(loss.dim, scale / reach) * rng.choice([-1.0, 1.0], loss.dim)
    assert np.isfinite(loss.value(x))
    assert np.isfinite(loss.gradient(x)).all()
    assert np.isfinite(loss.hessian(x)).all()
    v = derivative(loss.value, x, np.eye(loss.dim)[0], abs(scale) * 1e-3)
    assert loss.gradient(x)[0] == pytest.approx(v, rel=1e-6, abs=1e-6 * abs(scale))


def test_an_extreme_softmax_costs_the_gap_between_its_scores():
    loss = bq.Softmax([[1.0]], [2], classes=3)
    assert loss.value([1e4, -1e4, -1e4]) == pytest.approx(2e4, rel=1e-15)
    np.testing.assert_allclose(loss.gradient([1e4, -1e4, -1e4]), [1.0, 0.0, -1.0], atol=1e-15)
    assert loss.value([-1e4, -1e4, 1e4]) == 0.0


@pytest.mark.parametrize("label", [-1.0, 1.0])
@pytest.mark.parametrize("prediction", [-36.0, -30.0, -20.0, 20.0, 30.0, 36.0])
def test_logistic_curvature_of_a_confident_prediction_keeps_its_digits(prediction, label):
    """s (1 - s) is symmetric in the prediction: being right is no less precise than being wrong."""
    exact = np.exp(-abs(prediction)) / (1 + np.exp(-abs(prediction))) ** 2
    bend = bq.Logistic([[1.0]], [label]).hessian([prediction])[0, 0]
    assert bend == pytest.approx(exact, rel=1e-12, abs=0)


# --- relations between losses -------------------------------------------------------------------


@some
@given(seed=seeds, dim=dims, m=counts, l2=penalties)
def test_labels_of_either_kind_make_the_same_logistic_loss(seed, dim, m, l2):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((m, dim)), rng.integers(2, size=m)
    zero_one, signs = bq.Logistic(X, y, l2=l2), bq.Logistic(X, 2 * y - 1, l2=l2)
    booleans = bq.Logistic(X, y.astype(bool), l2=l2)
    x = rng.standard_normal(dim)
    for other in (signs, booleans):
        assert zero_one.value(x) == other.value(x)
        np.testing.assert_array_equal(zero_one.gradient(x), other.gradient(x))
        np.testing.assert_array_equal(zero_one.hessian(x), other.hessian(x))
        assert zero_one.curvature == other.curvature


@some
@given(seed=seeds, dim=dims, m=counts)
def test_softmax_of_two_classes_is_logistic_in_the_difference_of_its_rows(seed, dim, m):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((m, dim)), rng.integers(2, size=m)
    pair, single = bq.Softmax(X, y, classes=2), bq.Logistic(X, y)
    W = rng.standard_normal((2, dim))
    u = W[1] - W[0]
    assert pair.value(W.ravel()) == pytest.approx(single.value(u), rel=1e-13, abs=1e-15)
    slope = single.gradient(u)
    np.testing.assert_allclose(
        pair.gradient(W.ravel()), np.concatenate([-slope, slope]), rtol=0, atol=1e-14
    )
    sign = np.array([[1.0, -1.0], [-1.0, 1.0]])
    np.testing.assert_allclose(
        pair.hessian(W.ravel()), np.kron(sign, single.hessian(u)), rtol=0, atol=1e-14
    )


def test_softmax_and_logistic_have_the_same_optimum_up_to_the_reparametrisation():
    """The rows of the best W are opposite, so a penalty l2 on W is l2/2 on their difference."""
    rng = np.random.default_rng(8)
    X, y = rng.standard_normal((30, 4)), rng.integers(2, size=30)
    W = bq.Problem([bq.Softmax(X, y, classes=2, l2=0.2)]).optimum().reshape(2, 4)
    u = bq.Problem([bq.Logistic(X, y, l2=0.1)]).optimum()
    np.testing.assert_allclose(W[1] - W[0], u, rtol=0, atol=1e-12)
    np.testing.assert_allclose(W[0], -W[1], rtol=0, atol=1e-12)


@some
@given(seed=seeds, dim=dims, m=counts, l2=penalties)
def test_huber_with_a_wide_threshold_is_least_squares(seed, dim, m, l2):
    rng = np.random.default_rng(seed)
    X, y, x = rng.standard_normal((m, dim)), rng.standard_normal(m), rng.standard_normal(dim)
    wide, plain = bq.Huber(X, y, delta=1e6, l2=l2), bq.LeastSquares(X, y, l2=l2)
    assert wide.value(x) == pytest.approx(plain.value(x), rel=1e-13)
    np.testing.assert_allclose(wide.gradient(x), plain.gradient(x), rtol=0, atol=1e-13)
    np.testing.assert_array_equal(wide.hessian(x), plain.hessian(x))


@some
@given(seed=seeds, dim=dims, m=counts)
def test_least_squares_is_the_quadratic_of_its_gram_matrix(seed, dim, m):
    rng = np.random.default_rng(seed)
    X, centre = rng.standard_normal((m, dim)), rng.standard_normal(dim)
    loss = bq.LeastSquares(X, X @ centre, l2=0.0)
    gram = X.T @ X / m
    twin = bq.Quadratic((gram + gram.T) / 2, centre)
    x = rng.standard_normal(dim)
    assert loss.value(x) == pytest.approx(twin.value(x), rel=1e-11, abs=1e-12)
    np.testing.assert_allclose(loss.gradient(x), twin.gradient(x), rtol=0, atol=1e-12)
    assert loss.curvature.a == pytest.approx(twin.curvature.a, abs=1e-13 * twin.curvature.b)


@pytest.mark.parametrize("kind", ["logistic", "least squares", "huber", "softmax"])
@pytest.mark.parametrize("l2", [1e6, 1e12])
def test_a_huge_penalty_takes_over(kind, l2):
    rng = np.random.default_rng(4)
    loss = BUILDERS[kind](rng, 3, 10, l2).loss
    assert loss.curvature.a >= l2
    assert loss.curvature.kappa == pytest.approx(1.0, abs=20 / l2)
    x = bq.Problem([loss]).optimum()
    first_order = -loss.gradient(np.zeros(loss.dim)) / l2
    np.testing.assert_allclose(x, first_order, rtol=30 / l2 + 1e-12, atol=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda X, y, **more: bq.Logistic(X, y, l2=0.1, **more),
        lambda X, y, **more: bq.LeastSquares(X, y, l2=0.1, **more),
        lambda X, y, **more: bq.Huber(X, y, delta=0.5, l2=0.1, **more),
        lambda X, y, **more: bq.Softmax(X, y, classes=2, l2=0.1, **more),
    ],
    ids=["logistic", "least squares", "huber", "softmax"],
)
def test_a_common_divisor_weighs_samples_alike_and_not_silos(make):
    """Silos of 3 and 7 samples over 5 each: together twice the mean over all ten."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10, 3)), rng.integers(2, size=10)
    parts = [make(X[:3], y[:3], divisor=5), make(X[3:], y[3:], divisor=5)]
    whole = make(X, y)
    x = rng.standard_normal(whole.dim)
    assert sum(part.value(x) for part in parts) == pytest.approx(2 * whole.value(x), rel=1e-12)
    np.testing.assert_allclose(
        sum(part.gradient(x) for part in parts), 2 * whole.gradient(x), rtol=1e-11, atol=1e-12
    )
    together = bq.Problem(parts)
    np.testing.assert_allclose(together.optimum(), bq.Problem([whole]).optimum(), atol=1e-10)
    for part in parts:
        ends = np.linalg.eigvalsh(part.hessian(x))
        assert part.curvature.a * (1 - 1e-12) <= ends[0]
        assert ends[-1] <= part.curvature.b * (1 + 1e-12)
    with pytest.raises(bq.errors.InvalidObjective, match="divisor"):
        make(X, y, divisor=0.0)
