"""Lines over a pair of axes, with bands, levels and names at their ends."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.paper.report import palette
from bequest.paper.report.measures import number
from bequest.paper.report.plots import scales
from bequest.paper.report.plots.sheet import FOOTER, HEADER, WIDE, Box, Sheet, dress, header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from bequest.paper.report.charts import Level, Panel, Series, Span

_DASHES = {"solid": "solid", "dashed": (0, (5, 3)), "dotted": (0, (1, 2)), "none": "none"}


def draw_lines(sheet: Sheet, panel: Panel, box: Box) -> None:
    """Draw a panel of lines into this rectangle."""
    left, top, width, height = box
    header(sheet, panel, box)
    low, high = panel.y_range or scales.y_range(panel)
    ticks = scales.log_ticks(low, high)
    names = scales.tick_names(ticks)
    left_margin = max(sheet.span(name, size=sheet.size - 1) for name in names) + 9
    labels = [_label(series) for series in panel.series if series.label]
    longest = max((sheet.span(label) for label in labels), default=0.0)
    right_margin = longest + 16 if labels else 10
    inner = (width - left_margin - right_margin, height - HEADER - FOOTER)
    axes = sheet.axes(left + left_margin, top + HEADER, *inner)
    dress(sheet, axes, x_label=panel.x_label, grid="y")
    axes.set_yscale("log")
    axes.set_xscale(panel.x_scale)
    axes.set_ylim(low, high)
    axes.set_xlim(*(panel.x_range or scales.x_range(panel)))
    axes.set_yticks(ticks, names)
    if panel.x_ticks:
        axes.set_xticks(panel.x_ticks, [number(tick) for tick in panel.x_ticks])
    elif panel.x_scale == "log":
        places = scales.log_ticks(*axes.get_xlim())
        axes.set_xticks(places, scales.tick_names(places))
    else:
        places = scales.even_ticks(*axes.get_xlim(), most=5 if width < WIDE / 2 else 8)
        axes.set_xticks(places, scales.tick_names(places))
    axes.minorticks_off()
    for departure in panel.departures:
        axes.axvline(departure, color=palette.LIGHT["faint"], linewidth=1, zorder=1)
    for level in panel.levels:
        _level(sheet, axes, level)
    for order, series in enumerate(panel.series):
        _line(axes, series, bottom=low, top=high, order=3 + order)
    for span in panel.spans:
        _span(sheet, axes, span)
    _label_ends(sheet, axes, panel.series, height=inner[1])


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
        axes.plot(
            where[1:], [top], color=colour, marker="^", markersize=8, clip_on=False, zorder=order
        )


def _level(sheet: Sheet, axes: Axes, level: Level) -> None:
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
        fontsize=sheet.size - 1,
        color=colour,
        zorder=20,
        path_effects=sheet.halo(),
        annotation_clip=False,
    )


def _span(sheet: Sheet, axes: Axes, span: Span) -> None:
    muted = palette.LIGHT["muted"]
    axes.annotate(
        "",
        xy=(span.x, span.low),
        xytext=(span.x, span.high),
        arrowprops={"arrowstyle": "<->", "color": muted, "linewidth": 1.1, "shrinkA": 1},
        zorder=19,
    )
    axes.annotate(
        span.label,
        xy=(span.x, math.sqrt(span.low * span.high)),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=sheet.size - 1,
        color=muted,
        path_effects=sheet.halo(),
        zorder=20,
    )


def _label(series: Series) -> str:
    return series.label if np.isfinite(series.y).all() else f"{series.label}: diverges"


def _label_ends(sheet: Sheet, axes: Axes, series: Sequence[Series], *, height: float) -> None:
    """Write every name next to the end of its line, moved apart where they would touch."""
    named = [one for one in series if one.label]
    to_axes = axes.transData - axes.transAxes
    ends = []
    for one in named:
        last = one.y[-1] if np.isfinite(one.y[-1]) else axes.get_ylim()[1]
        ends.append(np.clip(to_axes.transform((one.x[-1], max(last, 1e-300))), 0.0, 1.0))
    pixel = 1 / axes.get_window_extent().width
    places = scales.apart([float(end[1]) for end in ends], 1.25 * sheet.size / height)
    for one, end, place in zip(named, ends, places, strict=True):
        colour = palette.LIGHT[one.role]
        axes.text(
            1 + 14 * pixel,
            place,
            _label(one),
            transform=axes.transAxes,
            color=colour,
            fontsize=sheet.size,
            va="center_baseline",
        )
        axes.plot(
            [end[0] + 2 * pixel, 1 + 11 * pixel],
            [end[1], place],
            transform=axes.transAxes,
            color=colour,
            linewidth=0.9,
            clip_on=False,
            zorder=2,
        )
