"""Trust: a quadratic for networks, where no statistics may leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bequest.core.arrays import norm
from bequest.model.wills.base import Bequest, Will

if TYPE_CHECKING:
    from bequest.model.wills.base import Estate

# The movement of so many rounds says in which direction curvature matters.
_ROUNDS = 32
# While the own gradient is more than this part of what it was at the start, the training has hardly
# begun, and a quadratic would be in the wrong place (chosen on seed 100 of `reproduce networks`).
_BEGUN = 0.5


@dataclass(frozen=True)
class Trust(Will):
    """Anchor at the iterate, with the curvature that the node has met on its way: two vectors.

    eta = l2 + s'Gs/|s|^2, s the movement of the last 32 rounds and G the Gauss-Newton matrix (the
    Hessian of a convex loss). Two gradients on all samples and one product.

    A quadratic of a network holds only near where it was made: it forgets later, not less. While
    the leaver's own gradient is still like the one at its start, nothing is left instead: where
    data are like the others' that costs little, and a quadratic made so early would be worse than
    nothing; where they are not, it would be no better. ``why`` says so, and where a quadratic is
    made early.

    The step times what an heir inherits stays below one: eta is clipped to one over the step.

    The paper does not have it.
    """

    label: ClassVar[str] = "trust"
    needs_history = True  # the movement is read off the node's own path

    def decide(self, estate: Estate) -> Bequest:
        """Return the quadratic, or nothing."""
        now, before = norm(estate.gradient), norm(estate.objective.gradient(estate.start))
        if now > _BEGUN * before:
            why = f"its gradient is {now:.3g}, at the start it was {before:.3g}: too early"
            return Bequest("none", why)
        curvature = estate.objective.curvature
        s = None if estate.recent is None else estate.recent.movement(_ROUNDS)
        eta = curvature.midpoint
        if s is not None:
            s = s / norm(s)
            eta = float(s @ estate.objective.hvp(estate.x, s))
        eta = min(max(eta, curvature.a, 0.0), curvature.b)
        if estate.setting.step > 0:
            eta = min(eta, 1.0 / estate.setting.step)
        early = "" if estate.round >= 10 * _ROUNDS else ", early: it may not hold for long"
        why = f"curvature {eta:.3g} along the movement of the last {_ROUNDS} rounds{early}"
        return Bequest("trust", why, estate.anchored_at(estate.x, eta), estate.x)
