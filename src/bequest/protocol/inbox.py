"""What has arrived: the messages of a round, and whether what a message carries can be right."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bequest.core.arrays import Matrix, Vector
    from bequest.core.legacy import Legacy


@dataclass(eq=False)
class Inbox:
    """The messages of one round: a row per neighbour, and the node's own, in ascending order."""

    rows: Matrix
    arrived: list[bool]
    missing: int

    @classmethod
    def of(cls, rows: int, columns: int, missing: int) -> Inbox:
        """Return one in which nothing has arrived yet."""
        return cls(np.empty((rows, columns)), [False] * rows, missing)

    @property
    def finite(self) -> list[bool]:
        """Whether each row consists of numbers."""
        return [bool(np.isfinite(row).all()) for row in self.rows]


def is_finite(vector: Vector, dim: int) -> bool:
    """Whether it has that many entries, all of them numbers."""
    return vector.shape == (dim,) and bool(np.isfinite(vector).all())


def is_sound(legacy: Legacy, dim: int) -> bool:
    """Whether it has that many coordinates, all of it are numbers, and no node is in it twice."""
    once = all(node >= 0 and share == 1 for node, share in legacy.lineage.items())
    with np.errstate(over="ignore", invalid="ignore"):
        curvature = legacy.eta + legacy.stiffness  # not a number if an entry of F or w is none
    return once and math.isfinite(curvature + legacy.c) and is_finite(legacy.p, dim)
