"""prop:pointonly: the floor under GT-P with a cap, and what happens without one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from bequest.paper.report.charts import Bars, Chart, Level, Panel, Series
from bequest.paper.report.markup import HtmlTable, spread
from bequest.paper.report.measures import DIVERGED, Sample, counted, ratio, tally
from bequest.paper.report.sections.base import DIVERGED as STATUS
from bequest.paper.report.sections.base import Account, CsvRow, Item, curve, fact, seeds
from bequest.paper.report.verdicts import Check, against, every, worst
from bequest.paper.store import Result

RADIUS, THETA = 3.27, 0.074


def tell(results: Sequence[Result]) -> Account:
    """Return the account of these results."""
    times = [int(t) for t in results[0].arrays["times"]]
    caps = list(results[0].facts["caps"])
    capped = [row for row, cap in enumerate(caps) if cap is not None]
    uncapped, late = caps.index(None), len(times) - 1
    samples = {
        (row, column): _sample(results, row, column)
        for row in range(len(caps))
        for column in range(len(times))
    }
    classic = fact(results, "classic")
    floors = ", ".join(f"{samples[row, late]:median} with c₀ = {caps[row]}" for row in capped)
    diverged = [samples[uncapped, column].diverged for column in range(len(times))]
    all_from = next((t for k, t in enumerate(times) if min(diverged[k:]) == len(results)), None)
    return Account(
        brief=f"floors at {floors}; uncapped: {diverged[late]} of {len(results)} diverged",
        found=(
            f"With a cap, GT-P stops improving for late departures: {floors}, against "
            f"{classic:median} for classic (medians, one node leaves). The formula for the "
            "floor is a bound, and a loose one: what is measured is "
            + " and ".join(f"{_share(results, row):median}" for row in capped)
            + " of it, since it counts the survivors' curvature as (n−1)μ and they have more.",
            f"Without a cap the weight outgrows the step: {diverged[0] or 'none'} of "
            f"{counted(len(results), 'run')} diverged with a departure at round {times[0]}, "
            + (
                f"{diverged[late]} at round {times[late]}. "
                if all_from is None
                else f"and from round {all_from} on <strong>all of them did</strong>. "
            )
            + (
                "The point they would have to reach is nearer than any capped one, but no fixed "
                "step gets there."
                if _nearer(results, uncapped, capped)
                else ""
            ),
        ),
        sample=f"{seeds(len(results))}, one node of twenty leaves",
        chart=_chart(results, samples, times, caps, classic),
        caption="Where GT-P's limit lies, against the departure round, and how many runs without "
        "a cap diverged.",
        tables=(
            HtmlTable(
                (
                    "limit error",
                    *(f"c₀ = {caps[row]}" for row in capped),
                    "no cap",
                    "diverged without a cap",
                ),
                {
                    "": [
                        (
                            f"t = {t}",
                            *(f"{samples[row, column]:median}" for row in range(len(caps))),
                            f"{diverged[column]} of {len(results)}",
                        )
                        for column, t in enumerate(times)
                    ]
                },
                "Medians over the seeds; a sample of which half or more diverged has none.",
            ),
            HtmlTable(
                ("latest departure", "median", "quartiles", "worst", "floor by the formula"),
                {
                    "": [
                        *(
                            (
                                f"GT-P, c₀ = {caps[row]}",
                                *spread(samples[row, late]),
                                f"{_floor(results, row):median}",
                            )
                            for row in capped
                        ),
                        ("GT-P, no cap", *spread(samples[uncapped, late]), "–"),
                        ("classic", *spread(classic), "–"),
                    ]
                },
            ),
        ),
        checks=_checks(results, samples, times, capped, uncapped),
        csv=(
            *(
                CsvRow(f"t={t}", _name(caps[row]), "limit error", samples[row, column])
                for row in range(len(caps))
                for column, t in enumerate(times)
            ),
            *(CsvRow("", _name(caps[row]), "floor", _floor(results, row)) for row in capped),
            CsvRow("", "classic", "limit error", classic),
            CsvRow("", "pilot", "R0", fact(results, "pilot", "radius"), RADIUS),
            CsvRow("", "pilot", "theta", fact(results, "pilot", "theta"), THETA),
        ),
        notes=(
            """GT-P's farewell carries the tracker's surplus beside the point, so that the hand-off
            is exact; the paper's message is the point alone.""",
        ),
    )


def _nearer(results: Sequence[Result], uncapped: int, capped: Sequence[int]) -> bool:
    """Whether the uncapped limit of the latest departure is nearer, reached or not."""
    last = [result.arrays["bias"][:, -1] for result in results]
    return all(bool(errors[uncapped] < errors[capped].min()) for errors in last)


def _name(cap: float | None) -> str:
    return "GT-P, no cap" if cap is None else f"GT-P, c0={cap}"


