"""What the study of the methods has found, part by part, as samples over seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bequest.paper.report.measures import Sample, number, ratio
from bequest.paper.report.sections.base import DIVERGED, grouped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from bequest.paper.store import Result

TRACKING, DIFFUSION = "gradient tracking", "exact diffusion"
SCALAR, MATRIX = "NIDS", "NIDS-H"
METHODS = (TRACKING, "DIGing", "EXTRA", DIFFUSION, "ADMM", SCALAR, MATRIX)
INEXACT = "DGD"
# the two whose gains have targets
OURS = (SCALAR, MATRIX)
SETUPS = {
    "sec51": "Sec. 5.1",
    "stress": "stress, κ = 100",
    "tilt100": "tilted, κ = 100",
    "ring20": "ring of 20",
    "ring100": "ring of 100",
    "grid": "grid, 10 × 10",
    "grid-stress": "stress on the grid",
    "breast-cancer": "breast cancer",
    "digits": "digits, odd or even",
}
LEAVING = {
    "sec51": "Sec. 5.1, k = 4, t₁ = 50",
    "stress": "stress, κ = 100, k = 12, t₁ = 50",
    "tilt100": "tilted, κ = 100, k = 12, t₁ = 50",
    "tilt100-late": "tilted, κ = 100, k = 12, t₁ = 800",
    "d100": "d = 100, tilted, k = 8, t₁ = 50",
    "breast-cancer": "breast cancer, k = 3, t₁ = 100",
    "digits": "digits, odd or even, k = 3, t₁ = 1000",
}
JOLTED = ("sec51", "stress", "tilt100")
WILLS = ("Consensus", "Drift(0)", "Drift(4)", "FullHessian", "Adaptive")
SETUPS_STEP, TUNED_STEP = f"{TRACKING}, the setup's step", f"{TRACKING}, tuned step"
ROUNDS, BYTES = "equal rounds", "equal bytes"
RUNS = (
    SETUPS_STEP,
    TRACKING,
    *(f"{label}, {budget}" for label in OURS for budget in (ROUNDS, BYTES)),
)
# Below this, an error after departures is rounding, and no method is better than another.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Speed:
    """One setup on which nobody leaves.

    Attributes:
        name: of the setup.
        needs: method -> "vectors", "rounds", "gradients" -> one number per seed.
        tuned: method -> the best multiple of its pace, and the vectors that it needs with that.
        left: what DGD leaves of the error of the start.
    """

    name: str
    needs: Mapping[str, Mapping[str, Sample]]
    tuned: Mapping[str, tuple[float, Sample]]
    left: Sample

    @property
    def title(self) -> str:
        """The setup's name for people."""
        return SETUPS[self.name]

    @property
    def n(self) -> int:
        """How many seeds."""
        return self.left.n

    def vectors(self, label: str) -> Sample:
        """Return the vectors per edge and direction that a method needs."""
        return self.needs[label]["vectors"]

    def gain(self, label: str) -> Sample:
        """Return how many times fewer vectors than gradient tracking a method needs."""
        pairs = zip(self.vectors(TRACKING).values, self.vectors(label).values, strict=True)
        return Sample.of((ratio(ours, its) for ours, its in pairs), bad="small")


def speeds(results: Sequence[Result]) -> list[Speed]:
    """Return the setups that were computed, in order."""
    measured, tuned = _of(results, "speed"), _of(results, "tuned")
    return [
        Speed(
            name,
            {
                label: {
                    key: Sample.of(r.facts["methods"][label][key] for r in measured[name])
                    for key in ("vectors", "rounds", "gradients")
                }
                for label in METHODS
            },
            {
                result.params["method"]: (
                    float(result.facts["factor"]),
                    Sample.of(one["vectors"] for one in result.facts["seeds"]),
                )
                for result in tuned.get(name, ())
            },
            Sample.of(r.facts[INEXACT]["left"] for r in measured[name]),
        )
        for name in SETUPS
        if name in measured
    ]


@dataclass(frozen=True, slots=True)
class Ending:
    """One setup on which nodes leave.

    Attributes:
        name: of the setup.
        errors: will -> run -> where the survivors end, seed by seed.
        tuned: will -> where they end with gradient tracking and a tuned step, where that is
            another one.
    """

    name: str
    errors: Mapping[str, Mapping[str, Sample]]
    tuned: Mapping[str, Sample]

    @property
    def title(self) -> str:
        """The setup's name for people."""
        return LEAVING[self.name]

    @property
    def n(self) -> int:
        """How many seeds."""
        return next(iter(self.errors.values()))[TRACKING].n

    def ratio(self, will: str, run: str) -> Sample:
        """Return a run's error over that of gradient tracking with its chosen step.

        Errors below 1e-12 are rounding and count as 1e-12.
        """
        errors = self.errors[will]
        pairs = zip(errors[run].values, errors[TRACKING].values, strict=True)
        return Sample.of(max(its, ROUNDING) / max(ours, ROUNDING) for its, ours in pairs)


