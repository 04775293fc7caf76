"""Networks to try things on: ``bequest.graphs``. They live in ``bequest.model.graphs``."""

from bequest.model.graphs import (
    complete,
    erdos_renyi,
    grid,
    path,
    random_regular,
    ring,
    ring_with_chords,
    star,
)

__all__ = [
    "complete",
    "erdos_renyi",
    "grid",
    "path",
    "random_regular",
    "ring",
    "ring_with_chords",
    "star",
]
