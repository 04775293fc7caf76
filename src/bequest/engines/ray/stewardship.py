"""The steward as a process of the cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError

from bequest.engines.ray.deaths import end_with
from bequest.engines.ray.parcels import Letter, pack, unpack
from bequest.protocol.events import Committed, Finished, Lost, Received, Send
from bequest.protocol.messages import STEWARD
from bequest.protocol.steward import Steward

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bequest.protocol.events import Effect, Event
    from bequest.protocol.steward import Charter


class Stewardship:
    """The actor: it carries letters to the steward, and its orders to the hosts.

    Args:
        charter: what was agreed on before.
        domains: node -> what it can fail together with.
        term: how many stewards there were before.
        office: what it ends with.
    """

    def __init__(
        self,
        charter: Charter,
        domains: Mapping[int, str],
        term: int,
        office: Any,  # noqa: ANN401
    ) -> None:
        self._steward, self._term, self._office = Steward(charter, domains, term), term, office
        self._where: dict[int, str] = {}
        self._hosts: dict[str, Any] = {}
        self._awaited: tuple[int, ...] = ()
        # From the very beginning: the driver may die before it says another word.
        self._watching = asyncio.get_running_loop().create_task(end_with(office))

    async def pid(self) -> int:
        """Return its process."""
        return os.getpid()

    async def begin(self, where: Mapping[int, str], hosts: Mapping[str, Any]) -> None:
        """Found the network."""
        if not self._hosts:  # or this was said before
            self._where, self._hosts = dict(where), dict(hosts)
            await self._carry_out(self._steward.found())

    async def take_over(
        self,
        where: Mapping[int, str],
        hosts: Mapping[str, Any],
        processes: Mapping[int, int],
        verdicts: Sequence[Lost],
    ) -> None:
        """Take over from a steward that was lost.

        Args:
            where: node -> the name of its host.
            hosts: their actors.
            processes: who is there, and in which life.
            verdicts: who is known to be lost.
        """
        if not self._hosts:  # or this was said before
            self._where, self._hosts = dict(where), dict(hosts)
            await self._carry_out(self._steward.recover(processes))
            for verdict in verdicts:
                await self._give(verdict)

    async def watch(self) -> None:
        """Never return: whoever waits for this hears when the process dies."""
        await asyncio.Event().wait()

    @ray.method(num_returns=0)  # type: ignore[untyped-decorator]
    async def deliver(self, parcel: bytes) -> None:
        """Take in what a host says."""
        for sender, _, message in unpack(parcel):
            await self._give(Received(sender, message))

    async def lost(self, verdict: Lost) -> None:
        """Hear that a node is lost."""
        await self._give(verdict)

    async def locate(self, node: int, host: str) -> None:
        """Hear that a node is on another host from now on."""
        self._where[node] = host

    async def _give(self, event: Event) -> None:
        try:
            effects = self._steward.handle(event)
        except Exception as error:
            self._office.steward_broken.remote(error)
            raise
        await self._carry_out(effects)

    async def _carry_out(self, effects: list[Effect]) -> None:
        with contextlib.suppress(RayError):  # the office is gone, and so are we
            await self._send(effects)

    async def _send(self, effects: list[Effect]) -> None:
        parcels: dict[str, list[Letter]] = {}
        noted: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Send):
                for host, nodes in self._sorted(effect.to).items():
                    letter = Letter(STEWARD, tuple(nodes), effect.message)
                    parcels.setdefault(host, []).append(letter)
            elif isinstance(effect, Committed | Finished):
                noted.append(effect)
        awaited = self._steward.awaited
        if noted or awaited != self._awaited:
            self._awaited = awaited
            stop = self._steward.round_reached if awaited else 0
            # On record before it counts: no order goes out before the office knows of the change.
            await self._office.note.remote(self._term, noted, awaited, stop, self._steward.epoch)
        for host, letters in parcels.items():
            self._hosts[host].deliver.remote(pack(letters))

    def _sorted(self, nodes: tuple[int, ...]) -> dict[str, list[int]]:
        by_host: dict[str, list[int]] = {}
        for node in nodes:
            host = self._where.get(node)
            if host in self._hosts:
                by_host.setdefault(host, []).append(node)
        return by_host
