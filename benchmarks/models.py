"""What a round costs beyond the bare gradients of torch, and what a departure takes of memory.

python benchmarks/models.py            # overhead at 10^5 parameters, as a ratio within one run
python benchmarks/models.py parts      # where the time of a round goes, in milliseconds
python benchmarks/models.py memory     # the most memory, with 10^6 and 10^7 parameters, four nodes

The quadratic of ``Trust`` is handed over in any case here: so early it would be left out.

The bare gradients are what any training in torch does: every node has a module of its own, takes
some samples at random and calls ``loss.backward()``. Nothing is updated and nothing is sent. Both
sides have one thread and are measured in processor time, in turns.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy and torch start their threads

import resource
import statistics
import subprocess
import sys
import time
from copy import deepcopy

import torch
from torch.nn.functional import cross_entropy

import bequest as bq
from bequest.core import mixing
from bequest.engines.metrics import Metrics
from bequest.engines.vector.row_by_row import RowGradients
from bequest.torch import Silo


class Trust(bq.wills.Trust):
    """Hand the quadratic over, however early it is."""

    insists = True


WILLS = {"Replay": bq.wills.Replay(), "Trust": Trust()}
# What takes the time of a round; what stands below something else is a part of it.
PARTS = {
    "gradients as rounds use them": (RowGradients, "__call__"),
    "  those of the framework": (Silo, "batch_gradient"),
    "averages of what neighbours say": (mixing, "weigh_all"),
    "what is said": (bq.GradientTracking, "message"),
    "what is measured": (Metrics, "measure"),
}


def silos(hidden, nodes, batch, samples=512):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(784, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10)
    )
    made = []
    for _ in range(nodes):
        X = torch.randn(samples, 784)
        X[:, :10] *= 5
        data = X, X[:, :10].argmax(1)  # something that can be learnt
        made.append(Silo(model, cross_entropy, data, batch=batch, l2=1e-4, curvature=(-1, 5)))
    return model, made


def bare(modules, made, batch, rounds):
    """Return how long the gradients alone take."""
    began = time.process_time()
    for _ in range(rounds):
        for module, silo in zip(modules, made, strict=True):
            rows = torch.randperm(silo.samples)[:batch]
            module.zero_grad()
            outputs = module(silo.backend.inputs[rows])
            cross_entropy(outputs, silo.backend.targets[rows]).backward()
    return time.process_time() - began


def run(made, method, rounds, **options):
    problem, graph = bq.Problem(made), bq.graphs.ring(len(made))
    began = time.process_time()
    found = bq.solve(problem, graph, method=method, rounds=rounds, optimum=None, **options)
    return found, time.process_time() - began


def overhead():
    for batch, rounds in ((64, 80), (256, 40), (512, 25), (1024, 15)):
        model, made = silos(128, 8, batch, samples=2048)
        modules = [deepcopy(model) for _ in made]
        print(f"{made[0].dim} parameters, 8 nodes, batches of {batch}")
        for name, method in (
            ("gradient tracking", bq.GradientTracking(step=0.05)),
            ("exact diffusion", bq.methods.ExactDiffusion(step=0.05, mixing=0.5)),
        ):
            ratios = []
            for _ in range(5):
                alone = bare(modules, made, batch, rounds)
                _, whole = run(made, method, rounds)
                ratios.append(whole / alone)
            middle = statistics.median(ratios)
            print(
                f"  {name:20} {middle:.2f} (median of five), {max(ratios):.2f} (worst)", flush=True
            )


def parts():
    """Say what a round of gradient tracking does beside the gradients, and how long that takes."""
    spent = dict.fromkeys(PARTS, 0.0)

    def timed(owner, name, part):
        inner = getattr(owner, name)

        def outer(*args, **options):
            began = time.process_time()
            found = inner(*args, **options)
            spent[part] += time.process_time() - began
            return found

        setattr(owner, name, outer)

    for part, (owner, name) in PARTS.items():
        timed(owner, name, part)
    for batch, rounds in ((64, 80), (256, 40), (1024, 15)):
        model, made = silos(128, 8, batch, samples=2048)
        modules = [deepcopy(model) for _ in made]
        told = []
        for _ in range(5):
            spent.update(dict.fromkeys(spent, 0.0))
            alone = bare(modules, made, batch, rounds)
            _, whole = run(made, bq.GradientTracking(step=0.05), rounds)
            told.append({"bare gradients": alone, "the run": whole} | spent)
        print(f"{made[0].dim} parameters, 8 nodes, batches of {batch}: milliseconds per round")
        for part in told[0]:
            middle = 1e3 * statistics.median(one[part] for one in told) / rounds
            print(f"  {part:40} {middle:6.2f}", flush=True)


def memory():
    """Every departure in a process of its own: memory that was used once is never given back."""
    for hidden in (1258, 12_578):
        for will in WILLS:
            command = [sys.executable, __file__, "departure", str(hidden), will]
            subprocess.run(command, check=True)  # noqa: S603 - this file


def departure(hidden, will):
    large = hidden > 10_000  # rounds take seconds: a few have to do
    _, made = silos(hidden, 4, 16, samples=64 if large else 512)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    found, _ = run(
        made,
        bq.GradientTracking(step=0.02),
        6 if large else 44,
        departures=[bq.Departure(2, 4 if large else 40)],
        will=WILLS[will],
    )
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    (record,) = found.departures
    assert record.legacy is not None, record.why
    print(
        f"{made[0].dim} parameters, 4 nodes, {will}: {record.choice}, {record.vectors:.3f} vectors"
    )
    print(f"  {most:.2f} GB at most, {before:.2f} GB before the run", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    match sys.argv[1:]:
        case ["parts"]:
            parts()
        case ["memory"]:
            memory()
        case ["departure", hidden, will]:
            departure(int(hidden), will)
        case _:
            overhead()
