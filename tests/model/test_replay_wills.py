"""Replay: a memory in the space of samples, on every engine, and still a group."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rehearsal import Rehearsal

import bequest as bq
from bequest.core import samples
from bequest.core.legacy import Legacy
from bequest.core.samples import Clusters
from bequest.engines import Loop, Weather, records
from bequest.engines.fingerprint import fingerprint
from bequest.journal import Journal, read
from bequest.model import pseudo_samples
from bequest.model.wills import Estate, Setting, decision
from bequest.replay import Replay as Rerun

STORM = Weather(seed=3, delay=(0.0, 5.0), duplication=0.3)
GRAPH = bq.graphs.ring_with_chords(6, chords=3, seed=1)
LEAVING = [bq.Departure(2, 4), bq.Departure(4, 9)]


def data(i, m=24, features=4):
    rng = np.random.default_rng([i, 5])
    X = rng.standard_normal((m, features)) + 0.5 * i
    return X, X @ np.linspace(1, -1, features) + 0.3 * rng.standard_normal(m)


def loss(kind, i, l2=0.1):
    X, t = data(i)
    match kind:
        case "logistic":
            return bq.Logistic(X, t > np.median(t), l2=l2)
        case "softmax":
            return bq.Softmax(X, np.digitize(t, [-1, 1]), 3, l2)
        case "least squares":
            return bq.LeastSquares(X, t, l2=l2)
        case "huber":
            return bq.Huber(X, t, 0.5, l2)


KINDS = ["logistic", "softmax", "least squares", "huber"]


def problem(kind, n=6):
    return bq.Problem([loss(kind, i) for i in range(n)])


def solved(losses, will, engine=None, **options):
    asked = {"departures": LEAVING, "rounds": 60, "method": bq.NIDS()} | options
    return bq.solve(losses, GRAPH, will=will, engine=engine, **asked)


@pytest.mark.parametrize("kind", KINDS)
def test_all_samples_as_centroids_are_the_loss_itself(kind):
    losses = problem(kind)
    run = solved(losses, bq.wills.Replay(centroids=10_000), rounds=400)
    assert run.limit_error < 1e-10
    assert run.invariant_gap.max() < 1e-12


def test_moments_of_full_rank_are_least_squares_exactly():
    losses = problem("least squares")
    run = solved(losses, bq.wills.Replay(rank=5))
    assert run.limit_error < 1e-10
    lacking = solved(losses, bq.wills.Replay(rank=2))
    assert lacking.limit_error > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_better_than_forgetting_however_early(kind):
    losses = problem(kind)
    replayed = solved(losses, bq.wills.Replay(rank=5))
    forgotten = solved(losses, bq.wills.Forgetful())
    assert replayed.limit_error < forgotten.limit_error / (1 if kind == "huber" else 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("will", [bq.wills.Replay(rank=2), bq.wills.Replay(centroids=7)])
def test_engines_agree(kind, will):
    losses = problem(kind)
    rows = solved(losses, will)
    for engine in (Loop(), Loop(weather=STORM, as_bytes=True), Rehearsal(hosts=6)):
        nodes = solved(losses, will, engine)
        np.testing.assert_allclose(nodes.x, rows.x, rtol=0, atol=1e-11)
        assert [r.bytes for r in nodes.departures] == [r.bytes for r in rows.departures]
        assert nodes.limit_error == pytest.approx(rows.limit_error, abs=1e-9)


def test_minibatches_and_replay_agree_to_the_last_bit():
    losses = bq.Problem([bq.Minibatches(loss("softmax", i), 4, seed=2) for i in range(6)])
    method = bq.GradientTracking(step=0.05)
    rows = solved(losses, bq.wills.Replay(rank=2), method=method)
    for engine in (Loop(as_bytes=True), Rehearsal(hosts=6)):
        nodes = solved(losses, bq.wills.Replay(rank=2), engine, method=method)
        np.testing.assert_array_equal(nodes.x, rows.x)


def test_a_log_repeats_it_and_a_record_holds_it(tmp_path):
    losses, will = problem("softmax"), bq.wills.Replay(rank=2)
    path = tmp_path / "log"
    with Journal(path) as scribe:
        first = solved(losses, will, Loop(scribe=scribe, as_bytes=True))
    again = solved(losses, will, Rerun(read(path)))
    np.testing.assert_array_equal(again.x, first.x)
    written = records.Record(fingerprint(first.plan, Loop()), first.plan.scene, first.outcome)
    outcome = records.decode(records.encode(written), Path("there")).outcome
    for node, legacy in first.inherited.items():
        there = outcome.inherited[node]
        assert [s.is_same(t) for s, t in zip(there.samples, legacy.samples, strict=True)] == [
            True
        ] * len(legacy.samples)
        with pytest.raises(bq.errors.InvalidObjective, match="not been drawn"):
            there.gradient(np.zeros(losses.dim))


def test_a_chain_passes_samples_on_and_loses_nothing():
    losses = problem("logistic")
    graph = [(i, i + 1) for i in range(5)]
    leaving = [bq.Departure(0, 5), bq.Departure(1, 10), bq.Departure(2, 15)]
    will = bq.wills.Replay(centroids=10_000)
    run = bq.solve(losses, graph, departures=leaving, will=will, method=bq.NIDS(), rounds=300)
    assert run.limit_error < 1e-10
    (holder,) = run.inherited.values()
    assert [part.origins for part in holder.samples] == [(0,), (1,), (2,)]
    # each message carries what came before, and is counted truly
    sizes = [record.vectors for record in run.departures]
    np.testing.assert_allclose(np.diff(sizes), [sizes[0] - 1] * 2)


@pytest.mark.parametrize("event", [bq.Return, bq.Forget])
def test_what_was_handed_over_is_taken_back_exactly(event):
    losses = problem("softmax")
    events = [*LEAVING, event(2, 20)]
    for engine in (None, Loop(as_bytes=True)):
        run = solved(losses, bq.wills.Replay(rank=3), engine, departures=events, rounds=80)
        inside = [part.origins for q in run.inherited.values() for part in q.samples]
        assert inside == [(4,)]
        assert run.changes[0].exact
        assert run.invariant_gap.max() < 1e-12


def test_a_crash_checkpoint_carries_samples():
    losses, events = problem("logistic"), [bq.Crash(3, 30)]
    for engine in (None, Loop(as_bytes=True)):
        run = solved(losses, bq.wills.Replay(centroids=10_000), engine, departures=events)
        assert run.departures[0].choice == "replay"
        assert not run.lost
        assert run.limit_error < 1e-10


def test_samples_are_drawn_with_their_moments_exactly():
    table = pseudo_samples.table_of(loss("softmax", 1))
    told = pseudo_samples.moments(table, 2, (1, 7))
    points, labels, weights = pseudo_samples.points_of(told)
    assert weights.sum() == pytest.approx(1)
    for share, label, mean, factor in zip(
        told.shares, told.labels, told.means, told.factors, strict=True
    ):
        own = points[labels == label]
        np.testing.assert_allclose(own.mean(axis=0), mean, atol=1e-12)
        np.testing.assert_allclose(np.cov(own.T, bias=True), factor.T @ factor, atol=1e-12)
        assert weights[labels == label].sum() == pytest.approx(share)


def test_where_a_loss_is_not_convex_classes_spread_as_far_in_all_as_their_samples_do():
    table = replace(pseudo_samples.table_of(loss("softmax", 1)), form=("a network", ()))
    told = pseudo_samples.moments(table, 2, (1, 7), convex=False)
    points, labels, weights = pseudo_samples.points_of(told)
    assert len(points) == 258  # at least 256 from three classes, where others are shown 64 of each
    assert len(pseudo_samples.points_of(replace(told, form=table.form))[0]) == 3 * 64
    assert weights.sum() == pytest.approx(told.shares.sum())
    for label, mean in zip(told.labels, told.means, strict=True):
        own, samples = points[labels == label], table.rows[table.labels == label]
        np.testing.assert_allclose(own.mean(axis=0), mean, atol=1e-12)
        assert own.var(axis=0).sum() == pytest.approx(samples.var(axis=0).sum())


def test_where_a_loss_is_not_convex_centroids_spread_as_far_as_their_samples_do():
    own = pseudo_samples.table_of(loss("softmax", 1))
    table = replace(own, form=("a network", ()))
    near = pseudo_samples.centroids(table, 9, (1, 7))
    apart = pseudo_samples.centroids(table, 9, (1, 7), convex=False)
    np.testing.assert_array_equal(apart.shares, near.shares)
    for label in np.unique(near.labels):
        at, samples = near.labels == label, table.rows[table.labels == label]
        assert 1 < at.sum() < len(samples)
        weights = near.shares[at] / near.shares[at].sum()
        variance = []
        for found in (near, apart):
            mean = weights @ found.means[at]
            np.testing.assert_allclose(mean, samples.mean(axis=0), atol=1e-12)
            variance.append(float(weights @ ((found.means[at] - mean) ** 2).sum(axis=1)))
        assert variance[0] < 0.9 * variance[1]
        assert variance[1] == pytest.approx(samples.var(axis=0).sum())
    for count in (
        1,
        10_000,
    ):  # the means of classes, and the samples themselves, stay where they are
        one = pseudo_samples.centroids(table, count, (1, 7))
        other = pseudo_samples.centroids(table, count, (1, 7), convex=False)
        np.testing.assert_array_equal(other.means, one.means)
    # where a model is linear, directions count, and not how far
    for linear in (own, replace(table, labels=None, targets=np.arange(len(table.rows)) * 1.0)):
        one = pseudo_samples.centroids(linear, 9, (1, 7))
        other = pseudo_samples.centroids(linear, 9, (1, 7), convex=False)
        np.testing.assert_array_equal(other.means, one.means)


def test_memories_are_a_group():
    losses = problem("softmax")
    estates = [_estate(losses, node) for node in (0, 1, 2)]
    a, b, c = (decision(bq.wills.Replay(rank=2), estate).legacy for estate in estates)
    x = np.linspace(-1, 1, losses.dim)
    whole = a + b + c
    np.testing.assert_allclose(
        whole.gradient(x), a.gradient(x) + b.gradient(x) + c.gradient(x), atol=1e-13
    )
    rest = whole - b
    assert [part.origins for part in rest.samples] == [(0,), (2,)]
    np.testing.assert_allclose(rest.gradient(x), (a + c).gradient(x), atol=1e-15)
    assert (whole - a - b - c).samples == ()
    assert (whole.without(b, at=x)).lineage == {0: 1, 2: 1}
    flipped = -a
    np.testing.assert_allclose(flipped.gradient(x), -a.gradient(x))
    assert flipped.curvature[0] < 0
    low, high = a.curvature
    spectrum = np.linalg.eigvalsh(a.bound())
    assert low > 0
    assert high <= spectrum[-1] * (1 + 1e-9) + 1e-9


def test_recompressing_merges_moments():
    losses = problem("softmax")
    parts = [decision(bq.wills.Replay(rank=2), _estate(losses, node)).legacy for node in (0, 1)]
    whole = parts[0] + parts[1]
    small = whole.recompress(2, at=np.zeros(losses.dim))
    (merged,) = small.samples
    assert merged.origins == (0, 1)
    assert small.blended == {0, 1}
    assert small.vectors < whole.vectors
    for label in merged.labels:
        held = [
            (share, mean)
            for part in whole.samples
            for share, mean, of in zip(part.shares, part.means, part.labels, strict=True)
            if of == label
        ]
        place = int(np.flatnonzero(merged.labels == label)[0])
        assert merged.shares[place] == pytest.approx(sum(share for share, _ in held))
        mean = sum(share * mean for share, mean in held) / merged.shares[place]
        np.testing.assert_allclose(merged.means[place], mean)
    # points stay points: their mean alone would say less
    points = [decision(bq.wills.Replay(centroids=4), _estate(losses, n)).legacy for n in (0, 1)]
    assert len((points[0] + points[1]).recompress(0, at=np.zeros(losses.dim)).samples) == 2


def test_an_heir_with_a_budget_merges_what_it_passes_on():
    losses = problem("softmax")
    wills = {None: bq.wills.Replay(rank=2), 1: bq.wills.Drift(1)}
    graph = [(i, i + 1) for i in range(5)]
    leaving = [bq.Departure(0, 5), bq.Departure(1, 10)]
    for engine in (None, Loop(as_bytes=True)):
        run = bq.solve(
            losses,
            graph,
            departures=leaving,
            will=wills,
            method=bq.NIDS(),
            rounds=60,
            engine=engine,
        )
        (holder,) = run.inherited.values()
        assert holder.lineage == {0: 1, 1: 1}
        assert len(holder.samples) == 1
        assert run.invariant_gap.max() < 1e-12


@pytest.mark.parametrize(
    "will", [bq.wills.Replay(), bq.wills.Adaptive(statistics=True)], ids=["replay", "adaptive"]
)
def test_a_run_can_forbid_statistics(will):
    with pytest.raises(bq.errors.InvalidWill, match="statistics is False"):
        solved(problem("logistic"), will, statistics=False)


def test_a_will_of_your_own_cannot_tell_what_is_forbidden():
    class Sly(bq.wills.Replay):
        @property
        def tells_statistics(self):
            return False

    with pytest.raises(bq.errors.InvalidWill, match="which the run forbids"):
        solved(problem("logistic"), Sly(), statistics=False)


def test_the_default_never_chooses_it():
    assert not bq.wills.Adaptive().tells_statistics
    run = solved(problem("logistic"), bq.wills.Adaptive())
    assert all(not q.samples for q in run.inherited.values())


def test_a_loss_without_samples_is_refused():
    quadratics = bq.problems.quadratics(n=6, dim=3, mu=1.0, L=10.0, seed=7)
    with pytest.raises(bq.errors.InvalidWill, match="no samples"):
        solved(quadratics, bq.wills.Replay())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rank": -1}, "rank is -1"),
        ({"centroids": 0}, "centroids is 0"),
        ({"rank": 2, "centroids": 3}, "a rank and centroids"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(bq.errors.InvalidWill, match=words):
        bq.wills.Replay(**options)


def test_a_certificate_holds_for_samples_too():
    losses = problem("logistic")
    run = solved(losses, bq.wills.Replay(rank=4), rounds=400)
    bounds = [bound for bound in run.certificate.bounds if bound.holds is not None]
    assert all(bound.holds for bound in bounds)


def _estate(losses, node, t=5):
    setting = Setting(losses.n, losses.mu, losses.kappa, 0.1, None, None)
    x = np.zeros(losses.dim)
    return Estate(
        node=node,
        round=t,
        remaining=3,
        objective=losses.objective(node),
        x=x,
        z=x,
        start=x,
        setting=setting,
    )


def test_nothing_is_drawn_from_nothing():
    with pytest.raises(bq.errors.DimensionMismatch, match="Clusters"):
        Clusters((0,), ("logistic", ()), [1.0], [1.0], [[1.0]], np.zeros((1, 0, 2)), (0, 0))


def test_legacies_without_samples_are_as_they_were():
    q = Legacy.anchored(1, anchor=[1.0, 2.0], value=1.0, gradient=[1.0, 0.0], eta=2.0)
    assert q.samples == ()
    assert q.vectors == 1.0
    assert q.drawn_by(None) is q


def test_odd_corners_of_the_group():
    losses = problem("softmax")
    a, b = (decision(bq.wills.Replay(rank=2), _estate(losses, node)).legacy for node in (0, 1))
    x = np.zeros(losses.dim)
    # what is taken out raises no bound
    np.testing.assert_allclose((-a).bound(), -a.eta * np.eye(losses.dim))
    assert "samples=" in repr(a)
    assert "clusters" in repr(a.samples[0])
    # what was merged can be taken out approximately: its own clusters, with a minus
    mixed = (
        (a + b)
        .recompress(1, at=x)
        .drawn_by(lambda part: pseudo_samples.evaluated(part, losses.objective(0)))
    )
    rest = mixed.without(a, at=x)
    assert [part.sign for part in rest.samples] == [-1, 1]
    assert rest.lineage == {1: 1}
    # clusters that count nothing are merged like any others
    silent = [replace(part, shares=np.zeros(part.shares.size)) for part in (a + b).samples]
    (merged,) = samples.merged(silent)
    assert merged.shares.sum() == 0
    assert np.isfinite(merged.means).all()
    # a quadratic beside samples that has too high a rank is compressed with them
    bent = Legacy(0.0, np.zeros(losses.dim), 0.0, {5: 1}, np.eye(losses.dim)[:, :3])
    assert (a + bent).recompress(1, at=x).rank <= 1


def test_joint_moments_are_merged_as_one_cluster():
    losses = problem("least squares")
    a, b = (decision(bq.wills.Replay(rank=5), _estate(losses, node)).legacy for node in (0, 1))
    (merged,) = (a + b).recompress(0, at=np.zeros(losses.dim)).samples
    assert merged.shares == pytest.approx([2.0])
    assert merged.labels.size == 0


def test_points_do_not_travel():
    legacy = decision(bq.wills.Replay(rank=2), _estate(problem("softmax"), 0)).legacy
    there = pickle.loads(pickle.dumps(legacy))  # noqa: S301
    assert there.samples[0].loss is None
    assert there.samples[0].is_same(legacy.samples[0])
