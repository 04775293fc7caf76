"""The one message a leaver sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.core.legacy import Legacy


@dataclass(frozen=True, slots=True, eq=False)
class Farewell:
    """What a leaver hands to its heir: all that it remembers, and its tracker's surplus.

    Attributes:
        sender: the node that leaves.
        round: after which round.
        legacy: its own loss and everything it had inherited, as one quadratic; the zero legacy
            where there is nothing to remember.
        surplus: z - grad h(x), which keeps the tracking invariant exact (prop:invariant).
        epoch: the epoch that begins with this hand-off; with the sender it names the farewell, so
            that it is applied once even if it is delivered twice.

    Deviates: two vectors where the paper sends three (y, g, z), one where there is no legacy; one
    more per direction with a curvature of its own.
    """

    sender: int
    round: int
    legacy: Legacy
    surplus: Vector
    epoch: int = 0

    @property
    def vectors(self) -> float:
        """How many vectors of the problem's dimension it carries."""
        return 1.0 + self.legacy.vectors

    @property
    def nbytes(self) -> int:
        """Its payload in bytes, in float64: the legacy's and the surplus."""
        return self.surplus.nbytes + self.legacy.nbytes
