"""``bequest plot``: the curves of a results file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bequest import extras, files
from bequest.cli.terminal import Terminal
from bequest.errors import InvalidResult
from bequest.model.showing import Line, draw

if TYPE_CHECKING:
    from pathlib import Path


def plot_results(path: Path, output: Path) -> None:
    """Draw every run of a results file."""
    extras.need("plot", what="bequest plot")
    files.check_writable(output)
    raw = files.read(path)
    try:
        document = json.loads(raw or b"")
        silos = document.get("silos", [])
        lines = [_line(run, silos) for run in document["runs"]]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise InvalidResult(
            f"{path} holds no results of bequest run.",
            remedy="Name a JSON file that bequest run -o has written.",
        ) from error
    if not lines:
        raise InvalidResult(f"{path} has no run.", remedy="Name a file with results of some.")
    draw(lines, output)
    Terminal().print(f"written to {output}")


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
