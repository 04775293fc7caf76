"""The steward: it serialises membership changes into epochs, and sees no vector.

Rounds go on without it. A change takes four steps, each answered by everybody before the next::

    Halt -> Halted      everybody stops; whoever is behind advances to the latest round
    Arrange -> Ready    farewells, adoptions and withdrawals are prepared and written through
    Begin -> Begun      they count from now on, everywhere or nowhere
    Dismiss             only now may leavers go

Whatever goes wrong before ``Begin`` (a loss, an heir that refuses) starts the change anew under a
higher number, and everything prepared so far is void. Nothing is lost by that: leavers are still
there, and checkpoints are still kept. A steward that is lost itself is replaced by one that asks
everybody where they are.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from bequest.protocol import messages as m
from bequest.protocol.charter import Agenda, Charter
from bequest.protocol.drafting import Draft
from bequest.protocol.events import Dropped, Finished, Lost, Received, Send
from bequest.protocol.register import Register
from bequest.protocol.scrutiny import is_readiness, is_report, is_situation
from bequest.protocol.succession import rebuild, request_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bequest.core.topology import Network
    from bequest.protocol.events import Effect, Event

__all__ = ["Charter", "Phase", "Steward"]

# More attempts than one steward will ever make: the next one's numbers begin after these.
_NUMBERS = 1 << 20


class Phase(StrEnum):
    """What the steward is waiting for."""

    ASKING = "asking"
    RUNNING = "running"
    HALTING = "halting"
    ARRANGING = "arranging"
    BEGINNING = "beginning"
    FINISHED = "finished"


class Steward:
    """Serialises membership changes.

    Args:
        charter: what was agreed on before.
        hosts: node -> the host it is on; "machine/host" where hosts share machines.
        term: how many stewards there were before.
    """

    def __init__(self, charter: Charter, hosts: Mapping[int, str], term: int = 0) -> None:
        self._charter, self._term = charter, term
        self._agenda = Agenda(charter)
        self._register = Register(hosts, charter.network)
        self.phase = Phase.ASKING
        self.epoch = self._newest = 0
        self.round = 0
        self.network: Network = {}
        self.lost: set[int] = set()
        self.step = charter.step
        # The round after which every member of the present epoch stops.
        self._until = 0
        self._lineage: dict[int, tuple[int, ...]] = {}
        self._buddies: dict[int, tuple[int, ...]] = {}
        self._dead: set[int] = set()
        self._leaving: set[int] = set()
        self._waiting: set[int] = set()
        self._reports: dict[int, m.Halted] = {}
        self._situations: dict[int, m.Situation] = {}
        self._asked: dict[int, int] = {}
        self._draft: Draft | None = None
        self._dismissed: list[int] = []
        self._excluded: list[int] = []
        # Whether everybody has to be set going again, having been stopped by another steward.
        self._stalled = False

    # --- beginnings ---------------------------------------------------------------------------

    def found(self) -> list[Effect]:
        """Begin: the first nodes prepare the first epoch."""
        return self._signed(self._found())

    def _found(self) -> list[Effect]:
        self.phase = Phase.ARRANGING
        network = {node: set(others) for node, others in self._charter.network.items()}
        return self._arrange_everybody(Draft(self._number(), 0, network))

    def _signed(self, effects: list[Effect]) -> list[Effect]:
        """Let every order say from which steward it comes."""
        if not self._term:
            return effects
        return [
            Send(e.to, replace(e.message, term=self._term))
            if isinstance(e, Send) and isinstance(e.message, m.Order)
            else e
            for e in effects
        ]

    def recover(self, processes: Mapping[int, int]) -> list[Effect]:
        """Take over from a steward that was lost: ask everybody, in this life, where they are."""
        self._asked, self._waiting = dict(processes), set(processes)
        if not self._waiting:
            return self._give_up()
        return self._signed([Send(tuple(sorted(self._waiting)), m.Inquiry())])

    # --- events -------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Effect]:
        """Take in one event; return what is to be done about it."""
        return self._signed(self._handle(event))

    def _handle(self, event: Event) -> list[Effect]:
        if isinstance(event, Lost):
            return self._on_lost(event.node, event.life)
        assert isinstance(event, Received)  # noqa: S101 - nobody asks the steward to leave
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
        return [Dropped(sender, type(message).__name__, "not the steward's business")]

    def _takes_part(self, node: int) -> bool:
        """Whether a node is in the present epoch or in the one that is prepared, or is asked."""
        draft = self._draft
        prepares = draft is not None and (node in draft.network or draft.is_about(node))
        asked = self.phase is Phase.ASKING and node in self._asked
        return prepares or asked or node in self.network

    def _blame(self, sender: int, message: m.Message) -> list[Effect]:
        """Give up a node that says what cannot be right, as if it were lost, and tell it so."""
        asked = self._asked.get(sender) if self.phase is Phase.ASKING else None
        life = self._life(sender) if asked is None else asked
        record = Dropped(sender, type(message).__name__, "this cannot be right")
        return [record, *self._exclude_life(sender, life), *self._on_lost(sender, life)]

    def _on_leave_request(self, sender: int, message: m.LeaveRequest) -> list[Effect]:
        if not self._takes_part(sender):
            return [Dropped(sender, "LeaveRequest", "not a member")]
        if message.life != self._register.life(sender):
            return [Dropped(sender, "LeaveRequest", "late: of an earlier life")]
        self._leaving.add(sender)
        return self._next()

    def _on_accusation(self, sender: int, message: m.Accusation) -> list[Effect]:
        culprit = message.culprit
        if not (self._takes_part(sender) and self._takes_part(culprit)):
            return [Dropped(sender, "Accusation", "not of a member about another")]
        if self.phase is not Phase.ASKING and message.epoch > self._newest:
            return self._blame(sender, message)
        if self._register.came_after(message.epoch, culprit):
            return [Dropped(sender, "Accusation", "late: of an earlier life")]
        life = self._register.life(culprit)
        if self._is_arriving(culprit) and message.epoch == self.epoch:
            life = self._register.requests[culprit].life
        return self._on_lost(culprit, life)

    def _on_lost(self, node: int, life: int) -> list[Effect]:
        # While it asks nobody can say which appointments are still ahead.
        if self._register.bury(node, life) and self.phase is not Phase.ASKING:
            self._agenda.note_loss(node)
            if not self._register.is_known(node, life):
                self._agenda.note_arrival(node)  # it died before it could ask
        if self.phase is Phase.ASKING:
            return self._lost_while_asking(node, life)
        if (request := self._register.strike(node, life)) is not None:
            anew = self._halt() if self._is_arriving(node) else []
            return self._exclude_life(node, request.life) + anew
        if life < self._register.life(node):
            return [Dropped(node, "Lost", "late: of an earlier life")]
        self._leaving.discard(node)
        founding = self._draft if self.epoch == 0 else None
        if founding is not None and node in founding.network:
            return self._lost_before_the_beginning(founding, node)
        if node not in self.network or node in self._dead:
            return self._next()
        self._dead.add(node)
        if self.phase in (Phase.HALTING, Phase.ARRANGING):
            return self._halt()
        if self.phase is Phase.BEGINNING:
            return self._on_begun(node, m.Begun(self.epoch))
        return self._next()

    def _lost_while_asking(self, node: int, life: int) -> list[Effect]:
        told, struck = self._situations.get(node), self._register.strike(node, life)
        outside = struck is not None or (told is not None and told.purpose is not None)
        if life < self._asked.get(node, 0):
            return []  # the one that is asked is alive
        self._dead.add(node)
        self._waiting.discard(node)
        self._situations.pop(node, None)
        return (self._exclude_life(node, life) if outside else []) + self._recovered()

    def _is_arriving(self, node: int) -> bool:
        """Whether the change under way is about somebody who comes, and this is it."""
        return self._draft is not None and self._draft.is_about(node)

    def _lost_before_the_beginning(self, draft: Draft, node: int) -> list[Effect]:
        """Found the network anew, without somebody who has not even begun."""
        if len(draft.network) == 1:
            self._draft = None
            return self._exclude([*(a.node for a in draft.adoptions), node]) + self._finish(0)
        return self._arrange_everybody(draft.without(node, self._number()))

    def _on_request(self, sender: int, message: m.Request) -> list[Effect]:
        if self._register.is_known(sender, message.life):
            return [Dropped(sender, "Request", "a duplicate, or of an earlier life")]
        if self._register.is_over(sender, message.life):
            return self._exclude_life(sender, message.life)
        # Whoever wants to come back is not there any more, though nobody may have noticed yet.
        founding = self._draft.network if self._draft is not None and self.epoch == 0 else {}
        effects: list[Effect] = []
        if sender not in self._dead and (sender in self.network or sender in founding):
            effects = self._on_lost(sender, self._register.life(sender))
        arriving = self._is_arriving(sender)  # in a life that must be over
        self._register.enter(sender, message)
        if self.phase is not Phase.ASKING:
            self._agenda.note_arrival(sender)
        return effects + (self._halt() if arriving else self._next())

    # --- when to change -----------------------------------------------------------------------

    def _next(self) -> list[Effect]:
        """Begin a change if there is something to change and nothing under way."""
        if self.phase not in (Phase.RUNNING, Phase.FINISHED) or not self.network:
            return []
        if self._dead:
            return self._halt()
        if self._reports.keys() >= self.network.keys():
            return self._next_at(self.round_reached)
        # Requests that nobody made in advance do not wait for a stop.
        return self._halt() if self._leavers() or self._due(None) else []

    def _next_at(self, stop: int) -> list[Effect]:
        """Go on from a stop that everybody has reached."""
        if self._expected(stop):
            return []
        if not self._has_work(stop):
            self._agenda.pass_by(stop)
            if not self._agenda.stops:
                return self._finish(stop)
        return self._halt()

    def _finish(self, t: int) -> list[Effect]:
        """Everybody is there; what still happens is dealt with all the same."""
        if self.phase is Phase.FINISHED:
            return []
        self.phase = Phase.FINISHED
        return [Finished(t)]

    @property
    def awaited(self) -> tuple[int, ...]:
        """Who is to be heard of before everybody can go on from the stop they have reached."""
        stopped = self.phase is Phase.RUNNING and self._reports.keys() >= self.network.keys()
        return tuple(self._expected(self.round_reached)) if stopped else ()

    def _expected(self, stop: int) -> list[int]:
        """Return who is still to be heard of before a stop is over."""
        return self._agenda.expects(stop, self.network.keys() - self._dead)

    @property
    def round_reached(self) -> int:
        """The round after which those stopped who have reported."""
        return max(report.round for report in self._reports.values())

    def _leavers(self) -> list[int]:
        """Return who leaves next; the last one cannot: somebody has to remember."""
        leavers = sorted(self._leaving & (self.network.keys() - self._dead))
        return leavers[:-1] if len(leavers) == len(self.network) else leavers

    def _due(self, stop: int | None) -> list[int]:
        """Return whose request can be dealt with now: without an appointment, or at its stop."""
        order, appointment = ("forget", "return", "join"), self._agenda.appointment
        requests = self._register.requests
        ready = [node for node in requests if appointment(node) in (None, stop)]
        return sorted(ready, key=lambda node: (order.index(requests[node].purpose), node))

    def _has_work(self, stop: int) -> bool:
        """Whether something can be changed at a stop that everybody has reached."""
        self._leaving |= {node for node, report in self._reports.items() if report.leaving}
        return bool(self._dead or self._leavers() or self._due(stop))

    # --- Halt -> Halted -----------------------------------------------------------------------

    def _halt(self) -> list[Effect]:
        """Begin a change, or begin it anew."""
        self._draft = None
        members = tuple(sorted(self.network.keys() - self._dead))
        self._waiting, self._reports = set(members), {}
        if not members:
            return self._give_up()
        self.phase = Phase.HALTING
        return [Send(members, m.Halt(self._number(), self.epoch))]

    def _number(self) -> int:
        """Return a number that no attempt has had, not even one of which nobody alive has heard."""
        self._newest = max(self._newest + 1, self._term * _NUMBERS)
        return self._newest

    def _on_halted(self, sender: int, message: m.Halted) -> list[Effect]:
        if sender not in self.network or sender in self._dead:
            return [Dropped(sender, "Halted", "not a member")]
        by_itself = self.phase in (Phase.RUNNING, Phase.BEGINNING) and message.epoch == self.epoch
        asked = self.phase is Phase.HALTING and message.epoch == self._newest
        possible = is_report(message, sender, self._lineage, self.round, self._until)
        # A copy of what it reported for this epoch to begin looks as if it had stopped by itself.
        before = message.round <= self.round and not (possible and self.round == self._until)
        if not asked and (not by_itself or before):
            return [Dropped(sender, "Halted", "late: of an attempt that is over")]
        if not possible:
            return self._blame(sender, message)
        self._reports[sender] = message
        if by_itself:
            return self._next()
        self._waiting.discard(sender)
        if self._waiting:
            return []
        return self._gathered()

    def _gathered(self) -> list[Effect]:
        """Everybody has stopped: advance those behind, or draft the change."""
        latest = self.round_reached
        behind = tuple(node for node, report in self._reports.items() if report.round < latest)
        if behind and not self._dead:
            self._waiting = set(behind)
            return [Send(tuple(sorted(behind)), m.Advance(self._newest, latest))]
        self.phase = Phase.ARRANGING
        network = {node: set(others) for node, others in self.network.items()}
        draft = Draft(self._newest, latest, network, lineage=dict(self._lineage))
        for node, report in self._reports.items():
            draft.lineage[node] = report.lineage
            if report.leaving:
                self._leaving.add(node)
        self._draft = draft
        if self._dead:
            draft.lose(self._dead, self._reports, self._buddies)
        elif leavers := self._leavers():
            draft.leaving = leavers
            return self._next_leaver(draft)
        elif due := self._due(latest):
            draft.admit(due[0], self._register.requests[due[0]], self.lost)
        return self._arrange_everybody(draft)

    # --- Arrange -> Ready ---------------------------------------------------------------------

    def _arrange_everybody(self, draft: Draft) -> list[Effect]:
        """Tell everybody who will be in the next epoch, and a claimant, what to prepare."""
        self._draft = draft
        return draft.arrange(
            buddies=self._charter.buddies,
            leaving=self._leaving,
            domains=self._register.domains,
            life=self._life,
        )

    def _next_leaver(self, draft: Draft) -> list[Effect]:
        """Let the next leaver write its will, or go on to those who stay."""
        if len(draft.handovers) == len(draft.leaving):
            return self._arrange_everybody(draft)
        return [draft.ask_next_leaver(domains=self._register.domains, life=self._life)]

    def _life(self, node: int) -> int:
        """Return which life of a node an order is for: the one that asks, or the one that is."""
        request = self._register.requests.get(node) if self._is_arriving(node) else None
        return self._register.life(node) if request is None else request.life

    def _on_ready(self, sender: int, message: m.Ready) -> list[Effect]:
        draft = self._draft
        if draft is None or message.epoch != draft.epoch or sender not in draft.waiting:
            return [Dropped(sender, "Ready", "late: of an attempt that is over")]
        forgets = draft.may_forget(sender)
        if not is_readiness(message, draft.may_remember(sender), forgets):
            return self._blame(sender, message)
        draft.waiting.discard(sender)
        if forgets:
            return self._leaver_is_ready(draft, message)
        if sender in draft.network:
            draft.lineage[sender] = message.lineage
            draft.stiffness[sender] = message.stiffness
        return [] if draft.waiting else self._commit(draft)

    def _leaver_is_ready(self, draft: Draft, message: m.Ready) -> list[Effect]:
        draft.note_will(message)
        return self._next_leaver(draft)

    def _on_refused(self, sender: int, message: m.Refused) -> list[Effect]:
        if self._draft is None or message.epoch != self._draft.epoch:
            return [Dropped(sender, "Refused", "late: of an attempt that is over")]
        if sender not in self._draft.network:
            return [Dropped(sender, "Refused", "not a member")]
        self._leaving.add(sender)
        return self._halt()

    # --- Begin -> Begun -> Dismiss ------------------------------------------------------------

    def _commit(self, draft: Draft) -> list[Effect]:
        arrival = draft.arrival
        leavers = [h.node for h in draft.handovers]
        draft.count_lost()
        self._excluded = [a.node for a in draft.adoptions]
        self._dismissed = leavers
        self.lost |= draft.forgotten
        if arrival is not None:
            self._register.admit(arrival.node, draft.epoch)
            self._leaving.discard(arrival.node)  # that was another life's wish
            self.lost.discard(arrival.node)
            if arrival.purpose == "forget":
                self._dismissed = [arrival.node]
        self._leaving -= {*leavers, *self._excluded}
        self._dead -= set(self._excluded)
        self.network, self._lineage = draft.network, draft.lineage
        self._buddies = draft.buddies
        self.epoch, self.round, self._draft = draft.epoch, draft.round, None
        self._reports = {}
        if not self._expected(self.round) and not self._has_work(self.round):
            self._agenda.pass_by(self.round)
        stops = self._agenda.stops
        until = self._until = stops[0] if stops else self.round
        # If more is to change before the next round, the step can wait for it.
        over = until == self.round and bool(stops)
        step = draft.lowered(self.step) if self._charter.adaptive and not over else None
        if step is not None:
            self.step = step.value
        members, lost = tuple(sorted(self.network)), tuple(sorted(self.lost))
        roster = tuple(sorted(self._lineage.items()))
        self.phase, self._waiting = Phase.BEGINNING, set(members)
        begin = m.Begin(self.epoch, self.step, until, roster, lost)
        return [draft.committed(step, lost), Send(members, begin)]

    def _on_begun(self, sender: int, message: m.Begun) -> list[Effect]:
        if self.phase is not Phase.BEGINNING or message.epoch != self.epoch:
            return [Dropped(sender, "Begun", "late: that epoch is under way")]
        self._waiting.discard(sender)
        if self._waiting:
            return []
        self.phase = Phase.RUNNING
        effects: list[Effect] = []
        for node in self._dismissed:
            life = self._register.life(node)
            effects.append(Send((node,), m.Dismiss(self.epoch, life=life)))
        effects += self._exclude(self._excluded)
        self._dismissed, self._excluded = [], []
        if self._stalled:
            self._stalled = False
            return effects + self._halt()
        return effects + self._next()

    def _exclude(self, nodes: Iterable[int]) -> list[Effect]:
        """Tell those who were taken for lost, should they still be there."""
        return [
            effect
            for node in nodes
            for effect in self._exclude_life(node, self._register.latest(node))
        ]

    def _exclude_life(self, node: int, life: int) -> list[Effect]:
        return [Send((node,), m.Dismiss(self.epoch, excluded=True, life=life))]

    # --- taking over --------------------------------------------------------------------------

    def _on_situation(self, sender: int, message: m.Situation) -> list[Effect]:
        possible = is_situation(message, sender, (self._term + 1) * _NUMBERS)
        if self.phase is Phase.ASKING and sender in self._waiting:
            if not possible or message.life != self._asked[sender]:
                return self._blame(sender, message)
            self._situations[sender] = message
            self._waiting.discard(sender)
            return self._recovered()
        if not possible:
            return [Dropped(sender, "Situation", "this cannot be right")]
        return self._unexpected(sender, message)

    def _unexpected(self, sender: int, message: m.Situation) -> list[Effect]:
        """Of an answer that is not waited for only a wish to come counts."""
        # Who has not answered in time has been given up; a second answer is only a copy.
        given_up = bool(self.network) and sender not in self._situations
        request = request_in(message)
        if self._register.is_over(sender, message.life) or (request is None and given_up):
            return self._exclude_life(sender, message.life)
        if request is None:
            return [Dropped(sender, "Situation", "nobody asked")]
        return self._on_request(sender, request)

    def _recovered(self) -> list[Effect]:
        """Rebuild the epoch from what everybody said, and let everybody into it."""
        if self._waiting:
            return []
        told = self._situations
        self._newest = max((s.newest for s in told.values()), default=0)
        for node, situation in told.items():
            self._register.hear(node, situation)
        remains = rebuild(told, self._register.requests)
        if remains is None:
            founders = any(situation.purpose is None for situation in told.values())
            # Whoever only asks to come back has nobody left to come back to.
            return self._found_anew() if founders else self._give_up()
        begin, self._register.requests = remains.begin, remains.requests
        self.epoch, self.round, self.step = begin.epoch, remains.round, begin.step
        self._until = begin.until
        self.lost, self._lineage = set(begin.lost), dict(begin.roster)
        self.network, self._buddies, self._dead = remains.network, remains.buddies, remains.dead
        self._register.lives |= remains.lives
        self._dismissed, self._excluded = remains.dismissed, remains.excluded
        self._agenda.resume(
            begin.until,
            members=remains.members,
            asking=remains.requests,
            losses=self._register.losses,
        )
        self.phase, self._stalled = Phase.BEGINNING, True
        self._waiting = remains.behind
        if remains.behind:
            return [Send(tuple(sorted(remains.behind)), begin)]
        return self._on_begun(m.STEWARD, m.Begun(self.epoch))

    def _give_up(self) -> list[Effect]:
        """Nobody is left, and nothing is remembered: of those who are known, that is said."""
        before = set(self.lost)
        for node in self.network:
            self.lost |= {node, *self._lineage.get(node, ())}
        if self.lost != before:
            self.phase = Phase.HALTING  # if it had ended before, then it ends otherwise now
        return self._exclude(sorted(self._dead)) + self._finish(self.round)

    def _found_anew(self) -> list[Effect]:
        """Nobody has begun anything: found the network with those who are there."""
        self._dead = set()
        # Whoever asks to come back to what has never begun is as good as a founder.
        there = {n for n, s in self._situations.items() if s.purpose in (None, "return")}
        for node in there & self._charter.network.keys():
            self._register.lives[node] = self._situations[node].life
            self._register.requests.pop(node, None)
        effects = self._found()
        for node in sorted(self._charter.network.keys() - there):
            effects = self._on_lost(node, self._register.life(node))
        return effects
