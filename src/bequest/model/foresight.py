"""Predicting the optimum with what one node has: its own path and its own loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.core import anchors

if TYPE_CHECKING:
    from bequest.core.anchors import Correction, Prediction
    from bequest.core.arrays import Vector
    from bequest.core.history import Chapter
    from bequest.model.objectives.base import Objective

# Up to this dimension a node can afford its whole Hessian when it leaves: at twice as many
# samples as unknowns, it costs as much as a few rounds.
DENSE_DIM = 256


def foresee(
    objective: Objective, chapter: Chapter, step: float, *, by_gradients: bool = False
) -> list[Prediction]:
    """Return what the pairs of one epoch say about the optimum."""
    correct = _correction(objective, chapter.X[0], step, by_gradients=by_gradients)
    return anchors.predictions(chapter, correct)


def foresee_best(objective: Objective, chapter: Chapter, step: float) -> Prediction | None:
    """Return the least doubtful prediction that can be believed, if there is one."""
    within = anchors.reach(chapter, objective.curvature.a)
    believed = [
        one for one in foresee(objective, chapter, step) if one.is_steady(chapter.X[0], within)
    ]
    return min(believed, key=lambda one: one.doubt, default=None)


def _correction(objective: Objective, x: Vector, step: float, *, by_gradients: bool) -> Correction:
    """Return B: the inverse of the own Hessian where it is cheap and certain, else the step."""
    cheap = objective.has_hessian and objective.dim <= DENSE_DIM and not by_gradients
    if not cheap or objective.curvature.a == 0:
        return lambda v: np.asarray(step * v)
    hessian = objective.hessian(x)
    return lambda v: np.asarray(np.linalg.solve(hessian, v))
