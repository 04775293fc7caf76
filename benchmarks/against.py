"""How long runs take, as ratios to an earlier revision of this repository.

``python benchmarks/against.py REVISION`` checks that revision out beside this tree, and lets both
solve the same problems with gradient tracking, each in processes of its own, one thread each. It
counts processor time, alternately on either side: a row has the ratio of the best times (what else
the machine does only makes times longer), and the median and the worst ratio of neighbouring ones.
The last column says whether both sides end in the same states, bit for bit. With ``--ray``, inside
``tests/cluster/inside.py``, both run on a Ray of this machine, and a row is about the time of a
round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
SIZES = ((20, 10), (100, 10), (20, 100))
# How many node rounds a run takes: about as long on either engine.
LENGTHS = {"vector": 60_000, "loop": 6_000}
LEAVERS = 8
CASES = {
    f"{engine}, n={n}, d={dim}" + (f", {leavers} departures" if leavers else ""): (
        engine,
        n,
        dim,
        leavers,
        max(length // n, 3 * LEAVERS),
    )
    for engine, length in LENGTHS.items()
    for n, dim in SIZES
    for leavers in (0, LEAVERS)
}
# Real nodes on a Ray of this machine: only for --ray, inside tests/cluster/inside.py.
HOSTS = 4
ON_RAY = {f"Ray, {n} nodes on {HOSTS} hosts, d=100": ("ray", n, 100, 0, 400) for n in (4, 100)}


def work(names: list[str], source: str) -> None:
    """Run a case for each line that comes in, and answer with seconds and a digest of the end."""
    import bequest as bq

    assert Path(bq.__file__).is_relative_to(source), f"{bq.__file__} is not in {source}"
    made = {}
    for name in names:
        _, n, dim, _, _ = (CASES | ON_RAY)[name]
        problem = bq.problems.quadratics(n=n, dim=dim, mu=1.0, L=10.0, seed=1)
        problem.optimum()
        made[name] = problem, bq.graphs.ring_with_chords(n, chords=n // 2, seed=1)
        if name in ON_RAY:
            start_ray()
    for line in sys.stdin:
        name = line.strip()
        engine, n, _, leavers, rounds = (CASES | ON_RAY)[name]
        problem, graph = made[name]
        leaving = [
            bq.Departure(2 * i + 1, rounds * (i + 1) // (leavers + 1)) for i in range(leavers)
        ]
        seen: list[tuple[float, int]] = []
        engines = {
            "vector": bq.engines.Vector,
            "loop": bq.engines.Loop,
            "ray": lambda n=n, seen=seen: bq.engines.Ray(
                nodes_per_host=n // HOSTS,
                cpus_per_host=0,
                watch=lambda view: seen.append((view.time, view.round)),
            ),
        }
        begin = time.process_time()
        run = bq.solve(
            problem,
            graph,
            departures=leaving,
            will=bq.wills.Consensus(),
            method=bq.GradientTracking(step=0.02),
            rounds=rounds,
            engine=engines[engine](),
        )
        spent = time.process_time() - begin
        if engine == "ray":  # its work is done in other processes: what the clock says per round
            first, last = next(entry for entry in seen if entry[1]), seen[-1]
            spent = (last[0] - first[0]) / (last[1] - first[1])
        end = sha256(np.ascontiguousarray(run.x).tobytes()).hexdigest()
        print(json.dumps([spent, end]), flush=True)


def start_ray() -> None:
    """Start a Ray for this process, once."""
    import ray

    if not ray.is_initialized():
        ray.init(num_cpus=HOSTS, include_dashboard=False, log_to_driver=False)


@contextmanager
def tree(revision: str) -> Iterator[Path]:
    """The files of a revision, in a folder of their own for as long as they are needed."""
    git = ["git", "-C", str(ROOT)]
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "tree"
        add = [*git, "worktree", "add", "-q", "--detach", there, revision]
        subprocess.run(add, check=True)  # noqa: S603 - a revision is an argument of git
        try:
            yield there
        finally:
            remove = [*git, "worktree", "remove", "--force", there]
            subprocess.run(remove, check=True)  # noqa: S603


@contextmanager
def worker(folder: Path, names: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that runs cases with the source of a tree."""
    source = str(folder / "src")
    environment = os.environ | {
        "PYTHONPATH": source,
        "PYTHONHASHSEED": "0",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, __file__, "--work", source, *names],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def ask(process: subprocess.Popen[str], name: str) -> tuple[float, str]:
    process.stdin.write(f"{name}\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        sys.exit(f"{name}: a process has ended; what it said is above.")
    return tuple(json.loads(answer))


def compare(before: Path, names: list[str], repeats: int, processes: int) -> None:
    """Print a row per case."""
    seconds = {name: ([], []) for name in names}
    ends = {name: (set(), set()) for name in names}
    for _ in range(processes):  # another process has its objects elsewhere in memory
        with ExitStack() as stack:
            sides = [stack.enter_context(worker(folder, names)) for folder in (before, ROOT)]
            for name in names:
                for side in sides:
                    ask(side, name)  # the first run of a process fills caches
                for turn in range(repeats):
                    for which in (0, 1) if turn % 2 else (1, 0):
                        spent, end = ask(sides[which], name)
                        seconds[name][which].append(spent)
                        ends[name][which].add(end)
    width = max(map(len, names))
    print(f"{'now / then':{width}}  {'best':>6}  {'median':>6}  {'worst':>6}  same end")
    for name in names:
        then, now = map(np.array, seconds[name])
        ratios = now / then
        best, same = now.min() / then.min(), ends[name][0] == ends[name][1]
        print(
            f"{name:{width}}  {best:6.3f}  {np.median(ratios):6.3f}  {ratios.max():6.3f}  "
            f"{'yes' if same else 'no'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", nargs="?", help="what to compare with, such as HEAD~1")
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--ray", action="store_true", help="the cases on a Ray instead")
    parser.add_argument("--repeats", type=int, default=5, help="of a case, in a process")
    parser.add_argument("--processes", type=int, default=3, help="one after the other")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work[1:], options.work[0])
        return
    names = [name for name in (ON_RAY if options.ray else CASES) if options.only in name]
    if options.revision is None or not names:
        parser.error("name a revision, and cases that there are")
    with tree(options.revision) as before:
        compare(before, names, options.repeats, options.processes)


if __name__ == "__main__":
    main()
