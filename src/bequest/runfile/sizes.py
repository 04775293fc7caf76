"""How much memory a run will take.

The constants were measured, and rather too low than too high: the check is to find slips of the
keyboard, and logs from elsewhere, and must not refuse a run that just fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest import memory
from bequest.errors import InvalidRunFile

if TYPE_CHECKING:
    from pathlib import Path

    from bequest.runfile import WholeFile

# In bytes. A matrix is there at least twice while random quadratics are drawn.
_ENTRY = 2 * 8
_ROUND = 50
# Per node and per edge. On a cluster most of it is not here.
_NODE = {"vector": 1_000, "loop": 40_000, "ray": 1_000}
_EDGE = {"vector": 300, "loop": 1_000, "ray": 300}


def needed(content: WholeFile) -> dict[str, float]:
    """Return the parts of a run of this file, in words -> their bytes."""
    kind, n, edges = content.engine.kind, content.problem.n, content.graph.size(content.problem.n)
    entries = content.problem.entries
    return {
        f"the {entries:.3g} entries of the losses' matrices": _ENTRY * entries,
        f"{n} nodes": _NODE[kind] * float(n),
        f"{edges:.3g} edges": _EDGE[kind] * edges,
        f"{content.rounds} rounds": _ROUND * float(content.rounds),
    }


def check(content: WholeFile, path: Path) -> None:
    """Refuse a file whose runs cannot fit into memory.

    Raises:
        InvalidRunFile: it cannot.
    """
    parts = needed(content)
    largest = max(parts, key=lambda part: parts[part])
    memory.check(
        sum(parts.values()),
        f"{path}: a run with {largest}",
        remedy="Use fewer nodes, unknowns, edges or rounds.",
        error=InvalidRunFile,
    )
