"""The office: it sees to the processes of a run, and keeps its record.

It watches over the hosts and the steward, tells machines' nodes to leave when Ray drains them,
gives the verdict on processes that died, lets in who comes from outside, and turns reports into
the record. It takes no part in the rounds: the hosts talk to each other.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError

from bequest.engines import records
from bequest.engines.assembly import charter_of, comers, departure_after, outcome_of, seat_of
from bequest.engines.ray import actors, machines
from bequest.engines.ray.bulletin import Bulletin
from bequest.engines.ray.chronicle import Chronicle
from bequest.engines.ray.crew import STEWARDSHIP
from bequest.engines.ray.deaths import death_of
from bequest.engines.ray.reports import Ended, Told
from bequest.engines.ray.roll import Roll
from bequest.engines.ray.view import HostView
from bequest.protocol.events import Committed, Failed, Finished

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bequest.core.steps import StepChoice
    from bequest.engines.assembly import Ending
    from bequest.engines.base import Outcome, Plan
    from bequest.engines.ray.host import Presence
    from bequest.engines.ray.placement import Placement
    from bequest.engines.ray.reports import Item
    from bequest.engines.ray.view import View
    from bequest.protocol.events import Effect, Lost
    from bequest.protocol.messages import Purpose

# How often drained machines are looked for, in seconds; a SIGTERM may leave no more than 30.
_LOOK = 0.2
# A planned death is noticed when everybody waits for it, or after so many seconds.
_UNNOTICED = 2.0
# An office whose run is over stays so long for somebody who asks for the outcome.
_LINGER = 10.0
# For so long a host may take to answer that nothing is on its way to it any more.
_MOMENT = 1.0
# A run that nobody could find again goes on for so long without anybody who asks.
_FORSAKEN = 60.0


@dataclass(eq=False)
class _Station:
    """A host as the office sees it."""

    actor: Any
    pid: int
    machine: str
    ident: str
    state: str = "there"
    heard: float = field(default_factory=time.monotonic)
    reports: int = 0
    early: dict[int, list[Item]] = field(default_factory=dict)
    reported: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, eq=False)
class Brief:
    """What the office is to see to.

    Attributes:
        plan: the run.
        first: its first step.
        placement: where everybody is at the start.
        namespace: of the run's actors.
        patience: how long a host may stay silent before it counts as dead, in seconds.
        record: where the outcome is written; None for nowhere.
        fingerprint: what tells this run from another.
        findable: whether somebody could come back to it.
        startup: how long its processes may take to begin.
    """

    plan: Plan
    first: StepChoice
    placement: Placement
    namespace: str
    patience: float
    record: Path | None
    fingerprint: dict[str, str]
    findable: bool
    startup: float


class Office:
    """The actor."""

    def __init__(self, brief: Brief) -> None:
        self._brief, self._plan = brief, brief.plan
        self._chronicle = Chronicle(brief.plan, brief.first, self._on_begun)
        self._bulletin = Bulletin(brief.namespace, brief.plan.rounds, self._chronicle, brief.record)
        self._stations: dict[str, _Station] = {}
        self._roll = Roll(brief.placement.hosts, brief.plan.network())
        self._coming: set[int] = set()
        self._steward: Any = None
        self._steward_pid: int | None = None
        self._term = 0
        self._error: BaseException | None = None
        self._outcome: Outcome | None = None
        self._asked = time.monotonic()
        self._departed = 0
        self._concluding = False
        self._tasks: set[asyncio.Task[None]] = set()

    # --- beginning and end --------------------------------------------------------------------

    async def expect(self, own: Any) -> None:  # noqa: ANN401
        """Wait to be opened; a run whose driver died before that is over.

        Args:
            own: the office's own actor.
        """
        self._own = own
        # Not as a part of this call: Ray would tell the user that it failed when the office ends.
        self._start(self._wait_to_be_opened())

    async def _wait_to_be_opened(self) -> None:
        await asyncio.sleep(self._brief.startup + _LINGER)
        if not self._stations:
            ray.kill(self._own)

    async def is_open(self) -> bool:
        """Return whether the run has begun."""
        return bool(self._stations)

    async def open(
        self,
        stations: Mapping[str, tuple[Any, Presence]],
        steward: Any,  # noqa: ANN401
        own: Any,  # noqa: ANN401
    ) -> None:
        """Begin: everybody gets to know everybody, and the steward founds the network.

        Args:
            stations: host -> its actor, and what it says of itself.
            steward: the first one.
            own: the office's own actor.
        """
        if self._stations:
            return  # this was said before
        self._own = own  # calls overtake each other
        self._bulletin.begin()
        self._asked = time.monotonic()
        for name, (actor, presence) in stations.items():
            machine = self._brief.placement.machines[name]
            self._stations[name] = _Station(actor, presence.pid, machine.name, machine.ident)
            if not presence.hears_sigterm:
                self._bulletin.say(
                    f"{name} cannot hear a SIGTERM: to its nodes it would be a crash"
                )
        self._steward = steward
        self._steward_pid = await steward.pid.remote()
        hosts = self._hosts()
        meetings = [actor.meet.remote({**hosts, STEWARDSHIP: steward}) for actor in hosts.values()]
        await asyncio.gather(*map(_settled, meetings))
        for name in self._stations:
            self._start(self._watch_host(name))
        self._start(self._watch_steward(steward))
        self._start(self._look_around())
        await _settled(steward.begin.remote(self._roll.where, hosts))

    def _hosts(self) -> dict[str, Any]:
        return {name: s.actor for name, s in self._stations.items() if s.state != "gone"}

    async def follow(self, version: int, timeout: float = 0.5) -> View:
        """Return the present view, once there is a later one than that version."""
        self._asked = time.monotonic()
        if self._outcome is None and self._error is None:
            await self._bulletin.news_after(version, timeout)
        if self._error is not None:
            raise self._error
        return self._view()

    async def watch(self) -> None:
        """Never return: whoever waits for this hears when the process dies."""
        await asyncio.Event().wait()

    async def fingerprint(self) -> dict[str, str]:
        """Return what tells this run from another."""
        return self._brief.fingerprint

    async def outcome(self) -> Outcome:
        """Return how it ended, when it has."""
        assert self._outcome is not None  # noqa: S101 - asked when the view has a status
        return self._outcome

    async def addresses(self) -> dict[str, Any]:
        """Return the actors of the run, its own not included, for whoever is to end them."""
        return {**self._hosts(), STEWARDSHIP: self._steward}

    # --- what hosts and the steward say -------------------------------------------------------

    async def report(self, host: str, number: int, items: list[Item]) -> None:
        """Take in a host's report; they may overtake each other."""
        station = self._stations[host]
        if station.state == "gone" or number <= station.reports:
            return  # it has been given up, or this was said before
        station.heard = time.monotonic()
        station.early[number] = items
        try:
            while station.reports + 1 in station.early:
                station.reports += 1
                self._take_in(host, station.early.pop(station.reports))
                station.reported.set()
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            self._fail(error)
        self._bulletin.renew()
        # To whoever waits for the answer it means that everything up to here is on record.
        while station.reports < number:
            station.reported.clear()
            await station.reported.wait()

    def _take_in(self, host: str, items: list[Item]) -> None:
        self._chronicle.report(items)
        for item in items:
            if isinstance(item, Told) and isinstance(item.effect, Failed):
                self._bulletin.say(f"node {item.process} on {host} failed: {item.effect.why}")
            elif isinstance(item, Ended):
                if verdict := self._roll.end(item):
                    self._condemn(verdict)
                self._let_go(self._roll.where[item.process])
        if not self._chronicle.film.is_bounded:
            self._conclude()

    async def note(
        self,
        term: int,
        effects: Sequence[Effect],
        awaited: tuple[int, ...],
        stop: int,
        epoch: int,
    ) -> None:
        """Take in what a steward decided, and for whom it waits after which round."""
        if term != self._term:
            return
        try:
            for effect in effects:
                if isinstance(effect, Committed):
                    self._chronicle.commit(effect)
                elif isinstance(effect, Finished):
                    self._conclude()
            if awaited:
                self._start(self._let_the_world_move(awaited, stop, epoch))
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            self._fail(error)
        self._bulletin.renew()

    async def broken(self, host: str, why: str) -> None:
        """Hear from a host that it cannot go on; only an error of ours leads here."""
        self._bulletin.say(f"{host} cannot go on: {why}")
        ray.kill(self._stations[host].actor)

    async def steward_broken(self, error: Exception) -> None:
        """Hear from a steward that it cannot go on; only an error of ours leads here."""
        self._fail(error)

    async def preempted(self, host: str) -> None:
        """Hear from a host that it has been asked to go."""
        self._preempt(host, "its process was asked to go")

    # --- who comes and goes -------------------------------------------------------------------

    def _condemn(self, verdict: Lost) -> None:
        """Say that a node is lost."""
        if self._roll.is_latest(verdict):
            self._chronicle.lose(verdict.node)
        if self._steward is not None:
            self._steward.lost.remote(verdict)

    def _notice(self, after: float = 0.0) -> None:
        """Say who died in silence so many seconds ago."""
        for verdict in self._roll.noticed(after):
            self._condemn(verdict)

    def _on_begun(self, change: Committed) -> None:
        """Tell of a change that has come into force."""
        ledger = self._chronicle.ledger
        for record in ledger.departures[self._departed :]:
            self._bulletin.say(str(record))
            self._bulletin.departed(crashed=record.crashed)
        self._departed = len(ledger.departures)
        if change.arrival is not None:
            self._bulletin.say(str(ledger.changes[-1]))
        for node in self._roll.nodes:
            receipt = ledger.receipts.get(node)
            if receipt is not None and node not in change.members:
                home = self._stations[self._roll.where[node]]
                home.actor.give_receipt.remote(node, receipt)

    async def _let_the_world_move(self, awaited: tuple[int, ...], stop: int, epoch: int) -> None:
        """Everybody waits: whoever is expected from outside comes now."""
        try:
            self._notice()
            while self._chronicle.epoch < epoch:  # receipts are in the reports
                await asyncio.sleep(0.01)
            self._notice()
            for purpose, node in comers(self._plan, stop):
                if node in awaited and node not in self._roll and node not in self._coming:
                    self._coming.add(node)
                    await self._admit(node, purpose, stop)
                    self._coming.discard(node)
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            self._fail(error)

    async def _admit(self, node: int, purpose: Purpose, t: int) -> None:
        """Start the process of somebody who comes; on another host if the first one dies."""
        ledger = self._chronicle.ledger
        while host := self._home_for(node):
            life = self._roll.begin_life(node)
            seat = seat_of(
                self._plan,
                node,
                host=self._brief.placement.domain_of(host),
                step=ledger.steps[-1].value,
                t=t,
                purpose=purpose,
                receipt=ledger.receipts.get(node),
                life=life,
            )
            self._chronicle.admit(node)
            if host != self._roll.where[node]:
                self._roll.where[node] = host
                told = [*self._hosts().values(), *([self._steward] if self._steward else [])]
                await asyncio.gather(*(_settled(one.locate.remote(node, host)) for one in told))
            answer = self._stations[host].actor.admit.remote(
                seat, departure_after(self._plan, node, t)
            )
            try:
                why = await answer
            except RayError:
                continue  # that host has died meanwhile
            if why is None:
                self._roll.settle(node, life)
            else:
                self._bulletin.say(
                    f"node {node} cannot come: its loss cannot be made ready on {host}: {why}"
                )
                self._condemn(self._roll.lose(node, why, life))
            return

    def _home_for(self, node: int) -> str | None:
        """Return the host of somebody who comes: its own, or another if that is gone."""
        own = self._roll.where[node]
        for state in ("there", "leaving"):
            hosts = [name for name, s in self._stations.items() if s.state == state]
            if hosts:
                return (
                    own if own in hosts else min(hosts, key=lambda name: len(self._roll.on(name)))
                )
        return None

    # --- watching -----------------------------------------------------------------------------

    async def _watch_host(self, name: str) -> None:
        """Wait for a host to die: an unavailable one may come back, a dead one does not."""
        station = self._stations[name]
        why = await death_of(station.actor)
        station.state = "gone"
        if self._outcome is not None:
            return
        nodes = self._roll.on(name)
        if nodes:
            self._bulletin.say(f"{name} died ({why}) with nodes {', '.join(map(str, nodes))}")
        for verdict in self._roll.end_all(name, f"{name} died: {why}"):
            self._condemn(verdict)
        self._bulletin.renew()

    async def _watch_steward(self, steward: Any) -> None:  # noqa: ANN401
        """Wait for the steward to die, and let another one take over."""
        await death_of(steward)
        while self._outcome is None and self._error is None:
            try:
                await self._replace_steward()
            except RayError:
                continue  # this one has died, too
            except Exception as error:  # noqa: BLE001 - nobody else would hear of it
                self._fail(error)
            return

    async def _replace_steward(self) -> None:
        self._steward, self._steward_pid = None, None
        self._term += 1
        self._bulletin.say(
            f"the steward died; steward {self._term + 1} asks everybody where they are"
        )
        self._bulletin.renew()
        charter = charter_of(self._plan, self._brief.first)
        new = actors.steward(self._brief, charter, self._term, self._own)
        pid = await new.pid.remote()
        asked = self._roll.inquire()
        appointments = [actor.appoint.remote(new) for actor in self._hosts().values()]
        await asyncio.gather(*map(_settled, appointments))
        self._steward, self._steward_pid = new, pid
        self._start(self._watch_steward(new))
        gone = self._roll.gone(asked)
        await _settled(new.take_over.remote(self._roll.where, self._hosts(), asked, gone))

    async def _look_around(self) -> None:
        """Look for machines that are drained, hosts that are frozen, and deaths unnoticed."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(_LOOK)
            self._end_if_forsaken()
            if self._outcome is not None or self._error is not None:
                continue
            try:
                leaving = await asyncio.to_thread(_draining)
                if time.monotonic() - before > _LOOK + self._brief.patience / 4:
                    # It is we who have been away: nobody is to die for that.
                    for station in self._stations.values():
                        station.heard = time.monotonic()
                for name, station in self._stations.items():
                    if station.ident in leaving:
                        self._preempt(name, f"machine {station.machine} is drained")
                    self._check_pulse(name, station)
                self._notice(_UNNOTICED)
                self._bulletin.show()
            except Exception as error:  # noqa: BLE001 - nobody else would hear of it
                self._fail(error)

    def _end_if_forsaken(self) -> None:
        """End everything if nobody asks any more, and nobody will."""
        silence = time.monotonic() - self._asked
        if self._outcome is None and self._error is None:
            over = silence > _FORSAKEN and not self._brief.findable
        else:
            # Only here is an outcome that is not on record; somebody may still come for it.
            kept = self._brief.record is None and self._brief.findable and self._error is None
            over = silence > _LINGER and not kept
        if over:
            ray.kill(self._own)  # and everybody with it

    def _check_pulse(self, name: str, station: _Station) -> None:
        """End a host that has been silent for too long: what cannot answer may be frozen."""
        silence = time.monotonic() - station.heard
        if station.state == "gone" or silence < self._brief.patience / 4:
            return
        if silence > self._brief.patience:
            self._bulletin.say(f"{name} has not answered for {silence:.1f} s and is given up")
            station.heard = time.monotonic()
            ray.kill(station.actor)
        else:
            self._start(self._ask(station))

    async def _ask(self, station: _Station) -> None:
        try:
            await station.actor.ping.remote()
        except RayError:
            return  # whoever watches it hears more
        station.heard = time.monotonic()

    def _preempt(self, host: str, why: str) -> None:
        station = self._stations[host]
        if station.state != "there":
            return
        station.state = "leaving"
        nodes = self._roll.on(host)
        self._bulletin.say(
            f"{host} goes ({why}): nodes {', '.join(map(str, nodes)) or 'none'} leave"
        )
        station.actor.preempt.remote()
        self._let_go(host)

    def _let_go(self, host: str) -> None:
        """End a host that is to go, once everybody on it has left."""
        station = self._stations[host]
        if station.state == "leaving" and not self._roll.on(host):
            # Ray waits for a drained machine until its actors are killed, not just gone.
            ray.kill(station.actor)

    # --- the end ------------------------------------------------------------------------------

    def _conclude(self) -> None:
        if not self._concluding and self._outcome is None:
            self._concluding = True
            self._start(self._take_stock())

    async def _take_stock(self) -> None:
        """Everybody has stopped: collect where they are, and write down how it ended."""
        try:
            there = self._hosts()
            answers = await asyncio.gather(
                *(_settled(actor.conclude.remote()) for actor in there.values())
            )
            endings: dict[int, Ending] = {}
            for name, answer in zip(there, answers, strict=True):
                station = self._stations[name]
                if answer is None:
                    continue  # it has died
                while station.reports < answer[1] and station.state != "gone":
                    await asyncio.sleep(0.01)
                endings |= {ending.ident: ending for ending in answer[0]}
            members = self._chronicle.film.members
            known = sorted(members & endings.keys())
            if known and len(known) < len(members):
                return  # somebody has died meanwhile; the steward will finish once more
            await self._let_calls_arrive()
            self._finish([endings[node] for node in known])
        except Exception as error:  # noqa: BLE001 - nobody else would hear of it
            self._fail(error)
        finally:
            self._concluding = False

    async def _let_calls_arrive(self) -> None:
        """Wait a moment: of calls to hosts that are killed meanwhile Ray would tell the user."""
        answers = [_settled(actor.ping.remote()) for actor in self._hosts().values()]
        if answers:
            await asyncio.wait(map(asyncio.ensure_future, answers), timeout=_MOMENT)

    def _finish(self, endings: list[Ending]) -> None:
        outcome = outcome_of(self._plan, self._chronicle.film, self._chronicle.ledger, endings)
        if self._brief.record is not None:
            records.write(self._brief.record, self._brief.fingerprint, outcome)
        self._outcome = outcome
        self._bulletin.say(f"it is over: {outcome.status}")
        self._bulletin.show()
        for actor in self._hosts().values():
            ray.kill(actor)
        self._bulletin.renew()

    # --- telling ------------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._bulletin.say(f"the office cannot go on: {error}")

    def _view(self) -> View:
        hosts = {name: self._host_view(name, s) for name, s in self._stations.items()}
        return self._bulletin.view(
            hosts=hosts,
            steward=self._steward_pid,
            term=self._term,
            status=None if self._outcome is None else self._outcome.status,
        )

    def _host_view(self, name: str, station: _Station) -> HostView:
        return HostView(station.pid, station.machine, tuple(self._roll.on(name)), station.state)

    def _start(self, coroutine: Any) -> None:  # noqa: ANN401
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)  # a task that nobody holds can vanish
        task.add_done_callback(self._tasks.discard)


async def _settled(ref: Any) -> Any:  # noqa: ANN401
    """Return what a call gives, or None if the process it goes to is gone."""
    try:
        return await ref
    except RayError:
        return None


def _draining() -> dict[str, int]:
    try:
        return machines.draining()
    except Exception:  # noqa: BLE001 - an unreachable GCS is not the end of a run
        return {}
