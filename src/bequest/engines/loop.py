"""Real nodes on a virtual network: what a deployment does, without the machines.

Every node is the state machine of ``bequest.protocol``; it sees its own loss and the messages that
reach it, and nothing else. A run without faults agrees with the vector engine, and does not depend
on the order in which messages arrive, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import is_whole
from bequest.engines.assembly import (
    Ending,
    charter_of,
    check_wills,
    comers,
    departure_after,
    opening_step,
    outcome_of,
    seat_of,
)
from bequest.engines.film import Film
from bequest.engines.ledger import Ledger
from bequest.engines.network import Outage, Partition, Weather
from bequest.engines.world import World
from bequest.errors import InvalidMethod
from bequest.protocol.events import Began, Committed, Completed
from bequest.protocol.register import domains_of

if TYPE_CHECKING:
    from bequest.engines.base import Outcome, Plan, Progress
    from bequest.engines.world import Scribe
    from bequest.protocol.events import Effect
    from bequest.protocol.messages import Purpose
    from bequest.protocol.node import Node

__all__ = ["Loop", "Outage", "Partition", "Weather"]


@dataclass(frozen=True)
class Loop:
    """The loop engine.

    Args:
        weather: delays, reordering, duplication and partitions of the virtual network.
        hosts: how many nodes a host holds (consecutive ids), or node -> the name of its host; by
            default every node is on a host of its own. "machine/host" names the machine as well.
            Heirs and buddies are preferably elsewhere, and no two buddies in one place.
        as_bytes: whether messages travel as bytes, as on a real network; slower.
        scribe: hears of everything that happens to every process (``bequest.journal``).
    """

    weather: Weather = field(default_factory=Weather)
    hosts: int | Mapping[int, str] = 1
    as_bytes: bool = False
    scribe: Scribe | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
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
        """Return node -> the name of its host."""
        if isinstance(self.hosts, Mapping):
            return {node: str(self.hosts.get(node, f"host of {node}")) for node in range(n)}
        return {node: f"host {node // self.hosts}" for node in range(n)}


class Execution:
    """One run under way."""

    def __init__(self, engine: Loop, plan: Plan, progress: Progress | None = None) -> None:
        check_wills(plan)
        self.plan, self._progress = plan, progress
        if engine.scribe is not None:
            engine.scribe.began(engine)
        first = opening_step(plan)
        self.hosts = engine.placement(plan.problem.n)
        self.ledger = Ledger(plan, first)
        self.film = Film(plan)
        self._doomed = {
            (node, t) for t, changes in plan.schedule.items() for node in changes.crashes
        }
        self._to_kill: list[int] = []
        # Those who died as planned, and whose death has not been noticed yet.
        self._silent: set[int] = set()
        # Epochs that the steward has decided on; they count once somebody begins them.
        self._decided: dict[int, Committed] = {}
        self._outages = sorted(engine.weather.outages, key=lambda outage: outage.time)
        self._lives: dict[int, int] = dict.fromkeys(plan.network(), 0)
        self.world = World(
            charter_of(plan, first),
            self.hosts,
            weather=engine.weather,
            observe=self._observe,
            scribe=engine.scribe,
            as_bytes=engine.as_bytes,
            patience=engine.weather.patience,
        )

    def run(self) -> Outcome:
        """Run to the end, or until the iterates escape."""
        self.start()
        world = self.world
        while self.film.is_bounded:
            if not len(world.network):
                if world.is_finished and not self._silent:
                    break
                self._let_the_world_move()
            self._let_hosts_die()
            world.step()
            if self._to_kill:
                for node in self._to_kill:
                    world.kill(node, noticed=False)
                self._silent |= set(self._to_kill)
                self._to_kill.clear()
        return self.outcome()

    def start(self) -> None:
        """Start every process that is there from the beginning, and say when it is to go."""
        self.found()
        for node in list(self.world.nodes):
            self._order_to_leave(node, 0)

    def found(self) -> None:
        """Start every process that is there from the beginning."""
        self.world.start({node: self._node(node, 0) for node in self.plan.network()})

    def admit(self, ident: int, purpose: Purpose) -> None:
        """Start the process of somebody who comes, comes back or is to be forgotten."""
        self._lives[ident] = self._lives.get(ident, -1) + 1
        self.world.admit(self._node(ident, self._stop, purpose))

    @property
    def _stop(self) -> int:
        """The round after which everybody waits for somebody from outside; 0 if nobody does."""
        steward = self.world.steward
        return steward.round_reached if steward is not None and steward.awaited else 0

    def _node(self, ident: int, t: int, purpose: Purpose | None = None) -> Node:
        return seat_of(
            self.plan,
            ident,
            host=self.hosts[ident],
            step=self.ledger.steps[-1].value,
            t=t,
            purpose=purpose,
            receipt=self.ledger.receipts.get(ident),
            life=self._lives.get(ident, 0),
        ).fill()

    def _order_to_leave(self, node: int, t: int) -> None:
        """Tell a node when it is to go, if that is planned."""
        later = departure_after(self.plan, node, t)
        if later is not None:
            self.world.leave(node, later)

    def _let_the_world_move(self) -> None:
        """Nothing is under way: whoever is expected from outside comes now."""
        steward = self.world.steward
        awaited = () if steward is None else steward.awaited
        if not awaited and not self._silent:
            raise self.world.stall()
        # A planned crash is noticed once everybody else has completed the round, too; or when
        # nothing goes on without that.
        for ident in sorted(self._silent):
            self.world.condemn(ident, "its process is gone")
        self._silent.clear()
        if not awaited:
            return
        t = self._stop
        for purpose, ident in comers(self.plan, t):
            if ident in awaited:
                self.admit(ident, purpose)
                self._order_to_leave(ident, t)

    def _let_hosts_die(self) -> None:
        """Let the hosts go down whose time has come."""
        while self._outages and self.world.network.next_time >= self._outages[0].time:
            host = self._outages.pop(0).host
            for ident, node in sorted(self.world.nodes.items()):
                if host in domains_of(node.host):
                    self.world.kill(ident)

    def _observe(self, process: int, effect: Effect) -> None:
        if isinstance(effect, Completed):
            self.film.take(process, effect)
            self.ledger.observe(process, effect)
            self._meet_doom(process, effect.round)
            if self._progress is not None and self.film.new_rounds:
                self._progress(self.film.new_rounds.pop())
            return
        self.ledger.observe(process, effect)
        if isinstance(effect, Committed):
            self._decided[effect.epoch] = effect
        elif isinstance(effect, Began):
            change = self._decided.get(effect.epoch)
            if change is not None:
                self._begin(change)
            self.film.begin(process, effect)
            self._meet_doom(process, effect.round)  # after a loss it may have skipped rounds

    def _meet_doom(self, process: int, t: int) -> None:
        """Let a node die that is to die after that round."""
        if (process, t) in self._doomed:
            self._doomed.discard((process, t))
            self._to_kill.append(process)

    def _begin(self, change: Committed) -> None:
        """Somebody has begun an epoch: from now on it counts, and others that never did do not."""
        self._decided = {e: later for e, later in self._decided.items() if e > change.epoch}
        self.ledger.commit(change)
        self.film.cut(change)
        self._tell_the_oracle(change)
        for ident, node in self.world.nodes.items():
            if node.purpose is not None and node.receipt is None:
                node.receipt = self.ledger.receipts.get(ident)

    def _tell_the_oracle(self, change: Committed) -> None:
        """Wills that know x* (in studies) are told when it moves."""
        if change.round in self.plan.counted:
            for node in self.world.nodes.values():
                step = self.ledger.steps[-1].value
                node.setting = self.plan.setting(node.will, step=step, target=change.round)

    def outcome(self) -> Outcome:
        """Return what is to be reported."""
        film = self.film
        # A process that asks to come back is not yet the member whose place it wants. (A replay may
        # be over before anything has begun.)
        begun = {n for n, node in self.world.nodes.items() if n in film.members and node.epoch}
        members = sorted(begun if film.members else self.world.nodes)
        endings = [Ending.of(self.world.nodes[node]) for node in members]
        return outcome_of(self.plan, film, self.ledger, endings)
