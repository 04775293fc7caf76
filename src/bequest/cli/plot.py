"""``bequest plot``: the curves of a results file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bequest import extras, files
from bequest.cli.terminal import Terminal
from bequest.errors import CannotWrite, InvalidResult
from bequest.model.showing import Line, draw

if TYPE_CHECKING:
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
    raw = files.read(path)
    try:
        document = json.loads(raw or b"")
        if "sweep" in document:
            raise InvalidResult(
                f"{path} is a sweep, whose runs are too many for a figure.",
                remedy="Write it with -o results.csv, which has a row per run, or run one "
                "combination of it.",
            )
        silos = document.get("silos", [])
        lines = [_line(run, silos) for run in document["runs"]]
    except InvalidResult:
        raise
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
