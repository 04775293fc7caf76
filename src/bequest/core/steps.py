"""Which step is safe, and which one is fast."""

from __future__ import annotations

import math
from dataclasses import dataclass

# A step may use half of what the linear analysis allows: losses are not quadratic.
SAFETY = 0.5


@dataclass(frozen=True, slots=True)
class StepChoice:
    """A step, the round after which it is in force, and why it is what it is."""

    value: float
    since: int
    why: str


def stability_limit(smallest_eigenvalue: float) -> float:
    """Return the largest stable step times smoothness, for the smallest eigenvalue w of W.

    With one Hessian h at every node a round splits into a 2x2 system per eigenvalue w of W, with
    trace w (2 - alpha h) and determinant w (w - alpha h). It is stable for alpha h < 2 where
    w >= 0, and for alpha h < (1 - w^2)/|w| where w < 0. Nodes with different Hessians can be less
    stable than that: down to 0.86 of the limit in a search over small graphs
    (tests/core/test_steps.py), which is why only half of it is used.

    >>> stability_limit(0.3), stability_limit(-0.8)
    (2.0, 0.44999999999999984)
    """
    w = smallest_eigenvalue
    return 2.0 if w >= 0 else min(2.0, (1 - w * w) / abs(w))


def safe_step(*, smoothness: float, limit: float, safety: float = SAFETY) -> float:
    """Return the largest step used at this smoothness of the stiffest node.

    Args:
        smoothness: the largest curvature of any node.
        limit: what step times smoothness must stay below.
        safety: the part of it that is used.
    """
    return safety * limit / smoothness if smoothness else 1.0


def balanced_step(*, smoothness: float, modulus: float, gap: float) -> float:
    """Return the step at which the network's two slowest modes are equally slow.

    The average descends at rate alpha m (m the smallest eigenvalue of the mean Hessian); the
    disagreement decays at rate gap^2/(alpha L). Equal at alpha = gap / sqrt(L m).
    """
    return gap / math.sqrt(smoothness * modulus) if smoothness * modulus > 0 else math.inf
