"""Crashes, returns, joins and forgets: what is remembered, what is exact, and what is refused."""

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
import scenarios

import bequest as bq
from bequest.core import history
from bequest.model.facts import Facts
from bequest.model.outcome import ChangeRecord

CALM = MappingProxyType({"mu": 1.0, "L": 5.0})


def ring(n, dim=3, seed=0, **options):
    return bq.problems.quadratics(n=n, dim=dim, seed=seed, **{**CALM, **options}), bq.graphs.ring(n)


def optimum_of(problem, nodes):
    return bq.Problem([problem.objective(node) for node in sorted(nodes)]).optimum()


def assert_invariant(run, tolerance=1e-10):
    """The trackers sum to the gradients after every round, but for rounding."""
    size = 1 + np.abs(run.trajectory.gradient_norm).max() + run.problem.L * np.abs(run.x).max()
    assert run.invariant_gap.max() <= tolerance * size


# --- the exact operations -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "will",
    [
        bq.wills.Consensus(),
        bq.wills.LocalTrack(),
        bq.wills.PointOnly(),
        bq.wills.Adaptive(),
        bq.wills.Drift(4),
        bq.wills.FullHessian(),
        bq.wills.Forgetful(),
        bq.wills.Classic(),
    ],
    ids=lambda will: will.title,
)
@pytest.mark.parametrize("kind", [bq.Departure, bq.Crash])
def test_when_everybody_is_back_nothing_has_happened(will, kind):
    problem, graph = ring(7, dim=5)
    events = [kind(1, 30), kind(4, 45), kind(2, 60)]
    events += [bq.Return(2, 80), bq.Return(1, 90), bq.Return(4, 110)]
    run = bq.solve(problem, graph, departures=events, will=will, rounds=1500)
    assert run.survivors == tuple(range(7))
    assert not run.lost
    assert all(change.exact for change in run.changes)
    np.testing.assert_allclose(run.limit, problem.optimum(), atol=1e-9)
    assert run.error[-1] <= 1e-9 * (1 + np.abs(problem.optimum()).max())
    assert run.status == "converged"
    assert set(run.optima) == {0}
    assert_invariant(run)
    assert run.certificate.holds


def test_a_memory_can_be_taken_back_from_the_heir_of_the_heir():
    """0 -> 1 -> 2: every node hands on; 0 comes back and 2 gives its memory back."""
    problem, graph = ring(6)
    events = [bq.Departure(0, 40), bq.Departure(1, 60), bq.Departure(2, 80), bq.Return(0, 100)]
    run = bq.solve(problem, graph, departures=events, will=bq.wills.Drift(4), rounds=1500)
    assert [record.heir for record in run.departures[:2]] == [1, 2]
    assert run.changes[0].holder == run.departures[2].heir
    assert run.changes[0].exact
    remembered = {node for q in run.inherited.values() for node in q.lineage}
    assert remembered == {1, 2}
    alone = sum(
        (record.legacy for record in run.departures if record.node in (1, 2)),
        bq.Legacy.zero(problem.dim),
    )
    total = sum(run.inherited.values(), bq.Legacy.zero(problem.dim))
    np.testing.assert_allclose(total.hessian(), alone.hessian(), atol=1e-12)
    np.testing.assert_allclose(total.p, alone.p, atol=1e-10)
    assert_invariant(run)


@pytest.mark.parametrize("seed", range(10))
def test_the_limit_is_exact_in_the_loss_of_whoever_returns(seed):
    """With quadratics and full Hessians the only error left is that of those still gone."""
    problem, graph = ring(8, seed=seed)
    events = [bq.Departure(1, 40), bq.Crash(5, 55), bq.Departure(2, 70), bq.Return(1, 90)]
    run = bq.solve(problem, graph, departures=events, rounds=1500, will=bq.wills.Consensus())
    there = [0, 1, 3, 4, 6, 7]
    memory = sum(
        (record.legacy for record in run.departures if record.node in (2, 5)),
        bq.Legacy.zero(problem.dim),
    )
    expected = problem.among(there).minimiser(memory)
    np.testing.assert_allclose(run.limit, expected, atol=1e-9)
    assert np.abs(run.x - expected).max() <= 1e-8


@pytest.mark.parametrize("seed", range(10))
def test_who_joins_moves_the_target_to_the_new_sum(seed):
    problem, graph = ring(7, seed=seed)
    run = bq.solve(problem, graph, departures=[bq.Join(3, 50), bq.Join(4, 80)], rounds=1500)
    first, second = set(range(7)) - {3, 4}, set(range(7)) - {4}
    assert set(run.optima) == {0, 50, 80}
    np.testing.assert_allclose(run.optima[0], optimum_of(problem, first), atol=1e-10)
    np.testing.assert_allclose(run.optima[50], optimum_of(problem, second), atol=1e-10)
    np.testing.assert_allclose(run.limit, problem.optimum(), atol=1e-9)
    assert run.error[-1] <= 1e-8
    # the measurement aims at the target in force after the change
    assert run.error[49] < run.error[50]
    assert [(change.kind, change.sponsor, change.neighbours) for change in run.changes] == [
        ("join", 2, (2,)),
        ("join", 3, (3, 5)),
    ]
    assert_invariant(run)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", [bq.Departure, bq.Crash])
