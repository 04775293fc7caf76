"""Watches the hosts of a run: deaths, drained machines, and pings to those that are silent."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError

from bequest.engines.ray import ray_private
from bequest.engines.ray.ray_private import settled
from bequest.engines.runtime.patience import Patience
from bequest.engines.runtime.report_order import Numbered

if TYPE_CHECKING:
    from bequest.engines.ray.supervisor_actor import SupervisorActor

# Maximum wait for hosts to drain calls, in seconds.
_DRAIN = 1.0


@dataclass(eq=False)
class WatchedHost:
    """A host as the supervisor's process sees it.

    Attributes:
        actor: its process.
        pid: the number of that process.
        machine: the name of its machine.
        ident: Ray's id of that machine.
        reports: its reports, in order.
        reported: set when another report is on record.
    """

    actor: Any
    pid: int
    machine: str
    ident: str
    reports: Numbered = field(default_factory=Numbered)
    reported: asyncio.Event = field(default_factory=asyncio.Event)


class HostWatch:
    """Watches the hosts of one run.

    Args:
        actor: the supervisor's process.
        patience: seconds of silence after which a host counts as dead.
    """

    def __init__(self, actor: SupervisorActor, patience: float) -> None:
        self._actor, self._patience = actor, Patience(patience)

    def heard(self, name: str) -> None:
        """Hear that a host is there."""
        self._patience.heard(name, time.monotonic())

    async def wait_for_death(self, name: str, host: WatchedHost) -> None:
        """Wait for a host to die; one that is only unavailable may come back."""
        why = await ray_private.death_of(host.actor)
        if not self._actor.is_over:
            self._actor.happen(self._actor.supervisor.host_lost, name, why)
            self._actor.monitoring.renew()

    async def look(self, before: float) -> None:
        """Look for machines that are drained, and for hosts that are frozen.

        Args:
            before: when this process looked last.
        """
        leaving = await asyncio.to_thread(_draining)
        actor, supervisor = self._actor, self._actor.supervisor
        for name, host in actor.hosts.items():
            if host.ident in leaving:
                actor.happen(supervisor.preempt, name, f"machine {host.machine} is drained")
        looked = self._patience.look(actor.alive(), before=before, now=time.monotonic())
        for name in looked.ask:
            actor.start(self._ask(name))
        for name, silence in looked.give_up:
            actor.monitoring.say(f"{name} has not answered for {silence:.1f} s and is given up")
            ray.kill(actor.hosts[name].actor)

    async def _ask(self, name: str) -> None:
        try:
            await self._actor.hosts[name].actor.ping.remote()
        except RayError:
            return  # the task that waits for its death hears the reason
        self.heard(name)

    async def drain_calls(self) -> None:
        """Wait a moment for open calls: Ray would tell the user of calls to killed hosts."""
        answers = [settled(actor.ping.remote()) for actor in self._actor.alive().values()]
        if answers:
            await asyncio.wait(map(asyncio.ensure_future, answers), timeout=_DRAIN)


def _draining() -> dict[str, int]:
    try:
        return ray_private.draining()
    except Exception:  # noqa: BLE001 - an unreachable GCS is not the end of a run
        return {}
