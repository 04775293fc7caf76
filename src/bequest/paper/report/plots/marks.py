"""What the panels have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bequest.paper.report import palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def vertical(axes: Axes, label: str) -> None:
    """Write what the vertical axis shows into the second line of the title."""
    said = axes.annotate(
        label,
        xy=(0, 1),
        xycoords="axes fraction",
        xytext=(0, 8),
        textcoords="offset points",
        color=palette.LIGHT["muted"],
    )
    said.set_in_layout(False)


def halo(*, alone: bool) -> list[object]:
    """Return the effect that keeps text legible on lines; on the page, CSS does that."""
    if not alone:
        return []
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=3, foreground=palette.LIGHT["page"])]


def mark_style(shape: str, colour: str) -> dict[str, Any]:
    """Return how a mark of that shape is drawn."""
    return {
        "color": colour,
        "marker": shape,
        "linestyle": "none",
        "markersize": {"o": 6.0, "s": 5.6, "D": 5.2}.get(shape, 6.4),
        "markeredgewidth": 1.8 if shape == "x" else 0,
    }
