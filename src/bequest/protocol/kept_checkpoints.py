"""Being a buddy: the checkpoints that a node keeps for others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bequest.protocol.messages import Checkpoint


class KeptCheckpoints:
    """The checkpoints that a node keeps for others.

    Attributes:
        wards: node -> its checkpoint, which is always a whole one.
        staged: the same for the epoch that is being prepared; they count once it begins.
    """

    def __init__(self) -> None:
        self.wards: dict[int, Checkpoint] = {}
        self.staged: dict[int, Checkpoint] = {}

    def renew(self, ward: int, checkpoint: Checkpoint) -> bool:
        """Keep a ward's latest memory of itself, unless it is late; return whether it is kept."""
        kept = self.wards.get(ward)
        if kept is None or checkpoint.round <= kept.round:
            return False
        self.wards[ward] = replace(kept, round=checkpoint.round, own=checkpoint.own)
        return True

    def begin(self, wards: Iterable[int]) -> None:
        """Let what is staged count, and give up the checkpoints of nodes that are no wards."""
        kept = {**self.wards, **self.staged}
        self.wards = {node: kept[node] for node in wards if node in kept}
        self.staged = {}

    @property
    def contents(self) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
        """Whose checkpoints are kept, of which round, and which nodes are remembered in each."""
        return tuple(
            (node, kept.round, _remembered(kept)) for node, kept in sorted(self.wards.items())
        )


def _remembered(checkpoint: Checkpoint) -> tuple[int, ...]:
    assert checkpoint.inherited is not None  # noqa: S101 - a ward's checkpoint is always whole
    return tuple(sorted({*checkpoint.own.lineage, *checkpoint.inherited.lineage}))
