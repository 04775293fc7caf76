"""The real node: events in, effects out.

It knows its own loss, its neighbours and the messages that have reached it, and nothing else. It
never touches a socket, a clock or a random number, so that the same node runs on a virtual
network, on a cluster, or in a test that feeds it one message at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import frozen
from bequest.core.farewell import Farewell
from bequest.core.legacy import Legacy
from bequest.errors import InvalidEvent
from bequest.model.wills import Estate
from bequest.protocol import messages as m
from bequest.protocol.events import (
    Adopted,
    Began,
    Checkpointed,
    Completed,
    Decided,
    Dropped,
    Failed,
    Leave,
    Received,
    Send,
    Withdrawn,
)
from bequest.protocol.memory import Memory
from bequest.protocol.states import FOR_THE_STEWARD, ORDERS, TABLE, State

if TYPE_CHECKING:
    from bequest.core.arrays import Matrix, Vector
    from bequest.model.objectives.base import Objective
    from bequest.model.wills import Bequest, Setting, Will
    from bequest.protocol.events import Effect, Event

# A neighbour can be this many rounds ahead, and no more: it needs our message to go on.
_AHEAD = 2


@dataclass(eq=False)
class _Inbox:
    """The messages of one round: a row per neighbour, and the node's own, in ascending order."""

    rows: Matrix
    arrived: list[bool]
    missing: int


@dataclass(eq=False)
class _Preparation:
    """The epoch that is being prepared; nothing in it counts before the epoch begins."""

    arrange: m.Arrange
    inherited: Legacy
    surplus: Vector
    farewells: dict[int, Farewell] = field(default_factory=dict)
    withdrawal: Legacy | None = None
    x: Vector | None = None
    sent: bool = False
    inherits: bool = False
    unkept: set[int] = field(default_factory=set)