def test_forgetting_is_exact_unlearning(seed, kind):
    """The survivors end at the minimiser of the sum without the forgotten node."""
    problem, graph = ring(6, seed=seed)
    events = [kind(2, 40), bq.Forget(2, 60)]
    run = bq.solve(problem, graph, departures=events, will=bq.wills.Drift(4), rounds=1500)
    without = optimum_of(problem, set(range(6)) - {2})
    np.testing.assert_allclose(run.optimum, without, atol=1e-10)
    np.testing.assert_allclose(run.limit, without, atol=1e-9)
    assert np.abs(run.x - without).max() <= 1e-8
    assert not run.lost
    assert not run.inherited
    assert run.certificate["tight"].promised == 0
    assert run.certificate["tight"].holds
    assert_invariant(run)


def test_who_is_forgotten_may_return_and_counts_again():
    problem, graph = ring(6)
    events = [bq.Departure(2, 40), bq.Forget(2, 60), bq.Return(2, 90), bq.Departure(2, 120)]
    run = bq.solve(problem, graph, departures=events, rounds=1500)
    assert list(run.optima) == [0, 60, 90]
    np.testing.assert_array_equal(run.optima[90], run.optima[0])
    assert [change.holder for change in run.changes] == [1, None]
    assert run.lost == ()
    assert run.certificate["tight"].holds
    # forgotten and back in one round is a slip
    events = [bq.Departure(2, 40), bq.Forget(2, 60), bq.Return(2, 60)]
    with pytest.raises(bq.errors.InvalidEvent, match="forgotten in the same round"):
        bq.solve(problem, graph, departures=events, rounds=1500)


def test_a_node_that_is_remembered_counts_though_it_was_forgotten():
    """All that had forgotten it are lost, and the others went back to what they remember."""
    problem, graph = ring(5)
    run = bq.solve(problem, graph, departures=[bq.Departure(2, 40)], rounds=100)
    forgotten = ChangeRecord.of("forget", 2, 60, holder=1, sponsor=None, neighbours=(), exact=True)
    undone = replace(run, outcome=replace(run.outcome, changes=(forgotten,)))
    assert [record.node for record in Facts(undone).records] == [2]
    done = replace(undone, outcome=replace(undone.outcome, inherited={}))
    assert Facts(done).records == []


def test_forgetting_somebody_nobody_remembers_only_moves_the_target():
    problem, graph = ring(6)
    events = [bq.Departure(2, 40), bq.Forget(2, 60)]
    run = bq.solve(problem, graph, departures=events, will=bq.wills.Forgetful(), rounds=1500)
    assert run.departures[0].lost == (2,)
    assert run.lost == ()
    assert run.changes[0].holder is None
    assert run.changes[0].exact
    assert "no node remembered" in str(run.changes[0])
    assert run.error[-1] <= 1e-8


# --- out of compressed memories -----------------------------------------------------------------


def compressed(seed, *events, rounds=4000):
    """0, 1, 2 ... leave along a path, with messages of two directions: their memories blend."""
    n, dim = 7, 8
    problem = bq.problems.quadratics(n=n, dim=dim, mu=1.0, L=20.0, seed=seed)
    leaving = [bq.Departure(node, 40 + 25 * node) for node in range(4)]
    return bq.solve(
        problem,
        bq.graphs.path(n),
        departures=[*leaving, *events],
        will=bq.wills.Drift(rank=2),
        rounds=rounds,
    )


@pytest.mark.parametrize("seed", range(10))
def test_out_of_a_compressed_memory_one_comes_only_approximately_and_the_run_says_so(seed):
    run = compressed(seed, bq.Return(1, 160))
    assert run.departures[-1].blur is not None
    assert [change.exact for change in run.changes] == [False]
    assert "something of it remains" in str(run.changes[0])
    (legacy,) = run.inherited.values()
    assert set(legacy.lineage) == {0, 2, 3}
    assert np.linalg.eigvalsh(legacy.hessian())[0] >= -1e-12 * legacy.stiffness
    assert run.status == "converged"
    assert_invariant(run)
    assert run.certificate["tight"].holds is None
    assert "compressed" in run.certificate["tight"].verdict
    # the error is that of the limit, and it is reported
    assert run.error[-1] == pytest.approx(np.linalg.norm(run.limit - run.optimum), rel=1e-4)
    # once every node is out nothing of any node remains
    back = [bq.Return(node, 170 + node) for node in (0, 2, 3)]
    run = compressed(seed, bq.Return(1, 160), *back)
    assert not run.inherited
    assert run.error[-1] <= 1e-7


# --- crashes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("will", [bq.wills.Consensus(), bq.wills.Adaptive(), bq.wills.Drift(2)])
@pytest.mark.parametrize("seed", range(5))
def test_with_a_checkpoint_every_round_a_crash_is_as_good_as_a_farewell(will, seed):
    problem, graph = ring(8, dim=4, seed=seed)
    common = {"will": will, "rounds": 1500, "checkpoint_every": 1}
    times = [(3, 37), (6, 61)]
    crashed = bq.solve(problem, graph, departures=[bq.Crash(*one) for one in times[:1]], **common)
    left = bq.solve(problem, graph, departures=[bq.Departure(*one) for one in times[:1]], **common)
    assert crashed.departures[0].checkpoint == 37
    np.testing.assert_allclose(crashed.limit, left.limit, atol=1e-9)
    # and nothing is lost when it happens again
    crashed = bq.solve(problem, graph, departures=[bq.Crash(*one) for one in times], **common)
    assert not crashed.lost
    assert crashed.certificate["tight"].holds
    assert_invariant(crashed)


