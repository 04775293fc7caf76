"""The vector engine does what the per-node reference does, departure by departure."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import reference
import scenarios
import translation
from seeds import seeds

import bequest as bq
from bequest.core import history

SEEDS = range(60)


def pilot_of(scene: scenarios.Scenario) -> bq.Pilot:
    zeta = float(scene.problem.heterogeneity().max())
    return bq.Pilot(radius=2.0, theta=0.05, zeta=zeta, spread=3.0)


def solved(scene: scenarios.Scenario, wills: dict, method=None) -> bq.Run:
    return bq.solve(
        scene.problem,
        scene.graph,
        departures=scene.departures,
        will=wills,
        method=bq.GradientTracking(step=scene.step) if method is None else method,
        rounds=scene.rounds,
        start=scene.start,
        pilot=pilot_of(scene),
        optimum="always",
    )


def both(scene: scenarios.Scenario, wills: dict, method=None):
    run, pilot = solved(scene, wills, method), pilot_of(scene)
    truth = reference.run(
        scene.objectives,
        [tuple(edge) for edge in scene.graph.edges.tolist()],
        [(event.node, event.round) for event in scene.departures],
        {
            record.node: translation.as_decided(record)
            if isinstance(wills[record.node], scenarios.BEYOND)
            else translation.spec(wills[record.node])
            for record in run.departures
        },
        scene.rounds,
        optimum=scene.problem.optimum(),
        start=scene.start,
        pilot=reference.Pilot(pilot.radius, pilot.theta, pilot.zeta, pilot.spread),
        **translation.method(run),
    )
    return run, truth


def assert_same(run: bq.Run, truth: reference.ReferenceRun) -> None:
    scale = 1.0 + max(np.abs(truth.X).max(), np.abs(truth.error).max())
    assert list(run.survivors) == truth.survivors
    np.testing.assert_allclose(run.x, truth.X, rtol=0, atol=1e-9 * scale)
    np.testing.assert_allclose(run.error, truth.error, rtol=0, atol=1e-9 * scale)
    np.testing.assert_allclose(run.invariant_gap, truth.gap, rtol=1e-9, atol=1e-9 * scale)
    assert set(run.lost) == truth.lost
    assert set(run.inherited) == set(truth.inherited)
    for heir, legacy in run.inherited.items():
        quad = truth.inherited[heir]
        assert set(legacy.lineage) == quad.members
        stiff = 1 + float(np.abs(quad.H).max())
        np.testing.assert_allclose(legacy.hessian(), quad.H, rtol=1e-9, atol=1e-9 * stiff)
        np.testing.assert_allclose(legacy.p, quad.p, rtol=1e-9, atol=1e-9 * scale * stiff)
        assert legacy.c == pytest.approx(quad.c, rel=1e-7, abs=1e-7 * scale**2 * stiff)
    assert len(run.departures) == len(truth.departures)
    for mine, theirs in zip(run.departures, truth.departures, strict=True):
        assert (mine.node, mine.round, mine.heir) == (
            theirs["node"],
            theirs["round"],
            theirs["heir"],
        )
        assert mine.choice == theirs["choice"]
        assert {tuple(sorted(edge)) for edge in mine.bridges} == set(theirs["edges_added"])
        assert set(mine.lost) == set(theirs["lost"])
        assert mine.bounds == pytest.approx(theirs["bounds"], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", scenarios.WILLS)
@pytest.mark.parametrize("seed", seeds(SEEDS, quick=10))
def test_every_will_agrees_with_the_reference(name, seed):
    scene = scenarios.scenario(seed)
    wills = {event.node: scenarios.WILLS[name] for event in scene.departures}
    assert_same(*both(scene, wills))


@pytest.mark.parametrize("seed", seeds(range(1000, 1060), quick=30))
def test_a_will_of_its_own_for_every_node_agrees_with_the_reference(seed):
    scene = scenarios.scenario(seed)
    rng = np.random.default_rng([seed, 1])
    names = rng.choice(list(scenarios.WILLS), size=len(scene.departures))
    wills = {
        event.node: scenarios.WILLS[name]
        for event, name in zip(scene.departures, names, strict=True)
    }
    assert_same(*both(scene, wills))


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("seed", seeds(range(3000, 3030), quick=5))
@pytest.mark.parametrize("name", scenarios.METHODS)
def test_every_method_agrees_with_the_reference(name, seed, given):
    """With a pace of its own choice, and with one that is given and never changes."""
    scene = scenarios.scenario(seed)
    rng = np.random.default_rng([seed, 1])
    names = rng.choice(list(scenarios.WILLS), size=len(scene.departures))
    wills = {
        event.node: scenarios.WILLS[name]
        for event, name in zip(scene.departures, names, strict=True)
    }
    method = scenarios.METHODS[name]
    if given:
        stiffest = max(loss.curvature.b for loss in scene.objectives)
        pace = {"coupling": stiffest / 3} if hasattr(method, "coupling") else {"step": scene.step}
        method = replace(method, **pace)
    run, truth = both(scene, wills, method)
    assert_same(run, truth)
    assert run.steps[0].why == "as given" if given else len(run.steps) >= 1


DRIFT = {
    "drift": bq.wills.Drift(),
    "drift, rank 1": bq.wills.Drift(rank=1),
    "drift, rank 2": bq.wills.Drift(rank=2),
    "full": bq.wills.FullHessian(),
}


@pytest.mark.parametrize("name", DRIFT)
@pytest.mark.parametrize("seed", seeds(SEEDS, quick=15))
def test_sketched_legacies_are_carried_like_the_reference_carries_them(name, seed):
    """Sketches, full Hessians and compressed chains: the same numbers, node by node.

    What a will decides from its path is ill-conditioned by nature (it explains a tracker by
    nearly collinear differences), so the reference is told the decision and does the rest.
    """
    scene = scenarios.scenario(seed)
    wills = {event.node: DRIFT[name] for event in scene.departures}
    assert_same(*both(scene, wills))


@pytest.mark.parametrize("seed", seeds(range(2000, 2040), quick=20))
def test_sketched_and_isotropic_legacies_mix(seed):
    scene = scenarios.scenario(seed)
    rng = np.random.default_rng([seed, 1])
    known = DRIFT | {name: scenarios.WILLS[name] for name in scenarios.WILLS}
    names = rng.choice(list(known), size=len(scene.departures))
    wills = {e.node: known[name] for e, name in zip(scene.departures, names, strict=True)}
    assert_same(*both(scene, wills))


def test_a_leaver_remembers_the_rounds_that_a_node_would_have_kept():
    """The pairs in an estate are those of the node's own rounds, bit for bit, and no others."""
    seen = {}

    class Spy(bq.wills.Drift):
        def decide(self, estate):
            seen[estate.node] = estate
            return super().decide(estate)

    problem = bq.problems.quadratics(n=6, dim=3, mu=1.0, L=9.0, seed=1)
    graph = bq.graphs.ring(6)
    leaving = [bq.Departure(2, 60), bq.Departure(4, 100)]
    # slow enough to predict from
    solve = partial(bq.solve, problem, graph, will=Spy(), method=bq.GradientTracking())

    def state(t, departures):
        """Every node's x after t rounds, from a run that ends there."""
        run = solve(departures=departures, rounds=t)
        return dict(zip(run.survivors, run.x, strict=True))

    solve(departures=leaving, rounds=150)
    first, second = seen[2], seen[4]
    assert len(first.recent) == len(second.recent) == 16
    for estate, epoch, departures in ((first, (0, 60), []), (second, (60, 100), leaving[:1])):
        begin, end = epoch
        ages = history.kept(end - begin)[::-1]
        np.testing.assert_array_equal(estate.recent.X[0], estate.x)
        np.testing.assert_array_equal(estate.recent.Z[0], estate.z)
        for row, age in enumerate(ages):
            expected = state(begin + age, departures)[estate.node]
            np.testing.assert_array_equal(estate.recent.X[row], expected)
    assert first.carried is None
    assert second.carried is not None  # the first epoch was long enough to predict from


