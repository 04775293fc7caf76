"""What was measured in every round, as curves to draw: thinned where there is too much of it.

Nothing that stands out is left out: of every stretch of rounds the first is kept, and those in
which a curve is lowest and highest.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypedDict

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bequest.core.arrays import Indices, Vector
    from bequest.model.outcome import Trajectory

# As many as a results file has per run: enough for a picture.
FEW = 400
NAMES = ("error", "gradient_norm", "disagreement", "invariant_gap")
_DIGITS = 4


class CurvesDocument(TypedDict):
    """Curves over the same rounds; a number that is infinite or unknown is None.

    ``of`` says of how many rounds, the start included, they are: more than ``rounds`` lists where
    they were thinned. A curve that is not known at all is None.
    """

    rounds: list[int]
    of: int
    error: list[float | None] | None
    gradient_norm: list[float | None] | None
    disagreement: list[float | None] | None
    invariant_gap: list[float | None] | None


def curves_of(
    trajectory: Trajectory, *, last: int | None = None, most: int | None, also: Iterable[int] = ()
) -> CurvesDocument:
    """Return what was measured, up to round ``last`` if that is not the end.

    Args:
        trajectory: what was measured.
        last: the last round that was measured.
        most: how many rounds to keep, but for a few, with the digits that a picture shows; None
            for all rounds and digits.
        also: rounds that are kept together with those around them.
    """
    length = trajectory.gradient_norm.size if last is None else last + 1
    series = {name: getattr(trajectory, name) for name in NAMES}
    known = {name: values[:length] for name, values in series.items() if values is not None}
    whole = most is None
    kept = np.arange(length) if most is None else _kept(list(known.values()), length, most, also)
    return {
        "rounds": kept.tolist(),
        "of": length,
        "error": _plain(known.get("error"), kept, whole=whole),
        "gradient_norm": _plain(known["gradient_norm"], kept, whole=whole),
        "disagreement": _plain(known["disagreement"], kept, whole=whole),
        "invariant_gap": _plain(known["invariant_gap"], kept, whole=whole),
    }


def _kept(curves: list[Vector], length: int, most: int, also: Iterable[int]) -> Indices:
    """Return which rounds are kept, ascending."""
    if length <= most:
        return np.arange(length)
    stretches = max(most // (1 + 2 * len(curves)), 1)
    starts = np.unique(np.linspace(0, length, stretches, endpoint=False).astype(int))
    ends = [*starts[1:].tolist(), length]
    kept = {0, length - 1, *starts.tolist()}
    for curve in curves:
        # Where it is not finite it is higher than anywhere else.
        heights = np.where(np.isfinite(curve), curve, np.inf)
        for start, end in zip(starts.tolist(), ends, strict=True):
            kept |= {
                start + int(heights[start:end].argmin()),
                start + int(heights[start:end].argmax()),
            }
    kept |= {t + near for t in also for near in (-1, 0, 1)}
    return np.array(sorted(t for t in kept if 0 <= t < length))


def _plain(curve: Vector | None, kept: Indices, *, whole: bool) -> list[float | None] | None:
    if curve is None:
        return None
    if whole:
        return [value if math.isfinite(value) else None for value in curve.tolist()]
    return [rounded(value) for value in curve[kept].tolist()]


def rounded(value: float) -> float | None:
    """Return a number with as many digits as a picture shows; None if it is not finite."""
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
