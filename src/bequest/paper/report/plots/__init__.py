"""Charts, drawn: twice for the page (for laptops and for phones), once for each file.

All lengths are in pixels, so that text has the same size on both. The page's figures are text and
paths in the page's own fonts and in colours that are CSS variables, so that they follow its theme;
the files need nothing else and are light.
"""

from __future__ import annotations

import io
import re
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING

from bequest import extras
from bequest.paper.report import palette
from bequest.paper.report.plots.layout import NARROW, WIDE, draw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

    from bequest.paper.report.charts import Chart


_MUTED, _FAINT = palette.LIGHT["muted"], palette.LIGHT["faint"]
_STYLE = {
    "svg.hashsalt": "bequest",
    "text.color": palette.LIGHT["ink"],
    "axes.axisbelow": True,
    "axes.edgecolor": _FAINT,
    "axes.facecolor": "none",
    "axes.labelcolor": _MUTED,
    "axes.labelsize": "medium",
    "axes.labelpad": 5,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "axes.titleweight": "bold",
    "axes.xmargin": 0,
    "grid.color": palette.LIGHT["grid"],
    "grid.linewidth": 1,
    "legend.frameon": False,
    "legend.handletextpad": 0,
    "legend.labelcolor": "linecolor",
    "xtick.color": _FAINT,
    "xtick.labelcolor": _MUTED,
    "xtick.minor.size": 0,
    "ytick.color": _MUTED,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
}


def themed(chart: Chart, *, name: str) -> str:
    """Return a chart as two SVG elements, for wide and for narrow screens, to stand in a page.

    ``name`` is unique within the page.
    """
    parts = []
    for width, kind in ((WIDE, "wide"), (NARROW, "narrow")):
        with _settings(text=True, size=11 if width == NARROW else 12):
            svg = _svg(draw(chart, width, alone=False))
        parts.append(_adapted(svg, name=f"{name}-{kind}", kind=kind, text=chart.text))
    return "\n".join(parts)


def files(chart: Chart) -> dict[str, bytes]:
    """Return a chart as the contents of an SVG and of a PNG file, by suffix."""
    with _settings(text=False, size=12):
        figure = draw(chart, WIDE, alone=True)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=144, metadata={"Software": None})
        return {"svg": _svg(figure).encode(), "png": buffer.getvalue()}


@contextmanager
def _settings(*, text: bool, size: float) -> Iterator[None]:
    """Use our style instead of the user's, and no dates or random names."""
    extras.need("plot", what="A chart")
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        mpl.rcParams["font.size"] = size
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
