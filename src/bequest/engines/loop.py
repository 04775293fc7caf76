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

from bequest.core import mixing
from bequest.core.arrays import frozen, is_whole
from bequest.engines.base import Outcome, first_step
from bequest.engines.gauges import Gauges
from bequest.engines.ledger import Ledger
from bequest.engines.network import Outage, Partition, Weather
from bequest.engines.world import World
from bequest.errors import InvalidMethod, InvalidWill
from bequest.model.graph import epoch_edges
from bequest.model.run import Status
from bequest.model.wills import Setting
from bequest.protocol.events import Began, Committed, Completed
from bequest.protocol.node import Node
from bequest.protocol.steward import Charter

if TYPE_CHECKING:
    from bequest.core.arrays import Tensor, Vector
    from bequest.engines.base import Plan, Progress
    from bequest.engines.world import Scribe
    from bequest.model.wills import Will
    from bequest.protocol.events import Effect
    from bequest.protocol.messages import Purpose

__all__ = ["Loop", "Outage", "Partition", "Weather"]

# Rounds are measured this many at a time.
_CHUNK = 64


@dataclass(frozen=True)
class Loop:
    """The loop engine.

    Args:
        weather: delays, reordering, duplication and partitions of the virtual network.
        hosts: how many nodes a host holds (consecutive ids), or node -> the name of its host; by
            default every node is on a host of its own. Heirs and buddies are preferably on others.
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
        _check_wills(plan)
        self.plan, self._progress = plan, progress
        if engine.scribe is not None:
            engine.scribe.began(engine)
        network = plan.network()
        nodes, edges = epoch_edges(network)
        self._first = first_step(plan, nodes, mixing.metropolis(edges, nodes.size))
        self.hosts = engine.placement(plan.problem.n)
        self.ledger = Ledger(plan, self._first)
        self.film = Film(plan)
        arrivals = {
            t: (*changes.forgets, *changes.returns, *changes.joins)
            for t, changes in plan.schedule.items()
        }
        charter = Charter(
            network={node: frozenset(others) for node, others in network.items()},
            stops=tuple(sorted({*plan.schedule, plan.rounds})),
            buddies=0 if plan.checkpoint_every is None else plan.buddies,
            step=self._first.value,
            adaptive=plan.step is None,
            losses={t: changes.crashes for t, changes in plan.schedule.items()},
            arrivals=arrivals,
        )
        self._doomed = {
            (node, t) for t, changes in plan.schedule.items() for node in changes.crashes
        }
        self._to_kill: list[int] = []
        # Those who died as planned, and whose death has not been noticed yet.
        self._silent: set[int] = set()
        # Epochs that the steward has decided on; they count once somebody begins them.
        self._decided: dict[int, Committed] = {}
        self._outages = sorted(engine.weather.outages, key=lambda outage: outage.time)
        self._lives: dict[int, int] = dict.fromkeys(network, 0)
        self.world = World(
            charter,
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
                if world.is_finished:
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
        plan = self.plan
        will = plan.wills.get(ident)
        if will is not None and plan.pilot is None and will.needs_pilot_in(plan.problem.regime):
            will = None  # it does not leave as planned, and has nothing to write a checkpoint with
        return Node(
            ident,
            plan.problem.objective(ident),
            setting=self._setting(will, plan.optimum(t)),
            start=plan.start[ident],
            will=will,
            host=self.hosts[ident],
            checkpoint_every=plan.checkpoint_every if plan.buddies else None,
            purpose=purpose,
            known=plan.known.get(ident, ()),
            receipt=self.ledger.receipts.get(ident),
            life=self._lives.get(ident, 0),
        )

    def _order_to_leave(self, node: int, t: int) -> None:
        """Tell a node when it is to go, if that is planned."""
        planned = [s for s, changes in self.plan.schedule.items() if node in changes.departures]
        if later := [s for s in planned if s > t]:
            self.world.leave(node, min(later))

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
        changes = self.plan.schedule[t]
        comers: dict[Purpose, tuple[int, ...]] = {
            "forget": changes.forgets,
            "return": changes.returns,
            "join": changes.joins,
        }
        for purpose, idents in comers.items():
            for ident in idents:
                if ident in awaited:
                    self.admit(ident, purpose)
                    self._order_to_leave(ident, t)

    def _let_hosts_die(self) -> None:
        """Let the hosts go down whose time has come."""
        while self._outages and self.world.network.next_time >= self._outages[0].time:
            host = self._outages.pop(0).host
            for ident, node in sorted(self.world.nodes.items()):
                if node.host == host:
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
            optimum = self.plan.optimum(change.round)
            for node in self.world.nodes.values():
                node.setting = self._setting(node.will, optimum)

    def _setting(self, will: Will | None, optimum: Vector | None) -> Setting:
        """Return what everybody knows, as far as this will may know it."""
        problem = self.plan.problem
        return Setting(
            n=problem.n,
            mu=problem.mu,
            kappa=problem.kappa,
            step=self.ledger.steps[-1].value,
            pilot=self.plan.pilot if will is not None and will.needs_pilot else None,
            optimum=optimum if will is not None and will.needs_oracle else None,
        )

    def outcome(self) -> Outcome:
        """Return what is to be reported."""
        film, plan = self.film, self.plan
        # A process that asks to come back is not yet the member whose place it wants. (A replay may
        # be over before anything has begun.)
        begun = {n for n, node in self.world.nodes.items() if n in film.members and node.epoch}
        members = sorted(begun if film.members else self.world.nodes)
        if not members:
            self.ledger.end(film.members, film.measured)
        nodes = [self.world.nodes[node] for node in members]
        strength = sum(node.objective.curvature.a + node.inherited.curvature[0] for node in nodes)
        stiffness = sum(node.objective.curvature.b + node.inherited.curvature[1] for node in nodes)
        X = np.array([node.x for node in nodes]).reshape(-1, plan.problem.dim)
        settled = film.is_bounded and film.gauges.settled(
            strength=strength, stiffness=stiffness, size=float(np.abs(X).max(initial=0.0))
        )
        status = Status.DIVERGED
        if film.is_bounded:
            status = Status.CONVERGED if settled else Status.UNFINISHED
        if not members:
            status = Status.LOST
        return Outcome(
            status=status,
            trajectory=film.gauges.trajectory(),
            departures=tuple(self.ledger.departures),
            changes=tuple(self.ledger.changes),
            survivors=tuple(members),
            x=frozen(X),
            inherited={n.ident: n.inherited for n in nodes if not n.inherited.is_zero},
            lost=tuple(sorted(self.ledger.lost)),
            steps=tuple(self.ledger.steps),
        )


class Film:
    """What is measured of every round, from states that arrive node by node."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.gauges = Gauges(plan.rounds, plan.optima, plan.start)
        self.is_bounded = True
        self.new_rounds: list[int] = []
        self._optimum = plan.optimum(0)
        self._members: tuple[int, ...] = ()
        self._row: dict[int, int] = {}
        self._since = 0
        self._measured = -1
        self._chunks: dict[int, _Chunk] = {}
        self._opening: dict[int, Began] = {}

    @property
    def measured(self) -> int:
        """The last round that everybody has completed."""
        return max(self._measured, 0)

    @property
    def members(self) -> set[int]:
        """Who is in the present epoch."""
        return set(self._members)

    def take(self, process: int, state: Completed) -> None:
        """Keep the state of one node after one round."""
        row = self._row.get(process)
        if row is None:
            return  # it was taken for lost, and does not know yet
        index = (state.round - self._since - 1) // _CHUNK
        chunk = self._chunks.get(index)
        if chunk is None:
            first = self._since + 1 + index * _CHUNK
            length = min(_CHUNK, self._plan.rounds + 1 - first)
            shape = (length, len(self._members), self._plan.problem.dim)
            X, Z, G = np.empty((3, *shape))
            chunk = self._chunks[index] = _Chunk(first, X, Z, G, [len(self._members)] * length)
        slot = state.round - chunk.first
        chunk.X[slot, row], chunk.Z[slot, row], chunk.G[slot, row] = state.x, state.z, state.g
        chunk.missing[slot] -= 1
        if slot == len(chunk.missing) - 1 and not any(chunk.missing):
            del self._chunks[index]
            self._measure(chunk, len(chunk.missing))

    def _measure(self, chunk: _Chunk, rounds: int) -> None:
        if not rounds or not self.is_bounded:
            return
        taken = slice(rounds)
        X, Z, G = chunk.X[taken], chunk.Z[taken], chunk.G[taken]
        escaped = self.gauges.measure(chunk.first, X, Z, G, optimum=self._optimum)
        self.is_bounded = escaped is None
        self._measured = chunk.first + rounds - 1
        self.new_rounds = [self._measured]

    def cut(self, change: Committed) -> None:
        """End an epoch: measure the rounds that everybody completed."""
        for _, chunk in sorted(self._chunks.items()):
            whole = [missing == 0 for missing in chunk.missing]
            self._measure(chunk, whole.index(False) if False in whole else len(whole))
        self._chunks, self._opening = {}, {}
        self._members, self._since = change.members, change.round
        self._row = {node: row for row, node in enumerate(change.members)}
        if change.round in self._plan.counted and change.arrival is not None:
            self._optimum = self._plan.optimum(change.round)

    def begin(self, process: int, state: Began) -> None:
        """Begin an epoch: once everybody has, that is the state after its round."""
        self._opening[process] = state
        if self._opening.keys() >= set(self._members) and self.is_bounded:
            states = [self._opening[node] for node in self._members]
            X, Z, G = (
                np.array([getattr(one, name) for one in states])[None] for name in ("x", "z", "g")
            )
            # Rounds that a loss has cut short end with the restart, too.
            for t in range(min(self._measured + 1, state.round), state.round + 1):
                escaped = self.gauges.measure(t, X, Z, G, optimum=self._optimum)
                self.is_bounded = self.is_bounded and escaped is None
            self._measured = state.round


@dataclass(eq=False)
class _Chunk:
    """Consecutive rounds of one epoch: a slot per round, a row per node."""

    first: int
    X: Tensor
    Z: Tensor
    G: Tensor
    missing: list[int]


def _check_wills(plan: Plan) -> None:
    for node, will in plan.wills.items():
        if getattr(will, "handoff", "exact") != "exact":
            raise InvalidWill(
                f'The will of node {node} has handoff="printed".',
                remedy="The printed correction is an ablation for the vector engine; real nodes "
                "keep the invariant.",
            )
