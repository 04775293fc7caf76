"""What is on record of a run whose network goes back to an earlier epoch."""

import pytest

import bequest as bq
from bequest.core.legacy import Legacy
from bequest.engines.runtime.ledger import Ledger
from bequest.engines.runtime.node_setup import opening_pace
from bequest.protocol.events import Adopted, Adoption, Arrival, Committed, Withdrawn
from bequest.solver import prepare


def legacy(node, eta):
    return Legacy.anchored(node, anchor=[0.0], value=0.0, gradient=[0.0], eta=eta)


@pytest.fixture
def ledger():
    losses = [bq.Quadratic([[1.0]], [float(node)]) for node in range(4)]
    plan = prepare(bq.Problem(losses), [(0, 1), (1, 2), (2, 3)], rounds=9)
    return Ledger(plan, opening_pace(plan))


def lose(ledger, epoch, node, memory):
    ledger.observe(0, Adopted(epoch, node, 3, memory, Legacy.zero(1)))
    adoption = Adoption(node, 0, (), ())
    ledger.commit(Committed(epoch, 3, False, (0, 1), (), (adoption,), None, None, ()))


def bring(ledger, epoch, node, purpose):
    ledger.observe(0, Withdrawn(epoch, node, True))
    arrival = Arrival(purpose, node, 0, 0, (0,))
    ledger.commit(Committed(epoch, 3, False, (0, 1), (), (), arrival, None, ()))


def test_what_was_forgotten_in_an_epoch_that_is_void_can_be_taken_back(ledger):
    first, other = legacy(2, 1.0), legacy(3, 2.0)
    lose(ledger, 2, 2, first)
    lose(ledger, 3, 3, other)
    bring(ledger, 4, 2, "forget")
    assert ledger.receipts == {3: other}
    ledger.go_back(3)
    assert ledger.receipts == {2: first, 3: other}
    ledger.go_back(2)
    assert ledger.receipts == {2: first}


def test_a_memory_of_an_epoch_that_is_void_is_replaced_by_the_one_before(ledger):
    first, second = legacy(2, 1.0), legacy(2, 5.0)
    lose(ledger, 2, 2, first)
    bring(ledger, 3, 2, "return")
    lose(ledger, 4, 2, second)
    ledger.go_back(4)
    assert ledger.receipts == {2: second}
    ledger.go_back(2)
    assert ledger.receipts == {2: first}
    ledger.go_back(0)
    assert ledger.receipts == {}
