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

from bequest.protocol import messages as m
from bequest.protocol.dispatch import Dispatcher
from bequest.protocol.events import (
    Apply,
    Began,
    Completed,
    Failed,
    Leave,
    OptimumMoved,
    Receipt,
    Received,
    Send,
)
from bequest.protocol.iterate import Iterate
from bequest.protocol.kept_checkpoints import KeptCheckpoints
from bequest.protocol.place import Place
from bequest.protocol.preparation import Preparation
from bequest.protocol.scrutiny import has_place, is_checkpoint
from bequest.protocol.states import State, Turn
from bequest.protocol.will_executor import WillExecutor

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.core.legacy import Legacy
    from bequest.core.methods import Method
    from bequest.model.objectives.base import Objective
    from bequest.model.wills import Setting, Will
    from bequest.protocol.events import Effect, Input, Instruction
    from bequest.protocol.preparation import Part

# A neighbour can be this many rounds ahead, and no more: it needs our message to go on.
_AHEAD = 2
# To look up a member of an enum takes longer than to add two vectors; rounds do it all the time.
_RUNNING = State.RUNNING


class Node(Dispatcher):
    """One participant.

    Args:
        ident: its number.
        objective: its private loss.
        method: how it iterates.
        setting: what all nodes know; its step is replaced in every epoch.
        start: where it begins.
        will: what it bequeaths; without one it is forgotten.
        host: the host it is on, as "machine/host" where hosts share machines.
        checkpoint_every: how many rounds may pass between two checkpoints; None for none at all.
        purpose: what it wants, if it is not there from the start.
        known: the nodes that it would then talk to.
        receipt: what is remembered of it, if it has left before.
        incarnation: how often it has been there before.

    Attributes:
        state: where it is in the protocol.
        epoch: the epoch it is in; 0 before its first.
        iterate: its numbers: x, z, g, what it has inherited, how many rounds it has completed.
        place: its neighbours in the present epoch, and what they have sent; None before its first.
        preparation: what it prepares for the next epoch, while it does.
        kept: the checkpoints that it keeps for others.
        executor: its will, its own checkpoint and what it remembers of its path.
        receipt: what is remembered of it. Of a node that was lost it may become known only when
            the node is back.
    """

    def __init__(
        self,
        ident: int,
        objective: Objective,
        *,
        method: Method,
        setting: Setting,
        start: Vector,
        will: Will | None = None,
        host: str = "",
        checkpoint_every: int | None = None,
        purpose: m.Purpose | None = None,
        known: tuple[int, ...] = (),
        receipt: Legacy | None = None,
        incarnation: int = 0,
    ) -> None:
        super().__init__(ident)
        self.objective, self.will, self.host = objective, will, host
        self.purpose, self._known, self.incarnation = purpose, known, incarnation
        self.receipt = receipt
        self.iterate = Iterate(objective, method, start, ident=ident, incarnation=incarnation)
        self.executor = WillExecutor(ident, self.iterate, will, setting, checkpoint_every)
        self.kept = KeptCheckpoints()
        self.place: Place | None = None
        self.preparation: Preparation | None = None
        # The rounds after which it is to leave, and to stop.
        self._leave_after: int | None = None
        self._limit = 0

    @property
    def x(self) -> Vector:
        """Its iterate."""
        return self.iterate.x

    @property
    def round(self) -> int:
        """How many rounds it has completed."""
        return self.iterate.round

    @property
    def inherited(self) -> Legacy:
        """What it remembers of other nodes."""
        return self.iterate.inherited

    # --- events -------------------------------------------------------------------------------

    def handle(self, event: Input | Instruction) -> list[Effect]:
        """Take in one event; return what is to be done about it."""
        try:
            if isinstance(event, Received):
                return self._receive(event)
            return self._be_told(event)
        except Exception as error:  # noqa: BLE001 - a user's loss or will may raise anything
            self._turn(Turn.FAILED)
            return [Failed(f"{type(error).__name__}: {error}")]

    def _be_told(self, event: Input | Instruction) -> list[Effect]:
        """Take in what is no message: it comes from the process around the node."""
        match event:
            case Leave():
                return self._on_leave(event)
            case Apply() if self.purpose is not None:
                return self._tell(m.Request(self.purpose, self.host, self._known, self.incarnation))
            case Receipt():
                self.receipt = event.legacy
            case OptimumMoved():
                executor = self.executor
                executor.setting = replace(executor.setting, optimum=event.optimum)
            case Apply():
                pass  # a founding member has nothing to ask
            case _:
                raise TypeError(f"{type(event).__name__} is no event of a node")
        return []

    def _on_leave(self, event: Leave) -> list[Effect]:
        self._leave_after = event.after
        if self.state in (State.OUTSIDE, State.GONE) or not self.wants_to_leave:
            return []
        effects = self._tell(m.LeaveRequest(self.incarnation))
        if self.state is State.PREPARING:
            effects += self._refuse()
        return effects

    def _refuse(self) -> list[Effect]:
        """Ask for another arrangement if this one makes an heir of a node that is leaving."""
        assert self.preparation is not None  # noqa: S101 - asked while preparing
        if not self.preparation.makes_an_heir or not self.wants_to_leave:
            return []
        return self._tell(m.Refused(self.preparation.arrange.epoch))

    @property
    def wants_to_leave(self) -> bool:
        """Whether it has been asked to go, by now."""
        return self._leave_after is not None and self.round >= self._leave_after

    # --- rounds -------------------------------------------------------------------------------

    def _on_exchange(self, sender: int, message: m.Exchange) -> list[Effect]:
        if message.epoch != self.epoch:
            return self._untimely(sender, message, message.epoch > self.epoch)
        place = self.place
        if place is None or (row := place.row_of.get(sender)) is None:
            return self._drop(Received(sender, message), "not a neighbour")
        t = message.round
        ahead = t - self.iterate.round
        if ahead <= 0:
            return self._drop(Received(sender, message), "late: that round is over")
        if ahead > _AHEAD:
            return self._blame(Received(sender, message), f"round {t} is impossible")
        inbox = place.inboxes[t & 1]
        if inbox.arrived[row]:
            return self._drop(Received(sender, message), "a duplicate")
        payload = message.payload
        if payload.shape != place.payload_shape:
            return self._blame(Received(sender, message), f"a payload of shape {payload.shape}")
        inbox.rows[row] = payload
        inbox.arrived[row] = True
        inbox.missing -= 1
        if ahead == 1 and not inbox.missing and self.state is _RUNNING:
            return self._advance()
        return []

    def _advance(self) -> list[Effect]:
        """Complete every round for which all messages are there."""
        effects: list[Effect] = []
        place, iterate, executor = self.place, self.iterate, self.executor
        assert place is not None  # noqa: S101 - only members have rounds
        inbox = place.inboxes[(iterate.round + 1) & 1]
        while self.state is _RUNNING and not inbox.missing:
            x, z, g = iterate.follow(place.heard(iterate.round + 1))
            # One sum tells in almost every round that all is well: no product with what is not
            # finite is finite.
            if not math.isfinite(x.dot(z)):
                after = iterate.round + 1
                why = f"what it sent for round {after} is not finite"
                if culprits := place.culprits(after):
                    for node in culprits:
                        effects += self._tell(m.Accusation(self.epoch, node, why))
                    return effects
                if not np.isfinite(g).all() and np.isfinite(x).all():
                    size = float(np.linalg.norm(x))
                    raise FloatingPointError(f"the gradient is not finite at |x| = {size:.3g}")
            if executor.path is not None:
                executor.path.note(x, z)
            iterate.accept(x, z, g)
            inbox.clear(len(place.talks_to))
            # Completed(...) comes to this, and takes twice as long.
            effects.append(tuple.__new__(Completed, (iterate.round, x, z, g)))
            if executor.is_due:
                # Also without buddies: the next one is to get a fresh checkpoint.
                effects.append(executor.renew(place.arrange.members))
                checkpoint = m.Checkpoint(self.epoch, iterate.round, executor.own, None)
                buddies = place.arrange.buddies
                effects += [Send(buddies, checkpoint)] if buddies else []
            if iterate.round == self._limit:
                effects += self._stop()
            else:
                effects.append(self._exchange(place))
                if iterate.round == self._leave_after:
                    effects += self._tell(m.LeaveRequest(self.incarnation))
            inbox = place.inboxes[(iterate.round + 1) & 1]
        return effects

    def _exchange(self, place: Place) -> Send:
        """Say where it goes from here: the message of the next round."""
        payload, t = self.iterate.payload(), self.iterate.round + 1
        place.contribute(t, payload)
        return Send(place.talks_to, m.Exchange(self.epoch, t, payload))

    def _stop(self) -> list[Effect]:
        self._turn(Turn.STOPPED)
        return self._tell(self._report())

    def _report(self) -> m.Halted:
        lineage, kept = tuple(self.inherited.lineage), self.kept.contents
        return m.Halted(self._attempt, self.round, lineage, kept, self.wants_to_leave)

    # --- the steward's orders -----------------------------------------------------------------

    def _on_halt(self, sender: int, message: m.Halt) -> list[Effect]:
        if message.current > self.epoch:
            return self._untimely(sender, message, early=True)
        if message.epoch <= self._attempt or message.current < self.epoch:
            return self._untimely(sender, message, early=False)
        self._attempt = message.epoch
        self.preparation, self.kept.staged = None, {}
        return self._stop() + self._catch_up()

    def _on_advance(self, sender: int, message: m.Advance) -> list[Effect]:
        if message.epoch != self._attempt:
            return self._untimely(sender, message, early=False)
        if not self._can_reach(message.round):
            return self._drop(Received(sender, message), "an order that cannot be right")
        self._limit = message.round
        if self.round >= self._limit:
            return self._stop()
        self._turn(Turn.SENT_ON)
        return self._advance()

    def _can_reach(self, t: int) -> bool:
        """Whether the epoch that the node is in can have come to that round."""
        return self.place is None or self.round <= t <= self.place.begin.until

    def _on_arrange(self, sender: int, message: m.Arrange) -> list[Effect]:
        if message.incarnation != self.incarnation:
            return self._drop(Received(sender, message), "meant for another incarnation")
        outside = self.place is None
        over = message.epoch < self._attempt or message.epoch == self.epoch
        if over or (not outside and message.epoch != self._attempt):
            return self._untimely(sender, message, early=False)
        if self.preparation is not None and self.preparation.arrange.epoch == message.epoch:
            return self._drop(Received(sender, message), "a duplicate")
        if not self._can_reach(message.round):
            return self._drop(Received(sender, message), "an order that cannot be right")
        if outside and message.epoch > self._attempt:
            self._attempt, self.kept.staged = message.epoch, {}
        self.preparation = preparation = Preparation(
            self.ident, message, self.iterate, self.executor, self.kept.wards, self.place
        )
        self._turn(Turn.ARRANGED)
        if refused := self._refuse():
            return refused
        effects = preparation.give(self.receipt)
        return effects + self._prepare(preparation) + self._catch_up()

    def _on_part(self, sender: int, message: Part) -> list[Effect]:
        """Take in a part of what the next epoch needs of others."""
        preparation = self.preparation if self.state is State.PREPARING else None
        if preparation is not None and preparation.arrange.epoch != message.epoch:
            preparation = None
        if preparation is None and not isinstance(message, m.Kept):
            # The order to prepare that epoch may still be on its way.
            halted = self.state is State.HALTED and self._attempt > self.epoch
            early = message.epoch > self._attempt or (message.epoch == self._attempt and halted)
            return self._untimely(sender, message, early)
        if preparation is None or not preparation.expects(sender, message):
            return self._drop(Received(sender, message), "not expected, or a duplicate")
        if not preparation.take(sender, message):
            kind = type(message).__name__.lower()
            article = "an" if kind[0] in "aeiou" else "a"
            return self._blame(Received(sender, message), f"{article} {kind} that cannot be right")
        return self._prepare(preparation)

    def _prepare(self, preparation: Preparation) -> list[Effect]:
        effects = preparation.proceed()
        if preparation.is_done:
            self._turn(Turn.PREPARED)
        return effects

    def _on_begin(self, sender: int, message: m.Begin) -> list[Effect]:
        preparation = self.preparation
        assert preparation is not None  # noqa: S101 - a node that is ready has prepared something
        arrange = preparation.arrange
        if message.epoch != arrange.epoch or arrange.neighbours is None:
            return self._drop(Received(sender, message), "of another epoch")
        if not has_place(self.ident, arrange, message):
            return self._drop(Received(sender, message), "an order that cannot be right")
        iterate, executor, fresh = self.iterate, self.executor, self.place is None
        iterate.take_over(
            preparation.inherited,
            preparation.surplus,
            after=arrange.round,
            restart=arrange.restart,
            fresh=fresh,
        )
        self.epoch, self._limit, self.preparation = arrange.epoch, message.until, None
        method = iterate.method
        self.place = place = Place(
            self.ident,
            arrange,
            message,
            self.x.size,
            vectors=method.vectors,
            differences=method.hears_differences,
        )
        self.kept.begin(arrange.wards)
        if executor.path is not None:
            if arrange.target_moves:
                executor.path.forget()
            begin = executor.path.begin if fresh else executor.path.begin_later
            begin(iterate.x, iterate.z, executor.setting.step)  # that of the epoch before
        iterate.settle(message.pace, place.own_weight)
        place.couple(iterate.coupling)
        executor.go_by(message.pace)
        self._turn(Turn.BEGUN)
        effects: list[Effect] = [Began(self.epoch, self.round, iterate.x, iterate.z, iterate.g)]
        effects += self._tell(m.Begun(self.epoch))
        if self.round >= self._limit:
            effects += self._stop()
        else:
            effects.append(self._exchange(place))
            # It may have been asked before it was there, or for a round that it has skipped.
            effects += self._tell(m.LeaveRequest(self.incarnation)) if self.wants_to_leave else []
        return effects + self._catch_up()

    def _on_dismiss(self, sender: int, message: m.Dismiss) -> list[Effect]:
        if message.incarnation != self.incarnation:
            return self._drop(Received(sender, message), "late: of an earlier incarnation")
        if message.excluded:
            self._turn(Turn.EXCLUDED)
            return [Failed("it was taken for lost")]
        preparation = self.preparation
        awaited = preparation is not None and preparation.arrange.epoch == message.epoch
        if self.state is not State.READY or not awaited:
            return self._drop(Received(sender, message), "of another epoch")
        self._turn(Turn.DISMISSED)
        return []

    def _on_inquiry(self, sender: int, message: m.Inquiry) -> list[Effect]:
        _ = sender, message
        place, preparation, ready = self.place, self.preparation, self.state is State.READY
        return self._tell(
            m.Situation(
                None if place is None else place.arrange,
                None if place is None else place.begin,
                preparation.arrange if ready and preparation is not None else None,
                self._attempt,
                self._report(),
                self.host,
                self.purpose if place is None else None,
                self._known if place is None else (),
                self.incarnation,
            )
        )

    # --- being a buddy ------------------------------------------------------------------------

    def _on_checkpoint(self, sender: int, message: m.Checkpoint) -> list[Effect]:
        whole, received, place = (
            message.inherited is not None,
            Received(sender, message),
            self.place,
        )
        memories = (message.own, message.inherited)
        welcome = all(one is None or self.executor.accepts(one) for one in memories)
        if not welcome or not is_checkpoint(message, sender, self.x.size):
            return self._blame(received, "a checkpoint that cannot be right")
        if not whole and message.epoch > self.epoch:
            return self._untimely(sender, message, early=True)
        if whole and (message.epoch != self._attempt or message.epoch == self.epoch):
            return self._untimely(sender, message, message.epoch > self._attempt)
        inside = () if message.inherited is None else message.inherited.lineage
        known = place is None or not inside or place.others.issuperset(inside)
        if place is not None and (message.round > place.begin.until or not known):
            if message.epoch < self.epoch:  # it is void: those who had come further are dead
                return self._untimely(sender, message, early=False)
            return self._blame(received, "a checkpoint that cannot be right")
        if not whole:
            kept = self.kept.renew(sender, message)
            return [] if kept else self._drop(received, "not a ward, or late")
        if sender in self.kept.staged:
            return self._drop(received, "a duplicate")
        self.kept.staged[sender] = message
        return [Send((sender,), m.Kept(message.epoch))]

    def __repr__(self) -> str:
        return f"Node({self.ident}, {self.state}, epoch {self.epoch}, round {self.round})"
