"""Every state and every message: what a node does about it is written down here once more."""

import inspect
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from protocol.hand import arrange, begin, exchange, give, make, order, quadratic

from bequest.core.farewell import Farewell
from bequest.core.legacy import Legacy
from bequest.protocol import dispatch
from bequest.protocol import messages as m
from bequest.protocol import node as node_module
from bequest.protocol.events import Apply, Dropped, Received, Send
from bequest.protocol.node import Node
from bequest.protocol.states import FOR_THE_STEWARD, NEXT, TABLE, State, Turn, diagram

# A row per message, a column per state: the state afterwards and what happens.
#   drop    it is dropped, with a record
#   blame   likewise, and the sender is accused: this is the steward's business
#   keep    its time has not come
#   take    it is noted, and nothing is to be said about it yet
#   Names   the messages that are sent because of it
# The node is number 1 on the path 0 - 1 - 2, in epoch 1 after no round; 2 leaves for epoch 2.
MEMBER = """
                  outside         preparing        ready            running           halted           gone
Exchange          outside keep    preparing take   ready take       running Exchange  halted take      gone drop
Farewell          outside keep    preparing Check  ready drop       running keep      halted keep      gone drop
Checkpoint        outside keep    preparing Kept   ready Kept       running keep      halted Kept      gone drop
Kept              outside drop    ready Ready      ready drop       running drop      halted drop      gone drop
Withdrawal        outside keep    preparing Check  ready drop       running keep      halted keep      gone drop
Welcome           outside keep    preparing drop   ready drop       running drop      halted drop      gone drop
Imbalance         outside drop    ready Imbalance   ready drop      running keep      halted keep      gone drop
Halt              outside drop    halted Halted    halted Halted    halted Halted     halted Halted    gone drop
Advance           outside drop    preparing drop   ready drop       running drop      running take     gone drop
Arrange           preparing Check preparing drop   ready drop       running drop      preparing take   gone drop
Begin             outside drop    preparing drop   running Begun    running drop      halted drop      gone drop
Dismiss           outside drop    preparing drop   gone take        running drop      halted drop      gone drop
Dismiss!          gone take       gone take        gone take        gone take         gone take        gone drop
Inquiry           outside Situ    preparing Situ   ready Situ       running Situ      halted Situ      gone drop
Halted            outside blame   preparing blame  ready blame      running blame     halted blame     gone blame
Ready             outside blame   preparing blame  ready blame      running blame     halted blame     gone blame
Refused           outside blame   preparing blame  ready blame      running blame     halted blame     gone blame
Begun             outside blame   preparing blame  ready blame      running blame     halted blame     gone blame
LeaveRequest      outside blame   preparing blame  ready blame      running blame     halted blame     gone blame
Accusation        outside blame   preparing blame  ready blame      running blame     halted blame     gone blame
Situation         outside blame   preparing blame  ready blame      running blame     halted blame     gone blame
Request           outside blame   preparing blame  ready blame      running blame     halted blame     gone blame
"""  # noqa: E501 - a table
# A node that wants to come back: node 0 remembers it and is its sponsor, for epoch 2.
NEWCOMER = """
                  outside         preparing        ready
Exchange          outside keep    preparing keep   ready keep
Farewell          outside keep    preparing drop   ready drop
Checkpoint        outside keep    preparing Kept   ready Kept
Kept              outside drop    preparing drop   ready drop
Withdrawal        outside keep    preparing drop   ready drop
Welcome           outside keep    preparing Check  ready drop
Imbalance         outside drop    preparing drop   ready drop
Halt              outside drop    preparing keep   ready keep
Advance           outside drop    preparing drop   ready drop
Arrange           preparing Withd preparing Withd  preparing Withd
Begin             outside drop    preparing drop   running Begun
Dismiss           outside drop    preparing drop   gone take
Dismiss!          gone take       gone take        gone take
Inquiry           outside Situ    preparing Situ   ready Situ
Halted            outside blame   preparing blame  ready blame
Ready             outside blame   preparing blame  ready blame
Refused           outside blame   preparing blame  ready blame
Begun             outside blame   preparing blame  ready blame
LeaveRequest      outside blame   preparing blame  ready blame
Accusation        outside blame   preparing blame  ready blame
Situation         outside blame   preparing blame  ready blame
Request           outside blame   preparing blame  ready blame
"""


