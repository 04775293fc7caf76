"""All losses together: evaluated as one what they are one by one, and minimised."""

import numpy as np
import pytest
import scenarios
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import bequest as bq

some = settings(deadline=None, max_examples=30, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def of_kind(kind, rng, n, dim, l2=0.1, most=40):
    """n losses of one kind, with sample counts from 1 to ``most``: several size classes."""
    losses = []
    for _ in range(n):
        m = int(rng.integers(1, most + 1))
        X = rng.standard_normal((m, dim))
        if kind == "quadratic":
            losses.extend(scenarios.objectives(rng, 1, dim, mixed=False, l2=l2))
        elif kind == "logistic":
            losses.append(bq.Logistic(X, rng.integers(2, size=m), l2=l2))
        elif kind == "least squares":
            losses.append(bq.LeastSquares(X, rng.standard_normal(m), l2=l2))
        elif kind == "huber":
            y, delta = 3 * rng.standard_normal(m), float(rng.choice([0.5, 2.0]))
            losses.append(bq.Huber(X, y, delta=delta, l2=l2))
        elif kind == "softmax":
            losses.append(bq.Softmax(X, rng.integers(3, size=m), classes=3, l2=l2))
        else:
            losses.append(smooth(rng, dim, l2))
    return losses


def smooth(rng, dim, l2):
    c, w = rng.standard_normal(dim), rng.uniform(0.5, 2.0, dim)
    return bq.Function(
        lambda x: (
            float(w @ np.logaddexp(x - c, c - x) + l2 / 2 * x @ x),
            w * np.tanh(x - c) + l2 * x,
        ),
        dim=dim,
        curvature=(l2, l2 + float(w.max())),
        hvp=lambda x, v: w / np.cosh(x - c) ** 2 * v + l2 * v,
    )


KINDS = ["quadratic", "logistic", "least squares", "huber", "softmax", "function"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def assert_evaluated_one_by_one(ensemble, losses, rng):
    dim = losses[0].dim
    X, V = rng.standard_normal((2, len(losses), dim))
    assert ensemble.size == len(losses)
    close = {"rtol": 1e-12, "atol": 1e-12}
    pairs = list(zip(losses, X, V, strict=True))
    np.testing.assert_allclose(ensemble.values(X), [f.value(x) for f, x, _ in pairs], **close)
    np.testing.assert_allclose(ensemble.gradients(X), [f.gradient(x) for f, x, _ in pairs], **close)
    np.testing.assert_allclose(ensemble.products(X, V), [f.hvp(x, v) for f, x, v in pairs], **close)
    np.testing.assert_allclose(
        ensemble.total_hessian(X[0]),
        sum(f.hessian(X[0]) for f in losses),
        rtol=1e-12,
        atol=1e-12 * sum(f.curvature.b for f in losses),
    )


# --- stacked evaluation -------------------------------------------------------------------------


@every_kind
@some
@given(seed=seeds, n=st.integers(1, 9), dim=st.integers(1, 5))
def test_losses_of_one_kind_are_evaluated_as_they_are_one_by_one(kind, seed, n, dim):
    rng = np.random.default_rng(seed)
    losses = of_kind(kind, rng, n, dim)
    assert_evaluated_one_by_one(bq.Problem(losses).all_nodes, losses, rng)


@some
@given(seed=seeds, n=st.integers(2, 12), half=st.integers(1, 3))
def test_losses_of_mixed_kinds_are_evaluated_as_they_are_one_by_one(seed, n, half):
    rng = np.random.default_rng(seed)
    losses = scenarios.objectives(rng, n, 2 * half, mixed=True)
    losses += of_kind("logistic", rng, 3, 2 * half) + of_kind("huber", rng, 3, 2 * half)
    losses = [losses[i] for i in rng.permutation(len(losses))]
    assert_evaluated_one_by_one(bq.Problem(losses).all_nodes, losses, rng)


@pytest.mark.parametrize(("n", "dim"), [(63, 3), (64, 3), (150, 1), (64, 31), (64, 32), (2, 40)])
def test_every_layout_of_many_quadratics_computes_the_same(n, dim):
    rng = np.random.default_rng(n + dim)
    losses = of_kind("quadratic", rng, n, dim)
    problem = bq.Problem(losses)
    assert_evaluated_one_by_one(problem.all_nodes, losses, rng)
    chosen = sorted(rng.permutation(n)[: n // 2 + 1].tolist())
    assert_evaluated_one_by_one(problem.among(chosen), [losses[i] for i in chosen], rng)


@some
@given(seed=seeds, n=st.integers(2, 12), data=st.data())
def test_some_nodes_are_evaluated_as_they_are_one_by_one(seed, n, data):
    rng = np.random.default_rng(seed)
    losses = scenarios.objectives(rng, n, 2, mixed=True)
    problem = bq.Problem(losses)
    chosen = data.draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True))
    # whatever the order they are named in, rows are in ascending order of the ids
    ensemble = problem.among(chosen)
    assert_evaluated_one_by_one(ensemble, [losses[i] for i in sorted(chosen)], rng)


def test_naming_a_node_twice_counts_it_once():
    losses = of_kind("quadratic", np.random.default_rng(0), 4, 2)
    ensemble = bq.Problem(losses).among([3, 1, 3])
    assert_evaluated_one_by_one(ensemble, [losses[1], losses[3]], np.random.default_rng(1))


def test_padding_changes_nothing():
    """One sample beside a thousand: the short one is padded, and still the mean over its own."""
    rng = np.random.default_rng(2)
    sizes = [1, 2, 3, 4, 5, 7, 8, 9, 1000]
    losses = [
        bq.Logistic(rng.standard_normal((m, 3)), rng.integers(2, size=m), l2=0.1 * m) for m in sizes
    ]
    assert_evaluated_one_by_one(bq.Problem(losses).all_nodes, losses, rng)


@some
@given(seed=seeds, n=st.integers(1, 10))
def test_every_node_gets_its_own_loss_and_its_own_curvature_back(seed, n):
    rng = np.random.default_rng(seed)
    losses = scenarios.objectives(rng, n, 4, mixed=True)
    problem = bq.Problem(losses)
    assert len(problem) == problem.n == n
    for node, loss in enumerate(losses):
        x = rng.standard_normal(4)
        mine = problem.objective(node)
        assert type(mine) is type(loss)
        assert mine.value(x) == pytest.approx(loss.value(x), rel=1e-14)
        np.testing.assert_allclose(mine.gradient(x), loss.gradient(x), rtol=0, atol=1e-13)
        assert (problem.a[node], problem.b[node]) == (loss.curvature.a, loss.curvature.b)
    assert problem.mu == min(loss.curvature.a for loss in losses)
    assert problem.L == max(loss.curvature.b for loss in losses)
    assert problem.kappa == problem.L / problem.mu
    assert problem.regime == "SC"


@some
@given(seed=seeds, n=st.integers(1, 8))
def test_value_and_gradient_of_a_problem_are_sums(seed, n):
    rng = np.random.default_rng(seed)
    losses = scenarios.objectives(rng, n, 2, mixed=True)
    problem, x = bq.Problem(losses), rng.standard_normal(2)
    assert problem.value(x) == pytest.approx(sum(f.value(x) for f in losses), rel=1e-12)
    np.testing.assert_allclose(
        problem.gradient(x), sum(f.gradient(x) for f in losses), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("x", [0.0, [1.0], [1.0, 2.0], np.zeros((4, 3))])
def test_a_problem_refuses_a_point_of_the_wrong_shape(x):
    problem = bq.problems.quadratics(n=4, dim=3, mu=1.0, L=2.0, seed=0)
    for ask in (problem.value, problem.gradient):
        with pytest.raises(bq.errors.DimensionMismatch):
            ask(x)


def test_a_problem_cannot_be_changed_through_what_it_gives_away():
    problem = bq.problems.quadratics(n=4, dim=3, mu=1.0, L=2.0, seed=0)
    for given_away in (problem.a, problem.b, problem.optimum()):
        with pytest.raises(ValueError, match="read-only"):
            given_away[0] = 7.0


def test_one_convex_loss_puts_the_problem_in_the_convex_regime():
    problem = bq.Problem([bq.Quadratic([[1.0]], [0.0]), bq.Logistic([[1.0]], [1])])
    assert (problem.mu, problem.regime, problem.kappa) == (0.0, "C", np.inf)


# --- the optimum --------------------------------------------------------------------------------


def assert_minimises(problem, x):
    """|x - x*| <= |grad F(x)| / mu, and that is at most 1e-12 (1 + |x|)."""
    assert np.linalg.norm(problem.gradient(x)) <= 1e-12 * (1 + np.linalg.norm(x)) * problem.a.sum()


@every_kind
@some
@given(seed=seeds, n=st.integers(1, 8), dim=st.integers(1, 5))
def test_the_optimum_of_every_kind_is_found_to_twelve_digits(kind, seed, n, dim):
    rng = np.random.default_rng(seed)
    problem = bq.Problem(of_kind(kind, rng, n, dim, l2=0.5))
    assert_minimises(problem, problem.optimum())


@some
@given(seed=seeds, n=st.integers(1, 10), half=st.integers(1, 3))
def test_the_optimum_of_mixed_kinds_is_found_to_twelve_digits(seed, n, half):
    rng = np.random.default_rng(seed)
    problem = bq.Problem(scenarios.objectives(rng, n, 2 * half, mixed=True, l2=0.5))
    assert_minimises(problem, problem.optimum())


@some
@given(seed=seeds, n=st.integers(1, 10), dim=st.integers(1, 8))
def test_the_optimum_of_quadratics_is_the_closed_form(seed, n, dim):
    rng = np.random.default_rng(seed)
    losses = of_kind("quadratic", rng, n, dim)
    closed = np.linalg.solve(sum(f.A for f in losses), sum(f.A @ f.c for f in losses))
    x = bq.Problem(losses).optimum()
    np.testing.assert_allclose(x, closed, rtol=0, atol=1e-12 * (1 + np.linalg.norm(closed)))


def test_the_optimum_of_one_node_in_one_dimension_is_its_own_minimiser():
    assert bq.Problem([bq.Quadratic([[3.0]], [4.0])]).optimum() == pytest.approx([4.0], rel=1e-15)
    assert bq.Problem([bq.LeastSquares([[2.0]], [6.0])]).optimum() == pytest.approx([3.0])
    ridge = bq.Problem([bq.LeastSquares([[2.0]], [6.0], l2=4.0)])
    assert ridge.optimum() == pytest.approx([1.5], rel=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_a_condition_number_of_a_million_costs_no_more_digits_than_it_must(seed):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((10, 10)))[0]
    A = (Q * np.geomspace(1e-3, 1e3, 10)) @ Q.T
    A = (A + A.T) / 2
    centres = rng.standard_normal((4, 10))
    problem = bq.Problem([bq.Quadratic(A, c) for c in centres])
    # all Hessians are equal, so the optimum is the mean of the centres
    np.testing.assert_allclose(problem.optimum(), centres.mean(axis=0), rtol=0, atol=1e-9)


def test_an_ill_conditioned_least_squares_problem_agrees_with_a_factorisation_of_its_data():
    rng = np.random.default_rng(1)
    U, V = (np.linalg.qr(rng.standard_normal(s))[0] for s in ((60, 8), (8, 8)))
    X = (U * np.geomspace(1.0, 1e3, 8)) @ V.T
    y = X @ rng.standard_normal(8) + 0.1 * rng.standard_normal(60)
    parts = [bq.LeastSquares(X[i : i + 20], y[i : i + 20]) for i in (0, 20, 40)]
    expected = np.linalg.lstsq(X, y, rcond=None)[0]
    np.testing.assert_allclose(bq.Problem(parts).optimum(), expected, rtol=0, atol=1e-9)


def test_an_ill_conditioned_logistic_problem_is_minimised():
    rng = np.random.default_rng(4)
    scales = np.geomspace(1e-3, 1.0, 6)
    losses = [
        bq.Logistic(scales * rng.standard_normal((40, 6)), rng.integers(2, size=40), l2=1e-7)
        for _ in range(3)
    ]
    problem = bq.Problem(losses)
    x = problem.optimum()
    H = problem.all_nodes.total_hessian(x)
    assert np.linalg.cond(H) > 1e5
    left = np.linalg.norm(np.linalg.solve(H, problem.gradient(x)))
    assert left <= 1e-12 * (1 + np.linalg.norm(x))


@some
@given(
    seed=seeds,
    n=st.integers(1, 6),
    dim=st.integers(2, 6),
    m=st.sampled_from([1, 5, 50, 300]),
    data=st.data(),
)
def test_of_many_minimisers_of_least_squares_the_smallest_is_returned(seed, n, dim, m, data):
    rng = np.random.default_rng(seed)
    rank = data.draw(st.integers(1, dim - 1))
    basis = rng.standard_normal((rank, dim))
    parts = [(rng.standard_normal((m, rank)) @ basis, rng.standard_normal(m)) for _ in range(n)]
    problem = bq.Problem([bq.LeastSquares(X, y) for X, y in parts])
    assert problem.regime == "C"
    X, y = np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    sizes = np.linalg.svd(X, compute_uv=False)
    cond = sizes[0] / sizes[min(rank, n * m) - 1]
    assume(cond < 1e3)
    smallest = np.linalg.lstsq(X, y, rcond=1e-10)[0]
    scale = (1 + np.linalg.norm(smallest)) * cond**2
    np.testing.assert_allclose(problem.optimum(), smallest, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize("m", [1, 10, 200])
@pytest.mark.parametrize("dim", [2, 4])
def test_collinear_features_do_not_make_least_squares_unsolvable(dim, m):
    """Rounding fills the null space of a Gram matrix with noise, which must not be inverted."""
    rng = np.random.default_rng([dim, m])
    for _ in range(250):
        X = rng.standard_normal((2, m, dim - 1)) @ rng.standard_normal((dim - 1, dim))
        y = rng.standard_normal((2, m))
        flat = X.reshape(2 * m, dim)
        sizes = np.linalg.svd(flat, compute_uv=False)
        cond = sizes[0] / sizes[min(dim - 1, 2 * m) - 1]
        if cond > 1e3:
            continue
        x = bq.Problem([bq.LeastSquares(*part) for part in zip(X, y, strict=True)]).optimum()
        smallest = np.linalg.lstsq(flat, y.ravel(), rcond=1e-10)[0]
        assert np.abs(x - smallest).max() <= 1e-12 * cond**2 * (1 + np.linalg.norm(smallest))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_features_that_are_nearly_collinear_do_not_hide_that_others_are(scale):
    """The null space hardly touches the last feature, so that no pivot of the Gram matrix is 0."""
    rng = np.random.default_rng(0)
    for _ in range(250):
        (first, last), y = rng.standard_normal((2, 60)), rng.standard_normal(60)
        share = 10.0 ** -rng.uniform(1, 7)
        X = np.stack([first, first + share * last, scale * last], axis=1)
        x = bq.Problem([bq.LeastSquares(X, y)]).optimum()
        null = np.array([1.0, -1.0, share / scale])
        # the smallest minimiser has no part in the null space
        assert abs(x @ null) <= 1e-9 * np.linalg.norm(x) * np.linalg.norm(null)
        slope = X.T @ (X @ x - y)
        assert (np.abs(slope) <= 1e-12 * np.abs(X).T @ (np.abs(X) @ np.abs(x) + np.abs(y))).all()


@pytest.mark.parametrize("scale", [1e-5, 1e-4, 1e-2])
def test_collinear_features_of_different_scales_do_not_make_least_squares_unsolvable(scale):
    """What is small beside the largest entry of a Hessian is noise, however small the others."""
    rng = np.random.default_rng(int(1 / scale))
    for _ in range(250):
        z, y = rng.standard_normal((2, int(rng.choice([1, 5, 50]))))
        X = z[:, None] * [scale * rng.uniform(1, 3), rng.uniform(1, 3)]
        x = bq.Problem([bq.LeastSquares(X, y)]).optimum()
        smallest = np.linalg.lstsq(X, y, rcond=1e-10)[0]
        assert np.abs(x - smallest).max() <= 1e-12 * (1 + np.linalg.norm(smallest))


@pytest.mark.parametrize("cond", [10.0, 100.0, 700.0])
def test_a_singular_least_squares_problem_may_be_ill_conditioned_besides(cond):
    rng = np.random.default_rng(int(cond))
    for _ in range(100):
        U, V = (np.linalg.qr(rng.standard_normal(s))[0] for s in ((50, 2), (3, 3)))
        X, y = 3.0 * (U * [1.0, 1.0 / cond]) @ V[:, :2].T, rng.standard_normal(50)
        x = bq.Problem([bq.LeastSquares(X, y)]).optimum()
        smallest = np.linalg.lstsq(X, y, rcond=1e-10)[0]
        assert np.abs(x - smallest).max() <= 1e-12 * cond**2 * (1 + np.linalg.norm(smallest))


def test_of_many_minimisers_of_quadratics_the_smallest_is_returned():
    flat = bq.Quadratic(np.diag([1.0, 0.0, 0.0]), [3.0, 5.0, 7.0])
    other = bq.Quadratic(np.diag([0.0, 2.0, 0.0]), [3.0, 5.0, 7.0])
    np.testing.assert_allclose(bq.Problem([flat, other]).optimum(), [3.0, 5.0, 0.0], atol=1e-14)
    nothing = bq.Quadratic(np.zeros((2, 2)), [1.0, 1.0])
    np.testing.assert_array_equal(bq.Problem([nothing]).optimum(), [0.0, 0.0])


@some
@given(seed=seeds, n=st.integers(1, 5), dim=st.integers(1, 3))
def test_robust_losses_without_a_penalty_are_minimised_however_far_their_outliers(seed, n, dim):
    rng = np.random.default_rng(seed)
    centre = 20 * rng.standard_normal(dim)
    losses = []
    for _ in range(n):
        X = rng.standard_normal((int(rng.integers(1, 12)), dim))
        losses.append(bq.Huber(X, X @ centre + rng.standard_normal(len(X)), delta=0.5))
    problem = bq.Problem(losses)
    x = problem.optimum()
    assert np.linalg.norm(problem.gradient(x)) <= 1e-11 * problem.b.sum() * (1 + np.abs(x).max())


@pytest.mark.parametrize("delta", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_robust_losses_with_a_small_penalty_are_minimised_without_going_in_circles(dim, delta):
    """Strongly convex, so there is a minimiser; but every kink changes the Newton direction."""
    for seed in range(60):
        rng = np.random.default_rng([dim, seed])
        X, centre = rng.standard_normal((20, dim)), 100 * rng.standard_normal(dim)
        y = X @ centre + 3 * rng.standard_normal(20)
        problem = bq.Problem([bq.Huber(X, y, delta=delta, l2=1e-3)])
        x = problem.optimum()
        assert np.linalg.norm(problem.gradient(x)) <= 1e-12 * problem.L * (1 + np.linalg.norm(x))


def test_a_robust_loss_that_starts_flat_is_still_minimised():
    """At the origin every residual is an outlier, so there is a slope but no curvature."""
    assert bq.Problem([bq.Huber([[1.0]], [100.0])]).optimum() == pytest.approx([100.0], abs=1)
    pair = bq.Problem([bq.Huber([[1.0, 0.0], [0.0, 1.0]], [0.1, 50.0])]).optimum()
    np.testing.assert_allclose(pair, [0.1, 50.0], atol=1e-10)


# --- no optimum ---------------------------------------------------------------------------------


def separable(rng, n, dim):
    normal = rng.standard_normal(dim)
    losses = []
    for _ in range(n):
        X = rng.standard_normal((10, dim))
        losses.append(bq.Logistic(X, X @ normal > 0))
    return losses


@pytest.mark.parametrize("seed", range(6))
def test_separable_logistic_losses_without_a_penalty_have_no_optimum(seed):
    rng = np.random.default_rng(seed)
    problem = bq.Problem(separable(rng, 1 + seed, 1 + seed % 4))
    with pytest.raises(bq.errors.OptimumUnknown, match=r"none|no minimiser") as caught:
        problem.optimum()
    assert "l2" in caught.value.remedy


def test_one_separable_feature_among_others_is_enough_to_have_no_optimum():
    """The first feature has a best weight; along the second one the loss falls for ever."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=40)
    overlapping = rng.standard_normal(40) + 0.5 * labels
    separating = (2 * labels - 1) * rng.uniform(0.5, 2.0, 40)
    X = np.column_stack([overlapping, np.zeros(40)])
    X[:20, 0], X[:20, 1] = 0.0, separating[:20]
    problem = bq.Problem([bq.Logistic(X[:20], labels[:20]), bq.Logistic(X[20:], labels[20:])])
    with pytest.raises(bq.errors.OptimumUnknown):
        problem.optimum()


def test_a_single_sample_without_a_penalty_has_no_optimum():
    for loss in (bq.Logistic([[1.0]], [1]), bq.Logistic([[-3.0, 4.0]], [0])):
        with pytest.raises(bq.errors.OptimumUnknown):
            bq.Problem([loss]).optimum()


@pytest.mark.parametrize("seed", range(8))
def test_separable_softmax_losses_without_a_penalty_have_no_optimum(seed):
    rng = np.random.default_rng(seed)
    dim, classes = 2 + seed % 2, 3 + seed % 3
    X = rng.standard_normal((20, dim))
    labels = (X @ rng.standard_normal((dim, classes))).argmax(axis=1)
    with pytest.raises(bq.errors.OptimumUnknown):
        bq.Problem([bq.Softmax(X, labels, classes=classes)]).optimum()


def test_a_loss_that_falls_for_ever_has_no_optimum():
    falling = bq.Function(lambda x: (x.sum(), np.ones(2)), dim=2, curvature=(0.0, 1.0))
    with pytest.raises(bq.errors.OptimumUnknown):
        bq.Problem([falling]).optimum()
    flat = bq.Quadratic(np.diag([1.0, 0.0]), [1.0, 1.0])
    with pytest.raises(bq.errors.OptimumUnknown):
        bq.Problem([falling, flat]).optimum()


@pytest.mark.parametrize("dim", [1, 3])
def test_a_loss_that_is_nan_everywhere_has_no_optimum(dim):
    broken = bq.Function(
        lambda x: (np.nan, np.full(dim, np.nan)), dim=dim, curvature=(1.0, 1.0), check=False
    )
    with pytest.raises(bq.errors.OptimumUnknown):
        bq.Problem([broken, bq.Quadratic(np.eye(dim), np.zeros(dim))]).optimum()


def test_logistic_losses_without_a_penalty_have_an_optimum_if_they_overlap():
    rng = np.random.default_rng(3)
    losses = [bq.Logistic(rng.standard_normal((30, 3)), rng.integers(2, size=30)) for _ in range(2)]
    problem = bq.Problem(losses)
    x = problem.optimum()
    H = problem.all_nodes.total_hessian(x)
    left = np.linalg.norm(np.linalg.solve(H, problem.gradient(x)))
    assert left <= 1e-12 * (1 + np.linalg.norm(x))


# --- large dimensions ---------------------------------------------------------------------------


def test_beyond_the_dense_dimension_quadratics_are_minimised_by_products_alone():
    rng = np.random.default_rng(0)
    dim = 1600
    weights, centres = rng.uniform(1.0, 50.0, (3, dim)), rng.standard_normal((3, dim))

    def loss(w, c):
        return bq.Function(
            lambda x: (float(w @ (x - c) ** 2) / 2, w * (x - c)),
            dim=dim,
            curvature=(1.0, 50.0),
            hvp=lambda _, v: w * v,
            check=False,
        )

    problem = bq.Problem([loss(w, c) for w, c in zip(weights, centres, strict=True)])
    expected = (weights * centres).sum(axis=0) / weights.sum(axis=0)
    np.testing.assert_allclose(problem.optimum(), expected, rtol=0, atol=1e-12)
    assert problem.all_nodes.smallest_mean_curvature(np.zeros(dim)) == 0.0


def test_beyond_the_dense_dimension_curved_losses_are_minimised_by_differences_alone():
    rng = np.random.default_rng(1)
    dim = 1501
    c = rng.standard_normal(dim)

    def value_and_grad(x):
        gap = x - c
        return float(np.logaddexp(gap, -gap).sum() + 0.05 * x @ x), np.tanh(gap) + 0.1 * x

    problem = bq.Problem([bq.Function(value_and_grad, dim=dim, curvature=(0.1, 1.1), check=False)])
    x = problem.optimum()
    assert np.abs(value_and_grad(x)[1]).max() <= 1e-12
    assert np.abs(x - c).max() > 1e-3  # the penalty moved it


# --- heterogeneity, mean curvature and growth ---------------------------------------------------


@some
@given(seed=seeds, n=st.integers(1, 8))
def test_heterogeneity_is_how_hard_each_node_pulls_at_the_optimum(seed, n):
    rng = np.random.default_rng(seed)
    losses = scenarios.objectives(rng, n, 2, mixed=True)
    problem = bq.Problem(losses)
    pulls = [np.linalg.norm(f.gradient(problem.optimum())) for f in losses]
    np.testing.assert_allclose(problem.heterogeneity(), pulls, rtol=1e-10, atol=1e-12)


def test_equal_nodes_do_not_pull():
    problem = bq.Problem([bq.Quadratic(np.eye(2), [1.0, 2.0])] * 3)
    np.testing.assert_allclose(problem.heterogeneity(), 0.0, atol=1e-15)


@some
@given(seed=seeds, n=st.integers(1, 6))
def test_the_smallest_mean_curvature_is_that_of_the_mean_hessian(seed, n):
    rng = np.random.default_rng(seed)
    losses = scenarios.objectives(rng, n, 4, mixed=True)
    x = rng.standard_normal(4)
    mean = sum(f.hessian(x) for f in losses) / n
    smallest = bq.Problem(losses).all_nodes.smallest_mean_curvature(x)
    assert smallest == pytest.approx(np.linalg.eigvalsh(mean)[0], rel=1e-9)


@some
@given(seed=seeds, n=st.integers(1, 6))
def test_the_smallest_mean_bound_is_that_of_the_mean_of_the_bounds(seed, n):
    rng = np.random.default_rng(seed)
    losses = scenarios.objectives(rng, n, 4, mixed=True)
    mean = sum(f.bound() for f in losses) / n
    smallest = bq.Problem(losses).all_nodes.smallest_mean_bound(rng.standard_normal((n, 4)))
    assert smallest == pytest.approx(np.linalg.eigvalsh(mean)[0], rel=1e-9)


def test_a_bound_does_not_count_where_no_node_has_anything_to_do():
    """A softmax is the same when all its classes gain alike: only the penalty is curved there."""
    rng = np.random.default_rng(3)
    losses = [bq.Softmax(rng.standard_normal((8, 2)), np.arange(8) % 3, 3, 0.01) for _ in range(4)]
    nodes = bq.Problem(losses).all_nodes
    values = np.linalg.eigvalsh(sum(f.bound() for f in losses) / 4)
    assert values[1] == pytest.approx(0.01)
    assert values[2] > 0.1
    assert nodes.smallest_mean_bound(np.zeros((4, 6))) == pytest.approx(values[2], rel=1e-9)
    # nodes that start apart have to agree there, too
    apart = nodes.smallest_mean_bound(rng.standard_normal((4, 6)))
    assert apart == pytest.approx(0.01, rel=1e-9)
    # at the optimum of every node nothing is known of what matters
    centred = bq.Problem([bq.Quadratic(np.diag([1.0, 2.0]), np.zeros(2))] * 2)
    assert centred.all_nodes.smallest_mean_bound(np.zeros((2, 2))) == pytest.approx(1.0)


def test_quadratic_growth_is_what_the_sum_is_known_to_grow_by():
    strong = bq.problems.quadratics(n=4, dim=3, mu=1.0, L=5.0, seed=0)
    assert strong.quadratic_growth() == pytest.approx(strong.a.sum(), rel=1e-15)
    flat = bq.Problem([bq.Quadratic(np.diag([w, 0.0, 0.0]), np.ones(3)) for w in (1.0, 2.0)])
    assert flat.quadratic_growth() == pytest.approx(3.0, rel=1e-12)
    assert bq.Problem([bq.Logistic([[1.0], [-1.0]], [1, 1])]).quadratic_growth() == 0.0


@some
@given(seed=seeds, dim=st.integers(2, 5), data=st.data())
def test_a_singular_least_squares_sum_grows_at_least_as_fast_as_promised(seed, dim, data):
    rng = np.random.default_rng(seed)
    basis = rng.standard_normal((data.draw(st.integers(1, dim - 1)), dim))
    problem = bq.Problem(
        [
            bq.LeastSquares(rng.standard_normal((20, len(basis))) @ basis, rng.standard_normal(20))
            for _ in range(3)
        ]
    )
    growth, x = problem.quadratic_growth(), problem.optimum()
    assert growth > 0
    row_space = np.linalg.qr(basis.T)[0]
    for _ in range(5):
        away = row_space @ rng.standard_normal(len(basis))
        gain = problem.value(x + away) - problem.value(x)
        assert gain >= growth / 2 * (away @ away) * (1 - 1e-6)


# --- what it refuses ----------------------------------------------------------------------------


def test_a_problem_without_losses_is_refused():
    with pytest.raises(bq.errors.InvalidObjective, match="no nodes") as caught:
        bq.Problem([])
    assert caught.type is bq.errors.InvalidObjective


def test_what_is_not_a_loss_is_refused_by_its_place():
    good = bq.Quadratic([[1.0]], [0.0])
    with pytest.raises(bq.errors.InvalidObjective, match="Objective 1 is a function") as caught:
        bq.Problem([good, lambda x: (x @ x, 2 * x)])
    assert "Function" in caught.value.remedy


@pytest.mark.parametrize("n", [3, 100])
@pytest.mark.parametrize("dim", [1, 5, 40])
def test_gradients_do_not_depend_on_the_memory_layout_of_their_arguments(n, dim):
    problem = bq.problems.quadratics(n=n, dim=dim, mu=1.0, L=4.0, seed=0)
    X = np.random.default_rng(1).standard_normal((n, dim))
    expected = np.array([problem.objective(i).gradient(x) for i, x in enumerate(X)])
    for points in (X, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X[::-1][::-1]):
        for out in (np.empty((n, dim)), np.empty((dim, n)).T, np.empty((n, 2 * dim))[:, ::2]):
            out[...] = np.nan
            problem.all_nodes.write_gradients(points, out)
            np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)
