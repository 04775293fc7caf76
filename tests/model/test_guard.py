"""Quadratics of losses that are not convex: when they are left out, and that a record says why."""

import numpy as np
import pytest
from dents import EARLY, GRAPH, LATE, LEAVER, QUADRATICS, VERY_EARLY, Insistent, left

import bequest as bq
from bequest.engines import Loop


def name(will):
    return will.title


@pytest.mark.parametrize("will", QUADRATICS, ids=name)
def test_very_early_every_quadratic_is_left_out(will):
    for alike in (True, False):
        (record,) = left(will, VERY_EARLY, alike=alike).departures
        assert record.choice == "none"
        assert record.legacy is None
        assert record.vectors == 1.0
        assert "not convex" in record.why
        assert "too early" in record.why


@pytest.mark.parametrize("will", QUADRATICS, ids=name)
def test_early_a_node_like_the_others_is_forgotten_and_another_is_not(will):
    (record,) = left(will, EARLY, alike=True).departures
    assert record.choice == "none"
    assert "may hardly miss it" in record.why
    (record,) = left(will, EARLY, alike=False).departures
    assert record.choice != "none"
    assert record.vectors >= 2.0


@pytest.mark.parametrize("will", QUADRATICS, ids=name)
def test_a_network_that_has_settled_takes_every_quadratic(will):
    for alike in (True, False):
        (record,) = left(will, LATE, alike=alike).departures
        assert record.choice != "none"


def test_a_will_may_insist():
    (record,) = left(Insistent(), VERY_EARLY, alike=True).departures
    assert record.choice == "consensus"
    assert record.vectors == 2.0


def test_what_was_inherited_is_passed_on_though_the_own_quadratic_is_left_out():
    insists = {None: bq.wills.Consensus(), 0: Insistent()}
    leaving = [bq.Departure(0, 5), bq.Departure(1, 6)]
    run = left(insists, 6, alike=True, departures=leaving)
    first, second = run.departures
    assert (first.choice, second.choice) == ("consensus", "none")
    assert first.heir == 1
    assert set(run.inherited[second.heir].lineage) == {0}
    assert second.vectors == 2.0  # the surplus, and what came from node 0


@pytest.mark.parametrize("leaves", [VERY_EARLY, EARLY])
@pytest.mark.parametrize("alike", [True, False])
def test_real_nodes_decide_the_same(leaves, alike):
    will = bq.wills.Consensus()  # which alone would ask for no path
    one = left(will, leaves, alike=alike)
    other = left(will, leaves, alike=alike, engine=Loop(as_bytes=True))
    assert [r.choice for r in one.departures] == [r.choice for r in other.departures]
    np.testing.assert_allclose(one.x, other.x, rtol=0, atol=1e-10)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
@pytest.mark.parametrize("leaves", [VERY_EARLY, EARLY])
def test_units_do_not_matter(scale, leaves):
    for alike in (True, False):
        plain = left(bq.wills.Consensus(), leaves, alike=alike).departures[0]
        scaled = left(bq.wills.Consensus(), leaves, alike=alike, scale=scale).departures[0]
        assert plain.choice == scaled.choice


@pytest.mark.parametrize("gap", [0, 1])
def test_of_a_path_that_has_just_begun_nothing_is_concluded(gap):
    """Another leaves in that round or the one before; so little of a path shows no rest."""
    leaving = [bq.Departure(0, EARLY - gap), bq.Departure(LEAVER, EARLY)]
    for alike, expected in ((True, "none"), (False, "consensus")):
        run = left(bq.wills.Consensus(), EARLY, alike=alike, departures=leaving)
        (record,) = (one for one in run.departures if one.node == LEAVER)
        assert record.choice == expected


def test_convex_losses_are_none_of_its_business():
    calm = bq.problems.quadratics(n=6, dim=3, mu=1.0, L=4.0, seed=0)
    leaving = [bq.Departure(LEAVER, 1)]
    for will in QUADRATICS:
        run = bq.solve(calm, GRAPH, departures=leaving, will=will, rounds=5)
        assert "not convex" not in run.departures[0].why
