"""What a round costs beyond the bare gradients of torch, and what a departure takes of memory.

python benchmarks/models.py            # overhead at 10^5 parameters, as a ratio within one run
python benchmarks/models.py memory     # the most memory, with 10^6 parameters and four nodes
"""

import resource
import sys
import time

import torch
from torch.nn.functional import cross_entropy

import bequest as bq
from bequest.torch import Silo


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


def bare(model, made, batch, rounds):
    """Return how long the gradients alone take: what any training in torch would."""
    parameters = list(model.parameters())
    began = time.perf_counter()
    for _ in range(rounds):
        for silo in made:
            rows = torch.randperm(silo.samples)[:batch]
            loss = cross_entropy(model(silo.backend.inputs[rows]), silo.backend.targets[rows])
            torch.autograd.grad(loss, parameters)
    return time.perf_counter() - began


def run(made, method, rounds, **options):
    problem = bq.Problem(made)
    start = made[0].start
    began = time.perf_counter()
    graph = bq.graphs.ring(len(made))
    found = bq.solve(
        problem, graph, method=method, rounds=rounds, start=start, optimum=None, **options
    )
    return found, time.perf_counter() - began


def overhead():
    rounds = 30
    for batch in (64, 256, 1024):
        model, made = silos(128, 8, batch, samples=2048)
        print(f"{made[0].dim} parameters, 8 nodes, batches of {batch}")
        for name, method in (
            ("gradient tracking", bq.GradientTracking(step=0.05)),
            ("exact diffusion", bq.methods.ExactDiffusion(step=0.05, mixing=0.5)),
        ):
            ratios = []
            for _ in range(3):
                alone = bare(model, made, batch, rounds)
                _, whole = run(made, method, rounds)
                ratios.append(whole / alone)
            print(f"  {name:20} {min(ratios):.2f} (least of three), {max(ratios):.2f} (worst)")


def memory():
    _, made = silos(1258, 4, 16)
    print(f"{made[0].dim} parameters, 4 nodes")
    for will in (bq.wills.Replay(), bq.wills.Trust()):
        leaving = [bq.Departure(2, 60)]
        method = bq.GradientTracking(step=0.2)
        found, _ = run(made, method, 70, departures=leaving, will=will)
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"  {will.title:28} {found.departures[0].vectors:.3f} vectors, {most:.2f} GB so far")


if __name__ == "__main__":
    torch.set_num_threads(1)
    memory() if sys.argv[1:] == ["memory"] else overhead()
