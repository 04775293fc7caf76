"""Processes on a virtual network: nodes, a steward, and what can happen to them."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

from bequest.engines.loop.narration import Admitted, Founded, Killed, Replaced, name_of, told
from bequest.engines.loop.network import VirtualNetwork, Weather
from bequest.engines.runtime.report_batch import Ended
from bequest.errors import Stalled
from bequest.protocol import wire
from bequest.protocol.events import (
    Apply,
    Completed,
    Failed,
    FoundNetwork,
    Leave,
    Lost,
    Received,
    Send,
    TakeOver,
)
from bequest.protocol.messages import STEWARD, Inquiry, Request
from bequest.protocol.states import State
from bequest.protocol.steward import Phase, Steward

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bequest.engines.loop.engine import Loop
    from bequest.engines.loop.narration import Happening
    from bequest.engines.loop.network import Delivery
    from bequest.protocol.events import Effect, Input
    from bequest.protocol.node import Node
    from bequest.protocol.steward import Charter

    # Hears of every effect that is not a message: (who, effect).
    Observer = Callable[[int, Effect], None]

# How many of its latest events and effects are told when something goes wrong with a process.
_LATEST = 40
# Looked up once: to look up a member of an enum takes longer than the rest of the question.
_GONE = State.GONE


class Scribe(Protocol):
    """Hears of everything that happens to the processes of one run, in order.

    What it has heard is enough to repeat the run without a network (``bequest.replay``).
    """

    def began(self, engine: Loop) -> None:
        """Hear of the engine, once, before anything happens."""
        ...

    def before(self, time: float, process: int, what: Input | Happening) -> None:
        """Hear what is about to happen to a process."""
        ...

    def after(self, machine: Node | Steward) -> None:
        """See the process afterwards, before what it wishes is carried out."""
        ...


class World:
    """Real nodes and a real steward; everything else is virtual.

    Args:
        charter: what was agreed on before the run.
        hosts: node -> the host it is on; "machine/host" where hosts share machines.
        weather: what the network does to messages.
        observe: hears of every effect that is not a message.
        ended: hears of every process that has ended.
        scribe: hears of everything that happens to processes.
        as_bytes: whether messages travel as bytes.
        patience: how long it takes until a lost process is noticed.
    """

    def __init__(
        self,
        charter: Charter,
        hosts: Mapping[int, str],
        *,
        weather: Weather = Weather(),  # noqa: B008 - immutable
        observe: Observer,
        ended: Callable[[Ended], None],
        scribe: Scribe | None = None,
        as_bytes: bool = False,
        patience: float = 0.0,
    ) -> None:
        self._charter, self._hosts = charter, dict(hosts)
        self._observe, self._ended = observe, ended
        self._scribe, self._as_bytes = scribe, as_bytes
        self._patience = patience
        self.network = VirtualNetwork(weather, self._host)
        self.nodes: dict[int, Node] = {}
        self.gone: dict[int, Node] = {}
        self.steward: Steward | None = Steward(charter, self._hosts)
        self._terms = 0
        self._latest: defaultdict[int, deque[Input | Happening | Effect]] = defaultdict(
            partial(deque, maxlen=_LATEST)
        )

    def _host(self, process: int) -> str:
        return self._hosts.get(process, "")

    # --- processes --------------------------------------------------------------------------

    def start(self, nodes: Mapping[int, Node]) -> None:
        """Found the network with these nodes."""
        self.nodes = dict(nodes)
        assert self.steward is not None  # noqa: S101 - it is there from the beginning
        effects = self.steward.handle(FoundNetwork())
        self._note(STEWARD, Founded(), self.steward)
        self._carry_out(STEWARD, effects)

    def admit(self, node: Node) -> None:
        """Start the process of a node that wants to come in, come back or be forgotten."""
        self._remove(node.ident)
        self.nodes[node.ident] = node
        self._hosts[node.ident] = node.host
        effects = node.handle(Apply())
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Request):
                self._note(node.ident, Admitted(effect.message), node)
        self._carry_out(node.ident, effects)

    def leave(self, node: int, after: int = 0) -> None:
        """Ask a node to go."""
        if node in self.nodes:
            self.give(node, Leave(after))

    def kill(
        self, node: int, *, keep: Callable[[Delivery], bool] = lambda _: True, noticed: bool = True
    ) -> None:
        """End a process without a word; its messages under way are lost unless kept."""
        process = self.nodes.get(node)
        if process is None:
            return
        self._note(node, Killed(), process)
        self._remove(node)
        self.network.lose(lambda p: p.sender != node or keep(p))
        gone = Ended(node, process.incarnation, "its process is gone", silent=not noticed)
        self._ended(gone)

    def _remove(self, node: int) -> None:
        """End a process; a message reaches the process it was sent to, or none."""
        process = self.nodes.pop(node, None)
        if process is not None:
            self.gone[node] = process
            unread = self.network.lose(lambda p: p.receiver != node)
            # The steward hears that a process which it asks has ended.
            if any(
                isinstance(p.event, Received) and type(p.event.message) is Inquiry for p in unread
            ):
                self._ended(Ended(node, -1, "its process has ended"))

    def declare_lost(self, verdict: Lost) -> None:
        """Let the steward hear that a node is lost, right or wrong."""
        self.network.send(verdict.node, STEWARD, verdict, after=self._patience)

    def kill_steward(self, *, keep: Callable[[Delivery], bool] = lambda _: True) -> None:
        """End the steward; what is under way to it is lost, and from it unless kept."""
        if self.steward is not None:
            self._note(STEWARD, Killed(), self.steward)
        self.steward = None
        self.network.lose(lambda p: p.receiver != STEWARD and (p.sender != STEWARD or keep(p)))

    def start_steward(self, running: Mapping[int, int]) -> None:
        """Start another steward: it knows the charter, and asks these incarnations for the rest."""
        self._terms += 1
        self.steward = Steward(self._charter, self._hosts, self._terms)
        effects = self.steward.handle(TakeOver(running))
        self._note(STEWARD, Replaced(), self.steward)
        self._carry_out(STEWARD, effects)

    def _note(self, process: int, what: Happening, machine: Node | Steward) -> None:
        """Take note of something that is not an event; the machine shows what came of it."""
        self._remember(process, what)
        if self._scribe is not None:
            self._scribe.before(self.network.time, process, what)
            self._scribe.after(machine)

    @property
    def is_finished(self) -> bool:
        """Whether the run is over."""
        return self.steward is not None and self.steward.phase is Phase.FINISHED

    # --- events -----------------------------------------------------------------------------

    def step(self) -> bool:
        """Deliver what arrives next; return whether anything was under way."""
        delivery = self.network.next()
        if delivery is None:
            return False
        _, _, _, receiver, event = delivery
        self.give(receiver, event)
        return True

    def give(self, process: int, event: Input) -> None:
        """Let an event happen to a process, if it is there."""
        node = self.nodes.get(process)
        machine = self.steward if process == STEWARD else node
        if machine is None:
            return
        if self._as_bytes and isinstance(event, Received):
            event = _through_the_wire(process, event)
        self._latest[process].append(event)
        try:
            if self._scribe is None:
                effects = machine.handle(event)
            else:
                self._scribe.before(self.network.time, process, event)
                effects = machine.handle(event)
                self._scribe.after(machine)
            if effects:
                self._carry_out(process, effects)
            elif node is not None and node.state is _GONE:
                self._end(process)
        except Exception as error:
            error.add_note(self.narrate(process))
            raise

    def _carry_out(self, process: int, effects: list[Effect]) -> None:
        send = self.network.send
        for effect in effects:
            if isinstance(effect, Send):
                # Received(...) comes to this, and takes twice as long.
                event = tuple.__new__(Received, (process, effect.message))
                for receiver in effect.to:
                    send(process, receiver, event)
            else:
                self._observe(process, effect)
                if type(effect) is Completed:
                    continue
                self._remember(process, effect)
                if isinstance(effect, Failed):
                    self._end(process, effect.why)
        node = self.nodes.get(process)
        if node is not None and node.state is _GONE:
            self._end(process)

    def _end(self, process: int, why: str | None = None) -> None:
        """Let a process end that has nothing more to do, or cannot go on."""
        node = self.nodes.get(process)
        if node is not None:
            self._remove(process)
            self._ended(Ended(process, node.incarnation, why))

    def _remember(self, process: int, what: Input | Happening | Effect) -> None:
        self._latest[process].append(what)

    # --- when something goes wrong ------------------------------------------------------------

    def stall(self) -> Stalled:
        """Return the error that nothing is under way though the run is not over."""
        where = "; ".join(repr(node) for node in self.nodes.values())
        phase = "no steward" if self.steward is None else f"the steward is {self.steward.phase}"
        worst = min(self.nodes.values(), key=lambda node: node.round, default=None)
        narration = "" if worst is None else f"\n{self.narrate(worst.ident)}"
        return Stalled(
            f"Nothing is under way, but the run is not over: {where}; {phase}.{narration}",
            remedy="Report this together with the seed: the protocol must not stall.",
        )

    def narrate(self, process: int) -> str:
        """Return what happened lately to a process and what it did, in words."""
        lines = [f"  {told(what)}" for what in self._latest.get(process, ())]
        return "\n".join([f"What happened to {name_of(process)}, the latest last:", *lines])


def _through_the_wire(receiver: int, event: Received) -> Received:
    envelope = wire.decode(wire.encode(event.sender, receiver, event.message))
    return Received(envelope.sender, envelope.message)
