"""Crashes, returns, joins and forgets: the vector engine does what the reference does."""

from collections import Counter

import numpy as np
import pytest
import reference
import scenarios
import translation
from seeds import seeds

import bequest as bq

DRIFT = [bq.wills.Drift(), bq.wills.Drift(rank=1), bq.wills.Drift(rank=2), bq.wills.FullHessian()]
QUICK = 80


def minimiser(problem):
    """The optimum of the sum of some losses, remembered."""
    known = {}

    def find(nodes):
        if nodes not in known:
            losses = [problem.objective(node) for node in sorted(nodes)]
            known[nodes] = bq.Problem(losses).optimum()
        return known[nodes]

    return find


def pilot_of(scene):
    zeta = float(scene.problem.heterogeneity().max())
    return bq.Pilot(radius=2.0, theta=0.05, zeta=zeta, spread=3.0)


def solved(scene, wills, **options):
    return bq.solve(
        scene.problem,
        scene.graph,
        departures=scene.departures,
        will=wills,
        rounds=scene.rounds,
        start=scene.start,
        pilot=pilot_of(scene),
        optimum="always",
        **{"method": bq.GradientTracking(step=scene.step), **options},
    )


def both(scene, wills, method=None, **options):
    how = {} if method is None else {"method": method}
    run, pilot = solved(scene, wills, **how, **options), pilot_of(scene)
    truth = reference.run_events(
        scene.objectives,
        [tuple(edge) for edge in scene.graph.edges.tolist()],
        [translation.event(one) for one in scene.departures],
        {
            (record.node, record.round): translation.as_decided(record)
            if isinstance(wills[record.node], scenarios.BEYOND)
            else translation.spec(wills[record.node])
            for record in run.departures
            if record.node in wills
        },
        scene.rounds,
        optimum_of=minimiser(scene.problem),
        start=scene.start,
        pilot=reference.Pilot(pilot.radius, pilot.theta, pilot.zeta, pilot.spread),
        **translation.method(run),
        **{"recalls" if name == "recall" else name: value for name, value in options.items()},
    )
    return run, truth


