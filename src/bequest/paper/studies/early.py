"""Convex losses, early exits: a memory that need not know where the optimum is, and those that do.

Three of ten silos leave one after the other, the first after round 3, 10, 20 or 50, on the real
data of the paper. Told in the terminal, by ``bequest reproduce early``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest.model import wills
from bequest.paper.studies import real, setups
from bequest.paper.studies.study import Case, Findings, Study

if TYPE_CHECKING:
    from bequest.model.wills import Will

DATASETS = ("breast-cancer", "digits")
FIRST, GAP, LEAVERS = (3, 10, 20, 50), 5, 3
WILLS: dict[str, Will] = {
    "forgetful": wills.Forgetful(),
    "consensus": wills.Consensus(),
    "Drift(0)": wills.Drift(0),
    "Drift(4)": wills.Drift(4),
    "FullHessian": wills.FullHessian(),
    "replay, moments": wills.Replay(rank=8),
    "replay, 32 centroids": wills.Replay(centroids=32),
}


def measure(*, dataset: str, first: int) -> Findings:
    """Return how far from the optimum of all data the survivors end, and the largest farewell."""
    given = real.setup_of(dataset)
    rounds = [first + GAP * k for k in range(LEAVERS)]
    leaving = given.worst_leave(rounds)
    found = {}
    for name, will in WILLS.items():
        run = given.run(will, leaving, rounds=rounds[-1])
        found[name] = {"bias": setups.bias(run), **setups.largest(run)}
    return Findings({}, {"wills": found})


STUDY = Study(
    "early",
    tuple(
        Case(f"{dataset}_first-{first:02d}", {"dataset": dataset, "first": first})
        for dataset in DATASETS
        for first in FIRST
    ),
    measure,
    needs=("data",),
)
