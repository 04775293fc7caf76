"""Watches over the nodes of one run, wherever they run: events in, commands out.

No I/O and no clock: time is an argument. Whatever carries real nodes (a virtual network, a
cluster) tells the supervisor what it sees, and carries out what the supervisor wants. The
supervisor takes no part in the rounds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from bequest.engines.runtime.incarnations import Incarnations
from bequest.engines.runtime.ledger import Ledger
from bequest.engines.runtime.node_setup import comers, departure_after, outcome_of, setup_of
from bequest.engines.runtime.report_batch import Ended, Told
from bequest.engines.runtime.report_order import ReportOrder
from bequest.engines.runtime.round_recorder import RoundRecorder
from bequest.engines.runtime.stewards import Stewards
from bequest.protocol.events import Committed, Failed, Finished

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bequest.core.legacy import Legacy
    from bequest.core.steps import StepChoice
    from bequest.engines.runtime.node_setup import FinalState, NodeSetup
    from bequest.engines.runtime.report_batch import ReportItem
    from bequest.engines.runtime.steward_desk import Note
    from bequest.model.outcome import Outcome
    from bequest.model.plan import Plan
    from bequest.protocol.events import Effect, Lost
    from bequest.protocol.messages import Purpose

# A planned crash is noticed when all other nodes wait for it, or after so many seconds.
_UNNOTICED = 2.0


class DeclareLost(NamedTuple):
    """Tell the steward that a node is lost."""

    verdict: Lost


class StartNode(NamedTuple):
    """Start a node that comes from outside; then say ``started``, ``refused`` or ``retry``.

    Attributes:
        setup: everything that it begins with.
        host: where.
        leaves: the round after which it leaves again, if it is planned.
    """

    setup: NodeSetup
    host: str
    leaves: int | None


class Relocate(NamedTuple):
    """Tell every host and the steward that a node is on another host from now on."""

    node: int
    host: str


class GiveReceipt(NamedTuple):
    """Tell a node what the network remembers of it."""

    node: int
    host: str
    receipt: Legacy


class EmptyHost(NamedTuple):
    """Ask every node on a host to leave."""

    host: str


class EndHost(NamedTuple):
    """End a host: its nodes have left."""

    host: str


class Tell(NamedTuple):
    """Tell the user."""

    what: str


class TakeStock(NamedTuple):
    """All nodes have stopped, or have escaped: collect their final states."""


Command: TypeAlias = (
    DeclareLost | StartNode | Relocate | GiveReceipt | EmptyHost | EndHost | Tell | TakeStock
)


class Supervisor:
    """One run as its carrier sees it.

    Args:
        plan: the run.
        first: its first step.
        hosts: node -> the name of its host, for every node of the plan.
        domain_of: host -> its name with what it can fail together with ("machine/host").
        records_rounds: whether the states of all nodes arrive here, so that rounds can be measured.
            Without them the supervisor keeps the records of who came and went; there is no
            ``outcome``, and each node knows its own result.

    Attributes:
        ledger: the records.
        recorder: measures the rounds; None without ``records_rounds``.
        order: puts reports into order.
        incarnations: which nodes run.
        stewards: the stewards, one after the other.
        host_states: host -> "there", "leaving" or "gone".
    """

    def __init__(
        self,
        plan: Plan,
        first: StepChoice,
        hosts: Mapping[int, str],
        *,
        domain_of: Callable[[str], str] = str,
        records_rounds: bool = True,
    ) -> None:
        self._plan, self._domain_of = plan, domain_of
        self.ledger = Ledger(plan, first)
        self.recorder = RoundRecorder(plan) if records_rounds else None
        self.order = ReportOrder(self.ledger, self.recorder, self._begun)
        self.incarnations = Incarnations(hosts, plan.network())
        self.stewards = Stewards(self.incarnations, self.order)
        self.host_states = dict.fromkeys(hosts.values(), "there")
        self._commands: list[Command] = []
        # What the steward said last, if it waits for nodes.
        self._awaited: Note | None = None
        # node -> why and after which round it is being started
        self._starting: dict[int, tuple[Purpose, int]] = {}
        self._told = 0

    # --- what nodes and the steward say -------------------------------------------------------

    def observe(self, process: int, effect: Effect) -> Sequence[Command]:
        """Take in one effect of a node or of the steward."""
        if isinstance(effect, Finished):
            self._commands.append(TakeStock())
        else:
            self.order.observe(process, effect)
        return self._commanded() if self._commands else ()

    def report(self, host: str, items: Iterable[ReportItem], now: float) -> Sequence[Command]:
        """Take in what a host reports of its nodes, in order; after its death that is void."""
        items = [] if self.host_states.get(host) == "gone" else list(items)
        self.order.report(items)
        for item in items:
            if isinstance(item, Told) and isinstance(item.effect, Failed):
                self._tell(f"node {item.process} on {host} failed: {item.effect.why}")
            elif isinstance(item, Ended):
                self._end(item, now)
        if self.recorder is not None and not self.recorder.is_bounded:
            self._commands.append(TakeStock())
        return self._commanded()

    def note(self, note: Note) -> Sequence[Command]:
        """Take in what a steward has decided, and which nodes it waits for."""
        if note.term == self.stewards.term:
            for effect in note.decided:
                if isinstance(effect, Committed):
                    self.order.observe(-1, effect)
                else:
                    self._commands.append(TakeStock())
            self._awaited = note if note.awaited else None
            if note.awaited:
                self._notice(math.inf)
                self._let_in()
        return self._commanded()

    def tick(self, now: float) -> Sequence[Command]:
        """Hear what time it is: crashes that no node waits for are noticed in the end."""
        self._notice(now - _UNNOTICED)
        return self._commanded()

    # --- losses -------------------------------------------------------------------------------

    def declare_lost(self, node: int, why: str) -> Sequence[Command]:
        """Give the verdict that a node is lost, right or wrong."""
        self._lose(self.incarnations.lose(node, why))
        return self._commanded()

    def _end(self, ended: Ended, now: float) -> None:
        verdict = self.incarnations.end(ended, now)
        if verdict is not None:
            self._lose(verdict)
        self._release(self.incarnations.where[ended.process])
        self._let_in()

    def _notice(self, before: float) -> None:
        for verdict in self.incarnations.noticed(before):
            self._lose(verdict)

    def _lose(self, verdict: Lost) -> None:
        self.order.lose(verdict.node, verdict.incarnation)
        if self.stewards.is_present:  # or the next one begins with all verdicts
            self._commands.append(DeclareLost(verdict))

    # --- arrivals -----------------------------------------------------------------------------

    def _let_in(self) -> None:
        """Start the nodes that are expected, once the record can say what they are owed."""
        note = self._awaited
        if note is None or self.order.epoch < note.epoch:
            return
        for purpose, node in comers(self._plan, note.stop):
            there = node in self.incarnations or node in self._starting
            if node in note.awaited and not there:
                self._start(node, purpose, note.stop)

    def _start(self, node: int, purpose: Purpose, t: int) -> None:
        host = _home_for(node, self.host_states, self.incarnations)
        if host is None:
            return
        incarnation = self.incarnations.begin(node)
        setup = setup_of(
            self._plan,
            node,
            host=self._domain_of(host),
            pace=self.ledger.steps[-1].value,
            t=t,
            purpose=purpose,
            receipt=self.ledger.receipts.get(node),
            incarnation=incarnation,
        )
        self.order.admit(node, incarnation)
        if host != self.incarnations.where[node]:
            self.incarnations.where[node] = host
            self._commands.append(Relocate(node, host))
        self._starting[node] = purpose, t
        # A host that has to go takes a node in only if no other is there, and not for long.
        leaves = 0 if self.host_states[host] == "leaving" else departure_after(self._plan, node, t)
        self._commands.append(StartNode(setup, host, leaves))

    def start(self, node: int, purpose: Purpose, t: int) -> Sequence[Command]:
        """Let a node come from outside though the plan does not say so."""
        self._start(node, purpose, t)
        return self._commanded()

    def started(self, setup: NodeSetup) -> Sequence[Command]:
        """Hear that a node runs."""
        self._starting.pop(setup.ident, None)
        self.incarnations.settle(setup.ident, setup.incarnation)
        return self._commanded()

    def refused(self, setup: NodeSetup, why: str) -> Sequence[Command]:
        """Hear that a node cannot be started: its loss cannot be made ready."""
        self._starting.pop(setup.ident, None)
        host = self.incarnations.where[setup.ident]
        what = f"node {setup.ident} cannot come: its loss cannot be made ready on {host}: {why}"
        self._tell(what)
        self._lose(self.incarnations.lose(setup.ident, why, setup.incarnation))
        return self._commanded()

    def retry(self, setup: NodeSetup) -> Sequence[Command]:
        """Hear that the host of a node died before the node ran: another host takes it."""
        self.host_states[self.incarnations.where[setup.ident]] = "gone"
        purpose, t = self._starting.pop(setup.ident)
        self._start(setup.ident, purpose, t)
        return self._commanded()

    def _begun(self, change: Committed) -> None:
        """Tell of a change that has come into force, and give out what follows from it."""
        for record in self.ledger.departures[self._told :]:
            self._tell(str(record))
        self._told = len(self.ledger.departures)
        if change.arrival is not None:
            self._tell(str(self.ledger.changes[-1]))
        for node in self.incarnations.nodes:
            receipt = self.ledger.receipts.get(node)
            if receipt is not None and node not in change.members:
                host = self.incarnations.where[node]
                self._commands.append(GiveReceipt(node, host, receipt))
        self._let_in()

    # --- hosts --------------------------------------------------------------------------------

    def host_lost(self, host: str, why: str) -> Sequence[Command]:
        """Hear that a host is gone, with every node on it."""
        self.host_states[host] = "gone"
        nodes = self.incarnations.on(host)
        if nodes:
            self._tell(f"{host} died ({why}) with nodes {', '.join(map(str, nodes))}")
        for verdict in self.incarnations.end_all(host, f"{host} died: {why}"):
            self._lose(verdict)
        self._let_in()
        return self._commanded()

    def preempt(self, host: str, why: str) -> Sequence[Command]:
        """Hear that a host has to go: its nodes leave first."""
        if self.host_states[host] == "there":
            self.host_states[host] = "leaving"
            nodes = ", ".join(map(str, self.incarnations.on(host))) or "none"
            self._tell(f"{host} goes ({why}): nodes {nodes} leave")
            self._commands.append(EmptyHost(host))
            self._release(host)
        return self._commanded()

    def _release(self, host: str) -> None:
        """End a host that has to go, once every node on it has left."""
        if self.host_states.get(host) == "leaving" and not self.incarnations.on(host):
            self._commands.append(EndHost(host))

    # --- the steward and the end --------------------------------------------------------------

    def steward_lost(self) -> Sequence[Command]:
        """Hear that the steward is gone; the carrier starts the next one (``stewards``)."""
        self.stewards.lose()
        self._awaited = None
        what = f"the steward died; steward {self.stewards.term + 1} asks every node where it is"
        self._tell(what)
        return self._commanded()

    def outcome(self, states: Iterable[FinalState]) -> Outcome:
        """Return how the run ended, given where the nodes are."""
        if self.recorder is None:
            raise ValueError("An outcome has a trajectory, and no rounds were recorded.")
        known = {state.ident: state for state in states}
        # A run that ends before it has begun has no members yet.
        members = sorted(known.keys() & self.members) if self.members else sorted(known)
        chosen = [known[node] for node in members]
        return outcome_of(self._plan, self.recorder, self.ledger, chosen)

    @property
    def members(self) -> set[int]:
        """The nodes in the present epoch."""
        return set(self.order.members)

    def _tell(self, what: str) -> None:
        self._commands.append(Tell(what))

    def _commanded(self) -> Sequence[Command]:
        if not self._commands:
            return ()
        commands, self._commands = self._commands, []
        return commands


def _home_for(node: int, states: Mapping[str, str], incarnations: Incarnations) -> str | None:
    """Return the host of a node that comes: its own, or the emptiest if that is gone."""
    own = incarnations.where[node]
    for state in ("there", "leaving"):
        hosts = [name for name, its in states.items() if its == state]
        if hosts:
            return own if own in hosts else min(hosts, key=lambda name: len(incarnations.on(name)))
    return None
