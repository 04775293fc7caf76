"""Marks over the sizes of messages, and the legend of the marks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bequest.paper.report import palette
from bequest.paper.report.charts import Bars, Mark, Panel, Sizes, Strips
from bequest.paper.report.plots import scales
from bequest.paper.report.plots.marks import mark_style, vertical

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

# Between the marks of one size and those of the next, in marks.
_SLOT_GAP = 1.2


def legend(panels: Sequence[Panel | Strips | Bars | Sizes]) -> list[Line2D]:
    """Return one mark of every name."""
    from matplotlib.lines import Line2D

    sizes = [panel for panel in panels if isinstance(panel, Sizes)]
    marks = {mark.name: mark for panel in sizes for mark in panel.marks}
    return [
        Line2D([], [], label=name, **mark_style(mark.shape, palette.LIGHT[mark.role]))
        for name, mark in marks.items()
    ]


def draw_sizes(axes: Axes, panel: Sizes, *, alone: bool) -> None:  # noqa: ARG001 - as all panels
    """Draw a panel of marks."""
    low, high = panel.ends
    pad = 10 ** (0.1 + 0.06 * math.log10(high / low))
    low, high = low / pad, high * pad
    vertical(axes, panel.y_label)
    axes.set(xlabel=panel.x_label, yscale="log", ylim=(low, high))
    ticks = scales.log_ticks(low, high, most=5)
    axes.set_yticks(ticks, scales.tick_names(ticks))
    axes.grid(axis="y")
    axes.spines["bottom"].set_visible(False)
    places, slots = _places(panel.marks)
    axes.set_xlim(-0.6, max(places) + 0.6)
    axes.set_xticks([(a + b) / 2 for a, b in slots.values()], [f"{size:g}" for size in slots])
    axes.tick_params(axis="x", length=0)
    for first, last in slots.values():
        axes.plot(
            [first - 0.5, last + 0.5],
            [0, 0],
            transform=axes.get_xaxis_transform(),
            color=palette.LIGHT["faint"],
            linewidth=1.5,
            clip_on=False,
        )
    seen = [min(max(mark.sample.median, low), high) for mark in panel.marks]
    for name in dict.fromkeys(mark.name for mark in panel.marks):
        mine = [index for index, mark in enumerate(panel.marks) if mark.name == name]
        x, y = ([numbers[index] for index in mine] for numbers in (places, seen))
        colour = palette.LIGHT[panel.marks[mine[0]].role]
        axes.plot(x, y, color=colour, linewidth=1.2, alpha=0.45, zorder=2)
    for mark, place, middle in zip(panel.marks, places, seen, strict=True):
        colour = palette.LIGHT[mark.role]
        axes.vlines(place, middle, min(max(mark.sample.worst, low), high), color=colour, zorder=3)
        outside = "v" if mark.sample.median < panel.floor else "^"
        shown = [(mark.shape if low < middle < high else outside, middle)]
        if mark.sample.diverged:
            shown.append(("^", high))
        for shape, height in shown:
            axes.plot(place, height, clip_on=False, zorder=5, **mark_style(shape, colour))


def _places(marks: Sequence[Mark]) -> tuple[list[float], dict[float, tuple[float, float]]]:
    """Return where each mark stands, and the first and last place of each size."""
    places, slots = [0.0] * len(marks), {}
    x = 0.0
    for size in sorted({mark.size for mark in marks}):
        mine = [index for index, mark in enumerate(marks) if mark.size == size]
        for step, index in enumerate(mine):
            places[index] = x + step
        slots[size] = (x, x + len(mine) - 1)
        x += len(mine) + _SLOT_GAP
    return places, slots
