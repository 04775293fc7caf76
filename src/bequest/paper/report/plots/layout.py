"""Where the panels of a chart stand, and how tall each of them is."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from bequest.paper.report import palette
from bequest.paper.report.charts import Bars, Panel, Sizes, Strips
from bequest.paper.report.plots.lines import draw_lines
from bequest.paper.report.plots.sheet import FOOTER, HEADER, LINE, NARROW, Box, Sheet
from bequest.paper.report.plots.sizes import draw_legend, draw_sizes, legend_lines
from bequest.paper.report.plots.strips import draw_bars, draw_strips, rows_height

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from bequest.paper.report.charts import Chart

# Heights of the title, and between two rows of panels, in pixels.
_TITLE, _GAP = 40, 34
# At most this many panels stand side by side.
_ABREAST = 3
_DRAW: dict[type, Callable[..., None]] = {
    Panel: draw_lines,
    Strips: draw_strips,
    Bars: draw_bars,
    Sizes: draw_sizes,
}


def draw(chart: Chart, width: int, *, alone: bool) -> Figure:
    """Return a chart as a figure of that width; ``alone`` for a file of its own."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    narrow = width == NARROW
    columns = 1 if narrow else min(len(chart.panels), _ABREAST)
    rows = [chart.panels[i : i + columns] for i in range(0, len(chart.panels), columns)]
    heights = [max(_height(panel, columns, narrow=narrow) for panel in row) for row in rows]
    key = textwrap.wrap(chart.key, 150) if alone else []  # on the page, the caption says it
    top = _TITLE if alone else 0
    margin = 16 if alone else 0
    size = 11.5 if narrow else 12.5
    names = legend_lines(chart.panels, width, size)
    legend = (LINE + 3) * len(names) + 12 if names else 0
    between = _GAP * (len(rows) - 1)
    total = 2 * margin + top + legend + sum(heights) + between + LINE * len(key) + 6
    ground = palette.LIGHT["page"] if alone else "none"
    wide = width + 2 * margin
    figure = Figure(figsize=(wide / 72, total / 72), dpi=72, facecolor=ground)
    FigureCanvasAgg(figure)
    # a single panel in a file needs no title beside that of the file
    titled = not alone or len(chart.panels) > 1
    sheet = Sheet(figure, wide, total, size, alone, titled)
    y = float(margin + top)
    if alone:
        sheet.write(margin, margin + 18, chart.title, fontsize=15, fontweight="bold")
    draw_legend(sheet, names, margin, y)
    y += legend
    for row, height in zip(rows, heights, strict=True):
        share = (width - _GAP * (columns - 1)) / columns
        for index, panel in enumerate(row):
            left = margin + index * (share + _GAP)
            _DRAW[type(panel)](sheet, panel, Box(left, y, share, height))
        y += height + _GAP
    y += LINE - _GAP + 2
    for line in key:
        sheet.write(margin, y, line, fontsize=sheet.size - 1, color=palette.LIGHT["muted"])
        y += LINE
    return figure


def _height(panel: Panel | Strips | Bars | Sizes, columns: int, *, narrow: bool) -> float:
    if isinstance(panel, Strips):
        return HEADER + FOOTER + sum(rows_height(group) for group in panel.groups)
    if isinstance(panel, Sizes):
        return HEADER + FOOTER + 190
    if narrow:
        inner = 160 if isinstance(panel, Bars) else 230
    else:
        inner = {1: 360, 2: 280}.get(columns, 240)
    return HEADER + FOOTER + inner
