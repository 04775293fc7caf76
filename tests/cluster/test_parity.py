"""The same nodes on a real cluster compute the same bits as on a virtual network."""

import numpy as np
import pytest
import scenarios
from rehearsal import same

import bequest as bq
from bequest.engines import Loop, Ray

PROBLEM = bq.problems.quadratics(n=20, dim=10, mu=1.0, L=10.0, seed=7)
GRAPH = bq.graphs.ring_with_chords(20, chords=15, seed=7)
EVENTS = [
    bq.Departure(2, 40),
    bq.Departure(3, 40),
    bq.Crash(7, 60),
    bq.Crash(12, 60),
    bq.Return(7, 90),
    bq.Join(19, 110),
    bq.Forget(2, 140),
    bq.Departure(19, 170),
]


@pytest.fixture(autouse=True)
def connected(machines, driver):
    driver(machines)


@pytest.mark.parametrize(
    "will", [bq.wills.Drift(2), pytest.param(bq.wills.Adaptive(), marks=pytest.mark.slow)]
)
def test_every_event(will):
    views = []
    common = {"departures": EVENTS, "rounds": 250, "will": will}
    run = bq.solve(PROBLEM, GRAPH, engine=Ray(nodes_per_host=5, watch=views.append), **common)
    domains = {node: views[0].hosts[f"host {node // 5}"].machine for node in range(20)}
    assert len(set(domains.values())) == 4
    loop = bq.solve(PROBLEM, GRAPH, engine=Loop(hosts=domains), **common)
    assert same(run, loop)
    assert len(run.departures) == 5
    assert len(run.changes) == 3


QUICK = ("NIDS, hessian", "EXTRA")


@pytest.mark.parametrize(
    "name",
    [
        name if name in QUICK else pytest.param(name, marks=pytest.mark.slow)
        for name in scenarios.METHODS
    ],
)
def test_every_event_with_every_method(name):
    """One vector per edge; a pace per epoch; a slope recalled where there is no checkpoint."""
    views, method = [], scenarios.METHODS[name]
    events = [*EVENTS, bq.Crash(5, 190), bq.Return(5, 220)]
    common = {"departures": events, "rounds": 250, "method": method, "checkpoint_every": None}
    run = bq.solve(PROBLEM, GRAPH, engine=Ray(nodes_per_host=5, watch=views.append), **common)
    domains = {node: views[0].hosts[f"host {node // 5}"].machine for node in range(20)}
    loop = bq.solve(PROBLEM, GRAPH, engine=Loop(hosts=domains), **common)
    assert same(run, loop)
    recalled = "recall" if method.is_exact else "none"
    assert {record.node: record.choice for record in run.departures}[5] == recalled
    assert len(run.departures) == 6
    assert len(run.changes) == 4


def test_minibatches_and_samples_that_are_replayed():
    """Which samples a round takes is in its key, and which points an heir draws, in its legacy."""
    rng = np.random.default_rng(3)
    silos = []
    for i in range(20):
        X = rng.standard_normal((12, 4)) + 0.1 * i
        loss = bq.Softmax(X, np.digitize(X[:, 0], [0.0, 1.0]), 3, 0.05)
        silos.append(bq.Minibatches(loss, 3, seed=5, full_every=None if i % 2 else 7))
    losses, views = bq.Problem(silos), []
    common = {"departures": EVENTS, "rounds": 200, "will": bq.wills.Replay(rank=2)}
    run = bq.solve(losses, GRAPH, engine=Ray(nodes_per_host=5, watch=views.append), **common)
    domains = {node: views[0].hosts[f"host {node // 5}"].machine for node in range(20)}
    loop = bq.solve(losses, GRAPH, engine=Loop(hosts=domains), **common)
    assert same(run, loop)
    assert run.invariant_gap.max() < 1e-11


def test_another_placement_changes_no_bit():
    scattered = {node: f"host {node % 3}" for node in range(20)}
    loop = bq.solve(PROBLEM, GRAPH, engine=Loop(), rounds=150)
    for options in ({"placement": scattered}, {"nodes_per_host": 20}):
        run = bq.solve(PROBLEM, GRAPH, engine=Ray(**options), rounds=150)
        assert same(run, loop), options


def test_a_diverging_run_ends_and_says_so():
    method = bq.GradientTracking(step=10.0)
    run = bq.solve(PROBLEM, GRAPH, engine=Ray(nodes_per_host=10), rounds=5000, method=method)
    assert run.status is bq.Status.DIVERGED


def test_small_ones():
    one = bq.Problem([bq.Quadratic([[2.0]], [3.0])])
    run = bq.solve(one, [], engine=Ray(), rounds=80)
    assert run.error[-1] < 1e-9
    two = bq.Problem([bq.Quadratic([[2.0]], [3.0]), bq.Quadratic([[1.0]], [0.0])])
    run = bq.solve(
        two, [(0, 1)], engine=Ray(nodes_per_host=1), rounds=80, departures=[bq.Departure(0, 40)]
    )
    assert run.survivors == (1,)
    assert run.error[-1] < 1e-9
    assert bq.solve(two, [(0, 1)], engine=Ray(), rounds=0).survivors == (0, 1)
