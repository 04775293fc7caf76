"""What is measured of every round, many rounds at a time."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import norm
from bequest.model.outcome import Trajectory

if TYPE_CHECKING:
    from bequest.core.arrays import Matrix, Tensor, Vector
    from bequest.model.plan import Plan

# Iterates this many times further out than their start have diverged.
_ESCAPE = 1e10
# Relative to the lengths of a run, how far apart and how far from the limit "converged" may be:
# this, or this many times the rounding of the losses, and never more than the last one.
_TOLERANCE, _ROUNDINGS, _LOOSEST = 1e-9, 32, 1e-5
# Rows of more numbers than this are long, and measured in pieces of so many.
_WIDE = 1 << 13


class Metrics:
    """Arrays of length rounds + 1, filled as the rounds come in.

    What is measured against x* waits until rounds have been carried out: a run does not begin by
    computing it.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._opening: Tensor | None = None  # the start, as long as its error is not measured
        # per coordinate: of the gradients at the start and at the end, the sum and that of sizes
        unknown = np.full((3, plan.problem.dim), np.nan)
        self._first_terms, self._last_terms, self._last_slope = unknown
        self._error, self._gap, self._slope, self._spread = np.full((4, plan.rounds + 1), np.inf)

    @cached_property
    def _bound(self) -> float:
        """How far out iterates may be."""
        plan, optima = self._plan, self._plan.optima.known
        strength = float(plan.problem.a.sum())
        if optima is not None:
            farthest = max(map(norm, optima.values()))
        else:  # a slope that meets this much curvature at least ends within that distance
            farthest = float(self._slope[0]) / strength if strength > 0 else 0.0
        reach = float(np.abs(plan.start).max()) + farthest
        return _ESCAPE * (1.0 + reach)

    def measure(self, first: int, X: Tensor, Z: Tensor, G: Tensor, *, target: int) -> int | None:
        """Measure consecutive rounds from ``first`` on, one slot each, against one target.

        Args:
            first: the round of the first slot.
            X: the iterates, a matrix per slot with a row per node.
            Z: likewise the trackers.
            G: likewise the gradients.
            target: the round after which what is aimed at was last changed.

        Returns:
            The slot at which the iterates escaped, if they did; it and what follows count as
            infinitely wrong.
        """
        slots, nodes = X.shape[:2]
        is_start = first == 0 and slots == 1
        bound = math.inf if is_start else self._bound
        if X.shape[2] > _WIDE:
            middle, spread, slope, gap = np.transpose(
                [_of_long_rows(*one) for one in zip(X, Z, G, strict=True)]
            )
        else:
            slopes, means = _totals(G), _totals(X) / nodes
            middle, spread = np.linalg.norm(means, axis=1), _farthest(X, means[:, None, :])
            slope = np.linalg.norm(slopes, axis=1)
            gap = np.linalg.norm(_totals(Z) - slopes, axis=1)
        escaped = np.flatnonzero(~(middle + spread <= bound))
        good = int(escaped[0]) if escaped.size else slots
        rounds = slice(first, first + good)
        if first == 0:
            self._first_terms = np.abs(G[0]).sum(axis=0)
        if first + slots > self._plan.rounds:
            self._last_terms, self._last_slope = np.abs(G[-1]).sum(axis=0), G[-1].sum(axis=0)
        self._spread[rounds] = spread[:good]
        self._slope[rounds], self._gap[rounds] = slope[:good], gap[:good]
        if is_start:
            self._opening = X.copy()
        else:
            self._measure_opening()
            self._measure_error(rounds, X[:good], target)
        if not np.isfinite(self._slope[rounds]).all():
            good = int(np.argmax(~np.isfinite(self._slope[rounds])))
            for measured in (self._error, self._gap, self._slope, self._spread):
                measured[first + good : first + slots] = np.inf
        return good if good < slots else None

    def _measure_opening(self) -> None:
        if self._opening is not None and np.isfinite(self._slope[0]):
            self._measure_error(slice(0, 1), self._opening, 0)
        self._opening = None

    def _measure_error(self, rounds: slice, X: Tensor, target: int) -> None:
        optimum = self._plan.optima.at(target)
        if optimum is not None:
            self._error[rounds] = _farthest(X, optimum[None, None])

    def settled(self, *, strength: float, stiffness: float, size: float, precision: float) -> bool:
        """Whether the survivors are at the limit: they agree, and their gradients cancel.

        Args:
            strength: curvature of what the survivors minimise, from below. Gradients that sum to
                s leave the mean within s/strength of the limit.
            stiffness: the same from above.
            size: the magnitude of their iterates.
            precision: the relative rounding of their losses.
        """
        tolerance = min(max(_TOLERANCE, _ROUNDINGS * precision), _LOOSEST)
        terms = np.maximum(self._first_terms, self._last_terms)
        # A limit at the origin has no size. How far the nodes came, and how far apart their own
        # minimisers are, are lengths in the same unit.
        reach = np.abs(self._plan.start).max() + (norm(terms) / stiffness if stiffness > 0 else 0.0)
        length = tolerance * (size + np.minimum(reach, 1.0))
        if not self._spread[-1] <= length:
            return False
        if strength > 0 and self._slope[-1] <= length * strength:
            return True
        if strength > 0 and tolerance == _TOLERANCE:
            return False
        # Without strength, or with rounding that hides it, each coordinate of the sum is held
        # against what it is the sum of: steep coordinates say nothing about flat ones.
        cancelled = np.abs(self._last_slope) <= tolerance * terms
        return bool(self._slope[-1] <= length * stiffness and cancelled.all())

    def reading(self, t: int) -> tuple[float | None, float, float, float]:
        """Return (error, invariant gap, gradient norm, disagreement) after round t.

        There is no error before any round has been carried out.
        """
        unknown = self._opening is not None or self._plan.optima.known is None
        error = None if unknown else float(self._error[t])
        return error, float(self._gap[t]), float(self._slope[t]), float(self._spread[t])

    def trajectory(self) -> Trajectory:
        """Return everything that was measured, read-only."""
        self._measure_opening()
        for measured in (self._error, self._gap, self._slope, self._spread):
            measured.setflags(write=False)
        error = None if self._plan.optima.known is None else self._error
        return Trajectory(error, self._gap, self._slope, self._spread)


