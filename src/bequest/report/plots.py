"""Charts, drawn: twice for the page (for laptops and for phones), once for each file.

Everything is laid out in pixels, so that text has the same size on both. The page's figures are
text and paths in the page's own fonts and in colours that are CSS variables, so that they follow
its theme; the files are self-sufficient and light.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bequest import extras
from bequest.report import palette, scales
from bequest.report.charts import Bars, Panel, Sizes, Strips
from bequest.report.measures import number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bequest.report.charts import Chart, Dot, Group, Level, Mark, Series, Span

WIDE, NARROW = 960, 358
_DASHES = {"solid": "solid", "dashed": (0, (5, 3)), "dotted": (0, (1, 2)), "none": "none"}
# Heights of the parts of a picture, in pixels.
_TITLE, _HEADER, _FOOTER, _LINE, _GAP = 40, 42, 44, 17, 34
_DOT, _GROUP, _BETWEEN = 21, 21, 9
# Side by side there are at most so many panels.
_ABREAST = 3
# Between the marks of one size and those of the next, in marks.
_SLOT_GAP = 1.2


def themed(chart: Chart, *, name: str) -> str:
    """Return a chart as two SVG elements, for wide and for narrow screens, to stand in a page.

    Args:
        chart: what to draw.
        name: unique within the page.
    """
    parts = []
    for width, kind in ((WIDE, "wide"), (NARROW, "narrow")):
        with _settings(text=True):
            svg = _svg(_draw(chart, width, alone=False))
        parts.append(_adapted(svg, name=f"{name}-{kind}", kind=kind, text=chart.text))
    return "\n".join(parts)


def files(chart: Chart) -> dict[str, bytes]:
    """Return a chart as the contents of an SVG and of a PNG file, by suffix."""
    with _settings(text=False):
        figure = _draw(chart, WIDE, alone=True)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=144, metadata={"Software": None})
        return {"svg": _svg(figure).encode(), "png": buffer.getvalue()}


@contextmanager
def _settings(*, text: bool) -> Iterator[None]:
    """Use matplotlib's own defaults, whatever the user has set, and no dates or random names."""
    extras.need("plot", what="A chart")
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams["svg.hashsalt"] = "bequest"
        mpl.rcParams["svg.fonttype"] = "none" if text else "path"
        yield


def _svg(figure: Figure) -> str:
    buffer = io.BytesIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing)
    return buffer.getvalue().decode()


def _adapted(svg: str, *, name: str, kind: str, text: str) -> str:
    """Turn a file into an element: the page's fonts and colours, names that stay unique."""
    body = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="([^"]*)"', body)
    inside = body[body.index(">") + 1 :].strip()
    inside = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", inside, flags=re.DOTALL)
    inside = re.sub(r"font-family:[^;\"]*;?\s*", "", inside)
    inside = re.sub(r' transform="rotate\(-0 [^"]*"', "", inside)
    inside = re.sub(r' id="(?![mp][0-9a-f]{10}")[^"]*"', "", inside)
    inside = re.sub(r'(id="|url\(#|href="#)([mp][0-9a-f]{10})', rf"\g<1>{name}-\g<2>", inside)
    inside = inside.replace("xlink:href", "href")
    inside = re.sub(r"-?\d+\.\d{2,}", lambda found: f"{float(found[0]):.2f}", inside)
    inside = re.sub(r"\s*\n\s*", "\n", inside)
    for role, colour in palette.LIGHT.items():
        inside = inside.replace(colour, f"var(--{role})")
    return (
        f'<svg class="{kind}" viewBox="{box[1] if box else ""}" role="img" '
        f'aria-label="{escape(text)}">\n{inside}'
    )


# Laying out


