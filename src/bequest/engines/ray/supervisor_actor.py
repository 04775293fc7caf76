"""The supervisor as a process of the cluster.

It watches the hosts and the steward, looks for machines that Ray drains, and carries out what the
supervisor (``engines.runtime.supervisor``) wants. It takes no part in the rounds: the hosts talk
to each other.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError

from bequest.engines import records
from bequest.engines.ray import actors, ray_private
from bequest.engines.ray.arrivals import let_in
from bequest.engines.ray.host_watch import HostWatch, WatchedHost
from bequest.engines.ray.monitoring import Monitoring
from bequest.engines.ray.ray_private import settled
from bequest.engines.runtime.arrivals import Arrivals
from bequest.engines.runtime.node_group import STEWARD_HOST
from bequest.engines.runtime.node_setup import charter_of
from bequest.engines.runtime.supervisor import (
    DeclareLost,
    EmptyHost,
    EndHost,
    GiveReceipt,
    Relocate,
    StartNode,
    Supervisor,
    TakeStock,
    Tell,
)
from bequest.engines.runtime.view import HostView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from bequest.core.steps import StepChoice
    from bequest.engines.ray.host_actor import HostReady
    from bequest.engines.runtime.node_setup import FinalState
    from bequest.engines.runtime.placement import Placement
    from bequest.engines.runtime.report_batch import ReportItem
    from bequest.engines.runtime.steward_desk import Note
    from bequest.engines.runtime.supervisor import Command
    from bequest.engines.runtime.view import View
    from bequest.model.outcome import Outcome
    from bequest.model.plan import Plan

# Seconds between two looks for drained machines; a SIGTERM may leave no more than 30.
_LOOK = 0.2
# Seconds for which a supervisor whose run is over, and whose driver is gone, waits for another
# caller that wants the outcome.
_LINGER = 10.0
# Seconds for which a run that cannot be found again goes on after its driver is gone.
_FORSAKEN = 60.0


@dataclass(frozen=True, eq=False)
class RunSetup:
    """The run that a supervisor watches over.

    Attributes:
        plan: the run.
        first: its first step.
        placement: the hosts and machines of the nodes at the start.
        namespace: of the run's actors.
        patience: seconds of silence after which a host counts as dead.
        record: the file of the outcome; None for no file.
        fingerprint: what tells this run from another.
        findable: whether a caller can come back to it.
        caller: the job of the driver that starts it.
        startup: seconds that its processes may take to begin.
    """

    plan: Plan
    first: StepChoice
    placement: Placement
    namespace: str
    patience: float
    record: Path | None
    fingerprint: dict[str, str]
    findable: bool
    caller: str
    startup: float


class SupervisorActor:
    """The actor."""

    def __init__(self, setup: RunSetup) -> None:
        self._setup = setup
        placement = setup.placement
        self.supervisor = Supervisor(
            setup.plan, setup.first, placement.hosts, domain_of=placement.domain_of
        )
        self.monitoring = Monitoring(setup.namespace, setup.plan, self.supervisor, setup.record)
        self.hosts: dict[str, WatchedHost] = {}
        self._watch = HostWatch(self, setup.patience)
        self._arrivals = Arrivals(self.supervisor)
        self.steward: Any = None
        self._steward_pid: int | None = None
        self._error: BaseException | None = None
        self._outcome: Outcome | None = None
        self.is_over = False
        # The job of the latest caller, and the seconds since it asked, as far as this process was
        # awake to hear it.
        self._caller, self._unasked = setup.caller, 0.0
        self._concluding = False
        self._tasks: set[asyncio.Task[None]] = set()

    # --- beginning and end --------------------------------------------------------------------

    async def expect(self, own: Any) -> None:  # noqa: ANN401
        """Wait to be opened; a run whose driver died before that is over.

        Args:
            own: the supervisor's own actor.
        """
        self._own = own

        async def wait() -> None:
            while not self.hosts:
                await asyncio.sleep(self._setup.startup + _LINGER)
                if not self.hosts:
                    await self._end_unless_called()

        # Not as a part of this call: Ray would tell the user that it failed when this process ends.
        self.start(wait())

    async def open(
        self,
        hosts: Mapping[str, tuple[Any, HostReady]],
        steward: Any,  # noqa: ANN401
        own: Any,  # noqa: ANN401
    ) -> None:
        """Begin: the hosts get to know each other, and the steward founds the network.

        Args:
            hosts: host -> its actor, and what it says of itself.
            steward: the first one.
            own: the supervisor's own actor.
        """
        if self.hosts:
            return  # Ray has made this call before
        self._own = own  # calls overtake each other
        self.monitoring.begin()
        self._unasked = 0.0
        for name, (actor, ready) in hosts.items():
            machine = self._setup.placement.machines[name]
            self.hosts[name] = WatchedHost(actor, ready.pid, machine.name, machine.ident)
            self._watch.heard(name)
            if not ready.hears_sigterm:
                self.monitoring.say(
                    f"{name} cannot hear a SIGTERM: to its nodes it would be a crash"
                )
        self.steward = steward
        self._steward_pid = await steward.pid.remote()
        alive = self.alive()
        meetings = [actor.meet.remote({**alive, STEWARD_HOST: steward}) for actor in alive.values()]
        await asyncio.gather(*map(settled, meetings))
        for name, host in self.hosts.items():
            self.start(self._watch.wait_for_death(name, host))
        self.start(self._watch_steward(steward))
        self.start(self._look_around())
        await settled(steward.begin.remote(self.supervisor.incarnations.where, alive))

    def alive(self) -> dict[str, Any]:
        """Return the actors of the hosts that are not gone, by name."""
        states = self.supervisor.host_states
        return {name: host.actor for name, host in self.hosts.items() if states[name] != "gone"}

    async def follow(self, version: int, caller: str, timeout: float = 0.5) -> View:
        """Return the present view, once there is a later one than that version.

        Args:
            version: of the view that the caller has seen.
            caller: the caller's job.
            timeout: seconds to wait for a later one.
        """
        self._caller, self._unasked = caller, 0.0
        if self._outcome is None and self._error is None:
            await self.monitoring.news_after(version, timeout)
        if self._error is not None:
            raise self._error
        on, states = self.supervisor.incarnations.on, self.supervisor.host_states
        hosts = {
            name: HostView(host.pid, host.machine, tuple(on(name)), states[name])
            for name, host in self.hosts.items()
        }
        status = None if self._outcome is None else self._outcome.status
        return self.monitoring.view(
            hosts=hosts, steward=self._steward_pid, status=status, since=version
        )

    async def watch(self) -> None:
        """Never return: a caller that waits for this hears when the process dies."""
        await asyncio.Event().wait()

    async def fingerprint(self) -> dict[str, str] | None:
        """Return what tells this run from another; None before it has begun."""
        return self._setup.fingerprint if self.hosts else None

    async def outcome(self) -> Outcome:
        """Return how it ended, when it has."""
        assert self._outcome is not None  # noqa: S101 - asked when the view has a status
        return self._outcome

    async def addresses(self) -> dict[str, Any]:
        """Return the actors of the run, its own not included, for the caller that ends them."""
        return {**self.alive(), STEWARD_HOST: self.steward}

    # --- what hosts and the steward say -------------------------------------------------------

    async def report(self, host: str, number: int, items: list[ReportItem]) -> None:
        """Take in a host's report; they may overtake each other.

        The answer means that everything up to this report is on record.
        """
        known = self.hosts[host]
        if self.supervisor.host_states[host] == "gone":
            return
        self._watch.heard(host)
        for ready in known.reports.put(number, items):
            self.happen(self.supervisor.report, host, ready, time.monotonic())
            known.reported.set()
        self.monitoring.renew()
        while known.reports.count < number:
            known.reported.clear()
            await known.reported.wait()

    async def note(self, note: Note) -> None:
        """Take in a steward's decisions, and the nodes that it waits for."""
        self.happen(self.supervisor.note, note)
        self.monitoring.renew()

    async def broken(self, host: str, why: str) -> None:
        """Hear from a host that it cannot go on; only an error of bequest leads here."""
        self.monitoring.say(f"{host} cannot go on: {why}")
        ray.kill(self.hosts[host].actor)

    async def steward_broken(self, error: Exception) -> None:
        """Hear from a steward that it cannot go on; only an error of bequest leads here."""
        self.fail(error)

    async def preempted(self, host: str) -> None:
        """Hear from a host that it has been asked to go."""
        self.happen(self.supervisor.preempt, host, "its process was asked to go")

    # --- what the supervisor wants ------------------------------------------------------------

    def happen(self, event: Callable[..., Sequence[Command]], *about: object) -> None:
        """Tell the supervisor of an event, and carry out what it wants."""
        try:
            for command in event(*about):
                self._carry_out(command)
        except Exception as error:  # noqa: BLE001 - no other process would hear of it
            self.fail(error)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Tell(what):
                self.monitoring.say(what)
            case DeclareLost(verdict):
                self.steward.lost.remote(verdict)
            case GiveReceipt(node, host, receipt):
                self.hosts[host].actor.give_receipt.remote(node, receipt)
            case Relocate() | StartNode():
                if self._arrivals.put(command):
                    self.start(let_in(self, self._arrivals))
            case EmptyHost(host):
                self.hosts[host].actor.preempt.remote()
            case EndHost(host):
                # Ray waits for a drained machine until its actors are killed, not just gone.
                ray.kill(self.hosts[host].actor)
            case TakeStock() if not self._concluding and self._outcome is None:
                self._concluding = True
                self.start(self._take_stock())

    # --- watching -----------------------------------------------------------------------------

    async def _watch_steward(self, steward: Any) -> None:  # noqa: ANN401
        """Wait for the steward to die, and let another one take over."""
        await ray_private.death_of(steward)
        while self._outcome is None and self._error is None:
            try:
                await self._replace_steward()
            except RayError:
                continue  # this one has died, too
            except Exception as error:  # noqa: BLE001 - no other process would hear of it
                self.fail(error)
            return

    async def _replace_steward(self) -> None:
        setup, stewards = self._setup, self.supervisor.stewards
        self.steward, self._steward_pid = None, None
        self.happen(self.supervisor.steward_lost)
        charter = charter_of(setup.plan, setup.first)
        new = actors.steward(setup, charter, stewards.term, self._own)
        pid = await new.pid.remote()
        stewards.inquire()
        calls = [actor.appoint.remote(new) for actor in self.alive().values()]
        await asyncio.gather(*map(settled, calls))
        self.steward, self._steward_pid = new, pid
        self.start(self._watch_steward(new))
        await settled(new.take_over.remote(stewards.appoint(), self.alive()))

    async def _look_around(self) -> None:
        """Look for machines that are drained, hosts that are frozen, and unnoticed crashes."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(_LOOK)
            # On a machine that is too busy this process is away for longer, and so is the caller.
            self._unasked += min(time.monotonic() - before, 2 * _LOOK)
            await self._end_if_forsaken()
            if self._outcome is not None or self._error is not None:
                continue
            try:
                await self._watch.look(before)
                self.happen(self.supervisor.tick, time.monotonic())
                self.monitoring.show()
            except Exception as error:  # noqa: BLE001 - no other process would hear of it
                self.fail(error)

    async def _end_if_forsaken(self) -> None:
        """End the run if no caller asks any more, and none will."""
        if self._outcome is None and self._error is None:
            over = self._unasked > _FORSAKEN and not self._setup.findable
        else:
            # Only here is an outcome that is not on record; a caller may still come for it.
            kept = self._setup.record is None and self._setup.findable and self._error is None
            over = self._unasked > _LINGER and not kept
        if over:
            await self._end_unless_called()

    async def _end_unless_called(self) -> None:
        """End the run if the driver that called last is gone.

        Silence alone proves nothing: on a busy machine, or while it draws what it has seen, a
        driver may need longer than any limit between two calls.
        """
        caller = self._caller
        if await asyncio.to_thread(_is_running, caller):
            self._unasked = 0.0
        elif self._caller == caller:  # and no other has called meanwhile
            ray.kill(self._own)  # and every other process of the run with it

    # --- the end ------------------------------------------------------------------------------

    async def _take_stock(self) -> None:
        """Collect the final states, and write down how the run ended."""
        try:
            alive = self.alive()
            answers = await asyncio.gather(
                *(settled(actor.conclude.remote()) for actor in alive.values())
            )
            states: list[FinalState] = []
            for name, answer in zip(alive, answers, strict=True):
                if answer is None:
                    continue  # it has died
                while self.hosts[name].reports.count < answer[1] and name in self.alive():
                    await asyncio.sleep(0.01)
                states += answer[0]
            members = self.supervisor.members
            known = members & {state.ident for state in states}
            if known and known != members:
                return  # a member has died meanwhile; the steward will finish once more
            await self._watch.drain_calls()
            self._finish(states)
        except Exception as error:  # noqa: BLE001 - no other process would hear of it
            self.fail(error)
        finally:
            self._concluding = False

    def _finish(self, states: list[FinalState]) -> None:
        outcome = self.supervisor.outcome(states)
        setup = self._setup
        if setup.record is not None:
            kept = records.Record(setup.fingerprint, setup.plan.scene, outcome)
            records.write(setup.record, kept)
        self._outcome, self.is_over = outcome, True
        self.monitoring.say(f"it is over: {outcome.status}")
        self.monitoring.show()
        for actor in self.alive().values():
            ray.kill(actor)
        self.monitoring.renew()

    def fail(self, error: BaseException) -> None:
        """Let the caller hear of an error that no other process would hear of."""
        self._error = self._error or error
        self.monitoring.say(f"the supervisor cannot go on: {error}")

    def start(self, coroutine: Any) -> None:  # noqa: ANN401
        """Run a coroutine in the background."""
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)  # a task without a reference can vanish
        task.add_done_callback(self._tasks.discard)


def _is_running(job: str) -> bool:
    try:
        return ray_private.is_running(job)
    except Exception:  # noqa: BLE001 - an unreachable GCS is not the end of a run
        return True
