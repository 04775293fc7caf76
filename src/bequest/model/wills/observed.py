"""The rule from observables: how far each branch would move the optimum, as a node can foresee it.

Replacing f_i by q moves the minimiser of the sum by (sum H - H_i + H~)^-1 (grad q - grad f_i)(x*),
to first order. A node knows neither x* nor the others' Hessians, so it takes several views of
both and averages what they say. Nothing here reads x*, zeta or another node's data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import norm
from bequest.model.foresight import DENSE_DIM, foresee

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.legacy import Legacy
    from bequest.model.wills.base import Choice, Estate


# A loss whose gradient changes as its Hessian says, to this relative accuracy, is a quadratic.
_QUADRATIC = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """One guess: the optimum is here, and everybody is curved like this on average.

    ``mean`` is the mean Hessian, or one number for all directions.
    """

    optimum: Vector
    mean: Matrix | float


def displacements(estate: Estate, branches: Mapping[Choice, Legacy | None]) -> dict[Choice, float]:
    """Return how far each branch is expected to move the optimum; None is no legacy.

    The views: the best prediction of the node's path and its two predecessors, as if everybody
    were curved like the node itself; and where a Newton step from the iterate leads, likewise.
    Predictions are the better guess late in a run, Newton steps early. Where the node's own loss
    is no quadratic along its path, a Hessian is a poor guess at another place, and the Newton
    step is also taken with one number for everybody's curvature: what the tracker shows.
    """
    affordable = estate.objective.has_hessian and estate.objective.dim <= DENSE_DIM
    own = estate.objective.hessian(estate.x) if affordable else None
    views = _views(estate, own)
    return {
        choice: float(np.mean([_displacement(estate, own, legacy, view) for view in views]))
        for choice, legacy in branches.items()
    }


def _views(estate: Estate, own: Matrix | None) -> list[_View]:
    """Return the guesses; without an affordable Hessian, all with the tracker's curvature."""
    slope = _mean_curvature(estate)
    mean: Matrix | float = slope if own is None else own
    newton = estate.z / slope if own is None else np.linalg.solve(own, estate.z)
    views = [_View(estate.x - newton, mean)]
    if own is not None and not _is_quadratic(estate, own):
        views.append(_View(estate.x - newton, slope))
    if estate.recent is not None:
        found = foresee(estate.objective, estate.recent, estate.setting.step)
        best = min(found, key=lambda one: one.doubt, default=None)
        if best is not None:
            views += [_View(point, mean) for point in (best.point, *best.earlier)]
    return views


def _is_quadratic(estate: Estate, own: Matrix) -> bool:
    """Whether the own Hessian explains how the own gradient changed along the path."""
    if estate.recent is None or len(estate.recent) < 2:
        return False
    back = estate.recent.X[-1] - estate.x
    change = estate.objective.gradient(estate.recent.X[-1]) - estate.gradient
    return norm(change - own @ back) <= _QUADRATIC * norm(change)


def _mean_curvature(estate: Estate) -> float:
    """Return the mean curvature of everybody along the node's path, as its tracker shows it."""
    curvature = estate.objective.curvature
    if estate.recent is None or len(estate.recent) < 2:
        return curvature.midpoint
    dX, dZ = np.diff(estate.recent.X, axis=0), np.diff(estate.recent.Z, axis=0)
    travelled = float(np.sum(dX * dX))
    slope = float(np.sum(dX * dZ)) / travelled if travelled > 0 else curvature.midpoint
    return max(slope, curvature.a) if np.isfinite(slope) else curvature.midpoint


def _displacement(estate: Estate, own: Matrix | None, legacy: Legacy | None, view: _View) -> float:
    push = -estate.objective.gradient(view.optimum)
    if legacy is not None:
        push = push + legacy.gradient(view.optimum)
    everybody = estate.remaining + 1
    # Those who stay are strongly convex, whatever the view says.
    least = estate.remaining * estate.setting.mu
    if own is None:
        bent = 0.0 if legacy is None else sum(legacy.curvature) / 2
        rest = everybody * float(view.mean) - estate.objective.curvature.midpoint + bent
        return norm(push) / max(rest, least)
    mean = view.mean * np.eye(push.size) if isinstance(view.mean, float) else view.mean
    matrix = everybody * mean - own + (0.0 if legacy is None else legacy.hessian())
    values, basis = np.linalg.eigh((matrix + matrix.T) / 2)
    return norm((basis.T @ push) / np.maximum(values, least))
