"""What the steward's process does, apart from I/O: events in, a note and messages out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bequest.engines.runtime.message_batch import Addressed
from bequest.protocol.events import Committed, Finished, Send
from bequest.protocol.messages import STEWARD
from bequest.protocol.steward import Steward

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.protocol.charter import Charter
    from bequest.protocol.events import Effect, Input, Instruction


@dataclass(frozen=True, slots=True)
class Note:
    """What a steward tells the supervisor.

    Attributes:
        term: how many stewards there were before it.
        decided: epochs that it has decided on, and the end of the run.
        awaited: the nodes that it waits for before the present stop is over.
        stop: the round of that stop.
        epoch: the present epoch.
    """

    term: int
    decided: tuple[Effect, ...]
    awaited: tuple[int, ...]
    stop: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Orders:
    """What has to leave the steward's process after one event.

    Attributes:
        note: for the supervisor; None if it has nothing to learn. It must be on record before any
            message goes out: no order counts before the record explains it.
        messages: host -> what goes there.
    """

    note: Note | None
    messages: Mapping[str, list[Addressed]] = field(default_factory=dict)


class StewardDesk:
    """A steward, and where the nodes are that it talks to.

    Args:
        charter: what was agreed on before the run.
        domains: node -> what it can fail together with.
        where: node -> the name of its host.
        term: how many stewards there were before.
    """

    def __init__(
        self,
        charter: Charter,
        *,
        domains: Mapping[int, str],
        where: Mapping[int, str],
        term: int = 0,
    ) -> None:
        self._steward, self._term = Steward(charter, domains, term), term
        self._where = dict(where)
        self._awaited: tuple[int, ...] = ()

    def locate(self, node: int, host: str) -> None:
        """Hear that a node is on another host from now on."""
        self._where[node] = host

    def handle(self, event: Input | Instruction) -> Orders:
        """Give the steward an event; return what has to leave its process."""
        steward = self._steward
        messages: dict[str, list[Addressed]] = {}
        decided: list[Effect] = []
        for effect in steward.handle(event):
            if isinstance(effect, Send):
                for host, nodes in self._by_host(effect.to).items():
                    addressed = Addressed(STEWARD, tuple(nodes), effect.message)
                    messages.setdefault(host, []).append(addressed)
            elif isinstance(effect, Committed | Finished):
                decided.append(effect)
        awaited = steward.awaited
        if not decided and awaited == self._awaited:
            return Orders(None, messages)
        self._awaited = awaited
        stop = steward.present.round_reached if awaited else 0
        return Orders(
            Note(self._term, tuple(decided), awaited, stop, steward.present.number), messages
        )

    def _by_host(self, nodes: tuple[int, ...]) -> dict[str, list[int]]:
        by_host: dict[str, list[int]] = {}
        for node in nodes:
            if node in self._where:
                by_host.setdefault(self._where[node], []).append(node)
        return by_host
