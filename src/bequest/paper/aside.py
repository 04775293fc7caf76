"""What the studies beside the report have found, as tables for the terminal."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from bequest.paper import store
from bequest.paper.studies import early, networks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


class AsideTable(NamedTuple):
    """A table and what it is about."""

    title: str
    headers: list[str]
    rows: list[list[str]]


def tables(name: str, folder: Path) -> Iterator[AsideTable]:
    """Yield what a study has found, as far as it has been computed."""
    return _networks(folder) if name == networks.STUDY.name else _early(folder)


def _networks(folder: Path) -> Iterator[AsideTable]:
    for split in networks.SPLITS:
        for network in networks.NETWORKS:
            found = [
                store.read(path).facts
                for case in networks.STUDY.cases
                if (case.params["network"], case.params["split"]) == (network, split)
                and (path := store.path_of(folder, networks.STUDY.name, case.name)).exists()
            ]
            if found:
                how = "one digit per silo" if split == "digits" else "Dirichlet(0.3)"
                title = f"{network}, {how}: percent right, median (and worst) of {len(found)} seeds"
                yield AsideTable(title, ["will", "vectors", *networks.TIMES], _rows(found))


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


def _early(folder: Path) -> Iterator[AsideTable]:
    for dataset in early.DATASETS:
        found = {
            int(case.params["first"]): store.read(path).facts["wills"]
            for case in early.STUDY.cases
            if case.params["dataset"] == dataset
            and (path := store.path_of(folder, early.STUDY.name, case.name)).exists()
        }
        if found:
            headers = ["will", "bytes", *(f"t = {first}" for first in found)]
            rows = [
                [
                    will,
                    str(max(facts[will]["bytes"] for facts in found.values())),
                    *(f"{facts[will]['bias']:.2g}" for facts in found.values()),
                ]
                for will in early.WILLS
            ]
            title = f"{dataset}: distance to the optimum of all data, by the first departure"
            yield AsideTable(title, headers, rows)
