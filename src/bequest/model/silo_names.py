"""Nodes that have names: what they are called, and which one is meant by a name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bequest.errors import InvalidObjective, UnknownNode
from bequest.model.events import Join

if TYPE_CHECKING:
    from bequest.errors import BequestError
    from bequest.model.events import Event

_SHOWN = 12
# How errors name a node: Departure(node=3, round=20), and node 3.
_NODE = re.compile(r"(?:(node=)|\bnode )(\d+)")


def checked_names(names: object, n: int) -> tuple[str, ...]:
    """Return the names of so many nodes, or none; refuses what cannot be that."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidObjective(f"names is {names!r}.", remedy="Pass a name per node.")
    found = tuple(map(str, names))
    if found and len(found) != n:
        raise InvalidObjective(
            f"There are {len(found)} names, and {n} nodes.", remedy="Pass a name per node."
        )
    twice = next((name for place, name in enumerate(found) if name in found[:place]), None)
    if twice is not None:
        raise InvalidObjective(
            f"Two nodes are called {on_one_line(twice)}.",
            remedy="Give every node a name of its own.",
        )
    return found


def number_of(name: str, names: Sequence[str]) -> int:
    """Return which node is called that, or say which name may have been meant."""
    if name in names:
        return names.index(name)
    near = difflib.get_close_matches(name, names, n=1)
    some = ", ".join(map(on_one_line, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
    raise UnknownNode(
        f"There is no silo {name!r}.",
        remedy=f'Did you mean "{near[0]}"?' if near else f"The silos are {some}.",
    )


def numbered(events: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 - checked elsewhere
    """Return the events with numbers for the names of nodes; what is no name stays as it is."""
    if not names or not isinstance(events, Iterable):
        return events
    return [_numbered(event, names) for event in events]


def _numbered(event: Any, names: Sequence[str]) -> Event:  # noqa: ANN401 - checked elsewhere
    if isinstance(getattr(event, "node", None), str):
        event = replace(event, node=number_of(event.node, names))
    if isinstance(event, Join) and event.neighbours is not None:
        given: tuple[Any, ...] = event.neighbours
        others = [number_of(one, names) if isinstance(one, str) else one for one in given]
        event = replace(event, neighbours=tuple(others))
    found: Event = event
    return found


def wills_by_number(will: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 - checked elsewhere
    """Return a mapping from nodes to wills with numbers for their names."""
    if not names or not isinstance(will, Mapping):
        return will
    return {number_of(k, names) if isinstance(k, str) else k: one for k, one in will.items()}


def told_by_name(error: BequestError, names: Sequence[str]) -> BequestError:
    """Return an error about nodes in the names of nodes, if they have some."""
    if not names:
        return error

    def name(match: re.Match[str]) -> str:
        node = int(match[2])
        known = node < len(names)
        if not known:
            return match[0]
        return f"node={names[node]!r}" if match[1] else called(node, names)

    what, remedy = (_NODE.sub(name, text) for text in (error.what, error.remedy))
    return type(error)(what, remedy=remedy)


def called(node: int, names: Sequence[str]) -> str:
    """Return what a node is called: by its name, if it has one."""
    return f"silo {on_one_line(names[node])}" if names else f"node {node}"


def on_one_line(name: str) -> str:
    """Return a name on one line."""
    return name if name.isprintable() and name.strip() == name and name else repr(name)
