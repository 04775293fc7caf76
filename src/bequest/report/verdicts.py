"""Verdicts, by rule: what the paper says, what came out, and whether that is the same.

Every section of the report makes checks; its verdict is the worst of their outcomes, and says
why. Nothing here is decided by hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.report.measures import Sample

Sense = Literal["smaller", "larger", "neither"]

RULE = (
    "A printed number comes from one instance whose seed is not given. It is <em>in the paper's "
    "range</em> if it lies between the smallest and the largest of our seeds, which a further draw "
    "from the same distribution does with probability 19/21 for 20 seeds. It is <em>better</em> if "
    "every seed beats it, and <em>differs</em> otherwise. A statement is in the paper's range if "
    "it holds on every seed, and differs otherwise. A section's verdict is that of its checks: it "
    "differs if one of them does, else it is better if one of them is. Where the paper has no "
    "number to compare with, the targets are our own, and each is <em>met</em> or <em>missed</em>."
)


class Outcome(StrEnum):
    """How what came out compares with the paper, or with a target of our own; a closed set."""

    IN_RANGE = "in the paper's range"
    BETTER = "better"
    DIFFERS = "differs"
    MET = "met"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing the paper says, or a target of our own, beside what came out.

    Attributes:
        claim: what the paper says, or the target.
        here: what came out.
        outcome: how they compare.
        because: why, where it is better, differs or was missed; completes "differs, because".
    """

    claim: str
    here: str
    outcome: Outcome
    because: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a section comes to."""

    outcome: Outcome
    reason: str

    def __str__(self) -> str:
        match self.outcome:
            case Outcome.IN_RANGE | Outcome.BETTER | Outcome.MET:
                return f"{self.outcome}: {self.reason}"
            case Outcome.DIFFERS | Outcome.MISSED:
                return f"{self.outcome}, because {self.reason}"


def against(sample: Sample, printed: float, *, better: Sense, digits: int = 2) -> Outcome:
    """Compare a sample with one printed number.

    Args:
        sample: what came out, seed by seed.
        printed: the paper's number.
        better: which numbers are better than the printed one, if any.
        digits: to how many digits it is printed; it stands for all numbers that round to it.
    """
    exponent = math.floor(math.log10(abs(printed)))
    half = 0.5 * 10.0 ** (exponent - digits + 1)
    if sample.smallest <= printed + half and sample.largest >= printed - half:
        return Outcome.IN_RANGE
    below = sample.largest < printed
    if better == "neither":
        return Outcome.DIFFERS
    return Outcome.BETTER if below == (better == "smaller") else Outcome.DIFFERS


def every(held: Sequence[bool]) -> Outcome:
    """Return the outcome of a statement that holds or not, seed by seed."""
    return Outcome.IN_RANGE if all(held) else Outcome.DIFFERS


def target(*, reached: bool) -> Outcome:
    """Return the outcome of a target of our own."""
    return Outcome.MET if reached else Outcome.MISSED


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of several together."""
    for outcome in (Outcome.DIFFERS, Outcome.MISSED, Outcome.BETTER, Outcome.MET):
        if outcome in outcomes:
            return outcome
    return Outcome.IN_RANGE


def verdict(checks: Sequence[Check]) -> Verdict:
    """Return what the checks come to, with the reasons of those that made it so."""
    outcome = worst([check.outcome for check in checks])
    if outcome in (Outcome.IN_RANGE, Outcome.MET):
        return Verdict(outcome, f"all {len(checks)} checks below")
    reasons = [check.because for check in checks if check.outcome is outcome and check.because]
    return Verdict(outcome, "; ".join(reasons))
