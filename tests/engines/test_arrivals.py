"""Nodes that come in: one command at a time, and the supervisor hears how each one ended."""

from types import SimpleNamespace

from bequest.engines.runtime.arrivals import Arrivals
from bequest.engines.runtime.supervisor import Relocate, StartNode


class Supervisor:
    """Hears of nodes that come, and wants what the test has planned."""

    def __init__(self):
        self.heard = []

    def started(self, setup):
        self.heard.append(("started", setup.ident))
        return ["next"]

    def refused(self, setup, why):
        self.heard.append((why, setup.ident))
        return []

    def retry(self, setup):
        self.heard.append(("retry", setup.ident))
        return [StartNode(setup, "host 2", None)]


def start(node, host="host 1"):
    return StartNode(SimpleNamespace(ident=node), host, None)


def test_the_carrier_begins_once_and_goes_on_while_there_is_something():
    supervisor = Supervisor()
    arrivals = Arrivals(supervisor)
    assert arrivals.next is None
    assert arrivals.put(Relocate(3, "host 1"))
    assert not arrivals.put(start(3))
    assert not arrivals.put(start(4))
    assert arrivals.next == Relocate(3, "host 1")
    arrivals.moved()
    assert arrivals.next.setup.ident == 3
    assert arrivals.answered(None) == ["next"]
    assert arrivals.next.setup.ident == 4
    assert arrivals.answered("no such file") == []
    assert arrivals.next is None
    assert supervisor.heard == [("started", 3), ("no such file", 4)]
    assert arrivals.put(start(5))


def test_a_host_that_dies_makes_room_for_another():
    arrivals = Arrivals(Supervisor())
    arrivals.put(start(3))
    (again,) = arrivals.host_died()
    assert arrivals.next is None
    assert arrivals.put(again)
    assert arrivals.next.host == "host 2"
