"""The steward, driven by hand: no nodes, only what they would say. It never sees a vector."""

import dataclasses
import typing

import numpy as np
import pytest

import bequest as bq
from bequest.core.farewell import Farewell
from bequest.core.legacy import Legacy
from bequest.protocol import messages as m
from bequest.protocol.events import (
    Adoption,
    Arrival,
    Committed,
    Dropped,
    Finished,
    FoundNetwork,
    Handover,
    Leave,
    Lost,
    Received,
    Send,
    TakeOver,
)
from bequest.protocol.states import FOR_THE_STEWARD
from bequest.protocol.steward import Charter, Phase, Steward

PATH = ((0, 1), (1, 2))
LONG = ((0, 1), (1, 2), (2, 3))
RING = ((0, 1), (1, 2), (2, 3), (3, 0))
STAR = ((0, 1), (0, 2), (0, 3))
PAIR = ((0, 1),)
ALONE = ()


def network_of(edges):
    nodes = {0, *(node for edge in edges for node in edge)}
    return {n: frozenset(b for e in edges for b in e if n in e and b != n) for n in nodes}


def charter_of(edges, **fields):
    adaptive = fields.pop("adaptive", False)
    method = bq.GradientTracking(None if adaptive else 0.1)
    plain = {"stops": (10,), "buddies": 1, "method": method, "pace": 0.1}
    return Charter(network=network_of(edges), **(plain | fields))


def vectors_in(value):
    """Every array and every legacy in a value, however deep."""
    if isinstance(value, np.ndarray | Legacy):
        return [value]
    if dataclasses.is_dataclass(value) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        names = (
            value._fields
            if isinstance(value, tuple)
            else [field.name for field in dataclasses.fields(value)]
        )
        return [found for name in names for found in vectors_in(getattr(value, name))]
    if isinstance(value, dict):
        return [found for pair in value.items() for part in pair for found in vectors_in(part)]
    if isinstance(value, list | tuple | set | frozenset):
        return [found for part in value for found in vectors_in(part)]
    return []


class Desk:
    """A steward, and us in the place of every node it talks to.

    Attributes:
        arranged: node -> the last ``Arrange`` it was sent.
        begin: the last ``Begin``.
        sent: every message that the steward has sent, as (receivers, message).
    """

    def __init__(self, edges=PATH, *, hosts=None, term=0, **fields):
        self.charter = charter_of(edges, **fields)
        self.hosts = hosts or {}
        self.steward = Steward(self.charter, self.hosts, term)
        self.arranged, self.begin, self.sent = {}, None, []

    def note(self, effects):
        assert not vectors_in(effects)
        for effect in effects:
            if isinstance(effect, Send):
                self.sent.append((effect.to, effect.message))
                if isinstance(effect.message, m.Arrange):
                    (node,) = effect.to
                    self.arranged[node] = effect.message
                elif isinstance(effect.message, m.Begin):
                    self.begin = effect.message
        return effects

    def tell(self, sender, message):
        assert not vectors_in(message)
        return self.note(self.steward.handle(Received(sender, message)))

    def lose(self, node, incarnation=0):
        return self.note(self.steward.handle(Lost(node, incarnation=incarnation)))

    def found(self):
        return self.note(self.steward.handle(FoundNetwork()))

    # --- answers of every node that was asked ---------------------------------------------------

    def stop(self, effects, t=5, *, leaving=(), lineage=None, wards=None, rounds=None):
        """Every node that was told to halt, or to advance, reports."""
        lineage = lineage or {}
        said = []
        for send in effects:
            if isinstance(send, Send) and isinstance(send.message, m.Halt | m.Advance):
                for node in send.to:
                    at = (rounds or {}).get(node, t)
                    known = lineage.get(node, self.inherited(node))
                    kept = (wards or {}).get(node, ())
                    report = m.Halted(send.message.epoch, at, known, kept, node in leaving)
                    said += self.tell(node, report)
        return said

    def inherited(self, node):
        return dict(self.begin.roster).get(node, ())

    def prepare(self, effects, *, lineage=None, forgets=None, stiffness=None):
        """Every node that was told to prepare is ready; so are those who are told because of it."""
        lineage, forgets, stiffness = lineage or {}, forgets or {}, stiffness or {}
        waiting, found = list(effects), []
        while waiting:
            send = waiting.pop(0)
            if not (isinstance(send, Send) and isinstance(send.message, m.Arrange)):
                found.append(send)
                continue
            (node,), arrange = send.to, send.message
            known = lineage.get(node, self.inherited(node) if self.begin else ())
            leaves = arrange.heir is not None
            ready = m.Ready(
                arrange.epoch,
                0.0 if leaves else stiffness.get(node, 1.0),
                () if leaves else known,
                forgets.get(node, ()),
                restart=leaves and node in forgets,
            )
            waiting += self.tell(node, ready)
        return found

    def begun(self, effects):
        """Every node is in the new epoch."""
        said = []
        for send in effects:
            if isinstance(send, Send) and isinstance(send.message, m.Begin):
                for node in send.to:
                    said += self.tell(node, m.Begun(send.message.epoch))
        return said

    def running(self):
        """Found, prepared and begun."""
        assert self.begun(self.prepare(self.found())) == []
        assert self.steward.phase is Phase.RUNNING
        return self

    def change(self, effects, **answers):
        """From ``Halt`` to ``Begun``; return what was committed, and what followed."""
        stops = {k: v for k, v in answers.items() if k in ("t", "leaving", "wards", "rounds")}
        ready = {k: v for k, v in answers.items() if k not in stops}
        committed = self.prepare(self.stop(effects, **stops), **ready)
        return only(committed, Committed), self.begun(committed)

    def report(self, t=10, *, leaving=(), epoch=None):
        """Every node stops by itself at the end of the epoch."""
        said = []
        for node in sorted(self.steward.present.network):
            at = epoch or self.steward.present.number
            said += self.tell(node, m.Halted(at, t, self.inherited(node), (), node in leaving))
        return said


def only(effects, kind):
    (effect,) = (effect for effect in effects if isinstance(effect, kind))
    return effect


def sent(effects, kind):
    """receivers -> message, of one kind."""
    return {
        effect.to: effect.message
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, kind)
    }


def dropped(effects):
    (effect,) = effects
    assert isinstance(effect, Dropped)
    return effect.why


# --- it sees no vector --------------------------------------------------------------------------

FROM_THE_STEWARD = (m.Halt, m.Advance, m.Arrange, m.Begin, m.Dismiss, m.Inquiry)


def leaves_of(hint):
    """Every plain type in an annotation, those of the messages inside it included."""
    if dataclasses.is_dataclass(hint) and hint is not Legacy:
        return {leaf for part in hints_of(hint).values() for leaf in leaves_of(part)}
    parts = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Literal:
        return {str}
    return {leaf for part in parts for leaf in leaves_of(part)} if parts else {hint}


def hints_of(kind):
    names = {"Vector": np.ndarray, "Legacy": Legacy, "Purpose": typing.Literal["join"]}
    return typing.get_type_hints(kind, localns=names)


@pytest.mark.parametrize("kind", [*FOR_THE_STEWARD, *FROM_THE_STEWARD])
def test_what_the_steward_hears_and_says_has_no_place_for_a_vector(kind):
    assert leaves_of(kind) <= {int, float, bool, str, type(None), Ellipsis}


def test_the_inspection_would_find_one():
    assert np.ndarray in leaves_of(m.Exchange)
    assert Legacy in leaves_of(m.Checkpoint)
    assert vectors_in([{1: (m.Welcome(1, np.zeros(1)),)}])
    assert vectors_in(Send((1,), m.Withdrawal(1, Legacy.zero(1))))
    assert not vectors_in([{1: "one"}, frozenset((2,))])


@pytest.mark.parametrize(
    "message",
    [
        m.Exchange(1, 1, np.zeros(2)),
        Farewell(0, 1, Legacy.zero(1), np.zeros(1), 2),
        m.Checkpoint(1, 1, Legacy.zero(1), None),
        m.Withdrawal(1, Legacy.zero(1)),
        m.Welcome(1, np.zeros(1)),
        m.Kept(1),
        m.Halt(2, 1),
        m.Advance(2, 5),
        m.Arrange(2, 5, restart=False, members=1),
        m.Begin(2, 0.1, 10, ()),
        m.Dismiss(2),
        m.Inquiry(),
    ],
)
def test_what_is_for_nodes_is_not_its_business(message):
    desk = Desk().running()
    before = desk.steward.__dict__.copy()
    assert dropped(desk.steward.handle(Received(0, message))) == "not for the steward"
    assert desk.steward.__dict__ == before


def test_nobody_asks_the_steward_to_leave():
    with pytest.raises(AssertionError):
        Desk().running().steward.handle(Leave())


# --- founding -----------------------------------------------------------------------------------


def test_the_first_epoch():
    desk = Desk(PATH)
    effects = desk.found()
    assert desk.steward.phase is Phase.ARRANGING
    third = 1 / 3  # Metropolis: 1 / (1 + the larger degree of the two)
    assert sent(effects, m.Arrange) == {
        (0,): m.Arrange(1, 0, False, 3, (1,), (third,), buddies=(1,), wards=()),
        (1,): m.Arrange(1, 0, False, 3, (0, 2), (third, third), buddies=(2,), wards=(0, 2)),
        (2,): m.Arrange(1, 0, False, 3, (1,), (third,), buddies=(1,), wards=(1,)),
    }
    effects = desk.prepare(effects)
    begin = m.Begin(1, 0.1, 10, ((0, ()), (1, ()), (2, ())), ())
    assert sent(effects, m.Begin) == {(0, 1, 2): begin}
    assert only(effects, Committed) == Committed(
        1, 0, False, (0, 1, 2), (), (), None, None, (), (0, 0, 0), follows=0
    )
    assert desk.steward.phase is Phase.BEGINNING
    assert desk.tell(0, m.Begun(1)) == []
    assert desk.tell(1, m.Begun(1)) == []
    assert desk.steward.phase is Phase.BEGINNING
    assert desk.tell(2, m.Begun(1)) == []
    assert desk.steward.phase is Phase.RUNNING


def test_buddies_and_wards_are_two_sides_of_the_same():
    desk = Desk(RING, buddies=2)
    desk.found()
    for node, arrange in desk.arranged.items():
        assert len(arrange.buddies) == 2
        assert all(node in desk.arranged[buddy].wards for buddy in arrange.buddies)
        assert all(node in desk.arranged[ward].buddies for ward in arrange.wards)


def test_buddies_are_on_other_hosts():
    desk = Desk(RING, hosts={0: "a", 1: "a", 2: "b", 3: "b"})
    desk.found()
    assert {node: a.buddies for node, a in desk.arranged.items()} == {
        0: (3,), 1: (2,), 2: (1,), 3: (0,)
    }  # fmt: skip


def test_buddies_are_spread_over_hosts_and_these_over_machines():
    hosts = {0: "m/a", 1: "m/b", 2: "n/c", 3: "n/c", 4: "n/d", 5: "o/e"}
    edges = [(i, j) for i in hosts for j in range(i)]
    for count, chosen in [(1, (2,)), (2, (2, 5)), (3, (2, 5, 4)), (4, (2, 5, 4, 1))]:
        desk = Desk(edges, hosts=hosts, buddies=count)
        desk.found()
        assert desk.arranged[0].buddies == chosen


def test_a_loss_before_the_beginning_founds_the_network_without_it():
    desk = Desk(PATH)
    desk.found()
    desk.tell(0, m.Ready(1, 1.0, ()))
    effects = desk.lose(1)
    assert {to: a.epoch for to, a in sent(effects, m.Arrange).items()} == {(0,): 2, (2,): 2}
    assert desk.arranged[0].neighbours == (2,)  # bridged
    assert dropped(desk.tell(2, m.Ready(1, 1.0, ()))).startswith("late")
    effects = desk.prepare(effects)
    committed = only(effects, Committed)
    assert committed.adoptions == (Adoption(1, None, (1,), ((0, 2),)),)
    assert (committed.members, committed.lost, committed.epoch) == ((0, 2), (1,), 2)
    # if it was there after all, it is told
    assert sent(desk.begun(effects), m.Dismiss) == {(1,): m.Dismiss(2, excluded=True)}


