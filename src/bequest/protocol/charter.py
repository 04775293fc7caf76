"""What is agreed on before a run begins, and what of it is still ahead."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from bequest.core.methods import Method


@dataclass(frozen=True, slots=True)
class Charter:
    """What is agreed on before a run begins, and outlives every steward.

    Attributes:
        network: the first members, and which of them talk to each other.
        stops: the rounds after which all nodes stop; the last one is the end.
        buddies: how many keep a node's checkpoints.
        method: how all nodes iterate; it chooses their pace.
        pace: the number that all nodes agree on at the beginning.
        crashes: stop -> the nodes that are to be heard of as lost before it is over.
        arrivals: stop -> the nodes that are to ask to come (back), or to be forgotten, before it
            is over.
        forgets: stop -> which of these are to be forgotten.
        recallable: the nodes that may be remembered though they left no checkpoint.
        modulus: the least curvature of the mean of all losses, where they start.
        shared_floor: that of the mean of the matrices above their Hessians.
    """

    network: Mapping[int, frozenset[int]]
    stops: tuple[int, ...]
    buddies: int
    method: Method
    pace: float
    crashes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    arrivals: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    forgets: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    recallable: frozenset[int] = frozenset()
    modulus: float = 0.0
    shared_floor: float = 0.0


class Agenda:
    """What of a charter is still ahead.

    Attributes:
        stops: the stops that are not over yet.
        crashes: stop -> the nodes that are still to be heard of as lost.
        arrivals: stop -> the nodes that have not asked yet.
    """

    def __init__(self, charter: Charter) -> None:
        self._charter = charter
        self.stops = sorted(charter.stops)
        self.crashes = {t: list(charter.crashes.get(t, ())) for t in charter.stops}
        self.arrivals = {t: list(charter.arrivals.get(t, ())) for t in charter.stops}

    def expects(self, stop: int, members: Container[int]) -> list[int]:
        """Return the nodes still to be heard of before that stop is over, given the members.

        Plans are made before accidents: a node that has gone already cannot be lost, and one that
        has stayed cannot come. A stop that was left behind waits for no node, whichever comes back.
        """
        if stop not in self.stops:
            return []
        lost = [node for node in self.crashes.get(stop, ()) if node in members]
        return lost + [node for node in self.arrivals.get(stop, ()) if node not in members]

    def appointment(self, node: int) -> int | None:
        """Return the stop at which a node's request is dealt with; None for at once."""
        return next((t for t in self.stops if node in self._charter.arrivals.get(t, ())), None)

    def note_crash(self, node: int) -> None:
        """Expect no crash of it at the next stop; later stops are about another incarnation."""
        for t in self.stops[:1]:
            self.crashes[t] = [other for other in self.crashes[t] if other != node]

    def note_arrival(self, node: int) -> None:
        """Expect it no more at the first stop where it was expected."""
        for t in self.stops:
            if node in self.arrivals[t]:
                self.arrivals[t].remove(node)
                return

    def pass_by(self, stop: int) -> None:
        """Leave a stop behind, and all those before it."""
        self.stops = [t for t in self.stops if t > stop]

    def resume(
        self,
        stop: int,
        *,
        members: Container[int],
        asking: Iterable[int],
        known: Container[int],
        times_lost: Callable[[int], int],
    ) -> None:
        """Go on towards a stop, where some of what was planned may have happened already.

        Args:
            stop: the next one.
            members: the nodes that are there.
            asking: the nodes that ask to come.
            known: the nodes that are remembered, or known as lost; who is neither was forgotten.
            times_lost: node -> how often it has been lost so far.
        """
        self.stops = [t for t in self.stops if t >= stop]
        self.arrivals[stop] = [n for n in self.arrivals.get(stop, ()) if n not in members]
        for node in self._charter.forgets.get(stop, ()):
            if node in self.arrivals[stop] and node not in known:
                self.arrivals[stop].remove(node)
        for node in asking:
            self.note_arrival(node)
        planned = [node for t, lost in self._charter.crashes.items() if t < stop for node in lost]
        self.crashes[stop] = [
            node for node in self.crashes.get(stop, ()) if times_lost(node) <= planned.count(node)
        ]
