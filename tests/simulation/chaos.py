"""Deterministic fault simulation: a seed makes a problem, a network, and a bad day.

``make chaos SEEDS=N`` runs N of them on all cores; ``python tests/simulation/chaos.py --seed 7``
runs one and tells its story. Some of a day is planned, the rest is accident. After every event the
checker looks at everything, and the books say what every node must hold; at the end, where no node
was lost by accident, everything must be what the vector engine makes of the same history.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import bequest as bq
from bequest.core.legacy import Legacy
from bequest.engines.loop.engine import Execution, Loop, Partition, Weather
from bequest.errors import Stalled
from bequest.model.events import Changes, schedule
from bequest.model.optima import Optima
from bequest.model.plan import Plan
from bequest.protocol.events import Received
from bequest.protocol.messages import Checkpoint
from bequest.protocol.states import State

if __package__:
    from simulation import twin
    from simulation.books import Entry, Violation, identical
    from simulation.checker import Checker
    from simulation.stewards import replace_steward
else:
    import twin
    from books import Entry, Violation, identical
    from checker import Checker
    from stewards import replace_steward

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bequest.engines.loop.network import Delivery
    from bequest.protocol.node import Node

# With these the limit does not depend on when a node left or which checkpoint was found.
LOSSLESS = ("isotropic", "full")
# What can happen, and what of it takes no process down. A seed means the same day for ever: what is
# added later is another generation.
GENERATIONS = {
    1: (
        ("leave", "leave", "kill", "kill", "host", "declare_lost", "steward", "return", "return",
         "forget", "join", "together"),
        ("leave", "return", "forget", "join"),
    ),
    2: (
        ("leave", "exodus", "kill", "heir", "holder", "host", "declare_lost", "steward", "return",
         "return", "forget", "join", "together"),
        ("leave", "exodus", "return", "forget", "join"),
    ),
}  # fmt: skip
# What a steward had sent before it died may still arrive, and stewards die more often.
GENERATIONS[3] = (GENERATIONS[2][0] + ("steward", "restart"), GENERATIONS[2][1])
# Some of it is known in advance: departures, crashes, arrivals and withdrawals are appointments.
# Half of a node's checkpoints get lost with it, and an epoch with the nodes that had.
GENERATIONS[4] = (GENERATIONS[3][0] + ("torn", "orphans"), GENERATIONS[2][1] + ("steward",))
# What no checkpoint is left of may be remembered by what the others lack.
GENERATIONS[5] = GENERATIONS[4]
# Nodes iterate by any method that gets there, with any metric.
GENERATIONS[6] = GENERATIONS[5]
# Some losses have samples, and some leavers hand over what these look like.
GENERATIONS[7] = GENERATIONS[6]
# Some rounds take a few samples each: which ones, a key says.
GENERATIONS[8] = GENERATIONS[7]
LATEST = max(GENERATIONS)
# How often a day can come to a standstill that an appointment ends.
_MOVES = 100


@dataclass(frozen=True)
class Exact(bq.wills.Will):
    """The whole Hessian, however early: of a quadratic nothing is lost."""

    label = "exact"

    def decide(self, estate):
        low = estate.objective.curvature.a
        values, basis = np.linalg.eigh(estate.objective.hessian(estate.x))
        factor = basis * np.sqrt(np.maximum(values - low, 0.0))
        legacy = estate.anchored_at(estate.x, eta=low, factor=factor)
        return bq.wills.Bequest("full", "the whole Hessian", legacy, estate.x)


@dataclass
class Day:
    """What a seed makes: everything but what comes of it."""

    seed: int
    plan: Plan
    engine: Loop
    kind: str
    rounds: int
    generation: int
    # (after so many events, what, a number that picks the victim)
    faults: list[tuple[int, str, int]] = field(default_factory=list)


def day(seed: int, generation: int = LATEST) -> Day:
    actions, gentle = GENERATIONS[generation]
    rng = np.random.default_rng(seed)
    n, dim = int(rng.integers(2, 9)), int(rng.integers(1, 4))
    kind = str(rng.choice(["isotropic", "isotropic", "full", "general"]))
    problem = _problem(rng, n, dim, kind)
    if generation > 6 and seed % 13 in (3, 4):
        kind, problem = "samples", _sampled(seed, n, dim)
    if generation > 7 and seed % 13 in (0, 1, 6):
        kind, problem = "batches", _batches(seed, n, dim)
    absent = frozenset()
    graph = _graph(rng, n)
    joiner = n - 1
    if n > 3 and rng.random() < 0.3 and len(_reached(graph, n, joiner)) == n - 1:
        absent = frozenset([joiner])
    wills = {
        "isotropic": [bq.wills.Consensus()],
        "full": [Exact()],
        "general": [
            bq.wills.Consensus(), bq.wills.LocalTrack(), bq.wills.Forgetful(), bq.wills.Classic(),
            bq.wills.Drift(1), bq.wills.Adaptive(),
        ],
        "samples": [bq.wills.Replay(rank=1), bq.wills.Replay(centroids=2), bq.wills.Consensus()],
        "batches": [
            bq.wills.Consensus(), bq.wills.Forgetful(), bq.wills.Classic(), bq.wills.Drift(1),
        ],
    }[kind]  # fmt: skip
    rounds = int(rng.integers(8, 30))
    choices = {node: wills[int(rng.integers(len(wills)))] for node in range(n)}
    method = bq.GradientTracking(None if rng.random() < 0.3 else 0.1 / problem.L)
    if generation > 5:
        method = _method(seed, problem.L)
    plan = Plan(
        problem=problem,
        graph=graph,
        schedule={},
        wills=choices,
        rounds=rounds,
        method=method,
        start=rng.standard_normal((n, dim)),
        pilot=None,
        buddies=int(rng.choice([0, 1, 1, 1, 2, 3])),
        recall=generation > 4,
        checkpoint_every=[None, 1, 3, 7, 7][int(rng.integers(5))],
        absent=absent,
        known={node: graph.neighbours(node) for node in range(n)},
        counted={0: frozenset(range(n)) - absent},
        optima=Optima(problem, {0: frozenset(range(n)) - absent}, None),
    )
    calm = rng.random() < 0.3
    per_host = int(rng.choice([1, 1, 2, 3]))
    weather = Weather(seed=seed)
    if not calm:
        high = float(rng.choice([0.5, 3.0, 20.0]))
        cuts = [
            (start, start + float(rng.uniform(1, 60)), int(rng.integers(n)))
            for start in rng.uniform(0, 60, size=int(rng.integers(3)))
        ]
        partitions = tuple(
            Partition(start, end, frozenset([f"host {host}"]))
            for start, end, host in cuts
            if host <= (n - 1) // per_host
        )
        weather = Weather(seed, (0.0, high), float(rng.choice([0.0, 0.1, 0.5])), partitions)
    engine = Loop(weather, per_host, as_bytes=bool(rng.random() < 0.1))
    made = Day(seed, plan, engine, kind, rounds, generation)
    total = int(rounds * n * max(1.0, 2 * len(graph.edges) / n))
    planned = generation > 3
    if planned:
        _appoint(made)
    is_gentle = rng.random() < (0.45 if planned else 0.25)
    for _ in range(int(rng.integers(0 if planned else 1, 8))):
        action = str(rng.choice(gentle if is_gentle else actions))
        # often in the thick of it: shortly after something else has happened
        if made.faults and rng.random() < 0.6:
            when = made.faults[-1][0] + int(rng.integers(0, 25))
        else:
            when = int(rng.integers(0, total))
        made.faults.append((when, action, int(rng.integers(2**31))))
    made.faults.sort(key=lambda fault: fault[0])
    return made


def _method(seed: int, L: float) -> bq.methods.Method:
    """Any method that gets there, its pace given or, mostly, chosen for every epoch."""
    rng = np.random.default_rng([seed, 3])
    given = rng.random() < 0.2
    step, coupling = (0.1 / L, float(rng.uniform(0.1, 1.0)) * L) if given else (None, None)
    methods = [
        bq.methods.GradientTracking(step),
        bq.methods.DIGing(step),
        bq.methods.EXTRA(step),
        bq.methods.ExactDiffusion(step),
        bq.methods.NIDS("scalar", coupling),
        bq.methods.NIDS("hessian", coupling),
        bq.methods.ADMM("scalar", coupling),
        bq.methods.ADMM("hessian", coupling),
    ]
    return methods[int(rng.integers(len(methods)))]


def _appoint(made: Day) -> None:
    """Let some of what happens be known in advance, in an order that makes sense."""
    rng, plan = np.random.default_rng([made.seed, 2]), made.plan
    here, waiting = set(plan.counted[0]), set(plan.absent)
    gone: dict[int, bool] = {}  # node -> whether it is forgotten
    events: list[bq.departures.Event] = []

    def some(nodes, most):
        count = min(int(rng.integers(0, most + 1)), len(nodes))
        return [int(node) for node in rng.permutation(sorted(nodes))[:count]]

    for t in sorted({int(t) for t in rng.integers(1, plan.rounds + 1, int(rng.integers(0, 5)))}):
        before = dict(gone)
        for node in some(here, min(2, len(here) - 1)):
            events.append((bq.Crash if rng.random() < 0.5 else bq.Departure)(node, t))
            here.remove(node)
            gone[node] = False
        for node in some([node for node, forgotten in before.items() if not forgotten], 1):
            events.append(bq.Forget(node, t))
            gone[node] = True
            del before[node]
        for node in some(before, 2):
            events.append(bq.Return(node, t))
            here.add(node)
            del gone[node]
        for node in some(waiting, 1):
            events.append(bq.Join(node, t))
            here.add(node)
            waiting.remove(node)
    made.plan = twin.replanned(plan, schedule(events, n=plan.problem.n, rounds=plan.rounds))


def _problem(rng, n, dim, kind):
    losses = []
    for _ in range(n):
        centre = 3 * rng.standard_normal(dim)
        if kind == "isotropic":
            losses.append(bq.Quadratic(rng.uniform(0.5, 3.0) * np.eye(dim), centre))
        else:
            root = rng.standard_normal((dim, dim)) / np.sqrt(dim)
            losses.append(bq.Quadratic(root @ root.T + 0.3 * np.eye(dim), centre))
    return bq.Problem(losses)


def _sampled(seed, n, dim):
    rng = np.random.default_rng([seed, 7])
    losses = []
    for _ in range(n):
        X = rng.standard_normal((int(rng.integers(3, 8)), dim)) + rng.standard_normal(dim)
        y = rng.standard_normal(len(X))
        if rng.random() < 0.5:
            losses.append(bq.Logistic(X, y > 0, l2=0.3))
        else:
            losses.append(bq.LeastSquares(X, y, l2=0.3))
    return bq.Problem(losses)


def _batches(seed, n, dim):
    """Losses of which rounds take one or two samples, with or without all of them now and then."""
    rng = np.random.default_rng([seed, 8])
    return bq.Problem(
        [
            bq.Minibatches(
                _sampled(seed, n, dim).objective(node),
                int(rng.integers(1, 3)),
                seed=int(rng.integers(3)),
                full_every=[None, None, 2, 3, 5][int(rng.integers(5))],
            )
            for node in range(n)
        ]
    )


def _graph(rng, n):
    tree = [(int(rng.integers(node)), node) for node in range(1, n)]
    extra = [tuple(map(int, rng.choice(n, 2, replace=False))) for _ in range(int(rng.integers(n)))]
    return bq.Graph(tree + extra, n=n) if n > 1 else bq.Graph([], n=1)


def _reached(graph, n, without):
    seen, frontier = {0}, [0]
    while frontier:
        frontier = [
            k for j in frontier for k in graph.neighbours(j) if k != without and k not in seen
        ]
        seen.update(frontier)
    return seen


class Simulation:
    """One day, under way."""

    def __init__(self, day: Day) -> None:
        self.day = day
        self.rng = np.random.default_rng([day.seed, 1])
        self.wills = {node: twin.Noting(will) for node, will in day.plan.wills.items()}
        self.execution = Execution(day.engine, replace(day.plan, wills=self.wills))
        self.world = self.execution.world
        self.checker = Checker(self.execution)
        self.done: list[str] = []
        # whether a node was lost by accident, and whether the vector engine was asked
        self.killed = self.is_compared = False
        self.asked = {n for changes in day.plan.schedule.values() for n in changes.departures}
        self._moves = 0
        self._steward_back = None
        self._ambush: int | None = None
        # what is to happen as soon as there is an opportunity -> a number that picks the victim
        self._traps: dict[str, int] = {}

    def run(self) -> None:
        self.execution.start()
        self.checker.meet()
        faults = list(self.day.faults)
        events = 0
        while True:
            while faults and (events >= faults[0][0] or self._is_quiet):
                _, action, pick = faults.pop(0)
                self.inflict(action, pick)
                self.checker.fault()
            if self._steward_back is not None and events >= self._steward_back:
                self._bring_back_steward()
            if not len(self.world.network):
                if self._steward_back is not None:
                    self._bring_back_steward()
                elif not self.execution.supervisor.incarnations.is_silent and (
                    self.world.is_finished or not self.world.nodes
                ):
                    break
                else:
                    self._let_the_world_move()
                continue
            self.world.step()
            self._let_planned_crashes_happen()
            self.checker.look()
            events += 1
            self._spring_the_ambush()
            self._spring_the_traps()
            if events > 200_000:
                raise Violation("it does not end")
        self.finish()

    # --- appointments -------------------------------------------------------------------------

    @property
    def _is_quiet(self) -> bool:
        """Whether nothing goes on, and no node has an appointment."""
        steward = self.world.steward
        awaited = steward is not None and steward.awaited
        silent = self.execution.supervisor.incarnations.is_silent
        return not len(self.world.network) and not awaited and not silent

    def _let_the_world_move(self) -> None:
        """Let those come who are expected, and planned deaths be noticed; or is this a stall?"""
        try:
            self.execution.let_the_world_move()
        except Stalled as error:
            raise Violation(str(error)) from error
        self._moves += 1
        if not len(self.world.network) or self._moves > _MOVES:
            raise Violation(f"they wait for ever: {self.world.stall()}")

    def _let_planned_crashes_happen(self) -> None:
        """Let those die who are to die after the round that they have completed.

        Where the others do not stop after that round, they go on without it: an accident.
        """
        for ident in self.execution.crashing:
            node = self.world.nodes[ident]
            self.killed |= node.place is None or node.round < node.place.begin.until
        if self.execution.crashing:
            self.execution.let_planned_crashes_happen()
            self.checker.fault()

    # --- faults -------------------------------------------------------------------------------

    def inflict(self, action: str, pick: int) -> None:
        world = self.world
        members = [] if self.checker.now is None else list(self.checker.now.members)
        alive = sorted(world.nodes)
        gone = sorted(self.checker.counted - set(alive) - set(members))
        self.done.append(f"{action} {pick}")
        if action == "leave" and alive:
            self._ask_to_leave(alive[pick % len(alive)])
        elif action == "exodus" and alive:
            stays = alive[pick % len(alive)]
            for node in alive:
                if node != stays:
                    self._ask_to_leave(node)
        elif action == "kill" and alive:
            self._kill(alive[pick % len(alive)])
        elif action == "heir" and alive:
            self._kill(max(alive, key=lambda node: len(world.nodes[node].inherited.lineage)))
        elif action == "holder":
            # a node is taken out of a memory, and then a node that held it dies
            remembered = sorted({i for n in world.nodes.values() for i in n.inherited.lineage})
            if remembered:
                purpose = ("return", "forget")[pick % 2]
                self._admit(remembered[pick % len(remembered)], purpose)
                self._ambush = len(self.execution.supervisor.ledger.changes)
        elif action == "together" and alive:
            victim = alive[pick % len(alive)]
            keepers = self.checker.keepers.get(victim, ())
            for node in (victim, *keepers):
                if node in world.nodes:
                    self._kill(node)
        elif action == "host" and alive:
            host = world.nodes[alive[pick % len(alive)]].host
            for node in alive:
                if world.nodes[node].host == host:
                    self._kill(node)
        elif action == "declare_lost" and alive:
            self.killed = True
            self.execution.declare_lost(alive[pick % len(alive)], "wrongly")
        elif action == "steward" and world.steward is not None:
            share = float(self.rng.choice([0.0, 0.5, 1.0])) if self.day.generation > 2 else 0.0
            world.kill_steward(keep=lambda _: self.rng.random() < share)
            self._steward_back = 0 if pick % 3 == 0 else self.checker.events + pick % 40
        elif action in ("torn", "orphans"):
            self._traps[action] = pick
        elif action == "restart" and alive:
            # a process dies and is there again before any node knows
            node = alive[pick % len(alive)]
            self._kill(node)
            self._admit(node, "return")
        elif action == "return" and gone:
            self._admit(gone[pick % len(gone)], "return")
        elif action == "forget" and gone:
            self._admit(gone[pick % len(gone)], "forget")
        elif action == "join":
            strangers = sorted(self.day.plan.absent - self.checker.counted - set(alive))
            if strangers:
                self._admit(strangers[0], "join")

    def _ask_to_leave(self, node: int) -> None:
        self.asked.add(node)
        self.world.leave(node)

    def _kill(self, node: int, keep: Callable[[Delivery], bool] | None = None) -> None:
        self.killed = True
        share = float(self.rng.choice([0.0, 0.5, 1.0]))
        self.world.kill(node, keep=keep or (lambda _: self.rng.random() < share))

    def _admit(self, ident: int, purpose: str) -> None:
        if ident in self.world.nodes:
            return
        latest = max((node.round for node in self.world.nodes.values()), default=0)
        self.execution.admit(ident, purpose, latest)

    def _spring_the_ambush(self) -> None:
        changes = self.execution.supervisor.ledger.changes
        if self._ambush is None or len(changes) <= self._ambush or self.rng.random() < 0.8:
            return
        holder, self._ambush = changes[self._ambush].holder, None
        if holder in self.world.nodes:
            self._kill(holder)
            self.checker.fault()

    def _spring_the_traps(self) -> None:
        if not self._traps or self.checker.now is None:
            return
        world, epoch = self.world, self.checker.now.epoch
        torn = [] if "torn" not in self._traps else [
            node for node in world.nodes.values()
            if node.epoch
            and len(node.place.arrange.buddies) > 1
            and self._has_a_checkpoint_under_way(node)
        ]  # fmt: skip
        if torn:
            # a checkpoint reaches one of its keepers only
            node = torn[self._traps.pop("torn") % len(torn)]
            spared = self.rng.choice(node.place.arrange.buddies)
            self._kill(node.ident, lambda delivery: delivery.receiver == spared)
            self.checker.fault()
        begun = [n for n, node in world.nodes.items() if node.epoch == epoch]
        behind = [n for n, node in world.nodes.items() if node.state is State.READY]
        if "orphans" in self._traps and epoch > 1 and begun and behind:
            # an epoch is lost with every node that has begun it, and with the steward
            self._steward_back = self.checker.events + self._traps.pop("orphans") % 40
            world.kill_steward(keep=lambda _: False)
            for node in begun:
                self._kill(node)
            self.checker.fault()

    def _has_a_checkpoint_under_way(self, node: Node) -> bool:
        return any(
            delivery.sender == node.ident
            and isinstance(delivery.event, Received)
            and isinstance(delivery.event.message, Checkpoint)
            and delivery.event.message.inherited is None
            for delivery in self.world.network
        )

    def _bring_back_steward(self) -> None:
        self._steward_back = None
        replace_steward(self.execution)

    # --- the end ------------------------------------------------------------------------------

    def finish(self) -> None:
        """Compare where the survivors go with where they should."""
        world, plan, now = self.world, self.day.plan, self.checker.now
        if now is None or not world.nodes:
            return
        members = [ident for ident in now.members if self.checker._is_alive(ident)]
        if not members:  # a node that is still there asks in vain
            status = self.execution.outcome().status
            if status not in ("lost", "diverged"):
                raise Violation(f"no node is left, but the run is {status}")
            return
        if outsiders := world.nodes.keys() - set(members):
            raise Violation(f"{sorted(outsiders)} wait in vain: {world.stall()}")
        self._check_wishes()
        self._check_checkpoints()
        self._check_receipts()
        memory = sum(
            (node.inherited for node in world.nodes.values()), Legacy.zero(plan.problem.dim)
        )
        limit = plan.problem.among(sorted(world.nodes)).minimiser(memory)
        remembered = sorted(self.checker.counted - set(now.lost))
        if self.day.kind in LOSSLESS:
            receipts = self.checker.books.pages[now.epoch].receipts
            # a node that was recalled is there as a slope, and as nothing else
            slopes = {
                n: q for n, q in receipts.items() if n in remembered and q.curvature == (0.0, 0.0)
            }
            exact = [node for node in remembered if node not in slopes]
            expected = plan.problem.among(exact).minimiser(
                sum(slopes.values(), Legacy.zero(plan.problem.dim))
            )
            if np.abs(limit - expected).max() > 1e-8 * (1 + np.abs(expected).max()):
                raise Violation(f"the limit is {limit}, where {remembered} agree on {expected}")
        if not self.day.faults and not self.checker.is_orderly:
            raise Violation("nothing happened but what was planned, and a node skipped a round")
        if not self.killed and self.checker.is_orderly:
            self._compare_with_vector()

    def _check_wishes(self) -> None:
        """Every node has come to the end, with the same step; only those that asked have left."""
        nodes, ledger = self.world.nodes.values(), self.execution.supervisor.ledger
        for node in nodes:
            if node.round != self.day.plan.rounds:
                raise Violation(f"{node!r} did not reach round {self.day.plan.rounds}")
            if node.wants_to_leave and len(nodes) > 1:
                raise Violation(f"{node!r} was not let go")
            if node.iterate.pace != ledger.steps[-1].value:
                step = node.iterate.pace
                raise Violation(f"{node!r} has the step {step}, not {ledger.steps[-1]}")
        left = {record.node for record in ledger.departures if not record.crashed}
        if left - self.asked:
            raise Violation(f"{left - self.asked} left without having been asked to")

    def _check_checkpoints(self) -> None:
        """Nothing is under way any more: every buddy holds the latest checkpoint."""
        tau = self.day.plan.checkpoint_every
        for ident, node in self.world.nodes.items():
            for keeper in node.place.arrange.buddies:
                kept = self.world.nodes[keeper].kept.wards.get(ident)
                # an attempt that was abandoned may have made a checkpoint that no node got
                made = node.executor
                if kept is None or kept.round > made.own_round:
                    raise Violation(f"{keeper} keeps {kept} of {node!r}, not {made.own_round}")
                if kept.round == made.own_round and not identical(kept.own, made.own):
                    raise Violation(f"{keeper} keeps another legacy of {node!r}")
                if not identical(kept.inherited, node.inherited):
                    raise Violation(f"{keeper} keeps another inheritance of {node!r}")
                if kept.round // tau < self.checker.completed.get(ident, 0) // tau:
                    raise Violation(f"the checkpoint of {node!r} is of round {kept.round}")

    def _check_receipts(self) -> None:
        """What is remembered is what was handed over, or adopted: its owner has the receipt."""
        receipts = self.execution.supervisor.ledger.receipts
        page = self.checker.books.pages[self.checker.now.epoch]
        for node in self.world.nodes.values():
            total = Entry.zero(node.x.size)
            for ident in node.inherited.lineage:
                if not identical(receipts[ident], page.receipts[ident]):
                    raise Violation(f"the receipt of {ident} is not what it handed over")
                total = total.plus(Entry.of(receipts[ident]))
            held = page.held[node.ident]
            # what has been taken out again has left its rounding behind
            total = replace(total, scale=held.scale)
            if held.is_exact and not total.is_in(node.inherited):
                raise Violation(f"{node!r} remembers {node.inherited}, not {total}")

    def _compare_with_vector(self) -> None:
        """Let the vector engine live through the same history."""
        plan, checker = self.day.plan, self.checker
        happened = twin.history([change for _, change in checker.accepted], checker.until)
        undisturbed = all(action == "steward" for _, action, _ in self.day.faults)
        if undisturbed and _without_nothing(happened) != _without_nothing(plan.schedule):
            raise Violation(f"{plan.schedule} was planned, but {happened} happened")
        crashes = [r for r in self.execution.outcome().departures if r.checkpoint is not None]
        # A node that died ahead of the others left a checkpoint of a round that the vector engine,
        # whose nodes are all in the same one, has not come to.
        if happened is None or any(r.checkpoint > r.round for r in crashes):
            return
        recalling = {n: twin.Recalling(w.inner, w.notes) for n, w in self.wills.items()}
        other = twin.relive(twin.replanned(plan, happened, wills=recalling), self.execution.hosts)
        twin.compare(self.execution.outcome(), other, self.day.plan.rounds)
        self.is_compared = True


def _without_nothing(happened: Mapping[int, Changes] | None) -> dict[int, Changes] | None:
    nothing = Changes()
    return happened and {t: changes for t, changes in happened.items() if changes != nothing}


def check(seed: int, generation: int = LATEST) -> tuple[int, str | None, int, int]:
    """Run one seed; return what went wrong, if anything did."""
    simulation = None
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            simulation = Simulation(day(seed, generation))
            simulation.run()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        return seed, f"{type(error).__name__}: {error}", 0, 0
    return seed, None, simulation.checker.events, simulation.checker.cuts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one alone, and tell its story")
    parser.add_argument("--generation", type=int, default=LATEST)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.seed is not None:
        simulation = Simulation(day(options.seed, options.generation))
        try:
            simulation.run()
        finally:
            print(simulation.day.faults, simulation.day.kind, simulation.day.engine)
        print(f"seed {options.seed}: {simulation.checker.events} events, no violation")
        return
    begin, found, events, cuts = time.perf_counter(), [], 0, 0
    seeds = range(options.first, options.first + options.seeds)
    ask = partial(check, generation=options.generation)
    with ProcessPoolExecutor(options.workers) as pool:
        for count, (seed, wrong, e, c) in enumerate(pool.map(ask, seeds, chunksize=50), start=1):
            events, cuts = events + e, cuts + c
            if wrong is not None:
                found.append(seed)
                print(f"seed {seed}: {wrong.splitlines()[0]}", flush=True)
                again = f"--generation {options.generation} --seed {seed}"
                print(f"  again: python tests/simulation/chaos.py {again}", flush=True)
            if count % 1000 == 0:
                print(f"{count} seeds, {time.perf_counter() - begin:.0f} s", flush=True)
    print(
        f"{len(seeds)} schedules, {events} events, {cuts} cuts, {len(found)} violations, "
        f"{time.perf_counter() - begin:.0f} s"
    )
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
