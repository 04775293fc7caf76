"""What a supervisor waits for before an epoch counts."""

import numpy as np
import pytest

from bequest.engines.runtime.report_order import ReportOrder
from bequest.protocol.events import Began, Committed


class Records:
    """Stands in for the ledger."""

    def __init__(self):
        self.committed, self.back_to = [], []

    def go_back(self, epoch):
        self.back_to.append(epoch)

    def commit(self, change):
        self.committed.append(change.epoch)

    def remember(self, process, x):
        pass


@pytest.fixture
def records():
    return Records()


@pytest.fixture
def order(records):
    return ReportOrder(records, None, lambda change: None)


def committed(epoch, members, incarnations, follows=0):
    return Committed(epoch, 0, False, members, (), (), None, None, (), incarnations, follows)


def began(order, epoch, *nodes):
    vector = np.zeros(1)
    for node in nodes:
        order.observe(node, Began(epoch, 0, vector, vector, vector))


def test_an_epoch_counts_once_every_member_has_begun_it(order, records):
    order.observe(-1, committed(1, (0, 1), (0, 0)))
    began(order, 1, 0)
    assert records.committed == []
    began(order, 1, 1)
    assert records.committed == [1]


def test_a_lost_member_is_not_waited_for(order, records):
    order.observe(-1, committed(1, (0, 1), (0, 0)))
    began(order, 1, 0)
    order.lose(1, 0)
    assert records.committed == [1]


def test_an_epoch_that_only_the_dead_have_begun_did_not_happen(order, records):
    order.observe(-1, committed(1, (0, 1), (0, 0)))
    began(order, 1, 0)
    order.lose(0, 0)
    order.lose(1, 0)
    assert records.committed == []


def test_a_void_verdict_does_not_bring_an_earlier_incarnation_back(order, records):
    """A wrong verdict that no steward has heard is taken back; the one before it was right."""
    order.observe(-1, committed(1, (0, 1, 2), (0, 0, 0)))
    began(order, 1, 0)
    order.lose(0, 0)
    order.lose(1, 0)
    order.admit(1, 1)
    order.lose(1, 1)
    order.revive({1: 1, 2: 0})
    order.observe(-1, committed(9, (2,), (0,)))
    began(order, 9, 2)
    assert records.committed == [9]


def test_a_void_verdict_is_void(order, records):
    order.lose(1, 0)
    order.revive({0: 0, 1: 0})
    order.observe(-1, committed(1, (0, 1), (0, 0)))
    began(order, 1, 0)
    assert records.committed == []
    began(order, 1, 1)
    assert records.committed == [1]


def test_an_epoch_of_nodes_that_were_taken_for_lost_waits_for_the_next_steward(order, records):
    """The only member has begun it; a new steward finds it alive, or it does not."""
    order.observe(-1, committed(1, (0,), (0,)))
    order.lose(0, 0)
    began(order, 1, 0)
    assert records.committed == []
    order.revive({0: 0})
    assert records.committed == [1]


def test_an_epoch_of_the_dead_does_not_hold_up_others(order, records):
    order.observe(-1, committed(1, (0,), (0,)))
    began(order, 1, 0)
    order.lose(0, 0)
    order.observe(-1, committed(2, (0,), (0,)))
    began(order, 2, 0)
    order.observe(-1, committed(9, (1,), (1,)))
    order.admit(1, 1)
    began(order, 9, 1)
    assert records.committed == [1, 9]


def test_an_epoch_that_a_member_skips_did_not_happen(order, records):
    """Only a dead node has begun it, and a member that leaves meanwhile never will."""
    order.observe(-1, committed(2, (0, 1, 5), (0, 0, 0)))
    began(order, 2, 5)
    order.lose(5, 0)
    order.observe(-1, committed(9, (1,), (0,)))  # node 0 has left in good order
    began(order, 9, 1)
    assert records.committed == [9]


def test_a_node_that_is_back_has_not_skipped_the_epoch_of_its_earlier_incarnation(order, records):
    order.observe(-1, committed(2, (0, 1, 5), (0, 0, 0)))
    order.admit(5, 1)
    began(order, 2, 0)
    order.observe(-1, committed(3, (0, 1, 5), (0, 0, 1)))
    began(order, 3, 5)
    assert records.committed == []
    began(order, 2, 1)
    assert records.committed == [2]
    began(order, 3, 0, 1)
    assert records.committed == [2, 3]


def test_the_ledger_hears_which_epoch_the_network_went_on_from(order, records):
    """Node 1 was dismissed with epoch 2; all that had begun it are dead before it hears that."""
    order.observe(-1, committed(1, (0, 1), (0, 0)))
    began(order, 1, 0, 1)
    order.observe(-1, committed(2, (0,), (0,), follows=1))
    began(order, 2, 0)
    order.lose(0, 0)
    order.observe(-1, committed(9, (1,), (0,), follows=1))
    began(order, 9, 1)
    assert (records.committed, records.back_to) == ([1, 2, 9], [0, 1, 1])


def test_a_member_whose_next_incarnation_comes_is_not_waited_for(order, records):
    order.observe(-1, committed(1, (0, 1, 2), (0, 0, 0)))
    began(order, 1, 0)  # from here on the last member is waited for
    order.admit(2, 1)
    began(order, 1, 1)
    assert records.committed == [1]


def test_a_member_that_is_waited_for_may_be_in_an_earlier_epoch(order, records):
    order.observe(-1, committed(1, (0, 1, 2), (0, 0, 0)))
    order.observe(-1, committed(2, (0, 1), (0, 0), follows=1))
    began(order, 2, 0)
    began(order, 2, 1)
    assert records.committed == [2]  # the first one has not been heard of
    order.observe(-1, committed(3, (0, 1), (0, 0), follows=2))
    began(order, 4, 1)  # is waited for in vain: nothing is known of that epoch
    began(order, 3, 0)
    assert records.committed == [2, 3]


def test_members_are_counted_in_one_go(order, records, monkeypatch):
    """Not all of them again for each that begins."""
    asked = []
    has_come = ReportOrder._has_come

    def counted(self, node, epoch, lost):
        asked.append(node)
        return has_come(self, node, epoch, lost)

    monkeypatch.setattr(ReportOrder, "_has_come", counted)
    members = tuple(range(500))
    order.observe(-1, committed(1, members, (0,) * 500))
    began(order, 1, *members)
    assert records.committed == [1]
    assert len(asked) < 2 * len(members)
