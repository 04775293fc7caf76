"""The nodes of one host: what reaches them goes in, what leaves the host comes out.

No I/O and no clock: the process around it carries batches of messages, and lends its clock.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bequest.engines.runtime.message_batch import Addressed
from bequest.engines.runtime.report_batch import Ended, ReportBatch
from bequest.protocol.events import (
    Apply,
    Began,
    Completed,
    Decided,
    Failed,
    Leave,
    OptimumMoved,
    Receipt,
    Received,
    Send,
)
from bequest.protocol.messages import STEWARD, Checkpoint, Exchange, Inquiry, Ready
from bequest.protocol.states import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bequest.core.arrays import Vector
    from bequest.core.legacy import Legacy
    from bequest.engines.runtime.report_batch import ReportItem
    from bequest.protocol.events import Effect, Input
    from bequest.protocol.node import Node

# Where the steward is; hosts have names.
STEWARD_HOST = ""

# For so many rounds the group remembers which exchanges have gone; no node is this far behind.
_REMEMBERED = 16


class _Route(NamedTuple):
    """Where a message goes: to nodes here, and to nodes on other hosts."""

    here: tuple[int, ...]
    elsewhere: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(eq=False)
class Outgoing:
    """What is to leave the host.

    Attributes:
        messages: host -> messages that go at once.
        urgent: whether other processes wait for the next report, or for messages that need it.
    """

    messages: dict[str, list[Addressed]] = field(default_factory=dict)
    urgent: bool = False


class NodeGroup:
    """The nodes of one host.

    Args:
        name: the host's.
        where: node -> the name of its host, for every node of the run.
        planned_crashes: the crashes of nodes here, as (node, the round after which it crashes).
        oracle: round -> x* from its end on, for studies with wills that know it.
        reports_rounds: whether to report the states of the nodes after every round.
    """

    def __init__(
        self,
        name: str,
        where: Mapping[int, str],
        *,
        planned_crashes: Iterable[tuple[int, int]] = (),
        oracle: Mapping[int, Vector] | None = None,
        reports_rounds: bool = True,
    ) -> None:
        self.name = name
        self.nodes: dict[int, Node] = {}
        self._reports, self._reports_rounds = ReportBatch(), reports_rounds
        self._where = {**where, STEWARD: STEWARD_HOST}
        self._planned_crashes, self._oracle = set(planned_crashes), oracle or {}
        self._queue: deque[tuple[int, Input]] = deque()
        self._routes: dict[tuple[int, ...], _Route] = {}
        self._out = Outgoing()
        # host -> messages that the supervisor has to hear of before they go
        self._unexplained: dict[str, list[Addressed]] = {}
        # host -> (epoch, round) -> exchanges that wait for those of the other nodes here
        self._held: dict[str, dict[tuple[int, int], list[Addressed]]] = {}
        # (host, epoch, round) -> how many of them have gone
        self._gone: dict[tuple[str, int, int], int] = {}
        # node -> the epoch it is in, and the hosts that it talks to
        self._talks: dict[int, tuple[int, frozenset[str]]] = {}
        # (host, epoch) -> how many here talk to it
        self._talkers: Counter[tuple[str, int]] = Counter()
        self._release = False
        self._is_emptied = False

    # --- the nodes here -----------------------------------------------------------------------

    def add(self, node: Node) -> None:
        """Let a founding member in."""
        self.nodes[node.ident] = node

    def has(self, node: int, incarnation: int) -> bool:
        """Whether a node is here, in that incarnation or a later one."""
        return node in self.nodes and self.nodes[node].incarnation >= incarnation

    def admit(self, node: Node, leaves: int | None) -> None:
        """Let a node in that comes later, and let it ask the steward.

        Args:
            node: the node.
            leaves: the round after which it leaves again; None if it stays.
        """
        self.locate(node.ident, self.name)
        self.nodes[node.ident] = node
        self._carry_out(node, node.handle(Apply()))
        if self._is_emptied:
            leaves = 0
        if leaves is not None:
            self.leave(node.ident, leaves)

    def apply_again(self) -> None:
        """Let the nodes that want to come ask a new steward: the last one knew, and is gone."""
        for node in self.nodes.values():
            if node.state is State.OUTSIDE and node.purpose is not None:
                self._carry_out(node, node.handle(Apply()))

    def locate(self, node: int, host: str) -> None:
        """Hear that a node is on another host from now on."""
        self._where[node] = host
        self._routes.clear()

    def leave(self, node: int, after: int = 0) -> None:
        """Ask a node to go."""
        self._queue.append((node, Leave(after)))

    def leave_all(self) -> None:
        """Ask every node here to go, and every one that comes later."""
        self._is_emptied = True
        for node in self.nodes:
            self.leave(node)

    def give_receipt(self, node: int, receipt: Legacy) -> None:
        """Let a node that wants to come back know what is remembered of it."""
        if node in self.nodes:
            self.nodes[node].handle(Receipt(receipt))

    # --- what happens -------------------------------------------------------------------------

    def deliver(self, messages: Iterable[Addressed]) -> None:
        """Take in what has arrived."""
        for sender, receivers, message in messages:
            event = Received(sender, message)
            for receiver in receivers:
                self._queue.append((receiver, event))
            # The steward wants something: no node may wait for what is held back here.
            self._release |= sender == STEWARD

    @property
    def is_busy(self) -> bool:
        """Whether something is left to happen without anything from outside."""
        return bool(self._queue)

    def run(self, clock: Callable[[], float], seconds: float = 0.05) -> Outgoing:
        """Handle events for so many seconds; return what is to leave the host.

        Nodes that need no node elsewhere could go on for ever, and the supervisor would hear
        nothing from the host meanwhile. (One event is always handled, however long it takes.)
        """
        queue, nodes = self._queue, self.nodes
        end = clock() + seconds
        while queue:
            receiver, event = queue.popleft()
            node = nodes.get(receiver)
            if node is not None:
                effects = node.handle(event)
                if effects or node.state is State.GONE:
                    self._carry_out(node, effects)
            elif isinstance(event, Received) and type(event.message) is Inquiry:
                # The steward asks a process that has ended.
                self._reports.end(Ended(receiver, -1, "its process has ended"))
                self._out.urgent = True
            if clock() > end:
                break
        self._dispatch()
        out, self._out = self._out, Outgoing()
        self._release &= self.is_busy
        return out

    # --- what is reported ---------------------------------------------------------------------

    @property
    def rounds(self) -> int:
        """How many rounds of a node are not reported yet, at most."""
        return self._reports.rounds

    @property
    def has_to_explain(self) -> bool:
        """Whether messages wait for the next report."""
        return bool(self._unexplained)

    def report(self, *, rounds: bool = True) -> tuple[list[ReportItem], dict[str, list[Addressed]]]:
        """Return what the supervisor is to hear, and the messages that go once it has.

        Nothing that is handed over, or kept for the case of a crash, counts before it is on
        record.

        Args:
            rounds: whether to report the latest rounds, too; they are bulky, and can wait.
        """
        messages, self._unexplained = self._unexplained, {}
        return self._reports.cut(rounds=rounds), messages

    def _put_off(self, host: str, new: Addressed) -> None:
        """Keep a message until the next report; of a node's renewals only the newest counts."""
        waiting = self._unexplained.setdefault(host, [])
        if _renews(new):
            waiting[:] = [one for one in waiting if not (_renews(one) and one[:2] == new[:2])]
        else:
            self._out.urgent = True
        waiting.append(new)

    # --- what nodes want ----------------------------------------------------------------------

    def _carry_out(self, node: Node, effects: list[Effect]) -> None:
        crashes = False
        for effect in effects:
            if isinstance(effect, Send):
                self._send(node, effect)
            elif isinstance(effect, Completed):
                if self._reports_rounds:
                    self._reports.take(node.ident, effect)
                crashes |= self._is_to_crash(node.ident, effect.round)
            else:
                self._reports.take(node.ident, effect)
                self._out.urgent |= isinstance(effect, Began | Decided | Failed)
                if isinstance(effect, Began):
                    moved = node.place is not None and node.place.arrange.target_moves
                    knows = node.will is not None and node.will.needs_oracle
                    if knows and moved and effect.round in self._oracle:
                        node.handle(OptimumMoved(self._oracle[effect.round]))
                    crashes |= self._is_to_crash(node.ident, effect.round)
                elif isinstance(effect, Failed):
                    self._remove(node, effect.why)
        if crashes:
            self._remove(node, "its process is gone", silent=True)
        elif node.state is State.GONE:
            self._remove(node)

    def _is_to_crash(self, node: int, t: int) -> bool:
        if (node, t) not in self._planned_crashes:
            return False
        self._planned_crashes.discard((node, t))
        return True

    def _remove(self, node: Node, why: str | None = None, *, silent: bool = False) -> None:
        if self.nodes.get(node.ident) is not node:
            return
        del self.nodes[node.ident]
        self._reports.end(Ended(node.ident, node.incarnation, why, silent))
        self._out.urgent = True
        self._talk(node.ident, 0, frozenset())

    # --- what leaves --------------------------------------------------------------------------

    def _send(self, node: Node, send: Send) -> None:
        to, message = send
        route = self._routes.get(to)
        if route is None:
            route = self._routes[to] = self._route(to)
        if route.here:
            event = Received(node.ident, message)
            for receiver in route.here:
                self._queue.append((receiver, event))
        if isinstance(message, Exchange):
            self._hold(node.ident, message, route.elsewhere)
            return
        for host, receivers in route.elsewhere:
            addressed = Addressed(node.ident, receivers, message)
            if isinstance(message, Ready | Checkpoint):
                self._put_off(host, addressed)
            else:
                self._out.messages.setdefault(host, []).append(addressed)

    def _hold(
        self, node: int, message: Exchange, to: tuple[tuple[str, tuple[int, ...]], ...]
    ) -> None:
        """Keep an exchange for those of the other nodes here; note the hosts it goes to."""
        if self._talks.get(node, (0,))[0] != message.epoch:
            self._talk(node, message.epoch, frozenset(host for host, _ in to))
        key = message.epoch, message.round
        for host, receivers in to:
            waiting = self._held.setdefault(host, {})
            waiting.setdefault(key, []).append(Addressed(node, receivers, message))

    def _talk(self, node: int, epoch: int, hosts: frozenset[str]) -> None:
        """Take note of the hosts that a node talks to from that epoch on."""
        before, there = self._talks.get(node, (0, frozenset()))
        self._talkers.subtract((host, before) for host in there)
        self._talkers.update((host, epoch) for host in hosts)
        self._talks[node] = epoch, hosts

    def _route(self, to: tuple[int, ...]) -> _Route:
        elsewhere: dict[str, list[int]] = {}
        for node in to:
            elsewhere.setdefault(self._where[node], []).append(node)
        here = tuple(elsewhere.pop(self.name, ()))
        return _Route(here, tuple((host, tuple(nodes)) for host, nodes in elsewhere.items()))

    def _dispatch(self) -> None:
        """Let go what every node here has contributed to: one batch per host and round.

        No node waits for ever: a node that completes round t sends for round t + 1, so that what is
        held back for a round goes once every node here has completed the one before; and no node
        needs it to do that.
        """
        for host, waiting in self._held.items():
            for key in sorted(waiting):
                gone = self._gone.get((host, *key), 0) + len(waiting[key])
                if self._release or gone >= self._talkers[host, key[0]]:
                    self._out.messages.setdefault(host, []).extend(waiting.pop(key))
                    self._gone[host, *key] = gone
        if len(self._gone) > _REMEMBERED * len(self._held):
            epoch, t = max(key[1:] for key in self._gone)
            near = (epoch, t - _REMEMBERED // 2)
            self._gone = {key: n for key, n in self._gone.items() if key[1:] > near}


def _renews(addressed: Addressed) -> bool:
    """Whether it is a checkpoint that renews an older one: no node waits for it."""
    message = addressed.message
    return isinstance(message, Checkpoint) and message.inherited is None
