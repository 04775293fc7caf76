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

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from bequest.core import mixing, steps, topology
from bequest.model.graph import epoch_edges
from bequest.protocol import messages as m
from bequest.protocol.events import (
    Adoption,
    Arrival,
    Committed,
    Dropped,
    Finished,
    Handover,
    Lost,
    Received,
    Send,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bequest.core.steps import StepChoice
    from bequest.core.topology import Network
    from bequest.protocol.events import Effect, Event


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


@dataclass(frozen=True, slots=True)
class Charter:
    """What is agreed on before a run begins, and outlives every steward.

    Attributes:
        network: who talks to whom at the beginning.
        stops: the rounds after which everybody stops; the last one is the end.
        buddies: how many keep a node's checkpoints.
        step: everybody's step at the beginning.
        adaptive: whether it is lowered where an heir becomes too stiff for it.
        losses: stop -> whose loss is to be heard of before it is over.
        arrivals: stop -> who is to ask to come (back), or to be forgotten, before it is over.
    """

    network: Mapping[int, frozenset[int]]
    stops: tuple[int, ...]
    buddies: int
    step: float
    adaptive: bool
    losses: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    arrivals: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(eq=False)
class _Draft:
    """A change under way: the next epoch as far as it is known."""

    epoch: int
    round: int
    network: Network
    restart: bool = False
    leaving: list[int] = field(default_factory=list)
    handovers: list[Handover] = field(default_factory=list)
    adoptions: list[Adoption] = field(default_factory=list)
    arrival: Arrival | None = None
    target_moves: bool = False
    forgotten: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    lineage: dict[int, tuple[int, ...]] = field(default_factory=dict)
    stiffness: dict[int, float] = field(default_factory=dict)
    buddies: dict[int, tuple[int, ...]] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)


