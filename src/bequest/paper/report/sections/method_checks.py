"""What the section on the methods is held against: targets of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest.paper.report.measures import counted, given, number
from bequest.paper.report.sections.method_parts import (
    BYTES,
    DIFFUSION,
    MATRIX,
    METHODS,
    OURS,
    ROUNDING,
    SCALAR,
    TRACKING,
    all_peaks,
    count,
    joined,
    spread,
)
from bequest.paper.report.verdicts import Check, Grade, target

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bequest.paper.report.measures import Sample
    from bequest.paper.report.sections.method_parts import Disturbance, Ending, Speed

# Vectors per edge of a prototype: no more than a fifth above is the target. None: it did not get
# there, and whatever does is better.
AIMED = (TRACKING, "EXTRA", DIFFUSION, SCALAR, MATRIX)
PROTOTYPE: dict[str, tuple[float | None, ...]] = {
    "sec51": (545, 114, 71, 68, 68),
    "stress": (2517, 3456, 631, 684, 433),
    "tilt100": (2432, 3270, 572, 404, 394),
    "ring20": (1990, 153, 124, 126, 126),
    "ring100": (47784, None, None, 571, 571),
    "grid": (3101, 218, 161, 152, 152),
    "grid-stress": (14934, 5636, 1162, 1136, 1136),
    "breast-cancer": (6524, None, 1714, 500, 283),
    "digits": (3134, None, 822, 478, 264),
}
SLACK = 1.2
LEAST_GAIN = 3.0
# The will that one gets, the gain in the median that it should have, and where.
DEFAULT, ENDING_GAIN, GAINING = "Adaptive", 10.0, ("sec51", "breast-cancer", "digits")
# A seed may be so many times worse without being named.
NAMED = 3.0
PEAKS = {"return": 1.2, "crash": 4.0}
RECALL, RECALL_SETUP, RECALL_ROUND = 10.0, "sec51", "50"


def speed_checks(quick: Sequence[Speed]) -> Iterable[Check]:
    """Yield what speed is held against."""
    for speed in quick:
        aims = [
            (label, aim)
            for label, aim in zip(AIMED, PROTOTYPE[speed.name], strict=True)
            if aim is not None
        ]
        over = [(label, aim) for label, aim in aims if speed.vectors(label).median > SLACK * aim]
        yield Check(
            f"{speed.title}: at most {given(SLACK)} times the prototype's vectors, "
            + ", ".join(f"{label} {given(aim)}" for label, aim in aims)
            + ".",
            ", ".join(count(speed.vectors(label).median) for label, _ in aims) + ".",
            target(reached=not over),
            "; ".join(
                f"{label} takes {count(speed.vectors(label).median)} vectors and not {given(aim)}"
                f"{_best_possible(speed, label)} ({speed.title})"
                for label, aim in over
            ),
        )
    if quick:
        gains = {label: min(speed.gain(label).worst for speed in quick) for label in OURS}
        short = [label for label, gain in gains.items() if not gain >= LEAST_GAIN]
        yield Check(
            f"{' and '.join(OURS)} need {given(LEAST_GAIN)} times fewer vectors than gradient "
            "tracking on every setup and seed.",
            "At least " + " and ".join(number(gain) for gain in gains.values()) + ".",
            target(reached=not short),
            "; ".join(f"{label} gains {number(gains[label])} on one seed" for label in short),
        )


def _best_possible(speed: Speed, label: str) -> str:
    if label not in speed.tuned:
        return ""
    return f", {count(speed.tuned[label][1].median)} with the best of many paces"


def ending_checks(ends: Sequence[Ending]) -> Iterable[Check]:
    """Yield what the errors after departures are held against."""
    run = f"{MATRIX}, {BYTES}"
    where = f"with {DEFAULT}() at equal bytes"
    for end in ends:
        found = end.ratio(DEFAULT, run)
        aim = 1 / ENDING_GAIN if end.name in GAINING else 1.0
        behind = sum(value > NAMED for value in found.values)
        claim = (
            f"at least {given(ENDING_GAIN)} times closer than"
            if end.name in GAINING
            else "in the median no farther away than"
        )
        reached = target(reached=found.median <= aim)
        because = f"{MATRIX} {where} ends {number(found.median)} times as far away ({end.title})"
        ours, theirs = (end.errors[DEFAULT][one].median for one in (run, TRACKING))
        if reached is Grade.MISSED and max(ours, theirs) <= ROUNDING:
            reached = Grade.AT_ROUNDING
            because = (
                f"{MATRIX} {where} ends at {number(ours)} and gradient tracking at "
                f"{number(theirs)}, and below {number(ROUNDING)} no factor means anything "
                f"({end.title})"
            )
        yield Check(
            f"{end.title}: {MATRIX} {where} ends {claim} gradient tracking.",
            f"{number(found.median)} times as far away, at worst {number(found.worst)}; "
            f"{counted(behind, 'seed')} of {found.n} more than {given(NAMED)} times."
            + _beside_tuned(end, run),
            reached,
            because,
        )


def _beside_tuned(end: Ending, run: str) -> str:
    if DEFAULT not in end.tuned:
        return ""
    ours, tuned = end.errors[DEFAULT][run], end.tuned[DEFAULT]
    return (
        f" It ends at {number(ours.median)}; gradient tracking with a step tuned on these data, at "
        f"{number(tuned.median)}."
    )


def _alone(jolts: Sequence[Disturbance], label: str) -> Sample:
    """Return the peaks of a node that stays away where they are largest in the median."""
    return max(all_peaks(jolts, "stay", label), key=lambda sample: sample.median)


def _without(alone: Mapping[str, Sample]) -> str:
    """Say how far errors rise in these rounds by themselves."""
    most = max(alone, key=lambda label: alone[label].median)
    return (
        "Errors ring, and one that has just fallen to a level may rise by itself: in the same "
        f"rounds without the return, {number(alone[most].median)} ({most})."
    )


def jolt_checks(jolts: Sequence[Disturbance]) -> Iterable[Check]:
    """Yield what returns, crashes and vanishings are held against."""
    for kind, aim in PEAKS.items() if jolts else ():
        medians = {
            label: max(sample.median for sample in all_peaks(jolts, kind, label))
            for label in METHODS
        }
        worst = max(joined(all_peaks(jolts, kind, label)).worst for label in METHODS)
        over = [label for label, median in medians.items() if median > aim]
        alone = {label: _alone(jolts, label) for label in METHODS} if kind == "return" else {}
        yield Check(
            f"Within 20 rounds of a {kind} the error peaks at {given(aim)} times that before at "
            "most, in the median, for every method, setup and stage.",
            f"{number(max(medians.values()))}; on the worst seed {number(worst)}."
            + (f" {_without(alone)}" if alone else ""),
            target(reached=not over),
            "; ".join(
                f"{number(medians[one])} after a {kind} with {one}"
                + (f", {number(alone[one].median)} in the same rounds without" if alone else "")
                for one in over
            ),
        )
    for jolt in jolts:
        if jolt.name != RECALL_SETUP:
            continue
        found = {
            label: jolt.relative(label, RECALL_ROUND, "recalled", "farewell")
            for label in (TRACKING, *OURS)
        }
        over = [label for label, sample in found.items() if sample.median > RECALL]
        yield Check(
            f"{jolt.title}, round {RECALL_ROUND}: a node that vanishes without a checkpoint is "
            f"remembered within {given(RECALL)} times the error of a Consensus farewell.",
            ", ".join(f"{label} {spread(sample)}" for label, sample in found.items()) + ".",
            target(reached=not over),
            "; ".join(f"{label} is {number(found[label].median)} times off" for label in over),
        )
