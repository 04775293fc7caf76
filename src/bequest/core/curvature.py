"""How curved a function is, from below and from above."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bequest.errors import InvalidObjective


@dataclass(frozen=True, slots=True)
class Curvature:
    """All that the theory needs to know about a loss: a I <= Hessian <= b I everywhere.

    ``a > 0`` is the strongly convex regime (SC), ``a == 0`` the convex regime (C). Below zero the
    loss is not convex: a network's is not, and what needs convexity then steps aside.
    ``certified`` tells a proven range from one that was estimated by sampling.

    Paper: as:fun, lem:center.

    >>> Curvature(1.0, 9.0).midpoint, Curvature(1.0, 9.0).spread, Curvature(1.0, 9.0).kappa
    (5.0, 4.0, 9.0)
    """

    a: float
    b: float
    certified: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.a) and math.isfinite(self.b)) or self.a > self.b:
            raise InvalidObjective(
                f"A curvature needs finite bounds a <= b, not a={self.a}, b={self.b}.",
                remedy="Give the smallest and the largest eigenvalue the Hessian can have.",
            )

    @property
    def midpoint(self) -> float:
        """The legacy's curvature with the smallest worst-case error (lem:center)."""
        return (self.a + self.b) / 2

    @property
    def spread(self) -> float:
        """Omega = (b - a)/2: how wrong the midpoint can be (as:fun)."""
        return (self.b - self.a) / 2

    @property
    def kappa(self) -> float:
        """The condition number b/a; infinite in the convex regime."""
        return self.b / self.a if self.a > 0 else math.inf
