"""One process of the cluster, with the nodes that live in it."""

from __future__ import annotations

import asyncio
import gc
import os
import traceback
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from ray.exceptions import RayError, RayTaskError

from bequest.engines.assembly import Ending
from bequest.engines.ray import machines
from bequest.engines.ray.crew import STEWARDSHIP, Crew
from bequest.engines.ray.deaths import end_with
from bequest.engines.ray.parcels import pack, unpack
from bequest.version import __version__

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from bequest.core.arrays import Vector
    from bequest.core.legacy import Legacy
    from bequest.engines.assembly import Seat
    from bequest.engines.ray.parcels import Letter
    from bequest.protocol.node import Node

# So many rounds are reported at once, or what there is after so many seconds.
_ROUNDS, _SECONDS = 64, 0.5
# For so many seconds letters that need a report wait for others: nodes finish one after another.
_COMPANY = 0.02
# So many reports may be under way: a host that is faster than the office waits for it.
_UNDER_WAY = 8


@dataclass(frozen=True, eq=False)
class Posting:
    """What a host is to do.

    Attributes:
        name: its own.
        seats: the nodes that are there from the start.
        where: node -> the name of its host, for everybody.
        leaving: node -> after which round it is to leave.
        doomed: who is to die after which round.
        oracle: round -> x* from its end on, where a will knows it.
        grace: how long it stays after a SIGTERM if nobody ends it.
    """

    name: str
    seats: tuple[Seat, ...]
    where: Mapping[int, str]
    leaving: Mapping[int, int] = field(default_factory=dict)
    doomed: tuple[tuple[int, int], ...] = ()
    oracle: Mapping[int, Vector] | None = None
    grace: float = 30.0


@dataclass(frozen=True, slots=True)
class Presence:
    """A host that is ready.

    Attributes:
        pid: its process.
        version: of bequest.
        failures: node -> what went wrong when its loss was made ready there.
        hears_sigterm: whether a SIGTERM to it means to leave in good order.
    """

    pid: int
    version: str
    failures: Mapping[int, str]
    hears_sigterm: bool


