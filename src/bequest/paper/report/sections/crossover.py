"""Sec. Conclusion: from which departure round on it pays to be remembered."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from bequest.paper.report.charts import Chart, Panel
from bequest.paper.report.markup import HtmlTable, escape, method, spread
from bequest.paper.report.measures import Sample, fixed, tally
from bequest.paper.report.sections.base import (
    METHODS,
    Account,
    CsvRow,
    Item,
    by_method,
    grouped,
    seeds,
    together,
)
from bequest.paper.report.verdicts import Check, against, every
from bequest.paper.store import Result

SETUPS = {"section51": "Sec. 5.1, κ = 10", "stress100": "Stress, κ = 100"}
# (1 - theta)^(1/2) with the paper's pilot, theta = 0.074: the factor per round of eps(t)
FACTOR = (1 - 0.074) ** 0.5
EARLY = 5
TICKS = (1, 5, 20, 80, 320)


def tell(results: Sequence[Result]) -> Account:
    """Return the account of these results."""
    groups = grouped(results, "setup", order=SETUPS)
    times = [int(t) for t in results[0].arrays["times"]]
    ends = {
        setup: [_column(runs, "Legacy-GT", column) for column in (0, -1)]
        for setup, runs in groups.items()
    }
    sentences = [
        f"{SETUPS[setup]}: Legacy-GT goes from {ends[setup][0]:median} at t₁ = {times[0]} to "
        f"<strong>{ends[setup][1]:median}</strong> at t₁ = {times[-1]}, classic stays at "
        f"{_column(runs, 'classic', -1):median} (medians); at t₁ = {times[0]} "
        f"Legacy-GT is ahead on {tally(_ahead(runs, 0))} seeds."
        for setup, runs in groups.items()
    ]
    first = next(iter(groups))
    choices = _choices(results)
    n = seeds(min(map(len, groups.values())))
    return Account(
        brief=f"{ends[first][0]:median} → {ends[first][1]:median} as t₁ goes {times[0]} → "
        f"{times[-1]} ({SETUPS[first]}); local track "
        + (f"taken {choices['local']} times" if "local" in choices else "never taken"),
        found=(
            *sentences,
            _crossing(groups, times)
            + "Anchors chosen: "
            + ", ".join(f"{escape(name)} {count}" for name, count in choices.items())
            + ". What crosses in the paper's conclusion are bounds; these are errors.",
        ),
        sample=f"{n} per setup, four departures from t₁ on, one every 40 rounds",
        chart=_chart(groups),
        caption="Limit error against the round of the first departure, both on logarithmic scales.",
        tables=(
            HtmlTable(
                ("t₁", *(method(name) for name in METHODS)),
                {
                    SETUPS[setup]: [
                        (str(t), *(f"{_column(runs, m, column):median}" for m in METHODS))
                        for column, t in enumerate(times)
                    ]
                    for setup, runs in groups.items()
                },
                "Medians of the limit error; quartiles and the worst seed are in the CSV file and, "
                "for Legacy-GT, below.",
            ),
            HtmlTable(
                ("Legacy-GT, t₁", "median", "quartiles", "worst", "ahead of classic"),
                {
                    SETUPS[setup]: [
                        (
                            str(t),
                            *spread(_column(runs, "Legacy-GT", column)),
                            tally(_ahead(runs, column)),
                        )
                        for column, t in enumerate(times)
                    ]
                    for setup, runs in groups.items()
                },
                fold="Quartiles and worst seeds of Legacy-GT",
            ),
        ),
        checks=_checks(groups, times),
        csv=tuple(
            CsvRow(f"{SETUPS[setup]}, t1={t}", name, "limit error", _column(runs, name, column))
            for setup, runs in groups.items()
            for column, t in enumerate(times)
            for name in METHODS
        ),
    )


def _crossing(groups: dict[str, list[Result]], times: Sequence[int]) -> str:
    """Say from which departure round on Legacy-GT is ahead in the medians."""
    firsts = {}
    for setup, runs in groups.items():
        ahead = (
            f"t₁ = {t}"
            for column, t in enumerate(times)
            if _column(runs, "Legacy-GT", column).median < _column(runs, "classic", column).median
        )
        firsts[SETUPS[setup]] = next(ahead, "never")
    if set(firsts.values()) == {f"t₁ = {times[0]}"}:
        return "In the medians there is no crossing to be seen: it lies before the first round. "
    told = ", ".join(f"{setup}: {first}" for setup, first in firsts.items())
    return f"In the medians Legacy-GT is ahead from here on: {told}. "


def _column(runs: Sequence[Result], name: str, column: int) -> Sample:
    return Sample.of(float(run.arrays[name][column]) for run in runs)


def _ahead(runs: Sequence[Result], column: int) -> list[bool]:
    """Whether Legacy-GT is closer than classic, run by run."""
    return [bool(run.arrays["Legacy-GT"][column] < run.arrays["classic"][column]) for run in runs]


def _choices(results: Sequence[Result]) -> dict[str, int]:
    counts = Counter(
        choice for result in results for row in result.facts["choices"] for choice in row
    )
    return dict(sorted(counts.items()))


def _decay(run: Result) -> float:
    """Return the factor per round by which Legacy-GT's error falls, over the later half."""
    times, errors = run.arrays["times"], run.arrays["Legacy-GT"]
    late = np.arange(len(times)) >= len(times) // 2
    seen = late & np.isfinite(errors) & (errors > 0)
    if seen.sum() < 2:
        return math.inf
    return float(np.exp(np.polyfit(times[seen], np.log(errors[seen]), 1)[0]))