def endings(results: Sequence[Result]) -> list[Ending]:
    """Return the setups that were computed, in order."""
    found = _of(results, "exits")
    return [
        Ending(
            name,
            {
                will: {
                    run: Sample.of(_bias(r.facts["wills"][will][run]) for r in found[name])
                    for run in RUNS
                }
                for will in WILLS
                if all(will in r.facts["wills"] for r in found[name])
            },
            {
                will: Sample.of(_bias(r.facts["wills"][will][TUNED_STEP]) for r in found[name])
                for will in WILLS
                if all(TUNED_STEP in r.facts["wills"].get(will, ()) for r in found[name])
            },
        )
        for name in LEAVING
        if name in found
    ]


def _bias(run: Mapping[str, Any]) -> float | None:
    return None if run["status"] == DIVERGED else float(run["bias"])


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One setup on which nodes return, crash and vanish.

    Attributes:
        name: of the setup.
        peaks: "return", "stay", "crash" -> method -> level of the error before -> peak over that
            error; "stay" is in the rounds of the return, if the node stays away.
        vanished: method -> round -> where the others end, by what is remembered.
        trusted: method -> round -> on how many seeds the guard lets the others recall.
    """

    name: str
    peaks: Mapping[str, Mapping[str, Mapping[str, Sample]]]
    vanished: Mapping[str, Mapping[str, Mapping[str, Sample]]]
    trusted: Mapping[str, Mapping[str, int]]

    @property
    def title(self) -> str:
        """The setup's name for people."""
        return SETUPS[self.name]

    def relative(self, label: str, at: str, what: str, to: str) -> Sample:
        """Return one error after a node has vanished over another one."""
        found = self.vanished[label][at]
        return Sample.of(
            ratio(one, other)
            for one, other in zip(found[what].values, found[to].values, strict=True)
        )


def disturbances(results: Sequence[Result]) -> list[Disturbance]:
    """Return the setups that were computed, in order."""
    found = _of(results, "bumps")
    return [_disturbance(name, found[name]) for name in JOLTED if name in found]


def _disturbance(name: str, results: Sequence[Result]) -> Disturbance:
    facts = [result.facts for result in results]
    peaks, vanished = facts[0]["peaks"], facts[0]["vanished"]
    return Disturbance(
        name,
        {
            kind: {
                label: {
                    level: Sample.of(
                        one["peaks"][label][level][kind]
                        for one in facts
                        if one["peaks"][label][level] is not None
                    )
                    for level in levels
                    if any(one["peaks"][label][level] is not None for one in facts)
                }
                for label, levels in peaks.items()
            }
            for kind in ("return", "stay", "crash")
        },
        {
            label: {
                at: {
                    key: Sample.of(one["vanished"][label][at][key] for one in facts)
                    for key in ("farewell", "forgotten", "recalled", "unguarded")
                }
                for at in times
            }
            for label, times in vanished.items()
        },
        {
            label: {at: sum(one["vanished"][label][at]["trusted"] for one in facts) for at in times}
            for label, times in vanished.items()
        },
    )


def all_peaks(found: Iterable[Disturbance], kind: str, label: str) -> Iterator[Sample]:
    """Yield a method's peaks of one kind: a sample per setup and level."""
    for one in found:
        yield from one.peaks[kind][label].values()


def joined(samples: Iterable[Sample]) -> Sample:
    """Return all numbers of several samples as one."""
    values = [value for sample in samples for value in sample.values]
    return Sample.of(values or [math.inf])


def count(value: float) -> str:
    """Write a number that is infinite where a method did not get there."""
    return number(value) if math.isfinite(value) else "not reached"


def spread(sample: Sample) -> str:
    """Write median and worst."""
    return f"{number(sample.median)} <small>({number(sample.worst)})</small>"


def _of(results: Sequence[Result], part: str) -> dict[str, list[Result]]:
    """Return the results of one part, by setup."""
    some = [result for result in results if result.params["part"] == part]
    order = dict.fromkeys(result.params["setup"] for result in some)
    return grouped(some, "setup", order=order)
