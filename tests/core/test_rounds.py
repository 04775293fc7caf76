"""The invariant: exact for every anchor, every curvature, and for no legacy at all."""

import numpy as np
import pytest
import scenarios
from hypothesis import given, settings
from hypothesis import strategies as st

import bequest as bq
from bequest.core import rounds as core_rounds
from bequest.core.anchors import local_track


@given(st.integers(0, 10**6), st.floats(0, 1e3), st.booleans())
@settings(deadline=None)
def test_prop_invariant_holds_for_every_anchor_and_curvature(seed, eta, remembered):
    """Before: sum z = sum grad h. After the leaver's row is gone: the same, to rounding."""
    rng = np.random.default_rng(seed)
    n, d = 6, 4
    X, Z, G = rng.standard_normal((3, n, d))
    Z += (G - Z).mean(axis=0)  # any trackers that sum to the gradients
    legacy = bq.Legacy.zero(d)
    if remembered:
        anchor, gradient = 10 * rng.standard_normal((2, d))
        legacy = bq.Legacy.anchored(0, anchor=anchor, value=1.0, gradient=gradient, eta=eta)
    surplus = core_rounds.surplus(Z[0], G[0])
    Z[1] = core_rounds.receive(X[1], Z[1], legacy, surplus)
    G[1] += legacy.gradient(X[1])
    gap = Z[1:].sum(axis=0) - G[1:].sum(axis=0)
    np.testing.assert_allclose(gap, 0, atol=1e-12 * (1 + eta) * 10)


def test_the_local_track_descends_to_the_own_minimiser():
    f = bq.Quadratic(np.diag([1.0, 4.0]), [3.0, -2.0])
    after_one = local_track(f.gradient, np.zeros(2), smoothness=4.0, rounds=1)
    np.testing.assert_allclose(after_one, [0.75, -2.0])
    np.testing.assert_allclose(
        local_track(f.gradient, np.zeros(2), smoothness=4.0, rounds=10**9), f.c, atol=1e-14
    )
    assert local_track(f.gradient, np.ones(2), smoothness=0.0, rounds=5).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_a_leavers_own_descent_takes_steps_of_one_over_its_largest_curvature(rounds):
    """Of 1/2 h (x - c)^2 with h = L one step is enough; with less, 1 - h/L is left by each."""
    f = bq.Quadratic(np.diag([1.0, 4.0]), [3.0, -2.0])
    seen = []

    class Spy(bq.wills.LocalTrack):
        def decide(self, estate):
            seen.append(estate.local_track)
            return super().decide(estate)

    bq.solve(
        bq.Problem([f, bq.Quadratic(np.eye(2), [0.0, 0.0])]),
        bq.graphs.path(2),
        departures=[bq.Departure(0, rounds)],
        will=Spy(),
        rounds=rounds,
    )
    (track,) = seen
    np.testing.assert_allclose(track, [3.0 * (1 - 0.75**rounds), -2.0], rtol=1e-14)


@pytest.mark.parametrize("name", scenarios.WILLS)
@pytest.mark.parametrize("seed", range(200, 230))
def test_the_gap_stays_at_rounding_through_every_kind_of_departure(name, seed):
    scene = scenarios.scenario(seed, rounds=120)
    run = bq.solve(
        scene.problem,
        scene.graph,
        departures=scene.departures,
        will=scenarios.WILLS[name],
        method=bq.GradientTracking(step=scene.step),
        rounds=scene.rounds,
        start=scene.start,
    )
    everything = sum(
        np.linalg.norm(loss.gradient(np.zeros(loss.dim))) + loss.curvature.b
        for loss in scene.objectives
    )
    heaviest = max([0.0, *(legacy.eta for legacy in run.inherited.values())])
    assert run.invariant_gap.max() <= 1e-12 * (1 + everything + heaviest)
