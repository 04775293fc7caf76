"""Methods that track the mean gradient: two vectors per edge and round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bequest.core import steps
from bequest.core.methods.base import OneStep
from bequest.core.steps import StepChoice

if TYPE_CHECKING:
    from bequest.core.methods.base import Conditions, Local, Rows


@dataclass(frozen=True)
class GradientTracking(OneStep):
    """Adapt-then-combine gradient tracking: x+ = W (x - step z), s+ = s - (I - W) z.

    Args:
        step: the step of every node; None picks one that is safe and fast on this graph and
            these curvatures, and lowers it if an heir becomes too stiff for it.

    Paper: alg:lgt, fact:gt.
    """

    label: ClassVar[str] = "gradient tracking"
    vectors: ClassVar[int] = 2
    hears_differences: ClassVar[bool] = False

    def message(self, x: Rows, z: Rows, local: Local, out: Rows | None = None) -> tuple[Rows, ...]:
        """Return x - step z and z."""
        adapted = np.multiply(z, -local.pace, out=out)
        adapted += x
        return adapted, z

    def advance(
        self,
        x: Rows,  # noqa: ARG002 - it is in what was said
        z: Rows,  # noqa: ARG002
        said: tuple[Rows, ...],  # noqa: ARG002
        heard: tuple[Rows, ...],
        local: Local,  # noqa: ARG002
        out: Rows | None = None,  # noqa: ARG002 - the average is there already
    ) -> tuple[Rows, Rows]:
        """Return both averages."""
        return heard[0], heard[1]

    def first_pace(self, conditions: Conditions) -> StepChoice:
        """Return the safe step, or a smaller one that balances descent and mixing."""
        stiffest = max(conditions.stiffness.values())
        safe = self._safe(conditions)
        bent, gap = conditions.modulus, conditions.gap
        balanced = steps.balanced_step(smoothness=stiffest, modulus=bent, gap=gap)
        if safe <= balanced:
            return StepChoice(
                safe, 0, f"half of what is stable at smoothness {stiffest:.4g} on this graph"
            )
        return StepChoice(
            balanced,
            0,
            f"balances the descent of the mean (curvature {bent:.4g}) and the mixing of the "
            f"graph (gap {gap:.3g}); stable up to {2 * safe:.3g}",
        )

    def _safe(self, conditions: Conditions) -> float:
        return steps.safe_step(
            smoothness=max(conditions.stiffness.values()),
            limit=steps.stability_limit(conditions.smallest_eigenvalue),
        )


@dataclass(frozen=True)
class DIGing(GradientTracking):
    """Combine-then-adapt gradient tracking: x+ = W x - step z, s+ = s - (I - W) z.

    Args:
        step: as in ``GradientTracking``; what is stable is less.
    """

    label: ClassVar[str] = "DIGing"

    def message(
        self,
        x: Rows,
        z: Rows,
        local: Local,  # noqa: ARG002 - it adapts afterwards
        out: Rows | None = None,  # noqa: ARG002
    ) -> tuple[Rows, ...]:
        """Return x and z."""
        return x, z

    def advance(
        self,
        x: Rows,  # noqa: ARG002 - it is in what was said
        z: Rows,
        said: tuple[Rows, ...],  # noqa: ARG002
        heard: tuple[Rows, ...],
        local: Local,
        out: Rows | None = None,
    ) -> tuple[Rows, Rows]:
        """Return the averages, with a step against z."""
        there = np.multiply(z, -local.pace, out=out)
        there += heard[0]
        return there, heard[1]

    def _safe(self, conditions: Conditions) -> float:
        # Per eigenvalue w of W a round has the trace 2w - alpha h and the determinant
        # w^2 - alpha h: it is stable for alpha h < (1 + w)^2 / 2.
        lowest = 1.0 + conditions.smallest_eigenvalue
        stiffest = max(conditions.stiffness.values())
        return steps.safe_step(smoothness=stiffest, limit=lowest * lowest / 2)
