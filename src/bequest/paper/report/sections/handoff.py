"""prop:invariant: the hand-off as printed, and the exact one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bequest.paper.report import palette
from bequest.paper.report.charts import Chart, Panel
from bequest.paper.report.markup import HtmlTable, method, spread
from bequest.paper.report.measures import Sample, tally
from bequest.paper.report.sections.base import Account, CsvRow, Item, course, curve, fact, seeds
from bequest.paper.report.verdicts import Check, every
from bequest.paper.store import Result

# combination -> (method, what the table and the figure call it)
COMBINATIONS = {
    "consensus, exact": ("GT-C", "consensus anchor, exact"),
    "consensus, printed": ("GT-C", "consensus anchor, printed"),
    "local, exact": ("GT-M", "local anchor, exact"),
    "local, printed": ("GT-M", "local anchor, printed"),
}
ROUNDING = 1e-9
FLOOR = 1e-16


def tell(results: Sequence[Result]) -> Account:
    """Return the account of these results."""
    gaps, off, errors = (
        {name: fact(results, "combinations", name, key) for name in COMBINATIONS}
        for key in ("gap", "from limit", "error")
    )
    broken, stray = gaps["local, printed"], off["local, printed"]
    exact = Sample.of(gaps["consensus, exact"].values + gaps["local, exact"].values)
    return Account(
        brief=f"printed with the local anchor: gap {broken:median}; exact: at most {exact:largest}",
        found=(
            f"""With the consensus anchor y = x<sub>i</sub> both forms are the same and exact. With
            the local-track anchor the printed form leaves a permanent gap of
            <strong>{broken:median}</strong>, quartiles {broken:quartiles}, worst {broken:worst}, in
            ∑z = ∑∇h, and the survivors settle {stray:median} away from the minimiser of what they
            remember, worst {stray:worst}. The exact form, z + s + ∇q(x) with the surplus s =
            z<sub>i</sub> − ∇h<sub>i</sub>(x<sub>i</sub>), keeps the invariant to rounding with both
            anchors: at most {exact:largest}.""",
            """bequest uses the exact form everywhere; the printed one exists for this comparison
            only.""",
        ),
        sample=f"{seeds(len(results))}, departures after rounds "
        f"{', '.join(map(str, results[0].facts['departures']))}",
        chart=_chart(results),
        caption="How far the trackers are from summing to the gradients, and the error this "
        "causes. The consensus lines coincide.",
        tables=(
            HtmlTable(
                ("", "median", "quartiles", "worst"),
                {
                    title: [
                        (method(*COMBINATIONS[name]), *spread(sample))
                        for name, sample in samples.items()
                    ]
                    for title, samples in (
                        ("invariant gap |∑z − ∑∇h| after the last round", gaps),
                        ("distance of the survivors to the surrogate's minimiser", off),
                        ("distance of the worst survivor to the optimum of all nodes", errors),
                    )
                },
            ),
        ),
        checks=_checks(gaps),
        csv=tuple(
            CsvRow("Sec. 5.1", COMBINATIONS[name][1], quantity, samples[name])
            for quantity, samples in (
                ("invariant gap", gaps),
                ("distance to the surrogate's minimiser", off),
                ("final error", errors),
            )
            for name in COMBINATIONS
        ),
    )


def _checks(gaps: dict[str, Sample]) -> tuple[Check, ...]:
    def small(name: str) -> list[bool]:
        return [gap < ROUNDING for gap in gaps[name].values]

    printed = gaps["local, printed"]
    exact = small("consensus, exact") + small("local, exact")
    return (
        Check(
            "z + z<sub>i</sub> + η(x − y) preserves the invariant exactly, with the consensus "
            "anchor.",
            f"The gap is {gaps['consensus, printed']:worst} at most.",
            every(small("consensus, printed")),
            "the printed correction leaves a gap even with the consensus anchor",
        ),
        Check(
            "… and so it does with the local-track anchor.",
            f"The gap is {printed:median}, {printed:between}.",
            every(small("local, printed")),
            "the printed correction is exact for the anchor y = x<sub>i</sub> only; with the local "
            f"anchor it leaves a permanent gap of {printed:median}",
        ),
        Check(
            "The invariant can be preserved exactly across a departure.",
            f"With z + s + ∇q(x) it is, to rounding, in {tally(exact)} runs.",
            every(exact),
            "the exact hand-off leaves a gap",
        ),
    )


def _chart(results: Sequence[Result]) -> Chart:
    departures = tuple(results[0].facts["departures"])
    x, at = course(results, "gap local, exact", departures, points=160)
    panels = []
    for kind, title, y_label in (
        ("gap", "the invariant", "|∑z − ∑∇h|"),
        ("error", "the error", "distance to the optimum of all nodes"),
    ):
        lines = []
        for name, (of, shown) in COMBINATIONS.items():
            exact = name.endswith("exact")
            lines.append(
                curve(
                    [np.maximum(result.arrays[f"{kind} {name}"], FLOOR) for result in results],
                    x,
                    role=palette.METHODS[of],
                    label=shown.replace(" anchor, ", ": "),
                    at=at,
                    # what coincides gets one band
                    since=np.inf if name == "consensus, printed" else departures[0],
                    line="solid" if exact else "dashed",
                    width=3.2 if exact and of == "GT-C" else 2.0,
                )
            )
        panels.append(
            Panel(
                title,
                "round",
                y_label,
                tuple(lines),
                departures=departures,
                y_range=(FLOOR, 1e4) if kind == "gap" else None,
            )
        )
    return Chart(
        "The hand-off as printed, and the exact one",
        tuple(panels),
        "Lines: medians; bands: quartiles; gray: departures. Solid: exact; dashed: as printed.",
        "The invariant gap and the error over the rounds for both anchors, exact and as printed.",
    )


ITEM = Item(
    "handoff",
    "Handing the tracker over",
    "prop:invariant",
    "the printed correction preserves the invariant exactly",
    """When node i leaves, its heir corrects its tracker to <strong>z + z<sub>i</sub> +
    η<sub>i</sub>(x − y<sub>i</sub>)</strong>, which “preserves ∑z = ∑∇h exactly across a
    departure”; for anchors other than x<sub>i</sub>, “g<sub>i</sub> substitutes for
    ∇h<sub>i</sub>(x<sub>i</sub>)”.""",
    tell,
)
