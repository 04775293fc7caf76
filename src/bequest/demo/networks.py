"""The silo that took digit 7 with it, told with a neural network.

Ten silos hold one handwritten digit each and train one network (tanh, 32 hidden units) on
minibatches of 16. Three of them leave when the training has hardly begun. A quadratic memory of a
network holds only near where it was made; one that replays the samples' statistics holds anyway.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest import datasets
from bequest.core.methods import GradientTracking
from bequest.data import Score
from bequest.demo.digits import DIGITS, LEAVERS
from bequest.model import graphs, partition, wills
from bequest.model.events import Departure
from bequest.model.problem import Problem
from bequest.solver import solve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bequest.demo.digits import Watch
    from bequest.model.wills import Will

ROUNDS = 600
LEAVE_AFTER = (8, 16, 24)
NOBODY = "nobody left"
# None: no silo leaves. The default, for a network Trust(), is there because it is what a run has
# that says nothing; the two that follow send statistics, which has to be asked for.
WILLS: dict[str, Will | None] = {
    NOBODY: None,
    "forgetful": wills.Forgetful(),
    "consensus (GT-C)": wills.Consensus(),
    "adaptive": wills.Adaptive(),
    "replay, moments": wills.Replay(rank=8),
    "replay, centroids": wills.Replay(centroids=32),
}
_STEP, _BATCH, _L2, _HIDDEN, _CHORDS, _TEST = 0.5, 16, 1e-4, 32, 6, 0.3


@dataclass(frozen=True, slots=True)
class Graded:
    """What the survivors' model gets right under one will, and the largest farewell, in vectors."""

    will: str
    score: Score
    vectors: float


def study(seed: int, *, watch: Watch | None = None) -> list[Graded]:
    """Train once under every will; the seed is that of parameters, minibatches and test images."""
    with _one_thread():  # what a problem asks of its losses, too, not only the rounds
        return _studied(seed, watch)


def _studied(seed: int, watch: Watch | None) -> list[Graded]:
    import torch

    from bequest.torch import Silo

    pixels, digit = datasets.digits()
    X = torch.tensor(np.array(pixels) / 16, dtype=torch.float32)
    y = torch.tensor(np.array(digit))
    learn, test = (np.array(rows) for rows in partition.holdout(digit, _TEST, seed))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = torch.nn.Sequential(
            torch.nn.Linear(64, _HIDDEN), torch.nn.Tanh(), torch.nn.Linear(_HIDDEN, len(DIGITS))
        )
    entropy = torch.nn.functional.cross_entropy
    silos = [
        Silo(model, entropy, (X[rows], y[rows]), l2=_L2, batch=_BATCH, seed=seed)
        for rows in (learn[part] for part in partition.by_label(digit[learn], len(DIGITS)))
    ]
    problem, graph = Problem(silos), graphs.ring_with_chords(10, chords=_CHORDS, seed=seed)
    graded = []
    for name, will in WILLS.items():
        leaving = [Departure(node, t) for node, t in zip(LEAVERS, LEAVE_AFTER, strict=True)]
        run = solve(
            problem,
            graph,
            departures=[] if will is None else leaving,
            will=wills.Forgetful() if will is None else will,
            method=GradientTracking(step=_STEP),
            rounds=ROUNDS,
            start=silos[0].start,
            optimum=None,
            progress=None if watch is None else watch(name, ROUNDS),
        )
        model.load_state_dict(run.raise_for_status().model)
        with torch.no_grad():
            right = (model(X[test]).argmax(1) == y[test]).numpy()
        recall = {str(k): float(right[digit[test] == k].mean()) for k in DIGITS}
        weight = max((record.vectors for record in run.departures), default=0.0)
        graded.append(Graded(name, Score(float(right.mean()), recall), weight))
    return graded


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch compute in one thread: layers this small gain nothing from more.

    On a busy machine threads that wait for each other after every layer take many times as long.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