class Steward:
    """Serialises membership changes.

    Args:
        charter: what was agreed on before.
        hosts: node -> the machine it is on.
        term: how many stewards there were before.
    """

    def __init__(self, charter: Charter, hosts: Mapping[int, str], term: int = 0) -> None:
        self._charter, self._hosts, self._term = charter, dict(hosts), term
        self._stops = sorted(charter.stops)
        self._losses = {t: list(charter.losses.get(t, ())) for t in charter.stops}
        self._arrivals = {t: list(charter.arrivals.get(t, ())) for t in charter.stops}
        # node -> how often it had been there before, and the epoch that it came in with
        self._lives: dict[int, int] = dict.fromkeys(charter.network, 0)
        self._since: dict[int, int] = {}
        # node -> the latest life that is known to be over: its requests may still be under way
        self._buried: dict[int, int] = {}
        self._heard_dead: set[tuple[int, int]] = set()
        self.phase = Phase.ASKING
        self.epoch = self._newest = 0
        self.round = 0
        self.network: Network = {}
        self.lost: set[int] = set()
        self.step = charter.step
        self._lineage: dict[int, tuple[int, ...]] = {}
        self._buddies: dict[int, tuple[int, ...]] = {}
        self._begin: m.Begin | None = None
        self._dead: set[int] = set()
        self._leaving: set[int] = set()
        self._requests: dict[int, m.Request] = {}
        self._waiting: set[int] = set()
        self._reports: dict[int, m.Halted] = {}
        self._situations: dict[int, m.Situation] = {}
        self._asked: dict[int, int] = {}
        self._draft: _Draft | None = None
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
        return self._arrange_everybody(_Draft(self._number(), 0, network))

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

    def _on_leave_request(self, sender: int, message: m.LeaveRequest) -> list[Effect]:
        if message.life != self._lives.get(sender, 0):
            return [Dropped(sender, "LeaveRequest", "late: of an earlier life")]
        self._leaving.add(sender)
        return self._next()

    def _on_accusation(self, sender: int, message: m.Accusation) -> list[Effect]:
        culprit = message.culprit
        if message.epoch < self._since.get(culprit, 0):
            return [Dropped(sender, "Accusation", "late: of an earlier life")]
        life = self._lives.get(culprit, 0)
        if self._is_arriving(culprit) and message.epoch == self.epoch:
            life = self._requests[culprit].life
        return self._on_lost(culprit, life)

    def _on_lost(self, node: int, life: int) -> list[Effect]:
        self._buried[node] = max(life, self._buried.get(node, life))
        if (node, life) not in self._heard_dead:
            self._heard_dead.add((node, life))
            self._expect_no_more(self._losses, node)
        if self.phase is Phase.ASKING:
            return self._lost_while_asking(node, life)
        request = self._requests.get(node)
        if request is not None and life >= request.life:
            del self._requests[node]
            anew = self._halt() if self._is_arriving(node) else []
            return self._exclude_life(node, request.life) + anew
        if life < self._lives.get(node, 0):
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
        told, request = self._situations.get(node), self._requests.get(node)
        outside = told is not None and told.purpose is not None
        if request is not None and request.life <= life:
            del self._requests[node]
            outside = True
        if life < self._asked.get(node, 0):
            return []  # the one that is asked is alive
        self._dead.add(node)
        self._waiting.discard(node)
        self._situations.pop(node, None)
        return (self._exclude_life(node, life) if outside else []) + self._recovered()

    def _is_arriving(self, node: int) -> bool:
        """Whether the change under way is about somebody who comes, and this is it."""
        arrival = self._draft.arrival if self._draft is not None else None
        return arrival is not None and arrival.node == node

    def _lost_before_the_beginning(self, draft: _Draft, node: int) -> list[Effect]:
        """Found the network anew, without somebody who has not even begun."""
        if len(draft.network) == 1:
            self._draft = None
            return self._exclude([*(a.node for a in draft.adoptions), node]) + self._finish(0)
        bridges = topology.remove(draft.network, node, hub=min(draft.network[node]))
        anew = _Draft(self._number(), 0, draft.network, forgotten={*draft.forgotten, node})
        anew.adoptions = [*draft.adoptions, Adoption(node, None, (node,), tuple(bridges))]
        return self._arrange_everybody(anew)

    def _on_request(self, sender: int, message: m.Request) -> list[Effect]:
        asked = self._requests.get(sender)
        latest = self._lives.get(sender, -1) if asked is None else asked.life
        if message.life <= latest:
            return [Dropped(sender, "Request", "a duplicate, or of an earlier life")]
        if message.life <= self._buried.get(sender, -1):
            return self._exclude_life(sender, message.life)
        # Whoever wants to come back is not there any more, though nobody may have noticed yet.
        founding = self._draft.network if self._draft is not None and self.epoch == 0 else {}
        effects: list[Effect] = []
        if sender not in self._dead and (sender in self.network or sender in founding):
            effects = self._on_lost(sender, self._lives.get(sender, 0))
        arriving = self._is_arriving(sender)  # in a life that must be over
        self._hosts[sender] = message.host
        self._requests[sender] = message
        self._expect_no_more(self._arrivals, sender)
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
        if self._expects(stop):
            return []
        if not self._has_work(stop):
            self._stops = [t for t in self._stops if t > stop]
            if not self._stops:
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
        return tuple(self._expects(self.round_reached)) if stopped else ()

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
        order = ("forget", "return", "join")
        ready = [node for node in self._requests if self._appointment(node) in (None, stop)]
        return sorted(ready, key=lambda node: (order.index(self._requests[node].purpose), node))

    def _appointment(self, node: int) -> int | None:
        kept = (t for t in self._stops if node in self._charter.arrivals.get(t, ()))
        return next(kept, None)

    def _has_work(self, stop: int) -> bool:
        """Whether something can be changed at a stop that everybody has reached."""
        self._leaving |= {node for node, report in self._reports.items() if report.leaving}
        return bool(self._dead or self._leavers() or self._due(stop))

    def _expects(self, stop: int) -> list[int]:
        """Return who is still to be heard of before that stop is over."""
        return [*self._losses.get(stop, ()), *self._arrivals.get(stop, ())]

    def _expect_no_more(self, appointments: dict[int, list[int]], node: int) -> None:
        """Strike the first appointment that was made with this node."""
        for t in self._stops:
            if node in appointments[t]:
                appointments[t].remove(node)
                return

    # --- Halt -> Halted -----------------------------------------------------------------------

    def _halt(self) -> list[Effect]:
        """Begin a change, or begin it anew."""
        self._draft = None
        members = self._present()
        self._waiting, self._reports = set(members), {}
        if not members:
            return self._give_up()
        self.phase = Phase.HALTING
        return [Send(members, m.Halt(self._number(), self.epoch))]

    def _present(self) -> tuple[int, ...]:
        return tuple(sorted(self.network.keys() - self._dead))

    def _number(self) -> int:
        """Return a number that no attempt has had, not even one of which nobody alive has heard."""
        self._newest = max(self._newest + 1, self._term * _NUMBERS)
        return self._newest

    def _on_halted(self, sender: int, message: m.Halted) -> list[Effect]:
        if sender not in self.network or sender in self._dead:
            return [Dropped(sender, "Halted", "not a member")]
        if self.phase in (Phase.RUNNING, Phase.BEGINNING) and message.epoch == self.epoch:
            self._reports[sender] = message
            return self._next()
        if self.phase is not Phase.HALTING or message.epoch != self._newest:
            return [Dropped(sender, "Halted", "late: of an attempt that is over")]
        self._reports[sender] = message
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
        draft = _Draft(self._newest, latest, network, lineage=dict(self._lineage))
        for node, report in self._reports.items():
            draft.lineage[node] = report.lineage
            if report.leaving:
                self._leaving.add(node)
        self._draft = draft
        if self._dead:
            self._draft_losses(draft)
        elif leavers := self._leavers():
            draft.leaving = leavers
            return self._next_leaver(draft)
        elif due := self._due(latest):
            self._draft_arrival(draft, due[0])
        return self._arrange_everybody(draft)

    # --- drafting -----------------------------------------------------------------------------

    def _draft_losses(self, draft: _Draft) -> None:
        draft.restart = True
        for node in sorted(self._dead):
            holder = self._freshest(node)
            alive = draft.network.keys() - self._dead
            near = sorted(draft.network[node] & alive) or sorted(alive)
            hub = holder if holder is not None else near[0]
            bridges = topology.remove(draft.network, node, hub=hub)
            draft.lineage.pop(node, None)
            # What the holder remembers of these will be known when it is ready.
            inside = (node, *self._lineage.get(node, ()))
            draft.adoptions.append(Adoption(node, holder, inside, tuple(bridges)))
        self._mend(draft)

    def _mend(self, draft: _Draft) -> None:
        """Connect what the lost held together by edges that a new steward has not heard of."""
        first, *others = (min(part) for part in topology.components(draft.network))
        for other in others:
            draft.network[first].add(other)
            draft.network[other].add(first)
            last = draft.adoptions[-1]
            draft.adoptions[-1] = replace(last, bridges=(*last.bridges, (first, other)))

    def _freshest(self, node: int) -> int | None:
        """Return who holds the latest checkpoint of a lost node, if anybody does."""
        held = {
            keeper: round_
            for keeper, report in self._reports.items()
            for ward, round_, _ in report.wards
            if ward == node
        }
        order = self._buddies.get(node, ())

        def preference(keeper: int) -> tuple[int, int, int]:
            place = order.index(keeper) if keeper in order else len(order)
            return -held[keeper], place, keeper

        return min(held, key=preference, default=None)

    def _next_leaver(self, draft: _Draft) -> list[Effect]:
        """Let the next leaver write its will, or go on to those who stay."""
        done = len(draft.handovers)
        if done == len(draft.leaving):
            return self._arrange_everybody(draft)
        leaver = draft.leaving[done]
        heir = topology.choose_heir(
            draft.network,
            leaver,
            leaving=draft.leaving,
            load=lambda node: len(draft.lineage[node]),
            host=self._host,
        )
        remaining = len(draft.network) - 1
        bridges = topology.remove(draft.network, leaver, hub=heir)
        draft.handovers.append(Handover(leaver, heir, tuple(bridges)))
        draft.waiting = {leaver}
        arrange = m.Arrange(
            draft.epoch,
            draft.round,
            draft.restart,
            remaining,
            heir=heir,
            remaining=remaining,
            farewells=self._farewells_to(draft, leaver),
            life=self._life(leaver),
        )
        return [Send((leaver,), arrange)]

    def _farewells_to(self, draft: _Draft, node: int) -> tuple[int, ...]:
        return tuple(
            h.node for h in draft.handovers if h.heir == node and h.node not in draft.silent
        )

    def _draft_arrival(self, draft: _Draft, node: int) -> None:
        request = self._requests[node]
        holder = next((h for h, inside in draft.lineage.items() if node in inside), None)
        if request.purpose == "forget":
            draft.arrival = Arrival("forget", node, holder, None, ())
            draft.target_moves = True
            return
        near = tuple(sorted(set(request.known) & draft.network.keys()))
        if not near:
            near = (holder if holder is not None else min(draft.network),)
        sponsor = holder if holder is not None else near[0]
        draft.target_moves = request.purpose == "join" or (holder is None and node not in self.lost)
        draft.network[node] = set(near)
        for other in near:
            draft.network[other].add(node)
        draft.lineage[node] = ()
        draft.arrival = Arrival(request.purpose, node, holder, sponsor, near)

    # --- Arrange -> Ready ---------------------------------------------------------------------

    def _arrange_everybody(self, draft: _Draft) -> list[Effect]:
        """Tell everybody who will be in the next epoch, and a claimant, what to prepare."""
        self._draft = draft
        nodes, edges = epoch_edges(draft.network)
        weights = mixing.metropolis(edges, nodes.size).tocsr()
        row = {int(node): k for k, node in enumerate(nodes)}
        count = self._charter.buddies
        draft.buddies = buddies = {
            node: topology.choose_buddies(draft.network, node, count=count, host=self._host)
            for node in draft.network
        }
        wards: dict[int, list[int]] = {node: [] for node in draft.network}
        for node, keepers in sorted(buddies.items()):
            for keeper in keepers:
                wards[keeper].append(node)
        arrival = draft.arrival
        effects: list[Effect] = []
        for node in sorted(draft.network):
            near = tuple(sorted(draft.network[node]))
            comes = arrival is not None and arrival.node == node
            arrange = m.Arrange(
                draft.epoch,
                draft.round,
                draft.restart,
                len(draft.network),
                near,
                tuple(float(weights[row[node], row[other]]) for other in near),
                buddies[node],
                tuple(wards[node]),
                farewells=self._farewells_to(draft, node),
                adopted=tuple(a.node for a in draft.adoptions if a.adopter == node),
                claim=arrival.holder if arrival is not None and comes else None,
                claimant=arrival.node if arrival is not None and arrival.holder == node else None,
                newcomer=arrival.node if arrival is not None and arrival.sponsor == node else None,
                sponsor=arrival.sponsor if arrival is not None and comes else None,
                target_moves=draft.target_moves,
                stays=node in self._leaving,
                life=self._life(node),
            )
            effects.append(Send((node,), arrange))
        draft.waiting = set(draft.network)
        if arrival is not None and arrival.purpose == "forget":
            claim = m.Arrange(
                draft.epoch,
                draft.round,
                draft.restart,
                len(draft.network),
                claim=arrival.holder,
                life=self._life(arrival.node),
            )
            draft.waiting.add(arrival.node)
            effects.append(Send((arrival.node,), claim))
        return effects

    def _life(self, node: int) -> int:
        """Return which life of a node an order is for: the one that asks, or the one that is."""
        request = self._requests.get(node) if self._is_arriving(node) else None
        return self._lives.get(node, 0) if request is None else request.life

    def _host(self, node: int) -> str:
        return self._hosts.get(node, f"node {node}")

    def _on_ready(self, sender: int, message: m.Ready) -> list[Effect]:
        draft = self._draft
        if draft is None or message.epoch != draft.epoch or sender not in draft.waiting:
            return [Dropped(sender, "Ready", "late: of an attempt that is over")]
        draft.waiting.discard(sender)
        if len(draft.handovers) and draft.handovers[-1].node == sender:
            return self._leaver_is_ready(draft, message)
        if sender in draft.network:
            draft.lineage[sender] = message.lineage
            draft.stiffness[sender] = message.stiffness
        return [] if draft.waiting else self._commit(draft)

    def _leaver_is_ready(self, draft: _Draft, message: m.Ready) -> list[Effect]:
        """Note what its will decided: the next leaver's heir depends on it."""
        handover = draft.handovers[-1]
        inside = {handover.node, *draft.lineage.pop(handover.node)} - set(message.forgets)
        draft.forgotten |= set(message.forgets)
        if message.restart:
            draft.restart = True
            draft.silent.add(handover.node)
        else:
            merged = {*draft.lineage[handover.heir], *inside}
            draft.lineage[handover.heir] = tuple(sorted(merged))
        return self._next_leaver(draft)

    def _on_refused(self, sender: int, message: m.Refused) -> list[Effect]:
        if self._draft is None or message.epoch != self._draft.epoch:
            return [Dropped(sender, "Refused", "late: of an attempt that is over")]
        self._leaving.add(sender)
        return self._halt()

    # --- Begin -> Begun -> Dismiss ------------------------------------------------------------

    def _commit(self, draft: _Draft) -> list[Effect]:
        arrival = draft.arrival
        leavers = [h.node for h in draft.handovers]
        for index, adoption in enumerate(draft.adoptions):
            kept = () if adoption.adopter is None else draft.lineage[adoption.adopter]
            gone = tuple(sorted(set(adoption.lost) - set(kept)))
            draft.adoptions[index] = replace(adoption, lost=gone)
            draft.forgotten |= set(gone)
        self._excluded = [a.node for a in draft.adoptions]
        self._dismissed = leavers
        self.lost |= draft.forgotten
        if arrival is not None:
            self._lives[arrival.node] = self._requests.pop(arrival.node).life
            self._since[arrival.node] = draft.epoch
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
        if not self._expects(self.round) and not self._has_work(self.round):
            self._stops = [t for t in self._stops if t > self.round]
        until = self._stops[0] if self._stops else self.round
        # If more is to change before the next round, the step can wait for it.
        over = until == self.round and bool(self._stops)
        step = None if over else self._lowered(draft)
        roster = tuple(sorted(self._lineage.items()))
        lost = tuple(sorted(self.lost))
        self._begin = m.Begin(self.epoch, self.step, until, roster, lost)
        self.phase, self._waiting = Phase.BEGINNING, set(self.network)
        committed = Committed(
            self.epoch,
            self.round,
            draft.restart,
            tuple(sorted(self.network)),
            tuple(draft.handovers),
            tuple(draft.adoptions),
            arrival,
            step,
            lost,
        )
        return [committed, Send(tuple(sorted(self.network)), self._begin)]

    def _lowered(self, draft: _Draft) -> StepChoice | None:
        """Lower the step for everybody if what somebody now carries makes it unsafe."""
        if not self._charter.adaptive:
            return None
        nodes, edges = epoch_edges(draft.network)
        choice = steps.lowered(
            self.step,
            stiffness=draft.stiffness,
            smallest_eigenvalue=mixing.smallest_eigenvalue(mixing.metropolis(edges, nodes.size)),
            since=draft.round,
        )
        if choice is not None:
            self.step = choice.value
        return choice

    def _on_begun(self, sender: int, message: m.Begun) -> list[Effect]:
        if self.phase is not Phase.BEGINNING or message.epoch != self.epoch:
            return [Dropped(sender, "Begun", "late: that epoch is under way")]
        self._waiting.discard(sender)
        if self._waiting:
            return []
        self.phase = Phase.RUNNING
        effects: list[Effect] = []
        for node in self._dismissed:
            life = self._lives.get(node, 0)
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
            for effect in self._exclude_life(
                node, max(self._lives.get(node, 0), self._buried.get(node, 0))
            )
        ]

    def _exclude_life(self, node: int, life: int) -> list[Effect]:
        return [Send((node,), m.Dismiss(self.epoch, excluded=True, life=life))]

    # --- taking over --------------------------------------------------------------------------

    def _on_situation(self, sender: int, message: m.Situation) -> list[Effect]:
        if self.phase is not Phase.ASKING or sender not in self._waiting:
            return self._unexpected(sender, message)
        self._situations[sender] = message
        self._waiting.discard(sender)
        return self._recovered()

    def _unexpected(self, sender: int, message: m.Situation) -> list[Effect]:
        """Of an answer that is not waited for only a wish to come counts."""
        # Who has not answered in time has been given up; a second answer is only a copy.
        given_up = bool(self.network) and sender not in self._situations
        if message.life <= self._buried.get(sender, -1) or (message.purpose is None and given_up):
            return self._exclude_life(sender, message.life)
        if message.purpose is None:
            return [Dropped(sender, "Situation", "nobody asked")]
        request = m.Request(message.purpose, message.host, message.known, message.life)
        return self._on_request(sender, request)

    def _recovered(self) -> list[Effect]:
        """Rebuild the epoch from what everybody said, and let everybody into it."""
        if self._waiting:
            return []
        told = self._situations
        self._newest = max((s.newest for s in told.values()), default=0)
        for node, situation in told.items():
            self._hosts[node] = situation.host
            asked = self._requests.get(node)
            if situation.purpose is None:
                self._lives[node] = situation.life
            elif asked is None or asked.life <= situation.life:
                self._requests[node] = m.Request(
                    situation.purpose, situation.host, situation.known, situation.life
                )
        begun = [s.begun for s in told.values() if s.begun is not None]
        if not begun:
            founders = any(situation.purpose is None for situation in told.values())
            # Whoever only asks to come back has nobody left to come back to.
            return self._found_anew() if founders else self._give_up()
        self._begin = max(begun, key=lambda begin: begin.epoch)
        self.epoch, self.step = self._begin.epoch, self._begin.step
        self.lost, self._lineage = set(self._begin.lost), dict(self._begin.roster)
        places = {
            node: place
            for node, situation in told.items()
            for place in (situation.present, situation.prepared)
            if place is not None and place.epoch == self.epoch
        }
        members = {node: place for node, place in places.items() if place.neighbours is not None}
        self.network = {node: set() for node in self._lineage}
        for node, place in members.items():
            self._buddies[node], self.round = place.buddies, place.round
            for other in place.neighbours or ():
                self.network[node].add(other)
                self.network[other].add(node)
        # Whoever asks to come in a later life has died since it answered.
        reborn = {n for n, r in self._requests.items() if n in told and r.life > told[n].life}
        self._dead = (self.network.keys() - members.keys()) | (reborn & members.keys())
        self._requests = {n: r for n, r in self._requests.items() if n in reborn or n not in places}
        self._lives |= {node: told[node].life for node in places}
        self._dismissed = sorted(places.keys() - members.keys())
        self._excluded = sorted(told.keys() - places.keys() - self._requests.keys())
        self._stops = [t for t in self._stops if t >= self._begin.until]
        for node in list(self._arrivals.get(self._begin.until, ())):
            if node in self._requests or node in members:
                self._expect_no_more(self._arrivals, node)
        behind = [
            node for node in members.keys() - reborn if told[node].present is not members[node]
        ]
        self.phase, self._stalled = Phase.BEGINNING, True
        self._waiting = set(behind)
        if behind:
            return [Send(tuple(sorted(behind)), self._begin)]
        return self._on_begun(m.STEWARD, m.Begun(self.epoch))

    def _give_up(self) -> list[Effect]:
        """Nobody is left, and nothing is remembered: of those who are known, that is said."""
        for node in self.network:
            self.lost |= {node, *self._lineage.get(node, ())}
        return self._exclude(sorted(self._dead)) + self._finish(self.round)

    def _found_anew(self) -> list[Effect]:
        """Nobody has begun anything: found the network with those who are there."""
        self._dead = set()
        # Whoever asks to come back to what has never begun is as good as a founder.
        there = {n for n, s in self._situations.items() if s.purpose in (None, "return")}
        for node in there & self._charter.network.keys():
            self._lives[node] = self._situations[node].life
            self._requests.pop(node, None)
        effects = self._found()
        for node in sorted(self._charter.network.keys() - there):
            effects = self._on_lost(node, self._lives[node])
        return effects
