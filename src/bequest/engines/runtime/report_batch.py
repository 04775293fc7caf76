"""What a host tells the supervisor about its nodes, in order and in bulk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bequest.protocol.events import Began, Checkpointed, Completed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bequest.core.arrays import Tensor
    from bequest.protocol.events import Effect


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """The states of some nodes after the same consecutive rounds.

    Attributes:
        processes: the nodes.
        first: the first of these rounds.
        states: x, z and g; for each of them a matrix per round, with a row per node.
    """

    processes: tuple[int, ...]
    first: int
    states: Tensor

    def of_each(self) -> Iterator[Rounds]:
        """Yield the same node by node."""
        for column, process in enumerate(self.processes):
            yield Rounds((process,), self.first, self.states[:, :, column : column + 1])


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
        incarnation: how often it had been there before.
        why: what went wrong; None for one that was dismissed in good order.
        silent: whether it crashed as planned, so that it is noticed when all others wait for it.
    """

    process: int
    incarnation: int
    why: str | None = None
    silent: bool = False


ReportItem: TypeAlias = Rounds | Told | Ended


class ReportBatch:
    """Collects what is to be reported; rounds that follow each other become one block.

    Attributes:
        rounds: how many rounds of a node there are by now, at most.
    """

    def __init__(self) -> None:
        self._items: list[ReportItem] = []
        self._open: dict[int, list[Completed]] = {}
        # process -> where its latest checkpoint is among the items
        self._checkpoints: dict[int, int] = {}
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
        if isinstance(effect, Checkpointed):
            # One that was not reported cannot have been sent either: no node has it.
            place = self._checkpoints.setdefault(process, len(self._items))
            self._items[place : place + 1] = [Told(process, effect)]
            return
        self._items.append(Told(process, effect))

    def end(self, ended: Ended) -> None:
        """Take in that a node is not there any more."""
        self._close(ended.process)
        self._items.append(ended)

    def _close(self, process: int) -> None:
        states = self._open.pop(process, None)
        if states:
            self._items.append(_block({process: states}))

    def cut(self, *, rounds: bool = True) -> list[ReportItem]:
        """Return everything since the last time, or everything but the latest rounds."""
        items, self._items, self._checkpoints = self._items, [], {}
        if not rounds:
            return items
        alike: dict[tuple[int, int], dict[int, list[Completed]]] = {}
        for process, states in self._open.items():
            alike.setdefault((states[0].round, len(states)), {})[process] = states
        self._open, self.rounds = {}, 0
        return [*items, *map(_block, alike.values())]


def _block(states: dict[int, list[Completed]]) -> Rounds:
    """Return nodes that have completed the same rounds as one block: one array for all of them."""
    by_round = list(zip(*states.values(), strict=True))
    vectors = [getattr(s, name) for name in ("x", "z", "g") for same in by_round for s in same]
    shape = 3, len(by_round), len(states), vectors[0].size
    return Rounds(tuple(states), by_round[0][0].round, np.concatenate(vectors).reshape(shape))
