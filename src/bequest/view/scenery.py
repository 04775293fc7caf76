"""What the page shows of a run: its document, where its nodes are drawn, and what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import networkx as nx

from bequest.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.documents import NetworkDocument
    from bequest.view.reading import ShownRun

# More nodes are drawn as an overview, without edges: thousands of lines show nothing.
MOST_DRAWN = 200
# A layout that takes all distances into account is the best, and takes cubic time.
_EXACT = 60
# What the page reads of a run; the rest of its document stays behind.
_SHOWN = (
    "status",
    "rounds",
    "error",
    "limit_error",
    "survivors",
    "lost",
    "steps",
    "departures",
    "changes",
    "network",
    "method",
    "curves",
)


def staged(runs: Sequence[ShownRun], *, live: bool = False) -> dict[str, Any]:
    """Return everything that the page shows, as plain data."""
    drawn: dict[str, list[list[float]] | None] = {}
    return {
        "bequest": __version__,
        "live": live,
        "mostDrawn": MOST_DRAWN,
        "runs": [_scene(run, drawn) for run in runs],
    }


def _scene(run: ShownRun, drawn: dict[str, list[list[float]] | None]) -> dict[str, Any]:
    document = {name: run.document.get(name) for name in _SHOWN}
    network = run.document["network"]
    # Runs on one network are drawn alike, so that they can be compared.
    key = repr(network["edges"])
    if key not in drawn:
        drawn[key] = positions(network)
    return document | {
        "title": run.title,
        "source": run.source,
        "notes": [*run.notes, *_left_out(run)],
        "whole": run.is_whole,
        "positions": drawn[key],
    }


def _left_out(run: ShownRun) -> list[str]:
    notes = []
    curves, nodes = run.document["curves"], run.document["network"]["nodes"]
    if curves["of"] > len(curves["rounds"]):
        notes.append(
            f"The curves are thinned: {len(curves['rounds']):,} of {curves['of']:,} rounds. Of "
            "every stretch the first is kept, and those in which a curve is lowest and highest."
        )
    if nodes > MOST_DRAWN:
        notes.append(f"An overview: edges are left out, as there are more than {MOST_DRAWN} nodes.")
    return notes


def positions(network: NetworkDocument) -> list[list[float]] | None:
    """Return where each node is drawn, within the unit square; None for an overview."""
    n = network["nodes"]
    if n > MOST_DRAWN:
        return None
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(map(tuple, network["edges"]))
    if n == 1:
        return [[0.5, 0.5]]
    around = nx.circular_layout(graph)
    # A ring with a few chords is best read as a ring.
    if _is_ring(graph):
        found = around
    elif n <= _EXACT:
        found = nx.kamada_kawai_layout(graph, pos=around)
    else:
        found = nx.spring_layout(graph, pos=around, seed=0, iterations=200, k=1.6 / n**0.5)
    return _fitted([found[node].tolist() for node in range(n)])


def _is_ring(graph: nx.Graph) -> bool:
    n = graph.number_of_nodes()
    ring = all(graph.has_edge(node, (node + 1) % n) for node in range(n))
    return ring and n <= _EXACT and graph.number_of_edges() <= 4 * n


def _fitted(points: list[list[float]]) -> list[list[float]]:
    """Return the points moved and stretched to fill the unit square."""
    low = [min(point[axis] for point in points) for axis in (0, 1)]
    size = [max(point[axis] for point in points) - low[axis] or 1.0 for axis in (0, 1)]
    return [[round((point[a] - low[a]) / size[a], 4) for a in (0, 1)] for point in points]
