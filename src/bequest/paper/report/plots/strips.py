"""Samples as dots with bars around them, and counts as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest.paper.report import palette
from bequest.paper.report.plots import scales
from bequest.paper.report.plots.sheet import FOOTER, HEADER, Box, Sheet, dress, header

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bequest.paper.report.charts import Bars, Dot, Group, Strips

# Heights of a dot, of a group's heading, and between two groups, in pixels.
_DOT, _GROUP, _BETWEEN = 21, 21, 9


def rows_height(group: Group) -> float:
    """Return how tall a group of dots is."""
    return (_GROUP if group.title else 0) + _DOT * len(group.dots) + _BETWEEN


def draw_strips(sheet: Sheet, panel: Strips, box: Box) -> None:
    """Draw a panel of dots into this rectangle."""
    left, top, width, height = box
    header(sheet, panel, box)
    head = HEADER - 14
    names = [dot.name for group in panel.groups for dot in group.dots]
    margin = max(sheet.span(name) for name in names) + 12
    inner = height - HEADER - FOOTER + 14
    axes = sheet.axes(left + margin, top + head, width - margin - 12, inner)
    dress(sheet, axes, x_label=panel.x_label, grid="x")
    low, high = panel.ends
    axes.set_xscale(panel.scale)
    if panel.scale == "log":
        pad = (high / low) ** 0.04 * 1.1
        low, high = low / pad, high * pad
        ticks = scales.log_ticks(low, high)
    else:
        ticks = scales.even_ticks(low, high)
        pad = 0.03 * (high - low)
        low, high = low - pad, high + pad
    axes.set_xlim(low, high)
    axes.set_ylim(inner, 0)
    axes.set_yticks([])
    axes.set_xticks(ticks, scales.tick_names(ticks))
    axes.minorticks_off()
    natural = sum(rows_height(group) for group in panel.groups)
    dot_height = _DOT + (inner - 14 - natural) / max(len(names), 1)
    y = 4.0
    for group in panel.groups:
        if group.title:
            sheet.write(left, top + head + y + 13, group.title, fontweight="bold")
            axes.annotate(
                group.remark,
                xy=(1.0, y + 8),
                xycoords=("axes fraction", "data"),
                ha="right",
                va="center_baseline",
                fontsize=sheet.size - 0.5,
                color=palette.LIGHT["ink"],
                path_effects=sheet.halo(),
            )
            y += _GROUP
        for dot in group.dots:
            sheet.write(
                left + margin - 8,
                top + head + y + dot_height / 2,
                dot.name,
                color=palette.LIGHT[dot.role],
                ha="right",
                va="center_baseline",
            )
            _dot(axes, dot, y + dot_height / 2, high)
            y += dot_height
        y += _BETWEEN


def _dot(axes: Axes, dot: Dot, y: float, edge: float) -> None:
    colour, sample = palette.LIGHT[dot.role], dot.sample
    cut = [
        min(end, edge)
        for end in (sample.smallest, sample.lower, sample.median, sample.upper, sample.largest)
    ]
    axes.plot([cut[0], cut[4]], [y, y], color=colour, linewidth=1.2, zorder=3)
    axes.plot(
        [cut[1], cut[3]],
        [y, y],
        color=colour,
        linewidth=6,
        alpha=0.35,
        solid_capstyle="butt",
        zorder=4,
    )
    axes.plot([cut[2]], [y], "o", color=colour, markersize=6.5, markeredgewidth=0, zorder=5)
    if sample.diverged:
        axes.plot([edge], [y], ">", color=colour, markersize=7, clip_on=False, zorder=5)
    if dot.printed is not None:
        axes.plot(
            [dot.printed],
            [y],
            "D",
            color=colour,
            markersize=8,
            markerfacecolor=palette.LIGHT["page"],
            markeredgewidth=1.7,
            zorder=6,
        )


def draw_bars(sheet: Sheet, panel: Bars, box: Box) -> None:
    """Draw a panel of bars into this rectangle."""
    left, top, width, height = box
    header(sheet, panel, box)
    axes = sheet.axes(left + 4, top + HEADER, width - 14, height - HEADER - FOOTER)
    dress(sheet, axes, x_label=panel.x_label, grid="y")
    places = range(len(panel.names))
    colour = palette.LIGHT[panel.role]
    axes.bar(places, [panel.total] * len(panel.names), width=0.72, color=colour, alpha=0.1)
    axes.bar(places, panel.counts, width=0.72, color=colour)
    axes.set_xticks(list(places), panel.names)
    axes.set_yticks([])
    axes.set_ylim(0, panel.total * 1.12)
    axes.set_xlim(-0.6, len(panel.names) - 0.4)
    for place, count in zip(places, panel.counts, strict=True):
        axes.annotate(
            str(count),
            xy=(place, count),
            xytext=(0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=sheet.size - 1,
            color=palette.LIGHT["ink"],
            path_effects=sheet.halo(),
        )
