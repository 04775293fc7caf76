"""Minibatches with a key: every engine takes the same samples, and the invariant stays exact."""

import numpy as np
import pytest
from rehearsal import Rehearsal

import bequest as bq
from bequest.engines import Loop, Weather
from bequest.journal import Journal, read
from bequest.model.objectives import SampleKey
from bequest.replay import Replay

STORM = Weather(seed=3, delay=(0.0, 5.0), duplication=0.3)
METHODS = [
    bq.GradientTracking(step=0.05),
    bq.GradientTracking(),
    bq.NIDS(),
    bq.NIDS(metric="hessian"),
    bq.methods.ExactDiffusion(step=0.05),
    bq.methods.Decaying(bq.NIDS(), half=20),
    bq.methods.Decaying(bq.GradientTracking(step=0.05), half=20),
    bq.methods.Momentum(bq.GradientTracking(step=0.02), 0.8),
    bq.methods.Decaying(bq.methods.Momentum(bq.GradientTracking(step=0.02), 0.3), half=20),
]


def problem(size=4, full_every=None, seed=3, n=6):
    rng = np.random.default_rng(0)
    silos = []
    for i in range(n):
        X = rng.standard_normal((20 + i, 5)) + 0.3 * i
        y = (X @ np.arange(5) + rng.standard_normal(20 + i) > 0).astype(float)
        loss = bq.Logistic(X, y, l2=0.1)
        silos.append(bq.Minibatches(loss, size, seed=seed, full_every=full_every))
    return bq.Problem(silos)


GRAPH = bq.graphs.ring_with_chords(6, chords=2, seed=1)
LEAVING = [bq.Departure(2, 20), bq.Departure(4, 40)]
EVENTFUL = [bq.Departure(2, 20), bq.Crash(1, 30), bq.Return(2, 40), bq.Forget(1, 50)]


def solved(losses, engine=None, **options):
    given = {"departures": LEAVING, "will": bq.wills.Consensus(), "rounds": 80} | options
    return bq.solve(losses, GRAPH, engine=engine, **given)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.label)
@pytest.mark.parametrize("full_every", [None, 10])
def test_rows_and_real_nodes_agree_to_the_last_bit(method, full_every):
    losses = problem(full_every=full_every)
    rows = solved(losses, method=method)
    for engine in (Loop(), Loop(weather=STORM, as_bytes=True), Rehearsal(hosts=6)):
        nodes = solved(losses, engine, method=method)
        np.testing.assert_array_equal(nodes.x, rows.x)
    assert rows.invariant_gap.max() < 1e-13


@pytest.mark.parametrize("method", [*METHODS[:3], METHODS[-2]], ids=lambda method: method.label)
def test_whatever_happens_the_invariant_is_exact_and_engines_agree(method):
    losses = problem()
    rows = solved(losses, departures=EVENTFUL, method=method)
    nodes = solved(losses, Loop(), departures=EVENTFUL, method=method)
    np.testing.assert_allclose(nodes.x, rows.x, rtol=0, atol=1e-12)
    assert max(rows.invariant_gap.max(), nodes.invariant_gap.max()) < 1e-12


AT_ONCE = {
    "two leave": [bq.Departure(2, 20), bq.Departure(4, 20)],
    "one leaves, one crashes": [bq.Departure(2, 20), bq.Crash(4, 20)],
    "one leaves, one returns": [bq.Departure(1, 10), bq.Departure(2, 20), bq.Return(1, 20)],
    "two return": [
        bq.Departure(1, 10),
        bq.Departure(2, 15),
        bq.Return(1, 20),
        bq.Return(2, 20),
    ],
}


@pytest.mark.parametrize("will", [bq.wills.Consensus(), bq.wills.Replay(rank=2)])
@pytest.mark.parametrize("name", AT_ONCE)
def test_several_changes_after_one_round_agree_to_the_last_bit(name, will):
    losses = problem()
    options = {"departures": AT_ONCE[name], "method": METHODS[0], "will": will, "rounds": 25}
    rows, nodes = solved(losses, **options), solved(losses, Loop(), **options)
    np.testing.assert_array_equal(nodes.x, rows.x)


