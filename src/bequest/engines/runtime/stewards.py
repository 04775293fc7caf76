"""One steward after the other: how the next one takes over from one that was lost.

1. The steward is lost (``Supervisor.steward_lost``). From here on verdicts wait.
2. The carrier starts the process of the next one. Once it is there, ``inquire`` says which
   incarnations it will ask.
3. The carrier tells every host where the next steward is; nodes that wait outside apply again.
4. ``appoint`` says what the next steward begins with, the verdicts that have waited included. From
   here on verdicts go to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bequest.protocol.events import Lost, TakeOver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.engines.runtime.incarnations import Incarnations
    from bequest.engines.runtime.report_order import ReportOrder


@dataclass(frozen=True, slots=True)
class Appointment:
    """What the next steward begins with.

    Attributes:
        where: node -> the name of its host.
        running: node -> the incarnation that it asks.
        verdicts: the nodes that are known to be lost.
    """

    where: Mapping[int, str]
    running: Mapping[int, int]
    verdicts: tuple[Lost, ...]

    @property
    def events(self) -> tuple[TakeOver | Lost, ...]:
        """What the steward is given, in this order."""
        return TakeOver(self.running), *self.verdicts


class Stewards:
    """The stewards of one run.

    Args:
        incarnations: which nodes run.
        order: expects reports of epochs from the nodes that are asked.

    Attributes:
        term: how many there were before the present one.
        is_present: whether one is there to hear verdicts.
    """

    def __init__(self, incarnations: Incarnations, order: ReportOrder) -> None:
        self._incarnations, self._order = incarnations, order
        self._asked: dict[int, int] = {}
        self.term = 0
        self.is_present = True

    def lose(self) -> None:
        """Note that the present one is gone."""
        self.term += 1
        self.is_present = False

    def inquire(self) -> Mapping[int, int]:
        """Return the incarnations that the next one asks."""
        self._asked = self._incarnations.inquire()
        self._order.revive(self._asked)
        return self._asked

    def appoint(self) -> Appointment:
        """Return what the next one begins with; it has inquired."""
        self.is_present = True
        incarnations = self._incarnations
        verdicts = tuple(incarnations.gone(self._asked))
        return Appointment(dict(incarnations.where), self._asked, verdicts)