def cells(table):
    head, *rows = table.strip("\n").splitlines()
    states = [State(name) for name in head.split()]
    for row in rows:
        name, *words = row.split()
        assert len(words) == 2 * len(states), row
        for state, after, happens in zip(states, words[::2], words[1::2], strict=True):
            yield pytest.param(name, state, State(after), happens, id=f"{name}-{state}")


KIND = {kind.__name__: kind for kind in m.KINDS} | {"Dismiss!": m.Dismiss}
OWN = quadratic(1, 2.0, 1.0)
ZERO = Legacy.zero(1)
FAREWELL = Farewell(2, 0, quadratic(2, 3.0, 0.0), np.array([0.5]), epoch=2)
HALTED = m.Halted(1, 0, (), (), leaving=False)

# what is to be prepared so that the message is what the node waits for
NEEDS = {
    m.Withdrawal: {"claimant": 3},
    m.Kept: {"buddies": (0, 2)},  # 2 has not kept anything yet
    m.Imbalance: {"sums_from": (2,), "sums_to": 0},
}
DEPARTURE = {"farewells": (2,)}
MESSAGES = {
    "Exchange": (0, exchange(1, 1, 1.0, 1.0)),
    "Farewell": (2, FAREWELL),
    "Checkpoint": (0, m.Checkpoint(2, 0, ZERO, ZERO)),
    "Kept": (2, m.Kept(2)),
    "Withdrawal": (3, m.Withdrawal(2, quadratic(3, 1.0, 0.0))),
    "Welcome": (0, m.Welcome(2, np.array([4.0]))),
    "Imbalance": (2, m.Imbalance(2, np.array([0.5]), 1.0, 1.0, 1.0, 1, 1.0)),
    "Halt": (m.STEWARD, m.Halt(3, 1)),
    "Advance": (m.STEWARD, m.Advance(2, 1)),
    "Begin": (m.STEWARD, begin(2)),
    "Dismiss": (m.STEWARD, m.Dismiss(2)),
    "Dismiss!": (m.STEWARD, m.Dismiss(2, excluded=True)),
    "Inquiry": (m.STEWARD, m.Inquiry()),
    "Halted": (2, HALTED),
    "Ready": (2, m.Ready(2, 1.0, ())),
    "Refused": (2, m.Refused(2)),
    "Begun": (2, m.Begun(2)),
    "LeaveRequest": (2, m.LeaveRequest()),
    "Accusation": (2, m.Accusation(1, 0, "it is said")),
    "Situation": (2, m.Situation(None, None, None, 0, HALTED, "")),
    "Request": (2, m.Request("join", "")),
}
FOUNDING = arrange(1, buddies=(0,), wards=(0,))


def prepares(kind):
    return arrange(2, **{"buddies": (0,), **NEEDS.get(kind, DEPARTURE)})


def member(state, kind=m.Exchange):
    """A founder, brought into that state by what a steward and neighbours would say."""
    node = make(1)
    if state is State.OUTSIDE:
        return node
    order(node, FOUNDING)
    give(node, 0, m.Kept(1), m.Checkpoint(1, 0, ZERO, ZERO))
    order(node, begin(1))
    if kind is m.Withdrawal:
        node.iterate.inherited = MESSAGES["Withdrawal"][1].legacy
    give(node, 2, exchange(1, 1, 2.0, 2.0))
    if state is State.RUNNING:
        return node
    if state is State.GONE:
        order(node, m.Dismiss(1, excluded=True))
        return node
    order(node, m.Halt(2, 1))
    if state is State.HALTED:
        return node
    order(node, prepares(kind))
    if state is State.PREPARING:
        return node
    if kind is m.Withdrawal:
        give(node, *MESSAGES["Withdrawal"])
    elif kind is m.Imbalance:
        give(node, *MESSAGES["Imbalance"])
    elif kind is not m.Kept:
        give(node, *MESSAGES["Farewell"])
    give(node, 2 if kind is m.Kept else 0, m.Kept(2))
    return node


RETURN = arrange(2, 5, neighbours=(0,), weights=(0.5,), buddies=(0,), claim=0, sponsor=0)


