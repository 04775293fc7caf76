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
from bequest.paper.studies import network_wills
from bequest.paper.studies.study import Findings, Study, seeded
from bequest.solver import solve

if TYPE_CHECKING:
    from bequest.core.arrays import Indices
    from bequest.model.run import Run
    from bequest.model.wills import Will

SEEDS = 5
LEAVERS = (7, 3, 8)
LATE = "late"
TIMES = {"very early": (8, 16, 24), "early": (100, 200, 300), LATE: (500, 600, 700)}
# Exits that are over after this part of all rounds are looked at before the run.
ROUNDS, LONGER, LOOK = 1000, 4000, 10
NOBODY, FORGETS = "nobody left", "forgetful"
WILLS: dict[str, Will] = {
    FORGETS: wills.Forgetful(),
    "trust": wills.Trust(),  # until a network has settled, Consensus is the same
    "sketch, rank 8": network_wills.Sketch(8),
    "consensus, insisting": network_wills.InsistingConsensus(),
    "trust, insisting": network_wills.InsistingTrust(),
    "sketch, insisting": network_wills.InsistingSketch(8),
    "replay, moments": wills.Replay(rank=8),
    "replay, centroids": wills.Replay(centroids=32),
}
# Wills that hand over in any case, and as they are, what others may leave out or bend. They are
# compared where the leavers are missed most, with one digit per silo.
TRUSTED = "trust, insisting"  # the same run as Trust's if that left out nothing
INSISTING = ("consensus, insisting", TRUSTED, "sketch, insisting")
NETWORKS = ("tanh", "relu", "cnn")
SPLITS = ("digits", "dirichlet")
# chosen on seed 100, for nobody leaving
STEPS = {"tanh": 0.5, "relu": 0.5, "cnn": 0.3}
BATCH, L2, CHORDS, TEST = 16, 1e-4, 6, 0.3


def measure(*, network: str, split: str, seed: int, rounds: int = ROUNDS) -> Findings:
    """Return what the survivors recognise under every will, and what its farewells weigh.

    With more rounds than usual the late exits are followed for longer.
    """
    import torch

    torch.set_num_threads(1)
    # For images as small as these the plain convolution is the faster one.
    usual, torch.backends.mkldnn.enabled = torch.backends.mkldnn.enabled, False
    try:
        return _measured(network, split, seed, rounds)
    finally:
        torch.backends.mkldnn.enabled = usual


def _measured(network: str, split: str, seed: int, rounds: int) -> Findings:
    import torch

    from bequest import datasets
    from bequest.torch import Silo

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

    def solved(will: Will, times: tuple[int, ...], rounds: int) -> Run:
        return solve(
            problem,
            graph,
            departures=[Departure(node, t) for node, t in zip(LEAVERS, times, strict=False)],
            will=will,
            method=GradientTracking(step=STEPS[network]),
            rounds=rounds,
            start=start,
            optimum=None,
        )

    def told(will: Will, times: tuple[int, ...]) -> dict[str, Any]:
        run = solved(will, times, rounds)
        module.load_state_dict(run.model)
        with torch.no_grad():
            right = (module(X[test]).argmax(1) == y[test]).numpy()
        return {
            "right": 100 * float(right.mean()),
            "of leavers": 100 * float(right[missing].mean()),
            "vectors": max((record.vectors for record in run.departures), default=0.0),
            "left": [record.choice for record in run.departures],
            "gap": float(run.invariant_gap.max()),
        }

    def forgets(will: Will, times: tuple[int, ...], found: dict[str, dict[str, Any]]) -> bool:
        """Whether a will leaves nothing, so that its run would be that of forgetting."""
        if not found or will.insists:
            return False
        # Whether a quadratic is left out does not depend on which one it is.
        for title, other in WILLS.items():
            if title in found and not (other.insists or other.forgets):
                return found[title] is found[FORGETS]
        if LOOK * times[-1] > rounds:
            return False
        return all(one.choice == "none" for one in solved(will, times, times[-1]).departures)

    def compared(times: tuple[int, ...]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for title, will in WILLS.items():
            if title in INSISTING and split != "digits":
                continue
            if title == TRUSTED and "none" not in found["trust"]["left"]:
                found[title] = found["trust"]
            elif forgets(will, times, found):
                found[title] = found[FORGETS]
            else:
                found[title] = told(will, times)
                if found[title]["left"] == ["none"] * len(times):
                    found[title] = found[FORGETS]
        return found

    spans = TIMES if rounds == ROUNDS else {LATE: TIMES[LATE]}
    return Findings(
        {},
        {
            NOBODY: told(wills.Forgetful(), ()),
            "times": {name: compared(times) for name, times in spans.items()},
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
    (
        *(
            case
            for split in SPLITS
            for network in NETWORKS
            for case in seeded(SEEDS, network=network, split=split)
        ),
        *seeded(SEEDS, network="tanh", split="digits", rounds=LONGER),
    ),
    measure,
    needs=("data", "torch"),
)
