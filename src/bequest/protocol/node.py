"""The real node: events in, effects out.

It knows its own loss, its neighbours and the messages that have reached it, and nothing else. It
never touches a socket, a clock or a random number, so that the same node runs on a virtual
network, on a cluster, or in a test that feeds it one message at a time.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import frozen
from bequest.core.legacy import Legacy
from bequest.protocol import messages as m
from bequest.protocol.events import Began, Completed, Failed, Leave, Received, Send
from bequest.protocol.inbox import Inbox, is_sound
from bequest.protocol.listening import Listener
from bequest.protocol.preparation import Preparation
from bequest.protocol.scrutiny import has_place
from bequest.protocol.states import State
from bequest.protocol.testament import Testament
from bequest.protocol.vault import Vault

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.model.objectives.base import Objective
    from bequest.model.wills import Setting, Will
    from bequest.protocol.events import Checkpointed, Effect, Event
    from bequest.protocol.preparation import Part

# A neighbour can be this many rounds ahead, and no more: it needs our message to go on.
_AHEAD = 2


class Node(Listener):
    """One participant.

    Args:
        ident: its number.
        objective: its private loss.
        setting: what everybody knows; its step is replaced by that of every epoch.
        start: where it begins.
        will: what it bequeaths; without one it is forgotten.
        host: the host it is on, as "machine/host" where hosts share machines.
        checkpoint_every: how many rounds may pass between two checkpoints; None for none at all.
        purpose: what it wants, if it is not there from the start.
        known: whom it would then talk to.
        receipt: what is remembered of it, if it has left before.
        life: how often it has been there before.

    Attributes:
        state: where it is in the protocol.
        epoch: the epoch it is in.
        round: how many rounds it has completed.
        x, z, g: its iterate, its tracker and the gradient of what it minimises.
        inherited: what it remembers of others.
    """

    def __init__(
        self,
        ident: int,
        objective: Objective,
        *,
        setting: Setting,
        start: Vector,
        will: Will | None = None,
        host: str = "",
        checkpoint_every: int | None = None,
        purpose: m.Purpose | None = None,
        known: tuple[int, ...] = (),
        receipt: Legacy | None = None,
        life: int = 0,
    ) -> None:
        super().__init__(ident)
        self.objective, self.will, self.host = objective, will, host
        # What everybody knows; in studies with an oracle the engine tells when that changes.
        self.setting = setting
        self.purpose, self._known, self.life = purpose, known, life
        # Of somebody who was lost it may become known only now that it is back.
        self.receipt = receipt
        self.round = 0
        self.x: Vector = frozen(start)
        self.inherited, self._carries = Legacy.zero(self.x.size), False
        self.g: Vector = np.zeros_like(self.x)
        self.z: Vector = self.g
        # The tracker after the last round, whatever hand-offs have done to it since.
        self._tracked: Vector = self.z
        self._leave_after: int | None = None
        self._limit = 0
        self._present: m.Arrange | None = None
        self._begun: m.Begin | None = None
        self._preparation: Preparation | None = None
        self._vault = Vault()
        # Those in the present epoch, and those whom they remember.
        self._others: frozenset[int] = frozenset()
        self._row_of: dict[int, int] = {}
        self._step = setting.step
        self._testament = Testament(ident, objective, self.x, will, checkpoint_every)
        self._memory = self._testament.memory

    # --- events -------------------------------------------------------------------------------

    def apply(self) -> list[Effect]:
        """Ask the steward to be let in, to come back, or to be forgotten."""
        assert self.purpose is not None  # noqa: S101 - founding members are not asked
        return self._tell(m.Request(self.purpose, self.host, self._known, self.life))

    def handle(self, event: Event) -> list[Effect]:
        """Take in one event; return what is to be done about it."""
        try:
            if isinstance(event, Received):
                return self._receive(event)
            return self._on_leave(event)
        except Exception as error:  # noqa: BLE001 - a user's loss or will may raise anything
            self.state = State.GONE
            return [Failed(f"{type(error).__name__}: {error}")]

    def _on_leave(self, event: Event) -> list[Effect]:
        assert isinstance(event, Leave)  # noqa: S101 - verdicts go to the steward
        self._leave_after = event.after
        if self.state in (State.OUTSIDE, State.GONE) or not self.wants_to_leave:
            return []
        effects = self._tell(m.LeaveRequest(self.life))
        if self.state is State.PREPARING:
            effects += self._refuse()
        return effects

    def _refuse(self) -> list[Effect]:
        """Ask for another arrangement if this one makes an heir of a node that is leaving."""
        assert self._preparation is not None  # noqa: S101 - asked while preparing
        if not self._preparation.makes_an_heir or not self.wants_to_leave:
            return []
        return self._tell(m.Refused(self._preparation.arrange.epoch))

    @property
    def wants_to_leave(self) -> bool:
        """Whether it has been asked to go, by now."""
        return self._leave_after is not None and self.round >= self._leave_after

    # --- rounds -------------------------------------------------------------------------------

    def _on_exchange(self, sender: int, message: m.Exchange) -> list[Effect]:
        if message.epoch != self.epoch:
            return self._untimely(sender, message, message.epoch > self.epoch)
        row = self._row_of.get(sender)
        if row is None:
            return self._drop(Received(sender, message), "not a neighbour")
        ahead = message.round - self.round
        if ahead <= 0:
            return self._drop(Received(sender, message), "late: that round is over")
        if ahead > _AHEAD:
            return self._blame(Received(sender, message), f"round {message.round} is impossible")
        inbox = self._inboxes[message.round & 1]
        if inbox.arrived[row]:
            return self._drop(Received(sender, message), "a duplicate")
        payload = message.payload
        if payload.shape != self._payload_shape:
            return self._blame(Received(sender, message), f"a payload of shape {payload.shape}")
        inbox.rows[row] = payload
        inbox.arrived[row] = True
        inbox.missing -= 1
        if ahead == 1 and not inbox.missing and self.state is State.RUNNING:
            return self._advance()
        return []

    def _advance(self) -> list[Effect]:
        """Complete every round for which all messages are there."""
        effects: list[Effect] = []
        dim = self.x.size
        inbox = self._inboxes[(self.round + 1) & 1]
        while self.state is State.RUNNING and not inbox.missing:
            mixed = self._weights.dot(inbox.rows)
            x, z = mixed[:dim], mixed[dim:]
            g = self._gradient(x)
            z += g
            z -= self.g
            # One sum tells in almost every round that all is well.
            if not math.isfinite(mixed.dot(mixed)):
                if accusations := self._accuse(inbox):
                    return effects + accusations
                if not np.isfinite(g).all() and np.isfinite(x).all():
                    size = float(np.linalg.norm(x))
                    raise FloatingPointError(f"the gradient is not finite at |x| = {size:.3g}")
            if self._memory is not None:
                self._memory.note(x, z)
            self.x, self.z, self.g, self._tracked = x, z, g, z
            self.round += 1
            inbox.arrived = [False] * len(inbox.arrived)
            inbox.missing = len(self._talks_to)
            effects.append(Completed(self.round, x, z, g))
            if self._buddies and self._testament.is_due(self.round):
                effects.append(self._renew_checkpoint(self._members))
                checkpoint = m.Checkpoint(self.epoch, self.round, self._testament.own, None)
                effects.append(Send(self._buddies, checkpoint))
            if self.round == self._limit:
                effects += self._stop()
            else:
                effects.append(self._exchange())
                if self.round == self._leave_after:
                    effects += self._tell(m.LeaveRequest(self.life))
            inbox = self._inboxes[(self.round + 1) & 1]
        return effects

    def _accuse(self, inbox: Inbox) -> list[Effect]:
        """Blame whoever sent what is not a number."""
        finite = inbox.finite
        guilty = [node for node, row in self._row_of.items() if not finite[row]]
        why = f"what it sent for round {self.round + 1} is not finite"
        return [
            effect for node in guilty for effect in self._tell(m.Accusation(self.epoch, node, why))
        ]

    def _gradient(self, x: Vector) -> Vector:
        g = self.objective.gradient(x)
        return g + self.inherited.gradient(x) if self._carries else g

    def _exchange(self) -> Send:
        """Say where it goes from here: the message of the next round."""
        dim = self.x.size
        payload = np.empty(self._payload_shape)
        payload[:dim] = self.x - self._step * self.z
        payload[dim:] = self.z
        payload.setflags(write=False)
        inbox = self._inboxes[(self.round + 1) & 1]
        inbox.rows[self._own_row] = payload
        return Send(self._talks_to, m.Exchange(self.epoch, self.round + 1, payload))

    def _stop(self) -> list[Effect]:
        self.state = State.HALTED
        return self._tell(self._report())

    def _report(self) -> m.Halted:
        lineage, kept = tuple(self.inherited.lineage), self._vault.contents
        return m.Halted(self._attempt, self.round, lineage, kept, self.wants_to_leave)

    # --- the steward's orders -----------------------------------------------------------------

    def _on_halt(self, sender: int, message: m.Halt) -> list[Effect]:
        if message.current > self.epoch:
            return self._untimely(sender, message, early=True)
        if message.epoch <= self._attempt or message.current < self.epoch:
            return self._untimely(sender, message, early=False)
        self._attempt = message.epoch
        self._preparation, self._vault.staged = None, {}
        return self._stop() + self._catch_up()

    def _on_advance(self, sender: int, message: m.Advance) -> list[Effect]:
        if message.epoch != self._attempt:
            return self._untimely(sender, message, early=False)
        if not self._can_reach(message.round):
            return self._drop(Received(sender, message), "an order that cannot be right")
        self._limit = message.round
        if self.round >= self._limit:
            return self._stop()
        self.state = State.RUNNING
        return self._advance()

    def _on_arrange(self, sender: int, message: m.Arrange) -> list[Effect]:
        if message.life != self.life:
            return self._drop(Received(sender, message), "meant for another life")
        outside = self._present is None
        over = message.epoch < self._attempt or message.epoch == self.epoch
        if over or (not outside and message.epoch != self._attempt):
            return self._untimely(sender, message, early=False)
        if self._preparation is not None and self._preparation.arrange.epoch == message.epoch:
            return self._drop(Received(sender, message), "a duplicate")
        if not outside and not self._can_reach(message.round):
            return self._drop(Received(sender, message), "an order that cannot be right")
        if outside and message.epoch > self._attempt:
            self._attempt, self._vault.staged = message.epoch, {}
        preparation = Preparation(
            message, self.inherited, np.zeros_like(self.x), heard_of=self._others
        )
        self._preparation, self.state = preparation, State.PREPARING
        if refused := self._refuse():
            return refused
        effects = preparation.give(self.ident, self.x, self.receipt)
        return effects + self._prepare() + self._catch_up()

    def _can_reach(self, t: int) -> bool:
        """Whether the present epoch, in which the node is, can have come to that round."""
        assert self._begun is not None  # noqa: S101 - asked of members
        return self.round <= t <= self._begun.until

    def _on_begin(self, sender: int, message: m.Begin) -> list[Effect]:
        preparation = self._preparation
        assert preparation is not None  # noqa: S101 - a node that is ready has prepared something
        arrange = preparation.arrange
        if message.epoch != arrange.epoch or arrange.neighbours is None:
            return self._drop(Received(sender, message), "of another epoch")
        if not has_place(self.ident, arrange, message):
            return self._drop(Received(sender, message), "an order that cannot be right")
        fresh = self._present is None
        old_step, self._step = self._step, message.step
        push = preparation.surplus
        if self._carries or not preparation.inherited.is_zero:
            # The own loss is not asked again: a stochastic one would give another answer.
            change = preparation.inherited.gradient(self.x) - self.inherited.gradient(self.x)
            self.g, push = self.g + change, push + change
        self.inherited = preparation.inherited
        self._carries = not self.inherited.is_zero
        self.z = self.g.copy() if fresh or arrange.restart else self.z + push
        if fresh:
            self._tracked = self.z
        self.epoch, self.round = arrange.epoch, arrange.round
        self._present, self._begun, self._preparation = arrange, message, None
        self.setting = replace(self.setting, step=message.step)
        self._vault.begin(arrange.wards)
        named = (node for member, inside in message.roster for node in (member, *inside))
        self._others = frozenset(named) - {self.ident}
        self._settle(arrange)
        if self._memory is not None:
            if arrange.target_moves:
                self._memory.forget()
            note = self._memory.turn_page if fresh else self._memory.begin
            note(self.x, self.z, old_step)
        self._limit = message.until
        self.state = State.RUNNING
        effects: list[Effect] = [Began(self.epoch, self.round, self.x, self.z, self.g)]
        effects += self._tell(m.Begun(self.epoch))
        if self.round >= self._limit:
            effects += self._stop()
        else:
            effects.append(self._exchange())
            # It may have been asked before it was there, or for a round that it has skipped.
            effects += self._tell(m.LeaveRequest(self.life)) if self.wants_to_leave else []
        return effects + self._catch_up()

    def _settle(self, arrange: m.Arrange) -> None:
        """Take up the neighbourhood of the new epoch."""
        assert arrange.neighbours is not None  # noqa: S101 - whoever begins an epoch is in it
        # Whoever has no neighbours talks to itself, so that its rounds are events too.
        self._talks_to = arrange.neighbours or (self.ident,)
        order = sorted({*arrange.neighbours, self.ident})
        self._own_row = order.index(self.ident)
        self._row_of = {node: order.index(node) for node in self._talks_to}
        weight = dict(zip(arrange.neighbours, arrange.weights, strict=True))
        weight[self.ident] = 1.0 - math.fsum(arrange.weights)
        self._weights = np.array([weight[node] for node in order])
        self._members, self._buddies = arrange.members, arrange.buddies
        columns, missing = 2 * self.x.size, len(self._talks_to)
        self._payload_shape = (columns,)
        self._inboxes = tuple(Inbox.of(len(order), columns, missing) for _ in range(2))

    def _on_dismiss(self, sender: int, message: m.Dismiss) -> list[Effect]:
        if message.life != self.life:
            return self._drop(Received(sender, message), "late: of an earlier life")
        if message.excluded:
            self.state = State.GONE
            return [Failed("it was taken for lost")]
        preparation = self._preparation
        awaited = preparation is not None and preparation.arrange.epoch == message.epoch
        if self.state is not State.READY or preparation is None or not awaited:
            return self._drop(Received(sender, message), "of another epoch")
        self.state = State.GONE
        return []

    def _on_inquiry(self, sender: int, message: m.Inquiry) -> list[Effect]:
        _ = sender, message
        prepared = self._preparation.arrange if self._preparation is not None else None
        return self._tell(
            m.Situation(
                self._present,
                self._begun,
                prepared if self.state is State.READY else None,
                self._attempt,
                self._report(),
                self.host,
                self.purpose if self._present is None else None,
                self._known if self._present is None else (),
                self.life,
            )
        )

    # --- preparing an epoch -------------------------------------------------------------------

    def _on_part(self, sender: int, message: Part) -> list[Effect]:
        """Take in a part of what the next epoch needs of others."""
        preparation = self._awaiting(message.epoch)
        if preparation is None:
            return self._untimely(sender, message, self._is_early(message.epoch))
        if not preparation.expects(sender, message):
            return self._drop(Received(sender, message), "not expected, or a duplicate")
        if not preparation.take(sender, message):
            kind = type(message).__name__.lower()
            return self._blame(Received(sender, message), f"a {kind} that cannot be right")
        return self._prepare()

    def _on_kept(self, sender: int, message: m.Kept) -> list[Effect]:
        preparation = self._awaiting(message.epoch)
        if preparation is None or sender not in preparation.unkept:
            return self._drop(Received(sender, message), "not expected, or a duplicate")
        preparation.unkept.discard(sender)
        return self._finish_preparing(preparation)

    def _awaiting(self, epoch: int) -> Preparation | None:
        """Return what is being prepared, if it is the preparation of that epoch."""
        preparation = self._preparation if self.state is State.PREPARING else None
        return preparation if preparation and preparation.arrange.epoch == epoch else None

    def _is_early(self, epoch: int) -> bool:
        """Whether the order to prepare that epoch may still be on its way."""
        halted = self.state is State.HALTED and self._attempt > self.epoch
        return epoch > self._attempt or (epoch == self._attempt and halted)

    def _prepare(self) -> list[Effect]:
        """Go on once everything has arrived that the next epoch needs of others."""
        preparation = self._preparation
        assert preparation is not None  # noqa: S101 - asked while preparing
        if preparation.sent or not preparation.is_complete:
            return []
        preparation.sent = True
        effects = preparation.take_over(self._vault.wards, self.x)
        if preparation.arrange.heir is not None:
            return effects + self._bequeath(preparation)
        if preparation.arrange.neighbours is None:
            return effects + self._finish_preparing(preparation)
        return effects + self._write_through(preparation)

    def _bequeath(self, preparation: Preparation) -> list[Effect]:
        """Let the will decide, and say farewell."""
        assert self.will is not None  # noqa: S101 - without one nobody may leave
        remaining, title = preparation.arrange.remaining, self.will.title
        bequest = self._testament.decide(
            self.round, self.x, self._tracked, remaining=remaining, setting=self.setting
        )
        self.state = State.READY
        return preparation.bequeath(
            self.ident, bequest, title=title, after=self.round, x=self.x, z=self.z, g=self.g
        )

    def _write_through(self, preparation: Preparation) -> list[Effect]:
        """Send a checkpoint to every buddy that does not have what will be inherited."""
        arrange = preparation.arrange
        newcomer = self._present is None
        needy = preparation.needy(self._present)
        if newcomer and preparation.x is not None:
            self.x = preparation.x
        if newcomer:
            self.g = self.z = self._tracked = self._gradient(self.x)
            self.round = arrange.round
            if self._memory is not None:
                self._memory.turn_page(self.x, self.z, self._step)
        effects: list[Effect] = []
        if self._testament.every is not None and (newcomer or preparation.inherits):
            effects.append(self._renew_checkpoint(arrange.members))
        if not needy:
            return effects + self._finish_preparing(preparation)
        preparation.unkept = set(needy)
        own = self._testament
        checkpoint = m.Checkpoint(arrange.epoch, own.own_round, own.own, preparation.inherited)
        return [*effects, Send(needy, checkpoint)]

    def _finish_preparing(self, preparation: Preparation) -> list[Effect]:
        if preparation.unkept:
            return []
        self.state = State.READY
        return self._tell(preparation.ready(self.objective.curvature.b))

    def _renew_checkpoint(self, members: int) -> Checkpointed:
        return self._testament.renew(
            self.round, self.x, self._tracked, members=members, setting=self.setting
        )

    # --- being a buddy ------------------------------------------------------------------------

    def _on_checkpoint(self, sender: int, message: m.Checkpoint) -> list[Effect]:
        whole, received = message.inherited is not None, Received(sender, message)
        if not self._can_be_of(sender, message):
            return self._blame(received, "a checkpoint that cannot be right")
        if not whole and message.epoch > self.epoch:
            return self._untimely(sender, message, early=True)
        if whole and (message.epoch != self._attempt or message.epoch == self.epoch):
            return self._untimely(sender, message, message.epoch > self._attempt)
        if not self._can_be_now(message):
            return self._blame(received, "a checkpoint that cannot be right")
        if not whole:
            kept = self._vault.renew(sender, message)
            return [] if kept else self._drop(received, "not a ward, or late")
        if sender in self._vault.staged:
            return self._drop(received, "a duplicate")
        self._vault.staged[sender] = message
        return [Send((sender,), m.Kept(message.epoch))]

    def _can_be_of(self, sender: int, checkpoint: m.Checkpoint) -> bool:
        """Whether it can be that node's, of whatever epoch: the memory of itself, and of others."""
        own, inherited, dim = checkpoint.own, checkpoint.inherited, self.x.size
        itself = is_sound(own, dim) and own.lineage.keys() <= {sender} and checkpoint.round >= 0
        others = inherited is None or (is_sound(inherited, dim) and sender not in inherited.lineage)
        return itself and others

    def _can_be_now(self, checkpoint: m.Checkpoint) -> bool:
        """Whether it can be of the present epoch, or at its end, if the node is in one."""
        if self._begun is None:
            return True
        inside = () if checkpoint.inherited is None else checkpoint.inherited.lineage
        return checkpoint.round <= self._begun.until and self._others.issuperset(inside)

    def __repr__(self) -> str:
        return f"Node({self.ident}, {self.state}, epoch {self.epoch}, round {self.round})"
