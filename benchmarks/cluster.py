"""What the cluster costs, as ratios taken within one run of this script.

``python tests/cluster/inside.py python benchmarks/cluster.py`` (what ``make bench-cluster`` does)
starts a Ray on this machine and prints one row per claim, like ``rounds.py``; it exits with 1 if a
target is missed. The bare exchange beside which a round is measured is the least that Ray can do:
asynchronous actors that send each other the same bytes and wait for each other, and nothing else.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import ray
from rounds import at_least, at_most, printed, shown

import bequest as bq

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import rehearsal

if TYPE_CHECKING:
    from collections.abc import Callable

DIM = 100
HOSTS = 4
ROUNDS = 400
REPEATS = 5


class Bare:
    """An actor that tells all others the same bytes, round by round."""

    def __init__(self, payload: int) -> None:
        self._payload = bytes(payload)
        self._arrived: dict[int, int] = {}
        self._event = asyncio.Event()

    async def meet(self, others: list[object]) -> None:
        self._others = others

    async def put(self, t: int, payload: bytes) -> None:
        self._arrived[t] = self._arrived.get(t, 0) + 1
        self._event.set()
        _ = payload

    async def rounds(self, first: int, count: int) -> None:
        for t in range(first, first + count):
            for other in self._others:
                other.put.remote(t, self._payload)
            while self._arrived.get(t, 0) < len(self._others):
                self._event.clear()
                await self._event.wait()
            del self._arrived[t]


def bare_actors(payload: int) -> tuple[list[object], float]:
    """Bare actors that know each other, and how long it took to start them."""
    begin = time.perf_counter()
    kind = ray.remote(num_cpus=0, max_concurrency=1000)(Bare)
    actors = [kind.remote(payload) for _ in range(HOSTS)]
    ray.get([a.meet.remote([b for b in actors if b is not a]) for a in actors])
    return actors, time.perf_counter() - begin


def bare_rounds(actors: list[object]) -> Callable[[], float]:
    """Seconds per round of a bare exchange."""
    done = 0

    def measure() -> float:
        nonlocal done
        begin = time.perf_counter()
        ray.get([a.rounds.remote(done, ROUNDS) for a in actors])
        done += ROUNDS
        return (time.perf_counter() - begin) / ROUNDS

    return measure


def network(n: int) -> tuple[bq.Problem, object]:
    """n nodes: as many as hosts, all talking to each other, or more on a ring with chords."""
    problem = bq.problems.quadratics(n=n, dim=DIM, mu=1.0, L=10.0, seed=1)
    problem.optimum()
    complete = [(i, j) for i in range(n) for j in range(i)]
    return problem, (
        complete if n == HOSTS else bq.graphs.ring_with_chords(n, chords=n // 2, seed=1)
    )


def bytes_per_round(n: int, method: bq.methods.Method) -> float:
    """What all hosts send to each other in a round: the same groups and batches, without Ray."""
    problem, graph = network(n)
    sent = []

    def counted(messages: list[object]) -> bytes:
        batch = PACK(messages)
        sent.append(len(batch))
        return batch

    def total(rounds: int) -> int:
        sent.clear()
        engine = rehearsal.Rehearsal(hosts=HOSTS)
        bq.solve(
            problem,
            graph,
            method=method,
            rounds=rounds,
            checkpoint_every=None,
            will=bq.wills.Consensus(),
            engine=engine,
        )
        return sum(sent)

    rehearsal.pack = counted
    try:
        return (total(60) - total(20)) / 40
    finally:
        rehearsal.pack = PACK


PACK = rehearsal.pack


def engine_rounds(
    n: int, *, rounds: int, will: bq.wills.Will, method: bq.methods.Method | None = None
) -> Callable[[], tuple[float, float]]:
    """Seconds per round of a run with n nodes on the hosts, and how long it took to start."""
    problem, graph = network(n)
    method = bq.GradientTracking() if method is None else method

    def measure() -> tuple[float, float]:
        seen: list[tuple[float, int]] = []
        began: list[float] = []

        def watch(view: bq.engines.View) -> None:
            began.append(time.perf_counter() - view.time)
            if view.round:
                seen.append((view.time, view.round))

        engine = bq.engines.Ray(nodes_per_host=n // HOSTS, cpus_per_host=0, watch=watch)
        begin = time.perf_counter()
        bq.solve(problem, graph, method=method, will=will, rounds=rounds, engine=engine)
        last = next(entry for entry in seen if entry[1] == rounds)
        first = seen[0]
        return (last[0] - first[0]) / (last[1] - first[1]), began[0] - begin

    return measure


def main() -> int:
    ray.init(num_cpus=HOSTS, include_dashboard=False, log_to_driver=False)
    will = bq.wills.Consensus()
    actors, _ = bare_actors(16 * DIM + 100)
    bare = bare_rounds(actors)
    single = engine_rounds(HOSTS, rounds=ROUNDS, will=will)
    many = engine_rounds(25 * HOSTS, rounds=ROUNDS, will=will)
    nids = engine_rounds(25 * HOSTS, rounds=ROUNDS, will=will, method=bq.NIDS(coupling=5.0))
    bare()
    measured = []
    for _ in range(REPEATS):
        (one, started), (hundred, _), (half, _) = single(), many(), nids()
        others, starting = bare_actors(1)
        for actor in others:
            ray.kill(actor)
        measured.append((bare(), one, hundred, half, started, starting))
    least, one, hundred, half, started, starting = np.array(measured).T
    tracked, sent = (
        bytes_per_round(25 * HOSTS, method) for method in (bq.GradientTracking(), bq.NIDS())
    )
    rows = [
        shown(f"bare exchange of {HOSTS} actors, ms per round", 1e3 * least),
        shown(f"{HOSTS} nodes on {HOSTS} hosts, ms per round", 1e3 * one),
        shown(f"{25 * HOSTS} nodes on {HOSTS} hosts, ms per round", 1e3 * hundred),
        shown(f"{HOSTS} bare actors, seconds to start", starting),
        shown(f"the engine with {HOSTS} hosts, seconds to start", started),
        at_most(f"{HOSTS} nodes on {HOSTS} hosts against a bare exchange", one / least, 2.0),
        at_least(f"round rate of {25 * HOSTS} nodes against {HOSTS}", one / hundred, 0.5),
        at_most(
            f"{25 * HOSTS} nodes: a NIDS round / one of gradient tracking", half / hundred, 1.0
        ),
        at_most(
            f"{25 * HOSTS} nodes: bytes between hosts per round, NIDS / gradient tracking",
            np.array([sent / tracked]),
            0.55,
        ),
        at_most("seconds that the engine adds to starting bare actors", started - starting, 3.0),
    ]
    ray.shutdown()
    return printed(rows)


if __name__ == "__main__":
    sys.exit(main())
