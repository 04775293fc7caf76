"""One real node, driven by hand: its arithmetic, its manners, and what it does when all fails."""

import itertools
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from protocol.hand import (
    STEP,
    Circle,
    arrange,
    begin,
    blamed,
    dropped,
    exchange,
    give,
    halted,
    loss,
    make,
    noted,
    only,
    order,
    path,
    quadratic,
    sent,
    started,
)

import bequest as bq
from bequest.core import anchors, history
from bequest.core.farewell import Farewell
from bequest.core.legacy import Legacy
from bequest.engines.vector.path_history import PathHistories
from bequest.model.events import Changes
from bequest.protocol import messages as m
from bequest.protocol.events import (
    Adopted,
    Apply,
    Began,
    Checkpointed,
    Completed,
    Decided,
    Dropped,
    Failed,
    Leave,
    Lost,
    OptimumMoved,
    Recalled,
    Receipt,
    Send,
    Withdrawn,
)
from bequest.protocol.path_history import PathHistory
from bequest.protocol.states import State

ZERO = Legacy.zero(1)
NAN, INF = float("nan"), float("inf")


# --- the rounds ---------------------------------------------------------------------------------


def test_a_first_epoch_begins_at_the_start_with_the_gradient_as_tracker():
    node = make(h=2.0, c=1.0, start=3.0)
    ready = only(order(node, arrange()), m.Ready)
    assert (ready.epoch, ready.stiffness, ready.lineage) == (1, 2.0, ())
    effects = order(node, begin())
    (began,) = noted(effects, Began)
    assert (began.epoch, began.round, began.x, began.z, began.g) == (1, 0, 3.0, 4.0, 4.0)
    assert only(effects, m.Begun).epoch == 1
    # x - z/4 and z, for round 1, to both neighbours
    (send,) = [e for e in effects if isinstance(e, Send) and isinstance(e.message, m.Exchange)]
    assert send.to == (0, 2)
    assert (send.message.epoch, send.message.round) == (1, 1)
    np.testing.assert_array_equal(send.message.payload, [2.0, 4.0])


def test_a_round_on_paper():
    """x+ = 1/4 1 + 1/2 2 + 1/4 5, z+ = (1/4 8 + 1/2 4 - 1/4 4) + g(x+) - g(x)."""
    node = started(make(h=2.0, c=1.0, start=3.0))
    assert give(node, 0, exchange(1, 1, 1.0, 8.0)) == []
    effects = give(node, 2, exchange(1, 1, 5.0, -4.0))
    (done,) = noted(effects, Completed)
    assert (done.round, done.x, done.g, done.z) == (1, 2.5, 3.0, 3.0 + 3.0 - 4.0)
    assert (node.round, node.x, node.iterate.g, node.iterate.z) == (1, 2.5, 3.0, 2.0)
    following = only(effects, m.Exchange)
    assert following.round == 2
    np.testing.assert_array_equal(following.payload, [2.5 - 2.0 / 4, 2.0])


def test_what_is_inherited_pulls_in_every_round():
    """With 1/2 4 x^2 inherited the gradient at x is 2 (x - 1) + 4 x."""
    node = halted(started(make(h=2.0, c=1.0, start=3.0)))
    order(node, arrange(2, farewells=(2,), neighbours=(0,), weights=(0.5,)))
    give(node, 2, Farewell(2, 0, quadratic(2, 4.0, 0.0), np.array([1.0]), epoch=2))
    order(node, begin(2))
    assert (node.x, node.iterate.g, node.iterate.z) == (3.0, 4.0 + 12.0, 4.0 + 1.0 + 12.0)
    give(node, 0, exchange(2, 1, 0.0, 1.0))
    x = (3.0 - 17.0 / 4) / 2
    g = 2 * (x - 1) + 4 * x
    assert (node.x, node.iterate.g, node.iterate.z) == (x, g, (1.0 + 17.0) / 2 + g - 16.0)


def test_messages_are_mixed_in_ascending_order_of_their_senders():
    rng = np.random.default_rng(0)
    near = (0, 1, 5, 7, 9)
    weights = tuple(rng.uniform(0, 0.2, len(near)))
    node = started(make(3, start=[0.3, -0.7], objective=plane()), neighbours=near, weights=weights)
    rows = {other: rng.standard_normal(4) for other in near}
    rows[3] = np.concatenate([node.x - STEP * node.iterate.z, node.iterate.z])
    weight = dict(zip(near, weights, strict=True))
    weight[3] = 1.0 - sum(sorted(weights))
    mixed = 0.0
    for other in sorted(rows):
        mixed = mixed + weight[other] * rows[other]
    g = node.iterate.g
    for other in (9, 0, 7, 1, 5):
        effects = give(node, other, m.Exchange(1, 1, rows[other]))
    (done,) = noted(effects, Completed)
    np.testing.assert_allclose(done.x, mixed[:2], rtol=1e-15)
    np.testing.assert_allclose(done.z, mixed[2:] + done.g - g, rtol=1e-14)


def plane():
    return bq.Quadratic([[2.0, 0.5], [0.5, 1.0]], [0.3, 0.9])


def test_the_order_of_delivery_does_not_change_a_bit():
    """All the ways in which two rounds' messages of three neighbours can arrive."""
    rng = np.random.default_rng(1)
    near, weights = (0, 2, 4), (0.3, 0.21, 0.17)
    messages = [(other, m.Exchange(1, t, rng.standard_normal(4))) for t in (1, 2) for other in near]
    found = set()
    for permuted in itertools.permutations(messages):
        node = make(3, start=[0.1, 0.2], objective=plane())
        started(node, neighbours=near, weights=weights)
        effects = [effect for sender, message in permuted for effect in give(node, sender, message)]
        done = noted(effects, Completed)
        assert [state.round for state in done] == [1, 2]
        found.add(b"".join(v.tobytes() for state in done for v in (state.x, state.z, state.g)))
    assert len(found) == 1


def test_a_neighbour_may_be_one_round_ahead_and_that_is_used_in_its_time():
    node = started(make())
    assert give(node, 0, exchange(1, 2, 7.0, 7.0)) == []
    assert give(node, 0, exchange(1, 1, 1.0, 1.0)) == []
    assert give(node, 2, exchange(1, 2, 9.0, 9.0)) == []
    effects = give(node, 2, exchange(1, 1, 2.0, 2.0))
    assert [state.round for state in noted(effects, Completed)] == [1, 2]
    assert [message.round for message in sent(effects, m.Exchange)] == [2, 3]


def test_a_lone_node_talks_to_itself_and_descends():
    node = make(h=2.0, c=1.0, start=3.0)
    effects = [*order(node, arrange(neighbours=(), members=1)), *order(node, begin(until=3))]
    x, path_ = 3.0, []
    while node.state is State.RUNNING:
        message = only(effects, m.Exchange, to=1)
        effects = give(node, 1, message)
        x -= STEP * 2 * (x - 1)
        path_.append((float(node.x[0]), x))
    assert len(path_) == 3
    assert all(found == wanted for found, wanted in path_)
    np.testing.assert_array_equal(node.iterate.z, node.iterate.g)


class Noisy(bq.Quadratic):
    """A stochastic loss: no two answers are the same."""

    def __init__(self):
        super().__init__([[2.0]], [1.0])
        self.asked = 0

    def gradient(self, x):
        self.asked += 1
        return super().gradient(x) + self.asked


@pytest.mark.parametrize("restart", [False, True])
def test_the_own_loss_is_not_asked_again_when_an_epoch_begins(restart):
    """Then the trackers' sum would not be the gradients' any more, were the loss stochastic."""
    objective = Noisy()
    node = started(make(objective=objective, start=3.0))
    assert (objective.asked, node.iterate.g, node.iterate.z) == (1, 4.0 + 1, 4.0 + 1)
    order(node, m.Halt(2, 1), arrange(2, restart=restart), begin(2))
    assert (objective.asked, node.iterate.g, node.iterate.z) == (1, 5.0, 5.0)
    order(node, m.Halt(3, 2), arrange(3, farewells=(2,), restart=restart))
    give(node, 2, Farewell(2, 0, quadratic(2, 4.0, 0.0), np.array([0.5]), epoch=3))
    order(node, begin(3))
    z = 5.0 + 12.0 + (0.0 if restart else 0.5)  # what is inherited pulls with 4 x
    assert (objective.asked, node.iterate.g, node.iterate.z) == (1, 17.0, z)
    # and the next round's difference is to the answer that is in the tracker
    give(node, 0, exchange(3, 1, 1.0, 1.0))
    give(node, 2, exchange(3, 1, 1.0, 1.0))
    assert objective.asked == 2
    g = 2 * (node.x - 1) + 2 + 4 * node.x
    np.testing.assert_allclose((node.iterate.g, node.iterate.z), (g, 1 / 2 + z / 2 + g - 17.0))


# --- messages that cannot be used ---------------------------------------------------------------


def test_what_is_of_an_epoch_that_is_over_is_dropped():
    node = halted(started(make()))
    order(node, arrange(2), begin(2))
    assert dropped(give(node, 0, exchange(1, 1, 0.0, 0.0))).startswith("late")
    assert dropped(give(node, 0, m.Checkpoint(1, 0, ZERO, ZERO))).startswith("late")
    for message in (
        Farewell(2, 0, ZERO, np.zeros(1), epoch=1),
        m.Withdrawal(1, ZERO),
    ):
        assert dropped(give(node, 2, message)).startswith("late")
    assert dropped(order(node, m.Halt(1, 0))).startswith("late")
    assert dropped(order(node, m.Halt(2, 1))).startswith("late")


