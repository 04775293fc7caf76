"""The growing record of a run: what is new, as lines of plain data, while it goes on.

A line has one key that says what it is about::

    begun       where the run takes place, and how many rounds it is to have
    reading     what was measured of a round
    departure   a node left, or was lost
    change      a node returned, joined or was forgotten
    ended       how the run ended

``documents`` says what they hold. A page that is watched, and the event log of a cluster, are made
of the same lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bequest.curves import rounded
from bequest.documents import change_document, departure_document, network_document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bequest.engines.metrics import Metrics
    from bequest.model.outcome import ChangeRecord, DepartureRecord, Status
    from bequest.model.plan import Plan

    Line = dict[str, Any]

# About so many rounds of a run are told; those between look like them.
_READINGS = 2000


class News:
    """Tells what is new of a run, each thing once and in order.

    Args:
        plan: the run.
        tell: is called with every line.
    """

    def __init__(self, plan: Plan, tell: Callable[[Line], None]) -> None:
        self._tell = tell
        self._every = max(1, plan.rounds // _READINGS)
        self._next = self._departures = self._changes = 0
        scene = plan.scene
        begun = {
            "rounds": plan.rounds,
            "network": network_document(scene),
            "method": scene.method,
            "wills": list(scene.wills),
        }
        tell({"begun": begun})

    def advance(
        self,
        round_: int,
        metrics: Metrics,
        departures: Sequence[DepartureRecord],
        changes: Sequence[ChangeRecord],
    ) -> None:
        """Tell what is new, up to a round that has been measured.

        Args:
            round_: that round.
            metrics: what was measured.
            departures: all so far.
            changes: all so far.
        """
        for departure in departures[self._departures :]:
            self._tell({"departure": departure_document(departure)})
        for change in changes[self._changes :]:
            self._tell({"change": change_document(change)})
        self._departures, self._changes = len(departures), len(changes)
        for t in range(self._next, round_ + 1, self._every):
            error, gap, slope, spread = metrics.reading(t)
            reading = {
                "round": t,
                "error": None if error is None else rounded(error),
                "gradient_norm": rounded(slope),
                "disagreement": rounded(spread),
                "invariant_gap": rounded(gap),
            }
            self._tell({"reading": reading})
            self._next = t + self._every

    def end(self, status: Status) -> None:
        """Tell how it ended."""
        self._tell({"ended": str(status)})
