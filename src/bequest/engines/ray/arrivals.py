"""Carries out what the supervisor wants about nodes that arrive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ray.exceptions import RayError

from bequest.engines.ray.ray_private import settled
from bequest.engines.runtime.supervisor import Relocate

if TYPE_CHECKING:
    from bequest.engines.ray.supervisor_actor import SupervisorActor
    from bequest.engines.runtime.arrivals import Arrivals
    from bequest.engines.runtime.supervisor import StartNode


async def let_in(actor: SupervisorActor, arrivals: Arrivals) -> None:
    """Carry out all commands, one after the other."""
    try:
        while (command := arrivals.next) is not None:
            if isinstance(command, Relocate):
                await _relocate(actor, command)
                arrivals.moved()
                continue
            try:
                why = await _start(actor, command)
            except RayError:  # that host has died meanwhile
                actor.happen(arrivals.host_died)
            else:
                actor.happen(arrivals.answered, why)
    except Exception as error:  # noqa: BLE001 - no other process would hear of it
        actor.fail(error)


async def _relocate(actor: SupervisorActor, command: Relocate) -> None:
    told = [*actor.alive().values(), *([] if actor.steward is None else [actor.steward])]
    calls = [one.locate.remote(command.node, command.host) for one in told]
    await asyncio.gather(*map(settled, calls))


async def _start(actor: SupervisorActor, command: StartNode) -> str | None:
    host = actor.hosts[command.host].actor
    why: str | None = await host.admit.remote(command.setup, command.leaves)
    return why