def test_what_is_of_a_later_epoch_waits_for_it():
    node = halted(started(make()))
    assert give(node, 0, exchange(2, 1, 1.0, 1.0)) == []
    order(node, arrange(2), begin(2))
    (done,) = noted(give(node, 2, exchange(2, 1, 1.0, 1.0)), Completed)
    assert done.round == 1
    assert done.x == 1 / 4 + (3.0 - 1.0) / 2 + 1 / 4


def test_rounds_that_are_over_are_late_and_twice_is_once():
    node = started(make())
    give(node, 0, exchange(1, 1, 1.0, 1.0))
    assert dropped(give(node, 0, exchange(1, 1, 9.0, 9.0))) == "a duplicate"
    give(node, 2, exchange(1, 1, 1.0, 1.0))
    assert node.x == 1 / 4 + (3.0 - 1.0) / 2 + 1 / 4  # the first one counted
    assert dropped(give(node, 0, exchange(1, 1, 1.0, 1.0))) == "late: that round is over"
    assert dropped(give(node, 0, exchange(1, 0, 1.0, 1.0))) == "late: that round is over"


def test_only_neighbours_count():
    node = started(make(), neighbours=(0,), weights=(0.5,))
    for stranger in (2, 1):
        assert dropped(give(node, stranger, exchange(1, 1, 0.0, 0.0))) == "not a neighbour"


def test_nobody_is_a_neighbour_of_who_has_not_begun():
    """Epochs are numbered from 1: who says 0 is wrong, and must not do any harm."""
    node = make()
    assert dropped(give(node, 0, exchange(0, 1, 0.0, 0.0))) == "not a neighbour"
    assert node.state is State.OUTSIDE


def test_an_impossible_round_is_an_offence():
    node = started(make())
    assert blamed(give(node, 0, exchange(1, 3, 0.0, 0.0))) == (0, "round 3 is impossible")


@pytest.mark.parametrize("payload", [np.zeros(1), np.zeros(3), np.zeros((2, 1)), np.array(0.0)])
def test_a_payload_of_the_wrong_shape_is_an_offence(payload):
    node = started(make())
    culprit, why = blamed(give(node, 2, m.Exchange(1, 1, payload)))
    assert culprit == 2
    assert "shape" in why


@pytest.mark.parametrize("bad", [(NAN, 0.0), (0.0, NAN), (INF, 0.0), (0.0, -INF)])
def test_whoever_sends_what_is_not_a_number_is_accused_and_the_round_is_not_completed(bad):
    node = started(make())
    give(node, 0, exchange(1, 1, 1.0, 1.0))
    accusation = only(give(node, 2, exchange(1, 1, *bad)), m.Accusation)
    assert (accusation.epoch, accusation.culprit) == (1, 2)
    assert "round 1 is not finite" in accusation.why
    assert (node.state, node.round, node.x) == (State.RUNNING, 0, 3.0)


def test_everybody_who_sends_what_is_not_a_number_is_accused():
    node = started(make())
    give(node, 2, exchange(1, 1, NAN, 1.0))
    effects = give(node, 0, exchange(1, 1, 1.0, INF))
    assert [said.culprit for said in sent(effects, m.Accusation)] == [0, 2]


def test_what_was_completed_before_the_offence_counts():
    node = started(make())
    give(node, 0, exchange(1, 1, 1.0, 1.0), exchange(1, 2, NAN, 1.0))
    give(node, 2, exchange(1, 2, 1.0, 1.0))
    effects = give(node, 2, exchange(1, 1, 1.0, 1.0))
    assert [state.round for state in noted(effects, Completed)] == [1]
    assert only(effects, m.Accusation).culprit == 0
    assert node.round == 1


def test_large_numbers_are_no_offence():
    """Their squares overflow; they are finite, and no node is accused."""
    node = started(make())
    give(node, 0, exchange(1, 1, 1e200, 1.0))
    with np.errstate(over="ignore"):
        effects = give(node, 2, exchange(1, 1, -1e200, 1.0))
        effects = give(node, 0, exchange(1, 2, 1e200, 1.0))
        effects += give(node, 2, exchange(1, 2, 1e200, 1.0))
    assert not sent(effects, m.Accusation)
    assert node.round == 2
    assert np.isfinite(node.x).all()


def test_its_own_overflow_is_nobody_elses_fault():
    with np.errstate(over="ignore", invalid="ignore"):
        node = started(make(start=1e308), neighbours=(0,), weights=(0.5,))
        effects = give(node, 0, exchange(1, 1, 0.0, 0.0))
    assert not sent(effects, m.Accusation)
    assert [state.round for state in noted(effects, Completed)] == [1]


# --- stopping -----------------------------------------------------------------------------------


def test_it_stops_by_itself_at_the_end_and_reports():
    node = started(make(), until=1)
    give(node, 0, exchange(1, 1, 1.0, 1.0))
    effects = give(node, 2, exchange(1, 1, 1.0, 1.0))
    assert only(effects, m.Halted) == m.Halted(1, 1, (), (), leaving=False)
    assert not sent(effects, m.Exchange)
    assert node.state is State.HALTED


def test_an_epoch_without_rounds_is_over_as_it_begins():
    node = make()
    order(node, arrange())
    effects = order(node, begin(until=0))
    assert [type(message) for message in sent(effects)] == [m.Begun, m.Halted]


def test_halted_it_goes_no_further_though_everything_is_there():
    node = halted(started(make()))
    give(node, 0, exchange(1, 1, 1.0, 1.0))
    assert give(node, 2, exchange(1, 1, 1.0, 1.0)) == []
    assert node.round == 0


def test_whoever_is_behind_advances_to_where_the_others_are_and_reports_again():
    node = halted(started(make()))
    for t in (1, 2):
        give(node, 0, exchange(1, t, 1.0, 1.0))
        give(node, 2, exchange(1, t, 1.0, 1.0))
    effects = order(node, m.Advance(2, 1))
    assert [state.round for state in noted(effects, Completed)] == [1]
    assert only(effects, m.Halted).round == 1
    assert (node.state, node.round) == (State.HALTED, 1)


def test_whoever_is_there_already_reports_again_when_told_to_advance():
    node = halted(started(make()))
    assert only(order(node, m.Advance(2, 0)), m.Halted).round == 0
    assert dropped(order(node, m.Advance(1, 5))).startswith("late")
    assert node.state is State.HALTED


def test_whoever_has_further_to_go_waits_for_its_neighbours():
    node = halted(started(make()))
    assert order(node, m.Advance(2, 2)) == []
    assert node.state is State.RUNNING
    give(node, 0, exchange(1, 1, 1.0, 1.0))
    effects = give(node, 2, exchange(1, 1, 1.0, 1.0))
    assert only(effects, m.Exchange).round == 2
    give(node, 0, exchange(1, 2, 1.0, 1.0))
    assert only(give(node, 2, exchange(1, 2, 1.0, 1.0)), m.Halted) == m.Halted(
        2, 2, (), (), leaving=False
    )


def test_a_halt_of_an_epoch_that_it_has_not_heard_of_waits_for_it():
    node = halted(started(make()))
    order(node, arrange(2))
    assert order(node, m.Halt(3, 2)) == []
    effects = order(node, begin(2))
    assert only(effects, m.Halted).epoch == 3
    assert node.state is State.HALTED


def test_a_halt_abandons_what_is_being_prepared():
    node = halted(started(make()))
    order(node, arrange(2, buddies=(0,)))
    give(node, 2, m.Checkpoint(2, 0, ZERO, ZERO))
    assert only(order(node, m.Halt(3, 1)), m.Halted).epoch == 3
    assert dropped(give(node, 0, m.Kept(2))) == "not expected when halted"
    assert dropped(order(node, arrange(2))).startswith("late")
    order(node, arrange(3, wards=(2,)), begin(3), m.Halt(4, 3))
    assert only(order(node, m.Inquiry()), m.Situation).halted.wards == ()


def test_a_late_copy_of_an_order_does_not_bring_an_epoch_back():
    """It has stopped at the end of the epoch that the copies of Arrange and Begin are about."""
    node = started(make(), until=1)
    give(node, 0, exchange(1, 1, 1.0, 1.0))
    give(node, 2, exchange(1, 1, 1.0, 1.0))
    assert dropped(order(node, arrange(1))).startswith("late")
    assert dropped(order(node, begin(1, until=1))) == "not expected when halted"
    assert (node.state, node.round) == (State.HALTED, 1)


def test_an_early_order_of_a_steward_that_is_replaced_meanwhile_is_dropped_in_its_time():
    node = halted(started(make()))
    order(node, arrange(2))
    assert order(node, m.Halt(3, 2)) == []  # it has not heard of epoch 2
    order(node, m.Inquiry(term=1))
    effects = order(node, replace(begin(2), term=1))
    (record,) = noted(effects, Dropped)
    assert record == Dropped(m.STEWARD, "Halt", "of an earlier steward")
    assert (node.state, node.epoch) == (State.RUNNING, 2)
    assert only(order(node, m.Halt(3, 2, term=1)), m.Halted).epoch == 3