def _sample(results: Sequence[Result], row: int, column: int) -> Sample:
    """Return the limit errors; a run that diverged has none."""
    return Sample.of(
        None
        if result.facts["statuses"][row][column] == STATUS
        else float(result.arrays["bias"][row, column])
        for result in results
    )


def _floor(results: Sequence[Result], row: int) -> Sample:
    return Sample.of(result.facts["floors"][row] for result in results)


def _share(results: Sequence[Result], row: int) -> Sample:
    return Sample.of(
        ratio(float(result.arrays["bias"][row, -1]), result.facts["floors"][row])
        for result in results
    )


def _checks(
    results: Sequence[Result],
    samples: dict[tuple[int, int], Sample],
    times: Sequence[int],
    capped: Sequence[int],
    uncapped: int,
) -> tuple[Check, ...]:
    half, last = len(times) // 2, len(times) - 1
    flat = [
        abs(a - b) <= 0.05 * b
        for row in capped
        for a, b in samples[row, last].beside(samples[row, half])
    ]
    below = [share <= 1 + 1e-9 for row in capped for share in _share(results, row).values]
    radius, theta = (fact(results, "pilot", key) for key in ("radius", "theta"))
    pilot = partial(against, better="neither")
    count = samples[uncapped, last].diverged
    return (
        Check(
            "The cap puts a floor under very late departures.",
            f"From t = {times[half]} to {times[last]} the error changes by less than 5% in "
            f"{tally(flat)} runs.",
            every(flat),
            "the error still falls for the latest departures",
        ),
        Check(
            "The floor is ζ/((n−1)μ + c₀/α).",
            f"No error at the latest departure exceeds it, in {tally(below)} runs.",
            every(below),
            "the floor by the formula is exceeded",
        ),
        Check(
            f"The pilot gives R₀ = {RADIUS} and θ = {THETA}.",
            f"R₀ = {radius:median} ({radius:range}), θ = {theta:median} ({theta:range}).",
            worst([pilot(radius, RADIUS, digits=3), pilot(theta, THETA)]),
            "the pilot's constants lie outside those of our seeds; the paper's seed is not given",
        ),
        Check(
            "Uncapped, late departures exceed the budget of any fixed step: divergence.",
            f"{count} of {len(results)} runs {DIVERGED} at t = {times[last]}.",
            every([count == len(results)]),
            f"only {count} of {len(results)} uncapped runs diverged",
        ),
    )


def _chart(
    results: Sequence[Result],
    samples: dict[tuple[int, int], Sample],
    times: Sequence[int],
    caps: Sequence[float | None],
    classic: Sample,
) -> Chart:
    capped = {row: cap for row, cap in enumerate(caps) if cap is not None}
    lines = [
        curve(
            [result.arrays["bias"][row] for result in results],
            np.array(times, dtype=float),
            role="gt-p",
            label=f"c₀ = {cap}",
            line="solid" if cap == max(capped.values()) else "dashed",
        )
        for row, cap in capped.items()
    ]
    levels = [
        Level(
            _floor(results, row).median, "muted", f"formula, c₀ = {cap}", line="dotted", place="end"
        )
        for row, cap in capped.items()
    ]
    uncapped = [samples[caps.index(None), column] for column in range(len(times))]
    kept = [
        (t, value)
        for t, sample in zip(times, uncapped, strict=True)
        for value in sample.values
        if np.isfinite(value)
    ]
    if kept:
        places, values = np.array(kept, dtype=float).T
        lines.append(Series("gt-p", places, values, line="none", marker="x"))
    return Chart(
        "GT-P: the floor under a cap, and divergence without one",
        (
            Panel(
                "the limit",
                "round of the departure",
                "distance of the limit to the optimum of all nodes",
                tuple(lines),
                x_scale="log",
                x_ticks=tuple(float(t) for t in times[::2]),
                x_range=(times[0] / 1.15, times[-1] * 1.15),
                levels=(*levels, Level(classic.median, "classic", "classic", line="solid")),
            ),
            Bars(
                "without a cap",
                "round of the departure",
                f"runs that diverged, of {len(results)}",
                "gt-p",
                tuple(map(str, times)),
                tuple(sample.diverged for sample in uncapped),
                len(results),
            ),
        ),
        "Lines: medians; bands: quartiles; crosses: uncapped runs that did not diverge.",
        "Limit error against the departure round for each cap, and the number of uncapped runs "
        "that diverged.",
    )


ITEM = Item(
    "point-only",
    "Sending the point alone: the dilemma of the cap",
    "prop:pointonly",
    "a cap leaves a floor, no cap diverges",
    """GT-P bequeaths a penalty η/2 |x − y|² without a gradient. Capped at η ≤ c₀/α it has the
    bias floor <strong>ζ/((n−1)μ + c₀/α)</strong> for very late departures; “an uncapped weight
    eventually exceeds the smoothness budget of any fixed stepsize”. The pilot run of Sec. 5.1
    gives R₀ = 3.27 and θ = 0.074.""",
    tell,
)
