"""Sums over silos, computed by the protocol itself: no silo sends a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.core.methods import NIDS
from bequest.engines import Ray
from bequest.errors import DimensionMismatch, InvalidMethod
from bequest.model.graph import Graph, as_graph, epoch_edges
from bequest.model.objectives import Loaded
from bequest.model.objectives.isotropic import Isotropic
from bequest.model.outcome import Status
from bequest.model.problem import Problem
from bequest.model.wills import Consensus
from bequest.solver import solve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bequest.core.arrays import Vector
    from bequest.core.methods import Method
    from bequest.engines.base import Engine
    from bequest.model.events import Event
    from bequest.model.objectives import Objective
    from bequest.model.run import Run

# How many rounds are tried first, and at most.
_FIRST, _MOST = 16, 2**15
# A rehearsal ends when random numbers of silos are summed to this part of their size.
_ROUNDING = 1e-13
_PROBES = 8
# Every silo would go straight to its own vector, which is the fastest: there is one curvature.
METHOD = NIDS(safety=0.5)
# To what part of an entry survivors must agree on it where a silo has gone unasked and late.
_AGREED = 1e-9


@dataclass(frozen=True, slots=True)
class SiloSum:
    """A sum that silos have agreed on.

    Attributes:
        total: the sum of the vectors of all silos that took part, also of those that left.
        run: how they came to it.
        graph: which of those that are left talk to each other, numbered in their order.
    """

    total: Vector
    run: Run
    graph: Graph


def total(
    parts: Sequence[Vector | Loaded],
    *,
    graph: Graph | Any,  # noqa: ANN401 - a networkx graph or an edge list
    engine: Engine | None = None,
    departures: Iterable[Event] = (),
    method: Method | None = None,
) -> Vector:
    """Return the sum of the silos' vectors, agreed on along the edges of a graph.

    Each entry is right to about 1e-13 of the largest one that a silo has there.

    Args:
        parts: a vector per silo; or, for data that stay on their host, ``on_its_host(...)``, which
            computes it there.
        graph: which silos talk to each other.
        engine: what carries them.
        departures: silos that leave meanwhile are in the sum all the same.
        method: how they iterate; NIDS by default.

    Raises:
        DimensionMismatch: the vectors are of different lengths.
        InvalidMethod: they come to no agreement, or a silo crashed and nothing of it was left with
            the others.

    >>> import bequest as bq
    >>> total([np.array([1.0, 10.0]), np.array([2.0, 30.0])], graph=[(0, 1)]).round(9).tolist()
    [3.0, 40.0]
    """
    return phase(parts, graph=graph, engine=engine, departures=departures, method=method).total


def phase(
    parts: Sequence[Vector | Loaded],
    *,
    graph: Graph | Any,  # noqa: ANN401
    engine: Engine | None = None,
    departures: Iterable[Event] = (),
    method: Method | None = None,
    rounds: int | None = None,
) -> SiloSum:
    """Return what ``total`` returns, and which silos are left afterwards.

    ``rounds`` is what ``rehearsed`` says, where it has been asked already.
    """
    given: object = parts
    if not isinstance(given, Sequence | np.ndarray) or not len(given):
        raise DimensionMismatch(
            f"{parts!r} is no list of vectors.", remedy="Pass a vector per silo."
        )
    losses = [part if isinstance(part, Loaded) else _loss(part) for part in parts]
    sizes = {0 if loss is None else loss.dim for loss in losses}
    if len(sizes) != 1:
        raise DimensionMismatch(
            f"The vectors of the silos have {', '.join(map(str, sorted(sizes)))} entries.",
            remedy="Pass vectors of one length, one per silo.",
        )
    network, events = as_graph(graph, len(losses)), list(departures)
    # with nothing to sum up there is still one number: silos that leave must be seen to
    problem = Problem([Isotropic([0.0]) if loss is None else loss for loss in losses])
    chosen = METHOD if method is None else method
    rounds = rehearsed(network, events, chosen) if rounds is None else rounds
    if events or getattr(engine, "unplanned", False):
        # Engines choose heirs by hosts, and silos may leave unasked: those that do so in the first
        # half are made up for.
        rounds *= 2
    carrier = for_these(engine, range(len(losses)))
    run = _carried_out(problem, network, events, chosen, carrier, rounds)
    if run.lost:
        raise InvalidMethod(
            f"Silo {run.lost[0]} crashed while silos were adding up, and nothing of it was left "
            "with the others.",
            remedy="Run again without it, or on machines of which fewer die.",
        )
    if run.status is not Status.CONVERGED or not _is_settled(run):
        raise _no_agreement(run.rounds)
    return SiloSum(len(losses) * run.x.mean(axis=0)[: sizes.pop()], run, remaining(run))


def _is_settled(run: Run) -> bool:
    """Whether the survivors agree on every entry, the smallest among them.

    The rehearsal saw to that, unless a silo went late and without having been expected to.
    """
    if all(record.round <= run.rounds / 2 for record in run.departures):
        return True
    apart, size = np.ptp(run.x, axis=0), np.abs(run.x).max(axis=0)
    return bool((apart <= _AGREED * size).all())


def rehearsed(graph: Graph, events: Sequence[Event], method: Method) -> int:
    """Return how many rounds a sum over this network takes.

    The entries of a vector do not know of each other, and how fast silos agree on one does not
    depend on it: a rehearsal with random numbers, which no silo owns, tells.
    """
    probes = np.random.default_rng(0).standard_normal((graph.n, _PROBES))
    problem = Problem([Isotropic(row) for row in probes])
    rounds = max((event.round for event in events), default=0) + _FIRST
    wanted = probes.mean(axis=0)
    while rounds <= _MOST:
        run = _carried_out(problem, graph, events, method, None, rounds)
        if run.status is not Status.DIVERGED and not run.lost:
            off = np.abs(run.x - wanted).max()
            if off <= _ROUNDING * np.abs(probes).max():
                return rounds
        rounds += rounds // 2
    raise _no_agreement(_MOST)


def _carried_out(
    problem: Problem,
    graph: Graph,
    events: Sequence[Event],
    method: Method,
    engine: Engine | None,
    rounds: int,
) -> Run:
    return solve(
        problem, graph, departures=events, will=Consensus(), method=method, rounds=rounds,
        engine=engine, optimum=None,
    )  # fmt: skip


def _no_agreement(rounds: int) -> InvalidMethod:
    return InvalidMethod(
        f"The silos have come to no agreement on a sum within {rounds} rounds.",
        remedy="Use a graph in which they are closer to each other, or another method.",
    )


def _loss(part: Vector) -> Objective | None:
    return None if np.shape(part) == (0,) else Isotropic(part)


def remaining(run: Run) -> Graph:
    """Return which survivors of a run talk to each other at its end, numbered in their order."""
    network = run.graph.network()
    for node in run.plan.absent:
        for other in network.pop(node):
            network[other].discard(node)
    went = [(record.round, 0, record.node, record.bridges) for record in run.departures]
    came = [
        (change.round, 1, change.node, tuple((change.node, one) for one in change.neighbours))
        for change in run.changes
        if change.kind != "forget"
    ]
    # in one round nodes leave before others come, each in the order of the records
    for _, is_new, node, edges in sorted([*went, *came], key=lambda move: move[:2]):
        if is_new:
            network[node] = set()
        else:
            for other in network.pop(node):
                network[other].discard(node)
        for one, other in edges:
            network[one].add(other)
            network[other].add(one)
    nodes, pairs = epoch_edges(network)
    return Graph(pairs, n=nodes.size)


def for_these(engine: Engine | None, nodes: Sequence[int]) -> Engine | None:
    """Return the engine for some of its nodes, numbered in their order: each stays on its host.

    It is for another run, which has neither the name nor the record of the first one.
    """
    if not isinstance(engine, Ray):
        return engine
    placement = engine.placement
    if placement is not None:
        placement = {new: placement[old] for new, old in enumerate(nodes)}
    return replace(engine, placement=placement, name=None, record=None, resume=False)
