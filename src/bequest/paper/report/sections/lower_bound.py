"""thm:lower: what no memory of one gradient can avoid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bequest.paper.report.charts import Chart, Panel, Series
from bequest.paper.report.markup import HtmlTable
from bequest.paper.report.measures import Sample, fixed, given, number, tally
from bequest.paper.report.sections.base import Account, CsvRow, Item
from bequest.paper.report.verdicts import Check, every
from bequest.paper.store import Result

# relative distance up to which two numbers are the same
EXACT = 1e-6
COLUMNS = {
    "apart": "apart, measured",
    "formula": "apart, formula",
    "floor": "floor",
    "ours": "Legacy-GT, worse of the two",
    "promised": "promised, (κ−1)/(2n)",
}


def tell(results: Sequence[Result]) -> Account:
    """Return the account of these results."""
    runs = sorted(results, key=lambda run: int(run.params["n"]))
    off = max(float(np.abs(run.arrays["apart"] / run.arrays["formula"] - 1).max()) for run in runs)
    factor = max(float((run.arrays["ours"] / run.arrays["floor"]).max()) for run in runs)
    kappas = runs[0].arrays["kappa"]
    return Account(
        brief=("as" if off < EXACT else "not as")
        + f" the formula says; Legacy-GT within a factor {number(factor)} of the floor",
        found=(
            f"""The two optima are as far apart as the formula says to within
            {number(off) if off else "the last digit"} relative, for κ from
            {given(float(kappas[0]))} to {given(float(kappas[-1]))} and n =
            {", ".join(str(run.params["n"]) for run in runs)}. An answer in the middle is off by
            half of that, the floor; the midpoint legacy is never off by more than
            <strong>{number(factor)} times the floor</strong> on this pair, where the theorem allows
            a factor of order κ.""",
            "There is nothing random here: no seeds, no quartiles.",
        ),
        sample="the pair of instances itself, ε = 1",
        chart=_chart(runs),
        caption="How far the two optima are apart, what Legacy-GT is off by on the worse of the "
        "two, and what it is promised.",
        tables=(
            HtmlTable(
                (
                    "n",
                    "apart against the formula",
                    "Legacy-GT over the floor",
                    "… over the promise",
                ),
                {
                    "": [
                        (
                            str(run.params["n"]),
                            _most(run, "apart", "formula"),
                            _most(run, "ours", "floor"),
                            _most(run, "ours", "promised"),
                        )
                        for run in runs
                    ]
                },
                "The largest ratios over all κ.",
            ),
            HtmlTable(
                ("", *COLUMNS.values()),
                {
                    f"n = {run.params['n']}": [
                        (
                            f"κ = {given(float(kappa))}",
                            *(number(run.arrays[name][index]) for name in COLUMNS),
                        )
                        for index, kappa in enumerate(run.arrays["kappa"])
                    ]
                    for run in runs
                },
                fold="All numbers",
            ),
        ),
        checks=_checks(runs, off, factor),
        csv=tuple(
            CsvRow(
                f"n={run.params['n']}, kappa={kappa:g}",
                "Legacy-GT" if name == "ours" else "pair",
                COLUMNS[name].replace("−", "-").replace("κ", "kappa"),
                Sample.of([float(run.arrays[name][index])]),
            )
            for run in runs
            for index, kappa in enumerate(run.arrays["kappa"])
            for name in COLUMNS
        ),
    )


def _most(run: Result, above: str, below: str) -> str:
    return fixed(float((run.arrays[above] / run.arrays[below]).max()), 3)


def _checks(runs: Sequence[Result], off: float, factor: float) -> tuple[Check, ...]:
    kept = [
        bool(ours <= promised * (1 + 1e-9))
        for run in runs
        for ours, promised in zip(run.arrays["ours"], run.arrays["promised"], strict=True)
    ]
    near = [
        bool(ours <= floor * kappa * (1 + 1e-9))
        for run in runs
        for ours, floor, kappa in zip(
            run.arrays["ours"], run.arrays["floor"], run.arrays["kappa"], strict=True
        )
    ]
    return (
        Check(
            "The minimisers are (L−μ)ε/((n−1)μ+L) apart.",
            f"To {number(off)} relative." if off else "To the last digit.",
            every([off < EXACT]),
            "the measured distance is not the formula's",
        ),
        Check(
            "Legacy-GT's bias is at most (κ−1)ε/(2n).",
            f"In {tally(kept)} cases.",
            every(kept),
            "the promised bias is exceeded",
        ),
        Check(
            "That is optimal up to a factor O(κ).",
            f"On this pair the factor is at most {number(factor)}.",
            every(near),
            "Legacy-GT is further than κ from the floor",
        ),
    )


def _chart(runs: Sequence[Result]) -> Chart:
    panels = []
    for run in runs:
        arrays = run.arrays
        kappa = arrays["kappa"]
        panels.append(
            Panel(
                f"n = {run.params['n']}",
                "condition number κ",
                "distance, in units of ε",
                (
                    Series(
                        "muted",
                        kappa,
                        arrays["promised"],
                        label="promised",
                        line="dashed",
                        width=1.5,
                    ),
                    Series("classic", kappa, arrays["formula"], label="apart"),
                    Series("classic", kappa, arrays["apart"], line="none", marker="o"),
                    Series("legacy", kappa, arrays["ours"], label="Legacy-GT"),
                    Series(
                        "muted", kappa, arrays["floor"], label="floor", line="dotted", width=1.8
                    ),
                ),
                x_scale="log",
                x_range=(float(kappa.min()) / 1.2, float(kappa.max()) * 1.2),
                y_range=(float(min(r.arrays["floor"].min() for r in runs)) * 0.7, 20.0),
            )
        )
    return Chart(
        "Two leavers that no memory of one gradient can tell apart",
        tuple(panels),
        "Circles: measured; lines: formulas. Floor: half the distance of the two optima.",
        "Measured distances, the formula, Legacy-GT, the floor and the promise against κ, by n.",
    )


ITEM = Item(
    "lower-bound",
    "What no memory of one gradient can avoid",
    "thm:lower",
    "two optima (L−μ)ε/((n−1)μ+L) apart; Legacy-GT optimal up to O(κ)",
    """There are two instances, identical for the survivors and with the same snapshot (y,
    ∇f(y)), whose minimisers are <strong>(L−μ)ε/((n−1)μ+L)</strong> apart. No first-order memory
    can serve both, and Legacy-GT, with bias at most (κ−1)ε/(2n), is optimal up to a factor
    O(κ).""",
    tell,
)