def newcomer(state, kind=m.Exchange):
    node = make(1, purpose="return", receipt=OWN, incarnation=1)
    node.handle(Apply())
    if state is State.OUTSIDE:
        return node
    order(node, RETURN)
    if state is State.READY:
        give(node, *MESSAGES["Welcome"])
        give(node, 0, m.Kept(2))
    return node


def what_happens(node, effects, kept):
    names = [type(effect).__name__ for effect in effects]
    if "Dropped" in names:
        (record,) = (effect for effect in effects if isinstance(effect, Dropped))
        accusations = [e.message for e in effects if isinstance(e, Send)]
        assert len(effects) == 1 + len(accusations)
        return "blame" if accusations else "drop", record
    said = [type(e.message).__name__ for e in effects if isinstance(e, Send)]
    if said:
        return said, None
    return "keep" if len(node._early) > kept else "take", None


def check(node, message_of, name, state, after, happens):
    assert node.state is state
    sender, message = message_of
    kept = len(node._early)
    found, record = what_happens(node, node.handle(Received(sender, message)), kept)
    assert node.state is after
    if happens in ("drop", "blame", "keep", "take"):
        assert found == happens
    else:
        assert any(said.startswith(happens) for said in found)
    if record is not None:
        assert (record.sender, record.kind) == (sender, type(message).__name__)
        assert record.why
    if (state, type(message)) not in TABLE:
        assert happens in ("drop", "blame")
    assert (happens == "blame") == isinstance(message, FOR_THE_STEWARD)


@pytest.mark.parametrize(("name", "state", "after", "happens"), list(cells(MEMBER)))
def test_what_a_member_does(name, state, after, happens):
    kind = KIND[name]
    messages = MESSAGES | {
        "Arrange": (m.STEWARD, FOUNDING if state is State.OUTSIDE else prepares(kind))
    }
    check(member(state, kind), messages[name], name, state, after, happens)


@pytest.mark.parametrize(("name", "state", "after", "happens"), list(cells(NEWCOMER)))
def test_what_a_newcomer_does(name, state, after, happens):
    # the steward may begin anew without a newcomer's having been told to stop
    anew = RETURN if state is State.OUTSIDE else arrange(3, 6, neighbours=(0,), claim=0, sponsor=0)
    incarnation = {
        "Arrange": (m.STEWARD, replace(anew, incarnation=1)),
        "Dismiss": (m.STEWARD, m.Dismiss(2, incarnation=1)),
        "Dismiss!": (m.STEWARD, m.Dismiss(2, excluded=True, incarnation=1)),
    }
    check(newcomer(state), (MESSAGES | incarnation)[name], name, state, after, happens)


# --- one steward after the other ---------------------------------------------------------------

ORDERS = ("Halt", "Advance", "Arrange", "Begin", "Dismiss", "Dismiss!", "Inquiry")


def orders(table):
    return [param for param in cells(table) if param.values[0] in ORDERS]


def told(name, state):
    """What the steward says to a member, as in the table, and the member."""
    kind = KIND[name]
    founding = (m.STEWARD, FOUNDING if state is State.OUTSIDE else prepares(kind))
    return (MESSAGES | {"Arrange": founding})[name][1], member(state, kind)


@pytest.mark.parametrize(("name", "state", "after", "happens"), orders(MEMBER))
def test_orders_of_an_earlier_steward_are_dropped_in_every_state(name, state, after, happens):
    message, node = told(name, state)
    order(node, m.Inquiry(term=2))
    for term in (0, 1):
        (record,) = give(node, m.STEWARD, replace(message, term=term))
        assert record == Dropped(m.STEWARD, type(message).__name__, "of an earlier steward")
        assert (node.state, node._early) == (state, [])
    # from the one that it listens to, the same order is followed
    check(node, (m.STEWARD, replace(message, term=2)), name, state, after, happens)


@pytest.mark.parametrize(("name", "state", "after", "happens"), orders(MEMBER))
def test_a_later_steward_is_listened_to_from_its_first_order_on(name, state, after, happens):
    message, node = told(name, state)
    check(node, (m.STEWARD, replace(message, term=3)), name, state, after, happens)
    (record,) = give(node, m.STEWARD, m.Inquiry(term=2))
    assert record.why == "of an earlier steward"


