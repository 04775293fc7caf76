"""What each branch of the anchor rule would cost at most, all in the units of the final bias.

The paper's rule compares anchor errors, scaled by 1/(2 beta) on the no-legacy branch. That
divides by zero for isotropic losses (beta = 0), so the comparison here is made one step later,
in the bias each branch contributes to the limit (cor:selective); the choice is the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import hold_as_floats, is_number
from bequest.errors import InvalidWill

if TYPE_CHECKING:
    from bequest.core.arrays import Vector

_RESOLUTION = float(np.finfo(float).eps)


@dataclass(frozen=True, slots=True)
class Pilot:
    """What a pilot run without departures teaches: the certificate of the network's error.

    Attributes:
        radius: R0 of eps(t) = R0 (1 - theta)^(t/2).
        theta: the contraction; 0 means that the pilot saw no progress.
        zeta: the heterogeneity, max_i |grad f_i(x*)|.
        spread: radius of a ball that holds every local minimiser (rem:hr); nan if not measured.
        floor: the error never falls below this, even where the curve does.

    Paper: fact:gt, Sec. 5.1 (R0 = 3.27, theta = 0.074).

    >>> Pilot(radius=3.27, theta=0.074, zeta=50.0).error(300) < 1e-4
    True
    """

    radius: float
    theta: float
    zeta: float
    spread: float = math.nan
    floor: float = 0.0

    def __post_init__(self) -> None:
        numbers = all(
            is_number(one) for one in (self.radius, self.theta, self.zeta, self.spread, self.floor)
        )
        if not numbers or not (self.radius >= 0 and 0 <= self.theta < 1 and self.zeta >= 0):
            raise InvalidWill(
                f"A pilot needs radius >= 0, 0 <= theta < 1 and zeta >= 0, not {self}.",
                remedy="Calibrate one with bequest.calibrate(problem, graph, rounds=...).",
            )
        hold_as_floats(self, "radius", "theta", "zeta", "spread", "floor")

    def error(self, t: int) -> float:
        """Return eps(t), never below the floor or what float64 can resolve."""
        curve = self.radius * max(float((1 - self.theta) ** (t / 2)), _RESOLUTION)
        return max(curve, self.floor)


def fit(errors: Vector) -> tuple[float, float, float]:
    """Return (R0, theta, floor) so that a Pilot of them lies above every error of a pilot run.

    The slope is fitted to the logarithms up to where rounding takes over; R0 is then raised
    until the curve is an upper bound, which is what a certificate has to be. The floor is what
    was still measured after that.
    """
    rounding = 1e-12 * float(np.max(errors))
    above = np.flatnonzero(errors > rounding)
    if not above.size:
        return 0.0, 0.0, float(np.max(errors))
    last = int(above[-1])
    slope = float(np.polyfit(above, np.log(errors[above]), 1)[0]) if above.size > 1 else 0.0
    slope = min(slope, 0.0)
    radius = float(np.max(errors[: last + 1] * np.exp(-slope * np.arange(last + 1))))
    floor = float(np.max(errors[last + 1 :], initial=0.0))
    return radius, min(1.0 - math.exp(2 * slope), 1.0 - _RESOLUTION), floor


def anchored_bias(*, spread: float, distance: float, n: int, mu: float) -> float:
    """Return 2 beta_i distance, beta_i = omega_i/(n mu): the bias of an anchor that far away.

    Paper: thm:main, cor:selective. Deviates: beta_i of the leaver instead of the network's
    worst beta, which keeps isotropic losses exact (cor:quad) and is never larger.
    """
    return 2 * spread * distance / (n * mu)


def forgetting_bias(*, heterogeneity: float, remaining: int, mu: float) -> float:
    """Return zeta_i/(r mu): the bias of forgetting a loss with that gradient at the optimum.

    Paper: eq:dropbias, eq:anchor.
    """
    return heterogeneity / (remaining * mu)


def sensitivity_bias(*, kappa: float, radius: float, remaining: int) -> float:
    """Return how far dropping one function, with any gradient, moves the minimiser at most.

    min{2 sqrt(kappa) R + 2R/m, kappa sqrt(m+1) R/m, kappa (2 + sqrt(kappa)) R/m}, with R the
    radius of a ball holding all local minimisers and m functions remaining.

    Paper: rem:hr, with explicit constants.
    """
    root, m = math.sqrt(kappa), remaining
    return radius * min(2 * root + 2 / m, kappa * math.sqrt(m + 1) / m, kappa * (2 + root) / m)