def test_a_network_that_is_founded_without_a_node_has_a_step_of_its_own():
    """What was agreed on was for all founders."""
    desk = Desk(RING, adaptive=True, pace=0.9)
    desk.found()
    effects = desk.prepare(desk.lose(3), stiffness={0: 2.0})
    committed = only(effects, Committed)
    assert committed.step.value == pytest.approx(0.5)  # half of 2 at smoothness 2
    assert (desk.begin.pace, committed.step.since) == (committed.step.value, 0)
    whole = Desk(RING, adaptive=True, pace=0.9)
    effects = whole.prepare(whole.found(), stiffness={0: 2.0})
    assert only(effects, Committed).step is None  # it was agreed on for all of them


def test_several_losses_before_the_beginning():
    desk = Desk(LONG)
    desk.found()
    desk.lose(1)
    effects = desk.prepare(desk.lose(2))
    committed = only(effects, Committed)
    assert [a.node for a in committed.adoptions] == [1, 2]
    assert (committed.members, committed.lost) == ((0, 3), (1, 2))
    assert set(sent(desk.begun(effects), m.Dismiss)) == {(1,), (2,)}


def test_nobody_is_left_to_found_anything():
    """Both verdicts were wrong, perhaps: then they are told, and nothing begins any more."""
    desk = Desk(PAIR)
    desk.found()
    desk.lose(0)
    effects = desk.lose(1)
    assert only(effects, Finished) == Finished(0)
    assert desk.steward.phase is Phase.FINISHED
    assert sent(effects, m.Dismiss) == {
        (0,): m.Dismiss(0, excluded=True),
        (1,): m.Dismiss(0, excluded=True),
    }
    assert dropped(desk.tell(1, m.Ready(2, 1.0, ()))).startswith("late")
    assert desk.steward.phase is Phase.FINISHED
    assert desk.lose(1) == []


def test_who_is_there_before_the_first_epoch_can_ask_to_leave():
    desk = Desk(PATH)
    effects = desk.found()
    assert desk.tell(2, m.LeaveRequest()) == []
    effects = desk.begun(desk.prepare(effects))
    assert sent(effects, m.Halt) == {(0, 1, 2): m.Halt(2, 1)}


# --- halting ------------------------------------------------------------------------------------


def test_whoever_is_behind_advances_to_the_latest_round():
    desk = Desk(PATH).running()
    halt = desk.tell(2, m.LeaveRequest())
    assert sent(halt, m.Halt) == {(0, 1, 2): m.Halt(2, 1)}
    assert desk.steward.phase is Phase.HALTING
    effects = desk.stop(halt, rounds={0: 3, 1: 4, 2: 3})
    assert sent(effects, m.Advance) == {(0, 2): m.Advance(2, 4)}
    effects = desk.stop(effects, 4)
    assert desk.steward.phase is Phase.ARRANGING
    assert desk.arranged[2].round == 4
    assert sent(effects, m.Arrange).keys() == {(2,)}  # the leaver first


def test_an_old_report_makes_it_ask_again_and_nothing_worse():
    desk = Desk(PATH).running()
    halt = desk.tell(2, m.LeaveRequest())
    advance = desk.stop(halt, rounds={0: 3, 1: 4, 2: 3})
    assert desk.tell(0, m.Halted(2, 3, (), (), leaving=False)) == []  # a copy of the first one
    effects = desk.tell(2, m.Halted(2, 4, (), (), leaving=True))
    assert sent(effects, m.Advance) == {(0,): m.Advance(2, 4)}
    assert desk.stop(advance, 4)


def test_reports_of_the_wrong_people_or_attempts_are_dropped():
    desk = Desk(PATH).running()
    halt = desk.tell(2, m.LeaveRequest())
    late = m.Halted(1, 10, (), (), leaving=False)
    assert dropped(desk.tell(0, late)).startswith("late")
    assert dropped(desk.tell(9, m.Halted(2, 5, (), (), leaving=False))) == "not a member"
    desk.lose(1)
    assert dropped(desk.tell(1, m.Halted(3, 5, (), (), leaving=False))) == "not a member"
    assert dropped(desk.tell(0, only_message(halt, 0))).startswith("late")


def only_message(halt, node):
    (message,) = sent(halt, m.Halt).values()
    return m.Halted(message.epoch, 5, (), (), leaving=False)


def test_numbers_are_never_used_twice():
    desk = Desk(RING).running()
    effects = desk.tell(3, m.LeaveRequest())
    desk.stop(effects)
    effects = desk.lose(3)
    effects = desk.stop(effects)
    desk.lose(2)
    halts = [message.epoch for _, message in desk.sent if isinstance(message, m.Halt)]
    assert halts == [2, 3, 4]
    assert {to for to, message in desk.sent if message == m.Halt(4, 1)} == {(0, 1)}


# --- leaving ------------------------------------------------------------------------------------


def test_one_departure():
    desk = Desk(PATH).running()
    effects = desk.stop(desk.tell(2, m.LeaveRequest()))
    assert sent(effects, m.Arrange) == {
        (2,): m.Arrange(2, 5, False, 2, heir=1, remaining=2, farewells=())
    }
    effects = desk.tell(2, m.Ready(2, 0.0, ()))
    arranged = {to[0]: arrange for to, arrange in sent(effects, m.Arrange).items()}
    assert arranged.keys() == {0, 1}
    assert (arranged[0].farewells, arranged[1].farewells) == ((), (2,))
    assert arranged[0].neighbours == (1,)
    effects = desk.prepare(effects, lineage={1: (2,)})
    committed = only(effects, Committed)
    assert committed.handovers == (Handover(2, 1, ()),)
    assert (committed.members, committed.restart, committed.lost) == ((0, 1), False, ())
    assert desk.begin.roster == ((0, ()), (1, (2,)))
    # only once every node has begun may it go
    assert desk.tell(0, m.Begun(2)) == []
    assert sent(desk.tell(1, m.Begun(2)), m.Dismiss) == {(2,): m.Dismiss(2)}


def test_leavers_go_in_ascending_order_each_after_the_other_is_ready():
    desk = Desk(STAR).running()
    effects = desk.tell(3, m.LeaveRequest())
    assert desk.tell(1, m.LeaveRequest()) == []
    order, effects = [], desk.stop(effects)
    while not isinstance(effects[0], Committed):
        order += [to[0] for to in sent(effects, m.Arrange)]
        effects = [
            said for to, a in sent(effects, m.Arrange).items()
            for said in desk.tell(to[0], m.Ready(a.epoch, 1.0, ()))
        ]  # fmt: skip
    assert order == [1, 3, 0, 2]
    assert effects[0].handovers == (Handover(1, 0, ()), Handover(3, 0, ()))
    assert desk.arranged[0].farewells == (1, 3)


def test_the_heir_is_the_least_loaded_neighbour():
    desk = Desk(RING).running()
    committed, _ = desk.change(desk.tell(0, m.LeaveRequest()), lineage={1: (0,)})
    assert committed.handovers == (Handover(0, 1, ()),)  # the lowest id of the equally loaded
    assert desk.inherited(1) == (0,)
    committed, _ = desk.change(desk.tell(2, m.LeaveRequest()), lineage={3: (2,)})
    (handover,) = committed.handovers
    assert handover.heir == 3  # 1 remembers a node already


def test_the_heir_is_on_another_host_if_there_is_one():
    desk = Desk(RING, hosts={0: "a", 1: "a", 2: "b", 3: "b"}).running()
    committed, _ = desk.change(desk.tell(0, m.LeaveRequest()), lineage={3: (0,)})
    assert committed.handovers[0].heir == 3


def test_what_a_leaver_takes_over_counts_as_load_for_the_next_one():
    """0 and 2 leave; 1 and 3 are neighbours of both. What 0 leaves to 1 makes 3 the heir of 2."""
    desk = Desk(RING).running()
    effects = desk.tell(0, m.LeaveRequest())
    desk.tell(2, m.LeaveRequest())
    committed, _ = desk.change(effects, lineage={1: (0,), 3: (2,)})
    assert [(h.node, h.heir) for h in committed.handovers] == [(0, 1), (2, 3)]


def test_a_chain_of_leavers():
    desk = Desk(LONG).running()
    effects = desk.tell(0, m.LeaveRequest())
    desk.tell(1, m.LeaveRequest())
    effects = desk.stop(effects)
    assert (desk.arranged[0].heir, desk.arranged[0].remaining) == (1, 3)
    effects = desk.tell(0, m.Ready(2, 0.0, ()))
    assert (desk.arranged[1].heir, desk.arranged[1].farewells) == (2, (0,))
    assert desk.arranged[1].remaining == 2
    effects = desk.tell(1, m.Ready(2, 0.0, ()))
    assert desk.arranged[2].farewells == (1,)
    committed = only(desk.prepare(effects, lineage={2: (0, 1)}), Committed)
    assert [(h.node, h.heir) for h in committed.handovers] == [(0, 1), (1, 2)]


def test_who_forgets_takes_along_what_it_inherited_and_everybody_restarts():
    desk = Desk(LONG).running()
    effects = desk.tell(0, m.LeaveRequest())
    desk.tell(1, m.LeaveRequest())
    effects = desk.prepare(desk.stop(effects), forgets={0: (0,)}, lineage={2: (1,)})
    committed = only(effects, Committed)
    assert (committed.restart, committed.lost) == (True, (0,))
    assert desk.arranged[1].farewells == ()  # 0 sends none
    assert desk.arranged[1].restart
    assert all(desk.arranged[node].restart for node in (2, 3))


def test_the_last_one_cannot_leave():
    desk = Desk(PAIR).running()
    effects = desk.tell(0, m.LeaveRequest())
    desk.tell(1, m.LeaveRequest())
    effects = desk.stop(effects, leaving=(0, 1))
    effects = desk.tell(0, m.Ready(2, 0.0, ()))
    assert desk.arranged[1].stays
    assert desk.arranged[1].neighbours == ()
    committed = only(desk.prepare(effects, lineage={1: (0,)}), Committed)
    assert committed.members == (1,)
    assert not sent(desk.tell(1, m.Begun(2)), m.Halt)  # it is not asked again
    assert desk.tell(1, m.LeaveRequest()) == []
    assert desk.steward.phase is Phase.RUNNING


def test_somebody_alone_cannot_leave():
    desk = Desk(ALONE).running()
    assert desk.tell(0, m.LeaveRequest()) == []


def test_an_heir_that_refuses_becomes_a_leaver_itself():
    desk = Desk(LONG).running()
    effects = desk.stop(desk.tell(0, m.LeaveRequest()))
    desk.tell(0, m.Ready(2, 0.0, ()))
    assert dropped(desk.tell(1, m.Refused(1))).startswith("late")
    effects = desk.tell(1, m.Refused(2))
    assert sent(effects, m.Halt) == {(0, 1, 2, 3): m.Halt(3, 1)}
    assert dropped(desk.tell(1, m.Refused(2))).startswith("late")
    committed, _ = desk.change(effects, lineage={2: (0, 1)})
    assert [(h.node, h.heir) for h in committed.handovers] == [(0, 1), (1, 2)]


def test_who_leaves_at_a_stop_says_so_in_its_report():
    desk = Desk(PATH, stops=(10, 20)).running()
    effects = desk.report(10, leaving=(2,))
    committed, _ = desk.change(effects, t=10, leaving=(2,), lineage={1: (2,)})
    assert committed.handovers == (Handover(2, 1, ()),)
    assert desk.begin.until == 20


def test_who_decides_while_everybody_stops_leaves_with_them():
    desk = Desk(PATH).running()
    committed, _ = desk.change(desk.tell(2, m.LeaveRequest()), leaving=(0, 2))
    assert [h.node for h in committed.handovers] == [0, 2]


# --- losses -------------------------------------------------------------------------------------


