"""Verdicts, by rule: what the paper says, what we found, and whether the two agree.

Every section of the report makes checks; its verdict is the worst of their grades, with
the reasons. No grade is set by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from bequest.paper.report.measures import Sample

Sense = Literal["smaller", "larger", "neither"]

RULE = (
    "A printed number comes from one instance whose seed is not given. It is <em>in the paper's "
    "range</em> if it lies between the smallest and the largest of our seeds, which a further draw "
    "from the same distribution does with probability 19/21 for 20 seeds. It is <em>better</em> if "
    "every seed beats it, and <em>differs</em> otherwise. A statement is in the paper's range if "
    "it holds on every seed, and differs otherwise. A section's verdict is that of its checks: it "
    "differs if one of them does, else it is better if one of them is. Where the paper has no "
    "number to compare with, the targets are our own, and each is <em>met</em> or <em>missed</em>; "
    "or <em>at rounding</em>, where one method is to be closer to the optimum than another and "
    "both are as close as numbers get."
)


class Grade(StrEnum):
    """How a result compares with the paper, or with a target of our own."""

    IN_RANGE = "in the paper's range"
    BETTER = "better"
    DIFFERS = "differs"
    MET = "met"
    MISSED = "missed"
    AT_ROUNDING = "at rounding"


@dataclass(frozen=True, slots=True)
class Check:
    """One claim of the paper, or a target of our own, beside our result.

    ``because`` says why it is better, differs, was missed or cannot be shown; it completes
    "differs, because".
    """

    claim: str
    here: str
    grade: Grade
    because: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The grade of a section, and why."""

    grade: Grade
    reason: str

    def __str__(self) -> str:
        match self.grade:
            case Grade.IN_RANGE | Grade.BETTER | Grade.MET:
                return f"{self.grade}: {self.reason}"
            case Grade.DIFFERS | Grade.MISSED | Grade.AT_ROUNDING:
                return f"{self.grade}, because {self.reason}"


def against(sample: Sample, printed: float, *, better: Sense, digits: int = 2) -> Grade:
    """Compare a sample with one printed number, which stands for all that round to its digits.

    ``better`` says which numbers are better than the printed one, if any.
    """
    exponent = math.floor(math.log10(abs(printed)))
    half = 0.5 * 10.0 ** (exponent - digits + 1)
    if sample.smallest <= printed + half and sample.largest >= printed - half:
        return Grade.IN_RANGE
    below = sample.largest < printed
    if better == "neither":
        return Grade.DIFFERS
    return Grade.BETTER if below == (better == "smaller") else Grade.DIFFERS


def every(held: Sequence[bool]) -> Grade:
    """Return the grade of a statement that holds or not, seed by seed."""
    return Grade.IN_RANGE if all(held) else Grade.DIFFERS


def target(*, reached: bool) -> Grade:
    """Return the grade of a target of our own."""
    return Grade.MET if reached else Grade.MISSED


def worst(grades: Sequence[Grade]) -> Grade:
    """Return the worst of several grades."""
    for grade in (Grade.DIFFERS, Grade.MISSED, Grade.AT_ROUNDING, Grade.BETTER, Grade.MET):
        if grade in grades:
            return grade
    return Grade.IN_RANGE


def verdict(checks: Sequence[Check]) -> Verdict:
    """Return the worst grade of the checks, with the reasons of the checks that have it."""
    grade = worst([check.grade for check in checks])
    if grade in (Grade.IN_RANGE, Grade.MET):
        return Verdict(grade, f"all {len(checks)} checks below")
    reasons = [check.because for check in checks if check.grade is grade and check.because]
    return Verdict(grade, "; ".join(reasons))