def test_momentum_ends_at_the_optimum_and_sooner():
    losses = bq.problems.quadratics(n=8, dim=3, mu=1.0, L=4.0, seed=0)
    runs = {}
    for momentum in (0.0, 0.5, 0.9):
        method = bq.methods.Momentum(bq.GradientTracking(), momentum)
        leaving = [bq.Departure(2, 60)]
        runs[momentum] = bq.solve(
            losses, bq.graphs.ring(8), method=method, rounds=800, departures=leaving
        )
        assert runs[momentum].invariant_gap.max() < 1e-12
    plain = bq.solve(
        losses, bq.graphs.ring(8), method=bq.GradientTracking(), rounds=800, departures=leaving
    )
    np.testing.assert_array_equal(runs[0.0].x, plain.x)
    assert runs[0.5].status == runs[0.9].status == "converged"
    assert runs[0.9].error[-1] < plain.error[-1]
    assert runs[0.9].steps[0].why.startswith("0.1 of: ")


@pytest.mark.parametrize("momentum", [1.0, -0.1, float("nan"), "0.9", True])
def test_momentum_that_would_never_end_is_refused(momentum):
    with pytest.raises(bq.errors.InvalidMethod, match="momentum is") as caught:
        bq.methods.Momentum(bq.GradientTracking(), momentum)
    assert caught.value.remedy
    with pytest.raises(bq.errors.InvalidMethod, match="has it"):
        bq.methods.Momentum(bq.methods.Momentum(bq.GradientTracking()))


@pytest.mark.parametrize("name", ["NIDS", "ADMM", "EXTRA", "ExactDiffusion"])
def test_momentum_is_not_for_methods_that_it_can_make_diverge(name):
    method = getattr(bq.methods, name)()
    for one in (method, bq.methods.Decaying(method, half=20)):
        with pytest.raises(bq.errors.InvalidMethod, match="which it can make diverge"):
            bq.methods.Momentum(one)


LONG = [
    bq.GradientTracking(step=1e-3),
    bq.methods.DIGing(step=1e-3),
    bq.methods.ExactDiffusion(step=1e-3),
    bq.NIDS(),
]


@pytest.mark.parametrize("method", LONG, ids=lambda method: method.label)
def test_long_messages_are_heard_alike_to_the_last_bit(method):
    """They are not brought side by side; 20,011 is a multiple of no piece."""
    rng = np.random.default_rng(5)
    silos = []
    for i in range(6):
        X = rng.standard_normal((6, 20_011)) / 50
        silos.append(bq.Minibatches(bq.LeastSquares(X, rng.standard_normal(6) + i, 0.1), 2))
    losses = bq.Problem(silos)
    options = {"method": method, "rounds": 8, "departures": [bq.Departure(2, 4)], "optimum": None}
    rows = solved(losses, **options)
    nodes = solved(losses, Loop(), **options)
    np.testing.assert_array_equal(nodes.x, rows.x)
    assert rows.invariant_gap.max() < 1e-11
    np.testing.assert_allclose(
        nodes.trajectory.disagreement, rows.trajectory.disagreement, rtol=1e-12
    )


def test_a_log_repeats_a_run_on_minibatches_bit_for_bit(tmp_path):
    losses, path = problem(full_every=7), tmp_path / "run.log"
    with Journal(path) as journal:
        first = solved(losses, Loop(scribe=journal))
    again = solved(losses, Replay(read(path)))
    np.testing.assert_array_equal(again.x, first.x)


def test_the_key_alone_says_which_samples_are_taken():
    loss = problem().objective(0)
    x = np.ones(5)
    one = loss.gradient(x, SampleKey(3, 0, 0, 1))
    np.testing.assert_array_equal(one, loss.gradient(x, SampleKey(3, 0, 0, 1)))
    others = [
        SampleKey(4, 0, 0, 1),
        SampleKey(3, 1, 0, 1),
        SampleKey(3, 0, 1, 1),
        SampleKey(3, 0, 0, 2),
    ]
    assert all(not np.array_equal(one, loss.gradient(x, key)) for key in others)


def test_a_minibatch_is_the_whole_loss_in_the_mean():
    loss = problem().objective(1)
    x = np.linspace(-1, 1, 5)
    drawn = [loss.gradient(x, SampleKey(0, 1, 0, t)) for t in range(4000)]
    spread = np.std(drawn, axis=0) / np.sqrt(len(drawn))
    assert (np.abs(np.mean(drawn, axis=0) - loss.gradient(x)) < 5 * spread).all()


