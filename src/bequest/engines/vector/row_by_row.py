"""Rounds in which every row computes what a real node would, to the last bit.

Minibatches are chosen by a key, so that two engines take the same samples; but a network that
learns from them amplifies what one rounds differently. Where a loss is stochastic, rows therefore
do not share one array operation: gradients, averages and hand-offs are in the order of a node's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import mixing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scipy.sparse import csr_array

    from bequest.core.arrays import Indices, Matrix, Vector
    from bequest.core.legacy import Legacy
    from bequest.core.rounds import Hear
    from bequest.model.objectives.minibatches import Draws
    from bequest.model.problem import Problem


class Sampling:
    """The gradients that the rounds of all nodes use, and which incarnation each of them is.

    Args:
        problem: the losses.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._incarnations: dict[int, int] = {}
        self._draws: dict[int, Draws] = {}

    def begin(self, node: int) -> None:
        """Note that a process of this node begins, to take part or to be forgotten."""
        number = self._incarnations.get(node, -1) + 1
        self._incarnations[node] = number
        self._draws[node] = self._problem.objective(node).draws(node, number)

    def enter(self, node: int, x: Vector, t: int) -> Vector:
        """Return the gradient that a node comes in with after round t."""
        self.begin(node)
        return self._draws[node].enter(x, t)

    def draw(self, node: int, x: Vector, t: int) -> Vector:
        """Return the gradient of its own loss that round t uses."""
        return self._draws[node].draw(x, t)


class RowGradients:
    """Writes the gradients that consecutive rounds use, beginning with the one after ``t``."""

    def __init__(
        self, sampling: Sampling, nodes: Indices, legacies: Mapping[int, Legacy], t: int
    ) -> None:
        self._sampling, self._nodes, self._legacies = sampling, nodes.tolist(), legacies
        self._t = t

    def __call__(self, X: Matrix, out: Matrix) -> None:
        """Write the gradients of the next round."""
        self._t += 1
        for row, node in enumerate(self._nodes):
            g = self._sampling.draw(node, X[row], self._t)
            legacy = self._legacies.get(node)
            out[row] = g if legacy is None else g + legacy.gradient(X[row])


def hear(weights: csr_array, coupling: float, *, differences: bool) -> Hear:
    """Return what makes what nodes hear of what they say, each in the order of its neighbours."""
    places = []
    for own in range(weights.shape[0]):
        row = weights[[own]]
        given = {int(j): float(w) for j, w in zip(row.indices, row.data, strict=True) if j != own}
        given[own] = 1.0 - math.fsum(given.values())
        places.append(given)
    if differences:
        return _differences(places, coupling)
    orders = [sorted(given) for given in places]
    shares = [[given[j] for j in order] for given, order in zip(places, orders, strict=True)]
    # What was heard in a round is the state of the next one: two sets take turns.
    sets: list[list[Matrix]] = [[], []]

    def averages(said: tuple[Matrix, ...], out: tuple[Matrix, ...] = ()) -> tuple[Matrix, ...]:
        _ = out
        dim = said[0].shape[1]
        if len(said) * dim <= mixing.LONG_MESSAGE:
            beside = np.concatenate(said, axis=1)
            near = zip(shares, orders, strict=True)
            both = np.array([np.array(share).dot(beside[order]) for share, order in near])
            return tuple([both[:, k * dim : (k + 1) * dim] for k in range(len(said))])
        sets.reverse()
        if not sets[0]:
            sets[0].extend(np.empty_like(one) for one in said)
        for one, heard in zip(said, sets[0], strict=True):
            mixing.weigh_all(shares, orders, one, heard)
        return tuple(sets[0])

    return averages


def _differences(places: list[dict[int, float]], coupling: float) -> Hear:
    """Return what makes what nodes hear of how far they are from others."""
    pulls = [
        (sorted(given), coupling * np.array([given[j] for j in sorted(given)])) for given in places
    ]
    room: list[Matrix] = []  # large arrays are dear to come by: these serve for all rounds

    def listen(said: tuple[Matrix, ...], out: tuple[Matrix, ...] = ()) -> tuple[Matrix, ...]:
        """Listen to all vectors of a message at once, as they lie in it."""
        _ = out
        nodes, dim = said[0].shape
        if not room:
            most = max(len(order) for order, _ in pulls)
            room.extend(np.empty((size, len(said) * dim)) for size in (most, nodes))
        near, heard = room
        parts = [slice(k * dim, (k + 1) * dim) for k in range(len(said))]
        for own, (order, pull) in enumerate(pulls):
            rows = near[: len(order)]
            for part, one in zip(parts, said, strict=True):
                for row, other in enumerate(order):
                    np.subtract(one[own], one[other], rows[row, part])
            np.dot(pull, rows, heard[own])
        return tuple([heard[:, part] for part in parts])

    return listen
