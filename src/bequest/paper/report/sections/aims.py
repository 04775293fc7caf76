"""What the wills should reach on the hostile bed, and whether they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bequest.paper.report.measures import counted, given
from bequest.paper.report.sections.bed import BETTER, CONSENSUS, FORGETFUL, PLAIN, percent, times
from bequest.paper.report.verdicts import Check, target

if TYPE_CHECKING:
    from bequest.paper.report.sections.bed import Bed, Key

DEFAULT: Key = (PLAIN, "observed")
DRIFT: Key = (PLAIN, "Drift(0)")
WHOLE: Key = (PLAIN, "FullHessian")
# how nodes iterate by default, where losses have formulas
USUAL = "NIDS, Hessian"
# up to this dimension the whole Hessian fits into ten vectors
SMALL = 15
# of an error relative to the start: nothing is forgotten
EXACT = 1e-9


@dataclass(frozen=True, slots=True)
class RobustnessAim:
    """What the default should reach, up to so many unknowns or beyond.

    Attributes:
        worse: the largest share of instances on which it is more than 1.2 times as far off as the
            better of forgetting and GT-C.
        mean: the largest geometric mean of its error over GT-C's.
    """

    worse: float
    mean: float


AIMS = {
    f"up to {SMALL}": RobustnessAim(0.08, 0.01),
    f"more than {SMALL}": RobustnessAim(0.12, 0.05),
}
# over all instances: more than ten times as far off, and the worst
FAR, WORST = 0.015, 50.0
# Drift(0) against GT-C
DRIFT_WORSE, DRIFT_WORST = 0.03, 16.0


def by_size(bed: Bed) -> dict[str, Bed]:
    """Return the instances by how many unknowns they have, as in ``AIMS``."""
    parts = {f"up to {SMALL}": bed.dim <= SMALL, f"more than {SMALL}": bed.dim > SMALL}
    return {name: bed.only(which) for name, which in parts.items() if which.any()}


def held(bed: Bed, which_set: str, way: str = PLAIN) -> tuple[Check, ...]:
    """Check the aims of the default on other instances, or with another method."""
    over = bed.tally((way, DEFAULT[1]), BETTER)
    return (
        *sized(bed, which_set, way),
        _at_most(f"The default{which_set}: more than 10 times worse on", over.shares[2], FAR),
        _worst(f"The default{which_set}", "the better of both", over.worst, WORST),
    )


def sized(bed: Bed, which_set: str = "", way: str = PLAIN) -> tuple[Check, ...]:
    """Check the aims for each number of unknowns."""
    checks, default = [], (way, DEFAULT[1])
    for size, part in by_size(bed).items():
        aim, which = AIMS[size], f"{size} unknowns{which_set}"
        share, mean = part.tally(default, BETTER).shares[0], part.mean(default)
        checks += [
            _at_most(
                f"{which}: the default is more than 1.2 times worse than the better of "
                f"forgetting and GT-C on",
                share,
                aim.worse,
                f"of {len(part)}",
            ),
            Check(
                f"{which}: its error is at most {given(aim.mean)} of GT-C's in the geometric mean.",
                f"{times(mean)}.",
                target(reached=mean <= aim.mean),
                f"the default's error is {times(mean)} of GT-C's with {which} and not at most "
                f"{given(aim.mean)}",
            ),
        ]
    return tuple(checks)


def aimed(bed: Bed) -> tuple[Check, ...]:
    """Check all aims."""
    over, drift = bed.tally(DEFAULT, BETTER), bed.tally(DRIFT, CONSENSUS)
    return (
        *sized(bed),
        _at_most("The default is more than 10 times worse on", over.shares[2], FAR),
        _worst("The default", "the better of both", over.worst, WORST),
        _at_most(
            "Drift(0) is more than 1.2 times worse than GT-C on", drift.shares[0], DRIFT_WORSE
        ),
        _worst("Drift(0)", "GT-C", drift.worst, DRIFT_WORST),
    )


def _at_most(claim: str, share: float, most: float, of: str = "") -> Check:
    limit = f"{given(100 * most)}%"
    return Check(
        f"{claim} at most {limit} of the instances.",
        f"{percent(share)}{f' {of}' if of else ''}.",
        target(reached=share <= most),
        f"{_within(claim)} {percent(share)} of the instances and not at most {limit}",
    )


def _worst(subject: str, other: str, factor: float, most: float) -> Check:
    return Check(
        f"{subject} is never more than {given(most)} times worse than {other}.",
        f"At worst {times(factor)} times.",
        target(reached=factor <= most),
        f"{_within(subject)} is {times(factor)} times worse than {other} on one instance",
    )


def _within(text: str) -> str:
    """Write the beginning of a sentence within one."""
    return text.replace("The ", "the ", 1) if text.startswith("The ") else text


def lawful(bed: Bed) -> tuple[Check, ...]:
    """Check what has to hold without strong convexity: forgetting may leave no minimiser at all."""
    keys = [key for key in bed.runs if key[1] != FORGETFUL]
    nowhere = sum(int((bed.error(key) == float("inf")).sum()) for key in keys)
    illegal, runs = int(bed.illegal.sum()), len(bed) * len(keys)
    return (
        Check(
            "Without strong convexity every memory has a limit.",
            f"{nowhere} of {runs} runs have none.",
            target(reached=not nowhere),
            f"{nowhere} of {runs} runs have no limit",
        ),
        Check(
            "Without strong convexity every curvature lies within the loss's range [0, b].",
            f"Outside in {counted(illegal, 'legacy', 'legacies')}.",
            target(reached=not illegal),
            f"{counted(illegal, 'legacy is', 'legacies are')} curved as their losses cannot be",
        ),
    )


def sound(*beds: Bed) -> tuple[Check, ...]:
    """Check what has to hold on every instance."""
    runs = sum(bed.errors.size for bed in beds)
    illegal = sum(int(bed.illegal.sum()) for bed in beds)
    diverged = sum(int((bed.errors == float("inf")).sum()) for bed in beds)
    errors = [float(e) for bed in beds for e in bed.only(bed.quadratic).error(WHOLE)]
    inexact = sum(error > EXACT for error in errors)
    return (
        Check(
            "No run diverges.",
            f"{diverged} of {runs} runs did.",
            target(reached=not diverged),
            f"{diverged} of {runs} runs diverged",
        ),
        Check(
            "Every curvature sent lies within the loss's own range [a, b].",
            f"Outside in {counted(illegal, 'legacy', 'legacies')} of {runs} runs.",
            target(reached=not illegal),
            f"{counted(illegal, 'legacy is', 'legacies are')} curved as their losses cannot be",
        ),
        Check(
            "FullHessian forgets nothing of quadratics.",
            f"Farther off than {given(EXACT)} of the start's error on {inexact} of "
            f"{counted(len(errors), 'instance')}.",
            target(reached=not inexact),
            f"FullHessian is not exact on {counted(inexact, 'instance')} with quadratics",
        ),
    )
