"""Real nodes on a virtual network: what a deployment does, without the machines.

Every node is the state machine of ``bequest.protocol``; it sees its own loss and the messages that
reach it, and nothing else. A run without faults agrees with the vector engine, and does not depend
on the order in which messages arrive, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bequest.core.arrays import is_whole
from bequest.engines.loop.network import Outage, Partition, Weather
from bequest.engines.loop.world import World
from bequest.engines.news import News
from bequest.engines.runtime.node_setup import (
    FinalState,
    charter_of,
    complete_placement,
    departure_after,
    opening_pace,
    planned_crashes,
    setup_of,
)
from bequest.engines.runtime.steward_desk import Note
from bequest.engines.runtime.supervisor import DeclareLost, GiveReceipt, StartNode, Supervisor
from bequest.errors import InvalidMethod
from bequest.protocol.events import Began, Completed, OptimumMoved, Receipt
from bequest.protocol.membership_register import domains_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.engines.base import Progress
    from bequest.engines.loop.world import Scribe
    from bequest.engines.news import Line
    from bequest.engines.runtime.node_setup import NodeSetup
    from bequest.engines.runtime.report_batch import Ended
    from bequest.engines.runtime.supervisor import Command
    from bequest.model.outcome import Outcome
    from bequest.model.plan import Plan
    from bequest.protocol.events import Effect
    from bequest.protocol.messages import Purpose
    from bequest.protocol.node import Node

__all__ = ["Loop", "Outage", "Partition", "Weather"]


@dataclass(frozen=True)
class Loop:
    """The loop engine.

    Args:
        weather: delays, reordering, duplication and partitions of the virtual network.
        hosts: how many nodes a host holds (consecutive ids), or the name of each node's host; by
            default every node is on a host of its own. "machine/host" names the machine as well.
            Heirs and buddies are preferably elsewhere, and no two buddies in one place.
        as_bytes: whether messages travel as bytes, as on a real network; slower.
        scribe: hears of everything that happens to every process (``bequest.journal``).
        watch: hears what is new of a run while it goes on (``engines.news``).
    """

    without_effect: ClassVar[frozenset[str]] = frozenset({"scribe", "watch"})

    weather: Weather = field(default_factory=Weather)
    hosts: int | Mapping[int, str] = 1
    as_bytes: bool = False
    scribe: Scribe | None = field(default=None, repr=False)
    watch: Callable[[Line], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.weather, Weather):
            raise InvalidMethod(
                f"weather is {self.weather!r}.", remedy="Pass bequest.engines.Weather(...)."
            )
        if not isinstance(self.hosts, Mapping) and not is_whole(self.hosts, least=1):
            raise InvalidMethod(
                f"hosts is {self.hosts!r}.",
                remedy="Give the number of nodes per host, or a mapping from node to host.",
            )

    def run(self, plan: Plan, progress: Progress | None = None) -> Outcome:
        """Carry out the plan; ``progress`` hears of rounds as they are completed."""
        with np.errstate(over="ignore", invalid="ignore"):
            return Execution(self, plan, progress).run()

    def placement(self, n: int) -> dict[int, str]:
        """Return node -> the name of its host.

        Raises:
            InvalidPlacement: the mapping leaves a node out, or names one that does not exist; or
                the weather is about a host that no node is on.
        """
        if isinstance(self.hosts, Mapping):
            hosts = complete_placement(self.hosts, n)
        else:
            hosts = {node: f"host {node // self.hosts}" for node in range(n)}
        self.weather.check_hosts(hosts.values())
        return hosts


class Execution:
    """One run under way: a supervisor, and the virtual world that it supervises."""

    def __init__(self, engine: Loop, plan: Plan, progress: Progress | None = None) -> None:
        self.plan, self._progress = plan, progress
        self.hosts = engine.placement(plan.problem.n)
        if engine.scribe is not None:
            engine.scribe.began(engine)
        self._news = None if engine.watch is None else News(plan, engine.watch)
        first = opening_pace(plan)
        self.supervisor = Supervisor(plan, first, self.hosts)
        self._planned_crashes = planned_crashes(plan)
        # The nodes that crash as planned after the event that is being handled.
        self.crashing: list[int] = []
        self._outages = sorted(engine.weather.outages, key=lambda outage: outage.time)
        self.world = World(
            charter_of(plan, first),
            self.hosts,
            weather=engine.weather,
            observe=self._observe,
            ended=self._ended,
            scribe=engine.scribe,
            as_bytes=engine.as_bytes,
            patience=engine.weather.patience,
        )

    def run(self) -> Outcome:
        """Run to the end, or until the iterates escape."""
        self.start()
        world, recorder = self.world, self.supervisor.recorder
        step = world.step
        assert recorder is not None  # noqa: S101 - one process sees every node here
        while recorder.is_bounded:
            if self._outages and world.network:
                self._let_hosts_die()
            if not step():
                if self.is_over:
                    break
                self.let_the_world_move()
                if not world.network:
                    raise world.stall()
            elif self.crashing:
                self.let_planned_crashes_happen()
        outcome = self.outcome()
        if self._news is not None:
            self._report(self.plan.rounds)
            self._news.end(outcome.status)
        return outcome

    def _report(self, t: int) -> None:
        """Tell what is new, up to a round that has been measured."""
        recorder, ledger = self.supervisor.recorder, self.supervisor.ledger
        if self._news is not None and recorder is not None:
            self._news.advance(t, recorder.metrics, ledger.departures, ledger.changes)

    @property
    def is_over(self) -> bool:
        """Whether the run is over, given that nothing is under way."""
        return self.world.is_finished and not self.supervisor.incarnations.is_silent

    def start(self) -> None:
        """Start every process that is there from the beginning, and say when it is to go."""
        self.found()
        for node in list(self.world.nodes):
            leaves = departure_after(self.plan, node, 0)
            if leaves is not None:
                self.world.leave(node, leaves)

    def found(self) -> None:
        """Start every process that is there from the beginning."""
        pace = self.supervisor.ledger.steps[-1].value
        founders = {
            node: setup_of(self.plan, node, host=self.hosts[node], pace=pace).build()
            for node in self.plan.network()
        }
        self.world.start(founders)

    def admit(self, ident: int, purpose: Purpose, t: int) -> None:
        """Start the process of a node that comes, comes back or is to be forgotten."""
        self._carry_out(self.supervisor.start(ident, purpose, t))

    def declare_lost(self, node: int, why: str) -> None:
        """Give the verdict that a node is lost, right or wrong."""
        self._carry_out(self.supervisor.declare_lost(node, why))

    def let_the_world_move(self) -> None:
        """Nothing is under way: crashes are noticed, and expected nodes come."""
        supervisor, steward = self.supervisor, self.world.steward
        awaited = () if steward is None else steward.awaited
        if not awaited and not supervisor.incarnations.is_silent:
            raise self.world.stall()
        self._carry_out(supervisor.tick(math.inf))
        if steward is not None and awaited:
            term, present = supervisor.stewards.term, steward.present
            note = Note(term, (), awaited, present.round_reached, present.number)
            self._carry_out(supervisor.note(note))
            # The steward goes on from here by itself.
            supervisor.note(Note(term, (), (), 0, 0))

    def _let_hosts_die(self) -> None:
        """Let the hosts go down whose time has come."""
        while self._outages and self.world.network.next_time >= self._outages[0].time:
            host = self._outages.pop(0).host
            for ident, node in list(self.world.nodes.items()):
                if host in domains_of(node.host):
                    self.world.kill(ident)

    def let_planned_crashes_happen(self) -> None:
        """End the processes that crash as planned after what they have just done."""
        for node in self.crashing:
            self.world.kill(node, noticed=False)
        self.crashing.clear()

    def _observe(self, process: int, effect: Effect) -> None:
        supervisor = self.supervisor
        commands = supervisor.observe(process, effect)
        if commands:
            self._carry_out(commands)
        if type(effect) is Completed:
            if self._planned_crashes:
                self._crash_if_planned(process, effect.round)
            recorder = supervisor.recorder
            if recorder is not None and recorder.new_rounds:
                measured = recorder.new_rounds.pop()
                if self._progress is not None:
                    self._progress(measured)
                self._report(measured)
        elif isinstance(effect, Began):
            self._tell_the_oracle(self.world.nodes[process], effect.round)
            self._crash_if_planned(process, effect.round)  # a loss may have skipped rounds

    def _ended(self, ended: Ended) -> None:
        host = self.hosts[ended.process]
        self._carry_out(self.supervisor.report(host, [ended], self.world.network.time))

    def _crash_if_planned(self, process: int, t: int) -> None:
        if (process, t) in self._planned_crashes:
            self._planned_crashes.discard((process, t))
            self.crashing.append(process)

    def _tell_the_oracle(self, node: Node, t: int) -> None:
        """Tell a will that knows x* (in studies) when it moves.

        Of several changes after one round the first may be a loss: the node that leaves next does
        not know yet who comes.
        """
        moved = node.place is not None and node.place.arrange.target_moves
        if node.will is not None and node.will.needs_oracle and moved and t in self.plan.counted:
            optimum = self.plan.optima.at(t)
            if optimum is not None:
                node.handle(OptimumMoved(optimum))

    def _carry_out(self, commands: Sequence[Command]) -> None:
        """Do what the supervisor wants, as far as there is anything to do in one process."""
        for command in commands:
            if isinstance(command, DeclareLost):
                self.world.declare_lost(command.verdict)
            elif isinstance(command, GiveReceipt):
                node = self.world.nodes.get(command.node)
                if node is not None:  # the report of its end may be what the receipt follows from
                    node.handle(Receipt(command.receipt))
            elif isinstance(command, StartNode):
                self._start_node(command.setup, command.leaves)

    def _start_node(self, setup: NodeSetup, leaves: int | None) -> None:
        self.world.admit(setup.build())
        self._carry_out(self.supervisor.started(setup))
        if leaves is not None:
            self.world.leave(setup.ident, leaves)

    def outcome(self) -> Outcome:
        """Return what is to be reported."""
        # A process that asks to come back is not yet the member whose place it wants. A founder is
        # one before anything has begun.
        world, supervisor = self.world, self.supervisor
        there = {n: node for n, node in world.nodes.items() if node.epoch or node.purpose is None}
        if supervisor.recorder is not None and not supervisor.recorder.is_bounded:
            # The run has ended before the others could take note that these are gone.
            there = {n: world.gone[n] for n in supervisor.members & world.gone.keys()} | there
        return supervisor.outcome(FinalState.of(node) for node in there.values())
