"""``bequest plot``: the curves of a results file, or what runs ended with over a setting."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from bequest import extras, files
from bequest.cli.terminal import Terminal
from bequest.cli.tidy import KINDS, REMEDY, read_rows, row_of, settings_in
from bequest.errors import CannotWrite, InvalidResult
from bequest.model.showing import Ends, Line, draw, draw_over

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


# The endings that matplotlib knows and viewers too.
FIGURES = (".png", ".svg", ".pdf")


def plot_results(path: Path, output: Path) -> None:
    """Draw every run of a results file."""
    extras.need("plot", what="bequest plot")
    if output.suffix.lower() not in FIGURES:
        raise CannotWrite(
            f"{output}: no figure can be written with that ending.",
            remedy=f"Use one of {', '.join(FIGURES)}.",
        )
    files.check_writable(output)
    if path.suffix.lower() in KINDS:
        _draw_rows(read_rows(path), path, output)
        return
    raw = files.read(path)
    try:
        document = json.loads(raw or b"")
        if "sweep" in document:
            rows = [
                row_of(run, one["settings"]) for one in document["sweep"] for run in one["runs"]
            ]
            lines = []
        else:
            rows, silos = [], document.get("silos", [])
            lines = [_line(run, silos) for run in document["runs"]]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise InvalidResult(f"{path} holds no results of bequest run.", remedy=REMEDY) from error
    if rows:
        _draw_rows(rows, path, output)
        return
    if not lines:
        raise InvalidResult(f"{path} has no run.", remedy="Name a file with results of some.")
    draw(lines, output)
    Terminal().print(f"written to {output}")


def _draw_rows(rows: list[dict[str, Any]], path: Path, output: Path) -> None:
    """Draw what runs ended with: over the setting that has most values, a line per will."""
    if all(row["error"] is None for row in rows):
        raise InvalidResult(
            f"{path}: no run has an error, because x* is not known.",
            remedy='Use optimum = "always" in the run file, or data that are not on hosts.',
        )
    values = {name: {row[name] for row in rows} for name in settings_in(rows)}
    varied = [name for name, known in values.items() if len(known) > 1]
    over = max(
        varied or ["will"],
        key=lambda name: (_are_numbers(values.get(name)), len(values.get(name, ()))),
    )
    others = [name for name in (*varied, "will") if name != over]
    groups: dict[tuple[Any, ...], dict[Any, list[float]]] = {}
    for row in rows:
        errors = groups.setdefault(tuple(row[name] for name in others), {})
        error = math.inf if row["error"] is None else row["error"]
        errors.setdefault(row[over], []).append(error)
    series = []
    for key, errors in groups.items():
        order = sorted(errors) if _are_numbers(errors) else [*errors]
        settings = order if _are_numbers(errors) else [str(one) for one in order]
        found = [errors[one] for one in order]
        title = ", ".join(
            str(value) if name == "will" else f"{name} = {value}"
            for name, value in zip(others, key, strict=True)
        )
        median = [float(np.median(errors)) for errors in found]
        series.append(Ends(title or "runs", settings, median, [max(errors) for errors in found]))
    draw_over(over, "error", series, output)
    Terminal().print(f"written to {output}")


def _are_numbers(values: Collection[Any] | None) -> bool:
    return bool(values) and all(isinstance(value, int | float) for value in values or ())


def _line(run: dict[str, Any], silos: list[str]) -> Line:
    curves, alive = run["curves"], run["network"]["nodes"] - len(run["network"]["absent"])
    measure = "gradient_norm" if curves["error"] is None else "error"
    steps = [(0, alive)]
    changed = [(record["round"], -1) for record in run["departures"]]
    changed += [(one["round"], 1) for one in run["changes"] if one["kind"] != "forget"]
    for when, by in sorted(changed):
        alive += by
        steps.append((when, alive))
    steps.append((run["rounds"], alive))
    left = [
        (record["round"], silos[record["node"]] if silos else f"node {record['node']}")
        for record in run["departures"]
    ]
    title = f"{run['will']}, seed {run['seed']}"
    return Line(title, measure, curves["rounds"], curves[measure], left, steps)
