"""Models of JAX: the same contract, the same numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from insisting import check_quadratics, insisting
from rehearsal import Rehearsal

import bequest as bq
import bequest.jax
from bequest.engines import Loop
from bequest.errors import DimensionMismatch, InvalidObjective
from bequest.model.objectives import SampleKey

jax.config.update("jax_enable_x64", True)
Silo = bequest.jax.Silo
GRAPH = bq.graphs.ring_with_chords(6, chords=3, seed=1)
LEAVING = [bq.Departure(2, 6), bq.Departure(4, 12)]


def data(i, m=24, features=5):
    rng = np.random.default_rng([i, 3])
    X = rng.standard_normal((m, features)) + 0.4 * i
    return X, np.digitize(X @ np.linspace(1, -1, features), [-1, 1])


def entropy(out, target):
    return -jnp.mean(jax.nn.log_softmax(out)[jnp.arange(target.shape[0]), target])


def predict(params, inputs):
    hidden = jnp.tanh(inputs @ params["in"]["w"] + params["in"]["b"])
    return hidden @ params["out"]


def matrix(weights, inputs):
    return inputs @ weights.T


def logistic(w, batch):
    return jnp.mean(jnp.logaddexp(0.0, -batch[1] * (batch[0] @ w)))


def whole(params, batch):
    return entropy(predict(params, batch[0]), batch[1])


def params(dtype=jnp.float64):
    rng = np.random.default_rng(1)
    shapes = {"in": {"w": (5, 6), "b": (6,)}, "out": (6, 3)}
    return jax.tree.map(
        lambda shape: jnp.asarray(0.5 * rng.standard_normal(shape), dtype),
        shapes,
        is_leaf=lambda s: isinstance(s, tuple),
    )


def problem(dtype=jnp.float32, batch=4):
    silos = []
    for i in range(6):
        X, y = data(i)
        pair = (jnp.asarray(X, dtype), jnp.asarray(y))
        silos.append(Silo(entropy, params(dtype), pair, predict=predict, l2=1e-3, batch=batch))
    return bq.Problem(silos)


def solved(losses, engine=None, **options):
    asked = {
        "departures": LEAVING,
        "rounds": 25,
        "method": bq.GradientTracking(step=0.1),
        "will": bq.wills.Replay(rank=2),
        "start": getattr(losses.objective(0), "start", None),
    } | options
    return bq.solve(losses, GRAPH, engine=engine, **asked)


def test_it_is_our_softmax():
    X, y = data(1)
    ours = bq.Softmax(X, y, 3, 0.1)
    theirs = Silo(
        entropy, jnp.zeros((3, 5)), (X, y), predict=lambda w, inputs: inputs @ w.T, l2=0.1
    )
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal((2, 15))
    assert theirs.value(x) == pytest.approx(ours.value(x), abs=1e-12)
    np.testing.assert_allclose(theirs.gradient(x), ours.gradient(x), atol=1e-12)
    np.testing.assert_allclose(theirs.hvp(x, v), ours.hvp(x, v), atol=1e-12)
    np.testing.assert_allclose(theirs.convexified.hvp(x, v), ours.hvp(x, v), atol=1e-12)
    key = SampleKey(0, 1, 0, 5)
    mine = bq.Minibatches(ours, 6).gradient(x, key)
    batched = Silo(
        entropy, jnp.zeros((3, 5)), (X, y), predict=lambda w, i: i @ w.T, l2=0.1, batch=6
    )
    np.testing.assert_allclose(batched.gradient(x, key), mine, atol=1e-12)


def test_it_is_our_logistic():
    X, y = data(2)
    signs = np.where(y > 0, 1.0, -1.0)
    ours, theirs = bq.Logistic(X, signs, 0.1), Silo(logistic, jnp.zeros(5), (X, signs), l2=0.1)
    x = np.random.default_rng(0).standard_normal(5)
    assert theirs.value(x) == pytest.approx(ours.value(x), abs=1e-12)
    np.testing.assert_allclose(theirs.gradient(x), ours.gradient(x), atol=1e-12)


def test_a_loss_of_parameters_and_a_batch_is_enough():
    X, y = data(0)
    one = Silo(whole, params(), (X, y), l2=1e-3)
    other = Silo(entropy, params(), (X, y), predict=predict, l2=1e-3)
    x = np.random.default_rng(0).standard_normal(one.dim)
    np.testing.assert_allclose(one.gradient(x), other.gradient(x), atol=1e-12)
    np.testing.assert_allclose(one.hvp(x, x), other.hvp(x, x), atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_without_outputs_the_hessian_is_raised_until_it_is_not_negative(seed):
    X, y = data(seed)
    one = Silo(whole, params(), (X, y), l2=1e-3)
    x = np.random.default_rng(seed).standard_normal(one.dim)
    least = np.linalg.eigvalsh(one.hessian(x))[0]
    raised = np.linalg.eigvalsh(one.convexified.hessian(x))
    assert least < -1e-3
    assert one.l2 - 1e-9 <= raised[0] < one.l2 - least  # by little more than it takes


def test_without_outputs_a_convex_loss_keeps_its_hessian():
    X, y = data(2)
    signs = np.where(y > 0, 1.0, -1.0)
    theirs = Silo(logistic, jnp.zeros(5), (X, signs), l2=0.1)
    x, v = np.random.default_rng(0).standard_normal((2, 5))
    ours = bq.Logistic(X, signs, 0.1)
    np.testing.assert_allclose(theirs.convexified.hvp(x, v), ours.hvp(x, v), atol=1e-12)


QUADRATICS = [
    bq.wills.Consensus(),
    bq.wills.Trust(),
    bq.wills.Adaptive(),
    bq.wills.Drift(2),
    bq.wills.FullHessian(),
]


@pytest.mark.parametrize("will", QUADRATICS, ids=lambda will: will.title)
def test_without_outputs_every_will_leaves_what_is_not_negative(will):
    losses = bq.Problem([Silo(whole, params(), data(i), l2=1e-3, batch=4) for i in range(6)])
    run = solved(losses, will=insisting(will))
    assert [record.choice == "none" for record in run.departures] == [False, False]
    assert run.invariant_gap.max() < 1e-12
    assert len(run.inherited) >= 1
    for memory in run.inherited.values():
        assert memory.curvature[0] >= 1e-3 * (1 - 1e-9)  # the penalty, at least


def test_the_same_minibatch_run_bit_for_bit_on_every_engine():
    losses = problem()
    rows = solved(losses)
    assert rows.invariant_gap.max() < 1e-12
    for engine in (Loop(as_bytes=True), Rehearsal(hosts=6)):
        np.testing.assert_array_equal(solved(losses, engine).x, rows.x)


@pytest.mark.parametrize("will", QUADRATICS, ids=lambda will: will.title)
def test_every_quadratic_of_a_network_is_handed_over_alike(will):
    losses, will = problem(), insisting(will)
    rows = solved(losses, will=will)
    check_quadratics(rows, losses, step=0.1)
    nodes = solved(losses, Loop(as_bytes=True), will=will)
    np.testing.assert_array_equal(nodes.x, rows.x)


@pytest.mark.parametrize("will", [bq.wills.Replay(rank=2), bq.wills.Replay(centroids=6)])
@pytest.mark.parametrize("batch", [None, 6])
def test_a_whole_run_is_that_of_our_softmax(will, batch):
    ours, theirs = [], []
    for i in range(6):
        X, y = data(i)
        loss = bq.Softmax(X, y, 3, 0.1)
        ours.append(loss if batch is None else bq.Minibatches(loss, batch))
        known = {"curvature": loss.curvature, "batch": batch, "l2": 0.1}
        theirs.append(Silo(entropy, jnp.zeros((3, 5)), (X, y), predict=matrix, **known))
    runs = [solved(bq.Problem(losses), will=will, start=np.zeros(15)) for losses in (theirs, ours)]
    assert all(record.choice == "replay" for run in runs for record in run.departures)
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "will",
    # Targets of this loss are numbers to JAX, not classes: moments would be others.
    [bq.wills.Consensus(), bq.wills.Trust(), bq.wills.Replay(centroids=24)],
    ids=lambda will: will.title,
)
@pytest.mark.parametrize("batch", [None, 6])
def test_a_whole_run_is_that_of_our_logistic(will, batch):
    ours, theirs = [], []
    for i in range(6):
        X, y = data(i)
        signs = np.where(y > 0, 1.0, -1.0)
        loss = bq.Logistic(X, signs, 0.1)
        ours.append(loss if batch is None else bq.Minibatches(loss, batch))
        known = {"curvature": loss.curvature, "batch": batch, "l2": 0.1}
        theirs.append(Silo(logistic, jnp.zeros(5), (X, signs), **known))
    runs = [solved(bq.Problem(losses), will=will, start=np.zeros(5)) for losses in (theirs, ours)]
    assert all(record.choice != "none" for run in runs for record in run.departures)
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=0, atol=1e-10)


def test_the_model_comes_back_as_a_pytree():
    run = solved(problem())
    found = run.model
    assert jax.tree.structure(found) == jax.tree.structure(params())
    assert found["in"]["w"].shape == (5, 6)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (
            lambda: Silo(lambda p, b: whole(p, b) * b[1].shape[0], params(), data(0)),
            InvalidObjective,
            "sums over samples",
        ),
        (lambda: Silo("loss", params(), data(0)), InvalidObjective, "The loss is a str"),
        (lambda: Silo(whole, {}, data(0)), InvalidObjective, "of no type"),
        (lambda: Silo(whole, params(), data(0)[0]), InvalidObjective, "The data are a ndarray"),
        (
            lambda: Silo(whole, params(), (data(0)[0], data(0)[1][:3])),
            DimensionMismatch,
            "targets of shape",
        ),
    ],
)
def test_bad_input_is_refused_in_words(make, kind, words):
    with pytest.raises(kind, match=words):
        make()