class Host:
    """The actor: it carries parcels to its crew, and what the crew says to others."""

    def __init__(self, posting: Posting, office: Any) -> None:  # noqa: ANN401
        self._posting = posting
        self._crew = Crew(posting.name, posting.where, doomed=posting.doomed, oracle=posting.oracle)
        self._others: dict[str, Any] = {}
        self._office = office
        self._number = 0
        self._under_way = 0
        self._room = asyncio.Event()
        self._room.set()
        self._explaining = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._presence: Presence | None = None
        self._preempted = False
        # From the very beginning: the driver may die before it says another word.
        self._start(end_with(office))

    # --- beginning and end --------------------------------------------------------------------

    async def prepare(self) -> Presence:
        """Load everybody's data; say what cannot be loaded."""
        if self._presence is None:
            loop = asyncio.get_running_loop()
            hears = machines.on_sigterm(partial(loop.call_soon_threadsafe, self._terminated))
            failures: dict[int, str] = {}
            for seat in self._posting.seats:
                node, why = await asyncio.to_thread(_filled, seat)
                if node is None:
                    failures[seat.ident] = why
                else:
                    self._crew.seat(node)
            self._presence = Presence(os.getpid(), __version__, failures, hears)
            # What is there by now stays; to look through all of Ray for garbage takes longer than
            # a round.
            gc.freeze()
        return self._presence

    async def meet(self, others: dict[str, Any]) -> None:
        """Get to know everybody: name -> actor; the steward's name is empty."""
        if self._others:
            return
        self._others = others
        for node, after in self._posting.leaving.items():
            self._crew.leave(node, after)
        self._start(self._report_now_and_then())
        if self._preempted:
            self._office.preempted.remote(self._posting.name)
        await self._turn()

    async def appoint(self, steward: Any) -> None:  # noqa: ANN401
        """Hear of a new steward."""
        self._others[STEWARDSHIP] = steward
        self._crew.apply_again()
        await self._turn()

    async def conclude(self) -> tuple[list[Ending], int]:
        """Report the rest; return where everybody is, and how many reports there were."""
        await self._report()
        return [Ending.of(node) for node in self._crew.nodes.values() if node.epoch], self._number

    async def watch(self) -> None:
        """Never return: whoever waits for this hears when the process dies."""
        await asyncio.Event().wait()

    async def ping(self) -> None:
        """Answer."""

    # --- what happens -------------------------------------------------------------------------

    @ray.method(num_returns=0)  # type: ignore[untyped-decorator]
    async def deliver(self, parcel: bytes) -> None:
        """Take in what has arrived from another host or from the steward."""
        self._crew.deliver(unpack(parcel))
        await self._turn()

    async def admit(self, seat: Seat, leaves: int | None) -> str | None:
        """Let a node in that comes from outside; return what went wrong, if something did."""
        there = self._crew.nodes.get(seat.ident)
        if there is not None and there.life >= seat.life:
            return None  # this was said before
        node, why = await asyncio.to_thread(_filled, seat)
        if node is None:
            return why
        self._crew.locate(seat.ident, self._posting.name)
        self._crew.admit(node)
        if leaves is not None or self._preempted:
            self._crew.leave(seat.ident, 0 if self._preempted else leaves or 0)
        await self._turn()
        return None

    async def locate(self, node: int, host: str) -> None:
        """Hear that a node is on another host from now on."""
        self._crew.locate(node, host)

    async def give_receipt(self, node: int, receipt: Legacy) -> None:
        """Let a node that wants to come back know what is remembered of it."""
        self._crew.give_receipt(node, receipt)

    async def preempt(self) -> None:
        """Let everybody here leave: the machine is about to go."""
        self._preempted = True
        self._crew.leave_all()
        await self._turn()

    def _terminated(self) -> None:
        """Leave in good order; the office ends this process when everybody has gone."""
        self._preempted = True
        if self._others:  # or they hear of it when they meet
            self._office.preempted.remote(self._posting.name)
            self._start(self.preempt())
        asyncio.get_running_loop().call_later(self._posting.grace, os._exit, 1)

    # --- what follows -------------------------------------------------------------------------

    async def _turn(self) -> None:
        """Let the crew do what it can, and carry out what it wants."""
        if self._others:
            await self._guarded(self._go_on())

    async def _guarded(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """See it through; let the office hear what goes wrong."""
        try:
            await coroutine
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            if isinstance(error, RayError) and not isinstance(error, RayTaskError):
                return  # the office is gone, and so are we
            story = "".join(traceback.format_exception(error))
            self._office.broken.remote(self._posting.name, story)

    async def _go_on(self) -> None:
        while True:
            if not self._room.is_set():
                await self._room.wait()
            # Iterates that escape are the office's business; a million warnings are nobody's.
            with np.errstate(over="ignore", invalid="ignore"):
                out = self._crew.run()
            self._send(out.letters)
            if out.urgent or self._crew.rounds >= _ROUNDS:
                self._report()
            if self._crew.has_to_explain and not self._explaining:
                self._explaining = True
                self._start(self._guarded(self._explain()))
            if not self._crew.is_busy:
                return
            await asyncio.sleep(0)  # let others be heard

    def _send(self, parcels: Mapping[str, list[Letter]]) -> None:
        for host, letters in parcels.items():
            self._others[host].deliver.remote(pack(letters))

    async def _explain(self) -> None:
        """Report what letters wait for, one report at a time, so that many letters share one."""
        while self._crew.has_to_explain:
            await asyncio.sleep(_COMPANY)
            if self._crew.has_to_explain:
                await self._report(rounds=False)
        self._explaining = False

    def _report(self, *, rounds: bool = True) -> asyncio.Task[None]:
        """Send to the office what it does not know yet, with or without the rounds of late."""
        items, letters = self._crew.report(rounds=rounds)
        self._number += 1
        ref = self._office.report.remote(self._posting.name, self._number, items)
        self._under_way += 1
        if self._under_way >= _UNDER_WAY:
            self._room.clear()
        return self._start(self._guarded(self._acknowledged(ref, letters)))

    async def _acknowledged(self, ref: Any, letters: Mapping[str, list[Letter]]) -> None:  # noqa: ANN401
        try:
            await ref
        finally:
            self._under_way -= 1
            self._room.set()
        self._send(letters)

    async def _report_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_SECONDS)
            if self._crew.rounds:
                self._report()

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)  # a task that nobody holds can vanish
        task.add_done_callback(self._tasks.discard)
        return task


def _filled(seat: Seat) -> tuple[Node | None, str]:
    """Return the node with its data loaded, or what went wrong."""
    try:
        seat.objective.gradient(seat.start)
        return seat.fill(), ""
    except Exception as error:  # noqa: BLE001 - a user's loader may raise anything
        return None, f"{type(error).__name__}: {error}"
