"""``bequest demo``: the paper's Sec. 5.1 in one table and one figure."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from typing import TYPE_CHECKING

import typer

from bequest.cli.running import number, span
from bequest.cli.terminal import Meter, Terminal, table
from bequest.experiments import section51
from bequest.report import files
from bequest.report.documents import by_will, document_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bequest.model.run import Run

_SETTING = (
    f"{section51.NODES} quadratics of dimension {section51.DIM}, curvatures in [1, 10], on a ring "
    f"with {section51.CHORDS} chords; step {section51.STEP}"
)


def demonstrate(*, seed: int, folder: Path) -> None:
    """Run the study, print it, and draw it if matplotlib is there."""
    drawable = find_spec("matplotlib") is not None
    if drawable:
        files.make_folder(folder)
    with Meter(len(section51.WILLS)) as meter:
        runs = section51.runs(seed, progress=meter.part("running", len(section51.WILLS)))
    out = Terminal()
    rounds = ", ".join(map(str, section51.DEPARTURES))
    out.print(f"{_SETTING}; seed {seed}")
    out.print(f"The four most heterogeneous nodes leave after rounds {rounds}.\n")
    out.print(_table(runs, seed))
    out.print(
        f"\nerror: distance of the worst of the survivors to the optimum of all "
        f"{section51.NODES} losses after {section51.ROUNDS} rounds\n"
        "closer: how many times closer than classic\n"
        "vectors, bytes: what one farewell carries"
    )
    if not drawable:
        typer.echo('no figure: matplotlib is missing; pip install "bequest[plot]"', err=True)
        return
    from bequest.report import figures

    figure = figures.trajectories(runs, title=_title(runs), subtitle=f"{_SETTING}; seed {seed}")
    written = figures.save(figure, folder, "trajectories")
    out.print(f"\nwritten to {' and '.join(map(str, written))}")


def _table(runs: Mapping[str, Run], seed: int) -> object:
    baseline = runs[section51.BASELINE].error[-1]
    rows = []
    for name, run in runs.items():
        document = document_of(run, will=name, seed=seed)
        together = by_will([document])[0]
        error = document["error"]
        choices = Counter(record["choice"] for record in document["departures"])
        rows.append(
            [
                name,
                document["status"],
                number(error, "inf"),
                "-" if not error else f"{baseline / error:.2g}x",
                span(together["vectors"]),
                span(together["bytes"]),
                ", ".join(f"{choice} x{count}" for choice, count in choices.items()),
            ]
        )
    headers = ["will", "status", "error", "closer", "vectors", "bytes", "choices"]
    return table(headers, rows, text=(0, 1, 6))


def _title(runs: Mapping[str, Run]) -> str:
    """Return what the figure shows, as far as it does."""
    baseline = float(runs[section51.BASELINE].error[-1])
    error = float(runs["adaptive (Legacy-GT)"].error[-1])
    if not error < baseline / 2:
        return "Four nodes leave, under every will of the paper"
    closer = baseline / error if error > 0 else float("inf")
    times = "over a million" if closer > 1e6 else f"{closer:,.0f}"
    return f"An adaptive will ends {times} times closer to the optimum than forgetting"