def _checks(groups: dict[str, list[Result]], times: Sequence[int]) -> tuple[Check, ...]:
    everything = together(groups)
    flat = [bool(np.ptp(run.arrays["classic"]) <= 1e-6) for run in everything]
    ahead, first = _ahead(everything, -1), _ahead(everything, 0)
    early = [
        choice
        for run in everything
        for t, row in zip(times, run.facts["choices"], strict=True)
        if t <= EARLY
        for choice in row
    ]
    local = early.count("local")
    checks = [
        Check(
            "Classic's bias does not depend on when nodes leave.",
            f"It does not in {tally(flat)} runs.",
            every(flat),
            "classic's error depends on the departure round",
        )
    ]
    if "section51" in groups:
        decay = Sample.of(_decay(run) for run in groups["section51"])
        checks.append(
            Check(
                "Legacy-GT's error falls geometrically in t₁, as (1−θ)<sup>t/2</sup>: "
                f"{fixed(FACTOR, 3)} per round with the printed θ = 0.074.",
                f"{decay:median 3} per round, {decay:between 3}.",
                against(decay, FACTOR, better="neither", digits=3),
                f"it falls by a factor of {decay:range 3} per round",
            )
        )
    return (
        *checks,
        Check(
            "In the late regime Legacy-GT is ahead of classic; the crossing comes once the network "
            "error is below about 2ζ/((κ−1)μ).",
            f"Ahead at t₁ = {times[-1]} on {tally(ahead)} seeds, and already at "
            f"t₁ = {times[0]} on {sum(first)}.",
            every(ahead),
            f"Legacy-GT is not ahead on {len(ahead) - sum(ahead)} seeds even at t₁ = {times[-1]}",
        ),
        Check(
            "In the early regime the adaptive anchor falls back to the local track.",
            f"It chose it in {local} of {len(early)} departures with t₁ ≤ {EARLY}.",
            every([local > 0]),
            "the fallback to the local track is never taken: by oracle distances the consensus "
            "iterate is the nearer anchor from the first round on",
        ),
    )


def _chart(groups: dict[str, list[Result]]) -> Chart:
    return Chart(
        "When does it pay to be remembered?",
        tuple(
            Panel(
                SETUPS[setup],
                "round t₁ of the first of four departures",
                "distance of the limit to the optimum of all nodes",
                by_method(runs, runs[0].arrays["times"]),
                x_scale="log",
                x_ticks=tuple(float(t) for t in runs[0].arrays["times"] if t in TICKS),
            )
            for setup, runs in groups.items()
        ),
        "Lines: medians; bands: quartiles. Legacy-GT lies on GT-C where it chose that anchor.",
        "Limit errors of the five methods against the round of the first departure, in both "
        "setups.",
    )


ITEM = Item(
    "crossover",
    "From when on does it pay to be remembered?",
    "Sec. Conclusion",
    "classic flat, Legacy-GT falls with t₁; early exits use the local track",
    """<em>Late regime:</em> classic's bias stays Θ(kζ/(nμ)) and Legacy-GT's is (κ−1)k/n ·
    ε(t₁), which decays geometrically; “the crossover happens as soon as the network error drops
    below ≈ 2ζ/((κ−1)μ)”. <em>Early regime:</em> “the adaptive anchor falls back to the local
    minimizer track”.""",
    tell,
)