class Node:
    """One participant.

    Args:
        ident: its number.
        objective: its private loss.
        setting: what everybody knows; its step is replaced by that of every epoch.
        start: where it begins.
        will: what it bequeaths; without one it is forgotten.
        host: the machine it is on.
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
        self.ident, self.objective, self.will, self.host = ident, objective, will, host
        # What everybody knows; in studies with an oracle the engine tells when that changes.
        self.setting, self._start, self._tau = setting, frozen(start), checkpoint_every
        self.purpose, self._known, self.life = purpose, known, life
        # Of somebody who was lost it may become known only now that it is back.
        self.receipt = receipt
        self.state = State.OUTSIDE
        self.epoch = self.round = 0
        self.x: Vector = self._start
        self.inherited, self._carries = Legacy.zero(self.x.size), False
        self.g: Vector = np.zeros_like(self.x)
        self.z: Vector = self.g
        # The tracker after the last round, whatever hand-offs have done to it since.
        self._tracked: Vector = self.z
        self._own, self._own_round = self.inherited, 0
        self._descended: tuple[int, Vector] | None = None
        self._leave_after: int | None = None
        self._attempt = 0
        self._term = 0
        self._limit = 0
        self._present: m.Arrange | None = None
        self._begun: m.Begin | None = None
        self._preparation: _Preparation | None = None
        self._wards: dict[int, m.Checkpoint] = {}
        self._staged: dict[int, m.Checkpoint] = {}
        self._early: list[Received] = []
        self._row_of: dict[int, int] = {}
        self._step = setting.step
        self._memory: Memory | None = None
        if will is not None and will.needs_history:
            self._memory = Memory(objective, by_gradients=will.by_gradients)
        # The state with which the next page of that memory begins, once a round is completed.
        self._new_page: tuple[Vector, Vector, float] | None = None
        self._actions = {
            state: {
                kind: getattr(self, name) for (there, kind), name in TABLE.items() if there is state
            }
            for state in State
        }

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

    def _receive(self, event: Received) -> list[Effect]:
        sender, message = event
        if sender == m.STEWARD:
            term = getattr(message, "term", self._term)
            if term < self._term:
                return self._drop(event, "of an earlier steward")
            self._term = term
        elif type(message) in ORDERS:
            return self._blame(event, "only the steward may say that")
        act = self._actions[self.state].get(type(message))
        if act is not None:
            effects: list[Effect] = act(sender, message)
            return effects
        if isinstance(message, FOR_THE_STEWARD):
            return self._blame(event, "this is the steward's business")
        return self._drop(event, f"not expected when {self.state}")

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
        arrange = self._preparation.arrange
        inherits = bool(arrange.farewells) and arrange.heir is None and not arrange.stays
        return self._tell(m.Refused(arrange.epoch)) if inherits and self.wants_to_leave else []

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
        if payload.shape != inbox.rows[row].shape:
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
            mixed = np.add.reduce(inbox.rows * self._weights, axis=0)
            x = mixed[:dim]
            g = self._gradient(x)
            # One sum tells in almost every round that all is well.
            if not math.isfinite(float(mixed @ mixed) + float(g @ g)):
                if accusations := self._accuse(inbox):
                    return effects + accusations
                if not np.isfinite(g).all() and np.isfinite(x).all():
                    size = float(np.linalg.norm(x))
                    raise FloatingPointError(f"the gradient is not finite at |x| = {size:.3g}")
            z = mixed[dim:] + g
            z -= self.g
            if self._new_page is not None:
                self._turn_page()
            self.x, self.z, self.g, self._tracked = x, z, g, z
            self.round += 1
            if self._memory is not None:
                self._memory.note(x, z)
            inbox.arrived = [False] * len(inbox.arrived)
            inbox.missing = len(self._talks_to)
            effects.append(Completed(self.round, x, z, g))
            if self._buddies and self._is_checkpoint_due():
                effects.append(self._renew_checkpoint(self._members))
                checkpoint = m.Checkpoint(self.epoch, self.round, self._own, None)
                effects.append(Send(self._buddies, checkpoint))
            if self.round == self._limit:
                effects += self._stop()
            else:
                effects.append(self._exchange())
                if self.round == self._leave_after:
                    effects += self._tell(m.LeaveRequest(self.life))
            inbox = self._inboxes[(self.round + 1) & 1]
        return effects

    def _is_checkpoint_due(self) -> bool:
        """Whether a multiple of the interval has been reached, or skipped, since the last one."""
        return self._tau is not None and self.round // self._tau > self._own_round // self._tau

    def _accuse(self, inbox: _Inbox) -> list[Effect]:
        """Blame whoever sent what is not a number."""
        finite = [bool(np.isfinite(row).all()) for row in inbox.rows]
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
        payload = np.empty(2 * dim)
        np.multiply(self.z, -self._step, out=payload[:dim])
        payload[:dim] += self.x
        payload[dim:] = self.z
        payload.setflags(write=False)
        inbox = self._inboxes[(self.round + 1) & 1]
        inbox.rows[self._own_row] = payload
        return Send(self._talks_to, m.Exchange(self.epoch, self.round + 1, payload))

    def _turn_page(self) -> None:
        assert self._memory is not None  # noqa: S101 - without a memory there are no pages
        assert self._new_page is not None  # noqa: S101 - its callers have one
        self._memory.turn_page(*self._new_page)
        self._new_page = None

    def _stop(self) -> list[Effect]:
        self.state = State.HALTED
        return self._tell(self._report())

    def _report(self) -> m.Halted:
        wards = tuple(
            (node, kept.round, _remembered(kept)) for node, kept in sorted(self._wards.items())
        )
        return m.Halted(
            self._attempt, self.round, tuple(self.inherited.lineage), wards, self.wants_to_leave
        )

    # --- the steward's orders -----------------------------------------------------------------

    def _on_halt(self, sender: int, message: m.Halt) -> list[Effect]:
        if message.current > self.epoch:
            return self._untimely(sender, message, early=True)
        if message.epoch <= self._attempt or message.current < self.epoch:
            return self._untimely(sender, message, early=False)
        self._attempt = message.epoch
        self._preparation, self._staged = None, {}
        return self._stop() + self._catch_up()

    def _on_advance(self, sender: int, message: m.Advance) -> list[Effect]:
        if message.epoch != self._attempt:
            return self._untimely(sender, message, early=False)
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
        if outside and message.epoch > self._attempt:
            self._attempt, self._staged = message.epoch, {}
        self._preparation = _Preparation(message, self.inherited, np.zeros_like(self.x))
        self.state = State.PREPARING
        effects = self._refuse()
        if effects:
            return effects
        if message.newcomer is not None:
            effects.append(Send((message.newcomer,), m.Welcome(message.epoch, self.x)))
        if message.claim is not None:
            if self.receipt is None:
                raise InvalidEvent(
                    f"Node {message.claim} remembers node {self.ident}, which has no receipt.",
                    remedy="Keep what was handed over; only whoever has it can take it back.",
                )
            withdrawal = m.Withdrawal(message.epoch, self.receipt)
            effects.append(Send((message.claim,), withdrawal))
        return effects + self._prepare() + self._catch_up()

    def _on_begin(self, sender: int, message: m.Begin) -> list[Effect]:
        preparation = self._preparation
        assert preparation is not None  # noqa: S101 - a node that is ready has prepared something
        arrange = preparation.arrange
        if message.epoch != arrange.epoch or arrange.neighbours is None:
            return self._drop(Received(sender, message), "of another epoch")
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
        kept = {**self._wards, **self._staged}
        self._wards = {node: kept[node] for node in arrange.wards if node in kept}
        self._staged = {}
        self._settle(arrange)
        if self._memory is not None:
            if arrange.target_moves:
                self._memory.forget()
            # Of the epoch that the page is about: there may have been others without a round.
            step = old_step if self._new_page is None else self._new_page[2]
            self._new_page = (self.x, self.z, step)
            if fresh:
                self._turn_page()
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
        self._weights = np.array([[weight[node]] for node in order])
        self._members, self._buddies = arrange.members, arrange.buddies
        shape = (len(order), 2 * self.x.size)
        self._inboxes = tuple(
            _Inbox(np.empty(shape), [False] * len(order), len(self._talks_to)) for _ in range(2)
        )

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

    def _on_farewell(self, sender: int, message: Farewell) -> list[Effect]:
        preparation = self._awaiting(message.epoch)
        if preparation is None:
            return self._untimely(sender, message, self._is_early(message.epoch))
        if sender not in preparation.arrange.farewells or sender in preparation.farewells:
            return self._drop(Received(sender, message), "not expected, or a duplicate")
        dim = self.x.size
        sound = _is_sound(message.legacy, dim) and _is_finite(message.surplus, dim)
        if sender != message.sender or not sound:
            return self._blame(Received(sender, message), "a farewell that cannot be right")
        preparation.farewells[sender] = message
        return self._prepare()

    def _on_withdrawal(self, sender: int, message: m.Withdrawal) -> list[Effect]:
        preparation = self._awaiting(message.epoch)
        if preparation is None:
            return self._untimely(sender, message, self._is_early(message.epoch))
        if sender != preparation.arrange.claimant or preparation.withdrawal is not None:
            return self._drop(Received(sender, message), "not expected, or a duplicate")
        if not _is_sound(message.legacy, self.x.size):
            return self._blame(Received(sender, message), "a withdrawal that cannot be right")
        preparation.withdrawal = message.legacy
        return self._prepare()

    def _on_welcome(self, sender: int, message: m.Welcome) -> list[Effect]:
        preparation = self._awaiting(message.epoch)
        if preparation is None:
            return self._untimely(sender, message, self._is_early(message.epoch))
        if sender != preparation.arrange.sponsor or preparation.x is not None:
            return self._drop(Received(sender, message), "not expected, or a duplicate")
        if not _is_finite(message.x, self.x.size):
            return self._blame(Received(sender, message), "a welcome that cannot be right")
        preparation.x = message.x
        return self._prepare()

    def _on_kept(self, sender: int, message: m.Kept) -> list[Effect]:
        preparation = self._awaiting(message.epoch)
        if preparation is None or sender not in preparation.unkept:
            return self._drop(Received(sender, message), "not expected, or a duplicate")
        preparation.unkept.discard(sender)
        return self._finish_preparing(preparation)

    def _awaiting(self, epoch: int) -> _Preparation | None:
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
        arrange = preparation.arrange
        complete = (
            len(preparation.farewells) == len(arrange.farewells)
            and (arrange.claimant is None or preparation.withdrawal is not None)
            and (arrange.sponsor is None or preparation.x is not None)
        )
        if not complete or preparation.sent:
            return []
        preparation.sent = True
        effects = self._take_over(preparation)
        if arrange.heir is not None:
            return effects + self._bequeath(preparation)
        if arrange.neighbours is None:
            return effects + self._finish_preparing(preparation)
        return effects + self._write_through(preparation)

    def _take_over(self, preparation: _Preparation) -> list[Effect]:
        """Compute what will be inherited, senders in ascending order."""
        arrange, inherited = preparation.arrange, self.inherited
        effects: list[Effect] = []
        for lost in arrange.adopted:
            kept = self._wards[lost]
            assert kept.inherited is not None  # noqa: S101 - a ward's checkpoint is always whole
            whole = kept.own + kept.inherited
            inherited = inherited + whole
            preparation.inherits |= not whole.is_zero
            effects.append(Adopted(arrange.epoch, lost, kept.round, kept.own, kept.inherited))
        for _, farewell in sorted(preparation.farewells.items()):
            inherited = inherited + farewell.legacy
            preparation.inherits |= not farewell.legacy.is_zero
            preparation.surplus = preparation.surplus + farewell.surplus
        if preparation.withdrawal is not None:
            claimed = preparation.withdrawal
            exact = inherited.blended.isdisjoint(claimed.lineage)
            inherited = inherited.without(claimed, at=self.x)
            assert arrange.claimant is not None  # noqa: S101 - it sent the withdrawal
            effects.append(Withdrawn(arrange.epoch, arrange.claimant, exact))
        preparation.inherited = inherited
        return effects

    def _bequeath(self, preparation: _Preparation) -> list[Effect]:
        """Let the will decide, and say farewell."""
        arrange, inherited = preparation.arrange, preparation.inherited
        assert arrange.heir is not None  # noqa: S101 - a leaver has an heir
        assert self.will is not None  # noqa: S101 - without one nobody may leave
        bequest = self._decide(arrange.remaining)
        forgets = {self.ident} if bequest.legacy is None else set()
        # The classic way takes along whatever was inherited.
        restart = bequest.handoff == "restart"
        if restart:
            forgets |= set(inherited.lineage)
            inherited = Legacy.zero(inherited.dim)
        whole = bequest.compose(inherited, self.x)
        farewell, blur = None, None
        effects: list[Effect] = []
        if not restart:
            surplus = self.z - self.g + preparation.surplus
            farewell = Farewell(self.ident, self.round, whole, surplus, arrange.epoch)
            lossless = inherited if bequest.legacy is None else bequest.legacy + inherited
            blur = None if whole.rank == lossless.rank else whole - lossless
            effects.append(Send((arrange.heir,), farewell))
        effects.append(
            Decided(
                arrange.epoch,
                self.round,
                frozen(self.x),
                self.will.title,
                bequest,
                tuple(inherited.lineage),
                tuple(sorted(forgets)),
                farewell,
                blur,
            )
        )
        self.state = State.READY
        ready = m.Ready(arrange.epoch, 0.0, (), tuple(sorted(forgets)), restart)
        return effects + self._tell(ready)

    def _write_through(self, preparation: _Preparation) -> list[Effect]:
        """Send a checkpoint to every buddy that does not have what will be inherited."""
        arrange = preparation.arrange
        newcomer = self._present is None
        changed = newcomer or preparation.inherits or arrange.claimant is not None
        before = () if self._present is None else self._present.buddies
        needy = arrange.buddies if changed else tuple(b for b in arrange.buddies if b not in before)
        if newcomer and preparation.x is not None:
            self.x = preparation.x
        if newcomer:
            self.g = self.z = self._tracked = self._gradient(self.x)
            self.round = arrange.round
            if self._memory is not None:
                self._memory.turn_page(self.x, self.z, self._step)
        effects: list[Effect] = []
        if self._tau is not None and (newcomer or preparation.inherits):
            effects.append(self._renew_checkpoint(arrange.members))
        if not needy:
            return effects + self._finish_preparing(preparation)
        preparation.unkept = set(needy)
        checkpoint = m.Checkpoint(arrange.epoch, self._own_round, self._own, preparation.inherited)
        return [*effects, Send(needy, checkpoint)]

    def _finish_preparing(self, preparation: _Preparation) -> list[Effect]:
        if preparation.unkept:
            return []
        self.state = State.READY
        inherited = preparation.inherited
        stiffness = self.objective.curvature.b + inherited.curvature[1]
        ready = m.Ready(preparation.arrange.epoch, stiffness, tuple(inherited.lineage))
        return self._tell(ready)

    def _decide(self, remaining: int) -> Bequest:
        """Ask the will what would be left behind now."""
        assert self.will is not None  # noqa: S101 - asked of those who have one
        memory = self._memory
        estate = Estate(
            node=self.ident,
            round=self.round,
            remaining=remaining,
            objective=self.objective,
            x=frozen(self.x),
            z=frozen(self._tracked),
            start=self._start,
            setting=self.setting,
            recent=None if memory is None else memory.chapter,
            carried=None if memory is None else memory.carried,
            by_gradients=self.will.by_gradients,
            descended=self._descended,
        )
        bequest = self.will.decide(estate)
        if "local_track" in vars(estate):  # the next decision goes on from here
            self._descended = self.round, estate.local_track
        return bequest

    def _renew_checkpoint(self, members: int) -> Checkpointed:
        # Who is alone has nobody to decide for; there may be others by the time it is needed.
        bequest = None if self.will is None else self._decide(max(members - 1, 1))
        legacy = None if bequest is None else bequest.legacy
        self._own = Legacy.zero(self.x.size) if legacy is None else legacy
        self._own_round = self.round
        return Checkpointed(self.round, bequest)

    # --- being a buddy ------------------------------------------------------------------------

    def _on_checkpoint(self, sender: int, message: m.Checkpoint) -> list[Effect]:
        sound = _is_sound(message.own, self.x.size) and (
            message.inherited is None or _is_sound(message.inherited, self.x.size)
        )
        if not sound:
            return self._blame(Received(sender, message), "a checkpoint that cannot be right")
        if message.inherited is None:
            if message.epoch > self.epoch:
                return self._untimely(sender, message, early=True)
            kept = self._wards.get(sender)
            if kept is None or message.round <= kept.round:
                return self._drop(Received(sender, message), "not a ward, or late")
            self._wards[sender] = replace(kept, round=message.round, own=message.own)
            return []
        if message.epoch != self._attempt or message.epoch == self.epoch:
            return self._untimely(sender, message, message.epoch > self._attempt)
        if sender in self._staged:
            return self._drop(Received(sender, message), "a duplicate")
        self._staged[sender] = message
        return [Send((sender,), m.Kept(message.epoch))]

    # --- what to do with what cannot be used --------------------------------------------------

    def _untimely(self, sender: int, message: m.Message, early: bool) -> list[Effect]:  # noqa: FBT001
        """Keep what is early until its time has come; drop what is late."""
        if early:
            self._early.append(Received(sender, message))
            return []
        return self._drop(Received(sender, message), "late: of an epoch or attempt that is over")

    def _catch_up(self) -> list[Effect]:
        """Look again at what came too early."""
        early, self._early = self._early, []
        return [effect for event in early for effect in self._receive(event)]

    def _drop(self, event: Received, why: str) -> list[Effect]:
        return [Dropped(event.sender, type(event.message).__name__, why)]

    def _blame(self, event: Received, why: str) -> list[Effect]:
        what = f"{type(event.message).__name__}: {why}"
        # Who has not begun anything speaks of the epoch that it is to come in with.
        accusation = m.Accusation(self.epoch or self._attempt, event.sender, what)
        return [*self._drop(event, why), *self._tell(accusation)]

    def _tell(self, message: m.Message) -> list[Effect]:
        return [Send((m.STEWARD,), message)]

    def __repr__(self) -> str:
        return f"Node({self.ident}, {self.state}, epoch {self.epoch}, round {self.round})"


def _remembered(checkpoint: m.Checkpoint) -> tuple[int, ...]:
    assert checkpoint.inherited is not None  # noqa: S101 - a ward's checkpoint is always whole
    return tuple(sorted({*checkpoint.own.lineage, *checkpoint.inherited.lineage}))


def _is_finite(vector: Vector, dim: int) -> bool:
    return vector.shape == (dim,) and bool(np.isfinite(vector).all())


def _is_sound(legacy: Legacy, dim: int) -> bool:
    numbers = math.isfinite(legacy.eta) and math.isfinite(legacy.c)
    factors = np.isfinite(legacy.factor).all() and np.isfinite(legacy.weights).all()
    return numbers and bool(factors) and _is_finite(legacy.p, dim)
