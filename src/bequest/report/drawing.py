"""What all figures share: paper, pen and colours.

With the modules that draw on it, the only place that knows matplotlib, and only while it draws.
Figures use the Figure class itself on the Agg and SVG back ends: no window system, no global
state, and the same picture everywhere.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from bequest import extras, files

if TYPE_CHECKING:
    from pathlib import Path

# Okabe and Ito's colours, told apart by everybody; strong ones last, as the last lines matter.
COLOURS = ("#000000", "#808080", "#E69F00", "#0072B2", "#CC79A7", "#009E73", "#D55E00")
INK, FAINT = "#222222", "#8c8c8c"


def canvas(width: float, height: float) -> Any:  # noqa: ANN401 - a matplotlib Figure
    """Return an empty figure of this many inches."""
    extras.need("plot", what="A figure")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def headed(figure: Any, title: str, subtitle: str, *, left: float) -> None:  # noqa: ANN401
    """Write a title and a subtitle at the top, rather small than cut off."""
    inch = 1 / figure.get_figheight()
    texts = [
        figure.text(left, 1 - 0.286 * inch, title, fontsize=12.5, fontweight="bold", color=INK),
        figure.text(left, 1 - 0.546 * inch, subtitle, fontsize=9.5, color="#555555"),
    ]
    room = (0.97 - left) * figure.bbox.width
    for text in texts:
        # Small letters are not quite proportional to large ones: ask again.
        while (width := text.get_window_extent(figure.canvas.get_renderer()).width) > room:
            text.set_fontsize(text.get_fontsize() * min(0.98, room / width))


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
