"""The figure of the demonstration: the network with its heirs, and the recall of every digit.

The module imports matplotlib only while it draws. It uses the Figure class itself on the Agg and
SVG back ends: no window system, no global state, and the same picture everywhere.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

from bequest import extras, files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bequest.data import Score
    from bequest.model.run import Run

_INK, _FAINT = "#222222", "#8c8c8c"
# For the models: without departures, classic, and the wills. Okabe and Ito's colours, which people
# with any colour vision can tell apart.
_COLOURS = ("#808080", "#000000", "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00")
# For heirs and what they inherited, whatever the will.
_HEIR, _HEIR_PALE = "#5B3A8C", "#e6def2"
_RADIUS = 0.115
# in inches: the figure's width, the heights of its head, of one row of bars and of its foot
_WIDE, _HEAD, _ROW, _FOOT = 10.0, 1.0, 1.05, 0.4


def draw(
    run: Run,
    columns: Mapping[str, Mapping[str, Score]],
    *,
    title: str,
    subtitle: str = "",
) -> Any:  # noqa: ANN401 - a matplotlib Figure
    """Return a figure of a network whose node i holds class i, and of the recall of every class.

    Args:
        run: the run whose heirs are drawn.
        columns: heading -> name of a model -> its score; the first model is the reference, drawn
            behind the others as an outline. A model has the same place in every column, but its
            name may say something else there.
        title: what the figure shows.
        subtitle: the setting.

    Raises:
        NotInstalled: matplotlib is not installed.
    """
    extras.need("plot", what="A figure")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = max(len(scores) for scores in columns.values())
    tall = _HEAD + _ROW * rows + _FOOT
    figure = Figure(figsize=(_WIDE, tall), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)
    _network(figure.add_axes((0.01, _FOOT / 2 / tall, 0.385, 1 - (_HEAD + _FOOT / 2) / tall)), run)
    leavers = set(range(run.graph.n)).difference(run.survivors)
    left, right, gap = 0.425, 0.975, 0.04
    width = (right - left - gap * (len(columns) - 1)) / len(columns)
    for place, (heading, scores) in enumerate(columns.items()):
        x = left + place * (width + gap)
        figure.text(x, 1 - _HEAD / tall, heading, fontsize=9.5, color=_INK)
        reference = next(iter(scores.values()))
        for row, (name, score) in enumerate(scores.items()):
            bottom = 1 - (_HEAD + _ROW * (row + 1)) / tall
            axes = figure.add_axes((x, bottom, width, 0.62 * _ROW / tall))
            colour = _COLOURS[row % len(_COLOURS)]
            _bars(axes, score, reference, leavers, colour=colour)
            _caption(axes, name, score.accuracy)
            if row < len(scores) - 1:
                axes.tick_params(labelbottom=False)
    _head(figure, title, subtitle, left=0.025)
    return figure


def save(figure: Any, folder: Path, name: str) -> list[Path]:  # noqa: ANN401
    """Write a figure as ``name.png`` and ``name.svg``, each whole or not at all; return where."""
    import matplotlib as mpl

    written = []
    # Without dates and random ids, the same runs give the same files.
    with mpl.rc_context({"svg.hashsalt": "bequest"}):
        for suffix in ("png", "svg"):
            buffer = io.BytesIO()
            metadata = {"Date": None} if suffix == "svg" else {"Software": None}
            figure.savefig(buffer, format=suffix, metadata=metadata)
            path = folder / f"{name}.{suffix}"
            files.write(path, buffer.getvalue())
            written.append(path)
    return written


def _head(figure: Any, title: str, subtitle: str, *, left: float) -> None:  # noqa: ANN401
    """Write a title and a subtitle at the top, small enough to fit."""
    inch = 1 / figure.get_figheight()
    texts = [
        figure.text(left, 1 - 0.286 * inch, title, fontsize=12.5, fontweight="bold", color=_INK),
        figure.text(left, 1 - 0.546 * inch, subtitle, fontsize=9.5, color="#555555"),
    ]
    room = (0.97 - left) * figure.bbox.width
    for text in texts:
        # Text does not shrink in exact proportion to its font size: measure again.
        while (width := text.get_window_extent(figure.canvas.get_renderer()).width) > room:
            text.set_fontsize(text.get_fontsize() * min(0.98, room / width))


# --- the network --------------------------------------------------------------------------


def _network(axes: Any, run: Run) -> None:  # noqa: ANN401
    """Draw the nodes in a circle: those that left faded, with an arrow to their heir."""
    from matplotlib.patches import Circle, FancyArrowPatch

    n = run.graph.n
    places = [
        (math.sin(2 * math.pi * node / n), math.cos(2 * math.pi * node / n)) for node in range(n)
    ]
    left = set(range(n)).difference(run.survivors)
    departures = [record for record in run.departures if record.node in left]
    heirs: dict[int, list[int]] = {}
    for record in departures:
        if record.heir is not None:
            heirs.setdefault(record.heir, []).append(record.node)
    for one, other in run.graph.edges.tolist():
        gone = bool({one, other} & left)
        _line(axes, places[one], places[other], colour="#e2e2e2" if gone else "#b5b5b5")
    for record in run.departures:
        for one, other in record.bridges:
            _line(axes, places[one], places[other], colour="#b5b5b5", style=(0, (3, 2)))
    for node, place in enumerate(places):
        gone, heir = node in left, node in heirs and node not in left
        axes.add_patch(
            Circle(
                place,
                _RADIUS,
                facecolor="white" if gone else _HEIR_PALE if heir else "#eeeeee",
                edgecolor="#c8c8c8" if gone else _HEIR if heir else "#777777",
                linestyle=(0, (3, 2)) if gone else "solid",
                linewidth=1.6 if heir else 1.1,
                zorder=4,
            )
        )
        axes.text(
            *place,
            str(node),
            ha="center",
            va="center_baseline",
            fontsize=13,
            fontweight="normal" if gone else "bold",
            color="#aaaaaa" if gone else _INK,
            zorder=5,
        )
        if heir:
            inherited = " ".join(f"+{one}" for one in _lineage(node, heirs))
            outward = (place[0] * 1.22, place[1] * 1.22)
            axes.text(*outward, inherited, ha="center", va="center", fontsize=9.5, color=_HEIR)
    for record in departures:
        if record.heir is not None:
            axes.add_patch(
                FancyArrowPatch(
                    places[record.node],
                    places[record.heir],
                    arrowstyle="-|>,head_length=5,head_width=3",
                    connectionstyle="arc3,rad=0.25",
                    shrinkA=17,
                    shrinkB=18,
                    linewidth=1.6,
                    color=_HEIR,
                    zorder=3,
                )
            )
    if heirs:
        key = "dashed: has left   arrow: to its heir\n+: the nodes that an heir remembers"
        axes.text(0, -1.52, key, ha="center", va="center", fontsize=9, color="#555555")
    axes.set_xlim(-1.3, 1.3)
    axes.set_ylim(-1.65, 1.3)
    axes.set_aspect("equal")
    axes.axis("off")


def _lineage(heir: int, heirs: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the nodes that an heir remembers in the end, of leavers and of their own leavers."""
    remembered = []
    for node in heirs.get(heir, ()):
        remembered += [node, *_lineage(node, heirs)]
    return remembered


