"""The memory of a node that vanished without a word: what the survivors' surpluses lack.

All surpluses sum to zero, and that of a node tends to minus its own gradient at the optimum. When a
node is gone, the sum S of all others is therefore minus its surplus: **the survivors already hold
the slope of its loss**. The legacy q(x) = S'x, handed over with the surplus -S, changes no
tracker, costs no message beyond the sum itself and needs no checkpoint. It is a legacy like any
other: it is passed on, taken back and erased exactly.

It has no curvature, and while the network is far from its optimum S is more noise than slope. So it
is trusted only where trackers, which are zero at the optimum, are small.

After an accident survivors may be a round apart. What flowed in that round between two of them, one
of which has not had it, is then part of S: an error of the slope, and not of the invariant.

The paper does not have it: as:grace asks every leaver for a farewell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bequest.core.arrays import norm
from bequest.core.legacy import Legacy

if TYPE_CHECKING:
    from bequest.core.arrays import Vector

# Trackers may be this part of the gradients, in sum, and this part of what is remembered, in the
# mean; and so many times the way that the nodes have come is how far trackers can be from the
# optimum, given the least curvature. Chosen on the seeds 0..499 of the hostile bed
# (`bequest reproduce robustness`).
_OF_GRADIENTS, _OF_MEMORY, _OF_WAY = 0.2, 0.4, 3.0
TRUSTED = "but the others know its slope"
DOUBTED = "and what the others know of it is not to be trusted: too early, or too flat a sum"
MINGLED = "and what the others know of several nodes cannot be told apart"


@dataclass(frozen=True, slots=True, eq=False)
class Balance:
    """What some survivors of a loss know, in sum.

    Attributes:
        surplus: their surpluses.
        trackers: the lengths of their trackers.
        gradients: those of their gradients.
        strength: the least curvature of what they minimise.
        nodes: how many they are.
        way: how far they have come since their start.
    """

    surplus: Vector
    trackers: float
    gradients: float
    strength: float
    nodes: int
    way: float

    @classmethod
    def of(cls, z: Vector, g: Vector, strength: float, way: Vector) -> Balance:
        """Return what one node knows that has come that way."""
        return cls(z - g, norm(z), norm(g), strength, 1, norm(way))

    def __add__(self, other: Balance) -> Balance:
        return Balance(
            self.surplus + other.surplus,
            self.trackers + other.trackers,
            self.gradients + other.gradients,
            self.strength + other.strength,
            self.nodes + other.nodes,
            self.way + other.way,
        )

    @property
    def is_trusted(self) -> bool:
        """Whether the sum of all survivors says more about the lost node than about the way.

        Without curvature from below a slope might have no minimum at all, and with hardly any the
        least error of it leads far away: farther than the nodes have ever come. And where nothing
        is lacking, as of a node that has come in and not taken part, there is nothing to remember.
        """
        lacking = norm(self.surplus)
        return (
            lacking > 0
            and self.strength > 0
            and self.trackers <= _OF_GRADIENTS * self.gradients
            and self.trackers <= _OF_MEMORY * self.nodes * lacking
            and self.trackers * self.nodes <= _OF_WAY * self.strength * self.way
        )

    def recall(self, node: int) -> Legacy:
        """Return what the survivors hold of the one node that they have lost."""
        return Legacy(0.0, self.surplus, 0.0, {node: 1})
