"""``bequest run`` of a file with a [sweep]: every combination, as one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bequest.cli.terminal import Terminal, table
from bequest.cli.tidy import row_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bequest.cli.results import RunFileResults
    from bequest.runfile import RunFile

    Variant = tuple[dict[str, Any], RunFile, RunFileResults]


def rows_of(variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """Return a row per run of every combination."""
    return [row_of(run, settings) for settings, _, found in variants for run in found.runs.values()]


def document_of(variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """Return every combination with its wills and runs, as plain data."""
    return [
        {
            "settings": settings,
            "wills": found.wills(file),
            "runs": list(found.runs.values()),
            "not_run": found.not_run,
        }
        for settings, file, found in variants
    ]


def print_sweep(variants: Sequence[Variant]) -> None:
    """Print a line per combination and will: the median and the worst over the seeds."""
    names = list(variants[0][0])
    graded = any("accuracy" in one for _, file, found in variants for one in found.wills(file))
    heads = [*names, "will", "error", "worst"] + (["accuracy"] if graded else []) + ["runs"]
    rows = []
    for settings, file, found in variants:
        for will in found.wills(file):
            cells = [str(settings[name]) for name in names] + [will["will"]]
            cells += [_number(will["error"]), _number(will["worst_error"])]
            cells += [_number(will.get("accuracy"))] if graded else []
            rows.append([*cells, _statuses(will["statuses"])])
    Terminal().print(table(heads, rows, text=[*range(len(names) + 1), len(heads) - 1]))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _statuses(statuses: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in statuses.items())
