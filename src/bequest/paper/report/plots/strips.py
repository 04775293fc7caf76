"""Samples as dots with bars around them, and counts as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bequest.paper.report import palette
from bequest.paper.report.charts import Bars, Dot, Group, Strips
from bequest.paper.report.plots import scales
from bequest.paper.report.plots.marks import halo, vertical

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Between two groups of dots, in rows.
_BETWEEN = 0.4


def rows(panel: Strips) -> float:
    """Return how many rows of dots a panel is tall."""
    return sum(bool(group.title) + len(group.dots) + _BETWEEN for group in panel.groups)


def draw_strips(axes: Axes, panel: Strips, *, alone: bool) -> None:
    """Draw a panel of dots."""
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
    axes.set(xlim=(low, high), ylim=(rows(panel), -0.3), xlabel=panel.x_label)
    axes.set_xticks(ticks, scales.tick_names(ticks))
    axes.grid(axis="x")
    places: dict[float, Dot] = {}
    headings: dict[float, Group] = {}
    y = 0.5
    for group in panel.groups:
        if group.title:
            headings[y] = group
            y += 1
        places |= {y + row: dot for row, dot in enumerate(group.dots)}
        y += len(group.dots) + _BETWEEN
    axes.set_yticks(list(places), [dot.name for dot in places.values()])
    labels = axes.get_yticklabels()
    for label, (place, dot) in zip(labels, places.items(), strict=True):
        label.set_color(palette.LIGHT[dot.role])
        _dot(axes, dot, place, high)
    longest = max(labels, key=lambda label: len(label.get_text()))
    style: dict[str, Any] = {"va": "center_baseline", "path_effects": halo(alone=alone)}
    for place, group in headings.items():
        # from where the longest name begins
        left, right = (longest, "data"), ("axes fraction", "data")
        axes.annotate(group.title, (0, place), xycoords=left, fontweight="bold", **style)
        axes.annotate(group.remark, (1, place), xycoords=right, ha="right", **style)


def _dot(axes: Axes, dot: Dot, y: float, edge: float) -> None:
    colour, sample = palette.LIGHT[dot.role], dot.sample
    cut = [
        min(end, edge)
        for end in (sample.smallest, sample.lower, sample.median, sample.upper, sample.largest)
    ]
    axes.hlines(y, cut[0], cut[4], color=colour, linewidth=1.2, zorder=3)
    axes.hlines(y, cut[1], cut[3], color=colour, linewidth=6, alpha=0.35, zorder=4)
    axes.plot(cut[2], y, "o", color=colour, markersize=6.5, markeredgewidth=0, zorder=5)
    if sample.diverged:
        axes.plot(edge, y, ">", color=colour, markersize=7, clip_on=False, zorder=5)
    if dot.printed is not None:
        ground = palette.LIGHT["page"]
        axes.plot(dot.printed, y, "D", color=colour, markersize=8, mfc=ground, mew=1.7, zorder=6)


def draw_bars(axes: Axes, panel: Bars, *, alone: bool) -> None:
    """Draw a panel of bars."""
    colour = palette.LIGHT[panel.role]
    axes.bar(panel.names, [panel.total] * len(panel.names), width=0.72, color=colour, alpha=0.1)
    bars = axes.bar(panel.names, panel.counts, width=0.72, color=colour)
    axes.bar_label(bars, padding=3, color=palette.LIGHT["ink"], path_effects=halo(alone=alone))
    vertical(axes, panel.y_label)
    axes.set(xlabel=panel.x_label, yticks=[], ylim=(0, panel.total * 1.12))
