"""Beyond the paper: is a will ever worse than doing nothing, on instances that it was not made for?

Every will, with gradient tracking and with NIDS, on the held-out instances of the hostile bed
(``studies.hostile``): nobody tunes on them. A will is judged by where the survivors end, the
minimiser of what is remembered, so that rounds after the last exit do not matter.

NIDS sends one vector per edge and round where gradient tracking sends two. So it runs twice: with
as many rounds before every exit, and with as many bytes, which are twice the rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.methods import NIDS, GradientTracking
from bequest.model import wills
from bequest.model.outcome import Status
from bequest.paper.studies import hostile, setups
from bequest.paper.studies.study import Case, Findings, Study

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bequest.core.methods import Method
    from bequest.model.wills import Will
    from bequest.paper.studies.hostile import Instance

# every family on every kind of graph once
BATCH = 45

WILLS: dict[str, Will] = {
    "forgetful": wills.Forgetful(),
    "GT-C": wills.Consensus(),
    "GT-M": wills.LocalTrack(),
    "observed": wills.Adaptive(),
    "Drift(0)": wills.Drift(0),
    "Drift(2)": wills.Drift(2),
    "Drift(4)": wills.Drift(4),
    "FullHessian": wills.FullHessian(),
}
# the paper's own rules, which know more than a leaver can; with the paper's method alone
RULES: dict[str, Will] = {
    "certified": wills.Adaptive(rule="certified"),
    "paper's oracle": wills.Adaptive(rule="oracle"),
}


@dataclass(frozen=True, slots=True)
class Way:
    """A method, and how many times the instance's rounds it gets."""

    method: Method
    times: int = 1


WAYS = {
    "gradient tracking": Way(GradientTracking()),
    "NIDS": Way(NIDS()),
    "NIDS, Hessian": Way(NIDS(metric="hessian")),
    "NIDS, equal bytes": Way(NIDS(), times=2),
    "NIDS, Hessian, equal bytes": Way(NIDS(metric="hessian"), times=2),
}
# what is run on every instance: (way, will)
RUNS = tuple(
    (way, will) for way in WAYS for will in (*WILLS, *(RULES if way == "gradient tracking" else ()))
)


def measure(*, first: int, count: int) -> Findings:
    """Return where the survivors end, for every will and way, on these seeds of the bed."""
    instances = [hostile.instance(seed) for seed in range(first, first + count)]
    found = [[_told(one, *run) for run in RUNS] for one in instances]
    arrays = {
        name: np.array([[told[name] for told in row] for row in found], dtype=float)
        for name in ("bias", "vectors", "illegal")
    }
    arrays |= {
        "stage": np.array([one.stage for one in instances]),
        "scale": np.array([one.scale for one in instances]),
    }
    facts = {"runs": [list(run) for run in RUNS], "instances": [_described(i) for i in instances]}
    return Findings(arrays, facts)


def _told(instance: Instance, way: str, will: str) -> dict[str, float]:
    """Return what is measured of a run; one that diverged ends nowhere."""
    run = instance.run((WILLS | RULES)[will], WAYS[way].method, times=WAYS[way].times)
    return {
        "bias": math.inf if run.status is Status.DIVERGED else setups.bias(run),
        "vectors": max(record.vectors for record in run.departures),
        "illegal": setups.illegal(run),
    }


def _described(instance: Instance) -> dict[str, object]:
    return {
        "seed": instance.seed,
        "family": instance.family,
        "network": instance.network,
        "nodes": instance.n,
        "dim": instance.dim,
        "exits": [one.round for one in instance.departures],
        "most heterogeneous": instance.chosen,
        "quadratic": all(stack.constant_hessian for _, stack in instance.problem.stacks),
    }


def _cases() -> Iterator[Case]:
    for first in hostile.HELD_OUT[::BATCH]:
        yield Case(f"seeds-{first}", {"first": first, "count": BATCH})


STUDY = Study("robustness", tuple(_cases()), measure)
