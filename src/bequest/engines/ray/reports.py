"""What a host tells the office about its nodes, in order and in bulk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bequest.protocol.events import Began, Completed

if TYPE_CHECKING:
    from bequest.core.arrays import Tensor
    from bequest.protocol.events import Effect


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """The states of one node after consecutive rounds.

    Attributes:
        process: whose.
        first: after the first of these rounds.
        states: x, z and g; a row per round.
    """

    process: int
    first: int
    states: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What one node did, other than to complete a round or to send a message."""

    process: int
    effect: Effect


@dataclass(frozen=True, slots=True)
class Ended:
    """A node is not there any more.

    Attributes:
        process: which.
        life: how often it had been there before.
        why: what went wrong; None for one that was dismissed in good order.
        silent: whether it died as planned, so that it is noticed when everybody else waits.
    """

    process: int
    life: int
    why: str | None = None
    silent: bool = False


Item: TypeAlias = Rounds | Told | Ended


class Reel:
    """Collects what is to be reported; rounds of one node that follow each other become one."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._open: dict[int, list[Completed]] = {}
        self.rounds = 0

    def take(self, process: int, effect: Effect) -> None:
        """Take in one effect of a node."""
        if isinstance(effect, Completed):
            states = self._open.get(process)
            if states is None:
                states = self._open[process] = []
            states.append(effect)
            self.rounds = max(self.rounds, len(states))
            return
        if isinstance(effect, Began):
            self._close(process)
        self._items.append(Told(process, effect))

    def end(self, ended: Ended) -> None:
        """Take in that a node is not there any more."""
        self._close(ended.process)
        self._items.append(ended)

    def _close(self, process: int) -> None:
        states = self._open.pop(process, None)
        if states:
            numbers = np.array([(s.x, s.z, s.g) for s in states]).swapaxes(0, 1)
            self._items.append(Rounds(process, states[0].round, numbers))

    def cut(self) -> list[Item]:
        """Return everything since the last time."""
        for process in list(self._open):
            self._close(process)
        items, self._items, self.rounds = self._items, [], 0
        return items