@pytest.mark.parametrize("incarnation", [0, 2])
def test_an_arrangement_for_another_life_is_not_followed(incarnation):
    node = returner()
    meant = arrange(5, 9, neighbours=(1,), weights=(0.5,), sponsor=1, incarnation=incarnation)
    assert dropped(give(node, m.STEWARD, meant)) == "meant for another incarnation"
    assert node.state is State.OUTSIDE
    assert only(order(node, m.Inquiry()), m.Situation).newest == 0
    order(node, meant)  # to its own
    assert node.state is State.PREPARING


def test_orders_of_another_epoch_are_not_followed():
    node = halted(started(make()))
    order(node, arrange(2))
    assert dropped(order(node, begin(1))) == "of another epoch"
    assert dropped(order(node, arrange(3))).startswith("late")  # no node told it to stop for that
    assert dropped(order(node, m.Dismiss(3))) == "of another epoch"
    assert node.state is State.READY


def test_whoever_is_not_in_an_epoch_does_not_begin_it():
    node = halted(started(make()))
    order(node, arrange(2, neighbours=None, heir=0, remaining=2))
    assert dropped(order(node, begin(2))) == "of another epoch"
    assert node.state is State.READY


# --- wanting to leave ---------------------------------------------------------------------------


def test_a_wish_to_leave_now_is_told_at_once():
    node = started(make(incarnation=2))
    assert only(node.handle(Leave()), m.LeaveRequest).incarnation == 2
    assert node.wants_to_leave
    assert only(order(node, m.Halt(2, 1)), m.Halted).leaving


def test_a_wish_to_leave_later_is_told_when_the_round_comes():
    node = started(make())
    assert node.handle(Leave(after=2)) == []
    give(node, 0, exchange(1, 1, 1.0, 1.0))
    effects = give(node, 2, exchange(1, 1, 1.0, 1.0))
    assert not sent(effects, m.LeaveRequest)
    assert not node.wants_to_leave
    give(node, 0, exchange(1, 2, 1.0, 1.0))
    assert sent(give(node, 2, exchange(1, 2, 1.0, 1.0)), m.LeaveRequest) == [m.LeaveRequest()]


def test_a_wish_for_the_last_round_is_part_of_the_report():
    node = started(make(), until=1)
    node.handle(Leave(after=1))
    give(node, 0, exchange(1, 1, 1.0, 1.0))
    effects = give(node, 2, exchange(1, 1, 1.0, 1.0))
    assert only(effects, m.Halted).leaving
    assert not sent(effects, m.LeaveRequest)


def test_a_wish_from_before_the_beginning_is_told_as_it_begins():
    node = make()
    assert node.handle(Leave()) == []
    order(node, arrange())
    effects = order(node, begin())
    assert [type(message) for message in sent(effects)] == [m.Begun, m.Exchange, m.LeaveRequest]


def test_a_wish_whose_round_is_skipped_is_told_as_the_next_epoch_begins():
    """After a loss every node goes on from the latest round, and this node was behind."""
    node = started(make())
    node.handle(Leave(after=3))
    assert not only(order(node, m.Halt(2, 1)), m.Halted).leaving
    order(node, arrange(2, 5, restart=True))
    assert sent(order(node, begin(2)), m.LeaveRequest)


def test_the_gone_do_not_ask():
    node = started(make())
    order(node, m.Dismiss(1, excluded=True))
    assert node.handle(Leave()) == []


# --- leaving ------------------------------------------------------------------------------------


def trio(will=None, **options):
    return [
        make(k, h=h, c=c, start=s, **(options | ({} if will is None else {"will": will})))
        for k, (h, c, s) in enumerate([(2.0, 1.0, 3.0), (1.0, -2.0, 0.5), (3.0, 0.5, -1.0)])
    ]


def test_a_departure_keeps_the_invariant_and_the_sum():
    circle = path(*trio())
    assert circle.imbalance() <= 1e-13
    heir, leaver = circle.nodes[1], circle.nodes[2]
    x, z1, z2, g2 = heir.x, heir.iterate.z, leaver.iterate.z, leaver.iterate.g
    before = sum(node.objective.gradient(x) for node in circle.nodes.values())
    circle.all(m.Halt(2, 1))
    circle.order({2: arrange(2, 3, neighbours=None, heir=1, remaining=2)})
    circle.order(
        {
            0: arrange(2, 3, neighbours=(1,), members=2),
            1: arrange(2, 3, neighbours=(0,), members=2, farewells=(2,)),
        }
    )
    (decided,) = circle.noted(Decided)
    np.testing.assert_array_equal(decided.farewell.surplus, z2 - g2)
    legacy = decided.farewell.legacy
    circle.order(dict.fromkeys((0, 1), begin(2, until=3)))
    np.testing.assert_allclose(
        heir.iterate.z, z1 + (z2 - g2) + legacy.gradient(x), rtol=0, atol=1e-13
    )
    assert circle.imbalance(0, 1) <= 1e-13
    # the leaver's loss is a quadratic with one curvature: nothing of it is lost
    after = sum(circle.nodes[k].objective.gradient(x) for k in (0, 1)) + heir.inherited.gradient(x)
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-13)
    stays, leaves = circle.heard(m.Ready, 2)
    assert stays == m.Ready(1, 3.0, (), strength=3.0, floor=3.0)
    assert leaves == m.Ready(2, 0.0, ())
    assert circle.heard(m.Ready, 1)[-1] == m.Ready(2, 4.0, (2,), strength=4.0, floor=4.0)
    circle.order({2: m.Dismiss(2)})
    assert leaver.state is State.GONE


def test_farewells_of_a_chain_go_through_everybody_in_it():
    circle = path(*trio())
    circle.all(m.Halt(2, 1))
    circle.order({2: arrange(2, 3, neighbours=None, heir=1, remaining=2)})
    circle.order({1: arrange(2, 3, neighbours=None, heir=0, remaining=1, farewells=(2,))})
    circle.order({0: arrange(2, 3, neighbours=(), members=1, farewells=(1,))})
    first, second = circle.noted(Decided)
    assert (first.passed_on, second.passed_on) == ((), (2,))
    np.testing.assert_allclose(
        second.farewell.surplus,
        circle.nodes[1].iterate.z - circle.nodes[1].iterate.g + first.farewell.surplus,
        rtol=0,
        atol=1e-13,
    )
    circle.order({0: begin(2, until=3)})
    last = circle.nodes[0]
    assert dict(last.inherited.lineage) == {1: 1, 2: 1}
    assert circle.imbalance(0) <= 1e-13


def test_the_farewells_of_several_leavers_are_added_in_ascending_order():
    def heir(order_of_arrival):
        node = halted(started(make(1)))
        order(node, arrange(2, neighbours=(), farewells=(0, 2)))
        for sender in order_of_arrival:
            own = quadratic(sender, 0.1 + sender, 0.3)
            give(node, sender, Farewell(sender, 0, own, np.array([0.7 + sender]), epoch=2))
        order(node, begin(2))
        return node.iterate.z.tobytes(), node.inherited.p.tobytes(), list(node.inherited.lineage)

    assert heir((0, 2)) == heir((2, 0))


def test_a_farewell_is_applied_once_however_often_and_early_it_comes():
    farewell = Farewell(2, 0, quadratic(2, 4.0, 0.0), np.array([1.0]), epoch=2)
    node = started(make())
    assert give(node, 2, farewell, farewell) == []  # before any node told it to stop
    halted(node)
    effects = order(node, arrange(2, neighbours=(0,), weights=(0.5,), farewells=(2,)))
    assert only(effects, m.Ready).lineage == (2,)
    assert len(noted(effects, type(give(node, 2, farewell)[0]))) == 1  # the copy is dropped
    order(node, begin(2))
    assert dropped(give(node, 2, farewell)).startswith("late")
    assert node.iterate.z == 4.0 + 1.0 + 12.0


def test_a_second_farewell_of_the_same_leaver_is_dropped_while_others_are_awaited():
    node = halted(started(make()))
    order(node, arrange(2, farewells=(0, 2)))
    farewell = Farewell(2, 0, ZERO, np.zeros(1), epoch=2)
    assert give(node, 2, farewell) == []
    assert "duplicate" in dropped(give(node, 2, farewell))
    assert "not expected" in dropped(give(node, 3, Farewell(3, 0, ZERO, np.zeros(1), epoch=2)))


def legacy_with(**changes):
    fields = {"eta": 1.0, "p": np.zeros(1), "c": 0.0, "lineage": {2: 1}}
    return Legacy(**(fields | changes))


UNSOUND = {
    "eta": legacy_with(eta=NAN),
    "c": legacy_with(c=INF),
    "p": legacy_with(p=np.array([NAN])),
    "dimension": legacy_with(p=np.zeros(2)),
    "factor": legacy_with(factor=np.array([[INF]])),
    "weights": legacy_with(factor=np.array([[1.0]]), weights=np.array([NAN])),
}


@pytest.mark.parametrize("wrong", UNSOUND)
def test_a_legacy_that_cannot_be_right_is_an_offence(wrong):
    legacy = UNSOUND[wrong]
    node = halted(started(make()))
    order(node, arrange(2, farewells=(2,), claimant=3))
    farewell = Farewell(2, 0, legacy, np.zeros(1), epoch=2)
    assert blamed(give(node, 2, farewell)) == (2, "a farewell that cannot be right")
    assert blamed(give(node, 3, m.Withdrawal(2, legacy)))[0] == 3
    assert blamed(give(node, 0, m.Checkpoint(2, 0, legacy, ZERO)))[0] == 0
    assert blamed(give(node, 0, m.Checkpoint(2, 0, ZERO, legacy)))[0] == 0
    assert blamed(give(node, 0, m.Checkpoint(2, 0, legacy, None)))[0] == 0
    assert node.state is State.PREPARING