def test_an_old_checkpoint_costs_freshness_and_nothing_else():
    """The limit is that of a farewell at the checkpoint's round, the error about as large."""
    ratios = []
    for seed in range(20):
        problem, graph = ring(8, dim=4, seed=seed)
        common = {"will": bq.wills.Consensus(), "rounds": 1500}
        crashed = bq.solve(problem, graph, departures=[bq.Crash(3, 75)], **common)
        left = bq.solve(problem, graph, departures=[bq.Departure(3, 60)], **common)
        assert crashed.departures[0].checkpoint == 60
        np.testing.assert_allclose(crashed.limit, left.limit, atol=1e-9)
        ratios.append(crashed.error[-1] / left.error[-1])
    assert np.median(ratios) <= 3
    assert max(ratios) <= 3


def test_a_node_and_its_only_buddy_crash_together_and_the_run_says_who_is_lost():
    problem, graph = ring(8)
    # 2 leaves to 1, whose only neighbour, and so its buddy, is then 0; and 0's is 1
    events = [bq.Departure(2, 40), bq.Crash(0, 70), bq.Crash(1, 70)]
    run = bq.solve(problem, graph, departures=events, rounds=1500)
    first, buddy, crash = run.departures
    assert first.heir == 1
    assert crash.heir is None
    assert (crash.lost, buddy.lost) == ((1, 2), (0,))
    assert "buddies crashed" in crash.why
    assert "adopted by no node" in str(crash)
    assert run.lost == (0, 1, 2)
    assert run.certificate["tight"].holds
    assert_invariant(run)
    run = bq.solve(problem, graph, departures=events, rounds=1500, buddies=2)
    assert not run.lost
    assert [record.heir for record in run.departures] == [1, 7, 3]
    assert run.certificate["tight"].holds


@pytest.mark.parametrize("options", [{"buddies": 0}, {"checkpoint_every": None}])
def test_without_buddies_or_checkpoints_a_crash_loses_everything(options):
    problem, graph = ring(6)
    events = [bq.Departure(2, 40), bq.Crash(1, 70)]
    run = bq.solve(problem, graph, departures=events, rounds=1500, **options)
    record = run.departures[-1]
    assert (record.heir, record.lost, record.vectors, record.bytes) == (None, (1, 2), 0, 0)
    assert "checkpoints" in record.why
    assert run.lost == (1, 2)
    np.testing.assert_allclose(run.limit, optimum_of(problem, {0, 3, 4, 5}), atol=1e-9)


@pytest.mark.parametrize("will", [bq.wills.Consensus(), bq.wills.Drift(2)])
def test_an_heir_that_crashes_the_round_after_inheriting_takes_nothing_with_it(will):
    problem, graph = ring(8, dim=4)
    events = [bq.Departure(2, 50), bq.Crash(1, 51), bq.Crash(0, 52)]
    run = bq.solve(problem, graph, departures=events, will=will, rounds=1500)
    assert [record.heir for record in run.departures] == [1, 0, 7]
    assert run.departures[1].checkpoint == 50  # written through when it inherited
    assert run.departures[1].passed_on == (2,)
    assert run.departures[2].checkpoint == 51  # and when it adopted
    assert run.departures[2].passed_on == (1, 2)
    assert not run.lost
    assert run.certificate["tight"].holds
    assert run.departures[1].vectors == sum(record.legacy.vectors for record in run.departures[:2])


def test_a_checkpoint_carries_no_surplus():
    problem, graph = ring(6)
    run = bq.solve(
        problem, graph, departures=[bq.Crash(2, 50)], will=bq.wills.Consensus(), rounds=60
    )
    record = run.departures[0]
    assert (record.vectors, record.bytes) == (1, 8 * (3 + 2 + 1))
    assert record.exact_handoff
    assert "crashed after round 50, its checkpoint of round 40 adopted by node 3" in str(record)


@pytest.mark.parametrize("will", [bq.wills.Classic(), bq.wills.Forgetful()])
def test_a_will_that_leaves_nothing_still_has_its_inherited_adopted(will):
    problem, graph = ring(6)
    events = [bq.Departure(2, 40), bq.Crash(1, 70)]
    wills = {2: bq.wills.Consensus(), 1: will}
    run = bq.solve(problem, graph, departures=events, will=wills, rounds=300)
    assert run.departures[1].lost == (1,)
    assert run.departures[1].passed_on == (2,)
    assert run.departures[1].heir == 0
    assert "what it had inherited adopted by node 0, its own loss by none" in str(run.departures[1])
    assert set(run.inherited[0].lineage) == {2}


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()])
@pytest.mark.parametrize(
    "will", [bq.wills.Classic(), bq.wills.Forgetful(), bq.wills.Consensus(), bq.wills.Drift()]
)
def test_the_words_about_a_crash_are_those_of_the_record(will, engine):
    """Of a node that no node remembers, none has adopted the checkpoint."""
    problem, graph = ring(6)
    run = bq.solve(
        problem, graph, departures=[bq.Crash(2, 50)], will=will, rounds=60, engine=engine
    )
    (record,) = run.departures
    assert run.lost == record.lost
    assert (record.heir is None) == (run.lost == (2,)) == (not run.inherited)
    assert ("adopted by no node" in str(record)) == (run.lost == (2,))
    assert ("adopted by node" in str(record)) == (run.lost == ())


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()])
def test_what_it_had_inherited_has_an_heir_also_if_its_own_loss_has_none(engine):
    problem, graph = ring(6)
    run = bq.solve(
        problem,
        graph,
        departures=[bq.Departure(2, 20), bq.Crash(1, 50)],
        will={2: bq.wills.Consensus(), None: bq.wills.Forgetful()},
        rounds=60,
        engine=engine,
    )
    left, crashed = run.departures
    assert (left.heir, crashed.lost, crashed.passed_on) == (1, (1,), (2,))
    assert crashed.heir in run.inherited
    assert f"what it had inherited adopted by node {crashed.heir}" in str(crashed)


