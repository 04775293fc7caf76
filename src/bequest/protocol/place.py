"""A node's place in the epoch that it is in: its neighbours, and what they have sent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import mixing

if TYPE_CHECKING:
    from bequest.core.arrays import Matrix, Vector
    from bequest.protocol.messages import Arrange, Begin


@dataclass(eq=False)
class Inbox:
    """The messages of one round: a row per neighbour, and the node's own, in ascending order."""

    rows: Matrix
    arrived: list[bool]
    missing: int

    def clear(self, missing: int) -> None:
        """Wait for the messages of another round, so many of them."""
        self.arrived = [False] * len(self.arrived)
        self.missing = missing


class Place:
    """A node's place in an epoch.

    Args:
        ident: the node.
        arrange: what it has prepared.
        begin: how the epoch began.
        dim: how many numbers a vector has.
        vectors: how many of them a message of a round has.
        differences: whether the node hears how far it is from the average, or the average.

    Attributes:
        talks_to: the nodes that it exchanges messages with.
        row_of: node -> its row in an inbox.
        weights: of the rows.
        payload_shape: of the message of a round.
        inboxes: the messages of even and of odd rounds: a neighbour can be one round ahead.
    """

    def __init__(
        self,
        ident: int,
        arrange: Arrange,
        begin: Begin,
        dim: int,
        *,
        vectors: int,
        differences: bool,
    ) -> None:
        assert arrange.neighbours is not None  # noqa: S101 - a node that begins an epoch is in it
        self.arrange, self.begin = arrange, begin
        width = vectors * dim
        # A node without neighbours talks to itself, so that its rounds are events too.
        self.talks_to = arrange.neighbours or (ident,)
        order = sorted({*arrange.neighbours, ident})
        self._own_row = order.index(ident)
        # Of short messages: arrays of one shape are subtracted much faster.
        several = differences and width <= mixing.LONG_MESSAGE
        self._own_rows = np.full(len(order), self._own_row) if several else None
        self._differences = differences
        rows = {node: row for row, node in enumerate(order)}
        self.row_of = {node: rows[node] for node in self.talks_to}
        weight = dict(zip(arrange.neighbours, arrange.weights, strict=True))
        weight[ident] = 1.0 - math.fsum(arrange.weights)
        self.weights: Vector = np.array([weight[node] for node in order])
        self._pull = self.weights
        self._ident = ident
        self.payload_shape = (width,)
        self._dim = dim
        self.inboxes = tuple(
            Inbox(np.empty((len(order), width)), [False] * len(order), len(self.talks_to))
            for _ in range(2)
        )

    @property
    def others(self) -> frozenset[int]:
        """All other nodes of the epoch, and the nodes that those remember."""
        return frozenset(self.begin.named) - {self._ident}

    @property
    def own_weight(self) -> float:
        """The weight of the node's own message in an average."""
        return float(self.weights[self._own_row])

    def heard(self, t: int) -> Vector:
        """Return the average of the messages of round t, or the node's own less it, times c."""
        rows = self.inboxes[t & 1].rows
        if not self._differences:
            if rows.shape[1] > mixing.LONG_MESSAGE:
                return self._long_average(rows)
            average: Vector = self.weights.dot(rows)
            return average
        # What one end of an edge gains the other loses, to the last digit.
        several = self._own_rows
        own = rows[self._own_row] if several is None else rows.take(several, 0)
        heard: Vector = self._pull.dot(own - rows)
        return heard

    def _long_average(self, rows: Matrix) -> Vector:
        heard = np.empty(rows.shape[1])
        for begin in range(0, heard.size, self._dim):  # vector by vector
            part = slice(begin, begin + self._dim)
            mixing.weigh(self.weights.tolist(), list(rows[:, part]), heard[part])
        return heard

    def couple(self, coupling: float) -> None:
        """Say what differences are multiplied with before they are heard."""
        if self._differences:
            self._pull = coupling * self.weights

    def contribute(self, t: int, payload: Vector) -> None:
        """Put the node's own message beside those of its neighbours."""
        self.inboxes[t & 1].rows[self._own_row] = payload

    def culprits(self, t: int) -> list[int]:
        """Return the neighbours whose message of round t is not finite."""
        rows = self.inboxes[t & 1].rows
        return [node for node, row in self.row_of.items() if not np.isfinite(rows[row]).all()]