@pytest.mark.parametrize(
    "farewell",
    [
        Farewell(2, 0, ZERO, np.array([NAN]), epoch=2),
        Farewell(2, 0, ZERO, np.zeros(2), epoch=2),
        Farewell(0, 0, ZERO, np.zeros(1), epoch=2),  # in the name of another
    ],
)
def test_a_farewell_that_cannot_be_right_is_an_offence(farewell):
    node = halted(started(make()))
    order(node, arrange(2, farewells=(2,)))
    assert blamed(give(node, 2, farewell)) == (2, "a farewell that cannot be right")


def test_the_classic_way_takes_everything_along_and_everybody_restarts():
    circle = path(*trio(bq.wills.Classic()))
    circle.all(m.Halt(2, 1))
    leaver = circle.nodes[2]
    leaver.iterate.inherited = quadratic(7, 1.0, 1.0)
    circle.order({2: arrange(2, 3, neighbours=None, heir=1, remaining=2)})
    (decided,) = circle.noted(Decided)
    assert decided.farewell is None
    assert decided.forgets == (2, 7)
    assert decided.passed_on == ()
    assert circle.heard(m.Ready, 2)[-1] == m.Ready(2, 0.0, (), (2, 7), restart=True)
    # no node waits for a farewell, and trackers restart at the gradients
    circle.order({k: arrange(2, 3, neighbours=(1 - k,), restart=True) for k in (0, 1)})
    circle.order(dict.fromkeys((0, 1), begin(2, until=3)))
    for k in (0, 1):
        np.testing.assert_array_equal(circle.nodes[k].iterate.z, circle.nodes[k].iterate.g)


def test_a_forgetful_leaver_hands_over_its_surplus_and_what_it_inherited():
    node = halted(started(make(will=bq.wills.Forgetful())))
    node.iterate.inherited = quadratic(7, 1.0, 1.0)
    effects = order(node, arrange(2, neighbours=None, heir=0, remaining=2))
    (decided,) = noted(effects, Decided)
    farewell = only(effects, Farewell, to=0)
    assert farewell is decided.farewell
    assert dict(farewell.legacy.lineage) == {7: 1}
    assert (decided.forgets, decided.passed_on, decided.blur) == ((1,), (7,), None)
    assert only(effects, m.Ready).forgets == (1,)


@dataclass(frozen=True)
class Rigid(bq.wills.Will):
    """The whole Hessian, compressed to one direction, and how often it was asked."""

    label = "rigid"
    asked: ClassVar[list] = []

    def decide(self, estate):
        self.asked.append(estate)
        factor = np.linalg.cholesky(estate.objective.hessian(estate.x))
        legacy = estate.anchored_at(estate.x, eta=0.0, factor=factor)
        return bq.wills.Bequest("full", "all of it", legacy, estate.x, rank=0)


def test_what_compressing_the_message_changed_is_told():
    Rigid.asked.clear()
    node = make(will=Rigid(), start=[1.0, 2.0], objective=plane())
    node = halted(started(node))
    (decided,) = noted(order(node, arrange(2, neighbours=None, heir=0, remaining=2)), Decided)
    assert decided.farewell.legacy.rank == 0
    np.testing.assert_allclose(
        decided.blur.hessian(), decided.farewell.legacy.hessian() - plane().A, atol=1e-12
    )
    np.testing.assert_allclose(decided.blur.gradient(node.x), 0.0, atol=1e-12)
    (estate,) = Rigid.asked
    assert (estate.node, estate.round, estate.remaining) == (1, 0, 2)
    assert (estate.recent, estate.carried) == (None, None)
    np.testing.assert_array_equal(estate.z, node.iterate.z)
    assert not estate.x.flags.writeable


def test_the_will_sees_the_tracker_of_the_last_round_not_what_a_hand_off_made_of_it():
    Rigid.asked.clear()
    node = halted(started(make(will=Rigid())))
    order(node, arrange(2, farewells=(2,), neighbours=(0,), weights=(0.5,)))
    give(node, 2, Farewell(2, 0, ZERO, np.array([10.0]), epoch=2))
    order(node, begin(2))
    assert node.iterate.z == 14.0
    order(node, m.Halt(3, 2), arrange(3, neighbours=None, heir=0, remaining=1))
    assert Rigid.asked[-1].z == 4.0


# --- refusing to inherit ------------------------------------------------------------------------


def test_an_heir_that_wants_to_leave_refuses():
    node = halted(started(make()))
    node.handle(Leave())
    assert sent(order(node, arrange(2, farewells=(2,)))) == [m.Refused(2)]
    assert node.state is State.PREPARING


def test_an_heir_that_is_asked_to_leave_while_it_prepares_refuses():
    node = halted(started(make()))
    order(node, arrange(2, farewells=(2,)))
    effects = node.handle(Leave())
    assert sent(effects) == [m.LeaveRequest(), m.Refused(2)]


def test_whoever_only_prepares_does_not_refuse():
    node = halted(started(make()))
    order(node, arrange(2, buddies=(0,)))
    assert sent(node.handle(Leave())) == [m.LeaveRequest()]


def test_a_leaver_inherits_without_refusing_it_passes_it_on():
    node = halted(started(make()))
    node.handle(Leave())
    order(node, arrange(2, neighbours=None, heir=0, remaining=1, farewells=(2,)))
    effects = give(node, 2, Farewell(2, 0, quadratic(2, 1.0, 0.0), np.zeros(1), epoch=2))
    assert dict(only(effects, Farewell).legacy.lineage) == {1: 1, 2: 1}


def test_who_cannot_go_does_not_refuse():
    """No other node would be left: it stays, and inherits."""
    node = halted(started(make()))
    node.handle(Leave())
    effects = order(node, arrange(2, farewells=(2,), neighbours=(), stays=True))
    assert not sent(effects)
    effects = give(node, 2, Farewell(2, 0, quadratic(2, 1.0, 0.0), np.zeros(1), epoch=2))
    assert only(effects, m.Ready).lineage == (2,)


# --- checkpoints --------------------------------------------------------------------------------


def rounds(node, count, near=(0, 2), at=1.0):
    effects = []
    for _ in range(count):
        t = node.round + 1
        for other in near:
            effects += give(node, other, exchange(node.epoch, t, at, at))
    return effects


def test_checkpoints_are_sent_to_the_buddies_every_so_many_rounds():
    node = started(make(tau=2), buddies=(2, 0))
    effects = rounds(node, 5)
    assert [(c.round, c.epoch, c.inherited) for c in sent(effects, m.Checkpoint)] == [
        (2, 1, None),
        (4, 1, None),
    ]
    made = noted(effects, Checkpointed)
    assert [(c.round, c.bequest.choice) for c in made] == [(2, "consensus"), (4, "consensus")]
    (send,) = [
        e for e in rounds(node, 1) if isinstance(e, Send) and isinstance(e.message, m.Checkpoint)
    ]
    assert send.to == (2, 0)
    own = send.message.own
    assert dict(own.lineage) == {1: 1}
    np.testing.assert_allclose(own.gradient(node.x), node.objective.gradient(node.x))


def test_without_buddies_or_without_an_interval_there_are_no_checkpoints():
    assert not sent(rounds(started(make(tau=1)), 2), m.Checkpoint)
    assert not sent(rounds(started(make(tau=None), buddies=(0,)), 2), m.Checkpoint)


def test_who_was_alone_has_a_fresh_checkpoint_for_whoever_comes():
    """Its own is never older than the interval, though there was no node to send it to."""
    node = started(make(tau=3), neighbours=(), members=1)
    effects = []
    for t in range(1, 8):
        effects += give(node, 1, exchange(1, t, 1.0, 1.0))
    assert [c.round for c in noted(effects, Checkpointed)] == [3, 6]
    assert not sent(effects, m.Checkpoint)
    order(node, m.Halt(2, 1))
    effects = order(node, arrange(2, 7, neighbours=(2,), weights=(0.5,), members=2, buddies=(2,)))
    checkpoint = only(effects, m.Checkpoint, to=2)
    assert checkpoint.round == 6
    assert dict(checkpoint.own.lineage) == {1: 1}


def test_who_has_no_will_leaves_the_memory_of_nobody():
    node = started(make(tau=1, will=None), buddies=(0,))
    effects = rounds(node, 1)
    (made,) = noted(effects, Checkpointed)
    assert (made.round, made.bequest) == (1, None)
    assert only(effects, m.Checkpoint).own.is_zero


def test_a_will_that_leaves_nothing_makes_an_empty_checkpoint():
    node = started(make(tau=1, will=bq.wills.Forgetful()), buddies=(0,))
    assert only(rounds(node, 1), m.Checkpoint).own.is_zero


def test_the_local_track_goes_on_from_the_last_checkpoint():
    """What was descended for one checkpoint is not descended again for the next."""
    objective = plane()
    node = make(tau=2, objective=objective, start=[3.0, -2.0], will=bq.wills.LocalTrack())
    started(node, buddies=(0,))
    gradient, asked = objective.gradient, []
    objective.gradient = lambda x: asked.append(x) or gradient(x)
    made = [c.bequest for c in noted(rounds(node, 6, at=[1.0, 1.0]), Checkpointed)]
    # one per round, one per round of its own descent, and one per anchor
    assert len(asked) == 6 + 6 + 3
    for t, bequest in zip((2, 4, 6), made, strict=True):
        smoothness = objective.curvature.b
        anchor = anchors.local_track(gradient, [3.0, -2.0], smoothness=smoothness, rounds=t)
        np.testing.assert_array_equal(bequest.anchor, anchor)


