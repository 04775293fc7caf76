"""How strongly neighbours pull at each other: the one number of NIDS and ADMM, chosen per epoch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import mixing
from bequest.core.steps import StepChoice

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Tensor as Array
    from bequest.core.arrays import Vector
    from bequest.core.methods.base import Conditions

    # (h/P, eigenvalues of c (I - W)/P) -> how much of a mode is left after a round
    Modes = Callable[[Array, Array], Array]
    # (curvatures, 2c(1 - w_ii)) -> the P that nodes would use
    Metric = Callable[[Array, Array], Array]

# Of the mean stiffness, 20 candidates per decade: a coarser grid costs up to a third of the rate.
_GRID = 10.0 ** (np.arange(-60, 41) / 20)
# The largest c within this part of the best rate: nodes then agree sooner, and a leaver's path is
# steadier. And the largest step: the stiffest node, which the slowest mode is computed for, stands
# for all others.
_SLACK = 0.9
# Without curvature from below no c is better than another; the scan takes this part of the mean.
_FLATTEST = 1e-3


def chosen(
    conditions: Conditions, since: int, *, modes: Modes, metric: Metric, fastest: float
) -> StepChoice:
    """Return the largest c that is nearly the fastest: at which the slowest mode decays fastest.

    A network is taken for one with the mean curvature, from below and from above, at every node
    and with the mean of the nodes' metrics. A round then splits into modes: consensus, and the two
    ends of the spectrum of I - W. Measured against the best of nine c around it: 0.94 of the rate
    or more with scalar metrics, half of it with matrices on logistic losses.

    Args:
        conditions: curvatures and the graph.
        since: the round after which it holds.
        modes: how much of a mode is left after a round.
        metric: the P that nodes would use.
        fastest: what c (I - W)/P never exceeds.
    """
    nodes = sorted(conditions.stiffness)
    a, b, m = (
        np.array([curvatures[node] for node in nodes])
        for curvatures in (conditions.strength, conditions.stiffness, conditions.floor)
    )
    B = float(b.mean())
    if not B > 0:
        return StepChoice(1.0, since, "no node has curvature")
    A = max(_strength(float(a.mean()), conditions.modulus), _FLATTEST * B)
    c: Vector = B * _GRID
    spread = 2.0 * c[:, None] * (1.0 - conditions.weights.diagonal())
    slow, fast = _ends(conditions)
    worst = np.zeros_like(c)
    for h, curvatures in ((A, m), (B, b)):
        P = metric(curvatures, spread).mean(axis=1)
        worst = np.maximum(worst, np.abs(1.0 - h / P))
        for end in (slow, fast):
            # whatever the mean of all P says about one mode
            worst = np.maximum(worst, modes(h / P, np.minimum(c * end / P, fastest)))
    rate = -np.log(np.clip(worst, 1e-300, 1.0))
    best = int(np.flatnonzero(rate >= _SLACK * rate.max())[-1])
    return StepChoice(
        float(c[best]),
        since,
        f"the slowest mode keeps {worst[best]:.4g} of itself per round, at curvatures "
        f"{A:.3g} to {B:.3g} on this graph (1 - lambda_2 = {slow:.3g})",
    )


def fastest_step(conditions: Conditions, *, safe: float, mixing: float, modes: Modes) -> StepChoice:
    """Return the largest step that is nearly the fastest, up to the safe one.

    Args:
        conditions: curvatures and the graph.
        safe: the largest step that may be used.
        mixing: what part of the difference to its neighbours a node takes up in a round.
        modes: how much of a mode is left after a round.
    """
    mean = sum(conditions.strength.values()) / len(conditions.strength)
    A = max(_strength(mean, conditions.modulus), _FLATTEST / safe)
    h = np.array([A, max(conditions.stiffness.values())])
    step = safe * 10.0 ** (-np.arange(201) / 100)
    worst = np.abs(1.0 - step[:, None] * h).max(axis=1)
    for end in _ends(conditions):
        for curvature in h:
            worst = np.maximum(worst, modes(step * curvature, np.full_like(step, mixing * end)))
    rate = -np.log(np.clip(worst, 1e-300, 1.0))
    best = int(np.flatnonzero(rate >= _SLACK * rate.max())[0])
    return StepChoice(
        float(step[best]),
        0,
        f"the slowest mode keeps {worst[best]:.4g} of itself per round, at curvatures "
        f"{h[0]:.3g} to {h[1]:.3g} on this graph; stable up to {safe:.3g}",
    )


def _strength(mean: float, modulus: float) -> float:
    """Return the least curvature of the mean loss, from the nodes' own and from where they start.

    Losses that are flat in different directions have a mean that is flat in none, as the start
    shows; but the start is not the optimum, and a c that is too large costs less than one that is
    too small. The geometric mean was the best of four ways on the hostile bed.
    """
    return max(mean, math.sqrt(max(mean, 0.0) * modulus))


def _ends(conditions: Conditions) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of I - W off consensus."""
    slow = 1.0 - mixing.second_eigenvalue(conditions.weights)
    return slow, max(1.0 - conditions.smallest_eigenvalue, slow)


def largest_root(trace: Array, determinant: Array) -> Array:
    """Return the larger absolute eigenvalue of 2x2 matrices with these traces and determinants."""
    half = np.asarray(trace / 2, dtype=complex)
    root = np.sqrt(half * half - determinant)
    larger: Array = np.maximum(np.abs(half + root), np.abs(half - root))
    return larger