def test_who_has_no_will_may_crash_but_not_leave():
    problem, graph = ring(6)
    run = bq.solve(problem, graph, departures=[bq.Crash(1, 70)], will={}, rounds=300)
    assert run.lost == (1,)
    assert (run.departures[0].will, run.departures[0].why) == ("none", "it had no will")
    with pytest.raises(bq.errors.InvalidWill, match="Node 1"):
        bq.solve(problem, graph, departures=[bq.Departure(1, 70)], will={}, rounds=300)


def test_everybody_crashes_but_one():
    problem, graph = ring(6, dim=2)
    events = [bq.Crash(node, 41) for node in range(1, 6)]
    run = bq.solve(problem, graph, departures=events, rounds=400)
    assert run.survivors == (0,)
    assert run.departures[4].heir == 0  # node 5's next one upward, around the end
    assert run.lost == (1, 2, 3, 4)
    assert run.status == "converged"
    one_by_one = [bq.Crash(node, 41 + node) for node in range(1, 6)]
    run = bq.solve(problem, graph, departures=one_by_one, rounds=400)
    assert run.survivors == (0,)
    assert run.lost == ()
    assert set(run.inherited[0].lineage) == {1, 2, 3, 4, 5}


def test_two_nodes_on_the_line_take_turns():
    problem = bq.Problem([bq.Quadratic([[1.0]], [0.0]), bq.Quadratic([[3.0]], [4.0])])
    events = [bq.Crash(0, 25), bq.Return(0, 40), bq.Departure(1, 60), bq.Return(1, 80)]
    run = bq.solve(problem, [(0, 1)], departures=events, rounds=200)
    np.testing.assert_allclose(run.x, [[3.0], [3.0]], atol=1e-8)
    assert [change.sponsor for change in run.changes] == [1, 0]
    assert_invariant(run)
    # one is there first, the other joins; then the first crashes, with a checkpoint of round 0
    events = [bq.Join(1, 5), bq.Crash(0, 8)]
    run = bq.solve(
        problem, [(0, 1)], departures=events, rounds=200, will=bq.wills.Adaptive(rule="oracle")
    )
    assert run.departures[0].checkpoint == 0
    assert run.survivors == (1,)


# --- what a checkpoint is made of ---------------------------------------------------------------


class Spy(bq.wills.Drift):
    """A will that remembers from what it decided."""

    seen = MappingProxyType({})

    def decide(self, estate):
        Spy.seen = {**Spy.seen, (estate.node, estate.round): estate}
        return super().decide(estate)


def estates(problem, graph, events, **options):
    Spy.seen = {}
    # with it nodes still move after 130 rounds, and predict
    options = {"method": bq.GradientTracking(), **options}
    Spy.run = bq.solve(problem, graph, departures=events, will=Spy(), rounds=150, **options)
    return Spy.seen


def assert_same_estate(one, other):
    assert one.remaining == other.remaining
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.z, other.z)
    np.testing.assert_array_equal(one.recent.X, other.recent.X)
    np.testing.assert_array_equal(one.recent.Z, other.recent.Z)
    assert (one.carried is None) == (other.carried is None)
    if one.carried is not None:
        np.testing.assert_array_equal(one.carried.point, other.carried.point)


@pytest.mark.parametrize(
    ("earlier", "crash", "found"),
    [
        ([], bq.Crash(4, 75), 60),  # in the middle of the first epoch
        ([bq.Departure(2, 50)], bq.Crash(5, 97), 80),  # in the middle of a later one
        ([bq.Departure(2, 60)], bq.Crash(5, 75), 60),  # at the end of one
        ([bq.Departure(2, 60)], bq.Crash(5, 60), 60),
        ([], bq.Crash(4, 60), 60),
    ],
)
def test_a_checkpoint_is_what_a_leaver_of_that_round_would_have_decided_from(earlier, crash, found):
    problem, graph = ring(8)
    seen = estates(problem, graph, [*earlier, crash])[crash.node, found]
    leave = bq.Departure(crash.node, found)
    before = [one for one in earlier if one.round < found]
    assert_same_estate(seen, estates(problem, graph, [*before, leave])[crash.node, found])


