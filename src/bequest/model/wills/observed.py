"""The rule from observables: how far each branch would move the optimum, as a node can predict it.

Replacing f_i by q moves the minimiser of the sum by (sum H - H_i + H~)^-1 (grad q - grad f_i)(x*),
to first order. A node knows neither x* nor the others' Hessians, so it takes several views of
both and averages what they say. Nothing here reads x*, zeta or another node's data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import directions
from bequest.core.arrays import norm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.legacy import Legacy
    from bequest.model.wills.base import Choice, Estate


# Up to this dimension the prediction solves with matrices, beyond with one number per view.
LARGEST = 256
# Curvature below this part of the largest is rounding.
_FLAT = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """Some guesses: the optimum is at one of these points, and all losses are curved like this.

    ``mean`` is the mean Hessian, or one number for all directions; ``optima`` come with the own
    gradient there, which is asked for once and not for every branch: a gradient may be dear.
    """

    mean: Matrix | float
    optima: tuple[tuple[Vector, Vector], ...]


def displacements(estate: Estate, branches: Mapping[Choice, Legacy | None]) -> dict[Choice, float]:
    """Return how far each branch is expected to move the optimum; None is no legacy.

    The views: the best prediction of the node's path and its two predecessors, and where a Newton
    step from the iterate leads, all as if every loss were curved like the node's own. Predictions
    are the better guess late in a run, Newton steps early. Where the node's own loss is no
    quadratic along its path, a Hessian is a poor guess at another place: then the Newton step is
    also judged with one number for the curvature of all losses, the one that the tracker shows.
    """
    small = estate.objective.hessian_work < np.inf and estate.objective.dim <= LARGEST
    own = estate.objective.hessian(estate.x) if small else None
    views = _views(estate, own)
    return {
        choice: float(
            np.mean([move for view in views for move in _seen(estate, own, legacy, view)])
        )
        for choice, legacy in branches.items()
    }


def _views(estate: Estate, own: Matrix | None) -> list[_View]:
    """Return the guesses; without a small Hessian, all with the tracker's curvature."""
    slope = _mean_curvature(estate)
    symmetric = None if own is None else (own + own.T) / 2
    if symmetric is not None:
        ahead = directions.pseudo_solve(symmetric, estate.z)
    else:  # a loss without any curvature leads nowhere
        ahead = estate.z / slope if slope > 0 else np.zeros_like(estate.z)
    points = [estate.x - ahead]
    for best in (estate.believed or estate.predictions)[:1]:
        points += [best.point, *best.earlier]
    optima = tuple((point, estate.objective.gradient(point)) for point in points)
    views = [_View(slope if own is None else own, optima)]
    if own is not None and not estate.is_quadratic:
        views.append(_View(slope, optima[:1]))
    return views


def _mean_curvature(estate: Estate) -> float:
    """Return the mean curvature of all losses along the node's path, as its tracker shows it."""
    curvature = estate.objective.curvature
    if estate.recent is None or len(estate.recent) < 2:
        return curvature.midpoint
    dX, dZ = np.diff(estate.recent.X, axis=0), np.diff(estate.recent.Z, axis=0)
    travelled = float(np.sum(dX * dX))
    slope = float(np.sum(dX * dZ)) / travelled if travelled > 0 else curvature.midpoint
    slope = max(slope, curvature.a)  # no curvature from below, and trackers that ring: none
    return slope if np.isfinite(slope) and slope > 0 else curvature.midpoint


def _seen(
    estate: Estate, own: Matrix | None, legacy: Legacy | None, view: _View
) -> Iterator[float]:
    """Yield how far a branch moves the optimum, for every guess of where that is."""
    nodes, loss = estate.remaining + 1, estate.objective
    if own is None:
        bent = 0.0 if legacy is None else sum(legacy.curvature) / 2
        rest = nodes * float(view.mean) + bent - loss.curvature.midpoint
        values, basis = np.array([rest]), np.empty((0, 0))
    else:
        mean = view.mean * np.eye(own.shape[0]) if isinstance(view.mean, float) else view.mean
        matrix = nodes * mean - own + (0.0 if legacy is None else legacy.hessian())
        values, basis = np.linalg.eigh((matrix + matrix.T) / 2)
    # The remaining losses are strongly convex, even if the view says otherwise; or what is flat for
    # all of them does not count.
    values = np.maximum(values, estate.remaining * estate.setting.mu)
    curved = values > _FLAT * values.max()
    for optimum, gradient in view.optima:
        push = -gradient
        if legacy is not None:
            push = push + legacy.gradient(optimum)
        seen = push if own is None else (basis.T @ push)[curved]
        yield norm(seen / values[curved]) if curved.any() else norm(push)
