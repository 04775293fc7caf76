"""How stiff a quadratic of a loss that is not convex may be, and how soft.

The range of such a loss is that at its start, which is no bound, and its middle says little about
where the loss is now. What is stiffer than the loss holds the survivors back; what is softer is
worse: its slope carries them far beyond where the loss itself would have let go. So

- the **step** times its curvature is at most a half in any direction, so that an heir that inherits
  twice is stable with a step that is given;
- where the network has not settled, it is curved in all directions alike as the gradient has
  turned **on the way**: |Gs|/|s| with s the last movement and G the Gauss-Newton matrix. Directions
  of their own, whose curvature was looked at one by one, keep it if they are stiffer than that.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import norm
from bequest.core.legacy import Legacy

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.model.wills.base import Bequest, Estate

# The movement of so many rounds says how fast a node is, and in which direction curvature matters.
ROUNDS = 32
# An heir may inherit twice before its step is too long for it.
ROOM = 0.5
# What is this much stiffer only is rounding.
_ROUNDING = 1e-12


def on_the_way(estate: Estate) -> tuple[float, int] | None:
    """Return the curvature along the movement of the last rounds, and of how many; None of none."""
    movement = None if estate.recent is None else estate.recent.movement(ROUNDS)
    if movement is None:
        return None
    s, rounds = movement
    return _turned(estate, s), rounds


def bounded(bequest: Bequest, estate: Estate, *, settled: bool) -> Bequest:
    """Return the bequest, its quadratic no stiffer and no softer than it may be.

    Its value and gradient at the anchor stay. A node whose epoch has just begun goes by its whole
    way from the start.
    """
    legacy = bequest.legacy
    if legacy is None:
        return bequest
    most = ROOM / estate.setting.step if estate.setting.step > 0 else math.inf
    alike = None if settled else _on_any_way(estate)
    if alike is not None:
        alike = max(alike, estate.objective.curvature.a, 0.0)
    at = estate.x if bequest.anchor is None else bequest.anchor
    fitted = clipped(legacy, alike=alike, most=most, at=at)
    if fitted is legacy:
        return bequest
    how = f"its curvature is that on the way, {fitted.eta:.3g}, instead of {legacy.eta:.3g}"
    if fitted.eta == legacy.eta or alike is None:
        how = f"no stiffer than {most:.3g}, for the sake of the step"
    return replace(bequest, legacy=fitted, why=f"{bequest.why}; {how}")


def clipped(legacy: Legacy, *, alike: float | None, most: float, at: Vector) -> Legacy:
    """Return a legacy with the same value and gradient at one point, and another spectrum.

    Args:
        legacy: eta I + F F', without samples.
        alike: the curvature in all directions alike, and the least in others; None for as it is.
        most: the largest curvature in any direction.
        at: where nothing changes.
    """
    eta = min(legacy.eta if alike is None else alike, most)
    if not (legacy.is_finite and math.isfinite(eta)):
        return legacy  # of what has diverged nothing is better than anything else
    Q, R = np.linalg.qr(legacy.factor)
    beyond, basis = np.linalg.eigh((R * legacy.weights) @ R.T)
    kept = np.maximum(np.minimum(legacy.eta + beyond, most) - eta, 0.0)
    if np.allclose([eta, *kept], [legacy.eta, *beyond], rtol=_ROUNDING, atol=0):
        return legacy
    factor = (Q @ basis * np.sqrt(kept))[:, kept > 0]
    fitted = Legacy(eta, np.zeros(legacy.dim), 0.0, legacy.lineage, factor)
    p = legacy.gradient(at) - fitted.gradient(at)
    c = legacy.value(at) - fitted.value(at) - float(p @ at)
    return replace(fitted, p=p, c=c)


def _on_any_way(estate: Estate) -> float | None:
    """Return the same, of a node whose epoch has just begun that on its way from the start."""
    met, way = on_the_way(estate), estate.x - estate.start
    if met is not None:
        return met[0]
    return _turned(estate, way) if way.any() else None


def _turned(estate: Estate, s: Vector) -> float:
    """Return how much the gradient turns on such a way, in whatever direction."""
    return norm(estate.objective.hvp(estate.x, s / norm(s)))