def test_whoever_inherits_makes_a_checkpoint_from_before_it_inherited():
    """Its tracker and its pairs are those of the epoch that ends; only the others are fewer."""
    problem, graph = ring(8)
    events = [bq.Departure(2, 50), bq.Crash(1, 58)]
    seen = estates(problem, graph, events)[1, 50]
    alone = estates(problem, graph, [bq.Departure(1, 50)])[1, 50]
    assert seen.remaining == alone.remaining - 1
    np.testing.assert_array_equal(seen.z, alone.z)
    np.testing.assert_array_equal(seen.recent.Z, alone.recent.Z)
    # the members of the epoch that it inherits with: another one returns in the same round
    events = [bq.Departure(6, 30), bq.Departure(2, 50), bq.Return(6, 50), bq.Crash(1, 58)]
    for engine in (bq.engines.Vector(), bq.engines.Loop()):
        assert estates(problem, graph, events, engine=engine)[1, 50].remaining == 5


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()])
def test_what_is_adopted_has_the_values_of_what_was_lost(engine):
    """Also of whom the lost remembered: isotropic losses are remembered to the constant."""
    problem = bq.Problem([bq.Quadratic((1.0 + k) * np.eye(2), [k, -1.0]) for k in range(5)])
    events = [bq.Departure(1, 10), bq.Crash(0, 20), bq.Crash(2, 20)]
    options = {"departures": events, "will": bq.wills.Consensus(), "rounds": 25, "buddies": 2}
    run = bq.solve(problem, bq.graphs.ring(5), checkpoint_every=7, engine=engine, **options)
    assert not run.lost
    assert any(record.crashed and record.passed_on for record in run.departures)
    remembered = sum(run.inherited.values(), bq.Legacy.zero(2))
    assert dict(remembered.lineage) == {0: 1, 1: 1, 2: 1}
    for x in ([0.0, 0.0], [1.0, 2.0], [-3.0, 0.5]):
        total = sum(problem.objective(node).value(np.array(x)) for node in (0, 1, 2))
        assert remembered.value(x) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()])
def test_a_will_knows_how_many_others_there_are(engine):
    """Of a leaver those who stay, of a checkpoint all the others of the epoch that it is for."""
    problem, graph = ring(8)
    events = [bq.Crash(4, 25), bq.Departure(6, 30), bq.Departure(2, 40), bq.Crash(1, 45),
              bq.Return(6, 50), bq.Departure(7, 55), bq.Departure(0, 55)]  # fmt: skip
    seen = estates(problem, graph, events, engine=engine, checkpoint_every=20)
    asked = {key: seen[key].remaining for key in ((4, 20), (6, 30), (2, 40), (1, 40), (7, 55))}
    assert asked == {(4, 20): 7, (6, 30): 6, (2, 40): 5, (1, 40): 4, (7, 55): 3}


def test_a_newcomer_has_a_checkpoint_from_the_start():
    problem, graph = ring(8)
    events = [bq.Departure(2, 30), bq.Return(2, 45), bq.Crash(2, 55), bq.Crash(7, 19)]
    seen = estates(problem, graph, events)
    assert len(seen[2, 45].recent) == len(seen[7, 0].recent) == 1
    assert seen[2, 45].carried is None
    # what its heir held of it was in the heir's gradient, and the heir's tracker stays as it is
    (record,) = [r for r in Spy.run.departures if r.node == 2 and not r.crashed]
    gradient = problem.objective(2).gradient(seen[2, 45].x)
    expected = gradient - record.legacy.gradient(seen[2, 45].x)
    np.testing.assert_allclose(seen[2, 45].z, expected, atol=1e-12)
    np.testing.assert_array_equal(seen[7, 0].x, np.zeros(3))


def test_a_returned_node_starts_its_history_anew_and_joins_make_everybody_drop_predictions():
    problem, graph = ring(8)
    leave = bq.Departure(5, 130)
    quiet = estates(problem, graph, [bq.Departure(2, 60), leave])[5, 130]
    assert quiet.carried is not None
    for moved in ([bq.Join(2, 60)], [bq.Departure(2, 40), bq.Forget(2, 60)]):
        assert estates(problem, graph, [*moved, leave])[5, 130].carried is None
    # the return of a node that was remembered moves nothing
    events = [bq.Departure(2, 60), bq.Return(2, 70), leave]
    assert estates(problem, graph, events)[5, 130].carried is not None
    # it does when it was forgotten
    events = [bq.Departure(2, 40), bq.Forget(2, 41), bq.Return(2, 100), leave]
    assert estates(problem, graph, events)[5, 130].carried is None
    # and the returned node itself knows the epochs since its return only
    events = [bq.Departure(5, 60), bq.Return(5, 70), leave]
    back = estates(problem, graph, events)[5, 130]
    assert back.carried is None
    assert len(back.recent) == len(history.kept(60))


def test_everybody_who_leaves_in_the_round_of_a_crash_decides_from_its_tracker_before_it():
    problem, graph = ring(8)
    alone = estates(problem, graph, [bq.Departure(5, 60)])[5, 60]
    beside = estates(problem, graph, [bq.Departure(5, 60), bq.Crash(1, 60)])[5, 60]
    np.testing.assert_array_equal(beside.z, alone.z)
    assert beside.remaining == alone.remaining - 1


# --- the network and the step -------------------------------------------------------------------


