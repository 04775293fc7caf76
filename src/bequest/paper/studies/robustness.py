"""Beyond the paper: is a will ever worse than doing nothing, on instances that it was not made for?

Every will with gradient tracking, and most of them with NIDS, on the held-out instances of the
hostile bed (``studies.hostile``): no will is tuned on them. A will is judged by where the survivors
end, the minimiser of what is remembered, so that rounds after the last exit do not matter.

NIDS sends one vector per edge and round where gradient tracking sends two. So it runs twice: with
as many rounds before every exit, and with as many bytes, which are twice the rounds.

One instance in seven has more than 15 unknowns, where the default cannot send a whole Hessian. A
second held-out set has only such, with two of the methods; and a third one, with the same methods,
losses that are convex and not strongly convex. Where their minimisers form a set, an error is the
distance to it.

Where a rule chooses between branches, its decisions are judged one by one: what was predicted of
each branch, and what hindsight says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import norm
from bequest.core.methods import NIDS, GradientTracking
from bequest.errors import OptimumUnknown
from bequest.model import wills
from bequest.model.outcome import Status
from bequest.model.wills.adaptive import BRANCHES
from bequest.paper.studies import hostile, setups
from bequest.paper.studies.study import Case, Findings, Study

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bequest.core.methods import Method
    from bequest.model.run import Run
    from bequest.model.wills import Will
    from bequest.paper.studies.hostile import Instance

# every family on every kind of graph once
BATCH = 45
# likewise of those that are not strongly convex, twice
FLAT_BATCH = 60

WILLS: dict[str, Will] = {
    "forgetful": wills.Forgetful(),
    "GT-C": wills.Consensus(),
    "GT-M": wills.LocalTrack(),
    "observed": wills.Adaptive(),
    "2 vectors": wills.Adaptive(vectors=2),
    "Drift(0)": wills.Drift(0),
    "Drift(2)": wills.Drift(2),
    "Drift(4)": wills.Drift(4),
    "FullHessian": wills.FullHessian(),
}
# every branch there is, whatever the default chooses from: are the two that ignore where the
# network is good choices where they are chosen?
JUDGED: dict[str, Will] = {"all branches": wills.Adaptive(vectors=2, branches=BRANCHES)}
# what else there is, with gradient tracking alone
OTHERS: dict[str, Will] = {
    "GT-P": wills.PointOnly(),
    "Trust": wills.Trust(),
    "Drift(2), secant": wills.Drift(2, hessian="secant"),
    # statistics of samples, where losses have samples and no prediction is believed (Replay)
    "statistics": wills.Adaptive(statistics=True),
}
# whose curvature is not meant to lie within the range of the leaver's loss: a weight that follows
# a schedule, one that the step bounds, that of drawn points
UNBOUND = ("GT-P", "Trust", "statistics")
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
PLAIN = "gradient tracking"
# what is run on every instance: (way, will); and on those that have many unknowns
RUNS = tuple(
    (way, will)
    for way in WAYS
    for will in (*WILLS, *((*OTHERS, *JUDGED, *RULES) if way == PLAIN else ()))
)
LARGE_RUNS = tuple((way, will) for way in (PLAIN, "NIDS, Hessian") for will in WILLS)
FLAT_WILLS = ("forgetful", "GT-C", "observed", "Drift(4)", "FullHessian")
FLAT_RUNS = tuple(run for run in LARGE_RUNS if run[1] in FLAT_WILLS)


def measure(*, first: int, count: int, large: bool = False, convex: bool = False) -> Findings:
    """Return where the survivors end, for every will and way, on these seeds of the bed."""
    seeds = range(first, first + count)
    instances = [hostile.instance(seed, large=large, convex=convex) for seed in seeds]
    runs = FLAT_RUNS if convex else LARGE_RUNS if large else RUNS
    found = [[_told(one, *run) for run in runs] for one in instances]
    arrays = {
        name: np.array([[told[name] for told in row] for row in found], dtype=float)
        for name in ("bias", "vectors", "illegal")
    }
    arrays |= {
        "stage": np.array([one.stage for one in instances]),
        "scale": np.array([one.scale for one in instances]),
    }
    facts = {
        "runs": [list(run) for run in runs],
        "instances": [_described(one) for one in instances],
        "large": large,
        "decisions": [decision for one in instances if not convex for decision in _decisions(one)],
    }
    return Findings(arrays, facts)


def _told(instance: Instance, way: str, will: str) -> dict[str, float]:
    """Return what is measured of a run; one that diverged ends nowhere."""
    known = WILLS | OTHERS | JUDGED | RULES
    run = instance.run(known[will], WAYS[way].method, times=WAYS[way].times)
    return {
        "bias": math.inf if run.status is Status.DIVERGED else _bias(instance, run),
        "vectors": max(record.vectors for record in run.departures),
        "illegal": 0 if will in UNBOUND else setups.illegal(run),
    }


def _bias(instance: Instance, run: Run) -> float:
    """Return how far the limit is from all minimisers; infinite if there is no limit.

    What others forget may be all that was curved in some direction.
    """
    try:
        off = run.surrogate_minimiser - instance.optimum
    except OptimumUnknown:
        return math.inf
    return norm(instance.curved.T @ off)


def _decisions(instance: Instance) -> list[dict[str, object]]:
    """Return what the rule chose from all branches, what it predicted of each, and what is true."""
    (will,) = JUDGED.values()
    run = instance.run(will, WAYS[PLAIN].method)
    return [
        {
            "choice": record.choice,
            "predicted": dict(record.predicted),
            "hindsight": dict(record.hindsight),
        }
        for record in run.departures
        if record.hindsight
    ]


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
    for first in hostile.LARGE[::BATCH]:
        yield Case(f"large-{first}", {"first": first, "count": BATCH, "large": True})
    for first in hostile.FLAT[::FLAT_BATCH]:
        yield Case(f"convex-{first}", {"first": first, "count": FLAT_BATCH, "convex": True})


STUDY = Study("robustness", tuple(_cases()), measure)
