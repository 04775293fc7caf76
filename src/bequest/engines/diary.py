"""What the leavers of a run remember of their own paths.

A node holds at most 16 pairs of the epoch it is in (core.history) and one prediction carried over
from the longest epoch before. Which rounds those pairs are from is known in advance, so the rounds
between them are not even looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import history
from bequest.core.history import Chapter
from bequest.model.foresight import foresee_best

if TYPE_CHECKING:
    from bequest.core.anchors import Prediction
    from bequest.core.arrays import Indices, Matrix, Tensor
    from bequest.engines.base import Plan


@dataclass(frozen=True, slots=True)
class _Pages:
    """The pairs of one epoch, of everybody who writes a diary: the latest first."""

    nodes: Indices
    length: int
    step: float
    X: Tensor
    Z: Tensor

    def chapter(self, node: int) -> Chapter:
        column = int(np.searchsorted(self.nodes, node))
        return Chapter(self.X[:, column], self.Z[:, column])


class Diary:
    """Who will need its path when it leaves, and the pages written so far."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._last_round = {
            node: t
            for t, leaving in plan.schedule.items()
            for node in leaving
            if plan.wills[node].needs_history
        }
        self._earlier: list[_Pages] = []
        self._open: _Pages | None = None
        self._rounds: dict[int, int] = {}
        self._rows: Indices = np.empty(0, dtype=int)

    def open(self, t: int, stop: int, nodes: Indices, X: Matrix, Z: Matrix, step: float) -> None:
        """Begin the epoch of rounds t..stop, which begins with this state."""
        self._close()
        writers = [node for node in nodes.tolist() if self._last_round.get(node, 0) >= stop]
        self._rounds = {}
        if not writers:
            return
        ages = history.kept(stop - t)[::-1]
        self._rounds = {t + age: page for page, age in enumerate(ages)}
        self._rows = np.searchsorted(nodes, writers)
        shape = (len(ages), len(writers), X.shape[1])
        self._open = _Pages(np.array(writers), stop - t, step, np.empty(shape), np.empty(shape))
        self.note(t, X[None], Z[None])

    def note(self, first: int, X: Tensor, Z: Tensor) -> None:
        """Copy what is to be kept of consecutive rounds, from ``first`` on."""
        if self._open is None:
            return
        for t in self._rounds.keys() & range(first, first + len(X)):
            page = self._rounds[t]
            self._open.X[page], self._open.Z[page] = (
                X[t - first, self._rows],
                Z[t - first, self._rows],
            )

    def of(self, node: int) -> tuple[Chapter, Prediction | None]:
        """Return the leaver's current pairs, and the prediction it has carried over."""
        assert self._open is not None  # noqa: S101 - who leaves now has been writing
        return self._open.chapter(node), self._carried(node)

    def _carried(self, node: int) -> Prediction | None:
        # A node predicts at the end of an epoch and keeps the result, not the pairs. Here the
        # pairs are kept and the prediction is only made for those who come to need it.
        loss = self._plan.problem.objective(node)
        for pages in reversed(self._earlier):
            found = foresee_best(
                loss,
                pages.chapter(node),
                pages.step,
                by_gradients=self._plan.wills[node].by_gradients,
            )
            if found is not None:
                return found
        return None

    def _close(self) -> None:
        if self._open is not None:
            longest = self._earlier[-1].length if self._earlier else 0
            if self._open.length >= history.LONGER * longest:
                self._earlier.append(self._open)
        self._open = None
