"""A host: one process of the cluster, with the nodes in it."""

from __future__ import annotations

import asyncio
import gc
import os
import time
import traceback
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from ray.exceptions import RayError, RayTaskError

from bequest.engines.ray import ray_private
from bequest.engines.ray.ray_private import end_with
from bequest.engines.runtime.message_batch import pack, unpack
from bequest.engines.runtime.node_group import STEWARD_HOST, NodeGroup
from bequest.engines.runtime.node_setup import FinalState
from bequest.version import __version__

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from bequest.core.arrays import Vector
    from bequest.core.legacy import Legacy
    from bequest.engines.runtime.message_batch import Addressed
    from bequest.engines.runtime.node_setup import NodeSetup
    from bequest.protocol.node import Node

# A report holds at most this many rounds; one is due after this many seconds.
_ROUNDS, _SECONDS = 64, 0.5
# Seconds for which messages that need a report wait for more of them, so that they share one.
_COMPANY = 0.02
# Maximum number of reports under way: a host that is faster than the supervisor waits for it.
_UNDER_WAY = 8


@dataclass(frozen=True, eq=False)
class HostSetup:
    """The setup of a host.

    Attributes:
        name: of the host.
        nodes: the nodes that are there from the start.
        where: node -> the name of its host, for all nodes.
        leaving: node -> after which round it leaves.
        planned_crashes: (node, round): the node dies after that round.
        oracle: round -> x* from its end on, for wills that know it.
        grace: maximum seconds that the host stays after a SIGTERM.
    """

    name: str
    nodes: tuple[NodeSetup, ...]
    where: Mapping[int, str]
    leaving: Mapping[int, int] = field(default_factory=dict)
    planned_crashes: tuple[tuple[int, int], ...] = ()
    oracle: Mapping[int, Vector] | None = None
    grace: float = 30.0


@dataclass(frozen=True, slots=True)
class HostReady:
    """What a host says when it is ready.

    Attributes:
        pid: its process.
        version: of bequest.
        failures: node -> what went wrong when its loss was made ready.
        hears_sigterm: whether its nodes leave in good order after a SIGTERM.
    """

    pid: int
    version: str
    failures: Mapping[int, str]
    hears_sigterm: bool


