"""The hand-off as printed: what it does, and that it is an ablation."""

import numpy as np
import pytest
import reference
import scenarios
from translation import spec

import bequest as bq
from bequest.core import rounds
from bequest.paper import printed
from bequest.paper.printed import PrintedHandoff

WILLS = {"consensus": bq.wills.Consensus(), "local": bq.wills.LocalTrack()}


def test_the_printed_correction_is_exact_for_the_iterate_and_for_no_other_anchor():
    rng = np.random.default_rng(0)
    f = bq.Quadratic(np.diag([1.0, 5.0]), [3.0, -2.0])
    x_leaver, x_heir, z_leaver, z_heir = rng.standard_normal((4, 2))
    for anchor, exact in ((x_leaver, True), (x_leaver + 1.0, False)):
        legacy = bq.Legacy.anchored(
            0, anchor=anchor, value=f.value(anchor), gradient=f.gradient(anchor), eta=3.0
        )
        surplus = rounds.surplus(z_leaver, f.gradient(x_leaver))
        ours = rounds.receive(x_heir, z_heir, legacy, surplus)
        corrected = printed.receive(x_heir, z_heir, legacy, z_leaver, anchor)
        assert np.allclose(ours, corrected, atol=1e-12) is exact


@pytest.mark.parametrize("name", WILLS)
@pytest.mark.parametrize("seed", range(60))
def test_it_agrees_with_the_reference(name, seed):
    scene = scenarios.scenario(seed)
    will = spec(WILLS[name]) | {"handoff": "printed"}
    run = bq.solve(
        scene.problem,
        scene.graph,
        departures=scene.departures,
        will=WILLS[name],
        method=bq.GradientTracking(step=scene.step),
        rounds=scene.rounds,
        start=scene.start,
        optimum="always",
        engine=PrintedHandoff(),
    )
    truth = reference.run(
        scene.objectives,
        [tuple(edge) for edge in scene.graph.edges.tolist()],
        [(event.node, event.round) for event in scene.departures],
        dict.fromkeys((event.node for event in scene.departures), will),
        scene.rounds,
        scene.step,
        scene.problem.optimum(),
        start=scene.start,
    )
    scale = 1.0 + max(np.abs(truth.X).max(), np.abs(truth.error).max())
    np.testing.assert_allclose(run.x, truth.X, rtol=0, atol=1e-9 * scale)
    np.testing.assert_allclose(run.error, truth.error, rtol=0, atol=1e-9 * scale)
    np.testing.assert_allclose(run.invariant_gap, truth.gap, rtol=1e-9, atol=1e-9 * scale)
    assert set(run.lost) == truth.lost == set()
    assert {heir: set(legacy.lineage) for heir, legacy in run.inherited.items()} == {
        heir: set(quad.members) for heir, quad in truth.inherited.items()
    }
    assert not any(record.exact_handoff for record in run.departures)


def test_it_leaves_a_gap_for_ever():
    problem = bq.problems.quadratics(n=20, dim=10, mu=1.0, L=10.0, seed=3)
    graph = bq.graphs.ring_with_chords(20, chords=15, seed=3)
    leaving = bq.departures.most_heterogeneous(problem, rounds=[100, 200])
    run = bq.solve(
        problem,
        graph,
        departures=leaving,
        will=bq.wills.LocalTrack(),
        rounds=2000,
        engine=PrintedHandoff(),
    )
    assert run.invariant_gap[99] < 1e-11
    assert run.invariant_gap[-1] > 10
    assert run.invariant_gap[-1] == pytest.approx(run.invariant_gap[200], rel=1e-9)
    assert np.linalg.norm(run.x - run.limit, axis=1).max() > 0.1
    assert run.status == "unfinished"
    assert run.provenance["engine"] == "PrintedHandoff()"


def test_it_promises_nothing():
    problem = bq.Problem([bq.Quadratic(k * np.eye(2), [float(k), 0.0]) for k in (1, 2, 3, 4)])
    run = bq.solve(
        problem,
        bq.graphs.ring(4),
        departures=[bq.Departure(1, 3)],
        will=bq.wills.LocalTrack(),
        rounds=400,
        engine=PrintedHandoff(),
    )
    assert run.error[-1] > 1e-3
    assert all(bound.holds is None for bound in run.certificate)


def test_a_bequest_without_an_anchor_is_handed_over_as_everywhere_else():
    problem = bq.problems.quadratics(n=4, dim=2, mu=1.0, L=4.0, seed=1)
    for will in (bq.wills.Classic(), bq.wills.Forgetful()):
        runs = [
            bq.solve(
                problem,
                bq.graphs.ring(4),
                departures=[bq.Departure(1, 5), bq.Crash(2, 8)],
                will=will,
                rounds=10,
                engine=engine,
            )
            for engine in (bq.engines.Vector(), PrintedHandoff())
        ]
        np.testing.assert_array_equal(runs[0].x, runs[1].x)
        assert all(record.exact_handoff for record in runs[1].departures)
