"""What is agreed on before a run begins, and what of it is still ahead."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Mapping


@dataclass(frozen=True, slots=True)
class Charter:
    """What is agreed on before a run begins, and outlives every steward.

    Attributes:
        network: who talks to whom at the beginning.
        stops: the rounds after which everybody stops; the last one is the end.
        buddies: how many keep a node's checkpoints.
        step: everybody's step at the beginning.
        adaptive: whether it is lowered where an heir becomes too stiff for it.
        losses: stop -> whose loss is to be heard of before it is over.
        arrivals: stop -> who is to ask to come (back), or to be forgotten, before it is over.
    """

    network: Mapping[int, frozenset[int]]
    stops: tuple[int, ...]
    buddies: int
    step: float
    adaptive: bool
    losses: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    arrivals: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


class Agenda:
    """What of a charter is still ahead.

    Attributes:
        stops: those that are not over yet.
        losses: stop -> whose loss is still to be heard of.
        arrivals: stop -> who has not asked yet.
    """

    def __init__(self, charter: Charter) -> None:
        self._appointed = charter.arrivals
        self.stops = sorted(charter.stops)
        self.losses = {t: list(charter.losses.get(t, ())) for t in charter.stops}
        self.arrivals = {t: list(charter.arrivals.get(t, ())) for t in charter.stops}

    def expects(self, stop: int) -> list[int]:
        """Return who is still to be heard of before that stop is over."""
        return [*self.losses.get(stop, ()), *self.arrivals.get(stop, ())]

    def appointment(self, node: int) -> int | None:
        """Return the stop at which a node's request is dealt with; None for at once."""
        return next((t for t in self.stops if node in self._appointed.get(t, ())), None)

    def note_loss(self, node: int) -> None:
        """Expect it no more at the first stop where it was expected."""
        self._strike(self.losses, node)

    def note_arrival(self, node: int) -> None:
        """Expect it no more at the first stop where it was expected."""
        self._strike(self.arrivals, node)

    def _strike(self, appointments: dict[int, list[int]], node: int) -> None:
        for t in self.stops:
            if node in appointments[t]:
                appointments[t].remove(node)
                return

    def pass_by(self, stop: int) -> None:
        """Leave a stop behind, and all those before it."""
        self.stops = [t for t in self.stops if t > stop]

    def resume(self, stop: int, there: Container[int]) -> None:
        """Go on towards a stop; whoever is there has come already."""
        self.stops = [t for t in self.stops if t >= stop]
        for node in list(self.arrivals.get(stop, ())):
            if node in there:
                self.note_arrival(node)
