"""Real nodes that only know what reaches them do what rows of arrays do."""

import itertools

import numpy as np
import pytest
import reference
import scenarios
from remembering import Recalling, Remembering
from seeds import seeds

import bequest as bq
from bequest.engines import Loop, Outage, Partition, Weather

EXACT = [scenarios.WILLS[name] for name in scenarios.WILLS]
BEYOND = [
    bq.wills.Drift(),
    bq.wills.Drift(rank=2),
    bq.wills.FullHessian(),
    bq.wills.Adaptive(),
    bq.wills.Budget(vectors=4),
]
STORM = Weather(seed=3, delay=(0.0, 5.0), duplication=0.3)


def solved(scene, wills, engine=None, **options):
    problem = scene.problem
    pilot = bq.Pilot(radius=2.0, theta=0.05, zeta=float(problem.heterogeneity().max()), spread=3.0)
    return bq.solve(
        problem,
        scene.graph,
        departures=scene.departures,
        will=wills,
        rounds=scene.rounds,
        start=scene.start,
        pilot=pilot,
        engine=engine,
        optimum="always",
        **{"method": bq.GradientTracking(step=scene.step), **options},
    )


def assert_same(one, other, tolerance=1e-10):
    scale = 1.0 + float(np.abs(one.x).max()) + float(np.abs(one.error).max())
    assert one.status == other.status
    assert one.survivors == other.survivors
    assert one.lost == other.lost
    np.testing.assert_allclose(one.x, other.x, rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(one.error, other.error, rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(one.invariant_gap, other.invariant_gap, rtol=0, atol=1e-9 * scale)
    assert set(one.inherited) == set(other.inherited)
    for heir, legacy in one.inherited.items():
        twin = other.inherited[heir]
        stiff = 1.0 + legacy.curvature[1]
        assert (legacy.lineage, legacy.blended) == (twin.lineage, twin.blended)
        np.testing.assert_allclose(legacy.p, twin.p, rtol=0, atol=tolerance * scale * stiff)
        assert legacy.c == pytest.approx(twin.c, rel=0, abs=10 * tolerance * scale**2 * stiff)
        np.testing.assert_allclose(legacy.hessian(), twin.hessian(), rtol=0, atol=tolerance * stiff)
    assert [one_story(r) for r in one.departures] == [one_story(r) for r in other.departures]
    assert one.changes == other.changes
    assert [(s.since, s.why) for s in one.steps] == [(s.since, s.why) for s in other.steps]


def one_story(record):
    return (
        record.node, record.round, record.will, record.choice, record.heir, record.vectors,
        record.bytes, record.passed_on, record.lost, record.bridges, record.crashed,
        record.checkpoint,
    )  # fmt: skip


def mixed(rng, n, wills):
    return {node: wills[int(rng.integers(len(wills)))] for node in range(n)}


# --- vector = loop ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(range(100), quick=40))
def test_departures(seed):
    """To 1e-10, each node with a will of its own, alone or several at once, chained or not."""
    rng, scene = np.random.default_rng(seed), scenarios.scenario(seed)
    wills = mixed(rng, len(scene.objectives), EXACT)
    vector = solved(scene, wills)
    assert_same(vector, solved(scene, wills, Loop()))
    assert_same(vector, solved(scene, wills, Loop(Weather(seed, (0.0, 4.0), 0.2))))


@pytest.mark.parametrize("seed", seeds(range(100), quick=40))
def test_every_event(seed):
    """Planned crashes, returns, joins and forgets too, whatever the checkpoints."""
    rng, scene = np.random.default_rng(seed), scenarios.membership(seed)
    wills = mixed(rng, len(scene.objectives), EXACT)
    options = {
        "buddies": int(rng.integers(4)),
        "checkpoint_every": [None, 1, 5, 20][int(rng.integers(4))],
    }
    vector = solved(scene, wills, **options)
    assert_same(vector, solved(scene, wills, Loop(Weather(seed, (0.0, 4.0), 0.2)), **options))


@pytest.mark.parametrize("seed", seeds(range(60), quick=20))
def test_wills_that_extrapolate(seed):
    """Given the same decisions the engines agree to 1e-10, too.

    The decisions themselves are extrapolations, which amplify the last digit in which the two
    engines differ: they are compared in the next test.
    """
    rng, scene = np.random.default_rng(seed), scenarios.membership(seed)
    wills = {n: Remembering(w) for n, w in mixed(rng, len(scene.objectives), BEYOND).items()}
    options = {"buddies": 2, "checkpoint_every": [1, 5, 20][int(rng.integers(3))]}
    loop = solved(scene, wills, Loop(), **options)
    as_before = {node: Recalling(will.decisions, will) for node, will in wills.items()}
    assert_same(loop, solved(scene, as_before, **options))


@pytest.mark.parametrize("seed", seeds(range(30), quick=8))
@pytest.mark.parametrize("will", BEYOND)
def test_extrapolations_agree_as_far_as_they_can(seed, will):
    scene = scenarios.scenario(seed)
    vector, loop = solved(scene, will), solved(scene, will, Loop())
    assert [record.choice for record in vector.departures] == [
        record.choice for record in loop.departures
    ]
    scale = 1.0 + float(np.abs(vector.x).max())
    np.testing.assert_allclose(vector.x, loop.x, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("later", [bq.Forget(0, 685), bq.Join(5, 685)], ids=["forget", "join"])
@pytest.mark.parametrize("will", [bq.wills.Drift(1), bq.wills.Drift(2), bq.wills.Adaptive()])
@pytest.mark.parametrize("seed", seeds(range(10), quick=3))
def test_what_is_sent_late_in_a_run_is_not_rounding(seed, will, later):
    """Where the nodes have settled, what is left of their paths is rounding.

    It must not choose the directions of a sketch, nor the size of a message: once a later event
    moves the target, memories that differ lead elsewhere.
    """
    problem = bq.problems.quadratics(n=6, dim=6, mu=1.0, L=10.0, seed=seed, basis="tilted")
    events = [bq.Departure(0, 600), bq.Departure(2, 660), later]
    vector, loop = (
        bq.solve(
            problem,
            bq.graphs.complete(6),
            departures=events,
            will=will,
            method=bq.GradientTracking(),
            rounds=700,
            engine=engine,
        )
        for engine in (None, Loop())
    )
    assert [one_story(r) for r in vector.departures] == [one_story(r) for r in loop.departures]
    scale = float(np.abs(vector.limit).max())
    np.testing.assert_allclose(vector.limit, loop.limit, rtol=0, atol=1e-6 * scale)


# 122: after one round a crash, an oracle's farewell, and a return that moves the optimum
@pytest.mark.parametrize("seed", [*seeds(range(60), quick=4), 122])
@pytest.mark.parametrize("name", scenarios.METHODS)
def test_every_event_with_every_method(name, seed):
    """Every node with a metric of its own, and a pace for every epoch, chosen by the steward."""
    rng, scene = np.random.default_rng([seed, 5]), scenarios.membership(seed)
    wills = mixed(rng, len(scene.objectives), EXACT)
    options = {
        "method": scenarios.METHODS[name],
        "buddies": int(rng.integers(3)),
        "checkpoint_every": [None, None, 1, 5, 20][int(rng.integers(5))],
    }
    vector = solved(scene, wills, **options)
    loop = solved(scene, wills, Loop(Weather(seed, (0.0, 4.0), 0.2)), **options)
    assert_same(vector, loop)
    identical(loop, solved(scene, wills, Loop(), **options))
    identical(loop, solved(scene, wills, Loop(STORM, as_bytes=True), **options))


@pytest.mark.parametrize("seed", range(12))
def test_a_chosen_step_is_lowered_alike(seed):
    scene = scenarios.scenario(seed)
    scene.step = None
    will = bq.wills.PointOnly(cap=2.0)
    assert_same(solved(scene, will), solved(scene, will, Loop()), 1e-9)


# --- whatever the network does ---------------------------------------------------------------


def identical(one, other):
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.error, other.error)
    np.testing.assert_array_equal(one.invariant_gap, other.invariant_gap)
    assert [one_story(r) for r in one.departures] == [one_story(r) for r in other.departures]
    for heir, legacy in one.inherited.items():
        np.testing.assert_array_equal(legacy.p, other.inherited[heir].p)


@pytest.mark.parametrize("seed", seeds(range(40), quick=15))
def test_not_a_bit_depends_on_the_order_of_delivery(seed):
    rng, scene = np.random.default_rng(seed), scenarios.membership(seed)
    wills = mixed(rng, len(scene.objectives), EXACT + BEYOND)
    calm = solved(scene, wills, Loop())
    for weather in (
        Weather(seed, (0.0, 1.0)),
        Weather(seed + 1, (0.0, 50.0), duplication=0.5),
        Weather(seed, (0.1, 3.0), 0.1, (Partition(5.0, 80.0, frozenset({"host 0", "host 1"})),)),
    ):
        identical(calm, solved(scene, wills, Loop(weather)))


@pytest.mark.parametrize("seed", range(10))
def test_not_a_bit_depends_on_travelling_as_bytes(seed):
    scene = scenarios.membership(seed)
    wills = mixed(np.random.default_rng(seed), len(scene.objectives), EXACT + BEYOND)
    identical(solved(scene, wills, Loop(STORM)), solved(scene, wills, Loop(STORM, as_bytes=True)))


def test_heirs_and_buddies_are_on_other_hosts():
    problem = bq.problems.quadratics(n=9, dim=3, mu=1.0, L=5.0, seed=2)
    graph = bq.graphs.complete(9)
    leaving = [bq.Departure(node, 20) for node in (0, 1)] + [bq.Crash(2, 30)]
    run = bq.solve(
        problem,
        graph,
        departures=leaving,
        will=bq.wills.Consensus(),
        rounds=600,
        engine=Loop(hosts=3),
    )
    assert {record.heir // 3 for record in run.departures} <= {1, 2}
    assert not run.lost
    assert run.status == "converged"
    named = {node: "here" if node < 8 else "there" for node in range(9)}
    run = bq.solve(
        problem,
        graph,
        departures=leaving,
        will=bq.wills.Consensus(),
        rounds=600,
        engine=Loop(hosts=named),
    )
    assert {record.heir for record in run.departures} == {8}


def test_a_partition_that_heals_costs_time_and_nothing_else():
    problem = bq.problems.quadratics(n=6, dim=2, mu=1.0, L=4.0, seed=1)
    leaving = [bq.Departure(3, 10)]
    cut = Weather(1, (0.0, 1.0), 0.0, (Partition(2.0, 500.0, frozenset({"host 4"})),))
    calm, split = (
        bq.solve(problem, bq.graphs.ring(6), departures=leaving, rounds=60, engine=Loop(weather))
        for weather in (Weather(), cut)
    )
    identical(calm, split)


@pytest.mark.parametrize("seed", range(20))
def test_a_host_that_dies_takes_nobody_with_it(seed):
    """Three of nine nodes die in the middle of a round; their buddies remember them."""
    rng = np.random.default_rng(seed)
    losses = [
        bq.Quadratic(rng.uniform(1.0, 3.0) * np.eye(2), rng.standard_normal(2)) for _ in range(9)
    ]
    weather = Weather(seed, (0.5, 1.5), outages=(Outage(40.0, "host 1"),), patience=5.0)
    run = bq.solve(
        bq.Problem(losses),
        bq.graphs.ring_with_chords(9, chords=5, seed=seed),
        will=bq.wills.Consensus(),
        rounds=800,
        engine=Loop(weather, hosts=3),
    )
    assert [record.node for record in run.departures] == [3, 4, 5]
    assert all(record.crashed and record.checkpoint is not None for record in run.departures)
    assert {record.heir // 3 for record in run.departures} <= {0, 2}
    assert run.survivors == (0, 1, 2, 6, 7, 8)
    assert not run.lost
    # isotropic losses are remembered exactly
    np.testing.assert_allclose(run.limit, run.optimum, rtol=0, atol=1e-9)
    assert run.error[-1] < 1e-4 * run.error[0]


def isotropic(n, seed=0):
    """Losses that are remembered exactly, so that the limit tells whether all of them are."""
    rng = np.random.default_rng(seed)
    return bq.Problem(
        [bq.Quadratic(rng.uniform(1.0, 3.0) * np.eye(2), rng.standard_normal(2)) for _ in range(n)]
    )


FOUR_HOSTS = {node: f"host {node // 2}" for node in range(8)}
TWO_MACHINES = {node: f"machine {node // 4}/host {node // 2}" for node in range(8)}
NETWORKS = {
    "complete": bq.graphs.complete(8),
    "ring": bq.graphs.ring(8),
    **{f"chords {seed}": bq.graphs.ring_with_chords(8, chords=3, seed=seed) for seed in range(3)},
    # every neighbour of a node of the first host is on the second one, and the other way round
    "two hubs": bq.Graph([(0, 2), (0, 3), (1, 2), (1, 3), (3, 4), (4, 5), (5, 6), (6, 7)]),
}


@pytest.mark.parametrize("hosts", [FOUR_HOSTS, TWO_MACHINES], ids=["flat", "nested"])
@pytest.mark.parametrize("graph", NETWORKS)
def test_two_buddies_survive_any_two_hosts(graph, hosts):
    problem, pairs = isotropic(8), list(itertools.combinations(sorted(set(hosts.values())), 2))
    assert len(pairs) == 6
    for pair in pairs:
        outages = tuple(Outage(12.0, host) for host in pair)
        run = bq.solve(
            problem,
            NETWORKS[graph],
            will=bq.wills.Consensus(),
            rounds=40,
            buddies=2,
            checkpoint_every=5,
            engine=Loop(Weather(1, (0.5, 1.5), outages=outages, patience=2.0), hosts=hosts),
        )
        dead = [node for node in range(8) if hosts[node] in pair]
        assert [record.node for record in run.departures] == dead
        assert run.lost == ()
        np.testing.assert_allclose(run.limit, run.optimum, rtol=0, atol=1e-9)


@pytest.mark.parametrize("machine", ["machine 0", "machine 1"])
def test_one_buddy_survives_a_machine_with_all_its_hosts(machine):
    run = bq.solve(
        isotropic(8),
        bq.graphs.ring(8),
        will=bq.wills.Consensus(),
        rounds=40,
        engine=Loop(Weather(1, (0.5, 1.5), outages=(Outage(12.0, machine),)), hosts=TWO_MACHINES),
    )
    assert [TWO_MACHINES[record.node].split("/")[0] for record in run.departures] == [machine] * 4
    assert run.lost == ()
    np.testing.assert_allclose(run.limit, run.optimum, rtol=0, atol=1e-9)


def test_a_machine_that_is_cut_off_is_cut_off_with_all_its_hosts():
    cut = Partition(2.0, 8.0, frozenset({"machine 1"}))
    waiting = [cut.holds_up(5.0, "machine 0/host 0", f"machine {k}/host {k + 1}") for k in (0, 1)]
    assert waiting == [False, True]
    assert not cut.holds_up(5.0, "machine 1/host 2", "machine 1/host 3")


@pytest.mark.parametrize("seed", range(4))
def test_after_a_loss_checkpoints_are_kept_by_others(seed):
    """One buddy is enough for any number of hosts that die one after the other."""
    times = (10.0, 40.0, 70.0)
    outages = tuple(Outage(time, f"host {k}") for k, time in zip((2, 0, 3), times, strict=True))
    run = bq.solve(
        isotropic(8),
        bq.graphs.ring(8),
        will=bq.wills.Consensus(),
        rounds=120,
        buddies=1,
        engine=Loop(Weather(seed, (0.5, 1.5), outages=outages, patience=2.0), hosts=2),
    )
    assert [record.node for record in run.departures] == [4, 5, 0, 1, 6, 7]
    assert run.survivors == (2, 3)
    assert run.lost == ()
    np.testing.assert_allclose(run.limit, run.optimum, rtol=0, atol=1e-9)


def test_more_hosts_than_buddies_lose_only_whom_all_of_them_kept():
    """By name: those whose own host and whose buddies' hosts are all among the dead."""
    problem, graph = isotropic(8), bq.graphs.complete(8)
    network = {node: set(range(8)) - {node} for node in range(8)}
    where = {node: (f"host {node // 2}",) for node in range(8)}
    named = set()
    for dead in itertools.combinations(range(4), 2):
        gone = [node for node in range(8) if node // 2 in dead]
        keepers = {node: reference.buddies_of(network, node, 1, where) for node in gone}
        lost = tuple(node for node in gone if not set(keepers[node]) - set(gone))
        outages = tuple(Outage(12.0, f"host {host}") for host in dead)
        run = bq.solve(
            problem,
            graph,
            will=bq.wills.Consensus(),
            rounds=40,
            buddies=1,
            engine=Loop(Weather(1, (0.5, 1.5), outages=outages, patience=2.0), hosts=2),
        )
        assert run.lost == lost
        named |= set(lost)
        remembered = sorted(set(range(8)) - set(lost))
        limit = bq.Problem([problem.objective(node) for node in remembered]).optimum()
        np.testing.assert_allclose(run.limit, limit, rtol=0, atol=1e-9)
    assert named == set(range(8))


@pytest.mark.parametrize("seed", range(20))
def test_who_adopts_is_the_references_first_buddy_that_is_alive(seed):
    rng = np.random.default_rng(seed)
    graph = bq.graphs.ring_with_chords(9, chords=int(rng.integers(6)), seed=seed)
    hosts = {node: f"m{int(rng.integers(3))}/{int(rng.integers(2))}" for node in range(9)}
    where = {node: (host, host[:2]) for node, host in hosts.items()}
    count, gone = int(rng.integers(1, 4)), sorted(rng.choice(9, 4, replace=False).tolist())
    run = bq.solve(
        isotropic(9),
        graph,
        will=bq.wills.Consensus(),
        departures=[bq.Crash(node, 7) for node in gone],
        rounds=12,
        buddies=count,
        checkpoint_every=3,
        engine=Loop(hosts=hosts),
    )
    network = {node: set(graph.neighbours(node)) for node in range(9)}
    for record in run.departures:
        keepers = reference.buddies_of(network, record.node, count, where)
        assert record.heir == next((one for one in keepers if one not in gone), None)


# --- failures of a user's own code -------------------------------------------------------------


@pytest.mark.parametrize("failure", ["raises", "nan"])
def test_a_node_whose_gradient_fails_is_a_node_that_crashed(failure):
    calls = {"count": 0}

    def value_and_grad(x):
        calls["count"] += 1
        if calls["count"] > 400:
            if failure == "raises":
                raise RuntimeError("the disk is full")
            return float(x @ x), np.full_like(x, np.nan)
        return float((x - 1) @ (x - 1)) / 2, x - 1

    losses = [bq.Quadratic(np.eye(2), [float(k), 1.0]) for k in range(4)]
    losses.append(bq.Function(value_and_grad, dim=2, curvature=(1.0, 1.0)))
    calls["count"] = 0
    run = bq.solve(
        bq.Problem(losses),
        bq.graphs.ring(5),
        will=bq.wills.Consensus(),
        rounds=1500,
        engine=Loop(),
        method=bq.GradientTracking(step=0.1),
        optimum=[1.4, 1.0],  # the mean of the centres
    )
    (record,) = run.departures
    assert record.node == 4
    assert record.crashed
    assert ("disk is full" if failure == "raises" else "not finite") in record.why
    assert run.survivors == (0, 1, 2, 3)
    assert not run.lost
    assert run.error[-1] < 1e-9  # an isotropic quadratic is remembered exactly
    assert np.isfinite(run.error).all()


def test_when_nobody_is_left_that_is_said_by_name():
    def failing(centre):
        calls = {"count": 0}

        def value_and_grad(x):
            calls["count"] += 1
            if calls["count"] > 200:
                raise RuntimeError("the disk is full")
            return float((x - centre) @ (x - centre)) / 2, x - centre

        return bq.Function(value_and_grad, dim=2, curvature=(1.0, 1.0))

    run = bq.solve(
        bq.Problem([failing(float(k)) for k in range(4)]),
        bq.graphs.ring(4),
        will=bq.wills.Consensus(),
        rounds=600,
        engine=Loop(),
        method=bq.GradientTracking(step=0.1),
    )
    assert run.status == "lost"
    assert run.survivors == ()
    assert run.lost == (0, 1, 2, 3)
    assert [record.node for record in run.departures] == [0, 1, 2, 3]
    assert all("disk is full" in record.why for record in run.departures)
    assert all(record.round < 300 for record in run.departures)
    with pytest.raises(bq.errors.OptimumUnknown, match="No node is left"):
        _ = run.limit


@pytest.mark.parametrize("seed", seeds(range(60), quick=30))
def test_plans_and_accidents_together(seed):
    """Outages may hit a node that was to leave, crash, come back or be forgotten; the run ends."""
    rng = np.random.default_rng(seed)
    problem = bq.problems.quadratics(n=6, dim=2, mu=1.0, L=3.0, seed=seed)
    leaver, victim = (int(node) for node in rng.permutation(6)[:2])
    events = [
        bq.Departure(leaver, int(rng.integers(2, 15))),
        bq.Crash(victim, int(rng.integers(2, 15))),
    ]
    if rng.random() < 0.5:
        events.append(bq.Return(leaver, events[0].round + int(rng.integers(1, 10))))
    if rng.random() < 0.5:
        events.append(bq.Forget(victim, events[1].round + int(rng.integers(1, 10))))
    outages = tuple(
        Outage(float(rng.uniform(0, 40)), f"host {int(rng.integers(6))}") for _ in range(2)
    )
    weather = Weather(
        seed, (0.1, 1.0), 0.2, outages=outages, patience=float(rng.choice([0.0, 1.0, 5.0]))
    )
    run = bq.solve(
        problem,
        bq.graphs.ring(6),
        departures=events,
        rounds=30,
        will=bq.wills.Consensus(),
        engine=Loop(weather),
        checkpoint_every=3,
    )
    remembered = [node for legacy in run.inherited.values() for node in legacy.lineage]
    forgotten = {change.node for change in run.changes if change.kind == "forget"}
    assert sorted([*run.survivors, *remembered, *run.lost]) == sorted(set(range(6)) - forgotten)
    assert run.invariant_gap.max() <= 1e-9 * (1 + run.trajectory.gradient_norm.max())


def disturbed(events, outages, n=3, rounds=20):
    """A run on n hosts, some of which die at some time."""
    losses = [bq.Quadratic((1.0 + k) * np.eye(2), [float(k), 1.0]) for k in range(n)]
    weather = Weather(1, (0.5, 1.0), outages=outages, patience=1.0)
    return bq.solve(
        bq.Problem(losses),
        bq.graphs.complete(n),
        departures=events,
        will=bq.wills.Consensus(),
        rounds=rounds,
        engine=Loop(weather),
        buddies=n - 1,
        checkpoint_every=1,
    )


@pytest.mark.parametrize("later", [bq.Return(1, 9), bq.Forget(1, 9)])
def test_who_could_not_leave_as_planned_does_not_come_back_either(later):
    """Every other node has died: there was no node to leave to. It is not ended to make it come."""
    outages = (Outage(6.0, "host 0"), Outage(6.0, "host 2"))
    run = disturbed([bq.Departure(1, 5), later], outages, rounds=40)
    assert (run.survivors, run.lost, run.changes) == ((1,), (), ())
    assert {record.node for record in run.departures} == {0, 2}
    assert run.status == "converged"


@pytest.mark.parametrize("last", [15, 20])
def test_an_accident_does_not_hide_a_crash_that_is_planned_for_another_incarnation(last):
    """Node 2 dies before it was to leave, comes back as planned, and dies as planned."""
    events = [bq.Departure(2, 5), bq.Return(2, 8), bq.Crash(2, last)]
    run = disturbed(events, (Outage(3.0, "host 2"),))
    assert [(r.node, r.crashed) for r in run.departures] == [(2, True), (2, True)]
    assert run.departures[0].round < 5
    assert run.departures[1].round == last
    assert (run.survivors, run.lost) == ((0, 1), ())
    assert [node for legacy in run.inherited.values() for node in legacy.lineage] == [2]


def test_when_everybody_is_lost_the_record_says_after_which_round():
    outages = tuple(Outage(8.0, f"host {k}") for k in range(3))
    run = disturbed([], outages)
    assert run.status == "lost"
    (last,) = {record.round for record in run.departures}
    assert 2 < last < 20
    assert np.isfinite(run.trajectory.gradient_norm[: last + 1]).all()
    assert np.isinf(run.trajectory.gradient_norm[last + 1 :]).all()


@pytest.mark.parametrize("engine", [bq.engines.Vector(), Loop()])
def test_noise_does_not_break_the_invariant(engine):
    """It is about the gradients that were used, which are never asked for again."""
    rng = np.random.default_rng(0)

    def noisy(centre):
        def value_and_grad(x):
            gap = x - centre
            return float(gap @ gap) / 2, gap + 1e-2 * rng.standard_normal(2)

        return bq.Function(value_and_grad, dim=2, curvature=(1.0, 1.0), check=False)

    run = bq.solve(
        bq.Problem([noisy(float(k)) for k in range(5)]),
        bq.graphs.ring(5),
        departures=[bq.Departure(1, 20), bq.Departure(3, 20), bq.Crash(2, 40)],
        will=bq.wills.Consensus(),
        method=bq.GradientTracking(step=0.1),
        rounds=80,
        engine=engine,
    )
    assert run.invariant_gap.max() <= 1e-10


def test_a_run_that_diverges_says_so():
    problem = bq.problems.quadratics(n=4, dim=2, mu=1.0, L=4.0, seed=1)
    method = bq.GradientTracking(step=3.0)
    runs = [
        bq.solve(problem, bq.graphs.ring(4), rounds=400, method=method, engine=engine)
        for engine in (None, Loop())
    ]
    assert [run.status for run in runs] == ["diverged", "diverged"]
    escaped = [int(np.argmax(np.isinf(run.error))) for run in runs]
    assert escaped[0] == escaped[1] > 0


def test_one_node_alone():
    f = bq.Quadratic(np.diag([1.0, 5.0]), [1.0, 2.0])
    run = bq.solve(bq.Problem([f]), bq.Graph([], n=1), rounds=300, engine=Loop())
    assert run.status == "converged"
    np.testing.assert_allclose(run.x[0], [1.0, 2.0], atol=1e-10)


@pytest.mark.parametrize("hosts", [0, -1, 1.5, "many"])
def test_hosts_that_make_no_sense(hosts):
    with pytest.raises(bq.errors.InvalidMethod):
        Loop(hosts=hosts)


@pytest.mark.parametrize(
    ("hosts", "says"),
    [
        ({0: "a", 1: "a"}, "leaves out node 2"),
        ({0: "a", 1: "a", 2: "b", 3: "b"}, "names node 3"),
        ({"0": "a", "1": "a", "2": "b"}, "names node '0'"),
    ],
)
def test_a_mapping_gives_each_node_a_host_and_no_other(hosts, says):
    with pytest.raises(bq.errors.InvalidPlacement, match=says) as caught:
        bq.solve(isotropic(3), bq.graphs.ring(3), rounds=5, engine=Loop(hosts=hosts))
    assert "nodes 0..2" in caught.value.remedy


@pytest.mark.parametrize("hosts", [2, {0: "rack/host 0", 1: "rack/host 0", 2: "rack/host 1"}])
@pytest.mark.parametrize(
    "weather",
    [
        Weather(delay=(0.5, 1.0), outages=(Outage(1.0, "host 7"),)),
        Weather(delay=(0.5, 1.0), partitions=(Partition(1.0, 2.0, frozenset(["host 7"])),)),
        # One name that exists does not excuse another.
        Weather(partitions=(Partition(1.0, 2.0, frozenset(["host 0", "rack", "host 7"])),)),
    ],
)
def test_weather_of_hosts_that_do_not_exist_is_refused(hosts, weather):
    with pytest.raises(bq.errors.InvalidPlacement, match="no node is on such a host") as caught:
        bq.solve(isotropic(3), bq.graphs.ring(3), rounds=5, engine=Loop(weather, hosts=hosts))
    listed = "host 0, host 1." if hosts == 2 else "rack/host 0, rack, rack/host 1."
    assert caught.value.remedy == f"Name one of these: {listed}"


@pytest.mark.parametrize(
    "event",
    [
        lambda: Outage(float("nan"), "host 0"),
        lambda: Outage(-1.0, "host 0"),
        lambda: Partition(2.0, 1.0, frozenset(["host 0"])),
        lambda: Partition(0.0, float("nan"), frozenset(["host 0"])),
        lambda: Partition(0.0, 1.0, "host 0"),
        lambda: Partition(0.0, 1.0, frozenset()),
    ],
)
def test_weather_that_never_comes_is_refused(event):
    with pytest.raises(bq.errors.InvalidMethod):
        event()


@pytest.mark.parametrize(
    "options",
    [
        {"delay": (2.0, 1.0)},
        {"delay": (-1.0, 1.0)},
        {"duplication": 1.5},
        {"outages": (Outage(1.0, "host 1"),)},
        {"outages": (Outage(1.0, "host 1"),), "delay": (0.0, 1.0), "patience": -1.0},
        {"patience": -1.0},
        {"patience": "long"},
        {"delay": 2.0},
        {"delay": None},
        {"delay": (0.0, 1.0, 2.0)},
        {"delay": ("0", "1")},
        {"duplication": None},
        {"seed": None},  # everything follows from it, so there must be one
        {"seed": -1},
    ],
)
def test_weather_that_makes_no_sense(options):
    with pytest.raises(bq.errors.InvalidMethod):
        Weather(**options)


@pytest.mark.parametrize("weather", [None, "stormy", 3])
def test_weather_that_is_none(weather):
    with pytest.raises(bq.errors.InvalidMethod, match="Weather"):
        Loop(weather)
