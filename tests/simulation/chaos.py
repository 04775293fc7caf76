"""Deterministic fault simulation: a seed makes a problem, a network, and a bad day.

``make chaos SEEDS=N`` runs N of them on all cores; ``python tests/simulation/chaos.py --seed 7``
runs one and tells its story. After every event the checker looks at everything; at the end the
survivors' limit must be what the vector engine finds for the same history.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import bequest as bq
from bequest.core.legacy import Legacy
from bequest.engines.base import Plan
from bequest.engines.loop import Execution, Loop, Partition, Weather
from bequest.model.events import Changes
from bequest.model.optima import Optima

if __package__:
    from simulation.checker import Checker, Violation
else:
    from checker import Checker, Violation

# With these the limit does not depend on when somebody left or which checkpoint was found.
LOSSLESS = ("isotropic", "full")
# What can happen, and what of it takes no process down. A seed means the same day for ever: what is
# added later is another generation.
GENERATIONS = {
    1: (
        ("leave", "leave", "kill", "kill", "host", "condemn", "steward", "return", "return",
         "forget", "join", "together"),
        ("leave", "return", "forget", "join"),
    ),
    2: (
        ("leave", "exodus", "kill", "heir", "holder", "host", "condemn", "steward", "return",
         "return", "forget", "join", "together"),
        ("leave", "exodus", "return", "forget", "join"),
    ),
}  # fmt: skip
# What a steward had sent before it died may still arrive, and stewards die more often.
GENERATIONS[3] = (GENERATIONS[2][0] + ("steward", "restart"), GENERATIONS[2][1])
LATEST = max(GENERATIONS)


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
    }[kind]  # fmt: skip
    rounds = int(rng.integers(8, 30))
    plan = Plan(
        problem=problem,
        graph=graph,
        schedule={},
        wills={node: wills[int(rng.integers(len(wills)))] for node in range(n)},
        rounds=rounds,
        step=None if rng.random() < 0.3 else 0.1 / problem.L,
        start=rng.standard_normal((n, dim)),
        pilot=None,
        buddies=int(rng.choice([0, 1, 1, 1, 2, 3])),
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
        partitions = tuple(
            Partition(
                start,
                start + float(rng.uniform(1, 60)),
                frozenset([f"host {int(rng.integers(n))}"]),
            )
            for start in rng.uniform(0, 60, size=int(rng.integers(3)))
        )
        weather = Weather(seed, (0.0, high), float(rng.choice([0.0, 0.1, 0.5])), partitions)
    engine = Loop(weather, per_host, as_bytes=bool(rng.random() < 0.1))
    made = Day(seed, plan, engine, kind, rounds, generation)
    total = int(rounds * n * max(1.0, 2 * len(graph.edges) / n))
    lossless = rng.random() < 0.25
    for _ in range(int(rng.integers(1, 8))):
        action = str(rng.choice(gentle if lossless else actions))
        # often in the thick of it: shortly after something else has happened
        if made.faults and rng.random() < 0.6:
            when = made.faults[-1][0] + int(rng.integers(0, 25))
        else:
            when = int(rng.integers(0, total))
        made.faults.append((when, action, int(rng.integers(2**31))))
    made.faults.sort(key=lambda fault: fault[0])
    return made


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
        self.execution = Execution(day.engine, day.plan)
        self.world = self.execution.world
        self.checker = Checker(self.execution)
        self.done: list[str] = []
        self.killed = False
        self.asked: set[int] = set()
        self._steward_back = None
        self._ambush: int | None = None

    def run(self) -> None:
        self.execution.start()
        self.checker.meet()
        faults = list(self.day.faults)
        events = 0
        while True:
            while faults and (events >= faults[0][0] or not len(self.world.network)):
                _, action, pick = faults.pop(0)
                self.inflict(action, pick)
                self.checker.fault()
            if self._steward_back is not None and events >= self._steward_back:
                self._bring_back_steward()
            if not len(self.world.network):
                if self._steward_back is not None:
                    self._bring_back_steward()
                elif self.world.is_finished or not self.world.nodes:
                    break
                else:
                    raise Violation(str(self.world.stall()))
                continue
            self.world.step()
            self.checker.look()
            events += 1
            self._spring_the_ambush()
            if events > 200_000:
                raise Violation("it does not end")
        self.finish()

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
            # somebody is taken out of a memory, and then whoever held it dies
            remembered = sorted({i for n in world.nodes.values() for i in n.inherited.lineage})
            if remembered:
                purpose = ("return", "forget")[pick % 2]
                self._admit(remembered[pick % len(remembered)], purpose)
                self._ambush = len(self.execution.ledger.changes)
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
        elif action == "condemn" and alive:
            self.killed = True
            world.condemn(alive[pick % len(alive)], "wrongly")
        elif action == "steward" and world.steward is not None:
            share = float(self.rng.choice([0.0, 0.5, 1.0])) if self.day.generation > 2 else 0.0
            world.kill_steward(keep=lambda _: self.rng.random() < share)
            self._steward_back = 0 if pick % 3 == 0 else self.checker.events + pick % 40
        elif action == "restart" and alive:
            # a process dies and is there again before anybody knows
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

    def _kill(self, node: int) -> None:
        self.killed = True
        share = float(self.rng.choice([0.0, 0.5, 1.0]))
        self.world.kill(node, keep=lambda _: self.rng.random() < share)

    def _admit(self, ident: int, purpose: str) -> None:
        if ident in self.world.nodes:
            return
        execution = self.execution
        execution._lives[ident] = execution._lives.get(ident, -1) + 1
        self.world.admit(execution._node(ident, 0, purpose))

    def _spring_the_ambush(self) -> None:
        changes = self.execution.ledger.changes
        if self._ambush is None or len(changes) <= self._ambush or self.rng.random() < 0.8:
            return
        holder, self._ambush = changes[self._ambush].holder, None
        if holder in self.world.nodes:
            self._kill(holder)
            self.checker.fault()

    def _bring_back_steward(self) -> None:
        self._steward_back = None
        self.world.replace_steward()

    # --- the end ------------------------------------------------------------------------------

    def finish(self) -> None:
        """Compare where the survivors go with where they should."""
        world, plan, now = self.world, self.day.plan, self.checker.now
        if now is None or not world.nodes:
            return
        members = [ident for ident in now.members if self.checker._is_alive(ident)]
        if not members:  # whoever is still there asks in vain
            status = self.execution.outcome().status
            if status not in ("lost", "diverged"):
                raise Violation(f"nobody is left, but the run is {status}")
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
            expected = plan.problem.among(remembered).minimiser(Legacy.zero(plan.problem.dim))
            if np.abs(limit - expected).max() > 1e-8 * (1 + np.abs(expected).max()):
                raise Violation(f"the limit is {limit}, where {remembered} agree on {expected}")
        if self.day.seed % 4 == 0:
            self._compare_with_vector(limit)

    def _check_wishes(self) -> None:
        """Everybody has come to the end, with the same step, and only those who asked have left."""
        nodes, ledger = self.world.nodes.values(), self.execution.ledger
        for node in nodes:
            if node.round != self.day.plan.rounds:
                raise Violation(f"{node!r} did not reach round {self.day.plan.rounds}")
            if node.wants_to_leave and len(nodes) > 1:
                raise Violation(f"{node!r} was not let go")
            if node._step != ledger.steps[-1].value:
                raise Violation(f"{node!r} has the step {node._step}, not {ledger.steps[-1]}")
        left = {record.node for record in ledger.departures if not record.crashed}
        if left - self.asked:
            raise Violation(f"{left - self.asked} left without having been asked to")

    def _check_checkpoints(self) -> None:
        """Nothing is under way any more: every buddy holds the latest checkpoint."""
        tau = self.day.plan.checkpoint_every
        for ident, node in self.world.nodes.items():
            for keeper in node._present.buddies:
                kept = self.world.nodes[keeper]._vault.wards.get(ident)
                # an attempt that was abandoned may have made a checkpoint that nobody got
                made = node._testament
                if kept is None or kept.round > made.own_round:
                    raise Violation(f"{keeper} keeps {kept} of {node!r}, not {made.own_round}")
                same = kept.round == made.own_round
                if same and np.abs(kept.own.p - made.own.p).max() > 0:
                    raise Violation(f"{keeper} keeps another legacy of {node!r}")
                if kept.round // tau < self.checker.completed.get(ident, 0) // tau:
                    raise Violation(f"the checkpoint of {node!r} is of round {kept.round}")

    def _check_receipts(self) -> None:
        """What is remembered is what was handed over, or adopted."""
        receipts = self.execution.ledger.receipts
        for ident, node in self.world.nodes.items():
            inside = node.inherited.lineage
            if node.inherited.blended:
                continue
            total = sum((receipts[i] for i in inside), Legacy.zero(node.x.size))
            scale = 1 + sum(float(np.abs(receipts[i].p).max()) for i in inside)
            if np.abs(total.p - node.inherited.p).max() > 1e-9 * scale:
                raise Violation(f"node {ident} remembers {node.inherited}, not {total}")

    def _compare_with_vector(self, limit: np.ndarray) -> None:
        """Let the vector engine live through the same history."""
        ledger, plan = self.execution.ledger, self.day.plan
        schedule = history(ledger)
        if schedule is None or self.day.engine.hosts != 1:
            return
        try:
            outcome = bq.engines.Vector().run(replanned(plan, schedule))
        except KeyError:
            return
        if outcome.lost != tuple(sorted(ledger.lost)) or outcome.survivors != tuple(
            sorted(self.world.nodes)
        ):
            if self.killed:
                return  # two losses in one round are one loss to the vector engine
            raise Violation(f"the vector engine ends with {outcome.survivors}, lost {outcome.lost}")
        memory = sum(outcome.inherited.values(), Legacy.zero(plan.problem.dim))
        other = plan.problem.among(outcome.survivors).minimiser(memory)
        if self.day.kind in LOSSLESS and np.abs(limit - other).max() > 1e-8 * (
            1 + np.abs(limit).max()
        ):
            raise Violation(f"the vector engine goes to {other}, the nodes to {limit}")
        if not self.killed and self.day.kind == "isotropic":
            x = np.array([self.world.nodes[node].x for node in outcome.survivors])
            if np.abs(x - outcome.x).max() > 1e-10 * (1 + np.abs(x).max()):
                raise Violation(f"the vector engine is at {outcome.x}, the nodes at {x}")


def history(ledger) -> dict[int, Changes] | None:
    """Return what happened as a schedule; None if the order within a round was another one."""
    per_round: dict[int, dict[str, list[int]]] = {}
    names = {"return": "returns", "join": "joins", "forget": "forgets"}
    happened = [
        (record.round, "crashes" if record.crashed else "departures", record.node)
        for record in ledger.departures
    ] + [(record.round, names[record.kind], record.node) for record in ledger.changes]
    for t, kind, node in happened:
        if t == 0:
            return None
        per_round.setdefault(t, {}).setdefault(kind, []).append(node)
    for kinds in per_round.values():
        if len(kinds) > 1 or any(nodes != sorted(nodes) for nodes in kinds.values()):
            return None
    return {
        t: Changes(**{k: tuple(v) for k, v in kinds.items()})
        for t, kinds in sorted(per_round.items())
    }


def replanned(plan: Plan, schedule: dict[int, Changes]) -> Plan:
    counted, everybody = {0: plan.counted[0]}, set(plan.counted[0])
    for t, changes in schedule.items():
        before = set(everybody)
        everybody = (everybody - set(changes.forgets)) | set(changes.joins) | set(changes.returns)
        if everybody != before:
            counted[t] = frozenset(everybody)
    fields = {name: getattr(plan, name) for name in Plan.__dataclass_fields__}
    return Plan(**{**fields, "schedule": schedule, "counted": counted})


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
    with ProcessPoolExecutor(options.workers) as pool:
        for count, (seed, wrong, e, c) in enumerate(pool.map(check, seeds, chunksize=50), start=1):
            events, cuts = events + e, cuts + c
            if wrong is not None:
                found.append(seed)
                print(f"seed {seed}: {wrong.splitlines()[0]}", flush=True)
                print(f"  again: python tests/simulation/chaos.py --seed {seed}", flush=True)
            if count % 1000 == 0:
                print(f"{count} seeds, {time.perf_counter() - begin:.0f} s", flush=True)
    print(
        f"{len(seeds)} schedules, {events} events, {cuts} cuts, {len(found)} violations, "
        f"{time.perf_counter() - begin:.0f} s"
    )
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
