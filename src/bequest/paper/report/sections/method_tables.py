"""The tables and the file of the section on the methods."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bequest.paper.report.markup import HtmlTable, method
from bequest.paper.report.measures import Sample, fixed, given, number
from bequest.paper.report.sections.base import CsvRow
from bequest.paper.report.sections.method_checks import AIMED, PEAKS, PROTOTYPE
from bequest.paper.report.sections.method_parts import (
    INEXACT,
    METHODS,
    OURS,
    RUNS,
    SETUPS_STEP,
    TRACKING,
    TUNED_STEP,
    all_peaks,
    count,
    joined,
    spread,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bequest.paper.report.sections.method_parts import Disturbance, Ending, Speed


def speed_tables(quick: Sequence[Speed]) -> Iterable[HtmlTable]:
    """Yield what every method needs where nobody leaves."""
    if not quick:
        return
    heads = ("vectors per edge to 10⁻⁶", "median", "worst", "gradients", "tuned", "at", "gain")
    yield HtmlTable(
        (*heads, "worst gain", "prototype"),
        {speed.title: [_speed_row(speed, label) for label in METHODS] for speed in quick},
        "Gradients per node; vectors with a tuned pace, and the multiple of the chosen one that "
        "this is; gains over gradient tracking, seed by seed.",
    )


def _speed_row(speed: Speed, label: str) -> tuple[str, ...]:
    vectors, gain = speed.vectors(label), speed.gain(label)
    factor, tuned = speed.tuned.get(label, (math.nan, None))
    prototype = dict(zip(AIMED, PROTOTYPE[speed.name], strict=True)).get(label)
    return (
        method(label),
        count(vectors.median),
        count(vectors.worst),
        count(speed.needs[label]["gradients"].median),
        "" if tuned is None else count(tuned.median),
        "" if tuned is None else fixed(factor, 2),
        number(gain.median),
        number(gain.worst),
        "" if prototype is None else given(prototype),
    )


def ending_tables(ends: Sequence[Ending]) -> Iterable[HtmlTable]:
    """Yield where survivors end, and how that compares with gradient tracking."""
    if not ends:
        return
    yield HtmlTable(
        ("limit error, median (worst)", *map(_short, RUNS)),
        {
            end.title: [
                (method(will), *(spread(errors[run]) for run in RUNS))
                for will, errors in end.errors.items()
            ]
            for end in ends
        },
        "GT: gradient tracking, with the step of the setup and with the one that it chooses."
        + "".join(
            f" With a step tuned on these data ({end.title}): "
            + ", ".join(f"{will} {number(sample.median)}" for will, sample in end.tuned.items())
            + "."
            for end in ends
            if end.tuned
        ),
        fold="Where survivors end, for every will",
    )
    others = [run for run in RUNS if run != TRACKING]
    yield HtmlTable(
        ("ratio to GT, median (worst)", *map(_short, others)),
        {
            end.title: [
                (method(will), *(spread(end.ratio(will, run)) for run in others))
                for will in end.errors
            ]
            for end in ends
        },
        "Below 1: closer to the optimum of all than gradient tracking with its chosen step.",
        fold="The same, relative to gradient tracking",
    )


def _short(run: str) -> str:
    return run.replace(TRACKING, "GT").replace("the setup's", "setup's")


def jolt_tables(jolts: Sequence[Disturbance]) -> Iterable[HtmlTable]:
    """Yield the peaks after returns and crashes, and what is left of a node that vanished."""
    if not jolts:
        return
    yield HtmlTable(
        ("peak over the error before", "return", "worst", "no return", "worst", "crash", "worst"),
        {"": [_peak_row(jolts, label) for label in METHODS]},
        "Medians and the worst over all setups, stages and seeds. No return: in the same rounds, "
        "if the node stays away.",
    )
    yield HtmlTable(
        (
            "round",
            *(
                f"{_short(label)}: {what}"
                for label in (TRACKING, *OURS)
                for what in ("/ forgetting", "unguarded", "/ farewell", "recalled")
            ),
        ),
        {jolt.title: [_vanished_row(jolt, at) for at in jolt.vanished[TRACKING]] for jolt in jolts},
        "One node vanishes without a checkpoint: the limit error over that of forgetting, with the "
        "guard and without; with it, over that of a Consensus farewell; median (worst). Recalled: "
        "the seeds on which the guard trusts what the others lack.",
        fold="What is left of a node that vanished",
    )


def _peak_row(jolts: Sequence[Disturbance], label: str) -> tuple[str, ...]:
    cells = []
    for kind in ("return", "stay", "crash"):
        sample = joined(all_peaks(jolts, kind, label))
        cells += [number(sample.median), number(sample.worst)]
    return (method(label), *cells)


def _vanished_row(jolt: Disturbance, at: str) -> tuple[str, ...]:
    cells = [at]
    for label in (TRACKING, *OURS):
        cells += [
            spread(jolt.relative(label, at, "recalled", "forgotten")),
            spread(jolt.relative(label, at, "unguarded", "forgotten")),
            spread(jolt.relative(label, at, "recalled", "farewell")),
            str(jolt.trusted[label][at]),
        ]
    return tuple(cells)


def speed_csv(quick: Sequence[Speed]) -> Iterable[CsvRow]:
    """Yield the numbers where nobody leaves."""
    for speed in quick:
        for label in METHODS:
            vectors = speed.vectors(label)
            if vectors.diverged:
                missed = Sample.of([vectors.diverged])
                yield CsvRow(speed.title, label, "seeds that did not get there", missed)
                continue
            for quantity, sample in speed.needs[label].items():
                yield CsvRow(speed.title, label, f"{quantity} to 1e-6", sample)
            yield CsvRow(speed.title, label, "gain in vectors", speed.gain(label))
            if label in speed.tuned and not speed.tuned[label][1].diverged:
                factor, tuned = speed.tuned[label]
                yield CsvRow(speed.title, label, "vectors to 1e-6, tuned", tuned)
                yield CsvRow(speed.title, label, "tuned multiple", Sample.of([factor]))
        yield CsvRow(speed.title, INEXACT, "left of the error of the start", speed.left)


def ending_csv(ends: Sequence[Ending]) -> Iterable[CsvRow]:
    """Yield the numbers after departures."""
    for end in ends:
        for will, errors in end.errors.items():
            for run in RUNS:
                yield CsvRow(end.title, f"{run}, {will}", "limit error", errors[run])
                if run not in (TRACKING, SETUPS_STEP):
                    ratio = end.ratio(will, run)
                    yield CsvRow(end.title, f"{run}, {will}", "ratio to gradient tracking", ratio)
        for will, tuned in end.tuned.items():
            yield CsvRow(end.title, f"{TUNED_STEP}, {will}", "limit error", tuned)


def jolt_csv(jolts: Sequence[Disturbance]) -> Iterable[CsvRow]:
    """Yield the numbers after returns, crashes and vanishings."""
    for jolt in jolts:
        for kind in PEAKS:
            for label, levels in jolt.peaks[kind].items():
                for level, sample in levels.items():
                    yield CsvRow(jolt.title, label, f"peak after a {kind} at {level}", sample)
        for label, levels in jolt.peaks["stay"].items():
            for level, sample in levels.items():
                yield CsvRow(jolt.title, label, f"peak without the return at {level}", sample)
        for label, times in jolt.vanished.items():
            for at in times:
                for what, to in (
                    ("recalled", "forgotten"),
                    ("unguarded", "forgotten"),
                    ("recalled", "farewell"),
                ):
                    sample = jolt.relative(label, at, what, to)
                    yield CsvRow(jolt.title, label, f"{what} over {to}, round {at}", sample)