def assert_same(run, truth, tolerance=1e-10):
    scale = 1.0 + max(np.abs(truth.X).max(), np.abs(truth.error).max())
    assert list(run.survivors) == truth.survivors
    np.testing.assert_allclose(run.x, truth.X, rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(run.error, truth.error, rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(run.invariant_gap, truth.gap, rtol=1e-9, atol=1e-9 * scale)
    assert set(run.lost) == truth.lost
    assert set(run.inherited) == set(truth.inherited)
    for heir, legacy in run.inherited.items():
        quad = truth.inherited[heir]
        assert set(legacy.lineage) == quad.members
        assert legacy.blended == quad.blended
        stiff = 1 + float(np.abs(quad.H).max())
        np.testing.assert_allclose(legacy.hessian(), quad.H, rtol=1e-9, atol=1e-9 * stiff)
        np.testing.assert_allclose(legacy.p, quad.p, rtol=1e-9, atol=1e-9 * scale * stiff)
        assert legacy.c == pytest.approx(quad.c, rel=1e-7, abs=1e-7 * scale**2 * stiff)
    assert len(run.departures) == len(truth.departures)
    for mine, theirs in zip(run.departures, truth.departures, strict=True):
        for name in ("node", "round", "heir", "choice"):
            assert getattr(mine, name) == theirs[name]
        if mine.will != "none":  # without a will there is nothing to checkpoint
            assert mine.checkpoint == theirs["checkpoint"]
        assert {tuple(sorted(edge)) for edge in mine.bridges} == set(theirs["edges_added"])
        assert set(mine.lost) == set(theirs["lost"])
        assert mine.bounds == pytest.approx(theirs["bounds"], rel=1e-6, abs=1e-9)
    assert len(run.changes) == len(truth.changes)
    for mine, theirs in zip(run.changes, truth.changes, strict=True):
        for name in ("kind", "node", "round", "holder", "sponsor", "exact"):
            assert getattr(mine, name) == theirs[name]
        assert list(mine.neighbours) == theirs["neighbours"]


def options_of(rng):
    return {
        "buddies": int(rng.choice([0, 1, 1, 2, 3])),
        "checkpoint_every": [None, 1, 3, 7, 20][int(rng.integers(5))],
    }


@pytest.mark.parametrize("seed", seeds(range(200), quick=QUICK))
def test_all_events_with_a_will_of_its_own_for_every_node(seed):
    scene = scenarios.membership(seed)
    rng = np.random.default_rng([seed, 2])
    names = rng.choice(list(scenarios.WILLS), size=len(scene.objectives))
    wills = {node: scenarios.WILLS[name] for node, name in enumerate(names)}
    assert_same(*both(scene, wills, **options_of(rng)))


@pytest.mark.parametrize("seed", seeds(range(1000, 1120), quick=40))
def test_all_events_with_sketched_legacies(seed):
    scene = scenarios.membership(seed)
    rng = np.random.default_rng([seed, 2])
    known = [*DRIFT, *DRIFT, *scenarios.WILLS.values()]
    wills = {node: known[int(rng.integers(len(known)))] for node in range(len(scene.objectives))}
    assert_same(*both(scene, wills, **options_of(rng)), tolerance=1e-9)


@pytest.mark.parametrize("seed", seeds(range(3000, 3060), quick=15))
@pytest.mark.parametrize("name", scenarios.METHODS)
def test_all_events_with_every_method(name, seed):
    """With a pace that is chosen for every epoch: the reference checks that it is stable."""
    scene = scenarios.membership(seed)
    rng = np.random.default_rng([seed, 2])
    known = [*scenarios.WILLS.values(), *DRIFT]
    wills = {node: known[int(rng.integers(len(known)))] for node in range(len(scene.objectives))}
    run, truth = both(scene, wills, method=scenarios.METHODS[name], **options_of(rng))
    assert_same(run, truth, tolerance=1e-9)


@pytest.mark.parametrize("recall", [True, False])
@pytest.mark.parametrize("seed", seeds(range(4000, 4040), quick=8))
@pytest.mark.parametrize("name", scenarios.METHODS)
def test_crashes_without_a_checkpoint_with_every_method(name, seed, recall):
    """What the others lack is recalled, passed on, given back and forgotten; or is not."""
    scene = scenarios.membership(seed, rounds=100)
    wills = dict.fromkeys(range(len(scene.objectives)), bq.wills.Consensus())
    method = scenarios.METHODS[name]
    run, truth = both(scene, wills, method=method, recall=recall, checkpoint_every=None)
    assert_same(run, truth, tolerance=1e-9)
    recalled = [record for record in run.departures if record.choice == "recall"]
    assert recall or not recalled


@pytest.mark.parametrize("seed", seeds(range(2000, 2030), quick=10))
def test_who_crashes_without_a_will_leaves_nothing_of_its_own(seed):
    scene = scenarios.membership(seed)
    graceful = {one.node for one in scene.departures if isinstance(one, bq.Departure)}
    run, truth = both(scene, dict.fromkeys(graceful, bq.wills.Consensus()))
    assert_same(run, truth)
    for record in run.departures:
        if record.node not in graceful:
            assert record.node in record.lost
            assert record.legacy is None


@pytest.mark.parametrize("name", scenarios.METHODS)
def test_the_scenarios_without_checkpoints_have_what_they_are_for(name):
    """A slope is recalled, given back, erased and passed on; and it is doubted."""
    seen = Counter()
    for seed in range(4000, 4040):
        scene = scenarios.membership(seed, rounds=100)
        wills = dict.fromkeys(range(len(scene.objectives)), bq.wills.Consensus())
        run = solved(scene, wills, method=scenarios.METHODS[name], checkpoint_every=None)
        recalled = {record.node for record in run.departures if record.choice == "recall"}
        seen["recalled"] += bool(recalled)
        seen["doubted"] += any("not to be trusted" in record.why for record in run.departures)
        for change in run.changes:
            seen[change.kind] += change.node in recalled and change.holder is not None
        seen["passed on"] += any(recalled & set(record.passed_on) for record in run.departures)
        if not scenarios.METHODS[name].is_exact:
            # nothing flows: only a node that has taken its memory back has something to leave
            assert recalled <= {change.node for change in run.changes if change.kind == "return"}
    if scenarios.METHODS[name].is_exact:
        assert min(seen[what] for what in ("recalled", "doubted", "return", "forget")) >= 3, seen
        assert seen["passed on"] >= 3, seen


def test_the_scenarios_exercise_what_they_claim_to():
    """Every kind of event, chains, bridges, losses, mixed losses: each occurs many times."""
    seen = Counter()
    for seed in range(QUICK):
        scene = scenarios.membership(seed)
        rng = np.random.default_rng([seed, 2])
        wills = dict.fromkeys(range(len(scene.objectives)), bq.wills.Consensus())
        run = solved(scene, wills, **options_of(rng))
        seen.update({change.kind for change in run.changes})
        seen.update({"crash"} if any(record.crashed for record in run.departures) else ())
        crashed = [record for record in run.departures if record.crashed]
        rounds = [record.round for record in crashed]
        seen["crashed together"] += len(set(rounds)) < len(rounds)
        seen["crash and departure"] += any(
            record.round in rounds for record in run.departures if not record.crashed
        )
        seen["adopted from an heir"] += any(record.passed_on for record in crashed)
        seen["lost"] += any(record.lost for record in crashed)
        seen["bridged"] += any(record.bridges for record in crashed)
        seen["withdrawn from a chain"] += any(
            change.holder is not None
            and change.holder
            not in {record.heir for record in run.departures if record.node == change.node}
            for change in run.changes
        )
        left = [record.node for record in run.departures]
        seen["left again"] += len(set(left)) < len(left)
        seen["target moved"] += len(run.optima) > 1
        seen["inherited, then crashed before the next checkpoint"] += any(
            record.checkpoint in {other.round for other in run.departures} for record in crashed
        )
    assert min(seen.values()) >= 5, seen
    assert len(seen) == 13, seen
