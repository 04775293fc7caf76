"""The contract between ``solve`` and the engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from bequest.core import mixing, steps
from bequest.core.steps import StepChoice

if TYPE_CHECKING:
    from collections.abc import Callable

    from scipy.sparse import csr_array

    from bequest.core.arrays import Indices
    from bequest.model.outcome import Outcome
    from bequest.model.plan import Plan

    Progress = Callable[[int], None]


# Looking for a good step may take this part of the gradients of the run, and so many per node at
# most: a long run, too, begins at once.
_FRACTION, _MOST_GRADIENTS = 0.1, 300


class Engine(Protocol):
    """Carries out plans.

    An engine on which any node may have to leave has an attribute ``unplanned = True``: then every
    node gets what it needs to execute its will.
    """

    def run(self, plan: Plan, progress: Progress | None = None) -> Outcome:
        """Carry out the plan; ``progress`` hears of rounds as they are completed."""
        ...


def first_step(plan: Plan, nodes: Indices, weights: csr_array) -> StepChoice:
    """Return the step to begin with, for these nodes (ascending) with these weights."""
    if plan.step is not None:
        return StepChoice(plan.step, 0, "as given")
    stiffest = float(plan.problem.b[nodes].max())
    smallest = mixing.smallest_eigenvalue(weights)
    gap = mixing.spectral_gap(weights, rough=True)
    safe = steps.safe_step(smoothness=stiffest, smallest_eigenvalue=smallest)
    losses = plan.problem.among(nodes)
    modulus = losses.smallest_mean_curvature(
        plan.start[nodes].mean(axis=0), gradients=min(_FRACTION * plan.rounds, _MOST_GRADIENTS)
    )
    balanced = steps.balanced_step(smoothness=stiffest, modulus=modulus, gap=gap)
    if safe <= balanced:
        return StepChoice(
            safe, 0, f"half of what is stable at smoothness {stiffest:.4g} on this graph"
        )
    return StepChoice(
        balanced,
        0,
        f"balances the descent of the mean (curvature {modulus:.4g}) and the mixing of the "
        f"graph (gap {gap:.3g}); stable up to {2 * safe:.3g}",
    )
