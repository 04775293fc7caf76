"""What cannot be right: a message of a broken process changes nothing, and breaks no other one.

Every field of every message is filled with what makes no sense: numbers of nodes that are not
there, of the node itself, negative and huge ones, epochs and incarnations of others, vectors of
another dimension, NaN. A node or a steward, in whatever state, never raises; it sends nothing that
cannot be sent; and where the message is impossible, it is as if it had never come, but that its
sender is accused, or given up.
"""

import math
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protocol import hand
from protocol.hand import arrange, blamed, give, halted, make, order, quadratic, started
from protocol.test_states import FAREWELL, MESSAGES, RETURN, member, newcomer, prepares
from protocol.test_steward import (
    LONG,
    RING,
    Desk,
    Successor,
    all_begun,
    away,
    dropped,
    sent,
    situation,
)

import bequest as bq
from bequest.core.farewell import Farewell
from bequest.core.legacy import Legacy
from bequest.core.samples import Clusters
from bequest.protocol import messages as m
from bequest.protocol import scrutiny, wire
from bequest.protocol.events import Committed, Dropped, Failed, Lost, Received, Send
from bequest.protocol.iterate import Iterate
from bequest.protocol.node import Node
from bequest.protocol.preparation import Preparation
from bequest.protocol.scrutiny import is_imbalance
from bequest.protocol.states import State
from bequest.protocol.steward import Phase

some = settings(deadline=None, max_examples=150, derandomize=True)
NAN, INF, HUGE = math.nan, math.inf, (1 << 63) - 1
ZERO = Legacy.zero(1)
# Numbers of nodes, epochs, rounds, incarnations and terms: those that exist and those that do not.
INTEGERS = (-7, -1, 0, 1, 2, 3, 5, 9, 11, 999, 1 << 20, 1 << 40, HUGE)
FLOATS = (NAN, INF, -INF, -1.0, 0.0, 0.25, 1.0, 1e308, 5e-324)


