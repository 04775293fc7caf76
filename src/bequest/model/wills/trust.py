"""Trust: a quadratic for networks, where no statistics may leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bequest.model.wills.base import Bequest, Will
from bequest.model.wills.stiffness import ROOM, on_the_way

if TYPE_CHECKING:
    from bequest.model.wills.base import Estate


@dataclass(frozen=True)
class Trust(Will):
    """Anchor at the iterate, with the curvature that the node has met on its way: two vectors.

    eta = |Gs|/|s|, s the movement of the last 32 rounds and G the Gauss-Newton matrix (the Hessian
    of a convex loss): how much the gradient turns on such a way, in whatever direction. One
    gradient on all samples and one product.

    A quadratic of a network holds only near where it was made: it forgets later, not less. As any
    quadratic of a loss that is not convex it is left out where it would hold the survivors back:
    very early, and early where the leaver's data are like the others' (``guard``). ``why`` says so.

    The step times eta is at most a half, so that an heir that inherits twice stays stable with a
    step that is given. A chosen step is lowered for an heir that inherits more.

    The paper does not have it.
    """

    label: ClassVar[str] = "trust"
    needs_history = True  # the movement is read off the node's own path

    def decide(self, estate: Estate) -> Bequest:
        """Return the quadratic."""
        curvature = estate.objective.curvature
        met = on_the_way(estate)
        eta, how = curvature.midpoint, "the midpoint's, as no way has been come"
        if met is not None:
            eta, rounds = met
            how = f"that along the movement of the last {rounds} rounds"
        eta = max(eta, curvature.a, 0.0)
        if estate.setting.mu >= 0:  # the range of a network is that at its start, and no bound
            eta = min(eta, curvature.b)
        if estate.setting.step > 0:
            eta = min(eta, ROOM / estate.setting.step)
        why = f"curvature {eta:.3g}, {how}"
        return Bequest("trust", why, estate.anchored_at(estate.x, eta), estate.x)
