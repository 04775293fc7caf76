"""What survivors know of a node that vanished without a word, and when they may believe it."""

import numpy as np
import pytest

import bequest as bq
from bequest.core.recall import Balance


def balance(**fields):
    plain = {
        "surplus": np.array([3.0, 4.0]),
        "trackers": 1.0,
        "gradients": 10.0,
        "strength": 1.0,
        "nodes": 4,
        "way": 100.0,
    }
    return Balance(**(plain | fields))


def test_one_node_knows_its_own():
    one = Balance.of(np.array([3.0, 4.0]), np.array([0.0, 2.0]), 0.5, np.array([0.6, 0.8]))
    np.testing.assert_array_equal(one.surplus, [3.0, 2.0])
    assert (one.trackers, one.gradients, one.strength, one.nodes) == (5.0, 2.0, 0.5, 1)
    assert one.way == pytest.approx(1.0)


def test_all_of_it_adds_up():
    both = balance() + balance(surplus=np.array([-1.0, 0.5]), nodes=2)
    np.testing.assert_array_equal(both.surplus, [2.0, 4.5])
    assert (both.trackers, both.gradients, both.strength, both.nodes) == (2.0, 20.0, 2.0, 6)


@pytest.mark.parametrize(
    ("fields", "trusted"),
    [
        ({}, True),
        ({"trackers": 0.2 * 10.0}, True),  # a fifth of the gradients
        ({"trackers": 0.2 * 10.0 + 1e-9}, False),
        ({"trackers": 0.4 * 4 * 5.0, "gradients": 1e3}, True),  # 0.4 of the memory, in the mean
        ({"trackers": 0.4 * 4 * 5.0 + 1e-9, "gradients": 1e3}, False),
        ({"way": 4 / 3}, True),  # trackers over strength, in the mean: three times the way
        ({"way": 4 / 3 - 1e-9}, False),
        ({"strength": 0.0}, False),  # a slope might have no minimum
        ({"strength": -1.0}, False),
        ({"surplus": np.zeros(2), "trackers": 0.0}, False),  # nothing is lacking
        ({"surplus": np.full(2, np.nan)}, False),
    ],
)
def test_when_it_is_trusted(fields, trusted):
    assert balance(**fields).is_trusted is trusted


def test_it_is_a_slope_and_nothing_else():
    legacy = balance().recall(7)
    assert dict(legacy.lineage) == {7: 1}
    assert legacy.curvature == (0.0, 0.0)
    assert legacy.c == 0.0
    np.testing.assert_array_equal(legacy.gradient(np.array([9.0, -9.0])), [3.0, 4.0])


SLOPES = bq.Problem([bq.Quadratic((1 + k % 2) * np.eye(2), [float(k), 1.0]) for k in range(6)])


@pytest.mark.parametrize("method", [bq.GradientTracking(), bq.NIDS()])
def test_it_is_forgotten_and_taken_back_exactly(method):
    """What was recalled goes: the rest ends where the others are, or where all are."""
    common = {
        "method": method,
        "will": bq.wills.Consensus(),
        "checkpoint_every": None,
        "rounds": 2500,
    }
    ring = bq.graphs.ring(6)
    crash = bq.Crash(2, 200)
    recalled = bq.solve(SLOPES, ring, departures=[crash], **common)
    (record,) = recalled.departures
    assert record.choice == "recall"
    assert record.heir in (1, 3)
    assert recalled.lost == ()
    assert recalled.inherited[record.heir].lineage == {2: 1}
    doubted = bq.solve(SLOPES, ring, departures=[crash], recall=False, **common)
    assert doubted.lost == (2,)
    assert recalled.limit_error < 0.05 * doubted.limit_error
    erased = bq.solve(SLOPES, ring, departures=[crash, bq.Forget(2, 300)], **common)
    without = bq.Problem([SLOPES.objective(k) for k in range(6) if k != 2]).optimum()
    np.testing.assert_allclose(erased.x, np.tile(without, (5, 1)), rtol=0, atol=1e-9)
    back = bq.solve(SLOPES, ring, departures=[crash, bq.Return(2, 300)], **common)
    np.testing.assert_allclose(back.x, np.tile(SLOPES.optimum(), (6, 1)), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "events",
    [
        [bq.Crash(2, 200), bq.Crash(4, 200)],  # two at once cannot be told apart
        [bq.Departure(0, 190), bq.Crash(1, 200)],  # nor can what it has inherited
        [bq.Crash(2, 1)],  # the network has not come far enough
    ],
)
def test_what_cannot_be_known_is_lost(events):
    run = bq.solve(
        SLOPES,
        bq.graphs.path(6),
        departures=events,
        will=bq.wills.Consensus(),
        checkpoint_every=None,
        rounds=400,
    )
    crashed = [record for record in run.departures if record.crashed]
    assert all(record.choice == "none" for record in crashed)
    assert {record.node for record in crashed} <= set(run.lost)


def test_who_asked_to_be_forgotten_is_not_recalled():
    run = bq.solve(
        SLOPES,
        bq.graphs.ring(6),
        departures=[bq.Crash(2, 200)],
        will=bq.wills.Forgetful(),
        checkpoint_every=None,
        rounds=400,
    )
    assert run.lost == (2,)
    assert not run.inherited
