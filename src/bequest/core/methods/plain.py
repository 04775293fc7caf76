"""Decentralized gradient descent, for comparison: it conserves nothing."""

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
class DGD(OneStep):
    """Decentralized gradient descent: x+ = W x - step grad h(x).

    **It does not end at the optimum.** There is no s, and so nothing that a leaver could hand over
    but its legacy: with or without departures the nodes end in different places, all of them off
    by about the step. It is here to be compared with; certificates promise nothing about it.

    Args:
        step: the step of every node; None picks a stable one. Smaller ones end closer, later.
    """

    label: ClassVar[str] = "DGD"
    is_exact: ClassVar[bool] = False

    def message(
        self,
        x: Rows,
        z: Rows,  # noqa: ARG002 - no node hears of gradients
        local: Local,  # noqa: ARG002
        out: Rows | None = None,  # noqa: ARG002
    ) -> tuple[Rows, ...]:
        """Return x."""
        return (x,)

    def advance(
        self,
        x: Rows,
        z: Rows,
        said: tuple[Rows, ...],  # noqa: ARG002
        heard: tuple[Rows, ...],
        local: Local,
        out: Rows | None = None,
    ) -> tuple[Rows, Rows]:
        """Return x with a step against z, which is the gradient, towards what is heard."""
        there = np.multiply(z, -local.pace, out=out)
        there -= heard[0]
        there += x
        return there, z

    def first_pace(self, conditions: Conditions) -> StepChoice:
        """Return half of what is stable."""
        stiffest = max(conditions.stiffness.values())
        return StepChoice(
            self._safe(conditions),
            0,
            f"half of what is stable at smoothness {stiffest:.4g}; with {self.label} nodes end "
            "about a step away from the minimiser",
        )

    def _safe(self, conditions: Conditions) -> float:
        stiffest = max(conditions.stiffness.values())
        return steps.safe_step(smoothness=stiffest, limit=1.0 + conditions.smallest_eigenvalue)