def test_the_freshest_checkpoint_is_adopted_and_its_holder_settles_the_trackers():
    desk = Desk(RING, buddies=2).running()
    effects = desk.lose(0)
    assert sent(effects, m.Halt) == {(1, 2, 3): m.Halt(2, 1)}
    kept = {1: ((0, 3, (0,)),), 2: ((3, 4, (3,)),), 3: ((0, 4, (0,)),)}
    effects = desk.stop(effects, wards=kept)
    assert (desk.arranged[3].adopted, desk.arranged[1].adopted) == ((0,), ())
    effects = desk.prepare(effects, lineage={3: (0,)})
    committed = only(effects, Committed)
    assert committed.adoptions == (Adoption(0, 3, (), ()),)
    assert (committed.restart, committed.lost) == (False, ())
    # along a tree, the shortest way to the adopter
    tree = {n: (order.sums_from, order.sums_to) for n, order in desk.arranged.items() if n}
    assert tree == {3: ((2,), None), 2: ((1,), 3), 1: ((), 2)}
    assert sent(desk.begun(effects), m.Dismiss) == {(0,): m.Dismiss(2, excluded=True)}


def test_of_equally_fresh_checkpoints_the_preferred_buddy_adopts():
    for buddies_hosts, adopter in [(None, 1), ({1: "a", 0: "a", 3: "b", 2: "c"}, 3)]:
        desk = Desk(RING, buddies=2, hosts=buddies_hosts).running()
        assert desk.arranged[0].buddies[0] == adopter
        kept = {1: ((0, 4, (0,)),), 3: ((0, 4, (0,)),)}
        committed, _ = desk.change(desk.lose(0), wards=kept, lineage={adopter: (0,)})
        assert committed.adoptions[0].adopter == adopter


def test_who_is_no_buddy_any_more_comes_last():
    desk = Desk(RING, buddies=1).running()
    assert desk.arranged[0].buddies == (1,)
    kept = {1: ((0, 4, (0,)),), 2: ((0, 4, (0,)),), 3: ((0, 4, (0,)),)}
    committed, _ = desk.change(desk.lose(0), wards=kept, lineage={1: (0,)})
    assert committed.adoptions[0].adopter == 1


def test_after_a_loss_nobody_advances_everybody_goes_on_from_the_latest_round():
    desk = Desk(PATH).running()
    effects = desk.stop(desk.lose(2), rounds={0: 3, 1: 4})
    assert not sent(effects, m.Advance)
    assert {a.round for a in sent(effects, m.Arrange).values()} == {4}


def test_without_a_holder_the_lost_are_named():
    desk = Desk(PATH, buddies=0).running()
    committed, _ = desk.change(desk.tell(2, m.LeaveRequest()), lineage={1: (2,)})
    committed, _ = desk.change(desk.lose(1))
    assert committed.adoptions == (Adoption(1, None, (1, 2), ()),)
    assert committed.lost == (1, 2)
    assert desk.begin.lost == (1, 2)


def test_what_the_adopter_does_not_remember_is_lost():
    """Its will left nothing, but what it had inherited was kept."""
    desk = Desk(PATH).running()
    desk.change(desk.tell(2, m.LeaveRequest()), lineage={1: (2,)})
    kept = {0: ((1, 4, (2,)),)}
    committed, _ = desk.change(desk.lose(1), wards=kept, lineage={0: (2,)})
    assert committed.adoptions == (Adoption(1, 0, (1,), ()),)
    assert committed.lost == (1,)


def test_several_losses_at_once():
    desk = Desk(RING).running()
    effects = desk.lose(1)
    effects = desk.lose(3)
    assert sent(effects, m.Halt) == {(0, 2): m.Halt(3, 1)}
    kept = {2: ((1, 4, (1,)),), 0: ((3, 2, (3,)),)}
    committed, after = desk.change(effects, wards=kept, lineage={2: (1,), 0: (3,)})
    assert [(a.node, a.adopter) for a in committed.adoptions] == [(1, 2), (3, 0)]
    assert desk.arranged[0].neighbours == (2,)
    assert sorted(to for to in sent(after, m.Dismiss)) == [(1,), (3,)]


def test_losses_come_before_departures():
    desk = Desk(RING).running()
    desk.tell(2, m.LeaveRequest())
    effects = desk.lose(1)
    committed, after = desk.change(effects, leaving=(2,))
    assert [a.node for a in committed.adoptions] == [1]
    assert committed.handovers == ()
    committed, _ = desk.change(after, leaving=(2,))
    assert [h.node for h in committed.handovers] == [2]


@pytest.mark.parametrize("phase", [Phase.HALTING, Phase.ARRANGING])
def test_a_loss_during_a_change_begins_it_anew(phase):
    desk = Desk(RING).running()
    effects = desk.tell(2, m.LeaveRequest())
    if phase is Phase.ARRANGING:
        effects = desk.stop(effects)
        desk.tell(2, m.Ready(2, 0.0, ()))
    assert desk.steward.phase is phase
    effects = desk.lose(1)
    assert sent(effects, m.Halt) == {(0, 2, 3): m.Halt(3, 1)}
    assert dropped(desk.tell(0, m.Ready(2, 1.0, ()))).startswith("late")


def test_a_leaver_that_is_lost_before_its_epoch_begins_is_lost():
    desk = Desk(RING).running()
    desk.stop(desk.tell(2, m.LeaveRequest()))
    desk.tell(2, m.Ready(2, 0.0, ()))
    committed, after = desk.change(desk.lose(2))
    assert committed.handovers == ()
    assert [a.node for a in committed.adoptions] == [2]
    assert not sent(after, m.Halt)


def test_a_loss_while_everybody_begins_does_not_hold_them_up():
    desk = Desk(RING).running()
    effects = desk.prepare(desk.stop(desk.tell(2, m.LeaveRequest())), lineage={1: (2,)})
    assert desk.steward.phase is Phase.BEGINNING
    desk.tell(0, m.Begun(2))
    desk.tell(3, m.Begun(2))
    effects = desk.lose(1)
    assert sent(effects, m.Dismiss) == {(2,): m.Dismiss(2)}
    assert sent(effects, m.Halt) == {(0, 3): m.Halt(3, 2)}


def test_a_loss_after_the_end_is_dealt_with_all_the_same():
    desk = Desk(PATH).running()
    assert desk.report(10) == [Finished(10)]
    assert desk.steward.phase is Phase.FINISHED
    effects = desk.lose(2)
    committed, _ = desk.change(effects, t=10, wards={1: ((2, 9, (2,)),)}, lineage={1: (2,)})
    assert committed.members == (0, 1)
    assert desk.begin.until == 10  # they stop at once
    assert desk.report(10) == [Finished(10)]
    assert desk.steward.phase is Phase.FINISHED


def test_when_everybody_is_lost_after_the_end_that_is_said_too():
    desk = Desk(PAIR).running()
    assert desk.report(10) == [Finished(10)]
    assert sent(desk.lose(0), m.Halt)
    assert only(desk.lose(1), Finished).round == 0  # since then nothing has begun
    assert desk.steward.register.lost == {0, 1}


def test_after_the_end_one_may_still_leave_but_for_the_last():
    desk = Desk(PAIR).running()
    assert desk.report(10) == [Finished(10)]
    committed, _ = desk.change(desk.tell(0, m.LeaveRequest()), t=10, lineage={1: (0,)})
    assert committed.handovers == (Handover(0, 1, ()),)
    assert desk.report(10) == [Finished(10)]
    assert desk.tell(1, m.LeaveRequest()) == []
    assert desk.steward.phase is Phase.FINISHED


def test_somebody_is_lost_only_once():
    desk = Desk(RING).running()
    effects = desk.lose(1)
    assert desk.lose(1) == []
    desk.change(effects)
    assert desk.lose(1) == []
    assert desk.lose(9) == []  # and who was never there is not lost at all


def test_when_everybody_is_lost_it_is_over():
    desk = Desk(PAIR).running()
    desk.lose(0)
    effects = desk.lose(1)
    assert only(effects, Finished) == Finished(0)
    assert desk.steward.register.lost == {0, 1}
    assert set(sent(effects, m.Dismiss)) == {(0,), (1,)}  # should they be there after all
    assert desk.steward.phase is Phase.FINISHED
    # a node that comes now has no node to come to, and is told so; it is over once
    effects = desk.tell(1, m.Request("return", "", (), incarnation=1))
    assert effects == [Send((1,), m.Dismiss(1, excluded=True, incarnation=1))]
    assert desk.steward.register.requests == {}
    assert desk.steward.phase is Phase.FINISHED


def test_a_node_that_is_about_to_come_is_told_when_no_node_is_left():
    desk = away()
    desk.stop(desk.tell(2, m.Request("return", "", (1,), incarnation=1)))
    desk.tell(9, m.Request("join", ""))
    desk.lose(0)
    effects = desk.lose(1)
    assert only(effects, Finished) == Finished(5)
    told = sent(effects, m.Dismiss)
    assert told[(2,)] == m.Dismiss(2, excluded=True, incarnation=1)
    assert told[(9,)] == m.Dismiss(2, excluded=True)


def test_a_node_that_comes_to_a_network_that_was_never_founded_is_told_so():
    desk = Desk(PAIR)
    desk.found()
    desk.tell(9, m.Request("join", ""))
    desk.lose(0)
    effects = desk.lose(1)
    assert only(effects, Finished) == Finished(0)
    assert (9,) in sent(effects, m.Dismiss)
    assert sent(desk.tell(8, m.Request("join", "")), m.Dismiss).keys() == {(8,)}


def test_when_everybody_is_lost_so_is_whatever_they_remembered():
    desk = away()
    desk.lose(0)
    assert desk.steward.register.lost == set()  # there may be a checkpoint yet
    assert only(desk.lose(1), Finished) == Finished(5)
    assert desk.steward.register.lost == {0, 1, 2}


# --- accusations --------------------------------------------------------------------------------


def test_who_is_accused_is_taken_for_lost_and_told():
    desk = Desk(RING).running()
    effects = desk.tell(0, m.Accusation(1, 1, "nonsense"))
    assert sent(effects, m.Halt) == {(0, 2, 3): m.Halt(2, 1)}
    assert desk.tell(2, m.Accusation(1, 1, "nonsense")) == []
    _, after = desk.change(effects)
    assert sent(after, m.Dismiss) == {(1,): m.Dismiss(2, excluded=True)}


def test_an_accusation_of_an_earlier_life_is_not_held_against_the_next():
    desk = away_and_back()
    assert (
        dropped(desk.tell(0, m.Accusation(1, 2, "nonsense"))) == "late: of an earlier incarnation"
    )
    assert sent(desk.tell(0, m.Accusation(desk.steward.present.number, 2, "nonsense")), m.Halt)


def test_a_newcomer_accuses_in_the_name_of_the_epoch_that_it_is_to_come_in_with():
    """It is in none yet; its sponsor, who has come back, is not its earlier incarnation."""
    desk = away_and_back()
    desk.stop(desk.tell(9, m.Request("join", "", (2,))))
    assert desk.arranged[9].sponsor == 2
    accusation = m.Accusation(desk.arranged[9].epoch, 2, "a welcome that cannot be right")
    assert sent(desk.tell(9, accusation), m.Halt) == {(0, 1): m.Halt(5, 3)}


def test_who_claims_with_nonsense_is_not_waited_for():
    """Its holder cannot go on without the withdrawal, and will not get a better one."""
    desk = Desk(PATH).running()
    desk.change(desk.tell(2, m.LeaveRequest()), lineage={1: (2,)})
    effects = desk.stop(desk.tell(2, m.Request("return", "", (1,), incarnation=1)))
    assert desk.arranged[2].claim == 1
    effects = desk.tell(1, m.Accusation(2, 2, "a withdrawal that cannot be right"))
    assert sent(effects, m.Dismiss) == {(2,): m.Dismiss(2, excluded=True, incarnation=1)}
    committed, _ = desk.change(effects)
    assert (committed.arrival, committed.members) == (None, (0, 1))


# --- arrivals -----------------------------------------------------------------------------------


