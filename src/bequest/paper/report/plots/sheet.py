"""The sheet that a chart is drawn on, and what all its panels have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from bequest.paper.report import palette
from bequest.paper.report.charts import Strips

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bequest.paper.report.charts import Bars, Panel, Sizes

WIDE, NARROW = 960, 358
# Heights of the parts of a panel, and of a line of text, in pixels.
HEADER, FOOTER, LINE = 42, 44, 17


class Box(NamedTuple):
    """A rectangle on a sheet, in pixels from its upper left corner."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Sheet:
    """A figure measured in pixels from its upper left corner."""

    figure: Figure
    width: float
    height: float
    size: float
    alone: bool
    titled: bool

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Return axes that fill this rectangle."""
        x, y = left / self.width, 1 - (top + height) / self.height
        place = (x, y, width / self.width, height / self.height)
        return self.figure.add_axes(place, facecolor="none")

    def write(self, x: float, y: float, text: str, **style: Any) -> None:  # noqa: ANN401
        """Write, starting at x, on a line that ends at y."""
        usual: dict[str, Any] = {"fontsize": self.size, "color": palette.LIGHT["ink"]}
        self.figure.text(x / self.width, 1 - y / self.height, text, **(usual | style))

    def span(self, text: str, *, size: float | None = None) -> float:
        """Return how wide a text is."""
        from matplotlib.font_manager import FontProperties

        font = FontProperties(size=size or self.size)
        canvas: Any = self.figure.canvas
        width, _, _ = canvas.get_renderer().get_text_width_height_descent(text, font, False)
        return float(width)

    def halo(self) -> list[object]:
        """Return the effect that keeps text legible on lines; on the page, CSS does that."""
        if not self.alone:
            return []
        from matplotlib.patheffects import withStroke

        return [withStroke(linewidth=3, foreground=palette.LIGHT["page"])]


def header(sheet: Sheet, panel: Panel | Strips | Bars | Sizes, box: Box) -> None:
    """Write the title of a panel, and what its vertical axis shows."""
    if sheet.titled:
        sheet.write(box.left, box.top + 14, panel.title, fontweight="bold")
    if not isinstance(panel, Strips):
        style = {"color": palette.LIGHT["muted"], "fontsize": sheet.size - 0.5}
        sheet.write(box.left, box.top + 31, panel.y_label, **style)


def dress(sheet: Sheet, axes: Axes, *, x_label: str, grid: Literal["x", "y"]) -> None:
    """Style a pair of axes."""
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
