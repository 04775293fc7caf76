"""Products of a leaver's Hessian: at one place, or in the mean on the way to the own minimiser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.core import sketch
from bequest.core.arrays import norm

if TYPE_CHECKING:
    from bequest.core.arrays import Matrix, Vector
    from bequest.model.objectives.base import Objective
    from bequest.model.wills.base import Estate

# A way that is this much shorter than what the node has come is nearly rounding: engines that round
# differently would see another direction.
TURNED = 1e-8
# Places on a way, as parts of it, and their weights in a mean over it (Gauss-Legendre); and how far
# beside the way they lie, on either side, as a part of its length.
_GAUSS = tuple(
    (float((1 + t) / 2), float(w / 2))
    for t, w in zip(*np.polynomial.legendre.leggauss(8), strict=True)
)
_BESIDE = 0.2
# So little of the loss's gradient at the ends of the way may be lost to clipping.
_CLIPPED = 1e-4
# Less than this part of a slope is rounding: the memory is curved wherever the loss falls.
_FALLING = 1e-6


def hessian_products(estate: Estate, anchor: Vector, Q: Matrix) -> Matrix | None:
    """Return H Q at the anchor, or None if what the loss gives cannot be that.

    Without a prediction it is the mean of H on the way to the own minimiser, or on some steps of
    that way where it is too far to go. By Hessian-vector products, unless they are unwelcome, dear
    or implausible; then by differences of gradients over the length of the drift. Over a long way
    these are no symmetric matrix, which few directions hardly show: all of them would.
    """
    loss, curvature = estate.objective, estate.objective.curvature
    homeward = not estate.believed and looks_homeward(estate)
    formulas = estate.setting.mu >= 0 and np.isfinite(loss.hessian_work)
    ways = ("secant",) if estate.by_gradients else ("products", "secant")
    if homeward and not estate.has_own_end and not (formulas and Q.shape[1] == loss.dim):
        ways = ("secant", "products") if formulas and not estate.by_gradients else ("secant",)
    for way in ways if Q.shape[1] else ():
        if way == "products" and homeward:
            product = _homeward(estate, Q)
        elif way == "products":
            product = _product(loss, anchor, Q)
        else:
            here, length = loss.gradient(anchor), _length(estate, anchor)
            product = np.array([loss.gradient(anchor + length * q) - here for q in Q.T]).T / length
        if sketch.is_plausible(product, Q, low=curvature.a, high=curvature.b):
            return product
    return None


def _homeward(estate: Estate, Q: Matrix) -> Matrix:
    """Return the mean of H around the way from the iterate to the own minimiser, times Q.

    The optimum will hardly lie on that way, so the places lie on both sides of it, in directions
    that are random but always the same. Where no legal curvature can both be that mean and have
    the gradient of the loss at the ends, they lie on the way.
    """
    loss, home = estate.objective, estate.own_end
    ahead, change = home - estate.x, loss.gradient(home) - estate.gradient
    aside = np.random.default_rng(0).standard_normal((len(_GAUSS), ahead.size))
    aside *= norm(ahead) / np.sqrt(ahead.size)
    for part in (_BESIDE, 0.0):
        product = np.zeros_like(Q)
        for (t, weight), off in zip(_GAUSS, part * aside, strict=True):
            sides = (off, -off) if part else (off,)
            for side in sides:
                place = estate.x + t * ahead + side
                product += weight / len(sides) * _product(loss, place, Q)
        product = _with_secant(product, Q, ahead, change)
        values = np.linalg.eigvalsh(Q.T @ product)
        beyond = max(loss.curvature.a - values[0], values[-1] - loss.curvature.b)
        if beyond * norm(ahead) <= _CLIPPED * norm(change):
            break
    return product


def _with_secant(product: Matrix, Q: Matrix, s: Vector, y: Vector) -> Matrix:
    """Return B Q of a matrix close to H with B s = y, given H Q with s in the span of Q.

    A few places may all miss where a loss bends, as Huber's does near its samples only; the change
    of its gradient does not. This is the BFGS update, which keeps a matrix positive.
    """
    bent = product @ (Q.T @ s)
    along, change = float(s @ bent), float(s @ y)
    if not change > 0:
        return product
    missing = np.outer(y, y @ Q) / change
    return product + missing - (np.outer(bent, bent @ Q) / along if along > 0 else 0.0)


def _product(loss: Objective, x: Vector, Q: Matrix) -> Matrix:
    if Q.shape[1] == loss.dim:
        return np.asarray(loss.hessian(x) @ Q)
    return np.array([loss.hvp(x, q) for q in Q.T]).T


def looks_homeward(estate: Estate) -> bool:
    """Whether curvature at one place says little, so that the way to the own minimiser counts."""
    return not estate.is_quadratic and norm(estate.own_end - estate.x) > TURNED * size_of(estate)


def _length(estate: Estate, anchor: Vector) -> float:
    """Return how long the drift is: ahead, or else back along the path."""
    if not estate.believed and looks_homeward(estate):
        return norm(estate.own_end - anchor)
    ahead = norm(anchor - estate.x)
    if ahead > 0 or estate.recent is None:
        return ahead or 1.0
    return norm(estate.x - estate.recent.X[-1]) or 1.0


def size_of(estate: Estate) -> float:
    """Return the length that a node's rounding is a part of."""
    return norm(estate.x) + norm(estate.x - estate.start)


def still_falling(estate: Estate, anchor: Vector, basis: Matrix) -> Vector | None:
    """Return the direction in which a memory without curvature there would fall for ever, or None.

    Of a convex loss that is no quadratic, and that nothing holds: its slope at the anchor, beside
    the directions in which the memory is curved (``basis``, orthonormal). A sample of Huber's that
    is in its linear zone all the way has such a slope, though the loss itself ends somewhere.
    """
    curvature = estate.objective.curvature
    if estate.setting.mu < 0 or curvature.a > 0 or estate.objective.constant_hessian:
        return None
    slope = estate.objective.gradient(anchor)
    beside = slope - basis @ (basis.T @ slope)
    beside -= basis @ (basis.T @ beside)
    return beside / norm(beside) if norm(beside) > _FALLING * norm(slope) else None
