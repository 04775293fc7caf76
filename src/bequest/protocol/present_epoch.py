"""The epoch that is under way, as the steward knows it: ids and counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from bequest.core.topology import Network
    from bequest.protocol.messages import Halted


@dataclass(eq=False)
class PresentEpoch:
    """The epoch that is under way.

    Attributes:
        number: its number; 0 before the first.
        round: after which round it began.
        until: the round after which every member stops.
        network: the members, and which of them talk to each other.
        lineage: member -> the original nodes in what it has inherited.
        buddies: member -> the nodes that keep its checkpoints.
        dead: the members that are lost.
        reports: member -> how it has stopped.
    """

    number: int = 0
    round: int = 0
    until: int = 0
    network: Network = field(default_factory=dict)
    lineage: dict[int, tuple[int, ...]] = field(default_factory=dict)
    buddies: dict[int, tuple[int, ...]] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    reports: dict[int, Halted] = field(default_factory=dict)

    @property
    def alive(self) -> set[int]:
        """The members that are not lost."""
        return self.network.keys() - self.dead

    @property
    def has_stopped(self) -> bool:
        """Whether every member has stopped."""
        return self.reports.keys() >= self.network.keys()

    @property
    def round_reached(self) -> int:
        """The latest round after which a member has stopped."""
        return max(report.round for report in self.reports.values())

    def leavers(self, leaving: Collection[int]) -> list[int]:
        """Return the members that leave next; the last one cannot: one node has to remember."""
        leavers = sorted(self.alive.intersection(leaving))
        return leavers[:-1] if len(leavers) == len(self.network) else leavers