def test_a_checkpoint_of_somebody_alone_is_for_others_who_may_come():
    Rigid.asked.clear()
    node = make(tau=1, will=Rigid())
    order(node, arrange(neighbours=(), members=1, buddies=(0,)))
    assert [estate.remaining for estate in Rigid.asked] == [1]


def test_a_checkpoint_is_decided_for_the_others_of_the_epoch_that_it_is_for():
    """When it comes in, in every interval, and when it inherits: then of the epoch to come."""
    Rigid.asked.clear()
    node = started(make(tau=2, will=Rigid()), members=3, buddies=(0,))
    rounds(node, 2)
    halted(node)
    order(node, arrange(2, 2, members=6, buddies=(0,), farewells=(2,)))
    give(node, 2, Farewell(2, 2, quadratic(2, 4.0, 0.0), np.zeros(1), epoch=2))
    give(node, 0, m.Kept(2))
    order(node, begin(2))
    rounds(node, 2)
    asked = [(estate.round, estate.remaining) for estate in Rigid.asked]
    assert asked == [(0, 2), (2, 2), (2, 5), (4, 5)]


def test_a_checkpoint_shows_the_will_the_tracker_of_the_last_round_too():
    """However many hand-offs there were since: two epochs begin after the same round."""
    Rigid.asked.clear()
    node = started(make(tau=5, will=Rigid()), buddies=(0,))
    rounds(node, 1)
    tracker, x = node.iterate.z, node.x
    for epoch, gone in ((2, 2), (3, 0)):
        order(node, m.Halt(epoch, epoch - 1), arrange(epoch, 1, buddies=(0,), farewells=(2,)))
        own = quadratic(gone, 4.0, 0.0)
        give(node, 2, Farewell(2, 1, own, np.array([10.0]), epoch=epoch))
        give(node, 0, m.Kept(epoch))
        order(node, begin(epoch))
        assert Rigid.asked[-1].round == 1
        np.testing.assert_array_equal(Rigid.asked[-1].z, tracker)
    np.testing.assert_allclose(node.iterate.z, tracker + 2 * (10.0 + 4.0 * x))


def test_ready_is_said_only_once_every_buddy_has_kept_the_checkpoint():
    node = make(tau=3)
    effects = order(node, arrange(buddies=(0, 2)))
    checkpoint = only(effects, m.Checkpoint)
    assert (checkpoint.epoch, checkpoint.round) == (1, 0)
    assert dict(checkpoint.own.lineage) == {1: 1}
    assert checkpoint.inherited.is_zero
    assert not sent(effects, m.Ready)
    assert dropped(give(node, 5, m.Kept(1))) == "not expected, or a duplicate"
    assert give(node, 2, m.Kept(1)) == []
    assert dropped(give(node, 2, m.Kept(1))) == "not expected, or a duplicate"
    assert dropped(give(node, 0, m.Kept(7))) == "not expected, or a duplicate"
    assert only(give(node, 0, m.Kept(1)), m.Ready).epoch == 1


def test_who_has_it_already_need_not_keep_it_again():
    node = halted(started(make(tau=3), buddies=(0,)))
    effects = order(node, arrange(2, buddies=(0, 2)))
    (send,) = [e for e in effects if isinstance(e, Send)]
    assert send.to == (2,)
    assert not noted(effects, Checkpointed)


def test_whoever_inherits_writes_it_through_to_every_buddy():
    node = halted(started(make(tau=3), buddies=(0,)))
    order(node, arrange(2, neighbours=(0,), weights=(0.5,), buddies=(0,), farewells=(2,)))
    effects = give(node, 2, Farewell(2, 0, quadratic(2, 4.0, 0.0), np.zeros(1), epoch=2))
    assert len(noted(effects, Checkpointed)) == 1
    checkpoint = only(effects, m.Checkpoint, to=0)
    assert (checkpoint.epoch, dict(checkpoint.inherited.lineage)) == (2, {2: 1})
    assert not sent(effects, m.Ready)
    assert only(give(node, 0, m.Kept(2)), m.Ready).lineage == (2,)


def test_an_empty_farewell_is_nothing_to_write_through():
    node = halted(started(make(tau=3), buddies=(0,)))
    order(node, arrange(2, neighbours=(0,), weights=(0.5,), buddies=(0,), farewells=(2,)))
    effects = give(node, 2, Farewell(2, 0, ZERO, np.ones(1), epoch=2))
    assert only(effects, m.Ready)
    assert not sent(effects, m.Checkpoint)


# --- being a buddy ------------------------------------------------------------------------------


def keeper(**checkpoint):
    """Node 1, which keeps a checkpoint of node 2."""
    node = make()
    order(node, arrange(wards=(2,)))
    own = quadratic(2, 3.0, 0.5)
    effects = give(node, 2, m.Checkpoint(1, 0, own, quadratic(7, 1.0, 2.0)))
    assert only(effects, m.Kept, to=2).epoch == 1
    order(node, begin())
    return node


def test_a_ward_is_reported_with_whom_its_checkpoint_remembers():
    assert only(order(keeper(), m.Halt(2, 1)), m.Halted).wards == ((2, 0, (2, 7)),)


def test_newer_checkpoints_replace_older_ones_and_keep_what_was_inherited():
    node = keeper()
    newer = quadratic(2, 5.0, 0.5)
    assert give(node, 2, m.Checkpoint(1, 4, newer, None)) == []
    assert dropped(give(node, 2, m.Checkpoint(1, 4, newer, None))) == "not a ward, or late"
    assert dropped(give(node, 2, m.Checkpoint(1, 3, newer, None))) == "not a ward, or late"
    other = m.Checkpoint(1, 9, quadratic(0, 5.0, 0.5), None)
    assert dropped(give(node, 0, other)) == "not a ward, or late"
    assert only(order(node, m.Halt(2, 1)), m.Halted).wards == ((2, 4, (2, 7)),)


def test_a_checkpoint_for_the_next_epoch_counts_only_once_it_begins():
    node = halted(keeper())
    order(node, arrange(2, 4, wards=(0, 2)))
    whole = m.Checkpoint(2, 4, quadratic(0, 1.0, 0.0), ZERO)
    assert only(give(node, 0, whole), m.Kept, to=0).epoch == 2
    assert dropped(give(node, 0, whole)) == "a duplicate"
    assert only(order(node, m.Inquiry()), m.Situation).halted.wards == ((2, 0, (2, 7)),)
    order(node, begin(2))
    assert only(order(node, m.Halt(3, 2)), m.Halted).wards == ((0, 4, (0,)), (2, 0, (2, 7)))
    order(node, arrange(3, 4, wards=()), begin(3))  # another node keeps them now
    assert only(order(node, m.Halt(4, 3)), m.Halted).wards == ()


def test_a_checkpoint_may_arrive_before_the_order_to_stop():
    node = keeper()
    assert give(node, 0, m.Checkpoint(2, 4, ZERO, ZERO)) == []
    assert only(order(node, m.Halt(2, 1)), m.Kept, to=0).epoch == 2


@pytest.mark.parametrize("state", [State.HALTED, State.PREPARING, State.READY])
def test_a_periodic_checkpoint_of_a_later_epoch_waits_for_it(state):
    """Its sender has begun already, and completed a few rounds."""
    node = halted(keeper())
    prepared = arrange(2, 4, wards=(2,), farewells=(0,) if state is State.PREPARING else ())
    if state is not State.HALTED:
        order(node, prepared)
    assert node.state is state
    newer = quadratic(2, 5.0, 0.5)
    assert give(node, 2, m.Checkpoint(2, 6, newer, None)) == []
    kept = only(order(node, m.Inquiry()), m.Situation).halted.wards
    assert kept == ((2, 0, (2, 7)),)  # it does not count yet
    if state is State.HALTED:
        order(node, prepared)
    if state is State.PREPARING:
        give(node, 0, Farewell(0, 4, ZERO, np.zeros(1), epoch=2))
    order(node, begin(2))
    assert node.kept.wards[2].own is newer
    assert only(order(node, m.Halt(3, 2)), m.Halted).wards == ((2, 6, (2, 7)),)


def test_a_periodic_checkpoint_that_waited_for_an_epoch_that_is_void_is_late():
    """All that had begun it are dead; in the one that counts no node has come as far."""
    node = halted(keeper())
    order(node, arrange(2, 4))
    assert give(node, 2, m.Checkpoint(2, 6, ZERO, None)) == []
    order(node, m.Halt(3, 1), arrange(3, 4, wards=(2,)))
    (record,) = noted(order(node, begin(3, until=4)), Dropped)
    assert (record.sender, record.why) == (2, "late: of an epoch or attempt that is over")
    early = m.Checkpoint(3, 6, ZERO, None)
    assert blamed(give(node, 2, early)) == (2, "a checkpoint that cannot be right")


def test_a_periodic_checkpoint_that_waited_for_an_epoch_in_which_it_is_no_wards_is_dropped():
    node = halted(keeper())
    order(node, arrange(2, 4))
    assert give(node, 2, m.Checkpoint(2, 6, ZERO, None)) == []
    (record,) = noted(order(node, begin(2)), Dropped)
    assert (record.sender, record.why) == (2, "not a ward, or late")


