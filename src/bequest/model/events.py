"""What happens to the membership of a network while it works."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.errors import EverybodyLeaves, InvalidEvent, LeavesTwice, OutsideTheRun, UnknownNode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bequest.model.problem import Problem


@dataclass(frozen=True, slots=True, order=True)
class Departure:
    """Node ``node`` takes part in rounds 1..``round`` and leaves for good at the end of it.

    Paper: as:net, as:grace.
    """

    node: int
    round: int


def most_heterogeneous(problem: Problem, rounds: Sequence[int]) -> list[Departure]:
    """Return departures of the nodes with the largest |grad f_i(x*)|, the largest first.

    These are the nodes whose loss hurts most (Sec. 5.1).
    """
    order = np.argsort(-problem.heterogeneity(), kind="stable")
    if len(rounds) >= problem.n:
        raise EverybodyLeaves(
            f"{len(rounds)} departures from {problem.n} nodes leave nobody.",
            remedy=f"Give at most {problem.n - 1} rounds.",
        )
    return [Departure(int(node), t) for node, t in zip(order, rounds, strict=False)]


def schedule(events: Iterable[Departure], *, n: int, rounds: int) -> Mapping[int, tuple[int, ...]]:
    """Return round -> who leaves at its end, ascending, or say which event is impossible."""
    if isinstance(events, Departure) or not isinstance(events, Iterable):
        raise InvalidEvent(
            f"departures is {events!r}, not a sequence.", remedy="Pass a list of events."
        )
    by_round: dict[int, list[int]] = {}
    gone: dict[int, int] = {}
    for event in events:
        if not isinstance(event, Departure):
            raise InvalidEvent(
                f"{event!r} is not an event.", remedy="Pass Departure(node, round) objects."
            )
        _check(event, n=n, rounds=rounds, gone=gone)
        gone[event.node] = event.round
        by_round.setdefault(event.round, []).append(event.node)
    if len(gone) == n:
        raise EverybodyLeaves(
            f"All {n} nodes leave.",
            remedy="Let at least one node stay: somebody has to remember.",
        )
    return {t: tuple(sorted(nodes)) for t, nodes in sorted(by_round.items())}


def _check(event: Departure, *, n: int, rounds: int, gone: Mapping[int, int]) -> None:
    for name, number in (("node", event.node), ("round", event.round)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise InvalidEvent(
                f"{event} has a {name} that is not a whole number.", remedy="Use an int."
            )
    if not 0 <= event.node < n:
        raise UnknownNode(
            f"{event} names a node that does not exist.", remedy=f"Nodes are numbered 0..{n - 1}."
        )
    if not 1 <= event.round <= rounds:
        raise OutsideTheRun(
            f"{event} lies outside the run, whose rounds are 1..{rounds}.",
            remedy="Let it leave earlier, or run more rounds.",
        )
    if event.node in gone:
        raise LeavesTwice(
            f"{event}: node {event.node} already leaves at round {gone[event.node]}.",
            remedy="Remove one of the two departures.",
        )
