"""The contract between ``solve`` and the engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bequest.core.methods import Conditions
from bequest.core.methods.base import checked
from bequest.core.steps import StepChoice

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from bequest.core.arrays import Indices
    from bequest.model.outcome import Outcome
    from bequest.model.plan import Plan

Progress = Callable[[int], None]


class Engine(Protocol):
    """Carries out plans.

    It may have these attributes, which say more of it:

    - ``unplanned = True``: any node may have to leave, so every node gets what it needs to execute
      its will.
    - ``loads_elsewhere = True``: it does not load data (``Loaded``) in this process.
    - ``without_effect``: a frozen set of names, those of its attributes that change no result. A
      fingerprint of a run holds the others; without it, everything that the engine is made of.
    """

    def run(self, plan: Plan, progress: Progress | None = None) -> Outcome:
        """Carry out the plan; ``progress`` hears of rounds as they are completed."""
        ...


def first_pace(plan: Plan, nodes: Indices, weights: csr_array) -> StepChoice:
    """Return the pace to begin with, for these nodes (ascending) with these weights."""
    method, problem = plan.method, plan.problem
    if method.given is not None:
        return StepChoice(float(method.given), 0, "as given")
    losses = problem.among(nodes)
    stiffness = floor = problem.b[nodes]
    if method.wants_matrix and not losses.away:
        floor = np.asarray(np.linalg.eigvalsh(losses.bounds())[:, 0], dtype=float)
    conditions = Conditions.of(
        nodes, problem.a[nodes], stiffness, floor, weights, plan.modulus, plan.shared_floor
    )
    return checked(method, method.first_pace(conditions))
