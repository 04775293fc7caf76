"""What momentum does for a network: digits, one digit per silo, nobody leaves.

python benchmarks/momentum.py     # steps chosen on seed 100, percent right on others

Both methods send the same vectors. The network, the split and the batches are those of
``bequest reproduce networks``.
"""

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import bequest as bq
from bequest.paper.studies import networks
from bequest.torch import Silo

ROUNDS = (50, 100, 200)
PLAIN = [(0.0, step) for step in (0.25, 0.5, 1.0)]
HEAVY = [(0.9, step) for step in (0.05, 0.1, 0.2)]


def setting(seed):
    pixels, digit = bq.datasets.digits()
    learn, test = (np.array(rows) for rows in bq.partition.holdout(digit, networks.TEST, seed))
    X = torch.tensor(np.array(pixels) / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    y = torch.tensor(np.array(digit))
    module = networks.module_of("tanh", seed)
    parts = [learn[digit[learn] == k] for k in range(10)]
    options = {"l2": networks.L2, "batch": networks.BATCH, "seed": seed, "curvature": (-1, 10)}
    silos = [Silo(module, cross_entropy, (X[rows], y[rows]), **options) for rows in parts]
    graph = bq.graphs.ring_with_chords(10, chords=networks.CHORDS, seed=seed)
    return module, bq.Problem(silos), graph, X[test], y[test]


def right(given, momentum, step, rounds):
    """Return what part of the test samples the nodes' mean recognises, and the worst gap."""
    module, problem, graph, X, y = given
    method = bq.GradientTracking(step)
    if momentum:
        method = bq.methods.Momentum(method, momentum)
    run = bq.solve(problem, graph, method=method, rounds=rounds)
    if run.status == "diverged":
        return 0.0, np.inf
    module.load_state_dict(run.model)
    with torch.no_grad():
        share = (module(X).argmax(1) == y).double().mean()
    return 100 * float(share), run.invariant_gap.max()


if __name__ == "__main__":
    torch.set_num_threads(1)
    for rounds in ROUNDS:
        tuned = setting(100)
        for name, grid in (("plain", PLAIN), ("momentum 0.9", HEAVY)):
            momentum, step = max(grid, key=lambda one: right(tuned, *one, rounds)[0])
            found = [right(setting(seed), momentum, step, rounds) for seed in range(5)]
            shares = [share for share, _ in found]
            gap = max(gap for _, gap in found)
            print(
                f"{rounds:4} rounds, {name:12} step {step:<5} {np.median(shares):.1f} "
                f"({min(shares):.1f}) percent right, invariant to {gap:.0e}",
                flush=True,
            )