def test_whoever_comes_back_to_strangers_talks_to_who_remembers_it():
    problem, graph = ring(6)
    events = [bq.Departure(0, 30), bq.Departure(5, 31), bq.Departure(1, 32), bq.Return(0, 60)]
    run = bq.solve(problem, graph, departures=events, rounds=100)
    change = run.changes[0]
    assert change.neighbours == (change.holder,)
    assert change.sponsor == change.holder
    # forgotten, it talks to the lowest id
    events = [*events[:3], bq.Forget(0, 50), bq.Return(0, 60)]
    run = bq.solve(problem, graph, departures=events, rounds=100)
    assert run.changes[-1].neighbours == (2,)


def test_a_joining_node_can_name_its_neighbours():
    problem, graph = ring(6)
    run = bq.solve(problem, graph, departures=[bq.Join(2, 10, (5, 0, 5))], rounds=100)
    assert run.changes[0].neighbours == (0, 5)
    assert run.changes[0].sponsor == 0
    # as far as they are there; and they are remembered for when it returns
    events = [bq.Departure(0, 5), bq.Join(2, 10, (5, 0)), bq.Departure(2, 20), bq.Return(0, 25)]
    run = bq.solve(problem, graph, departures=[*events, bq.Return(2, 30)], rounds=100)
    assert [change.neighbours for change in run.changes] == [(5,), (1, 5), (0, 5)]


def test_a_chosen_step_is_lowered_when_somebody_stiff_joins():
    losses = [bq.Quadratic(np.eye(2), [k, -k]) for k in range(4)] + [
        bq.Quadratic(50 * np.eye(2), [1.0, 1.0])
    ]
    problem, graph = bq.Problem(losses), bq.graphs.ring(5)
    tracking = bq.GradientTracking()
    run = bq.solve(problem, graph, departures=[bq.Join(4, 20)], method=tracking, rounds=600)
    assert [step.since for step in run.steps] == [0, 20]
    assert run.steps[1].why == "node 4 now carries smoothness 50"
    assert run.status == "converged"
    assert run.error[-1] <= 1e-8


def test_the_start_is_that_of_who_is_there():
    """The mean of the starts, which the step is chosen at, leaves out who joins."""
    problem, graph = ring(4)
    start = np.zeros((4, 3))
    start[3] = 1e6
    run = bq.solve(problem, graph, departures=[bq.Join(3, 20)], rounds=300, start=start)
    assert run.status == "converged"


@pytest.mark.parametrize("regime", ["strongly convex", "convex"])
@pytest.mark.parametrize("seed", range(40))
def test_certificates_hold_and_the_papers_theorems_only_speak_of_farewells(seed, regime):
    scene = scenarios.membership(seed)
    problem = scene.problem
    if regime == "convex":
        problem = bq.Problem([bq.Quadratic(np.diag([1.0, 0.0]), [node, 0.0]) for node in range(6)])
        graph, events = (
            bq.graphs.ring(6),
            [bq.Crash(seed % 6, 30), bq.Departure((seed + 2) % 6, 40)],
        )
        run = bq.solve(problem, graph, departures=events, rounds=60, will=bq.wills.Consensus())
    else:
        rng = np.random.default_rng(seed)
        kinds = [bq.wills.Consensus(), bq.wills.LocalTrack(), bq.wills.PointOnly(cap=0.1)]
        wills = {None: bq.wills.Drift(1)} | {
            node: kinds[int(rng.integers(3))] for node in range(0, problem.n, 2)
        }
        pilot = bq.Pilot(radius=2.0, theta=0.05, zeta=9.0, spread=3.0)
        run = bq.solve(
            problem,
            scene.graph,
            departures=scene.departures,
            rounds=scene.rounds,
            will=wills,
            pilot=pilot,
        )
    assert run.certificate.holds
    for bound in run.certificate:
        if bound.label != "tight":
            assert not bound.applies
            assert "only graceful departures" in bound.verdict
    if all(change.exact for change in run.changes) and problem.regime == "SC":
        assert run.certificate["tight"].holds


@pytest.mark.parametrize("seed", range(60))
def test_the_invariant_holds_after_every_round(seed):
    scene = scenarios.membership(seed, rounds=120)
    run = bq.solve(
        scene.problem,
        scene.graph,
        departures=scene.departures,
        rounds=scene.rounds,
        start=scene.start,
    )
    assert_invariant(run)
    # every node is a survivor, remembered, lost, forgotten, or has not joined
    remembered = [node for q in run.inherited.values() for node in q.lineage]
    assert len(set(remembered)) == len(remembered)
    gone = set(range(len(scene.objectives))).difference(run.survivors)
    assert set(remembered) | set(run.lost) <= gone
    latest = {record.node: record.round for record in run.departures}
    forgotten = {
        c.node for c in run.changes if c.kind == "forget" and c.round > latest[c.node]
    } & gone
    assert gone == set(remembered) | set(run.lost) | forgotten


def test_an_unknown_optimum_on_the_way_is_unknown():
    """All data has an optimum, those who are there at first have none."""
    slope = bq.Function(lambda x: (float(x.sum()), np.ones(1)), dim=1, curvature=(0.0, 1.0))
    problem = bq.Problem([slope, slope, bq.Quadratic([[1.0]], [0.0])])
    graph = bq.graphs.complete(3)
    run = bq.solve(
        problem, graph, departures=[bq.Join(2, 20)], rounds=30, will=bq.wills.Consensus()
    )
    assert run.trajectory.error is None
    for ask in (lambda: run.optimum, lambda: run.optima):
        with pytest.raises(bq.errors.OptimumUnknown, match="count after round 0: "):
            ask()
    with pytest.raises(bq.errors.InvalidWill, match="needs the optimum"):
        bq.solve(
            problem,
            graph,
            departures=[bq.Join(2, 20), bq.Crash(0, 25)],
            rounds=30,
            will=bq.wills.Adaptive(rule="oracle"),
        )


