"""What happens when several nodes leave: three questions, asked of the hostile bed.

``python benchmarks/compounding.py`` prints one row per answer, on the held-out instances with two
to four leavers; ``--dev`` takes the seeds on which wills may be tuned. Everything is seeded, so the
numbers are the same on every machine (a few minutes).

1. Can an heir correct earlier legacies when it learns more? It cannot anchor them elsewhere, as the
   loss is gone, but it can weigh them. What the best weights would gain an oracle finds that
   knows x*; and what a rule finds that an heir could follow: half the weight for a memory whose
   anchor lies farther from where the survivors end than its node had ever come.
2. Does the order matter in which nodes leave that leave at once? They leave by ascending number, so
   all numbers are reversed.
3. Should a prediction of an earlier epoch, the carried one, survive the departures of others? Asked
   of ``Drift()``, on the bed and where twelve leave of twenty ill-conditioned quadratics.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

import bequest as bq
from bequest.core.arrays import norm
from bequest.core.legacy import Legacy
from bequest.model.problem import Problem
from bequest.model.wills import Bequest, Will
from bequest.paper.report.sections.bed import FLOOR, WORSE
from bequest.paper.studies import hostile, setups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.core.arrays import Vector
    from bequest.model.run import Run
    from bequest.model.wills import Estate
    from bequest.paper.studies.hostile import Instance

METHOD = bq.methods.GradientTracking()
SEEDS, LEAVERS, FIRST = 20, 12, 200
# for the oracle: what it may multiply all legacies by
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)


@dataclass(frozen=True)
class Fresh(Will):
    """A drift legacy without what earlier epochs predicted."""

    label: ClassVar[str] = "fresh"
    needs_history = True

    def decide(self, estate: Estate) -> Bequest:
        """Decide as if nothing had been carried over."""
        return bq.wills.Drift().decide(replace(estate, carried=None))


def main(arguments: Sequence[str]) -> None:
    """Print the answers."""
    seeds = hostile.DEV[:450] if "--dev" in arguments else hostile.HELD_OUT
    instances = [one for one in map(hostile.instance, seeds) if len(one.departures) > 1]
    runs = [one.run(bq.wills.Adaptive(), METHOD) for one in instances]
    better = np.array([_better(one) for one in instances])
    now = np.array(
        [_error(one, run.surrogate_minimiser) for one, run in zip(instances, runs, strict=True)]
    )
    print(f"{len(instances)} instances with several leavers, gradient tracking, Adaptive()")
    _row("as it is", now, now, better)
    for name, weigh in (
        ("heir weighs: the best one weight for all (oracle)", _best_weight),
        ("heir weighs: each legacy kept or dropped (oracle)", _best_choice),
        ("heir weighs: half, where the anchor lies far off", _halved),
    ):
        found = np.array([weigh(one, run) for one, run in zip(instances, runs, strict=True)])
        _row(name, found, now, better)
    at_once = np.array([_at_once(one) for one in instances])
    back = [_reversed(one) for one, chosen in zip(instances, at_once, strict=True) if chosen]
    ends = [one.run(bq.wills.Adaptive(), METHOD).surrogate_minimiser for one in back]
    other = np.array([_error(one, end) for one, end in zip(back, ends, strict=True)])
    _row("simultaneous leavers in their order", now[at_once], now[at_once], better[at_once])
    _row("simultaneous leavers in reverse", other, now[at_once], better[at_once])
    carried, fresh = (
        np.array([_error(one, one.run(will, METHOD).surrogate_minimiser) for one in instances])
        for will in (bq.wills.Drift(), Fresh())
    )
    _row("Drift()", carried, carried, better)
    _row("Drift() without the carried prediction", fresh, carried, better)
    gains = []
    for seed in range(SEEDS):
        setup = setups.tilted(100, seed)
        leaving = setup.worst_leave(setups.spaced(FIRST, LEAVERS))
        with_, without = (
            setups.bias(setup.run(will, leaving, rounds=leaving[-1].round))
            for will in (bq.wills.Drift(), Fresh())
        )
        gains.append(without / with_)
    print(
        f"{LEAVERS} of {setups.NODES} leave from round {FIRST} on, tilted, kappa = 100, {SEEDS} "
        f"seeds: without the carried prediction Drift() ends {np.median(gains):.3g} times as far "
        f"off in the median, {min(gains):.2g} to {max(gains):.3g}"
    )


def _at_once(instance: Instance) -> bool:
    """Whether two of its leavers leave after the same round."""
    return len({one.round for one in instance.departures}) < len(instance.departures)


def _error(instance: Instance, end: Vector) -> float:
    return max(norm(end - instance.optimum) / instance.scale, FLOOR)


def _better(instance: Instance) -> float:
    """Return the error of the better of forgetting and GT-C."""
    wills = (bq.wills.Forgetful(), bq.wills.Consensus())
    return min(_error(instance, instance.run(w, METHOD).surrogate_minimiser) for w in wills)


def _weighed(instance: Instance, run: Run, weights: Sequence[float]) -> float:
    """Return the error if every leaver's memory had that weight."""
    memory = Legacy.zero(instance.dim)
    for record, weight in zip(run.departures, weights, strict=True):
        legacy = record.legacy
        if legacy is not None and weight:
            memory += replace(
                legacy,
                eta=weight * legacy.eta,
                p=weight * legacy.p,
                c=weight * legacy.c,
                weights=weight * legacy.weights,
            )
    return _error(instance, instance.problem.among(run.survivors).minimiser(memory))


def _best_weight(instance: Instance, run: Run) -> float:
    count = len(run.departures)
    return min(_weighed(instance, run, [weight] * count) for weight in WEIGHTS)


def _best_choice(instance: Instance, run: Run) -> float:
    count = len(run.departures)
    kept = [[float(bits >> k & 1) for k in range(count)] for bits in range(2**count)]
    return min(_weighed(instance, run, weights) for weights in kept)


def _halved(instance: Instance, run: Run) -> float:
    end = run.surrogate_minimiser
    weights = []
    for record in run.departures:
        come = norm(record.x - instance.start[record.node])
        anchor = record.x if record.anchor is None else record.anchor
        weights.append(0.5 if norm(end - anchor) > come else 1.0)
    return _weighed(instance, run, weights)


def _reversed(instance: Instance) -> Instance:
    """Return the same instance with all nodes numbered the other way round."""
    last = instance.n - 1
    losses = [instance.problem.objective(last - node) for node in range(instance.n)]
    edges = [(last - int(a), last - int(b)) for a, b in instance.graph.edges]
    leaving = [bq.Departure(last - one.node, one.round) for one in instance.departures]
    return replace(
        instance,
        problem=Problem(losses),
        graph=bq.Graph(edges, instance.n),
        start=instance.start[::-1].copy(),
        departures=tuple(leaving),
    )


def _row(name: str, errors: Vector, against: Vector, better: Vector) -> None:
    shares = " / ".join(f"{100 * np.mean(errors > k * better):.1f}" for k in WORSE)
    ratios = errors / against
    mean = np.exp(np.mean(np.log(ratios)))
    print(
        f"{name:52s} {len(errors):4d}  worse {shares}%, worst {np.max(errors / better):.3g}; "
        f"over as it is: mean {mean:.3g}, {ratios.min():.2g} to {ratios.max():.3g}, "
        f"median {np.median(ratios):.3g}",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
