"""What the nodes that will leave remember of their own paths.

A node holds at most 16 pairs of the epoch it is in (core.history) and one prediction carried over
from the longest epoch before. Which rounds those pairs are from is known in advance, so the rounds
between them are not even looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import history
from bequest.core.history import EpochPath
from bequest.model.prediction import predict_best
from bequest.model.wills import keeps_path

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from bequest.core.anchors import Prediction
    from bequest.core.arrays import Indices, Matrix, Tensor
    from bequest.model.plan import Plan


@dataclass(frozen=True, slots=True)
class _Pages:
    """The pairs that some nodes hold after one round of an epoch: the latest first.

    Attributes:
        nodes: whose they are, ascending.
        length: how many rounds old the epoch was then.
        pace: of the epoch.
        slots: round -> which of the pairs is from it.
        rows: which rows of the epoch's arrays are theirs.
        X: their iterates, pair by pair.
        Z: their trackers.
    """

    nodes: Indices
    length: int
    pace: float
    slots: Mapping[int, int]
    rows: Indices
    X: Tensor
    Z: Tensor

    def path(self, node: int) -> EpochPath:
        column = int(np.searchsorted(self.nodes, node))
        return EpochPath(self.X[:, column], self.Z[:, column], self.length)


class PathHistories:
    """The paths of the nodes that will need them when they leave or crash."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._last_round: dict[int, int] = {}
        for t, changes in plan.schedule.items():
            for node in (*changes.crashes, *changes.departures):
                if node in plan.wills and keeps_path(plan.wills[node], plan.problem.mu):
                    self._last_round[node] = t
        self._earlier: dict[int, list[_Pages]] = {}
        self._open: dict[int, _Pages] = {}
        self._stop = 0

    def open(
        self,
        t: int,
        stop: int,
        nodes: Indices,
        X: Matrix,
        Z: Matrix,
        pace: float,
        checkpoints: Mapping[int, Collection[int]],
    ) -> None:
        """Begin the epoch of rounds t..stop, which begins with this state.

        ``checkpoints``: round before the stop -> the nodes that are asked for their pairs after it.
        """
        self._close()
        self._stop = stop
        writers = [node for node in nodes.tolist() if self._last_round.get(node, 0) >= stop]
        for end, asked in {**checkpoints, stop: writers}.items():
            chosen = [node for node in writers if node in asked]
            if chosen:
                ages = history.kept(end - t)[::-1]
                shape = (len(ages), len(chosen), X.shape[1])
                self._open[end] = _Pages(
                    nodes=np.array(chosen),
                    length=end - t,
                    pace=pace,
                    slots={t + age: slot for slot, age in enumerate(ages)},
                    rows=np.searchsorted(nodes, chosen),
                    X=np.empty(shape),
                    Z=np.empty(shape),
                )
        self.note(t, X[None], Z[None])

    def note(self, first: int, X: Tensor, Z: Tensor) -> None:
        """Copy what is to be kept of consecutive rounds, from ``first`` on."""
        for pages in self._open.values():
            for t in pages.slots.keys() & range(first, first + len(X)):
                slot = pages.slots[t]
                pages.X[slot], pages.Z[slot] = X[t - first, pages.rows], Z[t - first, pages.rows]

    def of(self, node: int, t: int) -> tuple[EpochPath, Prediction | None]:
        """Return the pairs a writer held after round t, and the prediction it carried then."""
        return self._open[t].path(node), self._carried(node)

    def start_anew(self, node: int) -> None:
        """Drop what a node wrote before it went away."""
        self._earlier.pop(node, None)

    def drop_predictions(self) -> None:
        """Drop all predictions, carried over or yet to be: they are of another optimum."""
        self._open, self._earlier = {}, {}

    def _carried(self, node: int) -> Prediction | None:
        # A node predicts at the end of an epoch and keeps the result, not the pairs. Here the
        # pairs are kept and the prediction is only made for nodes that come to need it.
        loss = self._plan.problem.objective(node)
        for pages in reversed(self._earlier.get(node, [])):
            found = predict_best(
                loss,
                pages.path(node),
                self._plan.method.own_step(pages.pace, loss.curvature.b),
                by_gradients=self._plan.wills[node].by_gradients,
            )
            if found is not None:
                return found
        return None

    def _close(self) -> None:
        pages = self._open.get(self._stop)
        if pages is not None:
            for node in pages.nodes.tolist():
                earlier = self._earlier.setdefault(node, [])
                if pages.length >= history.LONGER * (earlier[-1].length if earlier else 0):
                    earlier.append(pages)
        self._open = {}
