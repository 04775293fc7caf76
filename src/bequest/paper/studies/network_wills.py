"""Quadratics of networks that only a comparison needs: a sketch, and wills that insist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bequest.core import sketch
from bequest.model import wills
from bequest.model.wills import Bequest, Will
from bequest.model.wills.stiffness import ROOM

if TYPE_CHECKING:
    from bequest.core.arrays import Matrix
    from bequest.model.wills import Estate

# So many directions more than are kept are looked at, and so often they are turned to where the
# loss bends most.
_BESIDE, _TURNS = 8, 3


@dataclass(frozen=True)
class Sketch(Will):
    """Anchor at the iterate, with the Gauss-Newton matrix where it bends most; elsewhere with l2.

    If it does not insist it is raised elsewhere to what the loss had on the way (``stiffness``).
    ``Drift`` would anchor at the middle of a noisy path instead, without any sketch. The step times
    the curvature is at most a half, as in ``Trust``.

    Args:
        rank: how many directions get their own curvature; the farewell has 2 + rank vectors.
    """

    rank: int
    label: ClassVar[str] = "sketch"

    def decide(self, estate: Estate) -> Bequest:
        """Return the quadratic."""
        loss, x = estate.objective, estate.x

        def product(Q: Matrix) -> Matrix:
            return np.array([loss.hvp(x, q) for q in Q.T]).T

        rng = np.random.default_rng(0)
        Q = np.linalg.qr(rng.standard_normal((x.size, min(self.rank + _BESIDE, x.size))))[0]
        for _ in range(_TURNS):
            Q = np.linalg.qr(product(Q))[0]
        core = Q.T @ product(Q)
        values, turned = np.linalg.eigh((core + core.T) / 2)
        Q = Q @ turned[:, -self.rank :]
        low, high = max(loss.curvature.a, 0.0), float(values[-1])
        if estate.setting.step > 0:
            high = min(high, ROOM / estate.setting.step)
        factor = sketch.nystrom(product(Q), Q, low=low, high=max(high, low))
        why = f"the iterate, {factor.shape[1]} directions with curvature up to {high:.3g}"
        return Bequest("sketch", why, estate.anchored_at(x, low, factor), x)


class InsistingConsensus(wills.Consensus):
    """The paper's midpoint, also where it would be left out or bent."""

    insists = True


class InsistingTrust(wills.Trust):
    """The curvature on the way, also where it would be left out."""

    insists = True


class InsistingSketch(Sketch):
    """A sketch, also where it would be left out."""

    insists = True
