"""What one node computes: its iterate, its tracker, and the gradient of what it minimises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import frozen
from bequest.core.legacy import Legacy

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.model.objectives.base import Objective


class Iterate:
    """The numbers of one node, and what a round and a hand-off do to them.

    Args:
        objective: the node's private loss.
        start: where it begins.
        step: its step.

    Attributes:
        round: how many rounds it has completed.
        x, z, g: its iterate, its tracker and the gradient of what it minimises.
        tracked: the tracker after the last round, whatever hand-offs have done to it since.
        inherited: what it remembers of other nodes.

    Paper: alg:lgt, prop:invariant.
    """

    def __init__(self, objective: Objective, start: Vector, step: float) -> None:
        self.objective, self.step = objective, step
        self.round = 0
        self.x: Vector = frozen(start)
        self.g: Vector = np.zeros_like(self.x)
        self.z = self.tracked = self.g
        self._carries = False
        self._inherited = Legacy.zero(self.x.size)

    @property
    def inherited(self) -> Legacy:
        """What the node remembers of other nodes."""
        return self._inherited

    @inherited.setter
    def inherited(self, legacy: Legacy) -> None:
        self._inherited, self._carries = legacy, not legacy.is_zero

    def gradient(self, x: Vector) -> Vector:
        """Return the gradient of the node's loss and of what it has inherited."""
        g = self.objective.gradient(x)
        return g + self._inherited.gradient(x) if self._carries else g

    def payload(self) -> Vector:
        """Return what the node tells its neighbours: x - step z and z, one after the other."""
        dim = self.x.size
        payload = np.empty(2 * dim)
        payload[:dim] = self.x - self.step * self.z
        payload[dim:] = self.z
        payload.setflags(write=False)
        return payload

    def follow(self, mixed: Vector) -> tuple[Vector, Vector, Vector]:
        """Return x, z and g after one more round, as parts of the mixed payloads."""
        dim = self.x.size
        x, z = mixed[:dim], mixed[dim:]
        g = self.gradient(x)
        z += g
        z -= self.g
        return x, z, g

    def accept(self, x: Vector, z: Vector, g: Vector) -> None:
        """Complete the round with that state."""
        self.x, self.z, self.g, self.tracked = x, z, g, z
        self.round += 1

    def enter(self, x: Vector | None, after: int) -> None:
        """Come in after that round, at x or where the node is."""
        if x is not None:
            self.x = x
        self.g = self.z = self.tracked = self.gradient(self.x)
        self.round = after

    def take_over(
        self, inherited: Legacy, surplus: Vector, *, after: int, restart: bool, fresh: bool
    ) -> None:
        """Begin an epoch after that round: what was prepared for it counts from now on.

        Args:
            inherited: what the node remembers of others from now on.
            surplus: what it has been handed over.
            after: the round.
            restart: whether trackers begin anew.
            fresh: whether it is the node's first epoch.
        """
        push = surplus
        if self._carries or not inherited.is_zero:
            # The own loss is not asked again: a stochastic one would give another answer.
            change = inherited.gradient(self.x) - self._inherited.gradient(self.x)
            self.g, push = self.g + change, push + change
        self.inherited = inherited
        self.z = self.g.copy() if fresh or restart else self.z + push
        if fresh:
            self.tracked = self.z
        self.round = after
