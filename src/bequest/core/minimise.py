"""The minimiser of a smooth convex function to the last digits, or an error if there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import EPSILON, norm
from bequest.core.directions import LEVEL, ROUNDING
from bequest.errors import OptimumUnknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Vector
    from bequest.core.directions import Descent, Direction, Magnitude

    Point = tuple[Vector, float, Vector]

ACCURACY = 1e-12
_PATIENCE = 3
MAX_STEPS = 500
# Steps after which to ask whether they lead anywhere.
_EVERY = 25
# What is returned leaves no more than this part: that of an error of ACCURACY, and some rounding.
_GROUND = 1e-11
# A depth below this part of the loss is none.
_BLIND = 1e-9


def newton(
    value: Callable[[Vector], float],
    gradient: Callable[[Vector], Vector],
    descent: Descent,
    start: Vector,
    magnitude: Magnitude | None = None,
    *,
    detour: Descent | None = None,
    exists: bool = False,
    steps: int = MAX_STEPS,
    precision: float = EPSILON,
) -> Vector:
    """Return argmin by damped Newton steps, accurate to 1e-12 of its length.

    Where the condition number of the scaled Hessian puts that below rounding (1e4 or so), the steps
    go on until they no longer shrink. Where minimisers form a set, one close to the start is found.
    Either way no coordinate of the gradient is more than rounding beside its terms.

    Args:
        value: f(x).
        gradient: grad f(x).
        descent: (x, gradient, magnitude) -> the Direction; ``dense_descent`` or
            ``product_descent``.
        start: where to begin.
        magnitude: (x, scale) -> how large the terms are whose sum the gradient is, per coordinate,
            which tells a slope from rounding; the largest gradient met on the way by default.
        detour: where to go from where curvature leads astray (kinks, slopes without curvature);
            the way of ``descent`` by default.
        exists: whether there is a minimiser for certain (strong convexity).
        steps: how many steps to try.
        precision: the relative rounding of values.

    Raises:
        OptimumUnknown: no minimiser was found to that accuracy.
    """
    x = np.array(start, dtype=float)
    slope, level = gradient(x), value(x)
    first, steepest = level, norm(slope)
    shortest, previous, stalled = np.inf, np.inf, 0

    def largest(x: Vector, _: Vector) -> Vector:
        return np.full_like(x, steepest)

    for taken in range(min(steps, MAX_STEPS)):
        if not (np.isfinite(level) and np.isfinite(slope).all() and np.isfinite(x).all()):
            break
        steepest = max(steepest, norm(slope))
        terms = largest if magnitude is None else magnitude
        way = descent(x, slope, terms)
        length, size = way.length(way.step), way.length(x)
        if not np.isfinite(length):
            break
        stalled = stalled + 1 if length >= 0.9 * shortest else 0
        shrinking = min(length / previous, 0.9) if previous > 0 else 0.0
        # Steps that shrink by a factor q leave q/(1-q) times the last one to go.
        left = length * max(1.0, shrinking / (1 - shrinking))
        found = None
        if way.curved and left <= ACCURACY * size:
            found = x + way.step
            found = None if way.leaves(gradient(found), _GROUND) else found
        elif way.curved and stalled and not way.leaves(slope, LEVEL):
            # A slope below one unit of rounding is noise, and another step draws another one.
            found = x if stalled >= _PATIENCE or not way.leaves(slope, EPSILON) else None
        scale = abs(first) + abs(level)
        if found is not None:
            _refuse_runaway(value, found, start, way, scale=scale, exists=exists)
            _refuse_blind(float(way.doubt(found, gradient).sum()), scale)
            return way.closest(found, start, gradient, terms, scale)
        if not exists and taken % _EVERY == _EVERY - 1:
            _refuse_runaway(value, x, start, way, scale=scale, exists=False, early=True)
        shortest, previous = min(shortest, length), length
        nearby = _backtrack(value, gradient, x, level, slope, way, precision)
        if nearby is None:
            turns = [way.step] if detour is None else [way.step, detour(x, slope, terms).step]
            ends = [_follow(value, gradient, x, slope, step) for step in turns]
            nearby = min(ends, key=lambda end: np.nan_to_num(end[1], nan=np.inf))
        x, level, slope = nearby
    raise _unknown(
        f"stopped at |x| = {norm(x):.3g} with gradient norm {norm(slope):.3g}", exists=exists
    )


def quadratic(
    value: Callable[[Vector], float],
    gradient: Callable[[Vector], Vector],
    descent: Descent,
    start: Vector,
    magnitude: Magnitude,
    *,
    exists: bool = False,
) -> Vector:
    """Return argmin of a function with a constant Hessian: one solve, refined while it helps.

    As accurate as rounding and the condition number of the scaled Hessian allow;
    no coordinate of the gradient is more than rounding beside its terms.

    Args:
        value: f(x).
        gradient: grad f(x).
        descent: as in ``newton``.
        start: where to begin, and what to stay close to where minimisers form a set.
        magnitude: as in ``newton``.
        exists: as in ``newton``.

    Raises:
        OptimumUnknown: there is a slope without curvature, so there is no minimiser, or the
            numbers are beyond float64.
    """
    x, previous = np.array(start, dtype=float), np.inf
    for _ in range(10):
        slope = gradient(x)
        way = descent(x, slope, magnitude)
        length = way.length(way.step)
        if np.isfinite(length) and not way.curved:
            slant = f"a slope of {norm(slope):.3g} meets no curvature beyond rounding"
            raise _no_curvature(slant, exists=exists)
        if not length < previous / 2:
            break
        x, previous = x + way.step, length
    if way.leaves(gradient(x), _GROUND):
        raise _unknown(f"a gradient of norm {norm(slope):.3g} is left", exists=exists)
    scale = abs(value(start)) + abs(value(x))
    _refuse_blind(float(way.doubt(x, gradient).sum()), scale)
    return way.closest(x, start, gradient, magnitude, scale)


def _unknown(where: str, *, exists: bool) -> OptimumUnknown:
    """Return why a search ended without a minimiser."""
    if exists:
        return OptimumUnknown(
            f"The minimiser, which there is, was not found to rounding ({where}).",
            remedy="Bring the features to one scale, add regularisation (a larger l2), or check "
            "that value and gradient are exact.",
        )
    return OptimumUnknown(
        f"The minimiser was not found to rounding: the loss may have none ({where}).",
        remedy="Add regularisation (l2 > 0), or check that loss is convex and gradient exact.",
    )


def _no_curvature(why: str, *, exists: bool) -> OptimumUnknown:
    """Return what to say of a loss that is flat, as far as float64 can tell."""
    if exists:
        return OptimumUnknown(
            f"Float64 cannot tell where the minimiser is: {why}.",
            remedy="Add more regularisation (a larger l2), or drop features that are nearly "
            "combinations of others.",
        )
    return OptimumUnknown(
        f"There is no minimiser: {why}.",
        remedy="Add regularisation (l2 > 0), or drop features that are combinations of others.",
    )


def _refuse_blind(depth: float, scale: float) -> None:
    """Refuse a point below which the loss may fall by more than rounding, with no slope to see."""
    if not depth <= _BLIND * scale:
        raise OptimumUnknown(
            "Float64 cannot tell where the minimiser is: where the loss is curved least, rounding "
            f"of the gradient hides a depth of {depth:.2g}, of a loss of {scale:.2g}.",
            remedy="Centre the features, drop some that are nearly combinations of others, or add "
            "regularisation (a larger l2).",
        )


def _backtrack(
    value: Callable[[Vector], float],
    gradient: Callable[[Vector], Vector],
    x: Vector,
    level: float,
    slope: Vector,
    way: Direction,
    precision: float,
) -> Point | None:
    """Return a point on the way of a Newton step, or None where only a small part of it helps."""
    if not way.curved:
        return None
    descent, steepness = float(slope @ way.step), norm(slope / way.scale)
    exhausted = abs(descent) <= LEVEL * float(way.sizes @ np.abs(way.step))
    noise = max(1e-12, 4 * precision) * abs(level)
    for size in (1.0, 0.5, 0.25, 0.125, 0.0625):
        there = x + size * way.step
        now, ahead = value(there), gradient(there)
        along = float(ahead @ way.step)
        # A convex loss that still falls at the end of a step has fallen all the way. Close to the
        # minimiser values are rounding, and the gradient is the better judge; unless the value
        # rises by more than that, since steps that halve the gradient can go in circles.
        eased = exhausted or norm(ahead / way.scale) <= steepness / 2
        if now <= level + 1e-4 * size * descent or along <= 0 or (eased and now <= level + noise):
            short = size == 1.0 and along < 0.5 * descent and not exhausted
            return _follow(value, gradient, x, slope, way.step) if short else (there, now, ahead)
    return None


def _follow(
    value: Callable[[Vector], float],
    gradient: Callable[[Vector], Vector],
    x: Vector,
    slope: Vector,
    step: Vector,
) -> Point:
    """Return a point as far along a step as it takes to halve the slope: no value is needed."""
    steepness, size, near, far = abs(float(slope @ step)), 1.0, 0.0, np.inf
    for _ in range(60):
        there = x + size * step
        ahead = gradient(there)
        along = float(ahead @ step)
        if abs(along) <= steepness / 2:
            break
        near, far = (size, far) if along < 0 else (near, size)
        size = 2 * size if far == np.inf else (near + far) / 2
    return there, value(there), ahead


def _refuse_runaway(
    value: Callable[[Vector], float],
    x: Vector,
    start: Vector,
    way: Direction,
    *,
    scale: float,
    exists: bool,
    early: bool = False,
) -> None:
    """Refuse a point at which the loss has only become too flat to descend any further.

    Separable logistic losses decrease for ever, until slope and curvature both vanish in
    rounding. What gives it away: in a direction without curvature a loss that has minimisers
    rises both ways in the end, or neither way; this one rises one way only. (``early``, where the
    other way may be the one to the minimiser, it must be flat all along.)
    """
    basis, moved = way.faint(), way.roof * (x - start)
    travelled = basis @ (basis.T @ moved)
    if norm(travelled) <= 1e-6 * norm(moved):
        return
    travelled[np.abs(travelled) < ROUNDING * norm(travelled)] = 0.0
    v = travelled / way.roof
    leap = 1e4 * (np.sqrt(scale) + way.length(x)) / way.length(v) * v
    here, noise = value(x), 1e-8 * (scale + 1e-300)
    ahead, behind = value(x + leap) - here, value(x - leap) - here
    if ahead <= noise and not behind <= noise and not (early and ahead < -noise):
        raise _no_curvature(
            f"from |x| = {norm(x):.3g} on the loss is flat to rounding, but one way only",
            exists=exists,
        )
