"""What happens to the membership of a network while it works."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, get_args

import numpy as np

from bequest.errors import (
    EverybodyLeaves,
    ForgottenTwice,
    InvalidEvent,
    JoinsTwice,
    LeavesTwice,
    NotThere,
    OutsideTheRun,
    StillHere,
    UnknownNode,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.model.graph import Graph
    from bequest.model.problem import Problem


@dataclass(frozen=True, slots=True, order=True)
class Departure:
    """Node ``node`` takes part in rounds 1..``round`` and leaves at the end of it, in good order.

    Paper: as:net, as:grace.
    """

    node: int
    round: int


@dataclass(frozen=True, slots=True, order=True)
class Crash:
    """Node ``node`` takes part in rounds 1..``round`` and dies at the end of it, without a word.

    What is remembered of it is its last checkpoint.

    Deviates: in the paper all nodes leave in good order (as:grace).
    """

    node: int
    round: int


@dataclass(frozen=True, slots=True, order=True)
class Return:
    """Node ``node``, which has left or died, is back from the end of ``round`` on.

    Its memory is withdrawn: from now on it speaks for itself.
    """

    node: int
    round: int


@dataclass(frozen=True, slots=True, order=True)
class Join:
    """Node ``node`` of the problem is not there at first, but from the end of ``round`` on.

    ``neighbours`` are the nodes it will talk to, as far as they are there; by default its
    neighbours in the graph.
    """

    node: int
    round: int
    neighbours: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, order=True)
class Forget:
    """The memory of node ``node``, which is gone, is erased on request at the end of ``round``.

    From then on its loss does not count: the target is the optimum of the others.
    """

    node: int
    round: int


# In the order in which they happen at the end of a round.
Event: TypeAlias = Crash | Departure | Forget | Return | Join
_ORDER: tuple[type, ...] = get_args(Event)


@dataclass(frozen=True, slots=True)
class Changes:
    """What happens at the end of one round, in the order of ``Event``; ids ascend within each.

    The crashes happen all at once, everything else one after the other.
    """

    crashes: tuple[int, ...] = ()
    departures: tuple[int, ...] = ()
    forgets: tuple[int, ...] = ()
    returns: tuple[int, ...] = ()
    joins: tuple[int, ...] = ()


def most_heterogeneous(problem: Problem, rounds: Sequence[int]) -> list[Departure]:
    """Return departures of the nodes with the largest |grad f_i(x*)|, the largest first.

    These are the nodes whose loss hurts most (Sec. 5.1).
    """
    if not hasattr(problem, "heterogeneity"):
        raise InvalidEvent(
            f"{problem!r} is no problem.", remedy="Pass a bequest.Problem and a list of rounds."
        )
    given: object = rounds
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise InvalidEvent(f"rounds is {rounds!r}.", remedy="Pass a list of rounds.")
    order = np.argsort(-problem.heterogeneity(), kind="stable")
    if len(rounds) >= problem.n:
        raise EverybodyLeaves(
            f"{len(rounds)} departures from {problem.n} nodes leave no node.",
            remedy=f"Give at most {problem.n - 1} rounds.",
        )
    return [Departure(int(node), t) for node, t in zip(order, rounds, strict=False)]


def in_order(events: Iterable[Event], *, n: int, rounds: int) -> tuple[Event, ...]:
    """Return the events in the order in which they happen, or say which one is impossible."""
    if isinstance(events, _ORDER) or not isinstance(events, Iterable):
        raise InvalidEvent(
            f"departures is {events!r}, not a sequence.", remedy="Pass a list of events."
        )
    listed = list(events)
    for event in listed:
        _check(event, n=n, rounds=rounds)
    listed.sort(key=lambda event: (event.round, _ORDER.index(type(event)), event.node))
    membership = _Whereabouts(n, listed)
    for event in listed:
        membership.change(event)
    return tuple(listed)


def schedule(events: Iterable[Event], *, n: int, rounds: int) -> Mapping[int, Changes]:
    """Return round -> what happens at its end, or say which event is impossible."""
    by_round: dict[int, dict[type, list[int]]] = {}
    for event in in_order(events, n=n, rounds=rounds):
        kinds = by_round.setdefault(int(event.round), {kind: [] for kind in _ORDER})
        kinds[type(event)].append(int(event.node))
    return {t: Changes(*map(tuple, kinds.values())) for t, kinds in by_round.items()}


def acquaintances(events: Iterable[Event], graph: Graph) -> Mapping[int, tuple[int, ...]]:
    """Return, for every node that joins or returns, the nodes it would talk to; ascending."""
    known: dict[int, tuple[int, ...]] = {}
    for event in events:
        if isinstance(event, Join) and event.neighbours is not None:
            known[int(event.node)] = tuple(sorted({int(other) for other in event.neighbours}))
        elif isinstance(event, Join | Return):
            known.setdefault(int(event.node), graph.neighbours(event.node))
    return dict(sorted(known.items()))


def counted(schedule: Mapping[int, Changes], n: int) -> Mapping[int, frozenset[int]]:
    """Return round -> the nodes that make up the target from its end on; the start has the key 0.

    These are all nodes that were there at the start or have joined since, gone or not, but for
    those that were forgotten and have not returned.
    """
    joining = {node for changes in schedule.values() for node in changes.joins}
    now = frozenset(range(n)) - joining
    members = {0: now}
    for t, changes in schedule.items():
        then = now.difference(changes.forgets).union(changes.returns, changes.joins)
        if then != now:
            members[t] = now = then
    return members


class _Whereabouts:
    """The nodes that are there, gone and forgotten, event by event."""

    def __init__(self, n: int, events: Sequence[Event]) -> None:
        self.joins = {
            event.node: event.round for event in reversed(events) if isinstance(event, Join)
        }
        self.n, self.present = n, set(range(n)) - self.joins.keys()
        self.left: dict[int, int] = {}
        self.forgotten: dict[int, int] = {}
        if not self.present:
            raise EverybodyLeaves(
                "All nodes join, so no node is there at the start.",
                remedy="Let at least one node be there from the start.",
            )

    def change(self, event: Event) -> None:
        """Let the event happen, or say why it cannot."""
        node, here = event.node, event.node in self.present
        if isinstance(event, Departure | Crash):
            if not here:
                self._refuse_leaving(event)
            self.left[node] = event.round
            self.present.remove(node)
            if not self.present:
                raise EverybodyLeaves(
                    f"All {self.n} nodes are gone after round {event.round}.",
                    remedy="Let at least one node stay: it has to remember the others.",
                )
            return
        if here or self.left.get(node) == event.round:
            raise StillHere(
                f"{event}: node {node} is still there in round {event.round}.",
                remedy="Let it leave in an earlier round, or remove this event.",
            )
        if isinstance(event, Join):
            if node in self.left:
                raise JoinsTwice(
                    f"{event}: node {node} has been there before.",
                    remedy=f"Use Return({node}, {event.round}).",
                )
            self.present.add(node)
            return
        if node not in self.left:
            raise NotThere(
                f"{event}: node {node} joins only at round {self.joins[node]}.",
                remedy="Let it join and leave first, or remove this event.",
            )
        if isinstance(event, Return):
            if self.forgotten.pop(node, None) == event.round:
                raise InvalidEvent(
                    f"{event}: node {node} is forgotten in the same round.",
                    remedy="Let it return later, or remove one of the two.",
                )
            self.present.add(node)
        elif node in self.forgotten:
            raise ForgottenTwice(
                f"{event}: node {node} is forgotten already.",
                remedy="Remove one of the two requests.",
            )
        else:
            self.forgotten[node] = event.round

    def _refuse_leaving(self, event: Event) -> None:
        node = event.node
        if node in self.left:
            raise LeavesTwice(
                f"{event}: node {node} has already left at round {self.left[node]}.",
                remedy="Remove one of the two, or let it return in between.",
            )
        raise NotThere(
            f"{event}: node {node} joins only at round {self.joins[node]}.",
            remedy="Let it join in an earlier round; a node that comes back returns, with Return.",
        )


def _check(event: Event, *, n: int, rounds: int) -> None:
    """Refuse what is no event, and events of unknown nodes or rounds."""
    if type(event) not in _ORDER:  # nor what is derived from one: it would not be asked
        raise InvalidEvent(
            f"{event!r} is not an event.",
            remedy="Pass Departure(node, round) objects, or Crash, Return, Join, Forget.",
        )
    others = event.neighbours if isinstance(event, Join) else None
    if others is not None and (not isinstance(others, tuple | list) or not others):
        raise InvalidEvent(
            f"{event} has neighbours that are not a tuple of nodes.",
            remedy="Name at least one, or leave them out for those of the graph.",
        )
    numbers = [("node", event.node), ("round", event.round)]
    numbers += [("neighbour", other) for other in others or ()]
    for name, number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise InvalidEvent(
                f"{event} has a {name} that is not a whole number.", remedy="Use an int."
            )
        if name != "round" and not 0 <= number < n:
            raise UnknownNode(
                f"{event} names a node that does not exist.",
                remedy=f"Nodes are numbered 0..{n - 1}.",
            )
    if others is not None and event.node in others:
        raise InvalidEvent(
            f"{event} makes a node its own neighbour.", remedy="Name other nodes only."
        )
    if not 1 <= event.round <= rounds:
        raise OutsideTheRun(
            f"{event} lies outside the run, whose rounds are 1..{rounds}.",
            remedy="Let it happen earlier, or run more rounds.",
        )