def test_a_batch_of_all_samples_is_no_noise():
    losses = problem(size=100)
    assert not losses.is_stochastic
    full = bq.Problem([losses.objective(i).loss for i in range(losses.n)])
    one, other = solved(losses, method=bq.NIDS()), solved(full, method=bq.NIDS())
    np.testing.assert_allclose(one.x, other.x, rtol=0, atol=1e-12)


def test_a_will_sees_all_samples():
    losses = problem()
    run = solved(losses, will=bq.wills.Consensus())
    record = run.departures[0]
    full = losses.objective(2).loss.gradient(record.anchor)
    np.testing.assert_allclose(record.legacy.gradient(record.anchor), full, atol=1e-13)


def test_variance_reduction_removes_the_noise():
    """A constant step stops at the noise; with a full gradient every ten rounds it does not."""
    method = bq.GradientTracking(step=0.1)
    plain = solved(problem(), departures=[], rounds=600, method=method)
    reduced = solved(problem(full_every=10), departures=[], rounds=600, method=method)
    assert plain.error[-1] > 1e-2
    assert reduced.error[-1] < 1e-5


def digits(full_every):
    """Return ten silos with a digit each; 80 unknowns."""
    X, y = bq.datasets.digits()
    X = np.asarray(X) / 16 @ np.random.default_rng(0).standard_normal((64, 8)) / 4
    silos = [bq.Softmax(X[y == k], y[y == k], 10, 0.05) for k in range(10)]
    return bq.Problem([bq.Minibatches(loss, 16, full_every=full_every) for loss in silos])


@pytest.mark.parametrize(
    ("will", "choice", "first"),
    [(bq.wills.FullHessian(), "full", 300), (bq.wills.Drift(), "drift", 500)],
    ids=lambda given: getattr(given, "title", given),
)
def test_with_variance_reduction_three_leavers_are_remembered_as_if_they_had_stayed(
    will, choice, first
):
    """The optimum is predicted from a path that has come to rest; noise would hide it."""
    graph = bq.graphs.ring_with_chords(10, chords=5, seed=1)
    leaving = [bq.Departure(node, first + 50 * k) for k, node in enumerate((7, 3, 8))]
    options = {"departures": leaving, "will": will, "method": bq.NIDS(), "rounds": first + 400}
    reduced = bq.solve(digits(20), graph, **options)
    assert [record.choice for record in reduced.departures] == [choice] * 3
    assert reduced.limit_error < 1e-5
    assert reduced.error[-1] < 1e-5
    assert reduced.invariant_gap.max() < 1e-12
    noisy = bq.solve(digits(None), graph, **options)
    assert [record.choice for record in noisy.departures] == ["average"] * 3
    assert noisy.limit_error > 1e-2


def test_decaying_steps_come_to_rest():
    plain = solved(problem(), departures=[], rounds=2000, method=bq.GradientTracking(step=0.3))
    method = bq.methods.Decaying(bq.GradientTracking(step=0.3), half=100)
    decaying = solved(problem(), departures=[], rounds=2000, method=method)
    assert decaying.error[-50:].mean() < plain.error[-50:].mean() / 2


def test_a_fresh_gradient_in_the_surplus_would_be_a_bias():
    """The reason for keeping g: the gap that asking anew at the hand-off would leave for good."""
    losses = problem()
    run = solved(losses, departures=[bq.Departure(2, 20)])
    loss = losses.objective(2)
    x = run.departures[0].anchor
    off = loss.gradient(x, SampleKey(3, 2, 0, 20)) - loss.gradient(x, SampleKey(3, 2, 0, 21))
    assert np.linalg.norm(off) > 1e6 * run.invariant_gap[-1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 0}, "batch is 0"),
        ({"size": None}, "size is None"),
        ({"size": 2, "seed": -1}, "seed is -1"),
        ({"size": 2, "full_every": 0}, "full_every is 0"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(bq.errors.InvalidObjective, match=words):
        bq.Minibatches(bq.Logistic([[1.0], [2.0]], [0, 1], l2=0.1), **options)


def test_a_loss_without_samples_has_no_minibatches():
    with pytest.raises(bq.errors.InvalidObjective, match="no samples"):
        bq.Minibatches(bq.Quadratic([[1.0]], [0.0]), 2)


@pytest.mark.parametrize("half", [0, 1.5, None])
def test_a_half_life_is_a_whole_number(half):
    with pytest.raises(bq.errors.InvalidMethod, match="half is"):
        bq.methods.Decaying(bq.NIDS(), half=half)
