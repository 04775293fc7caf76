"""Where axes begin and end, where their ticks stand, and how labels keep apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from bequest.core.arrays import Vector
from bequest.paper.report.charts import Panel, Series
from bequest.paper.report.measures import number, power


def y_range(panel: Panel) -> tuple[float, float]:
    """Return axis ends a little beyond what is drawn."""
    levels = [level.at for level in panel.levels if level.axis == "y"]
    values = np.concatenate([*_values(panel.series), levels])
    values = values[np.isfinite(values) & (values > 0)]
    low, high = (values.min(), values.max()) if values.size else (0.1, 1.0)
    pad = 10 ** (0.06 + 0.05 * np.log10(high / low))
    return float(low / pad), float(high * pad)


def _values(series: Sequence[Series]) -> Iterator[Vector]:
    for one in series:
        yield one.y
        if one.low is not None and one.high is not None:
            yield one.low
            yield one.high


def log_ticks(low: float, high: float, *, most: int = 7) -> list[float]:
    """Return round numbers on a logarithmic axis, not too many."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    if last - first >= 2:
        step = math.ceil((last - first + 1) / most)
        return [10.0**exponent for exponent in range(last, first - 1, -step)][::-1]
    fine = [
        digit * 10.0**exponent for exponent in range(first - 1, last + 1) for digit in (1, 2, 5)
    ]
    return [tick for tick in fine if low <= tick <= high] or [low, high]


def even_ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Return round numbers on a linear axis, not too many."""
    raw = (high - low) / most
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw)
    first = math.ceil(low / step - 1e-9)
    return [round(step * k, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def tick_names(ticks: Sequence[float]) -> list[str]:
    """Return how the ticks are written: powers of ten where all are."""
    tens = all(tick > 0 and math.isclose(tick, 10.0 ** round(math.log10(tick))) for tick in ticks)
    if tens and (min(ticks) < 1e-2 or max(ticks) > 1e3):
        return [power(round(math.log10(tick))) for tick in ticks]
    return [f"{tick:g}" if abs(tick) < 1e4 else number(tick) for tick in ticks]


def apart(ends: Sequence[float], least: float) -> list[float]:
    """Return places in the same order, at least this far apart, as near to the ends as possible."""
    order = sorted(range(len(ends)), key=lambda index: ends[index])
    # Labels that would touch form blocks; each block is centred on its members' mean.
    blocks: list[list[int]] = []
    for index in order:
        blocks.append([index])
        while len(blocks) > 1 and _bottom(blocks[-1], ends, least) < _top(blocks[-2], ends, least):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    places = [0.0] * len(ends)
    for block in blocks:
        bottom = _bottom(block, ends, least) + least / 2
        bottom = min(max(bottom, 0.0), 1.0 - least * (len(block) - 1))
        for step, index in enumerate(block):
            places[index] = bottom + least * step
    return places


def _bottom(block: Sequence[int], ends: Sequence[float], least: float) -> float:
    return sum(ends[index] for index in block) / len(block) - least * len(block) / 2


def _top(block: Sequence[int], ends: Sequence[float], least: float) -> float:
    return _bottom(block, ends, least) + least * len(block)
