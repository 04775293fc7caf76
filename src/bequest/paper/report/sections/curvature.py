"""lem:center: which curvature a legacy should have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bequest.paper.report.charts import Chart, Level, Panel, Series
from bequest.paper.report.markup import HtmlTable, spread
from bequest.paper.report.measures import Sample, fixed, given, ratio, tally
from bequest.paper.report.sections.base import Account, CsvRow, Item, curve, fact, grouped, seeds
from bequest.paper.report.verdicts import Check, every
from bequest.paper.store import Result

BASES = {"random": "own eigenbases", "shared": "one shared eigenbasis"}


def tell(results: Sequence[Result]) -> Account:
    """Return the account of these results."""
    groups = grouped(results, "basis", order=BASES)
    midpoint = float(results[0].facts["midpoint"])
    best = {basis: fact(runs, "best eta") for basis, runs in groups.items()}
    price = {basis: Sample.of(_price(run) for run in runs) for basis, runs in groups.items()}
    hits = [_central(run, run.facts["best eta"]) for run in results]
    where = "; ".join(
        f"with {BASES[basis]} at {best[basis]:median 1} {best[basis]:quartiles 1}"
        for basis in groups
    )
    cost = "; ".join(
        f"{price[basis]:median} times the smallest possible error {price[basis]:quartiles}, at "
        f"worst {price[basis]:worst} times, with {BASES[basis]}"
        for basis in groups
    )
    n = seeds(min(map(len, groups.values())))
    return Account(
        brief=f"the bound is smallest at {given(midpoint)}, which is "
        f"best for the instance in {tally(hits)}",
        found=(
            f"""Each leaver has the full spectrum, so the bound on the gradient error is there to be
            met: the largest measured ratio is {fixed(_attained(results), 3)}. It is smallest at the
            midpoint, {given(midpoint)}, and so is the bound on the induced bias.""",
            f"""The bias itself is another matter. Its smallest value lies, in the medians and
            quartiles, {where}. The midpoint is best (to one grid step) in <strong>{sum(hits)} of
            {len(hits)}</strong> instances, and costs {cost}. It is the right choice when only [μ,
            L] is known; a node that knows its Hessian along the drift can do better.""",
        ),
        sample=f"{n} per eigenbasis, one leaver, anchored 1 from x*",
        chart=_chart(groups, midpoint),
        caption="Induced bias against the legacy's curvature. The dashed line is the "
        "paper's bound.",
        tables=(
            HtmlTable(
                ("", "median", "quartiles", "worst"),
                {
                    BASES[basis]: [
                        ("bias at the midpoint", *spread(_at(runs, midpoint))),
                        ("bias at the best η", *spread(_smallest(runs))),
                        ("bias at η = μ", *spread(_at(runs, float("-inf")))),
                        ("bias at η = L", *spread(_at(runs, float("inf")))),
                        ("price of the midpoint (ratio)", *spread(price[basis])),
                        ("best η", *spread(best[basis], 1)[:2], "–"),
                    ]
                    for basis, runs in groups.items()
                },
            ),
        ),
        checks=_checks(results, hits),
        csv=tuple(
            line
            for basis, runs in groups.items()
            for line in (
                CsvRow(BASES[basis], "midpoint", "bias", _at(runs, midpoint)),
                CsvRow(BASES[basis], "best eta", "bias", _smallest(runs)),
                CsvRow(BASES[basis], "midpoint", "price (ratio)", price[basis]),
                CsvRow(BASES[basis], "best eta", "eta", best[basis], midpoint),
            )
        ),
    )


def _bias_at(run: Result, eta: float) -> float:
    return float(np.interp(eta, run.arrays["eta"], run.arrays["bias"]))


def _at(runs: Sequence[Result], eta: float) -> Sample:
    return Sample.of(_bias_at(run, eta) for run in runs)


def _smallest(runs: Sequence[Result]) -> Sample:
    return Sample.of(float(run.arrays["bias"].min()) for run in runs)


def _price(run: Result) -> float:
    return ratio(_bias_at(run, run.facts["midpoint"]), float(run.arrays["bias"].min()))


def _central(run: Result, eta: float) -> bool:
    """Whether a curvature is the midpoint, to one step of the grid."""
    step = run.arrays["eta"][1] - run.arrays["eta"][0]
    return bool(abs(eta - run.facts["midpoint"]) <= step * (1 + 1e-9))


def _centred(run: Result, name: str) -> bool:
    return _central(run, run.arrays["eta"][np.argmin(run.arrays[name])])


def _attained(results: Sequence[Result]) -> float:
    return max(
        float((run.arrays["mismatch"] / run.arrays["promised mismatch"]).max()) for run in results
    )


def _checks(results: Sequence[Result], hits: Sequence[bool]) -> tuple[Check, ...]:
    slack = 1 + 1e-9
    kept = [
        bool((run.arrays["mismatch"] <= run.arrays["promised mismatch"] * slack).all())
        for run in results
    ]
    centred = [_centred(run, "mismatch") for run in results]
    below = [
        bool((run.arrays["bias"] <= run.arrays["promised bias"] * slack).all())
        and _centred(run, "promised bias")
        for run in results
    ]
    return (
        Check(
            "|∇q − ∇f| ≤ max{L − η, η − μ} |x − y|.",
            f"Holds in {tally(kept)} instances; the largest ratio is "
            f"{fixed(_attained(results), 3)}.",
            every(kept),
            "the bound on the gradient error is violated",
        ),
        Check(
            "It is smallest at the midpoint (μ + L)/2.",
            f"In {tally(centred)} instances, to one step of the grid.",
            every(centred),
            "the gradient error is smallest elsewhere",
        ),
        Check(
            "The midpoint also minimises max{L − η, η − μ} |y − x*| / ((n−1)μ + η).",
            f"It does, and that bounds the bias, in {tally(below)} instances.",
            every(below),
            "the bound on the bias is violated, or smallest elsewhere",
        ),
        Check(
            "“… we prove this midpoint is optimal”",
            f"For the instance at hand it is in {tally(hits)}.",
            every(hits),
            "the midpoint is optimal against the worst case in [μ, L], and rarely the best "
            f"curvature for a given instance ({tally(hits)})",
        ),
    )


def _chart(groups: dict[str, list[Result]], midpoint: float) -> Chart:
    panels = []
    for basis, runs in groups.items():
        eta = runs[0].arrays["eta"]
        panels.append(
            Panel(
                BASES[basis],
                "curvature η of the legacy",
                "distance of the limit to the optimum of all nodes",
                (
                    curve([run.arrays["bias"] for run in runs], eta, role="gt-c", label="measured"),
                    Series(
                        "gt-c",
                        np.array(fact(runs, "best eta").values),
                        np.array(_smallest(runs).values),
                        line="none",
                        marker="o",
                    ),
                    Series(
                        "muted",
                        eta,
                        runs[0].arrays["promised bias"],
                        label="bound",
                        line="dashed",
                        width=1.5,
                    ),
                ),
                levels=(Level(midpoint, "ink", "midpoint", axis="x", line="dotted"),),
                y_range=(0.01, 0.6),
            )
        )
    return Chart(
        "Which curvature is best?",
        tuple(panels),
        "Line: median; band: quartiles; circles: the best η of each seed.",
        "Bias against curvature with its bound, and the best curvature of each seed; the bound is "
        "smallest at the midpoint.",
    )


ITEM = Item(
    "curvature",
    "Which curvature should a legacy have?",
    "lem:center",
    "the midpoint (μ + L)/2 is optimal",
    """The gradient of a legacy with curvature η is off by at most max{L − η, η − μ} per unit
    distance from its anchor, which the <strong>midpoint η = (μ + L)/2</strong> minimises. “In
    (SC), η* also minimizes the induced bias max{L − η, η − μ} |y − x*| / ((n−1)μ + η).”""",
    tell,
)
