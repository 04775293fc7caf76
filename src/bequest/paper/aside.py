"""What the studies beside the report have found, as tables for the terminal."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from bequest.paper import store
from bequest.paper.studies import early, networks
from bequest.paper.studies import tables as unequal

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
    tellers = {
        networks.STUDY.name: _networks,
        early.STUDY.name: _early,
        unequal.STUDY.name: _tables,
    }
    return tellers[name](folder)


def _networks(folder: Path) -> Iterator[AsideTable]:
    kinds: dict[tuple[str, str, int], list[Any]] = {}
    for case in networks.STUDY.cases:
        path = store.path_of(folder, networks.STUDY.name, case.name)
        if path.exists():
            given = case.params
            kind = given["network"], given["split"], given.get("rounds", networks.ROUNDS)
            kinds.setdefault(kind, []).append(store.read(path).facts)
    for (network, split, rounds), found in kinds.items():
        how = "one digit per silo" if split == "digits" else "Dirichlet(0.3)"
        longer = "" if rounds == networks.ROUNDS else f", {rounds} rounds"
        title = (
            f"{network}, {how}{longer}: percent right, median (and worst) of {len(found)} seeds; "
            "vectors of the largest farewell"
        )
        yield AsideTable(title, ["will", *found[0]["times"]], _rows(found))


def _rows(found: Sequence[Any]) -> list[list[str]]:
    times = list(found[0]["times"])
    nobody = [facts[networks.NOBODY]["right"] for facts in found]
    rows = [[networks.NOBODY, *[_spread(nobody)] * len(times)]]
    for will in (will for will in networks.WILLS if will in found[0]["times"][times[0]]):
        told = [[facts["times"][time][will] for facts in found] for time in times]
        rows.append([will, *map(_with_vectors, told)])
    return rows


def _with_vectors(runs: Sequence[Any]) -> str:
    return f"{_spread([one['right'] for one in runs])}, {max(one['vectors'] for one in runs):.2f}"


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


def _tables(folder: Path) -> Iterator[AsideTable]:
    kept = {
        case.name: store.read(path).facts
        for case in unequal.STUDY.cases
        if (path := store.path_of(folder, unequal.STUDY.name, case.name)).exists()
    }
    agreed = {
        case.params["table"]: kept[case.name]["agreement"]
        for case in unequal.STUDY.cases
        if "seed" not in case.params and case.name in kept
    }
    if agreed:
        title = "Nobody leaves: largest difference of a coefficient to pooled scikit-learn"
        headers = ["table", *(f"C = {strength:g}" for strength in unequal.STRENGTHS)]
        rows = [[name, *(f"{gap:.0e}" for gap in by.values())] for name, by in agreed.items()]
        yield AsideTable(title, headers, rows)
    for name in unequal.TABLES:
        found = [
            kept[case.name]
            for case in unequal.STUDY.cases
            if case.params["table"] == name and "seed" in case.params and case.name in kept
        ]
        if found:
            nobody = median(facts["nobody left"] for facts in found)
            title = (
                f"{name}: change of the test log-loss, {nobody:.4f} if nobody leaves; median (and "
                f"largest in size) of {len(found)} seeds"
            )
            times = [f"{count} {time}" for count in unequal.LEAVERS for time in unequal.TIMES]
            yield AsideTable(title, ["will", "bytes", *times], _costs(found, times))


def _costs(found: Sequence[Any], times: Sequence[str]) -> list[list[str]]:
    rows = []
    for will in unequal.WILLS:
        told = {time: [facts["departures"][time][will] for facts in found] for time in times}
        most = max(one["bytes"] for runs in told.values() for one in runs)
        gaps = [[one["gap"] for one in runs] for runs in told.values()]
        cells = [f"{median(each):+.5f} ({max(each, key=abs):+.5f})" for each in gaps]
        rows.append([will, str(most), *cells])
    return rows
