"""How much a round costs, as ratios taken within one run of this script.

``python benchmarks/rounds.py`` prints one row per claim, the measured ratio beside its target; it
exits with 1 if a target is missed. Every ratio is taken over alternating repetitions of both sides,
so that whatever else the machine is doing hits both alike; the median and the worst are shown.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import bequest as bq
from bequest.core import mixing
from bequest.core.rounds import advance
from bequest.engines.vector.engine import _WINDOW, _WINDOW_ROUNDS, _Epoch
from bequest.model.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

METHOD = bq.GradientTracking(0.02)


def one_vector(problem: bq.Problem, graph: bq.Graph) -> dict[str, bq.methods.Method]:
    """What is held against it, with the pace that it chooses there.

    Where nodes are coupled more strongly than any loss is curved, a matrix metric is a number. At a
    tenth of that pace it is a matrix on every node.
    """
    default = bq.NIDS(metric="hessian")
    chosen = bq.solve(problem, graph, method=default, rounds=0).steps[0].value
    return {
        "scalar": bq.NIDS(coupling=chosen),
        "hessian": bq.NIDS(metric="hessian", coupling=chosen),
        "hessian, a matrix per node": bq.NIDS(metric="hessian", coupling=chosen / 10),
    }


@dataclass
class Row:
    claim: str
    median: float
    worst: float
    target: str
    met: bool


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def ratios(one: Callable[[], object], other: Callable[[], object], repeats: int) -> np.ndarray:
    """time(one)/time(other), each pair measured back to back."""
    one(), other()
    return np.array([seconds(one) / seconds(other) for _ in range(repeats)])


def at_most(claim: str, measured: np.ndarray, target: float) -> Row:
    median = float(np.median(measured))
    return Row(claim, median, float(measured.max()), f"<= {target:g}", median <= target)


def shown(claim: str, measured: np.ndarray) -> Row:
    """A number that is not promised, but good to know."""
    return Row(claim, float(np.median(measured)), float(measured.max()), "-", met=True)


def at_least(claim: str, measured: np.ndarray, target: float) -> Row:
    median = float(np.median(measured))
    return Row(claim, median, float(measured.min()), f">= {target:g}", median >= target)


def printed(rows: list[Row]) -> int:
    """Print a table; return 1 if a target was missed."""
    width = max(len(row.claim) for row in rows)
    print(f"{'claim':{width}}  {'median':>8}  {'worst':>8}  target")
    for row in rows:
        verdict = "" if row.target == "-" else "met" if row.met else "MISSED"
        print(f"{row.claim:{width}}  {row.median:8.3g}  {row.worst:8.3g}  {row.target:8} {verdict}")
    return 0 if all(row.met for row in rows) else 1


def problem_of(n: int, dim: int) -> tuple[bq.Problem, np.ndarray, np.ndarray]:
    problem = bq.problems.quadratics(n=n, dim=dim, mu=1.0, L=10.0, seed=1)
    stack = problem._groups[0][1]
    return problem, stack.A, stack.c


def engine_rounds(problem: bq.Problem, graph: bq.Graph, rounds: int) -> Callable[[], object]:
    """The library, with all metrics of every round, less its set-up (measured with no rounds)."""
    method = bq.GradientTracking(step=0.02)
    problem.optimum()
    return lambda: bq.solve(problem, graph, method=method, rounds=rounds)


def per_round(problem: bq.Problem, graph: bq.Graph, rounds: int) -> float:
    run, setup = engine_rounds(problem, graph, rounds), engine_rounds(problem, graph, 0)
    return (seconds(run) - seconds(setup)) / rounds


def barest_loop(A: np.ndarray, c: np.ndarray, W: np.ndarray, rounds: int) -> np.ndarray:
    """Gradient tracking as one would first write it down in NumPy: no metrics, no membership."""
    X = np.zeros_like(c)
    G = np.einsum("nij,nj->ni", A, X - c)
    Z = G.copy()
    for _ in range(rounds):
        X = W @ (X - 0.02 * Z)
        G_next = np.einsum("nij,nj->ni", A, X - c)
        Z = W @ Z + G_next - G
        G = G_next
    return X


def small_network() -> Row:
    problem, A, c = problem_of(20, 10)
    graph = bq.graphs.ring_with_chords(20, chords=15, seed=1)
    W = graph.weights().toarray()
    measured = ratios(
        engine_rounds(problem, graph, 5000), lambda: barest_loop(A, c, W, 5000), repeats=15
    )
    return at_most("n=20, d=10, all metrics: time / barest NumPy loop", measured, 1.5)


def real_nodes() -> list[Row]:
    """Rounds per second of real nodes on a virtual network, relative to rows of arrays.

    Real nodes make a checkpoint every 20 rounds, that is, they ask their wills; what a will costs
    is not the engine's, but shown too.
    """
    problem, _, _ = problem_of(20, 10)
    graph = bq.graphs.ring_with_chords(20, chords=15, seed=1)
    method = bq.GradientTracking(step=0.02)
    problem.optimum()

    def per_second(rounds: int, engine: bq.engines.Engine, will: bq.wills.Will) -> float:
        def work(rounds: int) -> object:
            return bq.solve(problem, graph, method=method, will=will, rounds=rounds, engine=engine)

        return rounds / (seconds(lambda: work(rounds)) - seconds(lambda: work(0)))

    def measured(will: bq.wills.Will) -> np.ndarray:
        loop, vector = bq.engines.Loop(), bq.engines.Vector()
        per_second(50, loop, will)
        pairs = [(per_second(300, loop, will), per_second(10_000, vector, will)) for _ in range(9)]
        return np.array([one / other for one, other in pairs])

    claim = "n=20, d=10: rounds per second, loop / vector"
    return [
        at_least(claim, measured(bq.wills.Consensus()), 0.01),
        shown(f"{claim}, with the will Adaptive()", measured(bq.wills.Adaptive())),
    ]


def bare_round(
    problem: bq.Problem, graph: bq.Graph, method: bq.methods.Method = METHOD
) -> Callable[[], float]:
    """The engine's own round, without metrics: a function that returns seconds per round."""
    shape = (problem.n, problem.dim)
    plan = Plan(
        problem=problem,
        graph=graph,
        schedule={},
        wills={},
        rounds=1,
        method=method,
        start=np.zeros(shape),
        pilot=None,
        buddies=0,
        recall=False,
        checkpoint_every=None,
        absent=frozenset(),
        known={},
        counted={0: frozenset(range(problem.n))},
        optima=None,
    )
    epoch = _Epoch(plan, graph.network(), {})
    local = epoch.local(method, method.given or 1.0)
    hear = epoch.hear(method, local.coupling)
    length = max(1, min(_WINDOW // (problem.n * problem.dim), _WINDOW_ROUNDS))
    state = [np.zeros((length + 1, *shape)) for _ in range(3)]
    epoch.gradient(state[0][0], state[2][0])
    state[1][0] = state[2][0]

    def rounds(count: int = 60) -> float:
        def work() -> None:
            for _ in range(max(1, count // length)):
                advance(
                    *state,
                    rounds=length,
                    method=method,
                    local=local,
                    hear=hear,
                    gradient=epoch.gradient,
                )
                state[:] = [window[::-1] for window in state]

        return seconds(work) / (max(1, count // length) * length)

    rounds(5)
    return rounds


def methods() -> list[Row]:
    """A round of NIDS, which sends half as much, over one of gradient tracking."""
    small, large = problem_of(20, 10)[0], problem_of(1_000, 50)[0]
    ring = bq.graphs.ring_with_chords(20, chords=15, seed=1)
    rows = []

    def note(where: str, metric: str, measured: list[float]) -> None:
        claim = f"{where}: a NIDS round ({metric}) / one of gradient tracking"
        found = np.array(measured)
        rows.append(shown(claim, found) if "matrix" in metric else at_most(claim, found, 1.0))

    for problem, graph, count in (
        (small, ring, 5120),
        (large, bq.graphs.random_regular(1_000, 4, seed=1), 60),
    ):
        tracking = bare_round(problem, graph)
        for metric, method in one_vector(problem, graph).items():
            nids = bare_round(problem, graph, method)
            where = f"n={problem.n}, d={problem.dim}"
            note(where, metric, [nids(count) / tracking(count) for _ in range(15)])
    wide = problem_of(20, 100)[0]
    for problem in (small, wide):
        tracking = loop_round(problem, ring, METHOD)
        for metric, method in one_vector(problem, ring).items():
            nids = loop_round(problem, ring, method)
            where = f"n=20, d={problem.dim}, real nodes"
            note(where, metric, [nids() / tracking() for _ in range(9)])
    return rows


def loop_round(
    problem: bq.Problem, graph: bq.Graph, method: bq.methods.Method
) -> Callable[[], float]:
    """A round of real nodes on a virtual network: a function that returns what it costs the CPU."""
    problem.optimum()

    def work(rounds: int) -> float:
        will, engine = bq.wills.Consensus(), bq.engines.Loop()
        begin = time.process_time()  # what else the machine is doing does not count
        bq.solve(problem, graph, method=method, will=will, rounds=rounds, engine=engine)
        return time.process_time() - begin

    work(20)
    return lambda: (work(300) - work(0)) / 300


def sparse_against_dense() -> Row:
    problem, A, c = problem_of(2000, 10)
    graph = bq.graphs.random_regular(2000, 4, seed=1)
    W = graph.weights().toarray()
    ours, measured = bare_round(problem, graph), []
    for _ in range(15):
        long, short = (seconds(lambda n=n: barest_loop(A, c, W, n)) for n in (25, 5))
        measured.append((long - short) / 20 / ours(200))
    return at_least("n=2000, degree 4: round with a dense W / our round", np.array(measured), 20.0)


def passes(n: int, dim: int, target: float) -> list[Row]:
    """A round, alone and with all metrics, against reading every number of the problem once."""
    problem, A, c = problem_of(n, dim)
    graph = bq.graphs.random_regular(n, 4, seed=1)
    ours = bare_round(problem, graph)
    per_round(problem, graph, 20)
    alone, measured = [], []
    for _ in range(15):
        one_pass = seconds(lambda: [A.sum() + c.sum() for _ in range(20)]) / 20
        alone.append(ours() / one_pass)
        measured.append(per_round(problem, graph, 60) / one_pass)
    where = f"n={n}, d={dim}"
    return [
        at_most(f"{where}: a round / one pass over the data", np.array(alone), target),
        shown(f"{where}: the same, with all metrics of every round", np.array(measured)),
    ]


def growth(largest: int) -> list[Row]:
    """Time and memory per node, relative to a network of a tenth of the size."""
    costs, bytes_ = [], []
    for n in (largest // 10, largest):
        problem, _, _ = problem_of(n, 10)
        graph = bq.graphs.random_regular(n, 4, seed=1)
        per_round(problem, graph, 3)
        costs.append([per_round(problem, graph, 15) / n for _ in range(5)])
        tracemalloc.start()
        bq.solve(problem, graph, method=bq.GradientTracking(step=0.02), rounds=3)
        bytes_.append(tracemalloc.get_traced_memory()[1] / n)
        tracemalloc.stop()
    time_ratio = np.array(costs[1]) / np.median(costs[0])
    memory_ratio = np.array([bytes_[1] / bytes_[0]])
    # Three times, for time: at n=10,000 the data fits into the cache, at n=100,000 it does not.
    return [
        at_most(
            f"n={largest}: time per node and round / that at n={largest // 10}", time_ratio, 3.0
        ),
        at_most(f"n={largest}: memory per node / that at n={largest // 10}", memory_ratio, 1.2),
    ]


def imports(target: float) -> list[Row]:
    """Seconds, not ratios: the limits are absolute."""
    rows = []
    for claim, command in (
        ("import bequest, seconds", [sys.executable, "-c", "import bequest"]),
        ("bequest --help, seconds", [sys.executable, "-m", "bequest", "--help"]),
    ):
        taken = np.array(
            [
                seconds(lambda c=command: subprocess.run(c, check=True, capture_output=True))  # noqa: S603
                for _ in range(7)
            ]
        )
        rows.append(at_most(claim, taken, target))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=100_000, help="nodes of the largest network")
    only = "only a round of NIDS against one of gradient tracking"
    parser.add_argument("--methods", action="store_true", help=only)
    told = parser.parse_args()
    if told.methods:
        return printed(methods())
    largest = told.largest
    assert mixing.DENSE_NODES < 2000
    rows = [
        small_network(),
        *real_nodes(),
        *methods(),
        sparse_against_dense(),
        *passes(1_000, 50, 3.0),
        *passes(10_000, 10, 6.0),
        *growth(largest),
        *imports(0.5),
    ]
    return printed(rows)


if __name__ == "__main__":
    sys.exit(main())
