"""Samples that count more than others, coefficients that no penalty holds, and sparse features."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csc_matrix, csr_array
from scipy.sparse.linalg import svds

import bequest as bq
from bequest.errors import DimensionMismatch, InvalidObjective, NotFinite
from bequest.model.content import digest

KINDS = ["logistic", "softmax", "least_squares", "huber"]


def loss(kind, X, y, **options):
    labels = (y > 0).astype(float)
    match kind:
        case "logistic":
            return bq.Logistic(X, labels, **options)
        case "softmax":
            return bq.Softmax(X, (np.floor(2 * y) % 3), 3, **options)
        case "least_squares":
            return bq.LeastSquares(X, y, **options)
    return bq.Huber(X, y, 0.7, **options)


def samples(seed, m=23, d=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((m, d)) * (rng.random((m, d)) < 0.6)
    return X, rng.standard_normal(m), rng.integers(0, 4, m).astype(float), rng


def same(one, other, x, v, rtol=1e-12):
    close = {"rtol": rtol, "atol": 1e-13}
    np.testing.assert_allclose(one.value(x), other.value(x), **close)
    np.testing.assert_allclose(one.gradient(x), other.gradient(x), **close)
    np.testing.assert_allclose(one.hvp(x, v), other.hvp(x, v), **close)
    np.testing.assert_allclose(one.hessian(x), other.hessian(x), **close)
    np.testing.assert_allclose(one.bound(), other.bound(), **close)
    for name in ("ceiling",):
        ours, theirs = (getattr(f._alone, name)() for f in (one, other))
        np.testing.assert_allclose(ours, theirs, **close)
    np.testing.assert_allclose(
        one._alone.terms(x, np.ones_like(x)), other._alone.terms(x, np.ones_like(x)), **close
    )
    np.testing.assert_allclose(
        (one.curvature.a, one.curvature.b), (other.curvature.a, other.curvature.b), **close
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_a_weight_is_that_many_samples(kind, seed):
    X, y, weight, rng = samples(seed)
    often = np.repeat(np.arange(y.size), weight.astype(int))
    one = loss(kind, X, y, l2=0.1, sample_weight=weight)
    other = loss(kind, X[often], y[often], l2=0.1)
    assert one.divisor == weight.sum()
    same(one, other, rng.standard_normal(one.dim), rng.standard_normal(one.dim))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unpenalised", [(), (-1,), (0, 3)])
def test_sparse_samples_give_the_numbers_of_dense_ones(kind, unpenalised):
    X, y, weight, rng = samples(5)
    options = {"l2": 0.3, "sample_weight": weight, "unpenalised": unpenalised, "divisor": 9.0}
    dense = loss(kind, X, y, **options)
    for form in (csr_array, csc_matrix):
        sparse = loss(kind, form(X), y, **options)
        assert isinstance(sparse.X, csr_array)
        same(sparse, dense, rng.standard_normal(dense.dim), rng.standard_normal(dense.dim))


@pytest.mark.parametrize("kind", KINDS)
def test_silos_of_sparse_samples_are_solved_like_dense_ones(kind):
    X, y, weight, _ = samples(6, m=60)
    silos = [slice(0, 30), slice(30, 37), slice(37, 60)]

    def run(form):
        members = [
            loss(kind, form(X[s]), y[s], l2=0.2, sample_weight=weight[s] + 0.5, unpenalised=[1])
            for s in silos
        ]
        return bq.solve(bq.Problem(members), bq.graphs.path(3), rounds=60, optimum="always")

    sparse, dense = run(csr_array), run(np.asarray)
    np.testing.assert_allclose(sparse.x, dense.x, atol=1e-10)
    np.testing.assert_allclose(sparse.optimum, dense.optimum, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "d"), [(23, 4), (5, 12), (1, 3), (4, 1)])
@pytest.mark.parametrize("free", [[0], [0, -1], []])
def test_curvature_is_certified_without_a_penalty_on_some(kind, m, d, free):
    X, y, _, rng = samples(7, m, d)
    X[:, -1] = 1.0
    f = loss(kind, X, y, l2=0.5, unpenalised=free, sample_weight=rng.random(m) + 0.1)
    for scale in (0.0, 0.1, 1.0, 10.0):
        values = np.linalg.eigvalsh(f.hessian(scale * rng.standard_normal(f.dim)))
        assert f.curvature.a <= values[0] + 1e-12
        assert values[-1] <= f.curvature.b * (1 + 1e-12)
    if kind == "least_squares":  # both ends are attained
        assert f.curvature.a == pytest.approx(max(values[0], 0.0), abs=1e-12)
        assert f.curvature.b == pytest.approx(values[-1])
    elif free:
        assert f.curvature.a == 0.0


def test_an_intercept_alone_is_strongly_convex_only_if_the_samples_make_it_so():
    ones, y = np.ones((3, 1)), [1.0, 2.0, 6.0]
    f = bq.LeastSquares(ones, y, l2=5.0, unpenalised=[0])
    assert (f.curvature.a, f.curvature.b) == (1.0, 1.0)
    nothing = bq.LeastSquares([[1.0, 0.0], [2.0, 0.0]], [0.0, 1.0], l2=5.0, unpenalised=[1])
    assert nothing.curvature.a == 0.0
    assert bq.Problem([nothing, nothing]).regime == "C"
    assert bq.Problem([f]).optimum() == pytest.approx([3.0])


def test_many_sparse_columns_are_bounded_from_above_without_a_dense_matrix():
    rng = np.random.default_rng(0)
    m, d = 2500, 2200
    X = csr_array(
        (rng.standard_normal(7 * m), (np.repeat(np.arange(m), 7), rng.integers(0, d, 7 * m))),
        shape=(m, d),
    )
    f = bq.Logistic(X, np.arange(m) % 2, l2=0.01)
    (largest,) = svds(X, k=1, return_singular_vectors=False, random_state=0)
    top = largest**2 / m / 4
    assert f.curvature.a == 0.01
    assert top <= f.curvature.b - 0.01 <= 4 * top


def test_contents_tell_weights_and_penalties_and_sparse_samples_apart():
    X, y, weight, _ = samples(8)
    labels = (y > 0).astype(float)
    alike = [bq.Logistic(csr_array(X), labels), bq.Logistic(csc_matrix(X), labels)]
    _ = alike[0].curvature, alike[0].gradient(np.zeros(4))
    again = pickle.loads(pickle.dumps(alike[0]))  # noqa: S301 - our own
    assert digest(alike[0]) == digest(alike[1]) == digest(again)
    more = X.copy()
    more[0, 0] += 1.0
    others = [
        bq.Logistic(X, labels),
        bq.Logistic(csr_array(more), labels),
        bq.Logistic(X, labels, sample_weight=weight + 1),
        bq.Logistic(X, labels, unpenalised=[2]),
        bq.Logistic(X, labels, unpenalised=[-1]),
    ]
    assert len({digest(f) for f in [alike[0], *others]}) == 6


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"sample_weight": [1.0, -2.0]}, InvalidObjective, "is -2 for sample 1"),
        ({"sample_weight": [1.0]}, DimensionMismatch, "has 1 entries, y has 2"),
        ({"sample_weight": [1.0, np.nan]}, NotFinite, "sample_weight holds nan"),
        ({"sample_weight": [0.0, 0.0]}, InvalidObjective, "Every sample has weight 0"),
        ({"unpenalised": [2]}, InvalidObjective, "names column 2, and X has 2"),
        ({"unpenalised": [-3]}, InvalidObjective, "names column -3"),
        ({"unpenalised": ["age"]}, InvalidObjective, "names column age"),
    ],
)
def test_bad_weights_are_told_in_words(options, error, words):
    with pytest.raises(error, match=words):
        bq.Logistic([[1.0, 2.0], [3.0, 4.0]], [0, 1], **options)


def test_bad_sparse_samples_are_told_in_words():
    with pytest.raises(NotFinite, match="X holds nan"):
        bq.Logistic(csr_array([[1.0, np.nan]]), [1])
    with pytest.raises(DimensionMismatch, match="none of them empty"):
        bq.Logistic(csr_array((0, 3)), [1])
    with pytest.raises(InvalidObjective, match="complex"):
        bq.Logistic(csr_array([[1j, 2.0]]), [1])
    # samples without any feature are samples
    assert bq.LeastSquares(csr_array((2, 3)), [1.0, 3.0], l2=1.0).value(np.zeros(3)) == 2.5


def test_a_silo_whose_samples_do_not_count_holds_only_its_penalty():
    f = bq.Logistic([[1.0], [2.0]], [0, 1], l2=0.5, sample_weight=[0, 0], divisor=3.0)
    assert f.gradient([2.0]).tolist() == [1.0]
    assert (f.curvature.a, f.curvature.b) == (0.5, 0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_weighted_samples_is_their_loss(kind):
    X, y, weight, rng = samples(9)
    f = loss(kind, X, y, l2=0.2, sample_weight=weight + 1, divisor=46.0)
    x, rows = rng.standard_normal(f.dim), np.arange(0, 23, 2)
    part = loss(kind, X[rows], y[rows], l2=0.2, sample_weight=weight[rows] + 1, divisor=24.0)
    np.testing.assert_allclose(f.batch_gradient(x, rows), part.gradient(x), atol=1e-13)


def test_losses_beside_each_other_share_their_samples():
    """A table may be most of what the memory holds: one copy of it is enough."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(11, 4)), rng.integers(0, 2, 11)
    losses = [bq.Logistic(X[:6], y[:6], 0.1), bq.Logistic(X[6:], y[6:], 0.2)]
    x = rng.normal(size=4)
    before = [(loss.value(x), *loss.gradient(x)) for loss in losses]
    problem = bq.Problem(losses)
    ((_, stack),) = problem.stacks
    for loss, rows in zip(losses, (X[:6], X[6:]), strict=True):
        assert np.shares_memory(loss.X, stack.rows.X)
        assert np.array_equal(loss.X, rows)
        assert not loss.X.flags.writeable
    assert [(loss.value(x), *loss.gradient(x)) for loss in losses] == before
    again = bq.Problem([losses[1], losses[0]])  # they share with the newest problem
    assert np.shares_memory(losses[0].X, again.stacks[0][1].rows.X)
    assert np.array_equal(again.objective(1).X, X[:6])
    assert np.array_equal(stack.rows.of(0), X[:6])
    alone = bq.Problem([losses[0]])
    ((_, single),) = alone.stacks
    assert np.shares_memory(single.rows.X, losses[0].X)