class HostActor:
    """The actor: it carries messages between its group of nodes and other processes."""

    def __init__(self, setup: HostSetup, supervisor: Any) -> None:  # noqa: ANN401
        self._setup = setup
        self._group = NodeGroup(
            setup.name,
            setup.where,
            planned_crashes=setup.planned_crashes,
            oracle=setup.oracle,
        )
        self._others: dict[str, Any] = {}
        self._supervisor = supervisor
        self._number = 0
        self._under_way = 0
        self._room = asyncio.Event()
        self._room.set()
        self._explaining = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready: HostReady | None = None
        self._preempted = False
        # From the start: the driver may die before its next call.
        self._start(end_with(supervisor))

    # --- beginning and end --------------------------------------------------------------------

    async def prepare(self) -> HostReady:
        """Load the data of all nodes; say what cannot be loaded."""
        if self._ready is None:
            loop = asyncio.get_running_loop()
            hears = ray_private.on_sigterm(partial(loop.call_soon_threadsafe, self._terminated))
            failures: dict[int, str] = {}
            for setup in self._setup.nodes:
                node, why = await asyncio.to_thread(_built, setup)
                if node is None:
                    failures[setup.ident] = why
                else:
                    self._group.add(node)
            self._ready = HostReady(os.getpid(), __version__, failures, hears)
            # All objects so far stay; to look through all of Ray for garbage takes longer than a
            # round.
            gc.freeze()
        return self._ready

    async def meet(self, others: dict[str, Any]) -> None:
        """Get the actors of all hosts, by name; the steward's name is empty."""
        if self._others:
            return
        self._others = others
        for node, after in self._setup.leaving.items():
            self._group.leave(node, after)
        self._start(self._report_now_and_then())
        if self._preempted:
            self._supervisor.preempted.remote(self._setup.name)
        await self._turn()

    async def appoint(self, steward: Any) -> None:  # noqa: ANN401
        """Hear of a new steward."""
        self._others[STEWARD_HOST] = steward
        self._group.apply_again()
        await self._turn()

    async def conclude(self) -> tuple[list[FinalState], int]:
        """Report the rest; return the final states and the number of reports."""
        await self._report()
        return [
            FinalState.of(node) for node in self._group.nodes.values() if node.epoch
        ], self._number

    async def watch(self) -> None:
        """Never return: a caller that waits for this hears when the process dies."""
        await asyncio.Event().wait()

    async def ping(self) -> None:
        """Answer."""

    # --- what happens -------------------------------------------------------------------------

    @ray.method(num_returns=0)  # type: ignore[untyped-decorator]
    async def deliver(self, batch: bytes) -> None:
        """Take in messages from another host or from the steward."""
        self._group.deliver(unpack(batch))
        await self._turn()

    async def admit(self, setup: NodeSetup, leaves: int | None) -> str | None:
        """Start a node that joins or returns; return what went wrong, or None."""
        if self._group.has(setup.ident, setup.incarnation):
            return None  # Ray has made this call before
        node, why = await asyncio.to_thread(_built, setup)
        if node is None:
            return why
        self._group.admit(node, leaves)
        await self._turn()
        return None

    async def locate(self, node: int, host: str) -> None:
        """Hear that a node is on another host from now on."""
        self._group.locate(node, host)

    async def give_receipt(self, node: int, receipt: Legacy) -> None:
        """Give a node that wants to return the receipt of what is remembered of it."""
        self._group.give_receipt(node, receipt)

    async def preempt(self) -> None:
        """Let all nodes on this host leave: the machine is about to go."""
        self._preempted = True
        self._group.leave_all()
        await self._turn()

    def _terminated(self) -> None:
        """Leave in good order; the supervisor ends this process when all nodes have left."""
        self._preempted = True
        if self._others:  # otherwise `meet` tells the supervisor
            self._supervisor.preempted.remote(self._setup.name)
            self._start(self.preempt())
        asyncio.get_running_loop().call_later(self._setup.grace, os._exit, 1)

    # --- what follows -------------------------------------------------------------------------

    async def _turn(self) -> None:
        """Let the group of nodes do what it can, and carry out what follows."""
        if self._others:
            await self._guarded(self._go_on())

    async def _guarded(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Await a coroutine; tell the supervisor what goes wrong in it."""
        try:
            await coroutine
        except Exception as error:  # noqa: BLE001 - no other process would hear of it
            if isinstance(error, RayError) and not isinstance(error, RayTaskError):
                return  # the supervisor is gone, and this process ends with it
            trace = "".join(traceback.format_exception(error))
            self._supervisor.broken.remote(self._setup.name, trace)

    async def _go_on(self) -> None:
        while True:
            if not self._room.is_set():
                await self._room.wait()
            # The supervisor ends a run whose iterates escape; the warnings help no reader.
            with np.errstate(over="ignore", invalid="ignore"):
                out = self._group.run(time.monotonic)
            self._send(out.messages)
            if out.urgent or self._group.rounds >= _ROUNDS:
                self._report()
            if self._group.has_to_explain and not self._explaining:
                self._explaining = True
                self._start(self._guarded(self._explain()))
            if not self._group.is_busy:
                return
            await asyncio.sleep(0)  # let other calls in

    def _send(self, batches: Mapping[str, list[Addressed]]) -> None:
        for host, some in batches.items():
            self._others[host].deliver.remote(pack(some))

    async def _explain(self) -> None:
        """Send the reports that messages wait for, one at a time, so that messages share them."""
        while self._group.has_to_explain:
            await asyncio.sleep(_COMPANY)
            if self._group.has_to_explain:
                await self._report(rounds=False)
        self._explaining = False

    def _report(self, *, rounds: bool = True) -> asyncio.Task[None]:
        """Report to the supervisor what it does not know yet, with or without the latest rounds."""
        items, messages = self._group.report(rounds=rounds)
        self._number += 1
        ref = self._supervisor.report.remote(self._setup.name, self._number, items)
        self._under_way += 1
        if self._under_way >= _UNDER_WAY:
            self._room.clear()
        return self._start(self._guarded(self._acknowledged(ref, messages)))

    async def _acknowledged(self, ref: Any, messages: Mapping[str, list[Addressed]]) -> None:  # noqa: ANN401
        try:
            await ref
        finally:
            self._under_way -= 1
            self._room.set()
        self._send(messages)

    async def _report_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_SECONDS)
            if self._group.rounds:
                self._report()

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)  # a task without a reference can vanish
        task.add_done_callback(self._tasks.discard)
        return task


def _built(setup: NodeSetup) -> tuple[Node | None, str]:
    """Return the node with its data loaded, or what went wrong."""
    try:
        setup.objective.gradient(setup.start)
        return setup.build(), ""
    except Exception as error:  # noqa: BLE001 - a user's loader may raise anything
        return None, f"{type(error).__name__}: {error}"
