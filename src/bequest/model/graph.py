"""Which nodes may talk to each other."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.core import mixing, topology
from bequest.core.arrays import is_whole, refuse_masked
from bequest.errors import DisconnectedGraph, InvalidGraph
from bequest.model.overrides import replaced

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scipy.sparse import csr_array

    from bequest.core.arrays import Indices
    from bequest.core.topology import Network


class Graph:
    """A connected, undirected network of the nodes 0..n-1; immutable.

    Args:
        edges: pairs (i, j), in any order, repeats allowed; or a networkx graph.
        n: number of nodes; by default one more than the largest id, or networkx's own count.

    >>> ring = Graph([(0, 1), (1, 2), (2, 0)])
    >>> ring.n, ring.neighbours(0), round(ring.spectral_gap, 6)
    (3, (1, 2), 1.0)
    """

    def __init__(self, edges: Any, n: int | None = None) -> None:  # noqa: ANN401 - see Args
        if hasattr(edges, "edges") and hasattr(edges, "nodes"):
            edges, n = _from_networkx(edges, n)
        self.edges: Indices = _checked_edges(edges)
        largest = int(self.edges.max()) + 1 if self.edges.size else 0
        self.n = max(largest, 1) if n is None else n
        if not is_whole(self.n, least=max(largest, 1)):
            raise InvalidGraph(
                f"An edge names node {largest - 1}, but n is {n}.",
                remedy="Number the nodes 0..n-1, or pass a larger n.",
            )
        parts = topology.components(self._network)
        if len(parts) > 1:
            shown = "; ".join(_listed(part) for part in parts[:3])
            raise DisconnectedGraph(
                f"The graph falls into {len(parts)} parts: {shown}{'; ...' if parts[3:] else ''}.",
                remedy="Add an edge between the parts: what cannot talk cannot agree.",
            )

    @cached_property
    def _network(self) -> Network:
        return topology.network_of(range(self.n), self.edges.tolist())

    def network(self) -> Network:
        """Return a mapping node -> set of neighbours that the caller may change."""
        return {node: set(others) for node, others in self._network.items()}

    def neighbours(self, node: int) -> tuple[int, ...]:
        """Return the neighbours of a node, ascending."""
        return tuple(sorted(self._network[node]))

    def weights(self) -> csr_array:
        """Return the Metropolis weights, sparse, symmetric and doubly stochastic (as:net)."""
        return mixing.metropolis(self.edges, self.n)

    @cached_property
    def spectral_gap(self) -> float:
        """1 - lambda: how much of their disagreement the nodes lose per round (as:net)."""
        return mixing.spectral_gap(self.weights())

    def __repr__(self) -> str:
        return f"Graph(n={self.n}, edges={len(self.edges)})"


def as_graph(graph: Any, n: int) -> Graph:  # noqa: ANN401 - Graph, networkx graph or edge list
    """Return ``graph`` as a Graph of n nodes, or say why it is none."""
    built = graph if isinstance(graph, Graph) else Graph(graph, n=n)
    own = replaced(built, ("weights", "spectral_gap"), Graph)
    if own is not None:
        raise InvalidGraph(
            f"The graph is a {type(built).__name__} with {own} of its own, but nodes always mix by "
            "Metropolis weights.",
            remedy="Pass a Graph, a networkx graph or an edge list.",
        )
    if built.n != n:
        raise InvalidGraph(
            f"The graph has {built.n} nodes, the problem has {n}.",
            remedy="Build the graph with one node per objective.",
        )
    return built


def epoch_edges(network: Network) -> tuple[Indices, Indices]:
    """Return the node ids, ascending, and the edges between their rows, of a current network."""
    nodes = np.array(sorted(network))
    pairs = [(one, other) for one in network for other in network[one] if one < other]
    edges = np.array(pairs, dtype=int).reshape(-1, 2)
    return nodes, np.searchsorted(nodes, edges)


def _from_networkx(graph: Any, n: int | None) -> tuple[list[tuple[int, int]], int]:  # noqa: ANN401
    names = list(graph.nodes)
    if not all(isinstance(name, int | np.integer) for name in names) or sorted(names) != list(
        range(len(names))
    ):
        raise InvalidGraph(
            f"The networkx graph's nodes are {names[:4]}..., not 0..{len(names) - 1}.",
            remedy="Relabel them with networkx.convert_node_labels_to_integers(graph).",
        )
    if graph.is_directed():
        raise InvalidGraph("The networkx graph is directed.", remedy="Pass graph.to_undirected().")
    if n is not None and n != len(names):
        raise InvalidGraph(
            f"The networkx graph has {len(names)} nodes, not {n}.",
            remedy="Build it with one node per objective.",
        )
    return [(edge[0], edge[1]) for edge in graph.edges], len(names)


def _checked_edges(edges: Iterable[Any]) -> Indices:
    refuse_masked(edges, "The list of edges", InvalidGraph)
    try:
        pairs = np.array([tuple(edge) for edge in edges])
        if pairs.size and (pairs.ndim != 2 or pairs.shape[1] != 2):
            raise ValueError("not pairs")
        if pairs.size and not (np.isfinite(pairs).all() and (np.abs(pairs) < 2**31).all()):
            raise ValueError("not node numbers")
        whole = pairs.astype(int)
        if not np.array_equal(whole, pairs) or (whole < 0).any():
            raise ValueError("not node numbers")
    except (TypeError, ValueError) as error:
        raise InvalidGraph(
            f"The edges are not pairs of node numbers ({error}).",
            remedy="Pass pairs such as [(0, 1), (1, 2)], or a networkx graph.",
        ) from error
    whole = whole.reshape(-1, 2)
    loops = whole[whole[:, 0] == whole[:, 1]]
    if loops.size:
        raise InvalidGraph(
            f"Node {loops[0, 0]} has an edge to itself.", remedy="Remove self-loops."
        )
    unique: Indices = np.unique(np.sort(whole, axis=1), axis=0)
    unique.setflags(write=False)
    return unique


def _listed(part: set[int]) -> str:
    shown = ", ".join(map(str, sorted(part)[:5]))
    return f"{{{shown}{', ...' if len(part) > 5 else ''}}}"
