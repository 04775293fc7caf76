"""How every will does on the hostile bed, by how many unknowns there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.paper.report.markup import HtmlTable, method
from bequest.paper.report.measures import number
from bequest.paper.report.sections.aims import USUAL, by_size
from bequest.paper.report.sections.bed import BETTER, PLAIN, shares, times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.paper.report.sections.bed import Bed, Key


def sizes(bed: Bed, shown: Mapping[str, str]) -> HtmlTable:
    """Return the table: a row per will, columns for few and for many unknowns.

    Args:
        bed: the instances.
        shown: what wills are called that do not go by their own name.
    """
    parts = by_size(bed)
    return HtmlTable(
        ("will", *(f"{name} unknowns ({len(part)})" for name, part in parts.items())),
        {
            way: [
                (
                    method(will, shown.get(will, will)),
                    *(told(p, (way, will)) for p in parts.values()),
                )
                for will in bed.wills(way)
            ]
            for way in bed.ways
            if way in (PLAIN, USUAL)
        },
        "By the number of unknowns: share above 1.2, 2 and 10 times the better of forgetting and "
        "GT-C, the worst factor; the geometric mean over GT-C; the median of the error, as a part "
        "of the way from the start to the optimum.",
        fold="By unknowns, every will",
    )


def told(bed: Bed, key: Key) -> str:
    """Write how a will does on these instances."""
    tally = bed.tally(key, BETTER)
    return (
        f"{shares(tally)}, {times(tally.worst)}; {times(bed.mean(key))}; "
        f"{number(float(np.median(bed.error(key))))}"
    )