def _line(
    axes: Any,  # noqa: ANN401
    one: tuple[float, float],
    other: tuple[float, float],
    *,
    colour: str,
    style: Any = "solid",  # noqa: ANN401 - matplotlib's many ways to say dashed
) -> None:
    axes.plot(*zip(one, other, strict=True), color=colour, linestyle=style, linewidth=1.1, zorder=1)


# --- the bars -----------------------------------------------------------------------------


def _bars(axes: Any, score: Score, reference: Score, leavers: set[int], *, colour: str) -> None:  # noqa: ANN401
    """Draw one bar per class, strong where the silo left, with the reference as an outline."""
    values = [value or 0.0 for value in score.recall.values()]
    wanted = [value or 0.0 for value in reference.recall.values()]
    classes = range(len(values))
    axes.bar(
        classes, wanted, width=0.74, facecolor="none", edgecolor="#c4c4c4", linewidth=0.7, zorder=2
    )
    for number in classes:
        strong = number in leavers
        axes.bar(
            number,
            values[number],
            width=0.74,
            color=colour,
            alpha=1.0 if strong else 0.28,
            linewidth=0,
            zorder=3,
        )
        if values[number] == 0:
            axes.text(
                number,
                0.06,
                "0",
                ha="center",
                va="bottom",
                fontsize=9,
                fontweight="bold",
                color=colour,
                zorder=4,
            )
    axes.set_xlim(-0.6, len(values) - 0.4)
    axes.set_ylim(0, 1.02)
    axes.set_yticks([])
    axes.set_xticks(list(classes), list(score.recall))
    axes.tick_params(length=0, labelsize=9.5, colors=_INK, pad=3)
    for number, text in enumerate(axes.get_xticklabels()):
        text.set_fontweight("bold" if number in leavers else "normal")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_FAINT)


def _caption(axes: Any, name: str, accuracy: float) -> None:  # noqa: ANN401
    common = {"transform": axes.transAxes, "fontsize": 9, "va": "bottom", "color": _INK}
    axes.text(0.0, 1.06, name, ha="left", **common)
    axes.text(1.0, 1.06, f"{accuracy:.1%}", ha="right", fontweight="bold", **common)
