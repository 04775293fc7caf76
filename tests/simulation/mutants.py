"""Bugs on purpose: each one is something that a protocol like this gets wrong in the field.

A checker that does not find them proves nothing about a run without violations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bequest.core import topology
from bequest.core.legacy import Legacy
from bequest.core.recall import Balance
from bequest.engines.runtime.ledger import Ledger
from bequest.model import pseudo_samples
from bequest.model.objectives.minibatches import Draws
from bequest.protocol import drafting
from bequest.protocol import messages as m
from bequest.protocol.change import Change, Phase
from bequest.protocol.charter import Agenda
from bequest.protocol.drafting import Draft
from bequest.protocol.events import Recalled, Received, Send
from bequest.protocol.iterate import Iterate
from bequest.protocol.node import Node
from bequest.protocol.place import Place
from bequest.protocol.preparation import Preparation
from bequest.protocol.present_epoch import PresentEpoch
from bequest.protocol.states import State
from bequest.protocol.steward import Steward
from bequest.protocol.will_executor import WillExecutor

MUTANTS = {}


def mutant(apply):
    """Register ``apply(monkeypatch)`` under its name, in words."""
    MUTANTS[apply.__name__.replace("_", " ")] = apply
    return apply


def _after(patch, owner, name, change):
    """Let ``change(self, result, *args)`` alter what a method returns or has done."""
    original = getattr(owner, name)

    def altered(self, *args, **kwargs):
        return change(self, original(self, *args, **kwargs), *args)

    patch.setattr(owner, name, altered)


@mutant
def farewell_applied_twice(patch):
    def twice(self, effects):
        for farewell in self.farewells.values():
            self.inherited = self.inherited + farewell.legacy
        return effects

    _after(patch, Preparation, "take_over", twice)


@mutant
def surplus_dropped(patch):
    def drop(self, effects):
        self.surplus = np.zeros_like(self.surplus)
        return effects

    _after(patch, Preparation, "take_over", drop)


@mutant
def surplus_of_a_chain_dropped(patch):
    """A leaver that is an heir itself forgets to pass on the surplus it got."""

    original = Preparation._bequeath

    def bequeath(self, heir):
        self.surplus = np.zeros_like(self.surplus)
        return original(self, heir)

    patch.setattr(Preparation, "_bequeath", bequeath)


@mutant
def write_through_skipped(patch):
    original = Preparation._write_through

    def write_through(self):
        return [] if self._place is not None and self.inherits else original(self)

    patch.setattr(Preparation, "_write_through", write_through)


@mutant
def ready_before_kept(patch):
    def impatient(self, effects):
        self._unkept.clear()
        return effects

    _after(patch, Preparation, "_write_through", impatient)


@mutant
def wrong_epoch_accepted(patch):
    original = Node._on_exchange

    def on_exchange(self, sender, message):
        return original(self, sender, replace(message, epoch=self.epoch))

    patch.setattr(Node, "_on_exchange", on_exchange)


@mutant
def late_round_accepted(patch):
    original = Node._on_exchange

    def on_exchange(self, sender, message):
        if message.epoch == self.epoch and message.round == self.round:
            message = replace(message, round=self.round + 1)
        return original(self, sender, message)

    patch.setattr(Node, "_on_exchange", on_exchange)


@mutant
def abandoned_attempt_not_forgotten(patch):
    """What was prepared for an attempt that failed is kept, and begun with the next one."""

    def keep(self, effects, preparation):
        if preparation._is_complete and preparation.inherits:
            self.iterate.inherited = preparation.inherited
        return effects

    _after(patch, Node, "_prepare", keep)


@mutant
def staged_checkpoints_survive_a_halt(patch):
    original = Node._on_halt

    def on_halt(self, sender, message):
        staged = dict(self.kept.staged)
        effects = original(self, sender, message)
        self.kept.wards.update(staged)
        return effects

    patch.setattr(Node, "_on_halt", on_halt)


@mutant
def leaver_dismissed_too_early(patch):
    def early(self, effects, draft, node, message):
        leavers = [handover.node for handover in draft.handovers]
        dismissed = [Send((leaver,), m.Dismiss(draft.epoch)) for leaver in leavers]
        return [*dismissed, *effects] if node in leavers else effects

    _after(patch, Change, "ready", early)


@mutant
def surplus_of_the_lost_not_made_up_for(patch):
    def go_on(self, result, *args):
        self.settler = None

    _after(patch, Draft, "lose", go_on)


@mutant
def sum_behind_a_neighbour_left_out(patch):
    original = Preparation._settle

    def settle(self):
        if len(self._sums) > 1:
            del self._sums[max(self._sums)]
        return original(self)

    patch.setattr(Preparation, "_settle", settle)


@mutant
def sum_behind_a_neighbour_counted_twice(patch):
    original = Preparation._settle

    def settle(self):
        self._sums = {n: replace(s, surplus=2 * s.surplus) for n, s in self._sums.items()}
        return original(self)

    patch.setattr(Preparation, "_settle", settle)


@mutant
def surplus_summed_before_what_is_handed_over(patch):
    original = Preparation._settle

    def settle(self):
        before, self.surplus = self.surplus, self.surplus + self._iterate.g
        effects = original(self)
        self.surplus = self.surplus - self._iterate.g if self.arrange.sums_to else before
        return effects

    patch.setattr(Preparation, "_settle", settle)


@mutant
def memory_given_back_by_its_holder_alone(patch):
    original = Node._on_arrange

    def on_arrange(self, sender, message):
        if message.claim is not None:
            message = replace(message, gives_back=False)
        return original(self, sender, message)

    patch.setattr(Node, "_on_arrange", on_arrange)


@mutant
def adopted_by_every_holder(patch):
    original = Node._on_arrange

    def on_arrange(self, sender, message):
        if message.sums_from is not None:
            dead = tuple(n for n in self.kept.wards if n not in message.wards)
            message = replace(message, adopted=tuple(sorted({*message.adopted, *dead})))
        return original(self, sender, message)

    patch.setattr(Node, "_on_arrange", on_arrange)


@mutant
def inherited_not_in_the_checkpoint(patch):
    def bare(self, effects):
        return [
            Send(e.to, replace(e.message, inherited=Legacy.zero(self.surplus.size)))
            if isinstance(e, Send) and isinstance(e.message, m.Checkpoint)
            else e
            for e in effects
        ]

    _after(patch, Preparation, "_write_through", bare)


@mutant
def returned_without_withdrawal(patch):
    def unclaimed(self, result, node, request, lost):
        self.arrival = replace(self.arrival, holder=None)

    _after(patch, Draft, "admit", unclaimed)


@mutant
def withdrawal_not_written_through(patch):
    original = Preparation._write_through

    def write_through(self):
        if self.arrange.claimant is not None:
            self.arrange = replace(self.arrange, claimant=None)
        return original(self)

    patch.setattr(Preparation, "_write_through", write_through)


@mutant
def loss_not_named(patch):
    original = Change.commit

    def commit(self, draft, before):
        lost = set(self._register.lost)
        committed = original(self, draft, before)
        self._register.lost = lost
        return committed

    patch.setattr(Change, "commit", commit)


@mutant
def old_neighbours_not_told(patch):
    """After a departure the weights of those who lost a neighbour do not sum to one."""

    def careless(self, result, ident, arrange, begin, width):
        if arrange.epoch > 1 and len(self.weights) > 1:
            self.weights = self.weights * 0.9

    _after(patch, Place, "__init__", careless)


@mutant
def network_not_bridged(patch):
    def remove(network, leaver, *, hub):
        for node in network.pop(leaver):
            network[node].discard(leaver)
        return []

    patch.setattr(topology, "remove", remove)


@mutant
def buddies_put_on_one_host(patch):
    original = topology.choose_buddies

    def choose(network, node, *, count, domains=original.__kwdefaults__["domains"]):
        line = original(network, node, count=len(network), domains=domains)
        together = sorted(line, key=lambda other: domains(other) != domains(line[0]))
        return tuple(together[:count])

    patch.setattr(topology, "choose_buddies", choose)


@mutant
def numbers_used_twice(patch):
    """A new attempt reuses the number of the one that failed."""

    original = Steward._number

    def number(self):
        if self._newest > self.present.number and self.present.number:
            return self._newest
        return original(self)

    patch.setattr(Steward, "_number", number)


@mutant
def new_steward_begins_from_scratch(patch):
    def take_over(self, processes):
        self._newest = 1000
        self._charter = replace(
            self._charter,
            network={n: frozenset(o) for n, o in self._charter.network.items() if n in processes},
        )
        return self._found()

    patch.setattr(Steward, "_take_over", take_over)


@mutant
def last_checkpoint_wins_whatever_its_age(patch):
    """A late checkpoint of before an inheritance replaces the one written through."""

    original = Node._on_checkpoint

    def on_checkpoint(self, sender, message):
        wards = self.kept.wards
        if message.inherited is None and sender in wards:
            nothing = Legacy.zero(self.x.size)
            wards[sender] = replace(wards[sender], own=message.own, inherited=nothing)
            return []
        return original(self, sender, message)

    patch.setattr(Node, "_on_checkpoint", on_checkpoint)


@mutant
def ready_nodes_go_on_by_themselves(patch):
    """An heir counts what it prepared before every node has agreed."""

    def eager(self, effects, preparation):
        if self.state is State.READY and preparation.inherits and self.place is not None:
            self.iterate.inherited = preparation.inherited
        return effects

    _after(patch, Node, "_prepare", eager)


@mutant
def leave_requests_ignored(patch):
    patch.setattr(Steward, "_on_leave_request", lambda self, sender, message: [])
    patch.setattr(PresentEpoch, "leavers", lambda self, leaving: [])


@mutant
def leavers_never_dismissed(patch):
    original = Steward._on_begun

    def on_begun(self, sender, message):
        if self._change is not None:
            self._change.dismissed = []
        return original(self, sender, message)

    patch.setattr(Steward, "_on_begun", on_begun)


@mutant
def leaver_taken_for_lost_while_a_steward_asks_never_told(patch):
    """It is in no epoch, so that no change is about it."""
    original = Steward._recover

    def recover(self):
        self._recovery.dead &= {
            n for s in self._recovery.situations.values() if s.begun for n, _ in s.begun.roster
        }
        return original(self)

    patch.setattr(Steward, "_recover", recover)


@mutant
def answer_of_an_earlier_incarnation_held_against_the_next(patch):
    original = Steward._on_situation

    def on_situation(self, sender, message):
        asked = self._recovery.asked.get(sender, 0)
        late = self.phase is Phase.ASKING and message.incarnation < asked
        return self._blame(sender, message) if late else original(self, sender, message)

    patch.setattr(Steward, "_on_situation", on_situation)


@mutant
def founder_that_asks_again_taken_for_the_one_that_answered(patch):
    """Its request is forgotten, though the process that answered is dead."""
    original = Steward._on_lost

    def on_lost(self, node, incarnation):
        before = self._recovery.situations.get(node)
        effects = original(self, node, incarnation)
        if self.phase is Phase.ASKING and before is not None and before.begun is None:
            self._recovery.hear(node, before)
        return effects

    patch.setattr(Steward, "_on_lost", on_lost)


@mutant
def request_of_the_last_member_silences_what_its_loss_means(patch):
    """All that is said is that it cannot come back, and an excluded node goes on for ever."""

    def only_turned_away(self, effects, sender, message):
        if self.phase is not Phase.FINISHED or self.present.alive:
            return effects
        return [e for e in effects if isinstance(e, Send) and e.to == (sender,)]

    _after(patch, Steward, "_on_request", only_turned_away)


@mutant
def forget_requests_ignored(patch):
    original = Steward._on_request

    def on_request(self, sender, message):
        return [] if message.purpose == "forget" else original(self, sender, message)

    patch.setattr(Steward, "_on_request", on_request)


@mutant
def periodic_checkpoints_ignored(patch):
    original = Node._on_checkpoint

    def on_checkpoint(self, sender, message):
        return [] if message.inherited is None else original(self, sender, message)

    patch.setattr(Node, "_on_checkpoint", on_checkpoint)


@mutant
def checkpoint_of_an_epoch_that_is_void_held_against_its_sender(patch):
    original = Node._on_checkpoint

    def on_checkpoint(self, sender, message):
        if message.epoch < self.epoch and message.round > self.place.begin.until:
            return self._blame(Received(sender, message), "a checkpoint that cannot be right")
        return original(self, sender, message)

    patch.setattr(Node, "_on_checkpoint", on_checkpoint)


@mutant
def checkpoint_frozen_at_the_first(patch):
    patch.setattr(WillExecutor, "is_due", False)


@mutant
def skipped_checkpoints_not_made_up_for(patch):
    def is_due(self):
        return self.every is not None and self._iterate.round % self.every == 0

    patch.setattr(WillExecutor, "is_due", property(is_due))


@mutant
def lowered_step_ignored(patch):
    original = Node._on_begin

    def on_begin(self, sender, message):
        return original(self, sender, replace(message, pace=self.executor.setting.step))

    patch.setattr(Node, "_on_begin", on_begin)


@mutant
def heir_that_raises(patch):
    def fail(self, effects):
        if self.farewells:
            raise KeyError("no such legacy")
        return effects

    _after(patch, Preparation, "take_over", fail)


@mutant
def somebody_who_asks_again_is_not_arranged_anew(patch):
    patch.setattr(Change, "is_about", lambda self, node: False)


@mutant
def stalest_checkpoint_adopted(patch):
    def stalest(node, reports, buddies):
        held = {
            keeper: round_
            for keeper, report in reports.items()
            for ward, round_, _ in report.wards
            if ward == node
        }
        return min(held, key=lambda keeper: (held[keeper], keeper), default=None)

    patch.setattr(drafting, "_freshest", stalest)


@mutant
def moved_target_ignored(patch):
    """A node that predicted the optimum before a node joined goes on believing in it."""

    original = Node._on_begin

    def on_begin(self, sender, message):
        preparation = self.preparation
        preparation.arrange = replace(preparation.arrange, target_moves=False)
        return original(self, sender, message)

    patch.setattr(Node, "_on_begin", on_begin)


@mutant
def inherited_stiffness_not_reported(patch):
    def readiness(self):
        stiffness = self._iterate.objective.curvature.b
        return m.Ready(self.arrange.epoch, stiffness, tuple(self.inherited.lineage))

    patch.setattr(Preparation, "readiness", readiness)


@mutant
def constant_dropped_on_adoption(patch):
    def drop(self, effects):
        if self.arrange.adopted:
            self.inherited = replace(self.inherited, c=0.0)
        return effects

    _after(patch, Preparation, "take_over", drop)


@mutant
def checkpoint_decided_for_one_too_many(patch):
    original = WillExecutor.renew

    def renew(self, members):
        return original(self, members + 1)

    patch.setattr(WillExecutor, "renew", renew)


@mutant
def checkpoint_decided_from_the_tracker_after_a_hand_off(patch):
    original = WillExecutor.renew

    def renew(self, members):
        iterate = self._iterate
        tracked, iterate.tracked = iterate.tracked, iterate.z
        try:
            return original(self, members)
        finally:
            iterate.tracked = tracked

    patch.setattr(WillExecutor, "renew", renew)


@mutant
def what_cannot_happen_any_more_is_waited_for(patch):
    def expects(self, stop, members):
        return [*self.crashes.get(stop, ()), *self.arrivals.get(stop, ())]

    patch.setattr(Agenda, "expects", expects)


@mutant
def stop_that_was_left_behind_waits(patch):
    """Whose planned loss was heard of by no steward comes back after the end."""
    original = Agenda.expects

    def expects(self, stop, members):
        stops, self.stops = self.stops, [*self.stops, stop]
        try:
            return original(self, stop, members)
        finally:
            self.stops = stops

    patch.setattr(Agenda, "expects", expects)


@mutant
def forgotten_once_more_by_another_steward(patch):
    original = Agenda.resume

    def resume(self, stop, **known):
        original(self, stop, **known | {"known": range(99)})

    patch.setattr(Agenda, "resume", resume)


@mutant
def receipts_of_an_epoch_that_is_void_kept(patch):
    """All that have begun an epoch are dead, and a leaver goes on from the one before."""
    patch.setattr(Ledger, "go_back", lambda self, epoch: None)


@mutant
def appointments_ignored(patch):
    patch.setattr(Agenda, "appointment", lambda self, node: None)


@mutant
def recalled_though_doubted(patch):
    patch.setattr(Balance, "is_trusted", property(lambda self: self.strength > 0))


@mutant
def two_lost_nodes_recalled_as_one(patch):
    """What the others lack of both is taken for the memory of the first."""

    def confuse(self, result, dead, *args):
        if len(dead) > 1 and not any(a.adopter is not None for a in self.adoptions):
            first = self.adoptions[0]
            self.recalls = first.node
            self.adoptions[0] = replace(first, adopter=self.settler)

    _after(patch, Draft, "lose", confuse)


@mutant
def node_that_had_inherited_recalled(patch):
    """Its own slope and those that it has inherited cannot be told apart."""

    original = Draft.lose

    def lose(self, dead, reports, buddies, recallable):
        inside = {node: self.lineage.pop(node, ()) for node in dead}
        original(self, dead, reports, buddies, recallable)
        self.adoptions = [
            replace(a, lost=(a.node, *inside[a.node])) if a.node in inside else a
            for a in self.adoptions
        ]

    patch.setattr(Draft, "lose", lose)


@mutant
def recalled_with_the_wrong_sign(patch):
    def negate(self, legacy, node):
        return replace(legacy, p=-legacy.p)

    _after(patch, Balance, "recall", negate)


@mutant
def receipt_of_a_recall_lost(patch):
    original = Ledger._crashed

    def crashed(self, change, adoption):
        prepared = self._prepared.get((change.epoch, adoption.node))
        original(self, change, adoption)
        if isinstance(prepared, Recalled):
            self.receipts.pop(adoption.node, None)

    patch.setattr(Ledger, "_crashed", crashed)


@mutant
def pace_of_an_old_epoch_kept(patch):
    original = Node._on_begin

    def on_begin(self, sender, message):
        if self.place is not None:
            message = replace(message, pace=self.iterate.pace)
        return original(self, sender, message)

    patch.setattr(Node, "_on_begin", on_begin)


@mutant
def newcomer_decides_by_the_pace_of_when_it_asked(patch):
    original = Node._on_part

    def on_part(self, sender, message):
        if isinstance(message, m.Welcome):
            message = replace(message, pace=None)
        return original(self, sender, message)

    patch.setattr(Node, "_on_part", on_part)


@mutant
def own_weight_of_an_old_epoch_in_the_metric(patch):
    original = Iterate.settle

    def settle(self, pace, own_weight):
        first = vars(self).setdefault("first_weight", own_weight)
        original(self, pace, first)

    patch.setattr(Iterate, "settle", settle)


@mutant
def metric_of_an_heir_not_raised(patch):
    patch.setattr(Iterate, "stiffness", property(lambda self: self.objective.curvature.b))
    patch.setattr(Iterate, "bound", lambda self: self.objective.bound())


@mutant
def floor_of_the_metric_not_reported(patch):
    """The coupling is chosen as if every direction were as curved as the steepest one."""

    def readiness(self, ready):
        return replace(ready, floor=ready.stiffness)

    _after(patch, Preparation, "readiness", readiness)


@mutant
def averages_heard_as_differences(patch):
    def careless(self, result, *args):
        self._differences = False

    _after(patch, Place, "__init__", careless)


@mutant
def sum_of_an_earlier_attempt_accepted(patch):
    original = Node._on_part

    def on_part(self, sender, message):
        if isinstance(message, m.Imbalance):
            message = replace(message, epoch=max(message.epoch, self._attempt))
        return original(self, sender, message)

    patch.setattr(Node, "_on_part", on_part)


@mutant
def slope_given_back_without_its_gradient(patch):
    """A node that comes back begins as if no node had held anything of it."""

    original = Iterate.enter

    def enter(self, x, after, returned=None):
        original(self, x, after)

    patch.setattr(Iterate, "enter", enter)


@mutant
def samples_not_inherited(patch):
    """Of what a leaver hands over only the quadratic arrives."""

    def forget(self, effects):
        self.inherited = replace(self.inherited, samples=())
        return effects

    _after(patch, Preparation, "take_over", forget)


@mutant
def points_drawn_with_a_key_of_the_heir(patch):
    """Every holder of a memory draws other points from it."""

    def other(self, legacy):
        def draw(part):
            return pseudo_samples.evaluated(replace(part, key=(99, 99)), self.objective)

        blank = tuple(replace(part, loss=None) for part in legacy.samples)
        return replace(legacy, samples=blank).drawn_by(draw)

    patch.setattr(Iterate, "drawn", other)


@mutant
def withdrawn_samples_stay(patch):
    """What is taken back leaves its samples behind."""
    original = Legacy.without

    def without(self, part, *, at):
        return replace(original(self, part, at=at), samples=self.samples)

    patch.setattr(Legacy, "without", without)


@mutant
def samples_chosen_without_the_incarnation(patch):
    """A node that comes back takes the samples again that it took before."""

    def forget(self, result, *args):
        self._who = self._who[0], 0

    _after(patch, Iterate, "__init__", forget)


@mutant
def samples_of_the_round_before(patch):
    original = Iterate.gradient

    def gradient(self, x, t):
        return original(self, x, t - 1)

    patch.setattr(Iterate, "gradient", gradient)


@mutant
def samples_of_the_first_round_on_every_entry(patch):
    for kind in (Draws, *Draws.__subclasses__()):
        original = kind.enter

        def enter(self, x, after, original=original):
            return original(self, x, 0)

        patch.setattr(kind, "enter", enter)


@mutant
def gradient_evaluated_anew_at_a_hand_off(patch):
    """The tracker is moved along, so that the invariant holds."""
    original = Iterate.take_over

    def take_over(self, inherited, surplus, *, after, restart, fresh):
        if not fresh:
            anew = self.objective.gradient(self.x) + self.inherited.gradient(self.x)
            self.z, self.g = self.z + anew - self.g, anew
        original(self, inherited, surplus, after=after, restart=restart, fresh=fresh)

    patch.setattr(Iterate, "take_over", take_over)


@mutant
def surplus_by_a_gradient_that_was_not_used(patch):
    """A leaver hands over its tracker less the gradient on all samples."""
    original = Preparation._bequeath

    def bequeath(self, heir):
        iterate = self._iterate
        used = iterate.g
        iterate.g = iterate.objective.gradient(iterate.x) + iterate.inherited.gradient(iterate.x)
        try:
            return original(self, heir)
        finally:
            iterate.g = used

    patch.setattr(Preparation, "_bequeath", bequeath)


@mutant
def all_samples_taken_again_after_a_hand_off(patch):
    """What rounds correct is forgotten with the epoch in which it was computed."""

    def forget(self, result, *args):
        self._draws = None

    _after(patch, Iterate, "take_over", forget)
