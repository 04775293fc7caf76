"""Predicting the optimum with what one node has: its own path and its own loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.core import anchors

if TYPE_CHECKING:
    from bequest.core.anchors import Correction, Prediction
    from bequest.core.arrays import Vector
    from bequest.core.history import EpochPath
    from bequest.model.objectives.base import Objective

# A node can afford its whole Hessian, once, if it takes no more multiplications than this to form
# and to factorise: tens of milliseconds.
_AFFORDABLE = 1e9
# Below this ratio of its ends a spectrum is singular to rounding, or might be.
_SINGULAR = 1e-10


def predict(
    objective: Objective, path: EpochPath, step: float, *, by_gradients: bool = False
) -> list[Prediction]:
    """Return what the pairs of one epoch say about the optimum, the least damped one first.

    Nothing, if they wander about because the gradients are stochastic.
    """
    if not path.drifts and is_stochastic(objective, path.X[0]):
        return []
    correct = _correction(objective, path.X[0], step, by_gradients=by_gradients)
    return anchors.predictions(path, correct)


def is_stochastic(objective: Objective, x: Vector) -> bool:
    """Whether rounds see another gradient than a will does.

    A loss that takes minibatches says so; one that is noisy by itself is asked twice.
    """
    if objective.is_stochastic:
        return True
    return not np.array_equal(objective.gradient(x), objective.gradient(x))


def predict_best(
    objective: Objective, path: EpochPath, step: float, *, by_gradients: bool = False
) -> Prediction | None:
    """Return the least doubtful prediction that can be believed, if there is one."""
    within = anchors.reach(path, objective.curvature.a)
    found = predict(objective, path, step, by_gradients=by_gradients)
    believed = [one for one in found if one.is_steady(path.X[0], within)]
    return min(believed, key=lambda one: one.doubt, default=None)


def _correction(objective: Objective, x: Vector, step: float, *, by_gradients: bool) -> Correction:
    """Return B: the inverse of the own Hessian where it is cheap and certain, else the step."""
    work = objective.hessian_work + float(objective.dim) ** 3 / 3
    curvature = objective.curvature
    if by_gradients or work > _AFFORDABLE or curvature.a <= _SINGULAR * curvature.b:
        return lambda v: np.asarray(step * v)
    from scipy.linalg import cho_factor, cho_solve

    factor = cho_factor(objective.hessian(x), check_finite=False)
    return lambda v: np.asarray(cho_solve(factor, v, check_finite=False))