@pytest.mark.parametrize("name", ["classic", "consensus", "local-track", "adaptive oracle"])
@pytest.mark.parametrize("start", ["zeros", "one point", "one per node"])
def test_networks_beyond_every_threshold_agree_with_the_reference(name, start):
    """Large enough for sparse products, block-diagonal gradients and short windows."""
    rng = np.random.default_rng(5)
    n, dim = 140, 3
    x0 = {"zeros": np.zeros(dim), "one point": rng.standard_normal(dim)}
    scene = scenarios.Scenario(
        scenarios.objectives(rng, n, dim, mixed=False),
        bq.graphs.random_regular(n, 4, seed=3),
        [bq.Departure(node, 4 + node % 3) for node in range(0, n, 10)],
        rounds=12,
        step=0.05,
        start=x0.get(start, rng.standard_normal((n, dim))),
    )
    wills = {event.node: scenarios.WILLS[name] for event in scene.departures}
    assert_same(*both(scene, wills))


def test_the_scenarios_exercise_what_they_claim_to():
    """Simultaneous, chained and bridged departures, mixed losses: each occurs many times."""
    seen = {"together": 0, "chained": 0, "bridged": 0, "mixed": 0, "to a leaver": 0}
    for seed in SEEDS:
        scene = scenarios.scenario(seed)
        wills = {event.node: bq.wills.Consensus() for event in scene.departures}
        run = solved(scene, wills)
        rounds = [event.round for event in scene.departures]
        leaves = {record.node: record.round for record in run.departures}
        seen["together"] += len(set(rounds)) < len(rounds)
        seen["chained"] += any(record.passed_on for record in run.departures)
        seen["bridged"] += any(record.bridges for record in run.departures)
        seen["mixed"] += len({type(loss) for loss in scene.objectives}) > 2
        seen["to a leaver"] += any(
            leaves.get(record.heir) == record.round for record in run.departures
        )
    assert min(seen.values()) >= 3, seen
