"""What a figure shows, as plain data; ``bequest.paper.report.plots`` draws it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from bequest.core.arrays import Vector
from bequest.paper.report.measures import Sample

Scale = Literal["linear", "log"]
Shape = Literal["o", "x", "D", "s", "^"]


@dataclass(frozen=True, slots=True)
class Series:
    """A line, or points, with a band between ``low`` and ``high`` around it if there are any.

    Where ``y`` is infinite, the line leaves at the top, labelled as diverging. The label is written
    at the end of the line. A faint one is broad and pale, below another that it coincides with.
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
    """A straight line across, at a number that is claimed or given, not measured."""

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
    """Lines over a pair of axes, of which the vertical one is logarithmic."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_scale: Scale = "linear"
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
        """The smallest and the largest number that is drawn."""
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

    Numbers below ``floor`` are rounding errors; they are drawn at the lower edge.
    """

    title: str
    x_label: str
    y_label: str
    marks: tuple[Mark, ...]
    floor: float

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest number that is drawn."""
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

    ``key`` says what the marks mean, ``text`` all of it in words, for screen readers.
    """

    title: str
    panels: tuple[Panel | Strips | Bars | Sizes, ...]
    key: str
    text: str
