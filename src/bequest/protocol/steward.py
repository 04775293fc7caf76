"""The steward: it serialises membership changes into epochs, and sees no vector.

Rounds go on without it. A change (``change.py``) takes three steps, each answered by every node
before the next; only then may leavers go (``Dismiss``). What goes wrong before ``Begin`` (a loss,
an heir that refuses) starts the change anew under a higher number, and everything prepared so far
is void. Nothing is lost by that: leavers are still there, and checkpoints are still kept. A steward
that is lost itself is replaced by one that asks every node where it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bequest.core.steps import StepChoice
from bequest.protocol import messages as m
from bequest.protocol.change import Change, Phase, has_work
from bequest.protocol.charter import Agenda, Charter
from bequest.protocol.events import Dropped, Finished, FoundNetwork, Lost, Received, Send, TakeOver
from bequest.protocol.membership_register import MembershipRegister
from bequest.protocol.present_epoch import PresentEpoch
from bequest.protocol.recovery import Recovery, rebuild, request_in
from bequest.protocol.scrutiny import is_readiness, is_report, is_situation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.protocol.events import Effect, Input, Instruction

__all__ = ["Charter", "Phase", "Steward"]

# More attempts than one steward will ever make: the next one's numbers begin after these.
_NUMBERS = 1 << 20


class Steward:
    """Serialises membership changes.

    Args:
        charter: what was agreed on before.
        hosts: node -> the host it is on; "machine/host" where hosts share machines.
        term: how many stewards there were before.

    Attributes:
        present: the epoch that is under way.
        register: what is known of every node, in the network or not.
        pace: the number that all nodes agree on.
    """

    def __init__(self, charter: Charter, hosts: Mapping[int, str], term: int = 0) -> None:
        self._charter, self._term = charter, term
        self._agenda = Agenda(charter)
        self.register = MembershipRegister(hosts, charter.network)
        self.present = PresentEpoch()
        self.pace = charter.pace
        self._change: Change | None = None
        # What it is doing while there is no change under way.
        self._between_changes = Phase.ASKING
        self._recovery = Recovery({})
        self._newest = 0
        self._has_committed = False

    @property
    def phase(self) -> Phase:
        """What the steward is waiting for."""
        return self._between_changes if self._change is None else self._change.phase

    @property
    def awaited(self) -> tuple[int, ...]:
        """The nodes to be heard of before the others can go on from the stop they have reached."""
        present = self.present
        if self.phase is not Phase.RUNNING or not present.has_stopped:
            return ()
        return tuple(self._agenda.expects(present.round_reached, present.alive))

    # --- events -------------------------------------------------------------------------------

    def handle(self, event: Input | Instruction) -> list[Effect]:
        """Take in one event; return what is to be done about it."""
        effects = self._handle(event)
        if not self._term:
            return effects
        # Every order says from which steward it comes.
        return [
            Send(e.to, replace(e.message, term=self._term))
            if isinstance(e, Send) and isinstance(e.message, m.Order)
            else e
            for e in effects
        ]

    def _handle(self, event: Input | Instruction) -> list[Effect]:
        match event:
            case Lost():
                return self._on_lost(event.node, event.incarnation)
            case FoundNetwork():
                return self._found()
            case TakeOver():
                return self._take_over(event.processes)
        assert isinstance(event, Received)  # noqa: S101 - the steward is not asked to leave
        sender, message = event
        if sender < 0:
            return [Dropped(sender, type(message).__name__, "no node has that number")]
        match message:
            case m.Situation():
                return self._on_situation(sender, message)
            case m.Halted():
                return self._on_halted(sender, message)
            case m.Ready():
                return self._on_ready(sender, message)
            case m.Begun():
                return self._on_begun(sender, message)
            case m.Refused():
                return self._on_refused(sender, message)
            case m.LeaveRequest():
                return self._on_leave_request(sender, message)
            case m.Request():
                return self._on_request(sender, message)
            case m.Accusation():
                return self._on_accusation(sender, message)
        return [Dropped(sender, type(message).__name__, "not for the steward")]

    def _takes_part(self, node: int) -> bool:
        """Whether a node is in the present epoch or in the one that is prepared, or is asked."""
        draft = None if self._change is None else self._change.draft
        prepares = draft is not None and (node in draft.network or draft.is_about(node))
        asked = self.phase is Phase.ASKING and node in self._recovery.asked
        return prepares or asked or node in self.present.network

    def _blame(self, sender: int, message: m.Message) -> list[Effect]:
        """Give up a node that says what cannot be right, as if it were lost, and tell it so."""
        known = self.register if self._change is None else self._change
        incarnation = known.incarnation(sender)
        if self.phase is Phase.ASKING:
            incarnation = self._recovery.asked.get(sender, incarnation)
        return [
            Dropped(sender, type(message).__name__, "this cannot be right"),
            self.register.exclusion(sender, self.present.number, incarnation),
            *self._on_lost(sender, incarnation),
        ]

    def _on_leave_request(self, sender: int, message: m.LeaveRequest) -> list[Effect]:
        if not self._takes_part(sender):
            return [Dropped(sender, "LeaveRequest", "not a member")]
        if message.incarnation != self.register.incarnation(sender):
            return [Dropped(sender, "LeaveRequest", "late: of an earlier incarnation")]
        self.register.leaving.add(sender)
        return self._next()

    def _on_accusation(self, sender: int, message: m.Accusation) -> list[Effect]:
        culprit, change = message.culprit, self._change
        if not (self._takes_part(sender) and self._takes_part(culprit)):
            return [Dropped(sender, "Accusation", "not of a member about another")]
        if self.phase is not Phase.ASKING and message.epoch > self._newest:
            return self._blame(sender, message)
        if self.register.came_after(message.epoch, culprit):
            return [Dropped(sender, "Accusation", "late: of an earlier incarnation")]
        arrives = change is not None and message.epoch == self.present.number
        known = change if change is not None and arrives else self.register
        return self._on_lost(culprit, known.incarnation(culprit))

    def _on_lost(self, node: int, incarnation: int) -> list[Effect]:
        register, change, epoch = self.register, self._change, self.present.number
        # While it asks no node can say which appointments are still ahead.
        if register.bury(node, incarnation) and self.phase is not Phase.ASKING:
            self._agenda.note_crash(node)
            if not register.is_known(node, incarnation):
                self._agenda.note_arrival(node)  # it died before it could ask
        struck = register.strike(node, incarnation)
        if self.phase is Phase.ASKING:
            if incarnation < self._recovery.asked.get(node, 0):
                return []  # the one that is asked is alive
            self._recovery.lose(node)
            return self._recover()
        if struck is not None:
            anew = self._halt() if change is not None and change.is_about(node) else []
            return [register.exclusion(node, epoch, struck.incarnation), *anew]
        if incarnation < register.incarnation(node):
            # It may be the loss that a stop has waited for.
            return [Dropped(node, "Lost", "late: of an earlier incarnation"), *self._next()]
        register.leaving.discard(node)
        founding = None if change is None or epoch else change.draft
        if change is not None and founding is not None and node in founding.network:
            if len(founding.network) > 1:
                return change.found_without(node, self._number())
            self._change = None
            given_up = [*(adoption.node for adoption in founding.adoptions), node]
            excluded = [register.exclusion(n, epoch) for n in given_up]
            return [*excluded, *register.turn_away(epoch), *self._finish(0)]
        if node not in self.present.network or node in self.present.dead:
            return self._next()
        self.present.dead.add(node)
        if self.phase in (Phase.HALTING, Phase.ARRANGING):
            return self._halt()
        if self.phase is Phase.BEGINNING:
            return self._on_begun(node, m.Begun(self.present.number))
        return self._next()

    def _on_request(self, sender: int, message: m.Request) -> list[Effect]:
        register, present, change = self.register, self.present, self._change
        if register.is_known(sender, message.incarnation):
            return [Dropped(sender, "Request", "a duplicate, or of an earlier incarnation")]
        if register.is_over(sender, message.incarnation):
            return [register.exclusion(sender, present.number, message.incarnation)]
        # A node that wants to come back has gone, though its loss may not have been heard of yet.
        draft = None if change is None or present.number else change.draft
        founding = {} if draft is None else draft.network
        effects: list[Effect] = []
        if self.phase is Phase.ASKING:
            asked = self._recovery.asked.get(sender, message.incarnation)
            effects = self._on_lost(sender, asked) if asked < message.incarnation else []
        elif sender not in present.dead and (sender in present.network or sender in founding):
            effects = self._on_lost(sender, register.incarnation(sender))
        # The change under way may be about an incarnation of it that must be over.
        arriving = self._change is not None and self._change.is_about(sender)
        register.enter(sender, message)
        if self.phase is Phase.FINISHED and not present.alive:
            return effects + register.turn_away(present.number)
        if self.phase is not Phase.ASKING:
            self._agenda.note_arrival(sender)
        return effects + (self._halt() if arriving else self._next())

    # --- when to change -----------------------------------------------------------------------

    def _next(self) -> list[Effect]:
        """Begin a change if there is something to change and nothing under way."""
        present, agenda = self.present, self._agenda
        if self.phase not in (Phase.RUNNING, Phase.FINISHED) or not present.network:
            return []
        if present.dead:
            return self._halt()
        if not present.has_stopped:
            # Requests that were not made in advance do not wait for a stop.
            urgent = self.register.due(agenda.appointment, None)
            return self._halt() if present.leavers(self.register.leaving) or urgent else []
        stop = present.round_reached
        if agenda.expects(stop, present.alive):
            return []
        self.register.leaving |= {n for n, report in present.reports.items() if report.leaving}
        if not has_work(present, self.register, agenda, stop):
            agenda.pass_by(stop)
            if not agenda.stops:
                return self._finish(stop)
        return self._halt()

    def _finish(self, t: int) -> list[Effect]:
        """The run is at its end; what still happens is dealt with all the same."""
        if self.phase is Phase.FINISHED:
            return []
        self._between_changes = Phase.FINISHED
        return [Finished(t)]

    # --- a change -----------------------------------------------------------------------------

    def _number(self) -> int:
        """Return a number that no attempt has had, not even one that no node alive has heard of."""
        self._newest = max(self._newest + 1, self._term * _NUMBERS)
        return self._newest

    def _found(self) -> list[Effect]:
        """Begin: the first nodes prepare the first epoch."""
        self._change = Change(self._number(), self._charter, self._agenda, self.register)
        return self._change.found()

    def _halt(self) -> list[Effect]:
        """Begin a change, or begin it anew."""
        if not self.present.alive:
            return self._give_up()
        self._between_changes = Phase.RUNNING
        self._change = Change(self._number(), self._charter, self._agenda, self.register)
        return self._change.halt(self.present)

    def _on_halted(self, sender: int, message: m.Halted) -> list[Effect]:
        present, change = self.present, self._change
        if sender not in present.network or sender in present.dead:
            return [Dropped(sender, "Halted", "not a member")]
        going = self.phase in (Phase.RUNNING, Phase.BEGINNING)
        by_itself = going and message.epoch == present.number
        asked = self.phase is Phase.HALTING and message.epoch == self._newest
        possible = is_report(message, sender, present.lineage, present.round, present.until)
        # A copy of what it reported for this epoch to begin looks as if it had stopped by itself.
        before = message.round <= present.round
        before = before and not (possible and present.round == present.until)
        if not asked and (not by_itself or before):
            return [Dropped(sender, "Halted", "late: of an attempt that is over")]
        if not possible:
            return self._blame(sender, message)
        present.reports[sender] = message
        return self._next() if by_itself or change is None else change.halted(sender, present)

    def _on_ready(self, sender: int, message: m.Ready) -> list[Effect]:
        change = self._change
        draft = None if change is None else change.draft
        known = draft is not None and message.epoch == draft.epoch and sender in draft.waiting
        if change is None or draft is None or not known:
            return [Dropped(sender, "Ready", "late: of an attempt that is over")]
        if not is_readiness(message, draft.may_remember(sender), draft.may_forget(sender)):
            return self._blame(sender, message)
        effects = change.ready(draft, sender, message)
        if draft.waiting:
            return effects
        founded, method = bool(self.present.number), self._charter.method
        self.present, over = change.commit(draft, self.present)
        # The first pace, for all founders, is in the charter. If more is to change before the next
        # round, another one can wait for it.
        as_agreed = not founded and not draft.adoptions
        chooses = not as_agreed and method.given is None and not over
        step = draft.next_pace(method, self.pace, self._charter) if chooses else None
        if step is not None:
            self.pace = step.value
        elif not self._has_committed and self._term:
            # The epoch whose pace is on record may have died with all of its members.
            why = "as in the epoch that a new steward found"
            step = StepChoice(self.pace, self.present.round, why)
        self._has_committed = True
        return change.announce(draft, self.present, self.pace, step)

    def _on_refused(self, sender: int, message: m.Refused) -> list[Effect]:
        draft = None if self._change is None else self._change.draft
        if draft is None or message.epoch != draft.epoch:
            return [Dropped(sender, "Refused", "late: of an attempt that is over")]
        if sender not in draft.network:
            return [Dropped(sender, "Refused", "not a member")]
        self.register.leaving.add(sender)
        return self._halt()

    def _on_begun(self, sender: int, message: m.Begun) -> list[Effect]:
        change, epoch = self._change, self.present.number
        late = change is None or change.phase is not Phase.BEGINNING or message.epoch != epoch
        if change is None or late:
            return [Dropped(sender, "Begun", "late: that epoch is under way")]
        change.waiting.discard(sender)
        if change.waiting:
            return []
        self._change, self._between_changes = None, Phase.RUNNING
        effects: list[Effect] = []
        for node in change.dismissed:
            incarnation = self.register.incarnation(node)
            effects.append(Send((node,), m.Dismiss(epoch, incarnation=incarnation)))
        effects += [self.register.exclusion(node, epoch) for node in change.excluded]
        return effects + (self._halt() if change.is_stalled else self._next())

    # --- taking over --------------------------------------------------------------------------

    def _take_over(self, processes: Mapping[int, int]) -> list[Effect]:
        """Take over from a steward that was lost: ask these incarnations where they are."""
        self._recovery = Recovery(processes)
        if not processes:
            return self._give_up()
        return [Send(tuple(sorted(processes)), m.Inquiry())]

    def _on_situation(self, sender: int, message: m.Situation) -> list[Effect]:
        recovery, register = self._recovery, self.register
        possible = is_situation(message, sender, (self._term + 1) * _NUMBERS)
        if self.phase is Phase.ASKING and sender in recovery.waiting:
            if possible and message.incarnation < recovery.asked[sender]:
                return [Dropped(sender, "Situation", "late: of an earlier incarnation")]
            if not possible or message.incarnation > recovery.asked[sender]:
                return self._blame(sender, message)
            recovery.hear(sender, message)
            return self._recover()
        if not possible:
            return [Dropped(sender, "Situation", "this cannot be right")]
        # Of an answer that is not waited for only a wish to come counts. A node that has not
        # answered in time has been given up; a second answer is only a copy.
        given_up = bool(self.present.network) and sender not in recovery.situations
        request = request_in(message)
        if register.is_over(sender, message.incarnation) or (request is None and given_up):
            return [register.exclusion(sender, self.present.number, message.incarnation)]
        if request is None:
            return [Dropped(sender, "Situation", "it was not asked")]
        return self._on_request(sender, request)

    def _recover(self) -> list[Effect]:
        """Once all have answered, rebuild the epoch that they are in, and let all into it."""
        recovery, register = self._recovery, self.register
        if recovery.waiting:
            return []
        told, self._newest = recovery.situations, recovery.newest
        for node, situation in told.items():
            register.hear(node, situation)
        remains = rebuild(told, register.requests)
        if remains is None:
            return self._found_anew(recovery.founders) if recovery.founders else self._give_up()
        begin, self.present, register.requests = remains.begin, remains.present, remains.requests
        self.pace, register.lost = begin.pace, set(begin.lost)
        register.incarnations |= remains.incarnations
        self._agenda.resume(
            begin.until,
            members=remains.members,
            asking=remains.requests,
            known={*begin.lost, *(node for _, inside in begin.roster for node in inside)},
            times_lost=register.times_lost,
        )
        # A member that is lost is told once another epoch has begun without it, all others now.
        lost = sorted(recovery.dead - self.present.network.keys())
        self._change = Change(self._newest, self._charter, self._agenda, register)
        self._change.begin(remains.behind, remains.dismissed, [*remains.excluded, *lost])
        self._change.is_stalled = True
        if remains.behind:
            return [Send(tuple(sorted(remains.behind)), begin)]
        return self._on_begun(m.STEWARD, m.Begun(begin.epoch))

    def _found_anew(self, there: set[int]) -> list[Effect]:
        """No node has begun anything: found the network with those that are there."""
        register, network = self.register, self._charter.network
        for node in there & network.keys():
            register.incarnations[node] = self._recovery.situations[node].incarnation
            register.requests.pop(node, None)
        for node in register.requests:
            self._agenda.note_arrival(node)
        effects = self._found()
        for node in sorted(network.keys() - there):
            effects = self._on_lost(node, register.incarnation(node))
        outsiders = sorted(self._recovery.dead - network.keys())
        return effects + [register.exclusion(node, 0) for node in outsiders]

    def _give_up(self) -> list[Effect]:
        """No node is left, and nothing is remembered: of the nodes that are known, that is said."""
        present, lost = self.present, self.register.lost
        dead = self._recovery.dead if self.phase is Phase.ASKING else present.dead
        before = len(lost)
        for node in present.network:
            lost |= {node, *present.lineage.get(node, ())}
        if self._change is not None or len(lost) > before:
            # Had it ended before, then it ends otherwise now.
            self._change, self._between_changes = None, Phase.RUNNING
        present.reports = {}
        excluded = [self.register.exclusion(node, present.number) for node in sorted(dead)]
        turned_away = self.register.turn_away(present.number)
        return [*excluded, *turned_away, *self._finish(present.round)]