def away(edges=PATH, node=2, heir=1, **fields):
    """A node has left and is remembered."""
    desk = Desk(edges, **fields).running()
    desk.change(desk.tell(node, m.LeaveRequest()), lineage={heir: (node,)})
    return desk


def away_and_back():
    desk = away()
    committed, _ = desk.change(
        desk.tell(2, m.Request("return", "", (1,), incarnation=1)), lineage={1: ()}
    )
    assert committed.members == (0, 1, 2)
    return desk


def test_a_return():
    desk = away()
    effects = desk.tell(2, m.Request("return", "elsewhere", (0, 1, 7), incarnation=1))
    assert sent(effects, m.Halt) == {(0, 1): m.Halt(3, 2)}
    effects = desk.stop(effects)
    back, its_holder = desk.arranged[2], desk.arranged[1]
    assert (back.claim, back.sponsor, back.neighbours, back.round) == (1, 1, (0, 1), 5)
    assert (its_holder.claimant, its_holder.newcomer) == (2, 2)
    assert not back.target_moves  # the sum is the same as before
    effects = desk.prepare(effects, lineage={1: (), 2: ()})
    committed = only(effects, Committed)
    assert committed.arrival == Arrival("return", 2, 1, 1, (0, 1))
    assert desk.begin.roster == ((0, ()), (1, ()), (2, ()))
    assert desk.begun(effects) == []


def test_a_return_of_somebody_whom_nobody_remembers():
    desk = Desk(PATH, buddies=0).running()
    desk.change(desk.lose(2))
    assert desk.steward.register.lost == {2}
    effects = desk.stop(desk.tell(2, m.Request("return", "", (), incarnation=1)))
    assert (desk.arranged[2].claim, desk.arranged[2].sponsor) == (None, 0)
    assert desk.arranged[2].neighbours == (0,)  # it knows no node that is there
    assert not desk.arranged[2].target_moves  # it had never been given up: it was lost
    committed = only(desk.prepare(effects), Committed)
    assert committed.lost == ()


def test_a_return_of_somebody_who_had_been_forgotten_moves_the_target():
    desk = away()
    desk.change(desk.tell(2, m.Request("forget", "", (), incarnation=1)), lineage={1: ()})
    desk.stop(desk.tell(2, m.Request("return", "", (), incarnation=2)))
    assert desk.arranged[2].target_moves


def test_a_holder_takes_in_who_knows_nobody():
    desk = away()
    desk.stop(desk.tell(2, m.Request("return", "", (), incarnation=1)))
    assert desk.arranged[2].neighbours == (1,)


def test_somebody_joins():
    desk = Desk(PATH).running()
    effects = desk.stop(desk.tell(7, m.Request("join", "new", (0, 2))))
    assert (desk.arranged[7].neighbours, desk.arranged[7].sponsor) == ((0, 2), 0)
    assert desk.arranged[7].target_moves
    assert desk.arranged[0].newcomer == 7
    committed = only(desk.prepare(effects), Committed)
    assert committed.arrival == Arrival("join", 7, None, 0, (0, 2))
    assert committed.members == (0, 1, 2, 7)


def test_somebody_is_forgotten():
    desk = away()
    effects = desk.stop(desk.tell(2, m.Request("forget", "", (), incarnation=1)))
    assert desk.arranged[2] == m.Arrange(3, 5, False, 2, claim=1, incarnation=1)
    assert desk.arranged[1].claimant == 2
    assert desk.arranged[1].target_moves
    effects = desk.prepare(effects, lineage={1: ()})
    committed = only(effects, Committed)
    assert committed.arrival == Arrival("forget", 2, 1, None, ())
    assert (committed.members, committed.lost) == ((0, 1), ())
    assert sent(desk.begun(effects), m.Dismiss) == {(2,): m.Dismiss(3, incarnation=1)}


def test_arrivals_come_one_at_a_time_forgets_returns_joins():
    desk = Desk(((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))).running()
    effects = desk.tell(4, m.LeaveRequest())
    desk.tell(5, m.LeaveRequest())
    desk.change(effects, lineage={3: (4, 5)})
    effects = desk.tell(8, m.Request("join", ""))
    desk.tell(7, m.Request("join", ""))
    desk.tell(5, m.Request("return", "", (), incarnation=1))
    desk.tell(4, m.Request("forget", "", (), incarnation=1))
    came = []
    while sent(effects, m.Halt):
        committed, effects = desk.change(effects)
        came.append((committed.arrival.purpose, committed.arrival.node))
    assert came == [("forget", 4), ("return", 5), ("join", 7), ("join", 8)]


def test_departures_come_before_arrivals():
    desk = Desk(RING).running()
    effects = desk.tell(9, m.Request("join", ""))
    committed, after = desk.change(effects, leaving=(2,))
    assert committed.arrival is None
    committed, _ = desk.change(after)
    assert committed.arrival.node == 9


def test_a_request_is_made_once_and_by_the_latest_life():
    desk = away()
    assert dropped(desk.tell(2, m.Request("return", "", (), incarnation=0))).startswith(
        "a duplicate"
    )
    effects = desk.tell(2, m.Request("return", "", (), incarnation=2))
    assert dropped(desk.tell(2, m.Request("return", "", (), incarnation=2))).startswith(
        "a duplicate"
    )
    assert dropped(desk.tell(2, m.Request("return", "", (), incarnation=1))).startswith(
        "a duplicate"
    )
    desk.change(effects, lineage={1: ()})
    assert dropped(desk.tell(2, m.Request("return", "", (), incarnation=2))).startswith(
        "a duplicate"
    )


def test_a_request_of_the_dead_is_late_and_should_they_live_they_are_told():
    desk = Desk(PATH).running()
    assert desk.lose(9, incarnation=0) == []
    effects = desk.tell(9, m.Request("join", "", (), incarnation=0))
    assert effects == [Send((9,), m.Dismiss(1, excluded=True, incarnation=0))]
    assert desk.steward.register.requests == {}
    assert sent(desk.tell(9, m.Request("join", "", (), incarnation=1)), m.Halt)


def test_who_asks_again_in_a_later_life_is_arranged_for_anew():
    """The incarnation that the arrangement is about must be over: no node would ever be ready."""
    desk = away()
    desk.stop(desk.tell(2, m.Request("return", "here", (1,), incarnation=1)))
    assert (desk.arranged[2].epoch, desk.arranged[2].incarnation) == (3, 1)
    effects = desk.tell(2, m.Request("return", "there", (0,), incarnation=2))
    assert effects == [Send((0, 1), m.Halt(4, 2))]
    assert dropped(desk.tell(2, m.Ready(3, 1.0, ()))).startswith("late")
    effects = desk.stop(effects)
    assert (desk.arranged[2].epoch, desk.arranged[2].incarnation) == (4, 2)
    assert desk.arranged[2].neighbours == (0,)
    committed = only(desk.prepare(effects, lineage={1: ()}), Committed)
    assert committed.arrival == Arrival("return", 2, 1, 1, (0,))
    assert (desk.steward.register.incarnations[2], desk.steward.register.hosts[2]) == (2, "there")


@pytest.mark.parametrize("halting", [True, False])
def test_who_asks_again_before_its_turn_only_replaces_its_request(halting):
    desk = away()
    effects = desk.tell(2, m.Request("return", "", (1,), incarnation=1))
    if not halting:
        desk.tell(9, m.Request("forget", ""))  # which comes first
        desk.stop(effects)
        assert desk.steward._change.draft.arrival.node == 9
    assert desk.tell(2, m.Request("return", "", (1,), incarnation=2)) == []
    assert desk.steward.register.requests[2].incarnation == 2


def test_orders_are_for_the_life_that_is_there_or_that_asks():
    desk = away_and_back()
    effects = desk.stop(desk.tell(9, m.Request("join", "", (0,), incarnation=4)))
    arranged = {to[0]: a.incarnation for to, a in sent(effects, m.Arrange).items()}
    assert arranged == {0: 0, 1: 0, 2: 1, 9: 4}
    desk.begun(desk.prepare(effects))
    desk.stop(desk.tell(2, m.LeaveRequest(incarnation=1)))
    assert (desk.arranged[2].heir, desk.arranged[2].incarnation) == (1, 1)


def test_whoever_asks_to_come_back_is_not_there_any_more():
    desk = Desk(PATH).running()
    effects = desk.tell(2, m.Request("return", "", (1,), incarnation=1))
    committed, after = desk.change(effects, wards={1: ((2, 3, (2,)),)}, lineage={1: (2,)})
    assert [a.node for a in committed.adoptions] == [2]
    assert sent(after, m.Dismiss) == {(2,): m.Dismiss(2, excluded=True, incarnation=0)}
    committed, _ = desk.change(after, lineage={1: ()})
    assert committed.arrival == Arrival("return", 2, 1, 1, (1,))


def test_the_last_member_asks_to_come_back_before_the_excluded_one_is_told():
    """It dies with the epoch that it was to begin, and its request is the first to say so."""
    desk = Desk(PAIR).running()
    desk.prepare(desk.stop(desk.lose(1)))
    effects = desk.tell(0, m.Request("return", "", (1,), incarnation=1))
    assert sent(effects, m.Dismiss) == {
        (1,): m.Dismiss(2, excluded=True),
        (0,): m.Dismiss(2, excluded=True, incarnation=1),
    }
    assert only(effects, Finished)
    assert desk.steward.register.lost == {0, 1}


def test_a_founder_that_starts_again_before_the_beginning_comes_back():
    desk = Desk(PATH)
    desk.found()
    effects = desk.tell(2, m.Request("return", "", (1,), incarnation=1))
    assert sent(effects, m.Arrange).keys() == {(0,), (1,)}
    after = desk.begun(desk.prepare(effects))
    assert sent(after, m.Dismiss) == {(2,): m.Dismiss(2, excluded=True, incarnation=0)}
    committed, _ = desk.change(after)
    assert committed.arrival.node == 2


def test_an_arrival_that_is_lost_is_not_waited_for():
    desk = away()
    effects = desk.stop(desk.tell(2, m.Request("return", "", (1,), incarnation=1)))
    effects = desk.lose(2, incarnation=1)
    assert sent(effects, m.Halt) == {(0, 1): m.Halt(4, 2)}
    committed, _ = desk.change(effects)
    assert committed.arrival is None


def test_a_request_that_is_lost_before_its_turn_is_dropped_and_its_sender_told():
    desk = Desk(PATH).running()
    desk.tell(8, m.Request("join", ""))
    desk.tell(9, m.Request("join", ""))
    effects = desk.lose(9)
    assert sent(effects, m.Dismiss) == {(9,): m.Dismiss(1, excluded=True)}
    assert not sent(effects, m.Halt)


def test_a_verdict_on_an_earlier_life_is_late():
    desk = away_and_back()
    assert dropped(desk.lose(2, incarnation=0)) == "late: of an earlier incarnation"
    assert sent(desk.lose(2, incarnation=1), m.Halt)


def test_the_wish_of_an_earlier_life_is_not_held_against_the_next():
    desk = away_and_back()
    assert dropped(desk.tell(2, m.LeaveRequest(incarnation=0))) == "late: of an earlier incarnation"
    assert sent(desk.tell(2, m.LeaveRequest(incarnation=1)), m.Halt)


def test_a_copy_of_a_wish_that_was_granted_is_not_held_against_who_comes_back():
    desk = away()
    assert (
        dropped(desk.tell(2, m.LeaveRequest(incarnation=0))) == "not a member"
    )  # it has left already
    committed, after = desk.change(
        desk.tell(2, m.Request("return", "", (1,), incarnation=1)), lineage={1: ()}
    )
    assert committed.arrival.node == 2
    assert after == []  # and stays


# --- stops and appointments ---------------------------------------------------------------------


def test_a_stop_without_anything_to_do_is_an_epoch_to_the_next_one():
    desk = Desk(PATH, stops=(10, 20)).running()
    effects = desk.report(10)
    committed, _ = desk.change(effects, t=10)
    assert (committed.round, desk.begin.until) == (10, 20)
    assert desk.report(20) == [Finished(20)]


