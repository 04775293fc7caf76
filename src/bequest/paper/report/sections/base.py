"""What a section of the report consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from bequest.core.arrays import Indices, Vector
from bequest.model.outcome import Status
from bequest.paper.report import palette
from bequest.paper.report.charts import Chart, Series
from bequest.paper.report.markup import HtmlTable
from bequest.paper.report.measures import Sample, counted
from bequest.paper.report.measures import quartiles as quartiles_of
from bequest.paper.report.verdicts import Check
from bequest.paper.store import Result

METHODS = ("classic", "GT-P", "GT-M", "GT-C", "Legacy-GT")
DIVERGED = str(Status.DIVERGED)
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class CsvRow:
    """One line of a section's CSV file: a sample and, where there is one, the printed number."""

    setting: str
    subject: str
    quantity: str
    sample: Sample
    printed: float | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """What the report says about a study.

    Attributes:
        brief: the result in one line, for the table at the top.
        found: the result in a paragraph or two.
        sample: how much it rests on.
        checks: what the verdict rests on.
        csv: the numbers again, for the CSV file.
        notes: where bequest does something else than the paper, as far as these numbers go.
    """

    brief: str
    found: tuple[str, ...]
    sample: str
    chart: Chart
    caption: str
    tables: tuple[HtmlTable, ...]
    checks: tuple[Check, ...]
    csv: tuple[CsvRow, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the paper, or of what goes beyond it.

    Attributes:
        study: the name of the study that computes it.
        title: what it is about, for people.
        label: the paper's LaTeX label.
        brief: the paper's claim in one line, for the table at the top.
        claim: the claim in a paragraph or two, with an empty line between them.
        tell: turns results, of which there is at least one, into an account.
        beyond: whether the paper has no such number, and the targets are our own.
    """

    study: str
    title: str
    label: str
    brief: str
    claim: str
    tell: Callable[[Sequence[Result]], Account]
    beyond: bool = False


def grouped(results: Sequence[Result], *keys: str, order: Iterable[Key]) -> dict[Key, list[Result]]:
    """Return the results by the value of a parameter, or of several; in this order."""
    value = itemgetter(*keys)
    groups = {one: [result for result in results if value(result.params) == one] for one in order}
    return {one: found for one, found in groups.items() if found}


def fact(results: Iterable[Result], *path: str) -> Sample:
    """Return the sample of one fact, found by following the keys."""
    values: list[float | None] = []
    for result in results:
        found: Any = result.facts
        for key in path:
            found = found[key]
        values.append(found)
    return Sample.of(values)


def ending(results: Iterable[Result], method: str, key: str) -> Sample:
    """Return where a method ended, with diverged runs as infinite."""
    values: list[float | None] = []
    for result in results:
        run = result.facts["methods"][method]
        values.append(None if run.get("status") == DIVERGED else run[key])
    return Sample.of(values)


def curve(
    rows: Sequence[Vector],
    x: Vector,
    *,
    role: str,
    label: str,
    at: Indices | None = None,
    since: float = -np.inf,
    **style: Any,  # noqa: ANN401 - whatever Series takes
) -> Series:
    """Return median and quartiles over seeds, a row each, as a line with a band.

    Args:
        rows: one row per seed.
        x: where its numbers were measured.
        role: colour.
        label: name.
        at: the indices to draw; all by default.
        since: where the band begins.
        style: further attributes of the line.
    """
    chosen = np.arange(len(x)) if at is None else at
    low, middle, high = quartiles_of([row[chosen] for row in rows])
    places = np.asarray(x, dtype=float)[chosen]
    if len(rows) == 1:
        return Series(role, places, middle, label=label, **style)
    shown = places >= since
    return Series(
        role,
        places,
        middle,
        np.where(shown, low, middle),
        np.where(shown, high, middle),
        label=label,
        **style,
    )


def by_method(
    results: Sequence[Result], x: Vector, *, at: Indices | None = None, since: float = -np.inf
) -> tuple[Series, ...]:
    """Return the curves of the five methods.

    Up to ``since`` all methods are the same, and only the last one gets a band there. A method
    that Legacy-GT coincides with, having chosen as it does, is drawn broad and pale and without
    a band of its own, so that both show.
    """
    rows = {name: [result.arrays[name] for result in results] for name in METHODS}
    legacy = rows[METHODS[-1]]
    lines = []
    for name in METHODS:
        twin = name != METHODS[-1] and all(map(_coincide, rows[name], legacy))
        start = np.inf if twin else (-np.inf if name == METHODS[-1] else since)
        role = palette.METHODS[name]
        line = curve(rows[name], x, role=role, label=name, at=at, since=start, faint=twin)
        lines.append(line)
    return tuple(lines)


def _coincide(one: Vector, other: Vector) -> bool:
    """Whether two lines coincide over most of their course."""
    both = np.isfinite(one) & np.isfinite(other) & (one > 0) & (other > 0)
    if one.shape != other.shape or both.mean() < 0.5:
        return False
    return bool(np.median(np.abs(np.log10(one[both] / other[both]))) < 0.01)


def thinned(rounds: int, departures: Sequence[int], *, points: int = 260) -> Indices:
    """Return the rounds worth drawing: evenly spread ones, and more after every departure."""
    even = np.linspace(0, rounds, points).round()
    bumps = [
        departure + np.r_[0:12, 12:40:4, 40 : max(41, rounds // 20) : 8] for departure in departures
    ]
    every = np.unique(np.concatenate([even, *bumps]).astype(int))
    return every[every <= rounds]


def course(
    results: Sequence[Result], name: str, departures: Sequence[int], *, points: int = 260
) -> tuple[Vector, Indices]:
    """Return the rounds that all of these results have, and which of them are worth drawing."""
    rounds = min(len(result.arrays[name]) for result in results) - 1
    return np.arange(rounds + 1.0), thinned(rounds, departures, points=points)


def together(groups: Mapping[Key, Sequence[Result]]) -> list[Result]:
    """Return the results of all groups, in their order."""
    return [result for found in groups.values() for result in found]


def seeds(*counts: int) -> str:
    """Write how many seeds a section rests on, or the parts of it."""
    few, many = min(counts), max(counts)
    return counted(few, "seed") if few == many else f"{few} to {many} seeds"