# --- what is refused ----------------------------------------------------------------------------

REFUSED = {
    "crash of no node": ([bq.Crash(9, 5)], "UnknownNode", "does not exist"),
    "crash before it joins": ([bq.Join(1, 9), bq.Crash(1, 5)], "NotThere", "joins only at round 9"),
    "leaves as it joins": ([bq.Join(1, 9), bq.Departure(1, 9)], "NotThere", "joins only"),
    "returns before it joins": ([bq.Join(1, 9), bq.Return(1, 5)], "NotThere", "joins only"),
    "forgotten before it joins": ([bq.Join(1, 9), bq.Forget(1, 5)], "NotThere", "joins only"),
    "leaves, then joins": ([bq.Departure(1, 5), bq.Join(1, 9)], "NotThere", "joins only"),
    "crashes twice": ([bq.Crash(1, 5), bq.Crash(1, 9)], "LeavesTwice", "already left at round 5"),
    "crashes and leaves": ([bq.Crash(1, 5), bq.Departure(1, 5)], "LeavesTwice", "already"),
    "returns without leaving": ([bq.Return(1, 5)], "StillHere", "still there in round 5"),
    "returns as it leaves": ([bq.Departure(1, 5), bq.Return(1, 5)], "StillHere", "still there"),
    "forgotten while there": ([bq.Forget(1, 5)], "StillHere", "still there"),
    "forgotten as it crashes": ([bq.Crash(1, 5), bq.Forget(1, 5)], "StillHere", "still there"),
    "joins twice": ([bq.Join(1, 5), bq.Join(1, 9)], "StillHere", "still there"),
    "joins again": (
        [bq.Join(1, 5), bq.Departure(1, 7), bq.Join(1, 9)],
        "JoinsTwice",
        "been there before",
    ),
    "forgotten twice": (
        [bq.Departure(1, 5), bq.Forget(1, 7), bq.Forget(1, 9)],
        "ForgottenTwice",
        "forgotten already",
    ),
    "no node at the start": ([bq.Join(node, 5) for node in range(4)], "EverybodyLeaves", "start"),
    "all crash at once": ([bq.Crash(node, 5) for node in range(4)], "EverybodyLeaves", "All 4"),
    "all gone before one returns": (
        [bq.Crash(0, 5), *(bq.Departure(node, 7) for node in (1, 2, 3)), bq.Return(0, 7)],
        "EverybodyLeaves",
        "All 4",
    ),
    "joins too late": ([bq.Join(1, 99)], "OutsideTheRun", "1..20"),
    "joins strangers": ([bq.Join(1, 5, (7,))], "UnknownNode", "does not exist"),
    "joins no node": ([bq.Join(1, 5, ())], "InvalidEvent", "not a tuple"),
    "joins a number": ([bq.Join(1, 5, 2)], "InvalidEvent", "not a tuple"),
    "joins half a node": ([bq.Join(1, 5, (0.5,))], "InvalidEvent", "whole number"),
    "joins itself": ([bq.Join(1, 5, (1,))], "InvalidEvent", "its own neighbour"),
    "a single crash": (bq.Crash(1, 5), "InvalidEvent", "not a sequence"),
    "half a round": ([bq.Return(1, 5.5)], "InvalidEvent", "whole number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_events_are_refused_by_name(name):
    events, kind, says = REFUSED[name]
    problem, graph = ring(4)
    with pytest.raises(bq.errors.InvalidEvent, match=says) as caught:
        bq.solve(problem, graph, departures=events, rounds=20)
    assert type(caught.value).__name__ == kind
    assert caught.value.remedy


def test_the_order_in_which_events_are_listed_does_not_matter():
    problem, graph = ring(5)
    events = [bq.Departure(1, 5), bq.Return(1, 9), bq.Crash(2, 5), bq.Forget(2, 7), bq.Crash(1, 12)]
    one = bq.solve(problem, graph, departures=events, rounds=30)
    other = bq.solve(problem, graph, departures=iter(events[::-1]), rounds=30)
    np.testing.assert_array_equal(one.x, other.x)
    assert [r.node for r in one.departures] == [r.node for r in other.departures] == [2, 1, 1]


def test_the_network_must_hold_together_without_those_who_join():
    problem = ring(5)[0]
    with pytest.raises(bq.errors.DisconnectedGraph, match=r"join later \(2\).*2 parts"):
        bq.solve(problem, bq.graphs.path(5), departures=[bq.Join(2, 5)], rounds=20)


@pytest.mark.parametrize(
    "options",
    [
        {"buddies": -1},
        {"buddies": 1.5},
        {"buddies": True},
        {"checkpoint_every": 0},
        {"checkpoint_every": "20"},
    ],
)
def test_impossible_checkpoints_are_refused(options):
    problem, graph = ring(4)
    with pytest.raises(bq.errors.InvalidMethod, match=next(iter(options))):
        bq.solve(problem, graph, rounds=20, **options)


# --- nodes that vanish without a word ---------------------------------------------------------


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()], ids=["vector", "loop"])
@pytest.mark.parametrize("method", [bq.GradientTracking(), bq.NIDS(), bq.NIDS(metric="hessian")])
def test_a_node_without_a_checkpoint_is_remembered_by_its_slope(engine, method):
    """As a legacy like any other: it can be given back, and erased, exactly."""
    problem = bq.problems.quadratics(n=10, dim=4, mu=1.0, L=8.0, seed=3)
    graph = bq.graphs.ring_with_chords(10, chords=5, seed=3)

    def solve(*events, **options):
        return bq.solve(
            problem, graph, departures=events, method=method, engine=engine, rounds=700,
            checkpoint_every=None, **options,
        )  # fmt: skip

    crash = bq.Crash(4, 150)
    run, forgotten = solve(crash), solve(crash, recall=False)
    (record,) = run.departures
    assert (record.choice, record.checkpoint, run.lost) == ("recall", None, ())
    assert record.legacy.curvature == (0.0, 0.0)
    assert run.inherited[record.heir].lineage == {4: 1}
    assert run.limit_error < 1e-2 * forgotten.limit_error
    assert forgotten.departures[0].choice == "none"
    assert forgotten.lost == (4,)
    assert run.certificate["tight"].holds
    assert run.certificate["thm:main"].holds is None
    # there is no bump, nor when it comes back
    assert run.error[150:170].max() <= 1.2 * run.error[149] + 1e-9
    back = solve(crash, bq.Return(4, 300))
    assert np.linalg.norm(back.limit - problem.optimum()) < 1e-12
    assert back.error[300:320].max() <= 1.2 * back.error[299] + 1e-9
    erased = solve(crash, bq.Forget(4, 300))
    others = bq.Problem([problem.objective(k) for k in range(10) if k != 4]).optimum()
    np.testing.assert_allclose(erased.limit, others, atol=1e-12)


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()], ids=["vector", "loop"])
@pytest.mark.parametrize(
    ("events", "will", "words"),
    [
        ([bq.Crash(4, 2)], bq.wills.Adaptive(), "not to be trusted"),
        ([bq.Crash(4, 150), bq.Crash(7, 150)], bq.wills.Adaptive(), "cannot be told apart"),
        ([bq.Departure(5, 90), bq.Crash(4, 150)], bq.wills.Adaptive(), "cannot be told apart"),
        ([bq.Crash(4, 150)], bq.wills.Forgetful(), "checkpoint"),
    ],
    ids=["too early", "two at once", "an heir", "its will forgets"],
)
def test_what_cannot_be_recalled_is_lost_by_name_and_says_why(engine, events, will, words):
    problem = bq.problems.quadratics(n=10, dim=4, mu=1.0, L=8.0, seed=3)
    run = bq.solve(
        problem, bq.graphs.ring(10), departures=events, will=will, engine=engine, rounds=200,
        checkpoint_every=None,
    )  # fmt: skip
    crashed = [record for record in run.departures if record.crashed]
    assert all(record.choice == "none" and words in record.why for record in crashed)
    assert set(run.lost) == {node for record in crashed for node in record.lost}
    assert 4 in run.lost


