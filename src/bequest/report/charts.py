"""What a figure shows, as plain data; how it is drawn is for ``bequest.report.plots``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.report.measures import Sample

Scale = Literal["linear", "log"]
Shape = Literal["o", "x", "D", "s", "^"]


@dataclass(frozen=True, slots=True)
class Series:
    """A line, or points, with a band around it.

    Attributes:
        role: the colour's role in the palette.
        x: where.
        y: the line; where it is infinite, the line leaves at the top and is labelled so.
        low: the lower end of the band, if there is one.
        high: its upper end.
        label: written at the end of the line; none if empty.
        line: how it is drawn.
        marker: at every point; none if empty.
        width: of the line.
        faint: drawn as a broad pale line, below another one that it coincides with.
    """

    role: str
    x: Vector
    y: Vector
    low: Vector | None = None
    high: Vector | None = None
    label: str = ""
    line: Literal["solid", "dashed", "dotted", "none"] = "solid"
    marker: Literal["", "o", "x"] = ""
    width: float = 2.0
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """A straight line across, at a number that is not measured here but claimed or given."""

    at: float
    role: str
    label: str
    axis: Literal["x", "y"] = "y"
    line: Literal["solid", "dashed", "dotted"] = "dashed"
    place: Literal["start", "end"] = "start"


@dataclass(frozen=True, slots=True)
class Span:
    """A double arrow from one height to another, with its meaning beside it."""

    x: float
    low: float
    high: float
    label: str


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines over a pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_scale: Scale = "linear"
    y_scale: Scale = "log"
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    x_ticks: tuple[float, ...] = ()
    departures: tuple[float, ...] = ()
    levels: tuple[Level, ...] = ()
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Bars:
    """How many of all, at each of several places."""

    title: str
    x_label: str
    y_label: str
    role: str
    names: tuple[str, ...]
    counts: tuple[int, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Dot:
    """A sample as a dot (median), a thick bar (quartiles) and a thin one (all seeds).

    ``printed`` is what the paper has for it, a hollow diamond.
    """

    name: str
    role: str
    sample: Sample
    printed: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Dots under one heading, with a remark at its end."""

    title: str
    dots: tuple[Dot, ...]
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Strips:
    """Groups of dots over one axis; a linear one needs its range."""

    title: str
    x_label: str
    groups: tuple[Group, ...]
    x_range: tuple[float, float] | None = None
    scale: Scale = "log"

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest number to be seen."""
        if self.x_range is not None:
            return self.x_range
        seen = [
            value
            for group in self.groups
            for dot in group.dots
            for value in (*dot.sample.values, dot.printed)
            if value is not None and 0 < value < math.inf
        ]
        return (min(seen), max(seen)) if seen else (0.1, 1.0)


@dataclass(frozen=True, slots=True)
class Mark:
    """A sample over a size: its median, and a line to the worst of it.

    Marks of one name are joined.
    """

    name: str
    role: str
    size: float
    sample: Sample
    shape: Shape = "o"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Marks in the order of their sizes, not to scale, over a logarithmic axis.

    ``floor`` is where numbers are nothing but rounding; below it they are at the lower edge.
    """

    title: str
    x_label: str
    y_label: str
    marks: tuple[Mark, ...]
    floor: float

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest number to be seen."""
        seen = [
            value
            for mark in self.marks
            for value in (mark.sample.median, mark.sample.worst)
            if self.floor <= value < math.inf
        ]
        return (min(seen), max(seen)) if seen else (self.floor, 1.0)


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure: one or several panels, side by side where there is room.

    Attributes:
        title: what one sees.
        panels: what is drawn.
        key: what the marks mean.
        text: what it shows, in words, for those who do not see it.
    """

    title: str
    panels: tuple[Panel | Strips | Bars | Sizes, ...]
    key: str
    text: str
