"""Marks over the sizes of messages, and the legend of the marks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bequest.paper.report import palette
from bequest.paper.report.charts import Sizes
from bequest.paper.report.plots import scales
from bequest.paper.report.plots.sheet import FOOTER, HEADER, LINE, Box, Sheet, dress, header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from bequest.paper.report.charts import Bars, Mark, Panel, Strips

# Between the marks of one size and those of the next, in marks.
_SLOT_GAP = 1.2


def legend_lines(
    panels: Sequence[Panel | Strips | Bars | Sizes], width: float, size: float
) -> list[list[tuple[Mark, float]]]:
    """Return one mark of every name with where it stands in the legend, line by line."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    marks = {
        mark.name: mark for panel in panels if isinstance(panel, Sizes) for mark in panel.marks
    }
    blank = Figure(dpi=72)
    FigureCanvasAgg(blank)
    ruler = Sheet(blank, width, width, size, alone=True, titled=True)
    lines: list[list[tuple[Mark, float]]] = []
    x = math.inf
    for mark in marks.values():
        room = 13 + ruler.span(mark.name) + 20
        if x + room - 20 > width:
            lines.append([])
            x = 0.0
        lines[-1].append((mark, x))
        x += room
    return lines


def draw_legend(
    sheet: Sheet, lines: Sequence[Sequence[tuple[Mark, float]]], left: float, top: float
) -> None:
    """Draw the legend at this place."""
    if not lines:
        return
    axes = sheet.axes(left, top, 100, (LINE + 3) * len(lines))
    axes.set_axis_off()
    axes.set_xlim(0, 100)
    axes.set_ylim((LINE + 3) * len(lines), 0)
    for row, line in enumerate(lines):
        y = (LINE + 3) * (row + 0.5)
        for mark, x in line:
            _mark(axes, mark.shape, x + 4, y, palette.LIGHT[mark.role])
            axes.text(
                x + 13,
                y,
                mark.name,
                color=palette.LIGHT[mark.role],
                fontsize=sheet.size,
                va="center_baseline",
            )


def draw_sizes(sheet: Sheet, panel: Sizes, box: Box) -> None:
    """Draw a panel of marks into this rectangle."""
    left, top, width, height = box
    header(sheet, panel, box)
    low, high = panel.ends
    pad = 10 ** (0.1 + 0.06 * math.log10(high / low))
    low, high = low / pad, high * pad
    ticks = scales.log_ticks(low, high, most=5)
    names = scales.tick_names(ticks)
    margin = max(sheet.span(name, size=sheet.size - 1) for name in names) + 9
    axes = sheet.axes(left + margin, top + HEADER, width - margin - 4, height - HEADER - FOOTER)
    dress(sheet, axes, x_label=panel.x_label, grid="y")
    axes.spines["bottom"].set_visible(False)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.set_yticks(ticks, names)
    places, slots, end = _places(panel.marks)
    axes.set_xlim(-0.6, end + 0.6)
    axes.set_xticks([(a + b) / 2 for a, b in slots.values()], [f"{size:g}" for size in slots])
    axes.tick_params(axis="x", length=0)
    axes.minorticks_off()
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
        axes.plot(
            [places[index] for index in mine],
            [seen[index] for index in mine],
            color=palette.LIGHT[panel.marks[mine[0]].role],
            linewidth=1.2,
            alpha=0.45,
            zorder=2,
        )
    for mark, x, y in zip(panel.marks, places, seen, strict=True):
        colour = palette.LIGHT[mark.role]
        worst = min(max(mark.sample.worst, low), high)
        axes.plot([x, x], [y, worst], color=colour, linewidth=1.4, zorder=3)
        outside = "v" if mark.sample.median < panel.floor else "^"
        shape = mark.shape if low < y < high else outside
        _mark(axes, shape, x, y, colour)
        if mark.sample.diverged:
            _mark(axes, "^", x, high, colour)


def _places(
    marks: Sequence[Mark],
) -> tuple[list[float], dict[float, tuple[float, float]], float]:
    """Return where each mark stands, the first and last place of each size, and the very last."""
    places, slots = [0.0] * len(marks), {}
    x = 0.0
    for size in sorted({mark.size for mark in marks}):
        mine = [index for index, mark in enumerate(marks) if mark.size == size]
        for step, index in enumerate(mine):
            places[index] = x + step
        slots[size] = (x, x + len(mine) - 1)
        x += len(mine) + _SLOT_GAP
    return places, slots, x - 1 - _SLOT_GAP


def _mark(axes: Axes, shape: str, x: float, y: float, colour: str) -> None:
    axes.plot(
        [x],
        [y],
        color=colour,
        marker=shape,
        markersize={"o": 6.0, "s": 5.6, "D": 5.2}.get(shape, 6.4),
        markeredgewidth=1.8 if shape == "x" else 0,
        clip_on=False,
        zorder=5,
    )
