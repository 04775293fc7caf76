"""Sums over silos, computed by the protocol itself before a run: no silo sends a row.

The mean of vectors v_i minimises the sum of |x - v_i|^2/2: isotropic quadratics, of which a legacy
is an exact memory, so that a phase is exact even if silos leave while it is under way.

What a phase reveals: a silo's own vector to no one as such, but its neighbours see where its
iterate starts from and goes, and may reckon back to it. So a vector must be something that a silo
may tell its neighbours, such as counts and sums over its rows (``bequest docs tables`` lists them).

Paper: cor:quad.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.errors import InvalidMethod
from bequest.model.objectives import Quadratic
from bequest.model.outcome import Status
from bequest.model.problem import Problem
from bequest.solver import solve

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bequest.core.arrays import Vector
    from bequest.core.methods import Method
    from bequest.engines.base import Engine
    from bequest.model.events import Event
    from bequest.model.graph import Graph

# Entries that go together; a longer vector goes in pieces.
_PIECE = 64
_FIRST, _MOST = 64, 2**15
# Entries are right to this part of the largest that a silo has.
_ROUNDING = 1e-12


def total(
    parts: Sequence[Vector],
    *,
    graph: Graph | Any,  # noqa: ANN401 - a networkx graph or an edge list
    engine: Engine | None = None,
    departures: Iterable[Event] = (),
    method: Method | None = None,
) -> Vector:
    """Return the sum of the silos' vectors, agreed on along the edges of a graph.

    Args:
        parts: a vector per silo.
        graph: which silos talk to each other.
        engine: what carries them.
        departures: silos that leave meanwhile are in the sum all the same.
        method: how they iterate, as in ``solve``.

    Raises:
        InvalidMethod: they come to no agreement.

    >>> import bequest as bq
    >>> total([np.array([1.0, 10.0]), np.array([2.0, 30.0])], graph=[(0, 1)]).round(9).tolist()
    [3.0, 40.0]
    """
    vectors = np.array(parts, dtype=float)
    events = list(departures)
    pieces = [
        _mean(vectors[:, first : first + _PIECE], graph, engine, events, method)
        for first in range(0, vectors.shape[1], _PIECE)
    ]
    return len(parts) * np.concatenate([*pieces, np.zeros(0)])


def _mean(
    vectors: Any,  # noqa: ANN401 - silos by entries
    graph: Graph,
    engine: Engine | None,
    events: list[Event],
    method: Method | None,
) -> Vector:
    size = np.abs(vectors).max(axis=0)
    unit = np.where(size > 0, size, 1.0)
    # Powers of two: entries of any size go together, and not a digit is lost.
    unit = 2.0 ** np.ceil(np.log2(unit))
    problem = Problem([Quadratic(np.eye(unit.size), one / unit) for one in vectors])
    rounds = max((event.round for event in events), default=0) + _FIRST
    before = None
    while rounds <= _MOST:
        run = solve(
            problem, graph, departures=events, method=method, rounds=rounds, engine=engine,
            optimum=None,
        )  # fmt: skip
        mean: Vector = run.x.mean(axis=0)
        if run.status is Status.CONVERGED and np.ptp(run.x, axis=0).max() <= _ROUNDING:
            if before is not None and np.abs(mean - before).max() <= _ROUNDING:
                return mean * unit
            before = mean
        rounds *= 2
    raise InvalidMethod(
        f"The silos have come to no agreement on a sum within {rounds // 2} rounds.",
        remedy="Use a graph in which they are closer to each other, or another method.",
    )
