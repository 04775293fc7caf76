"""thm:cvx: losses that are flat in most directions, until a node leaves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bequest.paper.report.charts import Chart, Level, Panel, Series
from bequest.paper.report.markup import HtmlTable, method, quartiles, spread
from bequest.paper.report.measures import Sample, fixed, number, tally
from bequest.paper.report.sections.base import Account, CsvRow, Item, curve, fact, seeds, thinned
from bequest.paper.report.verdicts import Check, every

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.paper.store import Result

RUNS = {"nobody leaves": "muted", "classic": "classic", "Legacy-GT": "legacy"}
FLOOR = 1e-14


def tell(results: Sequence[Result]) -> Account:
    """Return the account of these results."""
    gaps = {name: fact(results, "runs", name, "value gap") for name in ("classic", "Legacy-GT")}
    rates = {name: fact(results, "runs", name, "rate") for name in RUNS}
    slopes = Sample.of(_slope(result) for result in results)
    labels = list(results[0].facts["runs"]["bounds"])
    return Account(
        brief=f"rate {fixed(rates['Legacy-GT'].median, 4)} per round against "
        f"{fixed(rates['nobody leaves'].median, 4)}; value gap ∝ "
        f"ε<sup>{fixed(slopes.median, 2)}</sup>",
        found=(
            f"""After the departure, Legacy-GT's gradient falls by a factor of
            <strong>{fixed(rates["Legacy-GT"].median, 4)}</strong> per round
            [{fixed(rates["Legacy-GT"].lower, 4)}, {fixed(rates["Legacy-GT"].upper, 4)}]; without
            departures it is {fixed(rates["nobody leaves"].median, 4)}, for classic
            {fixed(rates["classic"].median, 4)}. The value gap grows with the anchor's error to the
            power <strong>{fixed(slopes.median, 3)}</strong>. Legacy-GT ends
            {number(gaps["Legacy-GT"].median)} above the best value, quartiles
            {quartiles(gaps["Legacy-GT"])}, worst {number(gaps["Legacy-GT"].worst)}; classic
            {number(gaps["classic"].median)} {quartiles(gaps["classic"])}.""",
            """Each loss is least squares with one sample, flat in eleven of twelve directions; the
            sum of twenty is curved, but barely. So even without departures the network converges
            linearly in the end, only slower, and the paper's “sublinearly, forever” is not what
            these instances can show.""",
        ),
        sample=f"{seeds(len(results))}, one node leaves after round "
        f"{results[0].facts['departure']}",
        chart=_chart(results, gaps["classic"]),
        caption="The gradient of what is being minimised, and the value gap against the anchor's "
        "distance to the optimum.",
        tables=(
            HtmlTable(
                ("", "median", "quartiles", "worst"),
                {
                    "value gap F(limit) − F*": [
                        (method(name), *spread(gap)) for name, gap in gaps.items()
                    ],
                    "factor per round after the departure": [
                        (method(name), *_rate(rate)) for name, rate in rates.items()
                    ],
                    "exponent of the value gap in the anchor's error": [("fitted", *_rate(slopes))],
                },
            ),
            HtmlTable(
                ("bound", "measured", "promised", "kept"),
                {
                    "": [
                        (
                            label,
                            number(_bound(results, label, 0).median),
                            number(_bound(results, label, 1).median),
                            f"{sum(_kept(results, label))} of {len(results)}",
                        )
                        for label in labels
                    ]
                },
                "Medians over the seeds; thm:cvx (i) is a lower bound, the others are upper "
                "bounds.",
            ),
        ),
        checks=_checks(results, gaps, rates, slopes, labels),
        csv=(
            *(CsvRow("", name, "value gap", gap) for name, gap in gaps.items()),
            *(CsvRow("", name, "factor per round", rate) for name, rate in rates.items()),
            CsvRow("", "Legacy-GT", "exponent", slopes, 2.0),
            *(
                CsvRow("", label, quantity, _bound(results, label, place))
                for label in labels
                for place, quantity in enumerate(("measured", "promised"))
            ),
        ),
        notes=(
            """The last step of thm:cvx (ii) uses ∑ε² ≤ (∑ε)²/k, which is the wrong way round. The
            promise here is the display before it, (L/4)[2kδ² + 3∑ε²]; for one departure, as here,
            the two are the same.""",
        ),
    )


def _slope(result: Result) -> float:
    x, y = (result.arrays[name] for name in ("anchor error", "value gap"))
    seen = np.isfinite(y) & (y > 0)
    if seen.sum() < 2:
        return math.inf
    return float(np.polyfit(np.log(x[seen]), np.log(y[seen]), 1)[0])


def _rate(sample: Sample) -> tuple[str, str, str]:
    return (
        fixed(sample.median, 4),
        f"[{fixed(sample.lower, 4)}, {fixed(sample.upper, 4)}]",
        fixed(sample.worst, 4),
    )


def _bound(results: Sequence[Result], label: str, place: int) -> Sample:
    return Sample.of(result.facts["runs"]["bounds"][label][place] for result in results)


def _kept(results: Sequence[Result], label: str) -> list[bool]:
    return [result.facts["runs"]["bounds"][label][2] is True for result in results]


def _checks(
    results: Sequence[Result],
    gaps: dict[str, Sample],
    rates: dict[str, Sample],
    slopes: Sample,
    labels: Sequence[str],
) -> tuple[Check, ...]:
    faster = [
        ours < 1 and ours < without
        for ours, without in zip(
            rates["Legacy-GT"].values, rates["nobody leaves"].values, strict=True
        )
    ]
    square = [abs(slope - 2) < 0.05 for slope in slopes.values]
    smaller = [
        ours < classic
        for ours, classic in zip(gaps["Legacy-GT"].values, gaps["classic"].values, strict=True)
    ]
    kept = [held for label in labels for held in _kept(results, label)]
    return (
        Check(
            "Departures create strong convexity: linear convergence after the first one.",
            f"{fixed(rates['Legacy-GT'].median, 4)} per round, faster than without departures in "
            f"{tally(faster)} runs.",
            every(faster),
            "the departure does not speed up every run",
        ),
        Check(
            "The value gap is quadratic in the anchor's error.",
            f"The exponent is {fixed(slopes.smallest, 3)} to {fixed(slopes.largest, 3)}.",
            every(square),
            f"the fitted exponent is {fixed(slopes.smallest, 2)} to {fixed(slopes.largest, 2)}",
        ),
        Check(
            "Classic keeps a constant value gap.",
            f"{number(gaps['classic'].smallest)} to {number(gaps['classic'].largest)}, larger than "
            f"Legacy-GT's in {tally(smaller)} runs.",
            every(smaller),
            "classic's value gap is not larger on every seed",
        ),
        Check(
            "The bounds of thm:cvx and prop:certC hold.",
            f"In {tally(kept)} cases.",
            every(kept),
            f"{len(kept) - sum(kept)} bounds are broken",
        ),
    )


def _chart(results: Sequence[Result], classic: Sample) -> Chart:
    departure = int(results[0].facts["departure"])
    rounds = min(len(result.arrays["gradient classic"]) for result in results) - 1
    x, at = np.arange(rounds + 1.0), thinned(rounds, [departure], points=200)
    sizes = results[0].arrays["anchor error"]
    gap = curve(
        [result.arrays["value gap"] for result in results],
        sizes,
        role="legacy",
        label="Legacy-GT",
        marker="o",
    )
    reference = float(gap.y[0]) * (sizes / sizes[0]) ** 2 / 3
    return Chart(
        "Convex losses: one departure makes the rest converge faster",
        (
            Panel(
                "the gradient",
                "round",
                "norm of the gradient of what is minimised",
                tuple(
                    curve(
                        [
                            np.maximum(result.arrays[f"gradient {name}"], FLOOR)
                            for result in results
                        ],
                        x,
                        role=role,
                        label=name,
                        at=at,
                        since=departure,
                        line="dashed" if name == "nobody leaves" else "solid",
                    )
                    for name, role in RUNS.items()
                ),
                departures=(departure,),
            ),
            Panel(
                "the value",
                "distance of the anchor to the optimum",
                "value gap F(limit) − F*",
                (gap, Series("muted", sizes, reference, label="slope 2", line="dotted")),
                x_scale="log",
                levels=(
                    Level(classic.median, "classic", "classic, for every anchor", line="solid"),
                ),
            ),
        ),
        "Lines: medians; bands: quartiles; gray: the departure.",
        "Gradient norms over the rounds, and the value gap against the anchor's error beside a "
        "line of slope two.",
    )


ITEM = Item(
    "convex",
    "Convex losses: departures create curvature",
    "thm:cvx",
    "linear rate after the first departure; value gap quadratic in ε",
    """In regime (C), μ = 0, <em>(i)</em> “departures create strong convexity”: after the first
    one the method converges <strong>linearly</strong>. <em>(ii)</em> The value gap is
    <strong>quadratic</strong> in the anchor's error, F(x̂) − F* ≤ (2κ̃² + 3)L/4 · ε² for one
    departure, versus “the constant value gap F(x*<sub>S</sub>) − F* = Θ(1) of the classic
    algorithm”.""",
    tell,
)