def test_a_multiple_of_the_interval_that_was_skipped_is_made_up_for():
    """After a loss every node goes on from the latest round: this node skips rounds 4 and 5."""
    node = started(make(tau=4), buddies=(0,))
    assert not sent(rounds(node, 3), m.Checkpoint)
    order(node, m.Halt(2, 1), arrange(2, 5, buddies=(0,), restart=True), begin(2))
    assert (node.state, node.round) == (State.RUNNING, 5)
    made = sent(rounds(node, 8), m.Checkpoint)
    assert [c.round for c in made] == [6, 8, 12]


def test_a_multiple_of_the_interval_that_was_reached_is_not_made_up_for():
    node = started(make(tau=4), buddies=(0,))
    assert only(rounds(node, 5), m.Checkpoint).round == 4
    order(node, m.Halt(2, 1), arrange(2, 7, buddies=(0,), restart=True), begin(2))
    assert only(rounds(node, 1), m.Checkpoint).round == 8


def test_a_ward_that_never_wrote_through_is_no_ward():
    node = started(make(), wards=(0,))
    assert only(order(node, m.Halt(2, 1)), m.Halted).wards == ()


def test_a_lost_node_is_adopted_from_its_checkpoint():
    node = halted(keeper())
    effects = order(node, arrange(2, neighbours=(0,), adopted=(2,), restart=True, weights=(0.5,)))
    (adopted,) = noted(effects, Adopted)
    assert (adopted.epoch, adopted.node, adopted.round) == (2, 2, 0)
    assert (dict(adopted.own.lineage), dict(adopted.inherited.lineage)) == ({2: 1}, {7: 1})
    assert only(effects, m.Ready).lineage == (2, 7)
    assert only(effects, m.Ready).stiffness == 2.0 + 3.0 + 1.0
    order(node, begin(2))
    assert node.iterate.g == 2 * (3.0 - 1.0) + 3 * (3.0 - 0.5) + 1 * (3.0 - 2.0)
    np.testing.assert_array_equal(node.iterate.z, node.iterate.g)  # restarted
    # values are remembered as well as slopes
    for x in (0.0, 0.5, 3.0):
        told = 3 * (x - 0.5) ** 2 / 2 + (x - 2.0) ** 2 / 2
        assert node.inherited.value([x]) == pytest.approx(told, abs=1e-14)


def test_a_lost_node_without_a_will_is_adopted_as_the_memory_of_nobody():
    node = make(tau=1)
    order(node, arrange(wards=(2,)))
    give(node, 2, m.Checkpoint(1, 0, ZERO, ZERO))
    order(node, begin(), m.Halt(2, 1))
    effects = order(node, arrange(2, neighbours=(0,), adopted=(2,), restart=True, weights=(0.5,)))
    assert not noted(effects, Checkpointed)  # it inherits nothing
    assert only(effects, m.Ready).lineage == ()


def test_nobody_can_adopt_what_it_does_not_keep():
    node = halted(started(make()))
    (failed,) = order(node, arrange(2, adopted=(2,)))
    assert "KeyError" in failed.why
    assert node.state is State.GONE


# --- coming back, joining, being forgotten ------------------------------------------------------


def holder(inherited):
    node = halted(started(make()))
    order(node, arrange(2, farewells=(2,), neighbours=(0,), weights=(0.5,)))
    give(node, 2, Farewell(2, 0, inherited, np.zeros(1), epoch=2))
    order(node, begin(2), m.Halt(3, 2))
    return node


def test_a_withdrawal_takes_out_exactly_what_was_handed_over():
    mine, others = quadratic(2, 3.0, 0.5), quadratic(7, 1.0, 2.0)
    node = holder(mine + others)
    z, g = node.iterate.z, node.iterate.g
    order(node, arrange(3, claimant=2, newcomer=2, buddies=(0,)))
    effects = give(node, 2, m.Withdrawal(3, mine))
    assert noted(effects, Withdrawn) == [Withdrawn(3, 2, exact=True)]
    checkpoint = only(effects, m.Checkpoint, to=0)  # what it holds has changed
    assert dict(checkpoint.inherited.lineage) == {7: 1}
    assert only(give(node, 0, m.Kept(3)), m.Ready).lineage == (7,)
    order(node, begin(3))
    np.testing.assert_allclose(node.inherited.gradient([0.3]), others.gradient([0.3]), atol=1e-14)
    np.testing.assert_allclose(
        node.iterate.z - node.iterate.g, z - g, atol=1e-13
    )  # the surplus stays


def test_the_last_memory_that_is_withdrawn_leaves_nothing():
    mine = quadratic(2, 3.0, 0.5)
    node = holder(mine)
    order(node, arrange(3, claimant=2))
    give(node, 2, m.Withdrawal(3, mine))
    order(node, begin(3))
    assert node.inherited.is_zero
    assert node.iterate.g == 4.0


def test_what_was_compressed_with_others_can_only_be_taken_out_approximately():
    def sketched(ident, column):
        return Legacy.anchored(
            ident,
            anchor=[0.0, 0.0],
            value=0.0,
            gradient=[0.0, 0.0],
            eta=0.0,
            factor=np.array(column).reshape(2, 1),
        )

    mine, others = sketched(2, [2.0, 0.0]), sketched(7, [0.0, 1.0])
    blended = (mine + others).recompress(1, at=[0.5, 0.5])
    node = halted(started(make(objective=plane(), start=[1.0, 1.0])))
    order(node, arrange(2, farewells=(2,)))
    give(node, 2, Farewell(2, 0, blended, np.zeros(2), epoch=2))
    order(node, begin(2), m.Halt(3, 2), arrange(3, claimant=2))
    effects = give(node, 2, m.Withdrawal(3, mine))
    assert noted(effects, Withdrawn) == [Withdrawn(3, 2, exact=False)]
    order(node, begin(3))
    assert node.inherited.curvature[0] >= 0


def test_a_withdrawal_counts_once_and_only_from_the_claimant():
    node = holder(quadratic(2, 3.0, 0.5))
    order(node, arrange(3, claimant=2, farewells=(0,)))
    withdrawal = m.Withdrawal(3, quadratic(2, 3.0, 0.5))
    assert "not expected" in dropped(give(node, 5, withdrawal))
    assert give(node, 2, withdrawal) == []
    assert "duplicate" in dropped(give(node, 2, withdrawal))
    assert node.state is State.PREPARING


def returner(**options):
    return make(2, purpose="return", known=(0, 1), host="here", incarnation=1, **options)


def test_somebody_from_outside_asks():
    assert only(returner().handle(Apply()), m.Request, to=m.STEWARD) == m.Request(
        "return", "here", (0, 1), 1
    )


def test_founding_members_have_nothing_to_ask():
    assert make().handle(Apply()) == []


def test_the_latest_receipt_counts():
    """A network that goes back to an earlier epoch remembers again what it did then."""
    node = returner()
    assert node.handle(Receipt(quadratic(2, 9.0, 9.0))) == []
    assert node.handle(Receipt(quadratic(2, 3.0, 0.5))) == []
    assert node.receipt.p == quadratic(2, 3.0, 0.5).p


def test_wills_that_know_the_optimum_hear_when_it_moves():
    node = make()
    assert node.handle(OptimumMoved(np.array([7.0]))) == []
    assert (node.executor.setting.optimum, node.executor.setting.step) == (7.0, STEP)


def test_a_returner_claims_its_legacy_and_begins_at_its_sponsors_iterate():
    mine = quadratic(2, 3.0, 0.5)
    node = returner(receipt=mine, tau=2)
    effects = order(node, arrange(5, 9, neighbours=(1,), weights=(0.5,), buddies=(1,), claim=1,
                                  sponsor=1))  # fmt: skip
    assert only(effects, m.Withdrawal, to=1).legacy is mine
    assert node.state is State.PREPARING
    assert "not expected" in dropped(give(node, 0, m.Welcome(5, np.array([8.0]))))
    effects = give(node, 1, m.Welcome(5, np.array([NAN])))
    assert blamed(effects) == (1, "a welcome that cannot be right")
    assert only(effects, m.Accusation).epoch == 5  # it is not in any epoch yet
    effects = give(node, 1, m.Welcome(5, np.array([6.0])))
    checkpoint = only(effects, m.Checkpoint, to=1)
    assert (checkpoint.epoch, checkpoint.round) == (5, 9)
    np.testing.assert_allclose(checkpoint.own.gradient([6.0]), node.objective.gradient([6.0]))
    assert "duplicate" in dropped(give(node, 1, m.Welcome(5, np.array([7.0]))))
    give(node, 1, m.Kept(5))
    (began,) = noted(order(node, begin(5)), Began)
    assert (began.round, began.x, began.z, began.g) == (9, 6.0, 10.0, 10.0)
    assert dropped(give(node, 1, m.Welcome(5, np.array([7.0])))) == "not expected when running"


def test_an_early_welcome_and_early_checkpoints_wait_for_the_order():
    node = returner()
    assert give(node, 1, m.Welcome(5, np.array([6.0])), m.Checkpoint(5, 9, ZERO, ZERO)) == []
    effects = order(node, arrange(5, 9, neighbours=(1,), weights=(0.5,), wards=(1,), sponsor=1))
    assert [type(message) for message in sent(effects)] == [m.Ready, m.Kept]
    assert node.x == 6.0