def snapshot(value):
    """Everything that a machine knows, as something that can be compared."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, dict):
        return sorted((repr(key), snapshot(inside)) for key, inside in value.items())
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple):
        return [snapshot(inside) for inside in value]
    if is_dataclass(value):
        return [(one.name, snapshot(getattr(value, one.name))) for one in fields(value)]
    if isinstance(value, str | int | float | Enum) or value is None:
        return repr(value)
    if isinstance(value, bq.Objective | bq.wills.Will):
        return None
    # what is bound to the machine itself tells nothing
    return [(k, snapshot(v)) for k, v in sorted(vars(value).items()) if k != "_actions"]


def check_sendable(sender, effects):
    """Whatever is said can be said: no number of a process that does not exist, no NaN."""
    for effect in effects:
        if isinstance(effect, Send):
            for receiver in effect.to:
                wire.encode(sender, receiver, effect.message)


# --- anything in any field ----------------------------------------------------------------------

NODES = st.lists(st.sampled_from(INTEGERS), max_size=3).map(tuple)
VECTORS = st.lists(st.sampled_from(FLOATS), min_size=1, max_size=3).map(np.array)


@st.composite
def legacies(draw):
    return Legacy(
        draw(st.sampled_from(FLOATS)),
        draw(VECTORS),
        draw(st.sampled_from(FLOATS)),
        draw(st.dictionaries(st.sampled_from(INTEGERS), st.sampled_from((1, 1, -1, 2)))),
    )


def anything(message, name):
    """What can be written into a field of a message, whether it makes sense or not."""
    value = getattr(message, name)
    if name == "roster":
        return st.lists(st.tuples(st.sampled_from(INTEGERS), NODES), max_size=4).map(tuple)
    if name == "wards" and isinstance(message, m.Halted):
        number = st.sampled_from(INTEGERS)
        return st.lists(st.tuples(number, number, NODES), max_size=3).map(tuple)
    if name == "weights":
        return st.lists(st.sampled_from(FLOATS), max_size=3).map(tuple)
    if name == "purpose":
        return st.sampled_from(("join", "return", "forget"))
    if name in ("heir", "claim", "claimant", "newcomer", "sponsor"):
        return st.none() | st.sampled_from(INTEGERS)
    if name == "neighbours":
        return st.none() | NODES
    if name in ("own", "inherited", "legacy"):
        return legacies()
    if isinstance(value, bool):
        return st.booleans()
    if isinstance(value, int):
        return st.sampled_from(INTEGERS)
    if isinstance(value, float):
        return st.sampled_from(FLOATS)
    if isinstance(value, tuple):
        return NODES
    if isinstance(value, np.ndarray):
        return VECTORS
    if is_dataclass(value):
        return st.none() | distorted(value)
    return st.just(value)


@st.composite
def distorted(draw, message):
    """A message of which one or two fields hold something else."""
    names = [one.name for one in fields(message)]
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    return replace(message, **{name: draw(anything(message, name)) for name in chosen})


# --- a node ---------------------------------------------------------------------------------------

ARRANGE = arrange(2, buddies=(0,), wards=(0, 2), farewells=(2,))
KINDS = {**MESSAGES, "Arrange": (m.STEWARD, ARRANGE), "Return": (m.STEWARD, RETURN)}
BEGIN = m.Begin(2, 0.25, 100, tuple((node, ()) for node in range(4)))
PEOPLE = [(member, state) for state in State] + [
    (newcomer, state) for state in (State.OUTSIDE, State.PREPARING, State.READY)
]
# The node itself says so, and is lost: it has been told to do what only others can have promised.
DOCUMENTED = ("KeyError", "has no receipt")


@some
@given(data=st.data())
def test_no_message_breaks_a_node(data):
    who, state = data.draw(st.sampled_from(PEOPLE))
    sender, message = data.draw(st.sampled_from(sorted(KINDS.items())))[1]
    node = who(state, type(message))
    event = Received(
        data.draw(st.just(sender) | st.sampled_from(INTEGERS)), data.draw(distorted(message))
    )
    before = snapshot(node)
    with np.errstate(all="ignore"):
        effects = node.handle(event)
    for failed in (effect for effect in effects if isinstance(effect, Failed)):
        excluded = isinstance(event.message, m.Dismiss) and event.message.excluded
        adopts = isinstance(event.message, m.Arrange) and event.message.adopted
        claims = isinstance(event.message, m.Arrange) and event.message.claim is not None
        assert excluded or ((adopts or claims) and any(said in failed.why for said in DOCUMENTED))
    check_sendable(node.ident, effects)
    if effects and isinstance(effects[0], Dropped) and not isinstance(event.message, m.Order):
        assert snapshot(node) == before


IMPOSSIBLE_ORDERS = {
    **{f"Arrange {name} {value}": replace(ARRANGE, **{name: value}) for name, value in [
        ("round", -1), ("round", 101), ("round", HUGE), ("members", 2), ("members", -1),
        *((name, ids) for name in ("neighbours", "buddies", "wards", "farewells", "adopted")
          for ids in ((0, 1), (0, -1), (2, 2))),
        *((name, ident) for name in ("heir", "claim", "claimant", "newcomer", "sponsor")
          for ident in (1, -1, -7)),
        ("weights", ()), ("weights", (0.25,)), ("weights", (0.25, NAN)), ("weights", (0.25, INF)),
        ("weights", (0.25, 0.0)), ("weights", (0.25, -0.25)), ("weights", (0.75, 0.75)),
        ("heir", 0), ("neighbours", None),
    ]},
    "a leaver with weights": replace(ARRANGE, neighbours=None, buddies=(), wards=()),
    "a leaver who is the last": m.Arrange(2, 0, restart=False, members=1, heir=0),
    "Begin of no step": replace(BEGIN, pace=0.0),
    **{f"Begin step {step}": replace(BEGIN, pace=step) for step in (NAN, INF, -0.25)},
    "Begin without the receiver": replace(BEGIN, roster=((0, ()), (2, ()))),
    "Begin without a neighbour": replace(BEGIN, roster=((0, ()), (1, ()))),
    "Begin that is over": replace(BEGIN, until=-1),
    **{f"Begin roster {inside}": replace(BEGIN, roster=(*BEGIN.roster, inside)) for inside in [
        (-1, ()), (0, ()), (5, (-1,)), (5, (1,)), (5, (6, 6)),
    ]},
    "Begin lost": replace(BEGIN, lost=(1,)),
    **{f"Advance {t}": m.Advance(2, t) for t in (-1, 101, HUGE)},
}  # fmt: skip
WAITS_IN = {m.Arrange: State.HALTED, m.Begin: State.READY, m.Advance: State.HALTED}


@pytest.mark.parametrize("name", IMPOSSIBLE_ORDERS)
def test_an_order_that_cannot_be_right_is_dropped(name):
    """The steward is not accused to itself; and the order as it should be is still followed."""
    message = IMPOSSIBLE_ORDERS[name]
    node = member(WAITS_IN[type(message)])
    before = snapshot(node)
    assert dropped(order(node, message)) == "an order that cannot be right"
    assert snapshot(node) == before
    right = {m.Arrange: prepares(m.Exchange), m.Begin: BEGIN, m.Advance: m.Advance(2, 1)}
    order(node, right[type(message)])
    assert node.state is not WAITS_IN[type(message)]


@pytest.mark.parametrize("name", sorted(MESSAGES.keys()))
@pytest.mark.parametrize("state", State)
def test_only_nodes_are_accused(name, state):
    """No node has a negative number; the steward says nothing that only nodes say."""
    _, message = MESSAGES[name]
    for sender in (-7, *(() if isinstance(message, m.Order) else (m.STEWARD,))):
        node = member(state, type(message))
        before = snapshot(node)
        says = "the steward does not say that" if sender == -1 else "no node has that number"
        assert dropped(give(node, sender, message)) == says
        assert snapshot(node) == before


def of(lineage, **changes):
    return Legacy(**({"eta": 1.0, "p": np.zeros(1), "c": 0.0, "lineage": lineage} | changes))


OVERFLOWS = of({2: 1}, factor=np.array([[1e200]]))
IMPOSSIBLE_MEMORIES = {
    "of a stranger": of({2: 1, 999: 1}),
    "of the heir": of({1: 1, 2: 1}),
    "of one who is remembered already": of({2: 1, 3: 1}),
    "of a negative number": of({-1: 1}),
    "twice": of({2: 2}),
    "of less than no node": of({2: -1}),
    "without end": OVERFLOWS,
    "nowhere": of({2: 1}, p=np.array([NAN])),
    "elsewhere": of({2: 1}, p=np.zeros(2)),
}


def telling(lineage, **changes):
    """A memory with samples of a logistic loss in one dimension."""
    usual = {
        "origins": (2,),
        "form": ("logistic", ()),
        "shares": [0.5, 0.5],
        "labels": [-1.0, 1.0],
        "means": [[1.0], [2.0]],
        "factors": np.zeros((2, 0, 1)),
        "key": (2, 5),
    }
    return of(lineage, eta=0.1, samples=(Clusters(**(usual | changes)),))


IMPOSSIBLE_SAMPLES = {
    "of another node": telling({2: 1}, origins=(3,)),
    "of no node": telling({2: 1}, origins=()),
    "taken out": telling({2: 1}, sign=-1),
    "not numbers": telling({2: 1}, means=[[1.0], [NAN]]),
    "that count less than nothing": telling({2: 1}, shares=[1.5, -0.5]),
    "of an unknown loss": telling({2: 1}, form=("hinge", ())),
    "of another space": telling(
        {2: 1}, means=[[1.0, 1.0], [2.0, 2.0]], factors=np.zeros((2, 0, 2))
    ),
    "of a third class": telling({2: 1}, labels=[-1.0, 3.0]),
    "without classes": telling({2: 1}, labels=[]),
    "of a loss without its parameter": telling(
        {2: 1},
        form=("huber", ()),
        labels=[],
        means=[[1.0, 1.0], [2.0, 2.0]],
        factors=np.zeros((2, 0, 2)),
    ),
    "of one class of none": telling({2: 1}, form=("softmax", ())),
    "of more classes than there is memory": telling({2: 1}, form=("softmax", (1e12,))),
    "of half a class": telling({2: 1}, form=("softmax", (0.5,))),
    "whose loss has no end": telling({2: 1}, means=[[1e200], [2.0]]),
    "whose loss is nothing": telling({2: 1}, means=[[1e-200], [1e-200]]),
    "that count without end": telling({2: 1}, shares=[1e308, 1e308]),
    "in more directions than there are": telling({2: 1}, factors=np.ones((2, 2, 1))),
}


@pytest.mark.parametrize("name", IMPOSSIBLE_SAMPLES)
def test_samples_that_cannot_be_right_are_not_inherited(name):
    node = heir()
    wrong = Farewell(2, 0, IMPOSSIBLE_SAMPLES[name], np.zeros(1), epoch=2)
    check_accused(node, 2, wrong)
    assert give(node, 2, Farewell(2, 0, telling({2: 1}), np.zeros(1), epoch=2))


def test_more_points_than_fit_are_not_drawn(monkeypatch):
    monkeypatch.setattr(scrutiny, "_MOST_DRAWN", 1)
    check_accused(heir(), 2, Farewell(2, 0, telling({2: 1}), np.zeros(1), epoch=2))


def test_a_node_takes_no_statistics_where_they_are_forbidden():
    node = heir()
    node.executor.setting = replace(node.executor.setting, statistics=False)
    check_accused(node, 2, Farewell(2, 0, telling({2: 1}), np.zeros(1), epoch=2))


def test_a_checkpoint_with_samples_that_cannot_be_right_is_not_kept():
    node = newcomer(State.PREPARING)
    told = telling({0: 1}, origins=(0,))
    wrong = replace(told, samples=(replace(told.samples[0], form=("hinge", ())),))
    check_accused(node, 0, m.Checkpoint(2, 0, wrong, None))
    assert give(node, 0, m.Checkpoint(2, 0, told, of({7: 1})))


def heir():
    """Node 1, which remembers 3 and inherits from 2."""
    node = started(make(1))
    node.iterate.inherited = of({3: 1})
    halted(node)
    order(node, arrange(2, farewells=(2,)))
    return node


def check_accused(node, sender, message):
    before = snapshot(node)
    record, accusation = give(node, sender, message)
    assert isinstance(record, Dropped)
    assert record.why.endswith("that cannot be right")
    assert accusation.to == (m.STEWARD,)
    assert accusation.message.culprit == sender
    assert snapshot(node) == before


@pytest.mark.parametrize("name", IMPOSSIBLE_MEMORIES)
def test_a_memory_that_cannot_be_right_is_not_inherited(name):
    node = heir()
    check_accused(node, 2, Farewell(2, 0, IMPOSSIBLE_MEMORIES[name], np.zeros(1), epoch=2))
    assert give(node, 2, FAREWELL)  # the right one is


SUMS = m.Imbalance(2, np.array([0.5]), 1.0, 2.0, 0.0, 1, 1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"surplus": np.array([np.nan])},
        {"surplus": np.array([np.inf])},
        {"surplus": np.array([0.5, 0.5])},
        {"surplus": np.array([[0.5]])},
        {"trackers": -1.0},
        {"trackers": np.nan},
        {"gradients": -1e-9},
        {"gradients": np.inf},
        {"strength": np.nan},
        {"strength": -np.inf},
        {"nodes": 0},
        {"nodes": -3},
    ],
)
def test_a_sum_that_cannot_be_right_is_not_passed_on(wrong):
    """Its sender is named, and the attempt has to be made anew."""
    assert is_imbalance(SUMS, 1)
    assert is_imbalance(replace(SUMS, strength=-0.5), 1)  # what is left of a withdrawal, perhaps
    broken = replace(SUMS, **wrong)
    assert not is_imbalance(broken, 1)
    node = halted(started(make()))
    order(node, arrange(2, 0, neighbours=(0, 2), sums_from=(2,), sums_to=0))
    effects = give(node, 2, broken)
    assert blamed(effects) == (2, "an imbalance that cannot be right")
    assert not hand.sent(effects, m.Imbalance)
    assert hand.sent(give(node, 2, SUMS), m.Imbalance)


def test_two_leavers_do_not_hand_over_the_same_memory():
    node = heir()
    order(node, m.Halt(3, 1), arrange(3, farewells=(0, 2)))
    assert give(node, 0, Farewell(0, 0, of({0: 1, 7: 1}), np.zeros(1), epoch=3)) == []
    check_accused(node, 2, Farewell(2, 0, of({2: 1, 7: 1}), np.zeros(1), epoch=3))


@pytest.mark.parametrize("legacy", [of({4: 1}), of({3: 1, 4: 1}), of({3: 2})])
def test_what_is_not_remembered_cannot_be_withdrawn(legacy):
    node = heir()
    order(node, m.Halt(3, 1), arrange(3, claimant=3))
    check_accused(node, 3, m.Withdrawal(3, legacy))
    assert give(node, 3, m.Withdrawal(3, of({3: 1})))


@pytest.mark.parametrize(
    "checkpoint",
    [
        m.Checkpoint(2, 0, of({2: 1}), None),  # the memory of another
        m.Checkpoint(2, -1, of({0: 1}), ZERO),
        m.Checkpoint(2, 101, of({0: 1}), ZERO),
        m.Checkpoint(2, 0, of({0: 1}), of({0: 1})),  # itself twice
        m.Checkpoint(2, 0, of({0: 1}), of({999: 1})),
        m.Checkpoint(2, 0, of({0: 1}), OVERFLOWS),
        m.Checkpoint(1, -1, of({0: 1}), None),
        m.Checkpoint(1, 101, of({0: 1}), None),
        m.Checkpoint(1, HUGE, of({0: 1}), None),
    ],
)
def test_a_checkpoint_that_cannot_be_right_is_not_kept(checkpoint):
    """One of a round that no node can have reached would make all later ones look old."""
    node = member(State.HALTED)
    check_accused(node, 0, checkpoint)
    assert give(node, 0, m.Checkpoint(1, 5, of({0: 1}), None)) == []
    assert node.kept.wards[0].round == 5


def test_a_newcomer_does_not_keep_a_memory_without_a_number():
    """It has not heard of any node yet, but all of them have one."""
    node = newcomer(State.PREPARING)
    check_accused(node, 0, m.Checkpoint(2, 0, of({0: 1}), of({-1: 1})))
    assert give(node, 0, m.Checkpoint(2, 0, of({0: 1}), of({7: 1})))


def test_what_rounding_leaves_of_a_withdrawn_curvature_is_not_below_zero():
    left = of({7: 1}, eta=0.7) + of({5: 1}, eta=0.1) - of({7: 1}, eta=0.7)
    rest = left + of({6: 1}, eta=0.0) - of({5: 1}, eta=0.1)
    assert rest.eta < 0
    loss = SimpleNamespace(curvature=bq.Curvature(0.0, 0.0))
    iterate = Iterate(loss, bq.GradientTracking(), np.zeros(1))
    iterate.inherited = rest
    ready = Preparation(1, ARRANGE, iterate, None, {}, None).readiness()
    assert (ready.stiffness, ready.lineage) == (0.0, (6,))


class Confused(bq.wills.Will):
    """Leaves behind the memory of another node."""

    label = "confused"

    def decide(self, estate):
        return bq.wills.Bequest("consensus", "by mistake", quadratic(self.of, 2.0, 1.0))

    def __init__(self, of):
        self.of = of


def test_a_will_that_leaves_the_memory_of_another_is_the_end_of_the_node():
    """Better than that its heir is given up for it."""
    assert started(make(1, will=Confused(1), tau=5), buddies=(0,)).state is State.RUNNING
    node = make(1, will=Confused(7), tau=5)
    (failed,) = order(node, arrange(buddies=(0,)))
    assert "InvalidWill" in failed.why
    assert "a legacy of 7" in failed.why


# --- the steward ----------------------------------------------------------------------------------


def founding():
    desk = Desk(RING, buddies=2)
    desk.found()
    return desk


def beginning():
    desk = Desk(RING, buddies=2)
    desk.prepare(desk.found())
    return desk


def running():
    return Desk(RING, buddies=2).running()


def halting():
    desk = running()
    desk.tell(2, m.LeaveRequest())
    return desk


def leaving():
    desk = running()
    desk.stop(desk.tell(2, m.LeaveRequest()))
    return desk


def adopting():
    desk = running()
    desk.stop(desk.lose(2), wards={3: ((2, 4, (2,)),)})
    return desk


def arriving():
    desk = running()
    desk.stop(desk.tell(9, m.Request("join", "", (0, 1))))
    return desk


def asking():
    """Another steward, to which only 0 has not answered yet."""
    desk = running()
    other = Successor(desk, (0, 1, 2, 3), term=1)
    other.told = all_begun(desk)
    for node in (1, 2, 3):
        other.tell(node, other.told[node])
    assert other.steward.phase is Phase.ASKING
    return other


def finished():
    desk = running()
    desk.report(10)
    assert desk.steward.phase is Phase.FINISHED
    return desk


DESKS = [founding, beginning, running, halting, leaving, adopting, arriving, asking, finished]


def reports(desk):
    """What a node says to the steward when all is well, or would at another time."""
    steward = desk.steward
    newest, epoch = steward._newest or 1, steward.present.number or 1
    begun = running() if desk.begin is None else desk
    placed = situation(begun, 0, begun=(all_begun(running())[0].present, running().begin), newest=1)
    return [
        m.Halted(newest, 5, (), ((2, 4, (2,)),), leaving=False),
        m.Halted(epoch, 10, (), (), leaving=True),
        m.Ready(newest, 1.0, ()),
        m.Ready(newest, 0.0, (), (2,), restart=True),
        m.Refused(newest),
        m.Begun(epoch),
        m.LeaveRequest(),
        m.Accusation(epoch, 1, "it is said"),
        m.Request("join", "there", (0,)),
        m.Request("return", "there", (0,), 1),
        m.Request("forget", "there", (), 1),
        placed,
        replace(placed, prepared=replace(placed.present, epoch=2), newest=2),
        m.Situation(None, None, None, 0, placed.halted, "", "return", (1,), 1),
    ]


@some
@given(data=st.data())
def test_no_message_breaks_the_steward(data):
    """Nor does it when all others go on as if nothing had been said."""
    desk = data.draw(st.sampled_from(DESKS))()
    sender = data.draw(st.sampled_from((0, 0, 0, 1, 2, 3, *INTEGERS)))
    message = data.draw(st.sampled_from(reports(desk)).flatmap(distorted))
    steward = desk.steward
    effects = desk.tell(sender, message)
    check_sendable(m.STEWARD, effects)
    for _ in range(4):  # those who are asked answer, until none is
        follow = desk.prepare(desk.stop(effects))
        effects = desk.begun(follow) or follow
        check_sendable(m.STEWARD, effects)
    heard = {0, 1, 2, 3, 9, sender}
    assert (
        set(steward.present.network) | {i for o in steward.present.network.values() for i in o}
        <= heard
    )
    assert {i for inside in steward.present.lineage.values() for i in inside} <= heard
    assert steward.register.lost <= heard
    assert math.isfinite(steward.pace)
    assert steward._newest < 3 << 20


def given_up(desk, sender, message, incarnation=0):
    """Hand over a message that cannot be right: its sender is given up, and that is all."""
    effects = desk.tell(sender, message)
    assert effects[0] == Dropped(sender, type(message).__name__, "this cannot be right")
    assert effects[1].to == (sender,)
    assert effects[1].message.excluded
    assert effects[1].message.incarnation == incarnation
    return effects[2:]


def check_given_up(make_desk, sender, message, incarnation=0):
    """It is as if the sender had died instead."""
    desk, twin = make_desk(), make_desk()
    assert given_up(desk, sender, message, incarnation) == twin.steward.handle(
        Lost(sender, incarnation=incarnation)
    )
    assert snapshot(desk.steward) == snapshot(twin.steward)
    return desk


STOPPED = m.Halted(2, 5, (), (), leaving=False)


@pytest.mark.parametrize(
    "halted",
    [
        *(replace(STOPPED, round=t) for t in (-1, 11, 1 << 40, HUGE)),
        *(replace(STOPPED, lineage=ids) for ids in ((999,), (-1,), (0,), (3,))),
        *(replace(STOPPED, wards=(ward,)) for ward in [
            (999, 4, ()), (-1, 4, ()), (0, 4, (0,)), (1, -1, (1,)), (1, 11, (1,)),
            (1, HUGE, ()), (1, 4, (999,)), (1, 4, (3,)), (1, 4, (1, 1)),
        ]),
        replace(STOPPED, wards=((1, 4, (1,)), (1, 3, (1,)))),
    ],
)  # fmt: skip
def test_a_node_that_reports_what_cannot_be_is_given_up(halted):
    desk = check_given_up(halting, 0, halted)
    assert desk.steward.present.dead == {0}


def test_nor_can_it_stop_by_itself_like_that():
    check_given_up(running, 0, m.Halted(1, 11, (), (), leaving=False))


@pytest.mark.parametrize(
    ("make_desk", "sender", "ready"),
    [
        *((adopting, 0, m.Ready(2, stiffness, ())) for stiffness in (NAN, INF, -INF, -1.0)),
        *((adopting, 0, m.Ready(2, 1.0, ids)) for ids in ((2,), (999,), (-1,), (0,))),
        (adopting, 3, m.Ready(2, 1.0, (2, 2))),
        (adopting, 3, m.Ready(2, 1.0, (2, 1))),
        (adopting, 0, m.Ready(2, 1.0, (), forgets=(0,))),
        (adopting, 0, m.Ready(2, 1.0, (), restart=True)),
        (leaving, 2, m.Ready(2, 0.0, (), forgets=(3,))),
        (leaving, 2, m.Ready(2, 0.0, (), forgets=(2, 999))),
        (leaving, 2, m.Ready(2, 0.0, (2,))),
        (founding, 0, m.Ready(1, NAN, ())),
    ],
)
def test_a_node_that_is_ready_for_what_cannot_be_is_given_up(make_desk, sender, ready):
    check_given_up(make_desk, sender, ready)


def test_a_newcomer_is_given_up_in_the_life_in_which_it_asks():
    def returning():
        desk = running()
        desk.stop(desk.tell(9, m.Request("join", "", (0, 1), incarnation=4)))
        return desk

    desk = check_given_up(returning, 9, m.Ready(2, 1.0, (9,)), incarnation=4)
    assert desk.steward.register.requests == {}


def test_a_node_that_only_asks_to_be_forgotten_can_be_accused():
    """Of a receipt that makes no sense, say: it has no place in the epoch that is prepared."""
    desk = away()
    desk.stop(desk.tell(2, m.Request("forget", "", (), incarnation=1)))
    effects = desk.tell(1, m.Accusation(desk.steward.present.number, 2, "it is said"))
    assert sent(effects, m.Dismiss)[2,] == m.Dismiss(2, excluded=True, incarnation=1)
    assert desk.steward.register.requests == {}


def test_a_leaver_may_forget_all_that_it_remembers():
    desk = Desk(LONG).running()
    desk.change(desk.tell(3, m.LeaveRequest()), lineage={2: (3,)})
    committed, _ = desk.change(desk.tell(2, m.LeaveRequest()), forgets={2: (2, 3)})
    assert committed.lost == (2, 3)


def test_what_the_right_ones_say_is_still_right():
    """What is refused above is refused for what is wrong in it, and for nothing else."""
    desk = halting()
    assert desk.tell(0, replace(STOPPED, wards=((1, 4, (1,)), (3, 5, ())))) == []
    for make_desk, sender, ready in [
        (adopting, 3, m.Ready(2, 1.0, (2,))),
        (adopting, 3, m.Ready(2, 1.0, ())),
        (leaving, 2, m.Ready(2, 0.0, (), (2,), restart=True)),
    ]:
        effects = make_desk().tell(sender, ready)
        assert not any(isinstance(effect, Dropped) for effect in effects)


def placed(**changes):
    """How a member of the ring answers: what it says, but for these."""
    told = asking().told[0]
    for name, value in changes.items():
        part, _, field = name.partition("__")
        inside = getattr(told, part)
        told = replace(told, **{part: replace(inside, **{field: value}) if field else value})
    return told


SITUATIONS = {
    "an unknown neighbour": placed(present__neighbours=(1, 999)),
    "a neighbour without a number": placed(present__neighbours=(1, -1)),
    "itself as its neighbour": placed(present__neighbours=(0, 3)),
    "no neighbours at all": placed(present__neighbours=None),
    "no place at all": placed(
        begun__roster=((1, ()), (2, ()), (3, ())),
        present__neighbours=None,
        present__weights=(),
        present__buddies=(),
        present__wards=(),
    ),
    "an unknown buddy": placed(present__buddies=(1, 999)),
    "an unknown ward": placed(present__wards=(999,)),
    "no place in the roster": placed(begun__roster=((1, ()), (2, ()), (3, ()))),
    "an empty roster": placed(begun__roster=()),
    "a roster with one twice": placed(begun__roster=((0, ()), (1, ()), (1, ()), (2, ()), (3, ()))),
    "a roster with a negative number": placed(begun__roster=((0, ()), (1, ()), (3, ()), (-1, ()))),
    "a member inside another": placed(begun__roster=((0, (2,)), (1, ()), (2, ()), (3, ()))),
    "one who is there and lost": placed(begun__lost=(2,)),
    "another epoch than it was told of": placed(present__epoch=2, newest=2),
    "an epoch without a number": placed(present__epoch=0, begun__epoch=0),
    "a negative epoch": placed(present__epoch=-1, begun__epoch=-1),
    "epochs that cannot have begun": placed(present__epoch=HUGE, begun__epoch=HUGE, newest=HUGE),
    "an epoch that it has not heard of": placed(newest=0),
    "attempts that cannot have been made": placed(newest=2 << 20),
    "no step": placed(begun__pace=NAN),
    "a beginning after the end": placed(present__round=11),
    "a negative round": placed(present__round=-1),
    "a beginning without a place": placed(present=None),
    "a place without a beginning": placed(begun=None),
    "a wish of one who is there": placed(purpose="return"),
    "no incarnation": placed(incarnation=-1),
    "another incarnation than it is asked in": placed(incarnation=1),
    "a preparation of the past": placed(prepared=placed().present),
    "a preparation that cannot be": placed(prepared=arrange(2, neighbours=(0, 2)), newest=2),
    "a preparation that it has not heard of": placed(prepared=arrange(5, neighbours=(1, 3))),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_node_in_a_situation_that_cannot_be_is_given_up(name):
    desk = asking()
    effects = given_up(desk, 0, SITUATIONS[name])
    assert sent(effects, m.Halt).keys() == {(1, 2, 3)}
    committed = desk.prepare(desk.stop(effects, wards={1: ((0, 4, (0,)),)}), lineage={1: (0,)})
    (change,) = (effect for effect in committed if isinstance(effect, Committed))
    assert (change.members, change.lost) == ((1, 2, 3), ())
    assert [(adoption.node, adoption.adopter) for adoption in change.adoptions] == [(0, 1)]


def test_a_node_outside_in_a_situation_that_cannot_be_is_told():
    desk = running()
    other = Successor(desk, {**dict.fromkeys(range(4), 0), 9: 3}, term=1)
    given_up(
        other, 9, m.Situation(None, None, None, -1, STOPPED, "", "join", (0,), 3), incarnation=3
    )
    assert 9 not in other.steward._recovery.waiting


@pytest.mark.parametrize(
    "changes",
    [
        {"prepared__neighbours": (1, 9)},
        {"prepared__buddies": (1, 9)},
        {"prepared__neighbours": None, "prepared__weights": (), "prepared__buddies": (),
         "prepared__wards": ()},
        {"prepared__round": 11},
    ],
)  # fmt: skip
def test_a_node_that_has_prepared_another_epoch_than_the_one_that_has_begun_is_given_up(changes):
    """What it says can be right by itself, but not beside what the others say."""
    other = asking()
    after = [replace(told, present=replace(told.present, epoch=2)) for told in other.told.values()]
    begin = replace(other.told[0].begun, epoch=2)
    other = Successor(running(), (0, 1, 2, 3), term=1)
    wrong = placed(prepared=after[0].present, newest=2)
    for name, value in changes.items():
        field = name.removeprefix("prepared__")
        wrong = replace(wrong, prepared=replace(wrong.prepared, **{field: value}))
    effects = other.tell(0, wrong)
    for node in (1, 2, 3):
        effects += other.tell(node, replace(after[node], begun=begin, newest=2))
    assert sent(effects, m.Dismiss)[0,].excluded
    assert sent(effects, m.Halt).keys() == {(1, 2, 3)}
    assert other.steward.present.dead == {0}
    assert other.steward.present.round == 0


def test_a_wrong_round_of_one_does_not_make_the_others_wrong():
    other = asking()
    effects = other.tell(0, placed(present__round=7))
    assert other.steward.present.round == 0
    assert sent(effects, m.Halt).keys() == {(0, 1, 2, 3)}


def test_an_accusation_of_an_epoch_that_has_not_begun_is_held_against_the_accuser():
    check_given_up(running, 1, m.Accusation(7, 3, "it is said"))


@pytest.mark.parametrize("make_desk", DESKS)
def test_a_node_that_is_not_there_is_neither_heard_nor_accused(make_desk):
    """Least of all does that keep a newcomer from coming in later."""
    for sender, message in [
        (0, m.Accusation(1, 999, "it is said")),
        (0, m.Accusation(1, -1, "it is said")),
        (999, m.Accusation(1, 2, "it is said")),
        (999, m.LeaveRequest()),
        (999, m.Refused(make_desk().steward._newest)),
        (999, m.Halted(2, 5, (), (), leaving=True)),
        (999, m.Ready(2, 1.0, ())),
    ]:
        desk = make_desk()
        before = snapshot(desk.steward)
        dropped(desk.tell(sender, message))
        assert snapshot(desk.steward) == before


@pytest.mark.parametrize("make_desk", DESKS)
@pytest.mark.parametrize("sender", [m.STEWARD, -7])
def test_no_node_has_a_negative_number(make_desk, sender):
    desk = make_desk()
    before = snapshot(desk.steward)
    for message in reports(desk):
        assert dropped(desk.tell(sender, message)) == "no node has that number"
    assert snapshot(desk.steward) == before


def test_the_inspection_sees_what_changes():
    """A snapshot that is blind would prove nothing."""
    node, steward = member(State.RUNNING), running().steward
    before = snapshot(node), snapshot(steward)
    give(node, 0, MESSAGES["Exchange"][1])
    steward.handle(Received(2, m.LeaveRequest()))
    assert snapshot(node) != before[0]
    assert snapshot(steward) != before[1]
    assert isinstance(node, Node)