def test_a_stop_is_not_over_before_everybody_has_reported():
    desk = Desk(PATH).running()
    assert desk.tell(0, m.Halted(1, 10, (), (), leaving=False)) == []
    assert desk.tell(1, m.Halted(1, 10, (), (), leaving=False)) == []
    assert desk.steward.awaited == ()
    assert desk.tell(2, m.Halted(1, 10, (), (), leaving=False)) == [Finished(10)]
    assert dropped(desk.tell(2, m.Halted(1, 10, (), (), leaving=False))).startswith("late")


def test_whoever_stops_before_the_others_have_begun_is_heard():
    desk = Desk(PATH, stops=(0, 10))
    effects = desk.prepare(desk.found())
    assert desk.begin.until == 10  # nothing to do at round 0
    desk.tell(0, m.Begun(1))
    assert desk.tell(0, m.Halted(1, 10, (), (), leaving=False)) == []
    desk.tell(1, m.Halted(1, 10, (), (), leaving=False))
    desk.tell(2, m.Halted(1, 10, (), (), leaving=False))
    desk.tell(1, m.Begun(1))
    assert desk.tell(2, m.Begun(1)) == [Finished(10)]
    assert effects


def test_a_stop_waits_for_the_losses_that_are_expected():
    desk = Desk(RING, stops=(10, 20), crashes={10: (1, 3)}).running()
    assert desk.report(10) == []
    assert desk.steward.awaited == (1, 3)
    assert desk.steward.present.round_reached == 10
    effects = desk.lose(1)
    desk.stop(effects, 10)
    effects = desk.lose(3)
    committed, _ = desk.change(effects, t=10)
    assert [a.node for a in committed.adoptions] == [1, 3]
    assert desk.begin.until == 20
    assert desk.steward.awaited == ()


def test_a_verdict_keeps_one_appointment_however_often_it_is_heard():
    desk = Desk(PATH, stops=(10, 20), crashes={10: (2,), 20: (2,)}).running()
    effects = desk.lose(2)
    assert desk.lose(2) == []
    desk.change(effects, t=8)
    assert desk.lose(2) == []
    assert dropped(desk.tell(0, m.Accusation(1, 2, "nonsense"))) == "not of a member about another"
    assert desk.steward._agenda.crashes == {10: [], 20: [2]}
    desk.change(desk.tell(2, m.Request("return", "", (1,), incarnation=1)), t=9)
    assert dropped(desk.lose(2)).startswith("late")
    desk.change(desk.report(10), t=10)
    assert desk.report(20) == []
    assert desk.steward.awaited == (2,)
    desk.change(desk.lose(2, incarnation=1), t=20)  # another incarnation, another appointment
    assert desk.steward._agenda.crashes == {10: [], 20: []}
    assert desk.report(20) == [Finished(20)]


def test_what_cannot_happen_any_more_is_not_waited_for():
    """Who was to be lost has left before, or has never come; who was to come back has stayed."""
    desk = away(stops=(10, 20), crashes={10: (2, 9)}, arrivals={10: (1,), 20: (0, 2)})
    assert sent(desk.report(10), m.Halt)  # on to the next stop
    assert desk.steward.awaited == ()
    desk.change([Send((0, 1), m.Halt(desk.steward._newest, 2))], t=10)
    assert desk.report(20) == []
    assert desk.steward.awaited == (2,)
    effects = desk.tell(2, m.Request("return", "", (1,), incarnation=1))
    desk.change(effects, t=20, lineage={1: ()})
    assert desk.report(20) == [Finished(20)]


def test_the_one_whose_loss_is_expected_may_be_lost_as_a_member_only():
    """Its appointment is for the member: a verdict before it has come changes nothing."""
    desk = away(stops=(10,), crashes={10: (1,)}, arrivals={10: (9,)})
    assert desk.report(10) == []
    assert desk.steward.awaited == (1, 9)
    assert desk.tell(9, m.Request("join", "", (0,))) == []  # the loss comes first
    assert desk.steward.awaited == (1,)
    committed, _ = desk.change(desk.lose(1), t=10)
    assert [a.node for a in committed.adoptions] == [1]
    assert desk.begin.until == 10
    committed, _ = desk.change(desk.report(10), t=10)
    assert committed.arrival.node == 9


def test_one_of_two_expected_losses_makes_another_epoch_without_rounds():
    desk = Desk(RING, stops=(10, 20), crashes={10: (1, 3)}).running()
    desk.report(10)
    desk.change(desk.lose(1), t=10)
    assert desk.begin.until == 10
    assert desk.report(10) == []
    assert desk.steward.awaited == (3,)
    desk.change(desk.lose(3), t=10)
    assert desk.begin.until == 20


def test_a_stop_waits_for_who_is_to_come_and_they_wait_for_it():
    desk = Desk(PATH, stops=(10, 20), arrivals={10: (7,), 20: (7, 8)}).running()
    assert desk.tell(7, m.Request("join", "", (0,))) == []  # it is early
    effects = desk.report(10)
    committed, _ = desk.change(effects, t=10)
    assert committed.arrival.node == 7
    assert desk.begin.until == 20
    desk.change(desk.tell(7, m.LeaveRequest()), t=15)
    assert desk.report(20) == []
    assert desk.steward.awaited == (7, 8)
    desk.tell(8, m.Request("join", "", (0,)))
    effects = desk.tell(7, m.Request("return", "", (0,), incarnation=1))
    committed, after = desk.change(effects, t=20)
    assert (committed.arrival.node, desk.begin.until) == (7, 20)
    effects = desk.report(20)
    committed, _ = desk.change(effects, t=20)
    assert committed.arrival.node == 8
    assert desk.report(20) == [Finished(20)]
    assert after == []


def test_who_dies_before_it_could_ask_is_not_waited_for():
    desk = Desk(PATH, stops=(10, 20), arrivals={10: (7,), 20: (7,)}).running()
    assert desk.report(10) == []
    assert desk.steward.awaited == (7,)
    assert sent(desk.lose(7), m.Halt)  # every node goes on
    assert desk.steward.awaited == ()
    # The next time it is expected again, in another incarnation.
    desk.tell(7, m.Request("join", "", (0,), incarnation=1))
    assert desk.steward.awaited == ()


def test_who_comes_without_an_appointment_need_not_wait():
    desk = Desk(PATH, stops=(10, 20), arrivals={20: (7,)}).running()
    assert sent(desk.tell(8, m.Request("join", "", (0,))), m.Halt)


def test_a_change_at_a_stop_that_leaves_work_goes_on_at_that_stop():
    desk = Desk(RING, stops=(10, 20), adaptive=True, arrivals={10: (9,)}).running()
    desk.tell(9, m.Request("join", "", (0,)))
    effects = desk.report(10, leaving=(2,))
    committed, _ = desk.change(effects, t=10, leaving=(2,), stiffness={1: 1e6}, lineage={1: (2,)})
    assert desk.begin.until == 10
    assert committed.step is None  # it can wait: more is to change before the next round
    committed, _ = desk.change(desk.report(10), t=10, stiffness={1: 1e6})
    assert (committed.arrival.node, desk.begin.until) == (9, 20)
    assert committed.step is not None


# --- the step -----------------------------------------------------------------------------------


def test_a_chosen_step_is_lowered_where_an_heir_becomes_too_stiff():
    assert away(adaptive=True).begin.pace == 0.1  # safe enough
    desk = Desk(PATH, adaptive=True).running()
    committed, _ = desk.change(
        desk.tell(2, m.LeaveRequest()), lineage={1: (2,)}, stiffness={1: 100.0}
    )
    assert committed.step.value == desk.begin.pace == desk.steward.pace
    assert committed.step.value == pytest.approx(0.5 * 2 / 100)
    assert "node 1" in committed.step.why


def test_a_given_step_stays():
    desk = Desk(PATH, adaptive=False).running()
    committed, _ = desk.change(desk.tell(2, m.LeaveRequest()), stiffness={1: 100.0})
    assert (committed.step, desk.begin.pace) == (None, 0.1)


# --- once is enough -----------------------------------------------------------------------------


def test_a_copy_of_the_report_for_an_epoch_is_not_taken_for_the_end_of_it():
    """Both name that epoch."""
    desk = Desk(PATH).running()
    effects = desk.prepare(desk.stop(desk.tell(2, m.LeaveRequest())), lineage={1: (2,)})
    copies = {node: m.Halted(2, 5, (), (), leaving=False) for node in (0, 1)}
    for phase in (Phase.BEGINNING, Phase.RUNNING):
        assert desk.steward.phase is phase
        for node, copy in copies.items():
            assert dropped(desk.tell(node, copy)).startswith("late")
        desk.begun(effects)
    assert desk.report(10)  # the end
    assert desk.steward.phase is Phase.FINISHED


def test_a_copy_of_the_report_for_an_epoch_without_rounds_is_harmless():
    """It cannot be told from the end of it, unless it is about those who have left."""
    desk = Desk(PATH).running()
    effects = desk.stop(desk.report(10, leaving=(2,)), t=10, leaving=(2,))
    effects = desk.prepare(effects, lineage={1: (2,)})
    assert desk.begin.until == 10
    copy = m.Halted(2, 10, (), ((2, 4, (2,)),), leaving=False)
    assert dropped(desk.tell(1, copy)).startswith("late")
    assert desk.tell(0, m.Halted(2, 10, (), (), leaving=False)) == []
    desk.begun(effects)
    desk.report(10)
    assert desk.steward.phase is Phase.FINISHED


def test_everything_may_come_twice():
    """A departure, a loss and a return in which every message is delivered twice."""

    class Twice(Desk):
        def tell(self, sender, message):
            effects = super().tell(sender, message)
            phase, change = self.steward.phase, self.steward._change
            draft = change and change.draft
            again = super().tell(sender, message)
            assert all(isinstance(effect, Dropped) for effect in again)
            assert self.steward.phase is phase
            assert self.steward._change is change
            assert (change and change.draft) is draft
            return effects

        def lose(self, node, incarnation=0):
            effects = super().lose(node, incarnation)
            assert super().lose(node, incarnation) == []
            return effects

    desk = Twice(RING).running()
    desk.change(desk.tell(2, m.LeaveRequest()), lineage={1: (2,)})
    desk.change(desk.lose(0), lineage={})
    effects = desk.tell(2, m.Request("return", "", (1,), incarnation=1))
    committed, after = desk.change(effects, lineage={1: ()})
    assert committed.members == (1, 2, 3)
    assert after == []
    assert desk.report(10) == [Finished(10)]


# --- taking over from another steward -----------------------------------------------------------


def situation(desk, node, *, begun, ready=None, incarnation=0, halted=None, newest=None, **fields):
    """What a node says that has begun an epoch (as (Arrange, Begin)), and is ready for another."""
    present, begin = begun if begun is not None else (None, None)
    return m.Situation(
        present,
        begin,
        ready,
        desk.steward._newest if newest is None else newest,
        halted or m.Halted(0, 0, (), (), leaving=False),
        f"host of {node}",
        incarnation=incarnation,
        **fields,
    )


class Successor(Desk):
    """Another steward with the same charter."""

    def __init__(self, desk, processes, *, term=0):
        super().__init__(hosts=desk.hosts)
        self.charter = desk.charter
        self.steward = Steward(desk.charter, desk.hosts, term)
        self.begin = desk.begin
        incarnations = processes if isinstance(processes, dict) else dict.fromkeys(processes, 0)
        effects = self.note(self.steward.handle(TakeOver(incarnations)))
        if processes:
            assert self.steward.phase is Phase.ASKING
            assert sent(effects, m.Inquiry) == {tuple(sorted(processes)): m.Inquiry(term=term)}
        self.effects = effects

    def hear(self, situations):
        said = []
        for node, told in situations.items():
            said += self.tell(node, told)
        return said


def all_begun(desk):
    members = dict(desk.begin.roster)
    return {
        node: situation(desk, node, begun=(desk.arranged[node], desk.begin)) for node in members
    }


