"""What a node remembers of its own path, kept while it walks.

At most 16 pairs (x, z) of the present epoch, and one prediction from the longest epoch before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.core import history
from bequest.core.history import EpochPath
from bequest.model.prediction import predict_best

if TYPE_CHECKING:
    from bequest.core.anchors import Prediction
    from bequest.core.arrays import Vector
    from bequest.model.objectives.base import Objective


class PathHistory:
    """The pairs of one epoch, and what the earlier epochs let the node predict.

    Attributes:
        carried: the prediction from the longest epoch before, if there is one.
    """

    def __init__(self, objective: Objective, *, by_gradients: bool) -> None:
        self._objective, self._by_gradients = objective, by_gradients
        self.carried: Prediction | None = None
        self._longest = 0
        self._age = 0
        self._ages: list[int] = []
        self._pairs: list[tuple[Vector, Vector]] = []
        # The state with which the next epoch begins, once it has a round.
        self._next: tuple[Vector, Vector, float] | None = None

    def note(self, x: Vector, z: Vector) -> None:
        """Remember the state after one more round."""
        if self._next is not None:
            self.begin(*self._next)
            self._next = None
        self._age += 1
        self._keep(x, z)

    def begin_later(self, x: Vector, z: Vector, step: float) -> None:
        """Begin the next epoch with its first round; the last one was about that step."""
        # Of the epoch that the pairs are about: there may have been others without a round.
        step = step if self._next is None else self._next[2]
        self._next = (x, z, step)

    def begin(self, x: Vector, z: Vector, step: float) -> None:
        """Begin the next epoch with this state; what the last one taught is carried over."""
        if self._age and self._age >= history.LONGER * self._longest:
            self._longest = self._age
            found = predict_best(
                self._objective, self.recent, step, by_gradients=self._by_gradients
            )
            self.carried = found or self.carried
        self._age = 0
        self._ages, self._pairs = [], []
        self._keep(x, z)

    def forget(self) -> None:
        """Give up what was carried over: it was about another optimum."""
        self.carried, self._longest, self._age = None, 0, 0

    @property
    def recent(self) -> EpochPath:
        """The pairs of this epoch, the latest first."""
        X, Z = zip(*reversed(self._pairs), strict=True)
        return EpochPath(np.array(X), np.array(Z), self._age)

    def _keep(self, x: Vector, z: Vector) -> None:
        self._ages.append(self._age)
        self._pairs.append((x, z))
        if len(self._ages) > history.PAIRS:
            extra = history.superfluous(self._ages)
            del self._ages[extra], self._pairs[extra]
