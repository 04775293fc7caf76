"""The vector engine does what the per-node reference does, departure by departure."""

import numpy as np
import pytest
import reference
import scenarios

import bequest as bq

SEEDS = range(60)


def spec(will: bq.wills.Will) -> dict:
    """The reference's words for a will."""
    kinds = {
        bq.wills.Classic: "classic",
        bq.wills.Forgetful: "forgetful",
        bq.wills.Consensus: "consensus",
        bq.wills.LocalTrack: "local-track",
        bq.wills.PointOnly: "point-only",
        bq.wills.Adaptive: "adaptive",
    }
    options = {
        name: getattr(will, name)
        for name in ("handoff", "cap", "rule", "drop")
        if hasattr(will, name)
    }
    return {"kind": kinds[type(will)], **options}


def both(scene: scenarios.Scenario, wills: dict):
    problem = scene.problem
    pilot = bq.Pilot(radius=2.0, theta=0.05, zeta=float(problem.heterogeneity().max()), spread=3.0)
    run = bq.solve(
        problem,
        scene.graph,
        departures=scene.departures,
        will=wills,
        method=bq.GradientTracking(step=scene.step),
        rounds=scene.rounds,
        start=scene.start,
        pilot=pilot,
    )
    truth = reference.run(
        scene.objectives,
        [tuple(edge) for edge in scene.graph.edges.tolist()],
        [(event.node, event.round) for event in scene.departures],
        {event.node: spec(wills[event.node]) for event in scene.departures},
        scene.rounds,
        scene.step,
        problem.optimum(),
        start=scene.start,
        pilot=reference.Pilot(pilot.radius, pilot.theta, pilot.zeta, pilot.spread),
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
        assert legacy.eta == pytest.approx(quad.eta, rel=1e-9)
        np.testing.assert_allclose(legacy.p, quad.p, rtol=1e-9, atol=1e-9 * scale * (1 + quad.eta))
        assert legacy.c == pytest.approx(quad.c, rel=1e-7, abs=1e-7 * scale * (1 + quad.eta))
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
@pytest.mark.parametrize("seed", SEEDS)
def test_every_will_agrees_with_the_reference(name, seed):
    scene = scenarios.scenario(seed)
    wills = {event.node: scenarios.WILLS[name] for event in scene.departures}
    assert_same(*both(scene, wills))


@pytest.mark.parametrize("seed", range(1000, 1060))
def test_a_will_of_its_own_for_every_node_agrees_with_the_reference(seed):
    scene = scenarios.scenario(seed)
    rng = np.random.default_rng([seed, 1])
    names = rng.choice(list(scenarios.WILLS), size=len(scene.departures))
    wills = {
        event.node: scenarios.WILLS[name]
        for event, name in zip(scene.departures, names, strict=True)
    }
    assert_same(*both(scene, wills))


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
        run, _ = both(scene, wills)
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
