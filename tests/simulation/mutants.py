"""Bugs on purpose: each one is something that a protocol like this gets wrong in the field.

A checker that does not find them proves nothing about a run without violations.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bequest.core import topology
from bequest.core.legacy import Legacy
from bequest.protocol import drafting
from bequest.protocol import messages as m
from bequest.protocol.charter import Agenda
from bequest.protocol.drafting import Draft
from bequest.protocol.events import Send
from bequest.protocol.node import Node
from bequest.protocol.preparation import Preparation
from bequest.protocol.states import State
from bequest.protocol.steward import Steward
from bequest.protocol.testament import Testament

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
    def twice(self, effects, wards, x):
        for farewell in self.farewells.values():
            self.inherited = self.inherited + farewell.legacy
        return effects

    _after(patch, Preparation, "take_over", twice)


@mutant
def surplus_dropped(patch):
    def drop(self, effects, wards, x):
        self.surplus = np.zeros_like(self.surplus)
        return effects

    _after(patch, Preparation, "take_over", drop)


@mutant
def surplus_of_a_chain_dropped(patch):
    """A leaver that is an heir itself forgets to pass on the surplus it got."""

    original = Node._bequeath

    def bequeath(self, preparation):
        preparation.surplus = np.zeros_like(preparation.surplus)
        return original(self, preparation)

    patch.setattr(Node, "_bequeath", bequeath)


@mutant
def write_through_skipped(patch):
    def skip(self, preparation):
        return self._finish_preparing(preparation)

    original = Node._write_through

    def write_through(self, preparation):
        if self._present is not None and preparation.inherits:
            return skip(self, preparation)
        return original(self, preparation)

    patch.setattr(Node, "_write_through", write_through)


@mutant
def ready_before_kept(patch):
    def impatient(self, effects, preparation):
        preparation.unkept.clear()
        return effects + self._finish_preparing(preparation)

    _after(patch, Node, "_write_through", impatient)


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

    def keep(self, effects):
        if self._preparation.sent and self._preparation.inherits:
            self.inherited = self._preparation.inherited
            self._carries = not self.inherited.is_zero
        return effects

    _after(patch, Node, "_prepare", keep)


@mutant
def staged_checkpoints_survive_a_halt(patch):
    original = Node._on_halt

    def on_halt(self, sender, message):
        staged = dict(self._vault.staged)
        effects = original(self, sender, message)
        self._vault.wards.update(staged)
        return effects

    patch.setattr(Node, "_on_halt", on_halt)


@mutant
def leaver_dismissed_too_early(patch):
    def early(self, effects, draft, message):
        handover = draft.handovers[-1]
        leavers = [h.node for h in draft.handovers]
        dismissed = [Send((node,), m.Dismiss(draft.epoch)) for node in leavers]
        return [*dismissed, *effects] if handover else effects

    _after(patch, Steward, "_leaver_is_ready", early)


@mutant
def trackers_not_restarted(patch):
    def go_on(self, result, dead, reports, buddies):
        self.restart = False

    _after(patch, Draft, "lose", go_on)


@mutant
def adopted_by_every_holder(patch):
    original = Node._on_arrange

    def on_arrange(self, sender, message):
        if message.restart:
            dead = tuple(n for n in self._vault.wards if n not in message.wards)
            message = replace(message, adopted=tuple(sorted({*message.adopted, *dead})))
        return original(self, sender, message)

    patch.setattr(Node, "_on_arrange", on_arrange)


@mutant
def inherited_not_in_the_checkpoint(patch):
    def bare(self, effects, preparation):
        return [
            Send(e.to, replace(e.message, inherited=Legacy.zero(self.x.size)))
            if isinstance(e, Send) and isinstance(e.message, m.Checkpoint)
            else e
            for e in effects
        ]

    _after(patch, Node, "_write_through", bare)


@mutant
def returned_without_withdrawal(patch):
    def unclaimed(self, result, node, request, lost):
        self.arrival = replace(self.arrival, holder=None)

    _after(patch, Draft, "admit", unclaimed)


@mutant
def withdrawal_not_written_through(patch):
    original = Node._write_through

    def write_through(self, preparation):
        if preparation.arrange.claimant is not None:
            preparation.arrange = replace(preparation.arrange, claimant=None)
        return original(self, preparation)

    patch.setattr(Node, "_write_through", write_through)


@mutant
def loss_not_named(patch):
    original = Steward._commit

    def commit(self, draft):
        before = set(self.lost)
        effects = original(self, draft)
        self.lost = before
        return [
            replace(e, lost=tuple(sorted(before))) if hasattr(e, "lost") else e for e in effects
        ]

    patch.setattr(Steward, "_commit", commit)


@mutant
def old_neighbours_not_told(patch):
    """After a departure the weights of those who lost a neighbour do not sum to one."""

    def careless(self, result, arrange):
        if arrange.epoch > 1 and len(self._weights) > 1:
            self._weights = self._weights * 0.9

    _after(patch, Node, "_settle", careless)


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

    def choose(network, node, *, count, domains):
        line = original(network, node, count=len(network), domains=domains)
        together = sorted(line, key=lambda other: domains(other) != domains(line[0]))
        return tuple(together[:count])

    patch.setattr(topology, "choose_buddies", choose)


@mutant
def numbers_used_twice(patch):
    """A new attempt reuses the number of the one that failed."""

    original = Steward._number

    def number(self):
        if self._newest > self.epoch and self.epoch:
            return self._newest
        return original(self)

    patch.setattr(Steward, "_number", number)


@mutant
def new_steward_begins_from_scratch(patch):
    def recover(self, processes):
        self._newest = 1000
        self._charter = replace(
            self._charter,
            network={n: frozenset(o) for n, o in self._charter.network.items() if n in processes},
        )
        return self.found()

    patch.setattr(Steward, "recover", recover)


@mutant
def last_checkpoint_wins_whatever_its_age(patch):
    """A late checkpoint of before an inheritance replaces the one written through."""

    original = Node._on_checkpoint

    def on_checkpoint(self, sender, message):
        wards = self._vault.wards
        if message.inherited is None and sender in wards:
            nothing = Legacy.zero(self.x.size)
            wards[sender] = replace(wards[sender], own=message.own, inherited=nothing)
            return []
        return original(self, sender, message)

    patch.setattr(Node, "_on_checkpoint", on_checkpoint)


@mutant
def ready_nodes_go_on_by_themselves(patch):
    """An heir counts what it prepared before everybody has agreed."""

    def eager(self, effects, preparation):
        if self.state is State.READY and preparation.inherits and self._present is not None:
            self.inherited = preparation.inherited
            self._carries = True
        return effects

    _after(patch, Node, "_finish_preparing", eager)


@mutant
def leave_requests_ignored(patch):
    patch.setattr(Steward, "_on_leave_request", lambda self, sender, message: [])
    patch.setattr(Steward, "_leavers", lambda self: [])


@mutant
def leavers_never_dismissed(patch):
    original = Steward._on_begun

    def on_begun(self, sender, message):
        self._dismissed = []
        return original(self, sender, message)

    patch.setattr(Steward, "_on_begun", on_begun)


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
def checkpoint_frozen_at_the_first(patch):
    patch.setattr(Testament, "is_due", lambda self, after: False)


@mutant
def skipped_checkpoints_not_made_up_for(patch):
    patch.setattr(
        Testament,
        "is_due",
        lambda self, after: self.every is not None and after % self.every == 0,
    )


@mutant
def lowered_step_ignored(patch):
    original = Node._on_begin

    def on_begin(self, sender, message):
        return original(self, sender, replace(message, step=self.setting.step))

    patch.setattr(Node, "_on_begin", on_begin)


@mutant
def heir_that_raises(patch):
    def fail(self, effects, wards, x):
        if self.farewells:
            raise KeyError("no such legacy")
        return effects

    _after(patch, Preparation, "take_over", fail)


@mutant
def somebody_who_asks_again_is_not_arranged_anew(patch):
    patch.setattr(Steward, "_is_arriving", lambda self, node: False)


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
    """Whoever predicted the optimum before somebody joined goes on believing in it."""

    original = Node._on_begin

    def on_begin(self, sender, message):
        preparation = self._preparation
        preparation.arrange = replace(preparation.arrange, target_moves=False)
        return original(self, sender, message)

    patch.setattr(Node, "_on_begin", on_begin)


@mutant
def inherited_stiffness_not_reported(patch):
    def ready(self, stiffness):
        return m.Ready(self.arrange.epoch, stiffness, tuple(self.inherited.lineage))

    patch.setattr(Preparation, "ready", ready)


@mutant
def constant_dropped_on_adoption(patch):
    def drop(self, effects, wards, x):
        if self.arrange.adopted:
            self.inherited = replace(self.inherited, c=0.0)
        return effects

    _after(patch, Preparation, "take_over", drop)


@mutant
def checkpoint_decided_for_one_too_many(patch):
    original = Testament.renew

    def renew(self, after, x, z, *, members, setting):
        return original(self, after, x, z, members=members + 1, setting=setting)

    patch.setattr(Testament, "renew", renew)


@mutant
def checkpoint_decided_from_the_tracker_after_a_hand_off(patch):
    def renew(self, members):
        return self._testament.renew(
            self.round, self.x, self.z, members=members, setting=self.setting
        )

    patch.setattr(Node, "_renew_checkpoint", renew)


@mutant
def what_cannot_happen_any_more_is_waited_for(patch):
    def expects(self, stop, members):
        return [*self.losses.get(stop, ()), *self.arrivals.get(stop, ())]

    patch.setattr(Agenda, "expects", expects)


@mutant
def appointments_ignored(patch):
    patch.setattr(Agenda, "appointment", lambda self, node: None)
