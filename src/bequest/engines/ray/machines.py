"""What Ray has no public call for, each behind one function.

A test fails loudly for each of them when Ray changes it.
"""

from __future__ import annotations

import signal
from types import FunctionType
from typing import TYPE_CHECKING

import ray

from bequest.engines.ray.placement import Machine

if TYPE_CHECKING:
    from collections.abc import Callable

_heard: list[Callable[[], object]] = []


def machines() -> list[Machine]:
    """Return the machines that are there and stay, the driver's own first."""
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
    from bequest.engines.ray.machines import _heard

    for callback in _heard:
        callback()
