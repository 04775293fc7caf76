"""What is measured of every round, from states that arrive node by node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.engines.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.core.arrays import Tensor
    from bequest.model.plan import Plan
    from bequest.protocol.events import Began, Committed, Completed

# Rounds are measured this many at a time, or as many as there are when a reader asks.
_CHUNK = 64


class RoundRecorder:
    """What is measured of every round, from states that arrive node by node."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.metrics = Metrics(plan)
        self.is_bounded = True
        self.new_rounds: list[int] = []
        self._target = 0  # after which round what is aimed at was last changed
        self._members: tuple[int, ...] = ()
        self._row: dict[int, int] = {}
        self._since = 0
        self._measured = -1
        self._chunks: dict[int, _Chunk] = {}
        self._opening: dict[int, Began] = {}

    @property
    def measured(self) -> int:
        """The last round that every member has completed."""
        return max(self._measured, 0)

    @property
    def members(self) -> set[int]:
        """The nodes in the present epoch."""
        return set(self._members)

    def take(self, process: int, state: Completed) -> None:
        """Keep the state of one node after one round."""
        row = self._row.get(process)
        if row is None:
            return  # it was taken for lost, and does not know yet
        index = (state.round - self._since - 1) // _CHUNK
        chunk = self._chunks.get(index)
        if chunk is None:
            chunk = self._begin_chunk(index)
        slot = state.round - chunk.first
        chunk.X[slot, row], chunk.Z[slot, row], chunk.G[slot, row] = state.x, state.z, state.g
        chunk.missing[slot] -= 1
        if slot == len(chunk.missing) - 1 and not any(chunk.missing):
            self._end_chunk(index)

    def take_many(self, processes: Sequence[int], first: int, states: Tensor) -> None:
        """Keep the states of some nodes after consecutive rounds.

        Args:
            processes: the nodes.
            first: the first of these rounds.
            states: x, z and g; for each of them a matrix per round, with a row per node.
        """
        known = [k for k, process in enumerate(processes) if process in self._row]
        rows = [self._row[processes[k]] for k in known]
        if len(known) < len(processes):
            states = states[:, :, known]
        while rows and states.shape[1]:
            index = (first - self._since - 1) // _CHUNK
            chunk = self._chunks.get(index) or self._begin_chunk(index)
            slot = first - chunk.first
            count = min(states.shape[1], len(chunk.missing) - slot)
            slots = slice(slot, slot + count)
            for kept, new in zip((chunk.X, chunk.Z, chunk.G), states, strict=True):
                kept[slots, rows] = new[:count]
            for taken in range(slot, slot + count):
                chunk.missing[taken] -= len(rows)
            if not any(chunk.missing):
                self._end_chunk(index)
            first, states = first + count, states[:, count:]

    def _begin_chunk(self, index: int) -> _Chunk:
        first = self._since + 1 + index * _CHUNK
        length = min(_CHUNK, self._plan.rounds + 1 - first)
        X, Z, G = np.empty((3, length, len(self._members), self._plan.problem.dim))
        chunk = self._chunks[index] = _Chunk(first, X, Z, G, [len(self._members)] * length)
        return chunk

    def _end_chunk(self, index: int) -> None:
        self._measure(self._chunks.pop(index))

    def _measure(self, chunk: _Chunk) -> None:
        """Measure the rounds that every member has completed and that are not measured yet."""
        new = slice(chunk.measured, chunk.whole)
        if new.start == new.stop or not self.is_bounded:
            return
        X, Z, G = chunk.X[new], chunk.Z[new], chunk.G[new]
        escaped = self.metrics.measure(chunk.first + new.start, X, Z, G, target=self._target)
        self.is_bounded = escaped is None
        chunk.measured = new.stop
        self._measured = chunk.first + new.stop - 1
        self.new_rounds = [self._measured]

    def catch_up(self) -> None:
        """Measure every round that every member has completed."""
        for _, chunk in sorted(self._chunks.items()):
            self._measure(chunk)
            if chunk.measured < len(chunk.missing):
                return

    def cut(self, change: Committed) -> None:
        """End an epoch: measure the rounds that every member completed."""
        self.catch_up()
        self._chunks, self._opening = {}, {}
        self._members, self._since = change.members, change.round
        self._row = {node: row for row, node in enumerate(change.members)}
        if change.round in self._plan.counted and change.arrival is not None:
            self._target = change.round

    def begin(self, process: int, state: Began) -> None:
        """Begin an epoch: once every member has, that is the state after its round."""
        self._opening[process] = state
        if self._opening.keys() >= set(self._members) and self.is_bounded:
            states = [self._opening[node] for node in self._members]
            X, Z, G = (
                np.array([getattr(one, name) for one in states])[None] for name in ("x", "z", "g")
            )
            # Rounds that a loss has cut short end with the restart, too.
            for t in range(min(self._measured + 1, state.round), state.round + 1):
                escaped = self.metrics.measure(t, X, Z, G, target=self._target)
                self.is_bounded = self.is_bounded and escaped is None
            self._measured = state.round


@dataclass(eq=False)
class _Chunk:
    """Consecutive rounds of one epoch: a slot per round, a row per node.

    Attributes:
        first: the first of them.
        X, Z, G: the states.
        missing: per slot, how many nodes have not completed it.
        measured: how many slots have been measured.
    """

    first: int
    X: Tensor
    Z: Tensor
    G: Tensor
    missing: list[int]
    measured: int = 0

    @property
    def whole(self) -> int:
        """How many of its first slots every member has completed."""
        slot = self.measured
        while slot < len(self.missing) and not self.missing[slot]:
            slot += 1
        return slot
