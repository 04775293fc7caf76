"""Numbers over seeds: medians, quartiles, the worst, and how they are written.

A run that diverged counts as infinitely bad: it is never averaged away, and always written as
"diverged".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bequest.core.arrays import Matrix, Vector

DIVERGED = "diverged"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class Sample:
    """One number per seed, infinite where a run diverged; ``bad`` numbers are large, or small."""

    values: tuple[float, ...]
    bad: Literal["large", "small"] = "large"

    @classmethod
    def of(
        cls, values: Iterable[float | None], *, bad: Literal["large", "small"] = "large"
    ) -> Sample:
        """Return the sample of these numbers, the unknown and unbounded ones as infinite."""
        return cls(tuple(math.inf if v is None else bounded(float(v)) for v in values), bad)

    def __format__(self, what: str) -> str:
        """Write a number of the sample, by its name.

        >>> sample = Sample((1.0, 2.0, 4.0))
        >>> f"{sample:median}, {sample:quartiles}, {sample:range}, {sample:between}"
        '2, [1.50, 3], 1 to 4, between 1 and 4'
        >>> f"{sample:worst 1}"  # with this many digits after the point
        '4.0'
        """
        name, _, digits = what.partition(" ")

        def shown(value: float) -> str:
            return fixed(value, int(digits)) if digits else number(value)

        match name:
            case "quartiles":
                if self.lower == self.upper and not digits:
                    return shown(self.lower)
                return f"[{shown(self.lower)}, {shown(self.upper)}]"
            case "range":
                return f"{shown(self.smallest)} to {shown(self.largest)}"
            case "between":
                return f"between {shown(self.smallest)} and {shown(self.largest)}"
        return shown(getattr(self, name))

    def over(self, other: Sample, *, bad: Literal["large", "small"] = "large") -> Sample:
        """Return how many times as large as another one it is, seed by seed."""
        return Sample.of((ratio(a, b) for a, b in self.beside(other)), bad=bad)

    def beside(self, other: Sample) -> Iterator[tuple[float, float]]:
        """Return pairs of numbers, one per seed."""
        return zip(self.values, other.values, strict=True)

    @property
    def n(self) -> int:
        """How many seeds."""
        return len(self.values)

    @property
    def diverged(self) -> int:
        """How many of them diverged."""
        return sum(not math.isfinite(value) for value in self.values)

    @property
    def median(self) -> float:
        """The median, infinite if half of the seeds diverged."""
        return quantile(self.values, 0.5)

    @property
    def lower(self) -> float:
        """The lower quartile."""
        return quantile(self.values, 0.25)

    @property
    def upper(self) -> float:
        """The upper quartile."""
        return quantile(self.values, 0.75)

    @property
    def smallest(self) -> float:
        """The smallest."""
        return min(self.values)

    @property
    def largest(self) -> float:
        """The largest."""
        return max(self.values)

    @property
    def worst(self) -> float:
        """The largest or the smallest, depending on ``bad``."""
        return self.largest if self.bad == "large" else self.smallest


def bounded(value: float) -> float:
    """Return a finite number as it is, and infinity for anything else."""
    return value if math.isfinite(value) else math.inf


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile, interpolated linearly as NumPy does, also among infinite numbers.

    >>> quantile([1.0, 2.0, 3.0, math.inf], 0.5)
    2.5
    >>> quantile([1.0, 2.0, math.inf, math.inf], 0.5)
    inf
    """
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    rest = place - below
    if rest == 0:
        return ordered[below]
    low, high = ordered[below], ordered[below + 1]
    return low + rest * (high - low) if math.isfinite(high) else math.inf


def quartiles(rows: Sequence[Vector] | Matrix) -> tuple[Vector, Vector, Vector]:
    """Return lower quartile, median and upper quartile of every column, one row per seed."""
    stacked = np.sort(np.where(np.isfinite(rows), rows, np.inf), axis=0)
    lower, middle, upper = (
        np.array([quantile(column, share) for column in stacked.T.tolist()])
        for share in (0.25, 0.5, 0.75)
    )
    return lower, middle, upper


def ratio(above: float, below: float) -> float:
    """Return above / below; zero if ``below`` diverged.

    >>> ratio(3.0, 1.5), ratio(3.0, math.inf), ratio(3.0, 0.0)
    (2.0, 0.0, inf)
    """
    if not math.isfinite(below):
        return 0.0
    return above / below if below else math.inf


def number(value: float) -> str:
    """Write a number for people: three digits, powers of ten where it is tiny or huge.

    >>> number(6.36e-9), number(2.6512), number(0.0917), number(57.0), number(209.4)
    ('6.4·10⁻⁹', '2.65', '0.0917', '57', '209')
    >>> number(math.inf), number(0.0)
    ('diverged', '0')
    """
    if not math.isfinite(value):
        return DIVERGED
    if value == 0:
        return "0"
    exponent = int(f"{value:.2e}".split("e")[1])
    if not -3 < exponent < 4:
        mantissa, tens = f"{value:.1e}".split("e")
        text = f"{mantissa}·{power(int(tens))}"
    elif value == int(value):
        text = str(int(value))
    else:
        text = f"{value:.{max(0, 2 - exponent)}f}"
    return text.replace("-", "−")


def fixed(value: float, digits: int) -> str:
    """Write a number with this many digits after the point.

    >>> fixed(8.7512, 1), fixed(math.inf, 1)
    ('8.8', 'diverged')
    """
    return f"{value:.{digits}f}".replace("-", "−") if math.isfinite(value) else DIVERGED


def given(value: float) -> str:
    """Write a number that was not measured but printed or chosen, with no digits added.

    >>> given(0.056), given(2.0e-7), given(8.5), given(57.0)
    ('0.056', '2.0·10⁻⁷', '8.5', '57')
    """
    return number(value) if not 1e-3 <= abs(value) < 1e4 else f"{value:g}"


def power(exponent: int) -> str:
    """Write a power of ten.

    >>> power(-7)
    '10⁻⁷'
    """
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def counted(n: int, one: str, many: str | None = None) -> str:
    """Write a number of things.

    >>> counted(1, "seed"), counted(20, "seed")
    ('1 seed', '20 seeds')
    """
    return f"{n} {one if n == 1 else many or one + 's'}"


def tally(held: Sequence[bool]) -> str:
    """Write how often something holds.

    >>> tally([True, False, True])
    '2 of 3'
    """
    return f"{sum(held)} of {len(held)}"
