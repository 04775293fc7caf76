"""Which nodes are running: on which host, in which incarnation; which have ended or are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest.protocol.events import Lost

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bequest.engines.runtime.report_batch import Ended


class Incarnations:
    """The incarnations of all nodes.

    Args:
        where: node -> the name of its host, for every node of the plan.
        running: the nodes that run from the start.

    Attributes:
        where: node -> the name of its host, or of its last one.
        verdicts: the nodes that are lost, in the order of the verdicts.
    """

    def __init__(self, where: Mapping[int, str], running: Iterable[int]) -> None:
        self.where = dict(where)
        self.verdicts: list[Lost] = []
        # node -> the incarnation that runs
        self._running: dict[int, int] = dict.fromkeys(running, 0)
        self._latest = dict(self._running)
        self._over: set[tuple[int, int]] = set()
        # node -> (its incarnation, since when): crashed as planned, and no verdict yet
        self._silent: dict[int, tuple[int, float]] = {}
        # the incarnations that the present steward has asked
        self._inquired: dict[int, int] = {}

    # --- running ------------------------------------------------------------------------------

    def __contains__(self, node: int) -> bool:
        return node in self._running

    @property
    def nodes(self) -> list[int]:
        """The nodes that run, ascending."""
        return sorted(self._running)

    @property
    def is_silent(self) -> bool:
        """Whether a node has crashed and no verdict says so yet."""
        return bool(self._silent)

    def on(self, host: str) -> list[int]:
        """Return the nodes that run on a host, ascending."""
        return sorted(node for node in self._running if self.where[node] == host)

    def inquire(self) -> dict[int, int]:
        """Return the incarnations that a new steward has to ask."""
        self._inquired = dict(self._running)
        return self._inquired

    # --- starting -----------------------------------------------------------------------------

    def begin(self, node: int) -> int:
        """Return the number of a node's next incarnation."""
        self._latest[node] = self._latest.get(node, -1) + 1
        return self._latest[node]

    def settle(self, node: int, incarnation: int) -> None:
        """Note that an incarnation runs, unless its end has been reported before."""
        if (node, incarnation) not in self._over:
            self._running[node] = incarnation

    # --- ending -------------------------------------------------------------------------------

    def end(self, ended: Ended, now: float) -> Lost | None:
        """Note that an incarnation has ended; return the verdict if the node is lost."""
        node = ended.process
        incarnation = ended.incarnation
        if incarnation < 0:  # a host that does not have the node was asked about it
            incarnation = self._inquired.get(node, 0)
        self._over.add((node, incarnation))
        if self._running.get(node) == incarnation:
            del self._running[node]
        if ended.silent:
            self._silent[node] = incarnation, now
            return None
        return None if ended.why is None else self.lose(node, ended.why, incarnation)

    def end_all(self, host: str, why: str) -> list[Lost]:
        """Note that a host is gone with all of its nodes; return the verdicts."""
        return [self.lose(node, why, self._running.pop(node)) for node in self.on(host)]

    def noticed(self, before: float) -> list[Lost]:
        """Return the verdicts on the nodes that crashed in silence up to that time."""
        found = {node: number for node, (number, since) in self._silent.items() if since <= before}
        for node in found:
            del self._silent[node]
        return [self.lose(node, "its process is gone", found[node]) for node in sorted(found)]

    def lose(self, node: int, why: str, incarnation: int | None = None) -> Lost:
        """Return the verdict that a node is lost, in its latest incarnation by default."""
        latest = self._latest.get(node, 0)
        verdict = Lost(node, why, latest if incarnation is None else incarnation)
        self.verdicts.append(verdict)
        return verdict

    def gone(self, asked: Mapping[int, int]) -> list[Lost]:
        """Return the verdicts on incarnations that are over, given the ones that are asked."""
        return [v for v in self.verdicts if v.node not in asked or v.incarnation < asked[v.node]]