def _several(X: Tensor) -> Tensor:
    """Return the slots with several short rows joined into one, where their number allows.

    NumPy's inner loops then run over hundreds of numbers instead of ``dim``. (A product with a
    vector of ones would do as well, until BLAS spreads it over cores that are busy.)
    """
    slots, nodes, dim = X.shape
    joined = math.gcd(nodes, 64)
    return X.reshape(slots, nodes // joined, joined * dim)


def _totals(X: Tensor) -> Matrix:
    """Return, per slot, the sum over the nodes."""
    sums = np.einsum("srk->sk", _several(X))
    totals: Matrix = sums.reshape(X.shape[0], -1, X.shape[2]).sum(axis=1)
    return totals


def _of_long_rows(X: Matrix, Z: Matrix, G: Matrix) -> tuple[float, float, float, float]:
    """Return the lengths of the mean, of the farthest node from it, of the slope and of the gap.

    All of them piece by piece: every array comes from memory once.
    """
    nodes, dim = X.shape
    middle = slope = gap = 0.0
    apart, squares = np.empty((nodes, _WIDE)), np.zeros(nodes)
    for begin in range(0, dim, _WIDE):
        part = slice(begin, begin + _WIDE)
        mean, steep, tracked = (rows[:, part].sum(axis=0) for rows in (X, G, Z))
        mean /= nodes
        offset = np.subtract(X[:, part], mean, apart[:, : mean.size])
        squares += np.einsum("nd,nd->n", offset, offset)
        tracked -= steep
        middle += float(mean @ mean)
        slope += float(steep @ steep)
        gap += float(tracked @ tracked)
    return math.sqrt(middle), math.sqrt(squares.max()), math.sqrt(slope), math.sqrt(gap)


def _farthest(X: Tensor, centre: Tensor) -> Vector:
    """Return, per slot, the largest distance of a node to the centre of the slot."""
    if X.shape[2] > _WIDE:
        # Row by row: as one array the differences would have to be made first.
        apart = np.empty(X.shape[2])
        squared = np.zeros(X.shape[0])
        for slot, rows in enumerate(X):
            for row in rows:
                np.subtract(row, centre[slot % len(centre), 0], apart)
                square = np.einsum("d,d->", apart, apart)  # BLAS would wake up all its threads
                squared[slot] = np.maximum(squared[slot], square)
        return np.asarray(np.sqrt(squared))
    rows = _several(X)
    repeats = rows.shape[2] // X.shape[2]
    offset = (rows - np.tile(centre, (1, 1, repeats))).reshape(X.shape)
    squares = np.einsum("snd,snd->sn", offset, offset)
    farthest: Vector = np.sqrt(squares.max(axis=1))
    return farthest
