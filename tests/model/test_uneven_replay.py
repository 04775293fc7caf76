"""Replay of losses whose samples do not count alike, are sparse, or are not all penalised."""

from dataclasses import replace

import numpy as np
import pytest
from rehearsal import Rehearsal
from scipy.sparse import csr_array

import bequest as bq
from bequest.core.legacy import Legacy
from bequest.engines import Loop
from bequest.errors import InvalidWill
from bequest.model import sample_statistics
from bequest.model.pseudo_samples import can_draw, centroids, evaluated, moments, table_of

KINDS = ["logistic", "softmax", "least squares", "huber"]
UNEVEN = [
    {"weighted": True},
    {"sparse": True},
    {"free": True},
    {"weighted": True, "sparse": True, "free": True},
]
GRAPH = bq.graphs.ring_with_chords(6, chords=3, seed=1)


def samples(i, m=24):
    rng = np.random.default_rng([i, 9])
    X = rng.standard_normal((m, 4)) * (rng.random((m, 4)) < 0.6) + 0.0
    X[:, -1] = 1.0
    t = X @ [1.0, -1.0, 0.5, 0.2] + 0.3 * rng.standard_normal(m)
    weights = rng.integers(0, 4, m).astype(float)
    return X, t, weights


def loss(kind, i=1, *, weighted=False, sparse=False, free=False, l2=0.1, weights=None, rows=None):
    X, t, drawn = samples(i)
    given = drawn if weights is None else weights
    options = {"unpenalised": [-1] if free else [], "sample_weight": given if weighted else None}
    labels = {"logistic": t > np.median(t), "softmax": np.digitize(t, [-0.5, 0.5])}.get(kind, t)
    if rows is not None:
        X, labels = X[rows], labels[rows]
    A = csr_array(X) if sparse else X
    match kind:
        case "logistic":
            return bq.Logistic(A, labels, l2, **options)
        case "softmax":
            return bq.Softmax(A, labels, 3, l2, **options)
        case "least squares":
            return bq.LeastSquares(A, labels, l2, **options)
    return bq.Huber(A, labels, 0.5, l2, **options)


def memory(one, summary, count):
    table = table_of(one)
    told = summary(table, count, (0, 3))
    drawn = replace(told, loss=evaluated(told, one))
    return Legacy(table.l2, np.zeros(one.dim), 0.0, {0: 1}, samples=(drawn,))


