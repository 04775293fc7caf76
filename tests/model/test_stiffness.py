"""Quadratics of losses that are not convex: no stiffer and no softer than the loss on the way."""

from dataclasses import replace

import numpy as np
import pytest
from dents import EARLY, GRAPH, LATE, LEAVER, QUADRATICS, STEP, Insistent, left

import bequest as bq
from bequest.core.legacy import Legacy
from bequest.model.wills import decision
from bequest.model.wills.stiffness import clipped

ROOM = 0.5


def seen_by(will):
    """Return the same will, and the list of the estates that it is going to see."""
    seen = []

    class Watched(type(will)):
        label = "watched"

        def decide(self, estate):
            seen.append(estate)
            return super().decide(estate)

    return Watched(**vars(will)), seen


def turned(estate, s):
    """Return |Hs|/|s|, with the whole Hessian."""
    return np.linalg.norm(estate.objective.hessian(estate.x) @ s) / np.linalg.norm(s)


@pytest.mark.parametrize("will", QUADRATICS, ids=lambda will: will.title)
def test_what_has_not_settled_is_curved_as_on_the_way(will):
    watched, seen = seen_by(will)
    (record,) = left(watched, EARLY, alike=False).departures
    (estate,) = seen
    s, _ = estate.recent.movement(32)
    least, most = record.legacy.curvature
    assert least == pytest.approx(turned(estate, s), rel=1e-4)
    assert STEP * most <= ROOM
    at, loss = record.anchor, estate.objective
    np.testing.assert_allclose(record.legacy.gradient(at), loss.gradient(at), atol=1e-9)
    assert record.legacy.value(at) == pytest.approx(loss.value(at), rel=1e-9)


def test_a_midpoint_that_is_softer_than_the_way_is_raised_and_the_record_says_so():
    (record,) = left(bq.wills.Consensus(), EARLY, alike=False).departures
    (insisted,) = left(Insistent(), EARLY, alike=False).departures
    assert insisted.legacy.eta == pytest.approx((1 - 1 / 8) / 2)
    assert "on the way" not in insisted.why
    assert record.legacy.eta != insisted.legacy.eta
    assert f"that on the way, {record.legacy.eta:.3g}, instead of 0.438" in record.why


def test_a_network_that_has_settled_keeps_its_own_curvature():
    (record,) = left(bq.wills.Consensus(), LATE, alike=False).departures
    assert record.legacy.eta == pytest.approx((1 - 1 / 8) / 2)
    (whole,) = left(bq.wills.FullHessian(), LATE, alike=False).departures
    assert "on the way" not in whole.why


class Stiff(bq.wills.Will):
    """Far stiffer than any step allows, in one direction or in all."""

    def __init__(self, *, alike):
        self.alike = alike

    def decide(self, estate):
        eta, factor = (1e3, None) if self.alike else (0.1, 30 * np.eye(4)[:, :1])
        legacy = estate.anchored_at(estate.x, eta, factor)
        return bq.wills.Bequest("sketch", "stiff", legacy, estate.x)


@pytest.mark.parametrize("leaves", [EARLY, LATE])
@pytest.mark.parametrize("alike", [True, False])
def test_no_quadratic_is_stiffer_than_the_step_allows(alike, leaves):
    run = left(Stiff(alike=alike), leaves, alike=False, after=200)
    (record,) = run.departures
    assert STEP * record.legacy.curvature[1] <= ROOM * (1 + 1e-12)
    assert run.status is not bq.Status.DIVERGED
    if leaves == LATE:
        assert "for the sake of the step" in record.why


def test_a_node_that_knows_no_path_goes_by_its_whole_way():
    will, seen = seen_by(bq.wills.Consensus())
    left(will, EARLY, alike=False)
    for estate, curved in (
        (replace(seen[0], recent=None), lambda e: turned(e, e.x - e.start)),
        (seen[0], lambda e: turned(e, e.recent.movement(32)[0])),
    ):
        legacy = decision(bq.wills.Consensus(), estate).legacy
        assert legacy.eta == pytest.approx(curved(estate), rel=1e-4)


def test_convex_losses_keep_their_midpoint():
    calm = bq.problems.quadratics(n=6, dim=3, mu=1.0, L=4.0, seed=0)
    leaving = [bq.Departure(LEAVER, 40)]
    run = bq.solve(calm, GRAPH, departures=leaving, will=bq.wills.Consensus(), rounds=45)
    assert run.departures[0].legacy.eta == calm.objective(LEAVER).curvature.midpoint


# --- the spectrum ------------------------------------------------------------------------------


def quadratic(eta, spread):
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.standard_normal((6, len(spread))))[0]
    y, g = rng.standard_normal(6), rng.standard_normal(6)
    factor = basis * np.sqrt(spread)
    return y, Legacy.anchored(7, anchor=y, value=3.0, gradient=g, eta=eta, factor=factor)


@pytest.mark.parametrize("alike", [None, 0.01, 0.5, 2.0, 50.0])
@pytest.mark.parametrize("spread", [[], [0.2, 1.0, 30.0], [1e-9, 1.0, 2.0, 3.0, 4.0, 1e6]])
def test_the_spectrum_is_within_and_value_and_gradient_stay(alike, spread):
    y, legacy = quadratic(0.1, spread)
    found = clipped(legacy, alike=alike, most=10.0, at=y)
    least = min(0.1 if alike is None else alike, 10.0)
    wide = 0.1 + np.concatenate([spread, np.zeros(6 - len(spread))])
    wide[len(spread) :] = least
    expected = np.sort(np.clip(wide, least, 10.0))
    np.testing.assert_allclose(np.linalg.eigvalsh(found.hessian()), expected, rtol=1e-9)
    np.testing.assert_allclose(found.gradient(y), legacy.gradient(y), atol=1e-8)
    assert found.value(y) == pytest.approx(3.0, abs=1e-7)
    assert found.lineage == {7: 1}
    assert found.rank <= legacy.rank


def test_what_is_as_it_may_be_is_not_touched():
    y, legacy = quadratic(0.1, [0.2, 1.0])
    assert clipped(legacy, alike=None, most=10.0, at=y) is legacy
    assert clipped(legacy, alike=0.1, most=10.0, at=y) is legacy
