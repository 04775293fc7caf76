"""An heir that inherits much curvature must not break convergence, and no node inherits it all."""

import numpy as np
import pytest

import bequest as bq

WILLS = {
    "consensus": bq.wills.Consensus(),
    "drift": bq.wills.Drift(),
    "sketch": bq.wills.Drift(rank=2),
    "full": bq.wills.FullHessian(),
    "adaptive": bq.wills.Adaptive(),
    "trust": bq.wills.Trust(),
}


def loaded(will, *, step=None, rounds=4000):
    """A star whose leaves leave one after the other: whichever leaves, the hub inherits."""
    problem = bq.problems.quadratics(n=12, dim=6, mu=1.0, L=20.0, seed=3, basis="tilted")
    leaving = [bq.Departure(node, 20 + 10 * node) for node in range(1, 11)]
    return bq.solve(
        problem,
        bq.graphs.star(12),
        departures=leaving,
        will=will,
        method=bq.GradientTracking(step=step),
        rounds=rounds,
    )


@pytest.mark.parametrize("name", WILLS)
def test_a_chosen_step_is_lowered_for_an_heir_that_has_become_too_stiff(name):
    run = loaded(WILLS[name])
    assert run.status is bq.Status.CONVERGED
    assert set(run.inherited[0].lineage) == set(range(1, 11))
    # lowered again and again, for every node after the same round, each time with the reason
    values = [step.value for step in run.steps]
    assert len(values) > 3
    assert values == sorted(values, reverse=True)
    departures = {record.round for record in run.departures}
    assert {step.since for step in run.steps[1:]} <= departures
    assert all("node 0 now carries smoothness" in step.why for step in run.steps[1:])
    stiffness = run.problem.b[0] + run.inherited[0].curvature[1]
    assert run.step <= 1.0 / stiffness * 2  # never beyond what is stable at w >= 0
    assert np.linalg.norm(run.x - run.limit, axis=1).max() <= 1e-6


def test_a_step_that_nobody_lowers_breaks_down_under_the_same_load():
    step = 0.03
    alone = bq.solve(
        loaded(WILLS["consensus"], rounds=120).problem,
        bq.graphs.star(12),
        method=bq.GradientTracking(step=step),
        rounds=4000,
    )
    assert alone.status is not bq.Status.DIVERGED  # it was safe before any node left
    assert loaded(WILLS["consensus"], step=step).status is bq.Status.DIVERGED


def test_heirs_are_balanced():
    """Where there is a choice no node inherits from two while a neighbour has inherited nothing."""
    problem = bq.problems.quadratics(n=12, dim=3, mu=1.0, L=5.0, seed=0)
    leaving = [bq.Departure(node, 5 * node) for node in range(7, 12)]
    run = bq.solve(
        problem, bq.graphs.complete(12), departures=leaving, will=bq.wills.Drift(rank=1), rounds=200
    )
    assert [len(legacy.lineage) for legacy in run.inherited.values()] == [1] * 5