@pytest.mark.parametrize("uneven", UNEVEN, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_all_samples_are_the_loss_itself(kind, uneven):
    one = loss(kind, **uneven)
    held = memory(one, centroids, 10_000)
    for x in np.random.default_rng(0).standard_normal((5, one.dim)):
        np.testing.assert_allclose(held.gradient(x), one.gradient(x), rtol=0, atol=1e-13)
        assert held.value(x) == pytest.approx(one.value(x), abs=1e-12)
    low, high = held.curvature
    for x in np.random.default_rng(1).standard_normal((5, one.dim)):
        ends = np.linalg.eigvalsh(one.hessian(x))
        assert low - 1e-12 <= ends[0]
        assert ends[-1] <= high + 1e-12


@pytest.mark.parametrize("uneven", UNEVEN, ids=str)
def test_moments_of_full_rank_are_least_squares_exactly(uneven):
    one = loss("least squares", **uneven)
    held = memory(one, moments, 5)
    for x in np.random.default_rng(0).standard_normal((5, one.dim)):
        np.testing.assert_allclose(held.gradient(x), one.gradient(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_repetitions(kind):
    """A sample of weight three is three samples, and one of weight zero is none."""
    _, _, weights = samples(1)
    again = np.repeat(np.arange(24), weights.astype(int))
    one, other = loss(kind, weighted=True), loss(kind, rows=again)
    told, repeated = (moments(table_of(f), 2, (0, 3)) for f in (one, other))
    np.testing.assert_allclose(told.shares, repeated.shares, rtol=1e-14)
    np.testing.assert_allclose(told.means, repeated.means, rtol=0, atol=1e-14)
    for mine, theirs in zip(told.factors, repeated.factors, strict=True):
        np.testing.assert_allclose(mine.T @ mine, theirs.T @ theirs, rtol=0, atol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("written_out", [True, False])
def test_sparse_samples_have_the_statistics_of_dense_ones(kind, weighted, written_out, monkeypatch):
    if not written_out:  # directions by products
        monkeypatch.setattr(sample_statistics, "_WRITTEN_OUT", 0)
    dense = moments(table_of(loss(kind, weighted=weighted)), 2, (0, 3))
    sparse = moments(table_of(loss(kind, weighted=weighted, sparse=True)), 2, (0, 3))
    again = moments(table_of(loss(kind, weighted=weighted, sparse=True)), 2, (0, 3))
    np.testing.assert_array_equal(sparse.factors, again.factors)  # nothing is left to chance
    np.testing.assert_allclose(sparse.shares, dense.shares, rtol=1e-15)
    np.testing.assert_allclose(sparse.means, dense.means, rtol=0, atol=1e-15)
    for mine, theirs in zip(sparse.factors, dense.factors, strict=True):
        np.testing.assert_allclose(mine.T @ mine, theirs.T @ theirs, rtol=0, atol=1e-12)


def test_clusters_of_large_sparse_samples_are_found_among_projections(monkeypatch):
    rng = np.random.default_rng(2)
    centres = rng.standard_normal((3, 400)) * (rng.random((3, 400)) < 0.1) * 20
    which = np.arange(60) % 3
    X = csr_array(centres[which] + (rng.random((60, 400)) < 0.01))
    monkeypatch.setattr(sample_statistics, "_WRITTEN_OUT", 0)
    told = centroids(table_of(bq.LeastSquares(X, np.zeros(60), 0.1)), 3, (0, 3))
    nearest = [np.linalg.norm(told.means[:, :-1] - centre, axis=1).min() for centre in centres]
    assert max(nearest) < 2  # they are some 80 apart


@pytest.mark.parametrize("will", [bq.wills.Replay(rank=2), bq.wills.Replay(centroids=6)])
@pytest.mark.parametrize("kind", KINDS)
def test_engines_agree_and_the_invariant_is_exact(kind, will):
    losses = bq.Problem(
        [loss(kind, i, weighted=i % 2 == 0, sparse=True, free=True) for i in range(6)]
    )
    options = {
        "departures": [bq.Departure(2, 4), bq.Departure(4, 9), bq.Return(2, 20)],
        "rounds": 40,
        "method": bq.GradientTracking(0.05),
        "will": will,
    }
    rows = bq.solve(losses, GRAPH, **options)
    assert rows.invariant_gap.max() < 1e-12
    assert {record.choice for record in rows.departures} == {"replay"}
    nodes = bq.solve(losses, GRAPH, engine=Loop(as_bytes=True), **options)
    np.testing.assert_allclose(nodes.x, rows.x, rtol=0, atol=1e-10)
    again = bq.solve(losses, GRAPH, engine=Rehearsal(hosts=3), **options)
    np.testing.assert_array_equal(again.x, nodes.x)


def test_a_penalty_counts_as_often_as_its_node():
    """Merging two memories into one must not lose one of their penalties."""
    one, other = (loss("logistic", i, free=True) for i in (1, 2))
    held = memory(one, moments, 2)
    x = np.array([1.0, -2.0, 0.5, 3.0])
    second = memory(other, moments, 2)
    second = replace(second, lineage={1: 1})
    told = replace(second.samples[0], origins=(1,), key=(1, 3))
    second = replace(second, samples=(replace(told, loss=evaluated(told, other)),))
    both = (held + second).recompress(0, at=x)
    expected = held.gradient(x) + second.gradient(x)
    np.testing.assert_allclose(both.gradient(x), expected, rtol=0, atol=1e-14)
    rest = (held + second) - second
    np.testing.assert_array_equal(rest.gradient(x), held.gradient(x))


@pytest.mark.parametrize(
    "form",
    [
        ("penalised logistic", ()),
        ("penalised logistic", (-1.0, 3.0)),
        ("penalised logistic", (0.1, 1.5)),
        ("penalised logistic", (0.1, 4.0)),
        ("penalised logistic", (0.1, -1.0)),
        ("logistic", (0.1,)),
        ("penalised ", (0.1, 3.0)),
        ("penalised penalised logistic", (0.1, 3.0)),
    ],
)
def test_forms_that_cannot_be_right_are_not_believed(form):
    one = loss("logistic", free=True)
    told = moments(table_of(one), 2, (0, 3))
    assert told.form == ("penalised logistic", (0.1, 3.0))
    assert can_draw(told, one, one.dim)
    assert not can_draw(replace(told, form=form), one, one.dim)


def test_samples_without_any_weight_are_refused_in_words():
    one = bq.Logistic([[1.0], [2.0]], [0, 1], l2=0.5, sample_weight=[0, 0], divisor=3.0)
    with pytest.raises(InvalidWill, match="weight 0"):
        table_of(one)
