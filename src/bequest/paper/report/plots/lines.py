"""Lines over a pair of axes, with bands, levels and names at their ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bequest.paper.report import palette
from bequest.paper.report.charts import Level, Panel, Series, Span
from bequest.paper.report.plots import scales
from bequest.paper.report.plots.marks import halo, vertical

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DASHES = {"solid": "solid", "dashed": (0, (5, 3)), "dotted": (0, (1, 2)), "none": "none"}
# Names at the ends of lines stand at least this far apart, as a part of the axes' height.
_APART = 0.06


def draw_lines(axes: Axes, panel: Panel, *, alone: bool) -> None:
    """Draw a panel of lines."""
    low, high = panel.y_range or scales.y_range(panel)
    vertical(axes, panel.y_label)
    axes.set(xlabel=panel.x_label, yscale="log", xscale=panel.x_scale)
    axes.grid(axis="y")
    for order, series in enumerate(panel.series):
        _line(axes, series, bottom=low, top=high, order=3 + order)
    axes.set_xlim(panel.x_range)
    axes.set_ylim(low, high)
    ticks = scales.log_ticks(low, high)
    axes.set_yticks(ticks, scales.tick_names(ticks))
    ticks_of = scales.log_ticks if panel.x_scale == "log" else scales.even_ticks
    places = panel.x_ticks or ticks_of(*axes.get_xlim())
    axes.set_xticks(places, scales.tick_names(places))
    for departure in panel.departures:
        axes.axvline(departure, color=palette.LIGHT["faint"], linewidth=1, zorder=1)
    for level in panel.levels:
        _level(axes, level, alone=alone)
    for span in panel.spans:
        _span(axes, span, alone=alone)
    _label_ends(axes, panel.series)


def _line(axes: Axes, series: Series, *, bottom: float, top: float, order: int) -> None:
    colour = palette.LIGHT[series.role]
    finite = np.isfinite(series.y)
    floor = bottom / 10
    y = np.where(finite, np.maximum(series.y, floor), np.nan)
    if series.low is not None and series.high is not None:
        roof = np.where(np.isfinite(series.high), series.high, top * 10)
        base = np.maximum(np.where(np.isfinite(series.low), series.low, top * 10), floor)
        axes.fill_between(
            series.x, base, roof, color=colour, alpha=0.16, linewidth=0, zorder=order - 0.5
        )
    axes.plot(
        series.x,
        y,
        color=colour,
        linestyle=_DASHES[series.line],
        linewidth=7.0 if series.faint else series.width,
        alpha=0.4 if series.faint else None,
        marker=series.marker or None,
        markersize=6 if series.marker == "x" else 4.5,
        markeredgewidth=1.6 if series.marker == "x" else 0,
        solid_capstyle="round",
        zorder=order,
    )
    if not finite.all():  # it does not end where the line stops: it leaves the picture
        last = int(np.argmin(finite))
        start = y[last - 1] if last else top
        where = series.x[[max(last - 1, 0), last]]
        axes.plot(where, [start, top], color=colour, linewidth=series.width, zorder=order)
        axes.plot(where[1], top, "^", color=colour, markersize=8, clip_on=False, zorder=order)


def _level(axes: Axes, level: Level, *, alone: bool) -> None:
    colour, at_start = palette.LIGHT[level.role], level.place == "start"
    line: dict[str, Any] = {"color": colour, "linestyle": _DASHES[level.line], "linewidth": 1.3}
    if level.axis == "x":
        axes.axvline(level.at, zorder=2, **line)
        place, frame, offset = (level.at, 0.0), ("data", "axes fraction"), (5, 6)
    else:
        axes.axhline(level.at, zorder=2, **line)
        place, frame = (0.0 if at_start else 1.0, level.at), ("axes fraction", "data")
        offset = (4 if at_start else -4, 4)
    axes.annotate(
        level.label,
        xy=place,
        xycoords=frame,
        xytext=offset,
        textcoords="offset points",
        ha="left" if at_start else "right",
        color=colour,
        zorder=20,
        path_effects=halo(alone=alone),
        annotation_clip=False,
    )


def _span(axes: Axes, span: Span, *, alone: bool) -> None:
    muted = palette.LIGHT["muted"]
    arrow = {"arrowstyle": "<->", "color": muted, "linewidth": 1.1, "shrinkA": 1}
    top = (span.x, span.high)
    axes.annotate("", (span.x, span.low), xytext=top, arrowprops=arrow, zorder=19)
    axes.annotate(
        span.label,
        xy=(span.x, math.sqrt(span.low * span.high)),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        color=muted,
        path_effects=halo(alone=alone),
        zorder=20,
    )


def _label_ends(axes: Axes, series: Sequence[Series]) -> None:
    """Write every name next to the end of its line, moved apart where they would touch."""
    from matplotlib.transforms import offset_copy

    named = [one for one in series if one.label]
    to_axes = axes.transData - axes.transAxes
    ends = []
    for one in named:
        last = one.y[-1] if np.isfinite(one.y[-1]) else axes.get_ylim()[1]
        ends.append(np.clip(to_axes.transform((one.x[-1], max(last, 1e-300))), 0.0, 1.0))
    places = scales.apart([float(end[1]) for end in ends], _APART)
    # in a part of a figure it is the same: both know how long a point is
    figure = cast("Figure", axes.figure)
    beside = offset_copy(axes.transAxes, figure, x=14, units="points")
    for one, end, place in zip(named, ends, places, strict=True):
        colour = palette.LIGHT[one.role]
        axes.annotate(
            one.label if np.isfinite(one.y).all() else f"{one.label}: diverges",
            xy=end,
            xycoords="axes fraction",
            xytext=(1, place),
            textcoords=beside,
            color=colour,
            va="center_baseline",
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.9, "shrinkB": 2},
            annotation_clip=False,
        )
