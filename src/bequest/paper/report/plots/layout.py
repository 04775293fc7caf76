"""Where the panels of a chart stand, and how tall each of them is."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from bequest.paper.report import palette
from bequest.paper.report.charts import Bars, Chart, Panel, Sizes, Strips
from bequest.paper.report.plots.lines import draw_lines
from bequest.paper.report.plots.sizes import draw_sizes, legend
from bequest.paper.report.plots.strips import draw_bars, draw_strips, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure, FigureBase

# The widths of a figure, in pixels.
WIDE, NARROW = 960, 358
# At most this many panels stand side by side.
_ABREAST = 3
# The heights of what is around a panel, of a row of dots, and of a line of text.
_AROUND, _ROW, _LINE = 90, 21, 17
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
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = 1 if width == NARROW else min(len(chart.panels), _ABREAST)
    shelves = [chart.panels[i : i + columns] for i in range(0, len(chart.panels), columns)]
    heights = [max(_height(panel, columns, width) for panel in shelf) for shelf in shelves]
    key = textwrap.wrap(chart.key, 150) if alone else []  # on the page, the caption says it
    names, columns_of_names = legend(chart.panels), 2 if width == NARROW else 5
    above = _LINE * -(-len(names) // columns_of_names)
    around = above + _LINE * (len(key) + 2) if alone else above
    figure = Figure(
        figsize=(width / 72, (sum(heights) + around) / 72),
        dpi=72,
        facecolor=palette.LIGHT["page"] if alone else "none",
        layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.08),
    )
    FigureCanvasAgg(figure)
    if alone:
        figure.suptitle(chart.title, x=0.01, ha="left", fontsize=15, fontweight="bold")
        muted = palette.LIGHT["muted"]
        figure.supxlabel("\n".join(key), x=0.01, ha="left", color=muted, fontsize="medium")
    body: FigureBase = figure
    if names:
        parts: Any = figure.subfigures(2, 1, height_ratios=[above, sum(heights)])
        parts[0].legend(handles=names, ncols=columns_of_names, loc="center left")
        body = parts[1]
    grid = body.subplots(len(shelves), columns, squeeze=False, height_ratios=heights)
    for axes, panel in zip_longest(grid.flat, chart.panels):
        if panel is None:
            axes.set_axis_off()
            continue
        # one panel in a file has the title of the file; the second line is for the vertical axis
        title = "" if alone and len(chart.panels) == 1 else panel.title
        axes.set_title(title if isinstance(panel, Strips) else f"{title}\n", loc="left")
        _DRAW[type(panel)](axes, panel, alone=alone)
        axes.minorticks_off()
    # once for all files that it is saved to
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    # The solver's last digits differ from run to run, and names in a file are made of them.
    for axes in figure.axes:
        left, bottom, wide, high = (round(float(end), 5) for end in axes.get_position().bounds)
        axes.set_position((left, bottom, wide, high))
    return figure


def _height(panel: Panel | Strips | Bars | Sizes, columns: int, width: int) -> float:
    if isinstance(panel, Strips):
        return _AROUND + _ROW * rows(panel)
    if isinstance(panel, Sizes):
        return _AROUND + 190
    if width == NARROW:
        return _AROUND + (160 if isinstance(panel, Bars) else 230)
    return _AROUND + {1: 360, 2: 280}.get(columns, 240)
