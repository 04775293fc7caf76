"""What a node remembers of its own path: at most 16 pairs (x, z) of the current epoch.

The pairs lie about evenly over the later half of the epoch, at any length of it and without
knowing in advance how long that will be.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bequest.core.arrays import Matrix, Vector

PAIRS = 16
# Pairs older than this share of the epoch are given up first.
_SPAN = 0.55
# An epoch's prediction is carried over into the next ones if it saw this much more than the last
# one that was; so a node predicts a few times, not at every departure of another.
LONGER = 1.5
# A path that leads less far than this share of its length wanders about.
_STRAIGHT = 0.5


def superfluous(ages: list[int]) -> int:
    """Return which of one pair too many to forget; ``ages`` ascend, the last is the present.

    The oldest if it lies in the first half of the epoch, else the one whose neighbours are
    closest to each other, so that the rest stays about even.
    """
    now = ages[-1]
    if now - ages[0] > _SPAN * now:
        return 0
    gaps = [ages[k + 1] - ages[k - 1] for k in range(1, len(ages) - 1)]
    return 1 + gaps.index(min(gaps))


@lru_cache(maxsize=256)
def kept(age: int) -> tuple[int, ...]:
    """Return the ages, in rounds since the epoch began, of the pairs held at that age; ascending.

    >>> kept(5), len(kept(1000)), kept(1000)[0]
    ((0, 1, 2, 3, 4, 5), 16, 477)
    """
    ages: list[int] = []
    for t in range(age + 1):
        ages.append(t)
        if len(ages) > PAIRS:
            del ages[superfluous(ages)]
    return tuple(ages)


@dataclass(frozen=True, slots=True, eq=False)
class EpochPath:
    """The pairs that a node holds of one epoch, the latest first.

    Attributes:
        X: its iterates, one row each.
        Z: its trackers, one row each: estimates of the network's mean gradient at X.
        length: how many rounds the epoch has had; which of them the pairs are from follows.
    """

    X: Matrix
    Z: Matrix
    length: int = 0

    def __len__(self) -> int:
        return len(self.X)

    @property
    def drifts(self) -> bool:
        """Whether the path leads somewhere: from end to end at least half as far as it is long.

        The iterates of a run drift towards its optimum; stochastic gradients make them wander
        about in the end. (Measured: 0.7 and more against 0.1 to 0.5.) So do large steps and
        rounding, which are no noise.
        """
        length = float(np.linalg.norm(np.diff(self.X, axis=0), axis=1).sum())
        return 0 < _STRAIGHT * length <= float(np.linalg.norm(self.X[0] - self.X[-1]))

    def movement(self, rounds: int) -> tuple[Vector, int] | None:
        """Return how far the node has come in about so many rounds, and in how many.

        None if it has not moved.
        """
        ages = kept(self.length)
        if len(self) < 2 or len(ages) != len(self):
            return None
        ago = [self.length - age for age in reversed(ages)]
        near = min(range(1, len(self)), key=lambda k: abs(ago[k] - rounds))
        moved: Vector = self.X[0] - self.X[near]
        return (moved, ago[near]) if moved.any() else None

    def until(self, latest: int) -> EpochPath:
        """Return the path as it was before its ``latest`` newest pairs."""
        return EpochPath(self.X[latest:], self.Z[latest:])