def test_what_is_left_beside_a_compressed_memory_is_never_called_exact():
    """Taking out a node that was compressed eats into the memories beside it.

    The next withdrawal used to leave negative curvature behind, and was recorded as exact.
    """
    rng = np.random.default_rng(0)
    losses = []
    for flat in (100.0, 1.0, 1.0, 1.0, 100.0, 1.0):
        Q = np.linalg.qr(rng.standard_normal((5, 5)))[0]
        A = (Q * np.exp(rng.uniform(0, np.log(100), 5))) @ Q.T / flat
        losses.append(bq.Quadratic((A + A.T) / 2, rng.standard_normal(5) * 5))
    leaving = [bq.Departure(1, 5), bq.Departure(5, 8), bq.Departure(3, 10), bq.Departure(2, 15)]
    forgotten = [bq.Forget(3, 30), bq.Forget(2, 40), bq.Forget(1, 50)]
    run = bq.solve(
        bq.Problem(losses),
        [(1, 4), (5, 4), (3, 2), (2, 4), (0, 4)],
        departures=[*leaving, *forgotten],
        will=bq.wills.Drift(1),
        rounds=1500,
    )
    assert run.status != "diverged"
    assert [change.exact for change in run.changes] == [False, False, False]
    held = run.inherited[4]
    assert held.blended == {5}
    assert np.linalg.eigvalsh(held.hessian())[0] > -1e-9


def test_a_run_says_at_a_glance_which_nodes_it_has_forgotten():
    problem = bq.problems.quadratics(n=4, dim=2, mu=1.0, L=4.0, seed=0)
    wills = {None: bq.wills.Consensus(), 2: bq.wills.Classic()}
    leaving = [bq.Departure(1, 5), bq.Departure(2, 8)]
    run = bq.solve(problem, bq.graphs.complete(4), rounds=20, departures=leaving, will=wills)
    assert "departures=2, forgotten=[2]" in repr(run)
    run = bq.solve(problem, bq.graphs.complete(4), rounds=20, departures=leaving[:1])
    assert "forgotten" not in repr(run)