@dataclass(frozen=True, slots=True)
class _Sheet:
    """A figure measured in pixels from its upper left corner."""

    figure: Figure
    width: float
    height: float
    size: float
    alone: bool
    titled: bool

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Return axes that fill this rectangle."""
        return self.figure.add_axes(
            (
                left / self.width,
                1 - (top + height) / self.height,
                width / self.width,
                height / self.height,
            ),
            facecolor="none",
        )

    def write(self, x: float, y: float, text: str, **style: Any) -> None:  # noqa: ANN401
        """Write, starting at x, on a line that ends at y."""
        options: dict[str, Any] = {
            "fontsize": self.size,
            "color": palette.LIGHT["ink"],
            **style,
        }
        self.figure.text(x / self.width, 1 - y / self.height, text, **options)

    def span(self, text: str, *, size: float | None = None, bold: bool = False) -> float:
        """Return how wide a text is."""
        from matplotlib.font_manager import FontProperties

        font = FontProperties(size=size or self.size, weight="bold" if bold else "normal")
        canvas: Any = self.figure.canvas
        width, _, _ = canvas.get_renderer().get_text_width_height_descent(text, font, False)
        return float(width)

    def halo(self) -> list[object]:
        """Return the effect that keeps text legible on lines; on the page, CSS does that."""
        if not self.alone:
            return []
        from matplotlib.patheffects import withStroke

        return [withStroke(linewidth=3, foreground=palette.LIGHT["page"])]


def _draw(chart: Chart, width: int, *, alone: bool) -> Figure:
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
    names = _names(chart.panels, width, size)
    legend = (_LINE + 3) * len(names) + 12 if names else 0
    between = _GAP * (len(rows) - 1)
    total = 2 * margin + top + legend + sum(heights) + between + _LINE * len(key) + 6
    ground = palette.LIGHT["page"] if alone else "none"
    wide = width + 2 * margin
    figure = Figure(figsize=(wide / 72, total / 72), dpi=72, facecolor=ground)
    FigureCanvasAgg(figure)
    # a single panel in a file needs no title beside that of the file
    titled = not alone or len(chart.panels) > 1
    sheet = _Sheet(figure, wide, total, size, alone, titled)
    y = float(margin + top)
    if alone:
        sheet.write(margin, margin + 18, chart.title, fontsize=15, fontweight="bold")
    _legend(sheet, names, margin, y)
    y += legend
    for row, height in zip(rows, heights, strict=True):
        gap = _GAP
        share = (width - gap * (columns - 1)) / columns
        for index, panel in enumerate(row):
            left = margin + index * (share + gap)
            match panel:
                case Panel():
                    _lines(sheet, panel, left, y, share, height)
                case Strips():
                    _strips(sheet, panel, left, y, share, height)
                case Bars():
                    _bars(sheet, panel, left, y, share, height)
                case Sizes():
                    _sizes(sheet, panel, left, y, share, height)
        y += height + _GAP
    y += _LINE - _GAP + 2
    for line in key:
        sheet.write(margin, y, line, fontsize=sheet.size - 1, color=palette.LIGHT["muted"])
        y += _LINE
    return figure


def _height(panel: Panel | Strips | Bars | Sizes, columns: int, *, narrow: bool) -> float:
    if isinstance(panel, Strips):
        return _HEADER + _FOOTER + sum(_rows_height(group) for group in panel.groups)
    if isinstance(panel, Sizes):
        return _HEADER + _FOOTER + 190
    if narrow:
        inner = 160 if isinstance(panel, Bars) else 230
    else:
        inner = {1: 360, 2: 280}.get(columns, 240)
    return _HEADER + _FOOTER + inner


def _rows_height(group: Group) -> float:
    return (_GROUP if group.title else 0) + _DOT * len(group.dots) + _BETWEEN


def _header(sheet: _Sheet, panel: Panel | Strips | Bars | Sizes, left: float, top: float) -> None:
    if sheet.titled:
        sheet.write(left, top + 14, panel.title, fontweight="bold")
    if not isinstance(panel, Strips):
        muted = palette.LIGHT["muted"]
        sheet.write(left, top + 31, panel.y_label, color=muted, fontsize=sheet.size - 0.5)


def _dress(sheet: _Sheet, axes: Axes, *, x_label: str, grid: Literal["x", "y"]) -> None:
    colours = palette.LIGHT
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(colours["faint"])
    axes.tick_params(colors=colours["muted"], which="both", length=0, labelsize=sheet.size - 1)
    axes.tick_params(axis="x", length=3, color=colours["faint"])
    axes.grid(visible=True, axis=grid, which="major", color=colours["grid"], linewidth=1)
    axes.minorticks_off()
    axes.set_axisbelow(True)
    axes.set_xlabel(x_label, color=colours["muted"], fontsize=sheet.size - 0.5, labelpad=5)


# Lines


def _lines(
    sheet: _Sheet, panel: Panel, left: float, top: float, width: float, height: float
) -> None:
    _header(sheet, panel, left, top)
    low, high = panel.y_range or scales.y_range(panel)
    ticks = scales.log_ticks(low, high) if panel.y_scale == "log" else scales.even_ticks(low, high)
    names = scales.tick_names(ticks)
    left_margin = max(sheet.span(name, size=sheet.size - 1) for name in names) + 9
    labels = [_label(series) for series in panel.series if series.label]
    longest = max((sheet.span(label) for label in labels), default=0.0)
    right_margin = longest + 16 if labels else 10
    inner = (width - left_margin - right_margin, height - _HEADER - _FOOTER)
    axes = sheet.axes(left + left_margin, top + _HEADER, *inner)
    _dress(sheet, axes, x_label=panel.x_label, grid="y")
    axes.set_yscale(panel.y_scale)
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
    floor = bottom / 10 if axes.get_yscale() == "log" else -np.inf
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


def _level(sheet: _Sheet, axes: Axes, level: Level) -> None:
    colour = palette.LIGHT[level.role]
    style: dict[str, Any] = {
        "color": colour,
        "linestyle": _DASHES[level.line],
        "linewidth": 1.3,
        "zorder": 2,
    }
    words: dict[str, Any] = {
        "fontsize": sheet.size - 1,
        "color": colour,
        "zorder": 20,
        "path_effects": sheet.halo(),
        "textcoords": "offset points",
        "annotation_clip": False,
    }
    if level.axis == "y":
        axes.axhline(level.at, **style)
        start = level.place == "start"
        axes.annotate(
            level.label,
            xy=(0.0 if start else 1.0, level.at),
            xycoords=("axes fraction", "data"),
            xytext=(4 if start else -4, 4),
            ha="left" if start else "right",
            **words,
        )
    else:
        axes.axvline(level.at, **style)
        axes.annotate(
            level.label,
            xy=(level.at, 1.0 if level.place == "end" else 0.0),
            xycoords=("data", "axes fraction"),
            xytext=(5, -10 if level.place == "end" else 6),
            ha="left",
            **words,
        )


def _span(sheet: _Sheet, axes: Axes, span: Span) -> None:
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


def _label_ends(sheet: _Sheet, axes: Axes, series: Sequence[Series], *, height: float) -> None:
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


# Dots and bars


def _strips(
    sheet: _Sheet, panel: Strips, left: float, top: float, width: float, height: float
) -> None:
    _header(sheet, panel, left, top)
    head = _HEADER - 14
    names = [dot.name for group in panel.groups for dot in group.dots]
    margin = max(sheet.span(name) for name in names) + 12
    inner = height - _HEADER - _FOOTER + 14
    axes = sheet.axes(left + margin, top + head, width - margin - 12, inner)
    _dress(sheet, axes, x_label=panel.x_label, grid="x")
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
    natural = sum(_rows_height(group) for group in panel.groups)
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


def _bars(sheet: _Sheet, panel: Bars, left: float, top: float, width: float, height: float) -> None:
    _header(sheet, panel, left, top)
    axes = sheet.axes(left + 4, top + _HEADER, width - 14, height - _HEADER - _FOOTER)
    _dress(sheet, axes, x_label=panel.x_label, grid="y")
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


# Marks over sizes


def _names(
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
    ruler = _Sheet(blank, width, width, size, alone=True, titled=True)
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


def _legend(
    sheet: _Sheet, lines: Sequence[Sequence[tuple[Mark, float]]], left: float, top: float
) -> None:
    if not lines:
        return
    axes = sheet.axes(left, top, 100, (_LINE + 3) * len(lines))
    axes.set_axis_off()
    axes.set_xlim(0, 100)
    axes.set_ylim((_LINE + 3) * len(lines), 0)
    for row, line in enumerate(lines):
        y = (_LINE + 3) * (row + 0.5)
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


def _sizes(
    sheet: _Sheet, panel: Sizes, left: float, top: float, width: float, height: float
) -> None:
    _header(sheet, panel, left, top)
    low, high = panel.ends
    pad = 10 ** (0.1 + 0.06 * math.log10(high / low))
    low, high = low / pad, high * pad
    ticks = scales.log_ticks(low, high, most=5)
    names = scales.tick_names(ticks)
    margin = max(sheet.span(name, size=sheet.size - 1) for name in names) + 9
    axes = sheet.axes(left + margin, top + _HEADER, width - margin - 4, height - _HEADER - _FOOTER)
    _dress(sheet, axes, x_label=panel.x_label, grid="y")
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
