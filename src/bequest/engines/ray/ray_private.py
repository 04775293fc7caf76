"""Everything for which Ray has no public call, and how to hear of the death of a process.

A test fails for each of them when Ray changes it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from types import FunctionType
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import ActorUnavailableError, RayActorError, RayError

from bequest.engines.runtime.placement import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

# Seconds after which a process whose supervisor is gone ends by itself.
_MOMENT = 1.0
# Parts of Ray's messages that help no reader here.
_BORING = ("The actor is dead because ", "Worker exit type: SYSTEM_ERROR ", "Worker exit detail: ")
_ADVICE = " Some common causes include"


_heard: list[Callable[[], object]] = []


def machines() -> list[Machine]:
    """Return the machines that are alive and not drained, the driver's own first."""
    leaving = draining()
    own = ray.get_runtime_context().get_node_id()
    alive = [m for m in ray.nodes() if m["Alive"] and m["NodeID"] not in leaving]
    names = [str(m["NodeName"]) for m in alive]
    found = []
    for m in alive:
        ident, name = str(m["NodeID"]), str(m["NodeName"])
        if names.count(name) > 1:  # several on one address
            name = f"{name} {ident[:6]}"
        found.append(Machine(ident, name, float(m["Resources"].get("CPU", 0.0))))
    return sorted(found, key=lambda m: m.ident != own)


def draining(timeout: float = 5.0) -> dict[str, int]:
    """Return the machines that are about to go, with their deadlines in ms; {} if none are.

    A SIGTERM to ``ray start --block`` and ``ray drain-node`` both end up here.
    """
    client = ray._private.worker.global_worker.gcs_client
    return {
        str(ident): int(deadline)
        for ident, deadline in client.get_draining_nodes(timeout=timeout).items()
    }


def is_running(job: str) -> bool:
    """Return whether the driver of a job is alive.

    Ray marks a job as dead as soon as its driver disconnects, however the driver ends. A driver
    that is slow, or busy with something else, is alive.
    """
    jobs = ray._private.state.state.job_table()
    return any(known["JobID"] == job and not known["IsDead"] for known in jobs)


def address_of(address: str) -> str:
    """Return HOST:PORT of a cluster that may be called ``auto``.

    Raises:
        ConnectionError: none was started on this machine.
    """
    if address != "auto":
        return address
    return str(ray._private.services.get_ray_address_from_environment(address, None))


def on_sigterm(callback: Callable[[], object]) -> bool:
    """Let a SIGTERM to this worker process call ``callback`` instead of ending the process.

    Python lets only the main thread install a handler, and an actor's methods run in another one.
    Ray's own handler, however, is a Python function that the main thread runs: it gets another
    body.

    Returns:
        Whether it worked; if not, a SIGTERM is a crash.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if not isinstance(handler, FunctionType) or handler.__closure__:
        return False
    _heard[:] = [callback]
    handler.__code__ = _instead.__code__
    return True


def _instead(_signum: int, _frame: object) -> None:
    # Runs with the globals of Ray's module, so that it has to find its own.
    from bequest.engines.ray.ray_private import _heard

    for callback in _heard:
        callback()


async def death_of(actor: Any) -> str:  # noqa: ANN401
    """Wait until an actor is dead; return why.

    One call that never returns is open for as long as the actor lives. If the actor cannot be
    reached, that is a suspicion, and the call is repeated; only Ray's word that it died counts.
    """
    while True:
        try:
            await actor.watch.options(max_task_retries=0).remote()
        except ActorUnavailableError:
            await asyncio.sleep(0.1)
        except RayActorError as error:
            return cause(error)
        except RayError:
            await asyncio.sleep(0.1)


async def end_with(supervisor: Any) -> None:  # noqa: ANN401
    """End this process when its supervisor is gone."""
    await death_of(supervisor)
    # A run that ends in good order kills this process in a moment; Ray would tell the user of one
    # that ends by itself.
    await asyncio.sleep(_MOMENT)
    os._exit(1)


def cause(error: Exception) -> str:
    """Return the part of Ray's message that says why a process died."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = lines[-1] if lines else type(error).__name__
    for boring in _BORING:
        told = told.replace(boring, "")
    return told.split(_ADVICE)[0]


async def settled(ref: Any) -> Any:  # noqa: ANN401
    """Return the result of a call, or None if the process it goes to is gone."""
    try:
        return await ref
    except RayError:
        return None