def test_in_the_midst_of_an_epoch_everybody_is_stopped_and_set_going_again():
    desk = Desk(RING).running()
    other = Successor(desk, (0, 1, 2, 3))
    effects = other.hear(all_begun(desk))
    assert sent(effects, m.Halt) == {(0, 1, 2, 3): m.Halt(2, 1)}
    assert other.steward.present.network == desk.steward.present.network
    assert other.steward.present.buddies == desk.steward.present.buddies
    committed, after = other.change(effects)
    assert (committed.epoch, committed.round, committed.members) == (2, 5, (0, 1, 2, 3))
    assert not committed.restart
    assert after == []
    assert other.begin.until == 10


def test_what_it_has_to_know_of_the_past_is_in_everybodys_begin():
    desk = Desk(PATH, buddies=0, adaptive=True).running()
    desk.change(desk.lose(2))
    desk.change(desk.tell(9, m.Request("join", "", (0,))), stiffness={0: 50.0})
    other = Successor(desk, (0, 1, 9))
    other.hear(all_begun(desk))
    steward = other.steward
    assert (steward.register.lost, steward.pace, steward.present.number) == (
        {2},
        desk.steward.pace,
        3,
    )
    assert steward.pace < 0.1
    assert steward.present.lineage == {0: (), 1: (), 9: ()}
    assert steward.register.hosts[9] == "host of 9"


@pytest.mark.parametrize("phase", ["halting", "arranging", "ready"])
def test_an_attempt_that_was_not_committed_is_abandoned(phase):
    desk = Desk(PATH).running()
    first = dict(desk.arranged)
    begin = desk.begin
    effects = desk.tell(2, m.LeaveRequest())
    if phase != "halting":
        effects = desk.stop(effects)
        desk.tell(2, m.Ready(2, 0.0, ()))
    other = Successor(desk, (0, 1, 2))
    told = {
        node: situation(
            desk,
            node,
            begun=(first[node], begin),
            ready=desk.arranged[node] if phase == "ready" else None,
            halted=m.Halted(2, 5, (), (), leaving=node == 2),
        )
        for node in (0, 1, 2)
    }
    effects = other.hear(told)
    assert sent(effects, m.Halt) == {(0, 1, 2): m.Halt(3, 1)}
    committed, _ = other.change(effects, leaving=(2,), lineage={1: (2,)})
    assert committed.handovers == (Handover(2, 1, ()),)


@pytest.mark.parametrize("behind", [(), (0,), (1,), (0, 1)])
def test_an_epoch_that_somebody_has_begun_is_begun_by_everybody(behind):
    """The steward died while it said Begin, or before it could dismiss the leaver."""
    desk = Desk(PATH).running()
    first, founding = dict(desk.arranged), desk.begin
    effects = desk.stop(desk.tell(2, m.LeaveRequest()))
    desk.prepare(effects, lineage={1: (2,)})
    told = {2: situation(desk, 2, begun=(first[2], founding), ready=desk.arranged[2])}
    for node in (0, 1):
        if node in behind:
            told[node] = situation(
                desk, node, begun=(first[node], founding), ready=desk.arranged[node]
            )
        else:
            told[node] = situation(desk, node, begun=(desk.arranged[node], desk.begin))
    other = Successor(desk, (0, 1, 2))
    effects = other.hear(told)
    if set(behind) == {0, 1}:  # then no node has, and the leaver is still there
        assert sent(effects, m.Halt) == {(0, 1, 2): m.Halt(3, 1)}
        return
    if behind:
        assert sent(effects, m.Begin) == {behind: desk.begin}
        assert other.steward.phase is Phase.BEGINNING
        effects = other.begun(effects)
    assert sent(effects, m.Dismiss) == {(2,): m.Dismiss(2)}
    assert sent(effects, m.Halt) == {(0, 1): m.Halt(3, 2)}
    assert other.steward.present.lineage == {0: (), 1: (2,)}


def test_who_does_not_answer_any_more_is_lost():
    desk = Desk(RING).running()
    told = all_begun(desk)
    other = Successor(desk, (0, 1, 2))
    del told[3]
    effects = other.hear(told)
    assert sent(effects, m.Halt) == {(0, 1, 2): m.Halt(2, 1)}
    committed, _ = other.change(effects, wards={0: ((3, 4, (3,)),)}, lineage={0: (3,)})
    assert committed.adoptions == (Adoption(3, 0, (), ()),)


def test_who_is_lost_while_it_asks_is_not_waited_for():
    desk = Desk(RING).running()
    told = all_begun(desk)
    other = Successor(desk, (0, 1, 2, 3))
    assert other.tell(3, told.pop(3)) == []
    assert other.lose(3) == []  # though it has answered
    other.tell(0, told[0])
    other.tell(1, told[1])
    effects = other.lose(2)
    assert sent(effects, m.Halt) == {(0, 1): m.Halt(2, 1)}
    assert other.steward.present.dead == {2, 3}


def test_edges_between_the_lost_that_nobody_can_tell_are_mended():
    """Of the path 0 - 1 - 2 - 3 the middle is lost: no node knows that 1 and 2 were neighbours."""
    desk = Desk(LONG, buddies=0).running()
    told = {node: all_begun(desk)[node] for node in (0, 3)}
    other = Successor(desk, (0, 3))
    committed, _ = other.change(other.hear(told))
    assert committed.adoptions == (
        Adoption(1, None, (1,), ()),
        Adoption(2, None, (2,), ((0, 3),)),
    )
    assert other.arranged[0].neighbours == (3,)


def test_who_was_taken_for_lost_before_is_told():
    desk = Desk(PATH).running()
    old = all_begun(desk)[2]
    desk.change(desk.lose(2))
    other = Successor(desk, (0, 1, 2))
    effects = other.hear({**{n: all_begun(desk)[n] for n in (0, 1)}, 2: old})
    assert sent(effects, m.Dismiss) == {(2,): m.Dismiss(2, excluded=True)}


def test_requests_survive_the_steward():
    desk = away()
    told = all_begun(desk)
    told[2] = situation(desk, 2, begun=None, purpose="return", known=(1,), incarnation=1, newest=0)
    told[9] = situation(desk, 9, begun=None, purpose="join", known=(0,), newest=0)
    other = Successor(desk, {0: 0, 1: 0, 2: 1, 9: 0})
    effects = other.hear(told)
    committed, effects = other.change(effects, lineage={1: ()})
    assert committed.arrival == Arrival("return", 2, 1, 1, (1,))
    committed, effects = other.change(effects)
    assert committed.arrival == Arrival("join", 9, None, 0, (0,))
    assert effects == []


def test_a_request_that_comes_while_it_asks_is_not_lost():
    desk = Desk(PATH).running()
    other = Successor(desk, (0, 1, 2))
    assert other.tell(9, m.Request("join", "", (0,))) == []
    assert other.tell(0, m.LeaveRequest()) == []
    assert dropped(other.tell(7, all_begun(desk)[0])) == "this cannot be right"
    committed, _ = other.change(other.hear(all_begun(desk)), leaving=(0,))
    assert [h.node for h in committed.handovers] == [0]


@pytest.mark.parametrize("begun", [True, False])
def test_an_arrival_whose_epoch_has_begun_is_a_member_in_its_new_life(begun):
    desk = away()
    members = dict(desk.arranged)
    before = desk.begin
    effects = desk.stop(desk.tell(2, m.Request("return", "", (1,), incarnation=1)))
    desk.prepare(effects, lineage={1: ()})
    told = {
        0: situation(desk, 0, begun=(desk.arranged[0], desk.begin)),
        1: situation(desk, 1, begun=(members[1], before), ready=desk.arranged[1]),
    }
    if begun:
        told[2] = situation(desk, 2, begun=(desk.arranged[2], desk.begin), incarnation=1)
    else:
        told[2] = situation(
            desk, 2, begun=None, ready=desk.arranged[2], purpose="return", incarnation=1
        )
    other = Successor(desk, {0: 0, 1: 0, 2: 1})
    effects = other.hear(told)
    assert sent(effects, m.Begin) == {(1,) if begun else (1, 2): desk.begin}
    committed, after = other.change(other.begun(effects))
    assert (committed.members, committed.arrival) == ((0, 1, 2), None)
    assert after == []
    # what concerns its present incarnation is understood, what concerns the earlier one is not
    assert dropped(other.tell(2, m.LeaveRequest(incarnation=0))).startswith("late")
    assert dropped(other.lose(2, incarnation=0)).startswith("late")
    effects = other.tell(2, m.LeaveRequest(incarnation=1))
    assert sent(effects, m.Halt)
    _, after = other.change(effects, lineage={1: (2,)})
    assert sent(after, m.Dismiss) == {(2,): m.Dismiss(5, incarnation=1)}


def test_somebody_who_has_been_forgotten_may_go():
    desk = away()
    effects = desk.stop(desk.tell(2, m.Request("forget", "", (), incarnation=1)))
    desk.prepare(effects, lineage={1: ()})
    told = all_begun(desk)
    told[2] = situation(
        desk, 2, begun=None, ready=desk.arranged[2], purpose="forget", incarnation=1
    )
    other = Successor(desk, {0: 0, 1: 0, 2: 1})
    effects = other.hear(told)
    assert sent(effects, m.Dismiss) == {(2,): m.Dismiss(3, incarnation=1)}


def test_appointments_that_were_kept_are_not_waited_for_again():
    desk = Desk(PATH, stops=(10, 20), arrivals={10: (7, 8, 9)}).running()
    desk.report(10)
    for node in (7, 8):
        desk.tell(node, m.Request("join", "", (0,)))
    effects = desk.tell(9, m.Request("join", "", (0,)))
    desk.change(effects, t=10)
    assert desk.begin.until == 10
    told = all_begun(desk)
    told[8] = situation(desk, 8, begun=None, purpose="join", known=(0,), newest=0)
    other = Successor(desk, (0, 1, 2, 7, 8))  # 9 has not asked yet, as far as any node knows
    committed, _ = other.change(other.hear(told), t=10)
    assert committed.arrival.node == 8
    assert other.report(10) == []
    assert other.steward.awaited == (9,)


@pytest.mark.parametrize("crossing", [False, True])
def test_who_asks_long_before_its_appointment_is_not_waited_for_by_another_steward(crossing):
    """Its request is for the first of its appointments that is still ahead."""
    arrivals = {10: (7,), 30: (7,), 40: (7,)}
    desk = Desk(PATH, stops=(10, 20, 30, 40), arrivals=arrivals).running()
    desk.tell(7, m.Request("join", "", (0,)))
    desk.change(desk.report(10), t=10)
    desk.change(desk.tell(7, m.LeaveRequest()), t=11)
    told = all_begun(desk)
    asking = situation(desk, 7, begun=None, purpose="return", known=(0,), newest=0, incarnation=1)
    processes = {0: 0, 1: 0, 2: 0}
    if crossing:  # it asks while the new steward does
        other = Successor(desk, processes)
        assert other.tell(7, m.Request("return", "", (0,), incarnation=1)) == []
    else:
        told[7] = asking
        other = Successor(desk, processes | {7: 1})
    other.change(other.hear(told), t=12)
    assert other.begin.until == 20
    committed, _ = other.change(other.report(20), t=20)
    assert (committed.arrival, other.begin.until) == (None, 30)
    effects = other.report(30)
    assert other.steward.awaited == ()
    committed, _ = other.change(effects, t=30)
    assert (committed.arrival.node, other.begin.until) == (7, 40)
    other.change(other.tell(7, m.LeaveRequest(incarnation=1)), t=31)
    assert other.report(40) == []
    assert other.steward.awaited == (7,)  # the next time it is expected again


def test_a_loss_of_an_earlier_life_keeps_its_appointment_for_another_steward():
    """Node 3 was lost at the stop as planned, and is back before the stop is over."""
    desk = Desk(RING, stops=(10, 20), crashes={10: (3,)}, arrivals={10: (9,)}).running()
    desk.report(10)
    desk.change(desk.lose(3), t=10)
    desk.report(10)
    assert desk.tell(3, m.Request("return", "", (0,), incarnation=1)) == []  # 9 is expected
    committed, _ = desk.change(desk.tell(9, m.Request("join", "", (0,))), t=10)
    assert (committed.arrival.node, desk.begin.until) == (3, 10)
    told = all_begun(desk)
    told[3] = dataclasses.replace(told[3], incarnation=1)
    told[9] = situation(desk, 9, begun=None, purpose="join", known=(0,), newest=0)
    other = Successor(desk, {0: 0, 1: 0, 2: 0, 3: 1, 9: 0})
    assert other.lose(3, incarnation=0) == []
    committed, _ = other.change(other.hear(told), t=10)
    assert committed.arrival.node == 9
    assert other.begin.until == 20


