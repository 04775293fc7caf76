"""Which rows belong to which silo, and the events and wills of silos that have names."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.errors import InvalidData, InvalidEvent, UnknownNode
from bequest.model import graphs
from bequest.model.events import Join

if TYPE_CHECKING:
    from bequest.core.arrays import Indices
    from bequest.model.events import Event
    from bequest.model.graph import Graph
    from bequest.model.wills import Will

# More silos than this do not all talk to each other, unless a graph says so.
_ALL_TO_ALL = 12


@dataclass(frozen=True, slots=True, eq=False)
class Silos:
    """The names of the silos in the order of the nodes, and the rows of each."""

    names: tuple[Any, ...]
    rows: tuple[Indices, ...]

    def graph(self) -> Graph:
        """Return a network for them: all talk to all, or a ring with shortcuts if they are many."""
        n = len(self.names)
        if n <= _ALL_TO_ALL:
            return graphs.complete(n)
        return graphs.ring_with_chords(n, chords=n, seed=0)

    def events(self, events: Iterable[Event], *, absent: str) -> list[Event]:
        """Return these events with numbers for the names of silos.

        Those of a silo without a row do not concern the others, and are left out with a warning;
        or they are refused, if ``absent`` is ``"error"``.
        """
        if not isinstance(events, Iterable):
            raise InvalidEvent(
                f"departures is {events!r}, not a sequence.", remedy="Pass a list of events."
            )
        return [found for event in events if (found := self._numbered(event, absent))]

    def _numbered(self, event: Event, absent: str) -> Event | None:
        if not hasattr(event, "node"):
            raise InvalidEvent(
                f"{event!r} is no event.", remedy='Pass events such as bq.Departure("name", 300).'
            )
        if not self._has(event.node, f"{event!r} is left out", absent):
            return None
        found = replace(event, node=self.number(event.node))
        if isinstance(found, Join) and found.neighbours is not None:
            there = [one for one in found.neighbours if self._has(one, "no neighbour", absent)]
            return replace(found, neighbours=tuple(map(self.number, there)) or None)
        return found

    def will(
        self, will: Will | Mapping[Any, Will], *, absent: str
    ) -> Will | dict[int | None, Will]:
        """Return wills by number, where there is a mapping from the names of silos to wills."""
        if not isinstance(will, Mapping):
            return will
        return {
            None if one is None else self.number(one): of
            for one, of in will.items()
            if one is None or self._has(one, "its will is left out", absent)
        }

    def _has(self, name: object, otherwise: str, absent: str) -> bool:
        """Whether a silo has rows; warns if it has none, or refuses it."""
        if name in self.names:
            return True
        if absent == "error":
            self.number(name)
        warnings.warn(
            f"No row is of the silo {name!r}: {otherwise}. {self._meant(name)}", stacklevel=7
        )
        return False

    def number(self, name: object) -> int:
        """Return which node a silo is, or say which name may have been meant."""
        for number, known in enumerate(self.names):
            if known == name:
                return number
        raise UnknownNode(f"There is no silo {name!r}.", remedy=self._meant(name))

    def _meant(self, name: object) -> str:
        shown = [str(known) for known in self.names]
        near = difflib.get_close_matches(str(name), shown, n=1)
        some = ", ".join(shown[:12]) + (", ..." if len(shown) > 12 else "")
        return f'Did you mean "{near[0]}"?' if near else f"The silos are {some}."


def silos_of(labels: Any, rows: int) -> Silos:  # noqa: ANN401 - an array, a list, a Series
    """Return the silos that the rows belong to; one that holds them all if nothing is said."""
    if labels is None:
        return Silos((0,), (np.arange(rows),))
    given = np.asarray(labels)
    if given.shape != (rows,):
        raise InvalidData(
            f"silos has shape {given.shape}, and there are {rows} rows.",
            remedy="Pass the name of a silo for every row.",
        )
    missing = np.array([one is None or one != one for one in given.tolist()])
    if missing.any():
        raise InvalidData(
            f"silos is missing for row {int(np.argmax(missing))}.",
            remedy="Pass the name of a silo for every row.",
        )
    try:
        names, number = np.unique(given, return_inverse=True)
    except TypeError as error:
        raise InvalidData(
            "silos holds names of several kinds, which have no order.",
            remedy="Pass all of them as text, or all as numbers.",
        ) from error
    return Silos(
        tuple(names.tolist()), tuple(np.flatnonzero(number == k) for k in range(names.size))
    )
