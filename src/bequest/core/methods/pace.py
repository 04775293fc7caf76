"""How strongly neighbours pull at each other: the one number of NIDS and ADMM, chosen per epoch."""

from __future__ import annotations

import math
from dataclasses import replace
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
# A loss can be flatter than its matrix. Where its least curvature is a part r of the least of the
# matrix, c is between those for matrices and for numbers: 1 - r to this power of the way; and that
# for matrices if r is 1 but for rounding.
_TRUST, _SURE = 0.25, 0.999
# Less curvature than this part of the stiffest is rounding, and says nothing about trust.
_ROUNDING = 1e-9
# Without curvature from below no c is better than another; the scan takes this part of the mean.
_FLATTEST = 1e-3


def chosen(
    conditions: Conditions, since: int, *, modes: Modes, metric: Metric, fastest: float
) -> StepChoice:
    """Return the largest c that is nearly the fastest: at which the slowest mode decays fastest.

    A network is taken for one with the mean curvature, from below and from above, at every node
    and with the mean of the nodes' metrics. A round then splits into modes: consensus, and the two
    ends of the spectrum of I - W. Nodes that are flat in different directions have a mean metric
    that is flat in none, so that its floor is the ``shared_floor`` where that is more than theirs.

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
    for h, curvatures in ((A, np.maximum(m, conditions.shared_floor)), (B, b)):
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


def between(matrices: StepChoice, numbers: StepChoice, conditions: Conditions) -> StepChoice:
    """Return c for matrices, larger where losses may be flatter than their matrices say.

    The flatter a loss may be, the smaller c must be for consensus not to be the slowest mode. With
    numbers, P is too large in flat directions anyhow, and this hardly shows. With matrices it does,
    and c is right where losses are as flat as they may be: quadratics are. Those of Huber and
    logistic losses hardly ever are, and c would be up to 11 times too small.
    """
    low, floor, high = (
        math.fsum(curvatures.values())  # whose order is that of the messages
        for curvatures in (conditions.strength, conditions.floor, conditions.stiffness)
    )
    if numbers.value <= matrices.value or not high > 0:
        return matrices
    rounding = _ROUNDING * high
    sure = min((max(low, 0.0) + rounding) / (max(floor, 0.0) + rounding), 1.0)
    if sure > _SURE:
        return matrices
    part = 1.0 - sure**_TRUST
    value = matrices.value * (numbers.value / matrices.value) ** part
    return replace(
        matrices,
        value=value,
        why=f"{matrices.why}; as losses may be flatter than their matrices, {part:.2g} of the way "
        f"to the {numbers.value:.4g} that is chosen without them",
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