def test_the_leavers_of_an_epoch_whose_members_are_all_lost_go_on_from_the_one_before():
    """Node 1 had begun without them and died with the steward: they have not been dismissed."""
    desk = Desk(PATH, buddies=2).running()
    first, begin = dict(desk.arranged), desk.begin
    halt = desk.tell(0, m.LeaveRequest())
    desk.tell(2, m.LeaveRequest())
    desk.prepare(desk.stop(halt, leaving=(0, 2)), lineage={1: (0, 2)})
    told = {
        node: situation(desk, node, begun=(first[node], begin), ready=desk.arranged[node])
        for node in (0, 2)
    }
    other = Successor(desk, (0, 2))
    other.begin = begin
    other.lose(1)
    effects = other.hear(told)
    kept = {0: ((1, 4, (1,)),), 2: ((1, 4, (1,)),)}
    committed, after = other.change(effects, leaving=(0, 2), wards=kept, lineage={0: (1,)})
    assert (committed.members, committed.round, committed.lost) == ((0, 2), 5, ())
    assert (desk.steward.present.number, committed.follows) == (2, 1)  # the second is void
    assert sent(after, m.Halt)  # and one of them may leave now


def test_a_loss_that_was_expected_and_heard_of_is_not_waited_for():
    desk = Desk(RING, stops=(10, 20), crashes={10: (3,)}).running()
    told = all_begun(desk)
    del told[3]
    other = Successor(desk, (0, 1, 2))
    other.lose(3)
    other.change(other.hear(told), t=10)
    assert other.begin.until == 20


@pytest.mark.parametrize("dismissed", [True, False])
@pytest.mark.parametrize("held", [True, False])
def test_another_steward_does_not_wait_for_a_node_that_was_forgotten(held, dismissed):
    """Node 9 is still to come to the same stop; node 2, which was to be forgotten, has been."""
    desk = Desk(PATH, stops=(10, 20), arrivals={10: (2, 9)}, forgets={10: (2,)}).running()
    wards = {1: ((2, 4, (2,)),)} if held else {}
    desk.change(desk.lose(2), wards=wards, lineage={1: (2,) if held else ()})
    desk.report(10)
    forget = m.Request("forget", "", (), incarnation=1)
    desk.tell(9, m.Request("join", "", (0,)))
    committed, _ = desk.change(desk.tell(2, forget), t=10, lineage={1: ()})
    assert (committed.arrival.node, desk.begin.until) == (2, 10)
    told = all_begun(desk)
    told[9] = situation(desk, 9, begun=None, purpose="join", known=(0,), newest=0)
    if not dismissed:
        claim = desk.arranged[2]
        told[2] = situation(desk, 2, begun=None, ready=claim, purpose="forget", incarnation=1)
    other = Successor(desk, {node: told[node].incarnation for node in told})
    other.lose(2)
    committed, _ = other.change(other.hear(told), t=10)
    assert (committed.arrival.node, other.begin.until) == (9, 20)


def test_another_steward_waits_for_a_node_that_is_still_to_be_forgotten():
    desk = Desk(PATH, stops=(10, 20), arrivals={10: (2,)}, forgets={10: (2,)}).running()
    desk.change(desk.lose(2))
    other = Successor(desk, (0, 1))
    other.lose(2)
    other.change(other.hear(all_begun(desk)), t=10)
    assert other.report(10) == []
    assert other.steward.awaited == (2,)


def test_a_stop_that_was_left_behind_waits_for_no_loss():
    """No verdict has said that node 2 was lost, as planned, before it is back after the end."""
    desk = Desk(PATH, crashes={10: (2,)}).running()
    told = all_begun(desk)
    del told[2]
    other = Successor(desk, (0, 1))
    other.change(other.hear(told), t=10)
    assert other.report(10) == [Finished(10)]
    back = other.tell(2, m.Request("return", "", (1,), incarnation=1))
    committed, _ = other.change(back, t=10)
    assert committed.members == (0, 1, 2)
    assert other.report(10) == [Finished(10)]
    assert dropped(other.lose(2, incarnation=0)).startswith("late")


def test_after_the_end_another_steward_ends_it_again():
    desk = Desk(PATH).running()
    desk.report(10)
    other = Successor(desk, (0, 1, 2))
    other.change(other.hear(all_begun(desk)), t=10)
    assert other.begin.until == 10
    assert other.report(10) == [Finished(10)]


def test_nobody_is_left_to_be_asked():
    other = Successor(Desk(PATH).running(), ())
    assert other.effects == [Finished(0)]
    assert other.steward.phase is Phase.FINISHED


def test_the_last_one_is_lost_while_it_is_asked():
    other = Successor(Desk(PAIR).running(), (0,))
    assert only(other.lose(0), Finished) == Finished(0)


def test_if_nothing_has_begun_the_network_is_founded_anew():
    desk = Desk(PATH)
    desk.found()
    desk.tell(0, m.Ready(1, 1.0, ()))
    other = Successor(desk, (0, 1, 2))
    told = {
        0: situation(desk, 0, begun=None, ready=desk.arranged[0]),
        1: situation(desk, 1, begun=None, newest=0),
        2: situation(desk, 2, begun=None),
    }
    effects = other.hear(told)
    assert {a.epoch for a in sent(effects, m.Arrange).values()} == {2}
    assert sent(effects, m.Arrange).keys() == {(0,), (1,), (2,)}


def test_a_node_that_asks_before_the_network_is_founded_anew_is_not_awaited_at_its_stop():
    """It has an appointment, and has come too early: nothing more will be heard of it."""
    desk = Desk(PATH, stops=(10, 20), arrivals={10: (9,)})
    desk.found()
    other = Successor(desk, (0, 1, 2, 9))
    told = {n: situation(desk, n, begun=None) for n in (0, 1, 2)}
    told[9] = situation(desk, 9, begun=None, purpose="join", known=(1,))
    other.begun(other.prepare(other.hear(told)))
    effects = other.report(10)
    assert other.steward.awaited == ()
    committed = only(other.prepare(other.stop(effects, 10)), Committed)
    assert committed.arrival.node == 9


def test_founders_that_are_not_there_are_lost_and_those_who_come_back_are_founders():
    desk = Desk(LONG)
    desk.found()
    other = Successor(desk, {0: 0, 2: 1, 9: 0})
    told = {
        0: situation(desk, 0, begun=None),
        2: situation(desk, 2, begun=None, purpose="return", incarnation=1),
        9: situation(desk, 9, begun=None, purpose="join"),
    }
    effects = other.hear(told)
    assert sent(effects, m.Arrange).keys() == {(0,), (2,)}
    effects = other.prepare(effects)
    committed = only(effects, Committed)
    assert (committed.members, committed.lost) == ((0, 2), (1, 3))
    effects = other.begun(effects)
    committed, _ = other.change(effects)
    assert committed.arrival.node == 9
    assert dropped(other.tell(2, m.LeaveRequest(incarnation=0))).startswith("late")
    assert sent(other.tell(2, m.LeaveRequest(incarnation=1)), m.Halt)


def test_who_only_wants_to_come_back_has_nobody_to_come_back_to():
    desk = Desk(PATH).running()
    other = Successor(desk, (2,))
    told = situation(desk, 2, begun=None, purpose="return", incarnation=1)
    assert only(other.tell(2, told), Finished) == Finished(0)
    assert other.steward.phase is Phase.FINISHED


def test_who_came_back_before_anything_had_begun_is_a_founder_to_every_steward():
    """Node 0 was to found the network with it, had begun, and died with the second steward."""
    desk = Desk(PATH)
    desk.found()
    second = Successor(desk, {0: 0, 2: 1}, term=1)
    told = {
        0: situation(desk, 0, begun=None),
        2: situation(desk, 2, begun=None, purpose="return", known=(1,), incarnation=1),
    }
    second.prepare(second.hear(told))
    third = Successor(second, {2: 1}, term=2)
    ready = second.arranged[2]
    answer = situation(
        second, 2, begun=None, ready=ready, purpose="return", known=(1,), incarnation=1
    )
    committed = only(third.prepare(third.tell(2, answer)), Committed)
    assert (committed.members, committed.lost) == ((2,), (0, 1))


def test_a_planned_loss_that_is_heard_of_late_ends_the_stop_that_waited_for_it():
    """Another steward found node 2 gone, and it is back when the verdict on it arrives."""
    desk = Desk(PATH, crashes={5: (2,)}, arrivals={5: (2,)}, stops=(5, 10)).running()
    told = all_begun(desk)
    other = Successor(desk, (0, 1), term=1)
    other.change(other.hear({node: told[node] for node in (0, 1)}))
    for node in (0, 1):
        other.tell(node, m.Halted(other.steward.present.number, 5, (), (), leaving=False))
    other.change(other.tell(2, m.Request("return", "", (1,), incarnation=1)))
    for node in (0, 1, 2):
        other.tell(node, m.Halted(other.steward.present.number, 5, (), (), leaving=False))
    assert other.steward.awaited == (2,)
    assert sent(other.lose(2, incarnation=0), m.Halt)
    assert other.steward.awaited == ()


def test_the_first_change_of_another_steward_says_which_step_counts():
    """The record may know of a step whose epoch died with all of its members."""
    desk = Desk(PATH).running()
    other = Successor(desk, (0, 1, 2), term=1)
    committed, _ = other.change(other.hear(all_begun(desk)))
    assert (committed.step.value, committed.step.since) == (desk.begin.pace, committed.round)
    committed, _ = other.change(other.tell(0, m.LeaveRequest()), lineage={1: (0,)})
    assert committed.step is None


def test_it_can_be_replaced_again_and_again():
    desk = Desk(PATH).running()
    for epoch in (2, 3, 4):
        other = Successor(desk, (0, 1, 2))
        committed, _ = other.change(other.hear(all_begun(desk)))
        assert committed.epoch == epoch
        desk = other


@pytest.mark.parametrize("answered", [True, False])
def test_a_node_outside_that_is_declared_lost_while_it_asks_is_told(answered):
    desk = Desk(PATH).running()
    other = Successor(desk, (0, 1, 2, 9))
    asks = situation(desk, 9, begun=None, purpose="join", known=(0,), newest=0)
    if answered:
        assert other.tell(9, asks) == []
        assert other.lose(9) == []
    else:
        assert other.lose(9) == []
        late = sent(other.tell(9, asks), m.Dismiss)
        assert late == {(9,): m.Dismiss(0, excluded=True)}
    effects = other.hear(all_begun(desk))
    assert sent(effects, m.Dismiss) == {(9,): m.Dismiss(1, excluded=True)}
    committed, after = other.change(effects)
    assert (committed.arrival, after) == (None, [])


def test_a_leaver_that_is_declared_lost_while_it_asks_is_told():
    """It has handed over and is in no epoch: no other change will be about it."""
    desk = Desk(PATH).running()
    begun = desk.arranged[2], desk.begin
    desk.change(desk.tell(2, m.LeaveRequest()), lineage={1: (2,)})
    waits = situation(desk, 2, begun=begun, ready=desk.arranged[2])
    other = Successor(desk, (0, 1, 2))  # the word that 2 may go is lost
    assert other.tell(2, waits) == []
    assert other.lose(2) == []
    effects = other.hear(all_begun(desk))
    assert sent(effects, m.Dismiss) == {(2,): m.Dismiss(2, excluded=True)}
    assert sent(effects, m.Halt) == {(0, 1): m.Halt(3, 2)}


