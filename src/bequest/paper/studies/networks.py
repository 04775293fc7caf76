"""Neural networks that lose three of ten silos: what the survivors still recognise.

The digits of scikit-learn, one per silo or split by a Dirichlet distribution; a network per silo,
rounds on minibatches of 16; three silos leave very early, early or late. Every will is run on the
same minibatches of the same seed.

It needs torch, so it is computed only when it is asked for by name. A case is one network, one
split and one seed; what has been computed is kept, so that it can be run in pieces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.core.methods import GradientTracking
from bequest.model import graphs, partition, wills
from bequest.model.events import Departure
from bequest.model.problem import Problem
from bequest.paper.studies.study import Findings, Study, seeded
from bequest.solver import solve

if TYPE_CHECKING:
    from bequest.core.arrays import Indices
    from bequest.model.wills import Will

SEEDS = 5
LEAVERS = (7, 3, 8)
TIMES = {"very early": (8, 16, 24), "early": (100, 200, 300), "late": (500, 600, 700)}
ROUNDS = 1000
NOBODY = "nobody left"
WILLS: dict[str, Will] = {
    "forgetful": wills.Forgetful(),
    "consensus": wills.Consensus(),
    "trust": wills.Trust(),
    "sketch, rank 8": wills.Drift(8),
    "replay, moments": wills.Replay(rank=8),
    "replay, centroids": wills.Replay(centroids=32),
}
NETWORKS = ("tanh", "relu", "cnn")
SPLITS = ("digits", "dirichlet")
# chosen on seed 100, for nobody leaving
STEPS = {"tanh": 0.5, "relu": 0.5, "cnn": 0.3}
BATCH, L2, CHORDS, TEST = 16, 1e-4, 6, 0.3


def measure(*, network: str, split: str, seed: int) -> Findings:
    """Return what the survivors recognise under every will, and what its farewells weigh."""
    import torch

    from bequest import datasets
    from bequest.torch import Silo

    torch.set_num_threads(1)
    pixels, digit = datasets.digits()
    learn, test = (np.array(rows) for rows in partition.holdout(digit, TEST, seed))
    X = torch.tensor(np.array(pixels) / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    y = torch.tensor(np.array(digit))
    module = module_of(network, seed)
    silos = [
        Silo(module, torch.nn.functional.cross_entropy, (X[rows], y[rows]), l2=L2, batch=BATCH,
             seed=seed)
        for rows in (learn[part] for part in _split(split, digit[learn], seed))
    ]  # fmt: skip
    problem = Problem(silos)
    start = silos[0].start
    graph = graphs.ring_with_chords(len(silos), chords=CHORDS, seed=seed)
    missing = np.isin(digit[test], LEAVERS)

    def told(will: Will, times: tuple[int, ...]) -> dict[str, object]:
        leaving = [Departure(node, t) for node, t in zip(LEAVERS, times, strict=False)]
        run = solve(
            problem,
            graph,
            departures=leaving,
            will=will,
            method=GradientTracking(step=STEPS[network]),
            rounds=ROUNDS,
            start=start,
            optimum=None,
        )
        module.load_state_dict(run.model)
        with torch.no_grad():
            right = (module(X[test]).argmax(1) == y[test]).numpy()
        return {
            "right": 100 * float(right.mean()),
            "of leavers": 100 * float(right[missing].mean()),
            "vectors": max((record.vectors for record in run.departures), default=0.0),
            "gap": float(run.invariant_gap.max()),
        }

    return Findings(
        {},
        {
            NOBODY: told(wills.Forgetful(), ()),
            "times": {
                name: {title: told(will, times) for title, will in WILLS.items()}
                for name, times in TIMES.items()
            },
            "parameters": problem.dim,
        },
    )


def module_of(network: str, seed: int) -> Any:  # noqa: ANN401 - a torch module
    """Return a network for images of 8 by 8, its parameters drawn from the seed."""
    import torch
    from torch import nn

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if network == "cnn":
            return nn.Sequential(
                nn.Conv2d(1, 8, 3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Linear(128, 10),
            )
        bend = {"tanh": nn.Tanh, "relu": nn.ReLU}[network]()
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), bend, nn.Linear(32, 10))


def _split(split: str, digit: Indices, seed: int) -> list[Indices]:
    if split == "digits":
        return partition.by_label(digit, 10)
    return partition.dirichlet(digit, 10, 0.3, seed)


STUDY = Study(
    "networks",
    tuple(
        case
        for split in SPLITS
        for network in NETWORKS
        for case in seeded(SEEDS, network=network, split=split)
    ),
    measure,
    needs=("data", "torch"),
)
