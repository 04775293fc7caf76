"""How much memory a run takes, before anything of it is made.

What is counted was measured, and is rather too little than too much: it is to tell a slip of the
keyboard, or a log from elsewhere, from a large run, and not to refuse one that just fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest import memory
from bequest.errors import InvalidRunFile

if TYPE_CHECKING:
    from pathlib import Path

    from bequest.runfile import RunTable

# In bytes. A matrix is there at least twice while random quadratics are drawn.
_ENTRY = 2 * 8
_ROUND = 50
# Per node and per edge. On a cluster most of it is not here.
_NODE = {"vector": 1_000, "loop": 40_000, "ray": 1_000}
_EDGE = {"vector": 300, "loop": 1_000, "ray": 300}


def needed(table: RunTable) -> dict[str, float]:
    """Return what a run of this file consists of, in words -> how many bytes that takes."""
    kind, n, edges = table.engine.kind, table.problem.n, table.graph.size(table.problem.n)
    entries = table.problem.entries
    return {
        f"the {entries:.3g} entries of the losses' matrices": _ENTRY * entries,
        f"{n} nodes": _NODE[kind] * float(n),
        f"{edges:.3g} edges": _EDGE[kind] * edges,
        f"{table.rounds} rounds": _ROUND * float(table.rounds),
    }


def check(table: RunTable, path: Path) -> None:
    """Go on only if a run of this file can fit into memory.

    Raises:
        InvalidRunFile: it cannot.
    """
    parts = needed(table)
    largest = max(parts, key=lambda part: parts[part])
    memory.check(
        sum(parts.values()),
        f"{path}: a run with {largest}",
        remedy="Use fewer nodes, unknowns, edges or rounds.",
        error=InvalidRunFile,
    )
