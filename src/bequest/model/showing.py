"""A run as a frame of pandas, and as a figure of matplotlib."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from bequest import extras
from bequest.model.silo_names import called

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bequest.core.arrays import Indices
    from bequest.model.run import Run

# A setting whose values are further apart than this is drawn on a logarithmic axis.
_WIDE = 50.0
CURVES = ("error", "gradient_norm", "disagreement", "invariant_gap")
_MEANINGS = {
    "error": "distance of the worst survivor to the optimum of all the data",
    "gradient_norm": "norm of the sum of all gradients",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One run in a figure: its title, a number for some rounds, when which node left, who is there.

    ``alive`` has the rounds after which the number of nodes changes, and what it is then.
    """

    title: str
    measure: str
    rounds: Sequence[int]
    values: Sequence[float | None]
    departures: Sequence[tuple[int, str]]
    alive: Sequence[tuple[int, int]]


def curves_of(run: Run) -> dict[str, Any]:
    """Return what was measured after every round, by name; what is unknown is left out."""
    found = {name: getattr(run.trajectory, name) for name in CURVES}
    return {name: values for name, values in found.items() if values is not None}


def alive(run: Run) -> Indices:
    """Return how many nodes there were after every round."""
    change = np.zeros(run.rounds + 1, dtype=np.intp)
    change[0] = run.problem.n - len(run.plan.absent)
    for record in run.departures:
        change[record.round] -= 1
    for entry in run.changes:
        change[entry.round] += entry.kind in ("return", "join")
    return np.cumsum(change)


def frame_of(run: Run) -> Any:  # noqa: ANN401 - pandas'
    """Return a DataFrame with a row per round; see ``Run.to_frame``."""
    extras.need("frame", what="A DataFrame of a run")
    import pandas as pd

    rounds = np.arange(run.rounds + 1)
    return pd.DataFrame({"round": rounds, "nodes": alive(run), **curves_of(run)})


def line_of(run: Run, title: str, names: Mapping[int, str] | None = None) -> Line:
    """Return a run as a line of a figure: its error, or the gradient where x* is not known."""
    measure = "gradient_norm" if run.trajectory.error is None else "error"
    left = [
        (record.round, (names or {}).get(record.node, called(record.node, run.problem.names)))
        for record in run.departures
    ]
    values, rounds = curves_of(run)[measure].tolist(), range(run.rounds + 1)
    return Line(title, measure, rounds, values, left, list(enumerate(alive(run).tolist())))


def draw(lines: Sequence[Line], path: Path | None = None) -> Any:  # noqa: ANN401 - matplotlib's
    """Draw errors above and survivors below, departures marked; return the figure."""
    extras.need("plot", what="A figure")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    marked: set[tuple[int, str]] = set()
    for line in lines:
        values = np.array([np.nan if v is None else v for v in line.values], dtype=float)
        shown = np.where(np.isfinite(values) & (values > 0), values, np.nan)
        above.semilogy(line.rounds, shown, label=line.title)
        below.step(*zip(*line.alive, strict=True), where="post")
        for when, name in line.departures:
            if (when, name) not in marked:
                above.axvline(when, color="grey", linewidth=0.8, linestyle=":")
                above.annotate(
                    name, (when, 1.0), xycoords=("data", "axes fraction"), rotation=90, fontsize=7,
                    va="top", ha="right",
                )  # fmt: skip
                marked.add((when, name))
    above.set_ylabel(_MEANINGS[lines[0].measure], fontsize=8)
    above.legend(fontsize=8)
    below.set_ylabel("nodes", fontsize=8)
    below.set_xlabel("round")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


class Ends(NamedTuple):
    """What is drawn over the values of a setting: the middle of the runs there, and the worst."""

    title: str
    settings: Sequence[float | str]
    median: Sequence[float]
    worst: Sequence[float]


def draw_over(name: str, measure: str, series: Sequence[Ends], path: Path) -> None:
    """Draw what runs ended with over a setting: medians as lines, the worst as crosses."""
    extras.need("plot", what="A figure")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for one in series:
        shown = [
            np.where(np.isfinite(values) & (np.array(values) > 0), values, np.nan)
            for values in (one.median, one.worst)
        ]
        (line,) = axes.plot(one.settings, shown[0], marker="o", label=one.title)
        axes.plot(one.settings, shown[1], linestyle="", marker="x", color=line.get_color())
    axes.set_yscale("log")
    values = [value for one in series for value in one.settings if not isinstance(value, str)]
    if values and min(values) > 0 and max(values) >= _WIDE * min(values):
        axes.set_xscale("log")
    axes.set_xlabel(name)
    axes.set_ylabel(f"{measure} at the end: median, and worst (x)", fontsize=8)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


class Shown:
    """How a run shows itself."""

    __slots__ = ()

    def to_frame(self) -> Any:  # noqa: ANN401 - pandas', which is optional
        """Return a pandas DataFrame with a row per round: round, nodes, and all that is measured.

        Needs ``bequest[frame]``.
        """
        return frame_of(cast("Run", self))

    def plot(self, path: str | Path | None = None) -> Any:  # noqa: ANN401 - matplotlib's
        """Return a matplotlib figure: error per round, survivors, departures marked.

        Where x* is not known, the gradient takes the place of the error. Needs ``bequest[plot]``.

        Args:
            path: where to save it as well.
        """
        run = cast("Run", self)
        return draw([line_of(run, str(run.status))], None if path is None else Path(path))
