"""Processes on a virtual network: nodes, a steward, and what can happen to them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from bequest.engines.network import VirtualNetwork, Weather
from bequest.engines.stories import Admitted, Founded, Killed, Replaced, name_of, told
from bequest.errors import Stalled
from bequest.protocol import wire
from bequest.protocol.events import Completed, Failed, Leave, Lost, Received, Send
from bequest.protocol.messages import STEWARD, Inquiry, Request
from bequest.protocol.states import State
from bequest.protocol.steward import Phase, Steward

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bequest.engines.loop import Loop
    from bequest.engines.network import Parcel
    from bequest.engines.stories import Happening
    from bequest.protocol.events import Effect, Event
    from bequest.protocol.node import Node
    from bequest.protocol.steward import Charter

    # Hears of every effect that is not a message: (who, effect).
    Observer = Callable[[int, Effect], None]

# How many of its latest events and effects are told when something goes wrong with a process.
_STORY = 40


class Scribe(Protocol):
    """Hears of everything that happens to the processes of one run, in order.

    What it has heard is enough to repeat the run without a network (``bequest.replay``).
    """

    def began(self, engine: Loop) -> None:
        """Hear of the engine, once, before anything happens."""
        ...

    def before(self, time: float, process: int, what: Event | Happening) -> None:
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
        scribe: Scribe | None = None,
        as_bytes: bool = False,
        patience: float = 0.0,
    ) -> None:
        self._charter, self._hosts = charter, dict(hosts)
        self._observe, self._scribe, self._as_bytes = observe, scribe, as_bytes
        self._patience = patience
        self.network = VirtualNetwork(weather, self._host)
        self.nodes: dict[int, Node] = {}
        self.steward: Steward | None = Steward(charter, self._hosts)
        self.verdicts: list[Lost] = []
        self._terms = 0
        self._lives: dict[int, int] = {}
        self._stories: dict[int, deque[Event | Happening | Effect]] = {}

    def _host(self, process: int) -> str:
        return self._hosts.get(process, "")

    # --- processes --------------------------------------------------------------------------

    def start(self, nodes: Mapping[int, Node]) -> None:
        """Found the network with these nodes."""
        self.nodes = dict(nodes)
        assert self.steward is not None  # noqa: S101 - it is there from the beginning
        effects = self.steward.found()
        self._note(STEWARD, Founded(), self.steward)
        self._carry_out(STEWARD, effects)

    def admit(self, node: Node) -> None:
        """Start the process of somebody who wants to come in, come back or be forgotten."""
        self._remove(node.ident)
        self.nodes[node.ident] = node
        self._lives[node.ident] = node.life
        self._hosts[node.ident] = node.host
        effects = node.apply()
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Request):
                self._note(node.ident, Admitted(effect.message), node)
        self._carry_out(node.ident, effects)

    def leave(self, node: int, after: int = 0) -> None:
        """Ask a node to go."""
        if node in self.nodes:
            self.give(node, Leave(after))

    def kill(
        self, node: int, *, keep: Callable[[Parcel], bool] = lambda _: True, noticed: bool = True
    ) -> None:
        """End a process without a word; its messages under way are lost unless kept."""
        if node in self.nodes:
            self._note(node, Killed(), self.nodes[node])
        self._remove(node)
        self.network.lose(lambda p: p.sender != node or keep(p))
        if noticed:
            self.condemn(node, "its process is gone")

    def _remove(self, node: int) -> None:
        """End a process; a message reaches the process it was sent to, or nobody."""
        if self.nodes.pop(node, None) is not None:
            unread = self.network.lose(lambda p: p.receiver != node)
            # Whoever calls a process that has ended hears that it has.
            if any(
                isinstance(p.event, Received) and type(p.event.message) is Inquiry for p in unread
            ):
                self.condemn(node, "its process has ended")

    def condemn(self, node: int, why: str) -> None:
        """Give the verdict that a node is lost, right or wrong."""
        verdict = Lost(node, why, self._lives.get(node, 0))
        self.verdicts.append(verdict)
        self.network.send(node, STEWARD, verdict, after=self._patience)

    def kill_steward(self, *, keep: Callable[[Parcel], bool] = lambda _: True) -> None:
        """End the steward; what is under way to it is lost, and from it unless kept."""
        if self.steward is not None:
            self._note(STEWARD, Killed(), self.steward)
        self.steward = None
        self.network.lose(lambda p: p.receiver != STEWARD and (p.sender != STEWARD or keep(p)))

    def replace_steward(self) -> None:
        """Start another steward, and tell it who is known to be lost, in earlier lives too."""
        self.start_steward()
        for verdict in self.verdicts:
            node = self.nodes.get(verdict.node)
            if node is None or verdict.life < node.life:
                self.give(STEWARD, verdict)

    def start_steward(self) -> None:
        """Start another steward, which knows the charter and asks for the rest."""
        self._terms += 1
        self.steward = Steward(self._charter, self._hosts, self._terms)
        effects = self.steward.recover({ident: node.life for ident, node in self.nodes.items()})
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

    def step(self) -> int:
        """Deliver what arrives next; return to whom."""
        parcel = self.network.next()
        self.give(parcel.receiver, parcel.event)
        return parcel.receiver

    def give(self, process: int, event: Event) -> None:
        """Let an event happen to a process, if it is there."""
        machine = self.steward if process == STEWARD else self.nodes.get(process)
        if machine is None:
            return
        if self._as_bytes and isinstance(event, Received):
            event = _through_the_wire(process, event)
        self._remember(process, event)
        try:
            if self._scribe is None:
                effects = machine.handle(event)
            else:
                self._scribe.before(self.network.time, process, event)
                effects = machine.handle(event)
                self._scribe.after(machine)
            self._carry_out(process, effects)
        except Exception as error:
            error.add_note(self.story(process))
            raise

    def _carry_out(self, process: int, effects: list[Effect]) -> None:
        send = self.network.send
        for effect in effects:
            if isinstance(effect, Send):
                event = Received(process, effect.message)
                for receiver in effect.to:
                    send(process, receiver, event)
            else:
                self._observe(process, effect)
                if isinstance(effect, Completed):
                    continue
                self._remember(process, effect)
                if isinstance(effect, Failed) and process in self.nodes:
                    self._remove(process)
                    self.condemn(process, effect.why)
        node = self.nodes.get(process)
        if node is not None and node.state is State.GONE:
            self._remove(process)

    def _remember(self, process: int, what: Event | Happening | Effect) -> None:
        story = self._stories.get(process)
        if story is None:
            story = self._stories[process] = deque(maxlen=_STORY)
        story.append(what)

    # --- when something goes wrong ------------------------------------------------------------

    def stall(self) -> Stalled:
        """Return the error that nothing is under way though the run is not over."""
        where = "; ".join(repr(node) for node in self.nodes.values())
        phase = "no steward" if self.steward is None else f"the steward is {self.steward.phase}"
        worst = min(self.nodes.values(), key=lambda node: node.round, default=None)
        story = "" if worst is None else f"\n{self.story(worst.ident)}"
        return Stalled(
            f"Nothing is under way, but the run is not over: {where}; {phase}.{story}",
            remedy="Report this together with the seed: the protocol must not stall.",
        )

    def story(self, process: int) -> str:
        """Return what happened lately to a process and what it did, in words."""
        lines = [f"  {told(what)}" for what in self._stories.get(process, ())]
        return "\n".join([f"The story of {name_of(process)}, the latest last:", *lines])


def _through_the_wire(receiver: int, event: Received) -> Received:
    envelope = wire.decode(wire.encode(event.sender, receiver, event.message))
    return Received(envelope.sender, envelope.message)
