"""Starts nodes that join or return, one after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from ray.exceptions import RayError

from bequest.engines.ray.ray_private import settled
from bequest.engines.runtime.supervisor import Relocate

if TYPE_CHECKING:
    from bequest.engines.ray.supervisor_actor import SupervisorActor
    from bequest.engines.runtime.supervisor import StartNode


class Arrivals:
    """The supervisor's commands about nodes that arrive, in its order."""

    def __init__(self, actor: SupervisorActor) -> None:
        self._actor = actor
        self._commands: deque[Relocate | StartNode] = deque()

    def put(self, command: Relocate | StartNode) -> bool:
        """Add a command; return whether ``let_in`` has to be started."""
        self._commands.append(command)
        return len(self._commands) == 1

    async def let_in(self) -> None:
        """Carry out all commands."""
        while self._commands:
            command = self._commands[0]
            try:
                if isinstance(command, Relocate):
                    await self._relocate(command)
                else:
                    await self._start(command)
            except Exception as error:  # noqa: BLE001 - no other process would hear of it
                self._actor.fail(error)
            self._commands.popleft()

    async def _relocate(self, command: Relocate) -> None:
        steward = self._actor.steward
        told = [*self._actor.alive().values(), *([] if steward is None else [steward])]
        calls = [one.locate.remote(command.node, command.host) for one in told]
        await asyncio.gather(*map(settled, calls))

    async def _start(self, command: StartNode) -> None:
        supervisor, setup, host = self._actor.supervisor, command.setup, command.host
        try:
            why = await self._actor.hosts[host].actor.admit.remote(setup, command.leaves)
        except RayError:  # that host has died meanwhile
            self._actor.happen(supervisor.retry, setup)
            return
        if why is None:
            self._actor.happen(supervisor.started, setup)
        else:
            self._actor.happen(supervisor.refused, setup, why)