def test_the_sponsor_sends_its_iterate():
    node = halted(started(make(start=3.0)))
    effects = order(node, arrange(2, neighbours=(0, 2, 5), newcomer=5))
    welcome = only(effects, m.Welcome, to=5)
    assert (welcome.epoch, welcome.x, welcome.pace) == (2, 3.0, node.iterate.pace)


@pytest.mark.parametrize("pace", [None, 0.25])
def test_a_newcomer_writes_its_first_checkpoint_by_the_pace_that_counts_when_it_comes(pace):
    """Which may be another one than when it asked."""
    asked = []

    class Asked(bq.wills.Consensus):
        def decide(self, estate):
            asked.append(estate.setting.step)
            return super().decide(estate)

    node = make(2, purpose="join", will=Asked(), tau=1)
    order(node, arrange(5, 9, neighbours=(1,), weights=(0.5,), buddies=(1,), sponsor=1))
    for wrong in (0.0, -0.25):
        effects = give(node, 1, m.Welcome(5, np.array([6.0]), wrong))
        assert blamed(effects) == (1, "a welcome that cannot be right")
    give(node, 1, m.Welcome(5, np.array([6.0]), pace))
    assert asked == [STEP if pace is None else pace]


def test_nobody_can_claim_without_a_receipt():
    node = returner()
    (failed,) = order(node, arrange(5, 9, neighbours=(1,), claim=1, sponsor=1))
    assert "has no receipt" in failed.why
    assert node.state is State.GONE


def test_a_receipt_may_become_known_once_it_is_back():
    node = returner()
    assert (node.purpose, node.receipt) == ("return", None)
    assert node.handle(Receipt(quadratic(2, 3.0, 0.5))) == []
    effects = order(node, arrange(5, 9, neighbours=(1,), claim=1, sponsor=1))
    assert only(effects, m.Withdrawal, to=1).legacy is node.receipt


def test_somebody_who_is_forgotten_only_claims():
    node = make(2, purpose="forget", receipt=quadratic(2, 3.0, 0.5), incarnation=1)
    effects = order(node, arrange(5, 9, neighbours=None, claim=1))
    assert [type(message) for message in sent(effects)] == [m.Withdrawal, m.Ready]
    assert dropped(order(node, m.Dismiss(5, incarnation=0))) == "late: of an earlier incarnation"
    assert node.state is State.READY
    order(node, m.Dismiss(5, incarnation=1))
    assert node.state is State.GONE


def test_a_newcomer_whose_epoch_is_abandoned_prepares_the_next_one_afresh():
    node = returner()
    order(node, arrange(5, 9, neighbours=(1,), weights=(0.5,), sponsor=1))
    give(node, 1, m.Welcome(5, np.array([6.0])))
    assert node.state is State.READY
    order(node, arrange(7, 11, neighbours=(0,), weights=(0.5,), sponsor=0))
    assert node.state is State.PREPARING
    assert dropped(order(node, arrange(6, 11, neighbours=(0,), sponsor=0))).startswith("late")
    give(node, 0, m.Welcome(7, np.array([4.0])))
    (began,) = noted(order(node, begin(7)), Began)
    assert (began.round, began.x) == (11, 4.0)


# --- being sent away, being asked ---------------------------------------------------------------


def test_whoever_was_taken_for_lost_learns_it():
    node = started(make(incarnation=1))
    assert (
        dropped(order(node, m.Dismiss(1, excluded=True, incarnation=0)))
        == "late: of an earlier incarnation"
    )
    assert order(node, m.Dismiss(1, excluded=True, incarnation=1)) == [
        Failed("it was taken for lost")
    ]
    assert node.state is State.GONE


def test_a_new_steward_learns_everything_it_has_to_know():
    node = halted(started(make(host="there")))
    prepared = arrange(2, 0, buddies=(0,))
    order(node, prepared)
    said = only(order(node, m.Inquiry()), m.Situation)
    assert (said.present, said.begun, said.prepared) == (arrange(), begin(), None)  # not ready yet
    give(node, 0, m.Kept(2))
    said = only(order(node, m.Inquiry()), m.Situation)
    assert (said.prepared, said.newest, said.host) == (prepared, 2, "there")
    assert said.halted == m.Halted(2, 0, (), (), leaving=False)
    assert (said.purpose, said.known, said.incarnation) == (None, (), 0)


def test_a_new_steward_learns_what_somebody_outside_wants():
    said = only(order(returner(), m.Inquiry()), m.Situation)
    assert (said.present, said.begun, said.prepared, said.newest) == (None, None, None, 0)
    assert (said.purpose, said.known, said.incarnation) == ("return", (0, 1), 1)


def test_who_is_a_member_does_not_want_to_come_in_any_more():
    node = started(returner(), neighbours=(0, 1))
    said = only(order(node, m.Inquiry()), m.Situation)
    assert (said.purpose, said.known, said.incarnation) == (None, (), 1)


# --- failures -----------------------------------------------------------------------------------


class Fragile(bq.Quadratic):
    """A loss that breaks once it has been asked so often."""

    def __init__(self, survives, answer):
        super().__init__([[2.0]], [1.0])
        self.survives, self.answer = survives, answer

    def gradient(self, x):
        self.survives -= 1
        if self.survives < 0:
            return self.answer()
        return super().gradient(x)


def raises():
    raise ValueError("the data is gone")


def test_a_loss_that_raises_is_the_end_of_the_node():
    node = make(objective=Fragile(1, raises))  # it is asked before it begins, and then once a round
    started(node)
    give(node, 0, exchange(1, 1, 1.0, 1.0))
    assert give(node, 2, exchange(1, 1, 1.0, 1.0)) == [Failed("ValueError: the data is gone")]
    assert node.state is State.GONE
    assert dropped(give(node, 0, exchange(1, 2, 1.0, 1.0))) == "not expected when gone"


def test_a_loss_that_answers_with_nan_is_the_end_of_the_node():
    node = started(make(objective=Fragile(1, lambda: np.array([NAN]))))
    give(node, 0, exchange(1, 1, 1.0, 1.0))
    (failed,) = give(node, 2, exchange(1, 1, 1.0, 1.0))
    assert failed.why == "FloatingPointError: the gradient is not finite at |x| = 1.5"
    assert node.state is State.GONE


@dataclass(frozen=True)
class Broken(bq.wills.Will):
    label = "broken"

    def decide(self, estate):
        raise RuntimeError("no pen")


@dataclass(frozen=True)
class Muddled(bq.wills.Will):
    """It asked a loss that answers with nonsense where the optimum is expected."""

    label = "muddled"

    def decide(self, estate):
        legacy = Legacy(1.0, np.array([NAN]), 0.0, {estate.node: 1})
        return bq.wills.Bequest("consensus", "why not", legacy=legacy)


def test_a_legacy_that_is_not_finite_is_the_end_of_the_node_and_nobody_gets_it():
    node = halted(started(make(will=Muddled())))
    (failed,) = order(node, arrange(2, neighbours=None, heir=0, remaining=2))
    assert "The will of node 1 (muddled) returned a legacy (consensus) that is not" in failed.why
    assert node.state is State.GONE


def test_a_will_that_raises_is_the_end_of_the_node():
    node = halted(started(make(will=Broken())))
    effects = order(node, arrange(2, neighbours=None, heir=0, remaining=2))
    assert effects == [Failed("RuntimeError: no pen")]
    assert node.state is State.GONE


def test_who_has_no_will_cannot_leave():
    node = halted(started(make(will=None)))
    (failed,) = order(node, arrange(2, neighbours=None, heir=0, remaining=2))
    assert "AssertionError" in failed.why


def test_verdicts_are_for_the_steward():
    node = started(make())
    (failed,) = node.handle(Lost(0))
    assert failed.why == "TypeError: Lost is no event of a node"
    assert node.state is State.GONE


# --- memory -------------------------------------------------------------------------------------

DRIFT = bq.wills.Drift(0)
SECANT = bq.wills.Drift(0, hessian="secant")


def wanderer(until, will=DRIFT):
    """A pair that converges slowly; node 1 remembers its path."""
    ours = bq.Quadratic([[3.0, 1.0], [1.0, 1.0]], [1.0, -1.0])
    theirs = bq.Quadratic([[1.0, 0.0], [0.0, 2.0]], [-1.0, 2.0])
    circle = Circle(
        make(0, objective=theirs, start=[5.0, 5.0], will=None),
        make(1, objective=ours, start=[-3.0, 4.0], will=will),
    )
    for k in (0, 1):
        circle.order({k: arrange(neighbours=(1 - k,), weights=(0.4,), members=2)})
    circle.all(begin(until=until, step=0.05))
    return circle


def onward(circle, epoch, until, *, step=0.05, **fields):
    """Let both go on, in another epoch, to that round."""
    circle.all(m.Halt(epoch, epoch - 1))
    t = circle.nodes[1].round
    for k in (0, 1):
        circle.order(
            {k: arrange(epoch, t, neighbours=(1 - k,), weights=(0.4,), members=2, **fields)}
        )
    circle.all(begin(epoch, until=until, step=step))


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 40, 100])
def test_the_pairs_that_are_kept_are_those_of_the_core(length):
    circle = wanderer(length)
    (opening,) = circle.noted(Began, 1)
    states = [opening, *circle.noted(Completed, 1)]
    recent = circle.nodes[1].executor.path.recent
    ages = history.kept(length)[::-1]
    np.testing.assert_array_equal(recent.X, [states[age].x for age in ages])
    np.testing.assert_array_equal(recent.Z, [states[age].z for age in ages])


