"""What is known of the nodes that will crash, as of their last checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.model.plan import Plan
    from bequest.model.wills import Estate


class Checkpoints:
    """The estates of the nodes that will crash: what their wills decide from.

    A node makes a checkpoint when it comes in, whenever it inherits, and every
    ``checkpoint_every`` rounds. Only the last one before a crash matters; crashes are known in
    advance, so these rounds are, too.
    """

    def __init__(self, plan: Plan) -> None:
        self._last_crash: dict[int, int] = {}
        self._due: dict[int, set[int]] = {}
        self._estates: dict[int, Estate] = {}
        if plan.checkpoint_every is None or not plan.buddies:
            return
        came_in: dict[int, int] = {}
        for t, changes in plan.schedule.items():
            last = t - t % plan.checkpoint_every
            for node in changes.crashes:
                if node in plan.wills:
                    self._last_crash[node] = t
                    if last > came_in.get(node, 0):
                        self._due.setdefault(last, set()).add(node)
            came_in |= dict.fromkeys((*changes.returns, *changes.joins), t)

    def are_needed_of(self, node: int, t: int) -> bool:
        """Whether the node crashes after round t."""
        return self._last_crash.get(node, 0) > t

    def due(self, t: int, stop: int) -> Mapping[int, set[int]]:
        """Return round -> the nodes whose checkpoints of it will be found, for rounds t+1..stop."""
        return {end: nodes for end, nodes in self._due.items() if t < end <= stop}

    def keep(self, estate: Estate) -> None:
        """Keep what a node would decide from; it replaces the previous one."""
        self._estates[estate.node] = estate

    def of(self, node: int) -> Estate:
        """Return what a crashed node had when it made its last checkpoint."""
        return self._estates[node]