def test_a_newcomer_that_is_declared_lost_before_the_network_is_founded_anew_is_told():
    desk = Desk(PATH)
    desk.found()
    other = Successor(desk, (0, 1, 9))
    assert other.lose(9) == []
    effects = other.hear({n: situation(desk, n, begun=None) for n in (0, 1)})
    assert sent(effects, m.Dismiss) == {(9,): m.Dismiss(0, excluded=True)}
    assert sent(effects, m.Arrange).keys() == {(0,), (1,)}


# --- one steward after the other ----------------------------------------------------------------


def terms(desk):
    return {type(message): message.term for _, message in desk.sent}


def test_every_order_says_from_which_steward_it_comes():
    desk = Desk(PATH).running()
    first, founding = dict(desk.arranged), desk.begin
    effects = desk.stop(desk.tell(2, m.LeaveRequest()))
    desk.prepare(effects, lineage={1: (2,)})
    assert set(terms(desk).values()) == {0}
    other = Successor(desk, (0, 1, 2), term=3)
    told = {
        0: situation(desk, 0, begun=(first[0], founding), ready=desk.arranged[0]),
        1: situation(desk, 1, begun=(desk.arranged[1], desk.begin)),
        2: situation(desk, 2, begun=(first[2], founding), ready=desk.arranged[2]),
    }
    effects = other.hear(told)
    assert effects == [Send((0,), dataclasses.replace(desk.begin, term=3))]
    effects = other.begun(effects)
    assert sent(effects, m.Dismiss) == {(2,): m.Dismiss(2, term=3)}
    advance = other.stop(effects, rounds={0: 5, 1: 6})
    number = 3 << 20  # no number that an earlier steward can have used
    assert sent(advance, m.Advance) == {(0,): m.Advance(number, 6, term=3)}
    effects = other.prepare(other.stop(advance, 6))
    assert only(effects, Committed).epoch == number  # facts are no node's orders
    assert {message.term for _, message in other.sent} == {3}
    assert terms(other).keys() == set(FROM_THE_STEWARD)


def test_a_later_steward_that_founds_anew_says_so_too():
    desk = Desk(PATH, term=1)
    assert {a.term for a in sent(desk.found(), m.Arrange).values()} == {1}
    assert desk.begun(desk.prepare(desk.lose(2)))
    assert {message.term for _, message in desk.sent} == {1}
    other = Successor(Desk(PATH), (0, 1, 2), term=2)
    effects = other.hear({n: situation(desk, n, begun=None) for n in (0, 1, 2)})
    assert [a.term for a in sent(effects, m.Arrange).values()] == [2, 2, 2]


# --- verdicts, requests and answers that cross ---------------------------------------------------


def test_a_verdict_on_an_earlier_life_than_the_one_that_answered_is_late():
    desk = away_and_back()
    told = all_begun(desk)
    told[2] = dataclasses.replace(told[2], incarnation=1)
    other = Successor(desk, {0: 0, 1: 0, 2: 1})
    assert other.tell(2, told[2]) == []
    assert other.lose(2, incarnation=0) == []
    effects = other.hear({n: told[n] for n in (0, 1)})
    assert sent(effects, m.Halt) == {(0, 1, 2): m.Halt(4, 3)}
    assert other.steward.present.dead == set()
    assert other.steward.register.incarnations[2] == 1


@pytest.mark.parametrize("incarnation", [0, 1])
def test_a_verdict_while_it_asks_takes_back_the_requests_of_lives_that_are_over(incarnation):
    """It answered, died and came back; the verdict is on the first incarnation, or on both."""
    desk = Desk(PATH).running()
    told = all_begun(desk)
    other = Successor(desk, (0, 1, 2))
    assert other.tell(2, told[2]) == []
    assert other.tell(2, m.Request("return", "", (1,), incarnation=1)) == []
    assert other.lose(2, incarnation=incarnation) == []
    committed, after = other.change(other.hear({n: told[n] for n in (0, 1)}))
    assert [a.node for a in committed.adoptions] == [2]
    told = {(2,): m.Dismiss(2, excluded=True, incarnation=incarnation)}
    assert sent(after, m.Dismiss) == told  # the latest that is over
    assert bool(sent(after, m.Halt)) == (incarnation == 0)  # for the incarnation that asks
    if incarnation == 0:
        committed, after = other.change(after)
        assert (committed.arrival.node, other.steward.register.incarnations[2]) == (2, 1)


def test_a_node_that_asks_again_and_is_declared_lost_is_told():
    """It was not there when every node was asked, so that it never answers."""
    desk = Desk(PATH).running()
    other = Successor(desk, (0, 1, 2))
    assert other.tell(9, m.Request("join", "", (0,), incarnation=1)) == []
    assert other.lose(9, incarnation=0) == []  # not yet: that was another incarnation
    assert other.lose(9, incarnation=1) == []
    effects = other.hear(all_begun(desk))
    assert sent(effects, m.Dismiss) == {(9,): m.Dismiss(1, excluded=True, incarnation=1)}
    committed, after = other.change(effects)
    assert (committed.arrival, committed.members, after) == (None, (0, 1, 2), [])


@pytest.mark.parametrize("answered", ["before", "after"])
@pytest.mark.parametrize("begun", [True, False])
def test_who_asks_in_a_later_life_than_it_answered_in_has_died_since(answered, begun):
    desk = Desk(PATH).running()
    first, founding = dict(desk.arranged), desk.begin
    desk.prepare(desk.stop(desk.tell(9, m.Request("join", "", (0,)))))
    told = all_begun(desk)
    if not begun:  # the other steward died before 2 was told to begin
        told[2] = situation(desk, 2, begun=(first[2], founding), ready=desk.arranged[2])
    other = Successor(desk, (0, 1, 2, 9))
    asks = m.Request("return", "", (1,), incarnation=1)
    if answered == "after":
        assert other.tell(2, asks) == []
    late = sent(other.tell(2, told.pop(2)), m.Dismiss)
    assert late == ({(2,): m.Dismiss(0, excluded=True)} if answered == "after" else {})
    if answered == "before":
        assert other.tell(2, asks) == []
    effects = other.hear(told)
    assert effects == [Send((0, 1, 9), m.Halt(3, 2))]  # 2 is not told to begin anything
    assert other.steward.present.dead == {2}
    committed, after = other.change(effects)
    assert [a.node for a in committed.adoptions] == [2]
    assert sent(after, m.Dismiss) == {(2,): m.Dismiss(3, excluded=True, incarnation=0)}
    committed, after = other.change(after)
    assert (committed.arrival.purpose, committed.arrival.node) == ("return", 2)
    assert other.steward.register.incarnations[2] == 1
    assert after == []


@pytest.mark.parametrize("last", [True, False])
def test_a_founder_that_asks_in_a_later_life_than_it_answered_in_comes_back(last):
    """Nothing has begun: the others found the network, and it comes to them."""
    desk = Desk(PATH)
    desk.found()
    other = Successor(desk, (0, 1, 2))
    told = {n: situation(desk, n, begun=None) for n in (0, 1, 2)}
    asks = m.Request("return", "", (1,), incarnation=1)
    if last:  # it has not answered yet, and is the last that is waited for
        assert other.hear({n: told[n] for n in (0, 1)}) == []
        effects = other.tell(2, asks)
    else:
        assert other.tell(2, told[2]) == []
        assert other.tell(2, asks) == []
        effects = other.hear({n: told[n] for n in (0, 1)})
    assert sent(effects, m.Arrange).keys() == {(0,), (1,)}
    effects = other.begun(other.prepare(effects))
    committed, _ = other.change(effects)
    assert committed.arrival == Arrival("return", 2, None, 1, (1,))
    assert other.steward.register.incarnations[2] == 1


@pytest.mark.parametrize("asking", [True, False])
def test_an_answer_that_nobody_waits_for_counts_as_a_request(asking):
    desk = Desk(PATH).running()
    other = Successor(desk, (0, 1, 2))
    late = situation(desk, 9, begun=None, purpose="join", known=(0, 2), incarnation=3, newest=0)
    if asking:
        assert other.tell(9, late) == []
        effects = other.hear(all_begun(desk))
    else:
        other.change(other.hear(all_begun(desk)))
        effects = other.tell(9, late)
    assert sent(effects, m.Halt)
    assert other.steward.register.requests == {9: m.Request("join", "host of 9", (0, 2), 3)}
    again = other.tell(9, late)
    assert dropped(again).startswith("a duplicate")
    committed, _ = other.change(effects)
    assert committed.arrival == Arrival("join", 9, None, 0, (0, 2))
    assert other.arranged[9].incarnation == 3


@pytest.mark.parametrize("purpose", [None, "join"])
def test_an_answer_of_the_dead_is_no_request_and_should_they_live_they_are_told(purpose):
    desk = Desk(PATH).running()
    desk.lose(9, incarnation=3)
    for incarnation in (2, 3):
        late = situation(desk, 9, begun=None, purpose=purpose, incarnation=incarnation)
        assert desk.tell(9, late) == [
            Send((9,), m.Dismiss(1, excluded=True, incarnation=incarnation))
        ]
    assert desk.steward.register.requests == {}


def test_an_answer_of_a_member_that_nobody_waits_for_is_dropped():
    desk = Desk(PATH).running()
    other = Successor(desk, (0, 1, 2))
    other.tell(0, all_begun(desk)[0])
    assert dropped(other.tell(0, all_begun(desk)[0])) == "it was not asked"
    other.hear({n: all_begun(desk)[n] for n in (1, 2)})
    assert dropped(other.tell(1, all_begun(desk)[1])) == "it was not asked"


def test_a_request_of_a_later_life_outlives_the_answer_of_the_earlier_one():
    desk = Desk(PATH).running()
    other = Successor(desk, (0, 1, 2, 9))
    asks = situation(desk, 9, begun=None, purpose="join", known=(0,), newest=0)
    assert other.tell(9, asks) == []
    assert other.tell(9, m.Request("join", "", (0,), incarnation=1)) == []
    effects = other.hear(all_begun(desk))
    assert other.lose(9) == []  # of incarnation 0: it concerns no node any more
    committed, _ = other.change(effects)
    assert committed.arrival == Arrival("join", 9, None, 0, (0,))
    assert other.steward.register.incarnations[9] == 1


def test_a_late_verdict_about_an_earlier_life_spares_nobody_the_answer():
    desk = Desk(PATH).running()
    told = all_begun(desk)
    told[2] = situation(desk, 2, begun=(desk.arranged[2], desk.begin), incarnation=1)
    other = Successor(desk, {0: 0, 1: 0, 2: 1})
    assert other.lose(2) == []  # of incarnation 0, while incarnation 1 is asked
    effects = other.hear(told)
    assert sent(effects, m.Halt) == {(0, 1, 2): m.Halt(2, 1)}
    assert other.steward.register.incarnations[2] == 1


def test_an_answer_of_an_earlier_life_is_no_answer_of_the_one_that_is_asked():
    """It answered the steward before, died and came back; that answer is the first to arrive."""
    desk = Desk(PATH).running()
    told = all_begun(desk)
    other = Successor(desk, {0: 0, 1: 0, 2: 1})
    assert dropped(other.tell(2, told.pop(2))) == "late: of an earlier incarnation"
    assert other.hear(told) == []
    asks = situation(desk, 2, begun=None, purpose="return", known=(1,), incarnation=1, newest=0)
    effects = other.tell(2, asks)
    assert sent(effects, m.Halt) == {(0, 1): m.Halt(2, 1)}
    assert other.steward.present.dead == {2}
    _, after = other.change(effects)
    committed, _ = other.change(after)
    assert (committed.arrival.node, other.steward.register.incarnations[2]) == (2, 1)


def test_a_member_that_answers_when_it_has_been_given_up_is_told():
    desk = Desk(PATH).running()
    told = all_begun(desk)
    other = Successor(desk, (0, 1))
    other.hear({node: told[node] for node in (0, 1)})
    late = situation(desk, 2, begun=(desk.arranged[2], desk.begin), incarnation=1)
    effects = other.tell(2, late)
    assert sent(effects, m.Dismiss) == {(2,): m.Dismiss(1, excluded=True, incarnation=1)}
