"""thm:cvx: losses that are flat in most directions, until a node leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bequest.paper.report.charts import Chart, Level, Panel, Series
from bequest.paper.report.markup import HtmlTable, method, spread
from bequest.paper.report.measures import Sample, tally
from bequest.paper.report.sections.base import Account, CsvRow, Item, course, curve, fact, seeds
from bequest.paper.report.verdicts import Check, every
from bequest.paper.store import Result

RUNS = {"nobody leaves": "muted", "classic": "classic", "Legacy-GT": "legacy"}
FLOOR = 1e-14


def tell(results: Sequence[Result]) -> Account:
    """Return the account of these results."""
    gaps = {name: fact(results, "runs", name, "value gap") for name in ("classic", "Legacy-GT")}
    rates = {name: fact(results, "runs", name, "rate") for name in RUNS}
    slopes = Sample.of(_slope(result) for result in results)
    labels = list(results[0].facts["runs"]["bounds"])
    legacy, undisturbed, ours = rates["Legacy-GT"], rates["nobody leaves"], gaps["Legacy-GT"]
    return Account(
        brief=f"rate {legacy:median 4} per round against {undisturbed:median 4}; value gap ∝ "
        f"ε<sup>{slopes:median 2}</sup>",
        found=(
            f"""After the departure, Legacy-GT's gradient falls by a factor of
            <strong>{legacy:median 4}</strong> per round {legacy:quartiles 4}; without departures it
            is {undisturbed:median 4}, for classic {rates["classic"]:median 4}. The value gap grows
            with the anchor's error to the power <strong>{slopes:median 3}</strong>. Legacy-GT ends
            {ours:median} above the best value, quartiles {ours:quartiles}, worst {ours:worst};
            classic {gaps["classic"]:median} {gaps["classic"]:quartiles}.""",
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
                        (method(name), *spread(rate, 4)) for name, rate in rates.items()
                    ],
                    "exponent of the value gap in the anchor's error": [
                        ("fitted", *spread(slopes, 4))
                    ],
                },
            ),
            HtmlTable(
                ("bound", "measured", "promised", "kept"),
                {
                    "": [
                        (
                            label,
                            f"{_bound(results, label, 0):median}",
                            f"{_bound(results, label, 1):median}",
                            tally(_kept(results, label)),
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
    ours, classic = rates["Legacy-GT"], gaps["classic"]
    faster = [one < 1 and one < other for one, other in ours.beside(rates["nobody leaves"])]
    square = [abs(slope - 2) < 0.05 for slope in slopes.values]
    smaller = [one < other for one, other in gaps["Legacy-GT"].beside(classic)]
    kept = [held for label in labels for held in _kept(results, label)]
    return (
        Check(
            "Departures create strong convexity: linear convergence after the first one.",
            f"{ours:median 4} per round, faster than without departures in {tally(faster)} runs.",
            every(faster),
            "the departure does not speed up every run",
        ),
        Check(
            "The value gap is quadratic in the anchor's error.",
            f"The exponent is {slopes:range 3}.",
            every(square),
            f"the fitted exponent is {slopes:range 2}",
        ),
        Check(
            "Classic keeps a constant value gap.",
            f"{classic:range}, larger than Legacy-GT's in {tally(smaller)} runs.",
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
    x, at = course(results, "gradient classic", [departure], points=200)
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
