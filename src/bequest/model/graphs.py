"""Networks to try things on. What is random takes a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import is_number, is_whole
from bequest.errors import InvalidGraph
from bequest.model.graph import Graph
from bequest.model.seeding import seeded

if TYPE_CHECKING:
    from bequest.core.arrays import Indices

_TRIES = 100


def path(n: int) -> Graph:
    """Return the line 0 - 1 - ... - n-1: the slowest connected network."""
    return Graph(_consecutive(n), n=n)


def ring(n: int) -> Graph:
    """Return the closed line; every node has two neighbours."""
    return Graph(_closed(n), n=n)


def ring_with_chords(n: int, chords: int, seed: int) -> Graph:
    """Return a ring and ``chords`` more edges between distinct random pairs (Sec. 5.1)."""
    edges = {tuple(sorted(edge)) for edge in _closed(n).tolist()}
    free = n * (n - 1) // 2 - len(edges)
    if not is_whole(chords, least=0) or chords > free:
        raise InvalidGraph(
            f"A ring of {n} nodes has room for {free} chords, not {chords}.",
            remedy=f"Use 0 <= chords <= {free}.",
        )
    rng = seeded(seed, InvalidGraph)
    goal = len(edges) + chords
    while len(edges) < goal:
        one, other = sorted(rng.integers(n, size=2).tolist())
        if one != other:
            edges.add((one, other))
    return Graph(sorted(edges), n=n)


def grid(rows: int, columns: int) -> Graph:
    """Return the rows x columns lattice, numbered row by row."""
    if not (is_whole(rows, least=1) and is_whole(columns, least=1)):
        raise InvalidGraph(f"A {rows}x{columns} grid is empty.", remedy="Use sides >= 1.")
    number = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    return Graph(np.concatenate([across, down]), n=rows * columns)


def complete(n: int) -> Graph:
    """Return the network in which every node hears every other."""
    return Graph(np.stack(np.triu_indices(_positive(n), k=1), axis=1), n=n)


def star(n: int) -> Graph:
    """Return the network in which every node hears node 0 and no other."""
    return Graph([(0, node) for node in range(1, _positive(n))], n=n)


def erdos_renyi(n: int, probability: float, seed: int) -> Graph:
    """Return a random network with that probability per edge, drawn until it is connected."""
    import networkx as nx

    if not is_number(probability) or not 0 <= probability <= 1:
        raise InvalidGraph(f"probability={probability!r}.", remedy="Use a number in [0, 1].")
    rng = seeded(seed, InvalidGraph)
    for _ in range(_TRIES):
        graph = nx.fast_gnp_random_graph(_positive(n), probability, seed=rng)
        if nx.is_connected(graph):
            return Graph(graph)
    raise InvalidGraph(
        f"None of {_TRIES} random graphs with n={n}, probability={probability} was connected.",
        remedy=f"Use a larger probability; above {np.log(max(n, 2)) / n:.3g} most are connected.",
    )


def random_regular(n: int, degree: int, seed: int) -> Graph:
    """Return a random network in which every node has ``degree`` neighbours."""
    import networkx as nx

    whole = is_whole(n, least=1) and is_whole(degree, least=1)
    if not whole or not 0 < degree < n or n * degree % 2 or degree == 1 < n - 1:
        raise InvalidGraph(
            f"There is no connected graph with n={n} nodes of degree {degree}.",
            remedy="Use 2 <= degree < n with n * degree even.",
        )
    rng = seeded(seed, InvalidGraph)
    for _ in range(_TRIES):
        graph = nx.random_regular_graph(degree, n, seed=rng)
        if nx.is_connected(graph):
            return Graph(graph)
    raise InvalidGraph(  # pragma: no cover - of degree >= 3 almost all are connected
        f"None of {_TRIES} random {degree}-regular graphs was connected.",
        remedy="Use degree >= 3.",
    )


def _positive(n: int) -> int:
    if not is_whole(n, least=1):
        raise InvalidGraph(f"A graph of {n} nodes is none.", remedy="Use a whole n >= 1.")
    return n


def _consecutive(n: int) -> Indices:
    nodes = np.arange(_positive(n))
    return np.stack([nodes[:-1], nodes[1:]], axis=1)


def _closed(n: int) -> Indices:
    line = _consecutive(n)
    return np.concatenate([line, [[n - 1, 0]]]) if n > 2 else line
