"""What the study of networks found, as rows of a table: median and worst over its seeds."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from bequest.paper import store
from bequest.paper.studies import networks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

HEADERS = ("will", "vectors", *networks.TIMES)


def tables(folder: Path) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield a title and rows for every network and split that has results."""
    for split in networks.SPLITS:
        for network in networks.NETWORKS:
            found = [
                store.read(path).facts
                for case in networks.STUDY.cases
                if (case.params["network"], case.params["split"]) == (network, split)
                and (path := store.path_of(folder, networks.STUDY.name, case.name)).exists()
            ]
            if found:
                yield _title(network, split, len(found)), _rows(found)


def _title(network: str, split: str, seeds: int) -> str:
    how = "one digit per silo" if split == "digits" else "Dirichlet(0.3)"
    return f"{network}, {how}: percent right, median (and worst) of {seeds} seeds"


def _rows(found: Sequence[Any]) -> list[list[str]]:
    nobody = [facts[networks.NOBODY]["right"] for facts in found]
    rows = [[networks.NOBODY, "", *[_spread(nobody)] * len(networks.TIMES)]]
    for will in networks.WILLS:
        told = {time: [facts["times"][time][will] for facts in found] for time in networks.TIMES}
        vectors = max(one["vectors"] for runs in told.values() for one in runs)
        right = [_spread([one["right"] for one in runs]) for runs in told.values()]
        rows.append([will, f"{vectors:.2f}", *right])
    return rows


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f})"
