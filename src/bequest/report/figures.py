"""Errors against rounds, one line per run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.model.run import Status
from bequest.report.drawing import COLOURS, FAINT, INK, canvas, headed, save

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bequest.core.arrays import Vector
    from bequest.model.run import Run

__all__ = ["save", "trajectories"]

# Distances below this are rounding, and a logarithm has to end somewhere.
_FLOOR = 1e-16
# Labels closer than this fraction of the axis would touch.
_LINE_HEIGHT = 0.047


def trajectories(runs: Mapping[str, Run], *, title: str, subtitle: str = "") -> Any:  # noqa: ANN401
    """Return a figure of every run's error against the rounds, on a logarithmic scale.

    Args:
        runs: the runs, by the names that are written next to their lines.
        title: what one sees.
        subtitle: of what.

    Returns:
        A ``matplotlib.figure.Figure``.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    figure = canvas(9.0, 5.2)
    axes = figure.add_axes((0.085, 0.115, 0.67, 0.715))
    departures = sorted({record.round for run in runs.values() for record in run.departures})
    for departure in departures:
        axes.axvline(departure, color=FAINT, linewidth=0.9, alpha=0.6, zorder=1)
    lines = {name: np.maximum(run.error, _FLOOR) for name, run in runs.items()}
    bounded = [lines[name] for name, run in runs.items() if run.status is not Status.DIVERGED]
    bottom, top = _range(bounded or list(lines.values()))
    settled = departures[0] if departures else 0
    drawn: list[Vector] = []
    for index, (name, line) in enumerate(lines.items()):
        # Two wills that decide alike are one line: the later one is dashed, so both show.
        twin = any(_coincide(line[settled:], other[settled:]) for other in drawn)
        axes.plot(
            np.arange(line.size),
            np.where(np.isfinite(line), line, np.nan),
            color=_colour(index),
            linestyle=(0, (4, 3)) if twin else "solid",
            linewidth=2.0,
            zorder=2 + index,
            label=name,
        )
        drawn.append(line)
        if not np.isfinite(line).all():
            _leave_at_top(axes, line, top=top, colour=_colour(index))
    axes.set_yscale("log")
    axes.set_ylim(bottom, top)
    rounds = max(line.size for line in lines.values()) - 1
    axes.set_xlim(0, max(rounds, 1))
    _label_lines(axes, runs, lines)
    _dress(figure, axes, title=title, subtitle=subtitle, departures=departures)
    return figure


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _range(lines: Sequence[Vector]) -> tuple[float, float]:
    """Return axis ends a little beyond what is drawn."""
    values = np.concatenate([line[np.isfinite(line)] for line in lines])
    low, high = (values.min(), values.max()) if values.size else (_FLOOR, 1.0)
    margin = 10 ** (0.3 + 0.05 * np.log10(high / low))
    return float(low / margin), float(high * margin)


def _leave_at_top(axes: Any, line: Vector, *, top: float, colour: str) -> None:  # noqa: ANN401
    """Show that a line does not end where it stops, but leaves the picture."""
    first = int(np.argmax(~np.isfinite(line)))
    beyond = np.flatnonzero(line[:first] > top)
    last = max(int(beyond[0]) if beyond.size else first, 1)
    axes.plot(
        [last - 1, last], [min(line[last - 1], top), top], color=colour, linewidth=2.0, zorder=9
    )
    axes.plot([last], [top], marker="^", markersize=8, color=colour, clip_on=False, zorder=9)


def _coincide(one: Vector, other: Vector) -> bool:
    """Whether two lines could not be told apart over most of their course."""
    both = np.isfinite(one) & np.isfinite(other)
    if one.size != other.size or both.mean() < 0.5:
        return False
    return float(np.median(np.abs(np.log10(one[both] / other[both])))) < 0.05


def _label_lines(axes: Any, runs: Mapping[str, Run], lines: Mapping[str, Vector]) -> None:  # noqa: ANN401
    """Write every name next to the end of its line, moved apart where they would touch."""
    low, high = np.log10(axes.get_ylim())
    names = list(lines)
    ends = {}
    for name, line in lines.items():
        last = line[-1] if np.isfinite(line[-1]) else np.inf  # diverged: out at the top
        ends[name] = float(np.clip((np.log10(last) - low) / (high - low), 0.0, 1.0))
    places = _spread(ends)
    for name in names:
        colour = _colour(names.index(name))
        diverged = runs[name].status is Status.DIVERGED
        axes.annotate(
            f"{name}: diverges" if diverged else name,
            xy=(1.0, ends[name]),
            xytext=(1.03, places[name]),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=INK if colour == "#000000" else colour,
            fontsize=9,
            va="center",
            annotation_clip=False,
            arrowprops=None
            if diverged
            else {
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.8,
                "shrinkA": 1,
                "shrinkB": 0,
                "relpos": (0.0, 0.5),
            },
        )


def _spread(ends: Mapping[str, float]) -> dict[str, float]:
    """Return positions in the same order, far enough apart to be read, within the axis."""
    ordered = sorted(ends, key=lambda name: ends[name])
    places: dict[str, float] = {}
    previous = -np.inf
    for name in ordered:
        previous = places[name] = max(ends[name], previous + _LINE_HEIGHT)
    ceiling = 1.0
    for name in reversed(ordered):  # push back down what was pushed out at the top
        places[name] = min(places[name], ceiling)
        ceiling = places[name] - _LINE_HEIGHT
    return places


def _dress(
    figure: Any,  # noqa: ANN401
    axes: Any,  # noqa: ANN401
    *,
    title: str,
    subtitle: str,
    departures: Sequence[int],
) -> None:
    headed(figure, title, subtitle, left=0.085)
    axes.set_xlabel("round", color=INK)
    axes.set_ylabel("distance of the worst survivor to everybody's optimum", color=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    axes.tick_params(colors=INK, which="both", length=3, labelsize=9)
    axes.grid(visible=True, axis="y", which="major", color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)
    if departures:
        axes.annotate(
            "a node leaves" if len(departures) == 1 else "at each gray line a node leaves",
            xy=(departures[0], 1.0),
            xytext=(8, 3),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            fontsize=8.5,
            color="#666666",
        )
