"""The steward as a process of the cluster."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError

from bequest.engines.ray.ray_private import end_with
from bequest.engines.runtime.message_batch import pack, unpack
from bequest.engines.runtime.steward_desk import StewardDesk
from bequest.protocol.events import FoundNetwork, Received

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.engines.runtime.stewards import Appointment
    from bequest.protocol.charter import Charter
    from bequest.protocol.events import Input, Instruction, Lost


class StewardActor:
    """The actor: it carries messages to the steward, and its orders to the hosts.

    Args:
        charter: the agreement before the run.
        domains: node -> what it can fail together with.
        term: how many stewards there were before.
        supervisor: the actor that it ends with.
    """

    def __init__(
        self,
        charter: Charter,
        domains: Mapping[int, str],
        term: int,
        supervisor: Any,  # noqa: ANN401
    ) -> None:
        self._make = charter, domains, term
        self._supervisor = supervisor
        self._desk: StewardDesk | None = None
        self._hosts: dict[str, Any] = {}
        # From the start: the driver may die before its next call.
        self._watching = asyncio.get_running_loop().create_task(end_with(supervisor))

    async def pid(self) -> int:
        """Return its process."""
        return os.getpid()

    async def begin(self, where: Mapping[int, str], hosts: Mapping[str, Any]) -> None:
        """Found the network."""
        if self._open(where, hosts):
            await self._give(FoundNetwork())

    async def take_over(self, appointment: Appointment, hosts: Mapping[str, Any]) -> None:
        """Take over from a steward that was lost; ``hosts`` are the actors of the hosts."""
        if self._open(appointment.where, hosts):
            for event in appointment.events:
                await self._give(event)

    def _open(self, where: Mapping[int, str], hosts: Mapping[str, Any]) -> bool:
        """Begin to work; return False for a call that Ray has made before."""
        if self._desk is not None:
            return False
        charter, domains, term = self._make
        self._desk = StewardDesk(charter, domains=domains, where=where, term=term)
        self._hosts = dict(hosts)
        return True

    async def watch(self) -> None:
        """Never return: a caller that waits for this hears when the process dies."""
        await asyncio.Event().wait()

    @ray.method(num_returns=0)  # type: ignore[untyped-decorator]
    async def deliver(self, batch: bytes) -> None:
        """Take in messages from a host."""
        for sender, _, message in unpack(batch):
            await self._give(Received(sender, message))

    async def lost(self, verdict: Lost) -> None:
        """Hear that a node is lost."""
        await self._give(verdict)

    async def locate(self, node: int, host: str) -> None:
        """Hear that a node is on another host from now on."""
        if self._desk is not None:
            self._desk.locate(node, host)

    async def _give(self, event: Input | Instruction) -> None:
        assert self._desk is not None  # noqa: S101 - it is opened before anything happens
        try:
            orders = self._desk.handle(event)
        except Exception as error:
            self._supervisor.steward_broken.remote(error)
            raise
        with contextlib.suppress(RayError):  # the supervisor is gone, and this process with it
            if orders.note is not None:
                await self._supervisor.note.remote(orders.note)
            for host, messages in orders.messages.items():
                if host in self._hosts:
                    self._hosts[host].deliver.remote(pack(messages))