@pytest.mark.parametrize("name", sorted(MESSAGES.keys() - set(ORDERS)))
def test_what_nodes_say_is_of_no_steward(name):
    """Whichever steward there is now, neighbours are listened to as before."""
    (cell,) = (p.values for p in cells(MEMBER) if p.values[:2] == (name, State.PREPARING))
    node = member(State.PREPARING, KIND[name])
    order(node, m.Inquiry(term=2))
    check(node, MESSAGES[name], *cell)


# --- the table is complete, and no larger than it must be ---------------------------------------


def expected(table):
    return {param.values[:2]: param.values[2:] for param in cells(table)}


def test_every_pair_is_written_down():
    pairs = {(name.rstrip("!"), state) for name, state in expected(MEMBER)}
    assert pairs == {(kind.__name__, state) for kind in m.KINDS for state in State}
    outside = {State.OUTSIDE, State.PREPARING, State.READY}
    pairs = {(name.rstrip("!"), state) for name, state in expected(NEWCOMER)}
    assert pairs == {(kind.__name__, state) for kind in m.KINDS for state in outside}


def test_every_entry_of_the_table_is_needed():
    """Whatever is in the table makes a difference: to a node, it is more than dropped."""
    acted = {
        (state, KIND[name])
        for table in (MEMBER, NEWCOMER)
        for (name, state), (_, happens) in expected(table).items()
        if happens not in ("drop", "blame")
    }
    # Those that only ever drop in these scenes: what they drop is told apart from what they take.
    late = {
        (State.READY, Farewell),
        (State.READY, m.Withdrawal),
        (State.READY, m.Welcome),
        (State.READY, m.Imbalance),
    }
    assert acted | late == set(TABLE)


def test_every_action_is_a_method_and_every_kind_has_a_direction():
    assert all(callable(getattr(Node, method)) for method in TABLE.values())
    assert {kind for _, kind in TABLE} | set(FOR_THE_STEWARD) == set(m.KINDS)
    assert not {kind for _, kind in TABLE} & set(FOR_THE_STEWARD)


def test_every_state_can_be_reached_and_all_but_one_can_be_left():
    reached = {after for after, _ in expected(MEMBER).values()}
    assert reached == set(State)
    for state in State:
        leads = {after for (_, there), (after, _) in expected(MEMBER).items() if there is state}
        assert (leads == {state}) == (state is State.GONE)


@pytest.mark.parametrize("state", State)
def test_a_node_says_where_it_is(state):
    assert f"Node(1, {state}," in repr(member(state))


def test_what_is_no_message_at_all_is_dropped():
    node = member(State.RUNNING)
    (record,) = node.handle(Received(2, "hello"))
    assert record == Dropped(2, "str", "not expected when running")


# --- from state to state -------------------------------------------------------------------------


def steps(start):
    """Every state that some turn leads to from there, at once or after one more."""
    once = {after for (before, _), after in NEXT.items() if before is start}
    return once | {after for (before, _), after in NEXT.items() if before in once}


@pytest.mark.parametrize("table", [MEMBER, NEWCOMER])
def test_every_change_of_state_is_in_the_table_of_turns(table):
    for (name, state), (after, _) in expected(table).items():
        assert after is state or after in steps(state), (name, state, after)


def test_a_turn_that_is_not_in_the_table_is_impossible():
    node = member(State.OUTSIDE)
    for state, turn in [(s, t) for s in State for t in Turn if (s, t) not in NEXT]:
        node.state = state
        with pytest.raises(KeyError):
            node._turn(turn)
        assert node.state is state


def test_states_change_in_one_place_only():
    sources = [Path(inspect.getfile(module)).read_text() for module in (node_module, dispatch)]
    assignments = [line for s in sources for line in s.splitlines() if "self.state = " in line]
    assert [line.strip() for line in assignments] == [
        "self.state = State.OUTSIDE",
        "self.state = NEXT[self.state, turn]",
    ]


def test_the_diagram_in_the_architecture_is_the_table():
    page = (Path(__file__).parents[2] / "ARCHITECTURE.md").read_text()
    assert f"```mermaid\n{diagram()}\n```" in page
    for (before, turn), after in NEXT.items():
        everywhere = all((state, turn) in NEXT for state in State if state is not State.GONE)
        drawn = f"    {before} --> {after}: {turn}" in diagram().splitlines()
        assert drawn == (before is not after and not everywhere)