@pytest.mark.parametrize(
    "stops", [(8, 17), (8, 19), (8, 20, 60), (20, 25, 60), (4, 10, 19, 40), (3, 6)]
)
@pytest.mark.parametrize("will", [DRIFT, SECANT])
def test_what_is_carried_over_is_what_the_vector_engine_says(stops, will):
    circle = wanderer(stops[0], will)
    for epoch, until in enumerate(stops[1:], start=2):
        onward(circle, epoch, until)
    node = circle.nodes[1]
    plan = SimpleNamespace(
        schedule={stops[-1]: Changes(departures=(1,))},
        wills={1: will},
        problem=SimpleNamespace(objective=lambda _: node.objective, mu=node.objective.curvature.a),
        method=bq.GradientTracking(),
    )
    histories = PathHistories(plan)
    began = {state.round: state for state in circle.noted(Began, 1)}
    states = {state.round: state for state in circle.noted(Completed, 1)}
    for t, stop in itertools.pairwise((0, *stops)):
        opening = began[t]
        histories.open(t, stop, np.array([1]), opening.x[None], opening.z[None], 0.05, {})
        for s in range(t + 1, stop + 1):
            histories.note(s, states[s].x[None, None], states[s].z[None, None])
    recent, carried = histories.of(1, stops[-1])
    memory = node.executor.path
    np.testing.assert_array_equal(memory.recent.X, recent.X)
    np.testing.assert_array_equal(memory.recent.Z, recent.Z)
    assert (memory.carried is None) == (carried is None)
    assert carried is not None or stops[0] == 3
    if carried is not None:
        np.testing.assert_array_equal(memory.carried.point, carried.point)
        assert memory.carried.doubt == carried.doubt


def test_the_will_gets_the_pairs_and_what_was_carried_over():
    seen = []

    @dataclass(frozen=True)
    class Curious(bq.wills.Will):
        label = "curious"
        needs_history = True

        def decide(self, estate):
            seen.append(estate)
            return bq.wills.Bequest("none", "only looked")

    circle = wanderer(20, Curious())
    onward(circle, 2, 21)
    circle.all(m.Halt(3, 2))
    circle.order({1: arrange(3, 21, neighbours=None, heir=0, remaining=1)})
    (estate,) = seen
    assert len(estate.recent) == 2
    assert estate.carried is circle.nodes[1].executor.path.carried is not None


def test_once_another_sum_is_minimised_what_was_carried_over_is_forgotten():
    circle = wanderer(20)
    onward(circle, 2, 25)
    assert circle.nodes[1].executor.path.carried is not None
    onward(circle, 3, 60, target_moves=True)
    assert circle.nodes[1].executor.path.carried is None
    onward(circle, 4, 61)  # the epoch since then is about the new one
    assert circle.nodes[1].executor.path.carried is not None


def test_an_epoch_without_rounds_does_not_interrupt_the_memory(monkeypatch):
    """Pages turn with the first round, and what is predicted then is with the step it had."""
    circle = wanderer(20)
    turned = []
    monkeypatch.setattr(PathHistory, "begin", lambda _, x, z, step: turned.append(step))
    onward(circle, 2, 20, step=0.01)
    assert len(circle.nodes[1].executor.path.recent) == 16
    onward(circle, 3, 20, step=0.005)
    assert turned == []
    onward(circle, 4, 21, step=0.002)
    assert turned == [0.05]
    onward(circle, 5, 22)
    assert turned == [0.05, 0.002]


def test_a_newcomer_has_a_page_to_write_its_first_checkpoint_with():
    node = make(2, purpose="join", will=DRIFT, tau=1)
    order(node, arrange(5, 9, neighbours=(1,), weights=(0.5,), buddies=(1,), sponsor=1))
    effects = give(node, 1, m.Welcome(5, np.array([6.0])))
    assert len(noted(effects, Checkpointed)) == 1
    assert len(node.executor.path.recent) == 1


def test_a_memory_of_its_own():
    memory = PathHistory(loss(), by_gradients=False)
    memory.begin(np.zeros(1), np.zeros(1), STEP)
    assert memory.carried is None
    memory.note(np.ones(1), np.ones(1))
    np.testing.assert_array_equal(memory.recent.X, [[1.0], [0.0]])
    memory.begin(np.ones(1), np.ones(1), STEP)
    assert len(memory.recent) == 1
    assert memory.carried is None  # one round says nothing


@pytest.mark.parametrize(
    "message",
    [
        m.Halt(9, 1),
        m.Advance(9, 7),
        arrange(9, 7),
        begin(9),
        m.Dismiss(9, excluded=True),
        m.Inquiry(),
    ],
)
def test_only_the_steward_gives_orders(message):
    node = make()
    order(node, arrange(), begin())
    before = node.state
    effects = give(node, 0, message)
    assert node.state is before
    (accusation,) = sent(effects, m.Accusation)
    assert accusation.culprit == 0
    assert "only the steward" in accusation.why


# --- a node that vanished without a word -------------------------------------------------------


def settler(z, **fields):
    """Node 1, alone with its buddy 0, which has to make up for what node 2 had; g is 4 there."""
    node = halted(started(make(), buddies=(0,)))
    node.iterate.z = np.array([z])
    order(node, arrange(2, 0, neighbours=(0,), members=2, buddies=(0,), sums_from=(0,), **fields))
    return node


def test_a_slope_that_is_recalled_is_kept_by_the_buddies_before_it_counts():
    node = settler(0.1, recalls=2)
    effects = give(node, 0, m.Imbalance(2, np.array([1.0]), 0.1, 4.0, 1.0, 1, 9.0))
    (recalled,) = noted(effects, Recalled)
    assert (recalled.epoch, recalled.node) == (2, 2)
    np.testing.assert_allclose(recalled.legacy.p, [0.1 - 4.0 + 1.0])
    assert dict(recalled.legacy.lineage) == {2: 1}
    kept = only(effects, m.Checkpoint, to=0)
    assert dict(kept.inherited.lineage) == {2: 1}
    np.testing.assert_array_equal(kept.inherited.p, recalled.legacy.p)
    assert not sent(effects, m.Ready)
    ready = only(give(node, 0, m.Kept(2)), m.Ready)
    assert (ready.lineage, ready.stiffness) == ((2,), 2.0)
    before = node.iterate.z
    order(node, begin(2))
    np.testing.assert_allclose(node.iterate.z, before, atol=1e-15)  # no tracker moves
    np.testing.assert_allclose(node.iterate.g, [4.0 - 2.9])


@pytest.mark.parametrize(
    "sums",
    [
        m.Imbalance(2, np.array([1.0]), 2.0, 4.0, 1.0, 1, 9.0),  # far from the optimum
        m.Imbalance(2, np.array([1.0]), 0.1, 4.0, -9.0, 1, 9.0),  # without curvature from below
        m.Imbalance(2, np.array([3.9]), 0.1, 4.0, 1.0, 1, 9.0),  # nothing is lacking
    ],
)
def test_a_slope_that_is_doubted_is_made_up_for_and_forgotten(sums):
    node = settler(0.1, recalls=2)
    effects = give(node, 0, sums)
    assert noted(effects, Recalled)[0].legacy is None
    assert only(effects, m.Ready).lineage == ()
    before = node.iterate.z
    order(node, begin(2))
    np.testing.assert_allclose(node.iterate.z - before, -(0.1 - 4.0 + sums.surplus))


def test_a_sum_is_passed_on_with_all_that_goes_with_it():
    node = halted(started(make()))
    node.iterate.z = np.array([0.5])
    order(node, arrange(2, 0, sums_from=(2,), sums_to=0))
    sums = only(
        give(node, 2, m.Imbalance(2, np.array([1.0]), 0.25, 3.0, 1.5, 4, 9.0)), m.Imbalance, 0
    )
    np.testing.assert_allclose(sums.surplus, [0.5 - 4.0 + 1.0])
    told = (sums.trackers, sums.gradients, sums.strength, sums.nodes, sums.way)
    assert told == pytest.approx((0.75, 7.0, 3.5, 5, 9.0))


@pytest.mark.parametrize("metric", ["scalar", "hessian"])
def test_an_heir_raises_its_own_metric(metric):
    """P = max(M/1.9, 1.58c(1 - w_ii)) of what it carries, in the epoch that it is in."""
    node = make(method=bq.NIDS(metric, safety=0.95))
    order(node, arrange(neighbours=(0, 2), weights=(0.25, 0.25)), begin(step=0.1))
    z = node.iterate.z
    payload = node.iterate.payload()
    np.testing.assert_allclose(payload, node.x - z * 1.9 / 2.0)  # 2/1.9 > 1.58 * 0.1 * 0.5
    halted(node)
    order(node, arrange(2, 0, neighbours=(0,), weights=(0.5,), members=2, farewells=(2,)))
    give(node, 2, Farewell(2, 0, quadratic(2, 6.0, 0.0), np.zeros(1), 2))
    order(node, begin(2, step=0.1))
    np.testing.assert_allclose(node.iterate.payload(), node.x - node.iterate.z * 1.9 / 8.0)
    halted(node, 3, 2)
    order(node, arrange(3, 0, neighbours=(0,), weights=(0.5,), members=2), begin(3, step=20.0))
    np.testing.assert_allclose(node.iterate.payload(), node.x - node.iterate.z / 15.8)
