"""What a new steward makes of the nodes' answers: the epoch that they are in.

A steward keeps nothing that the nodes do not have as well. A node that has begun an epoch knows
which nodes are in it, and every node knows its own place, so the nodes that are left can tell all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bequest.protocol import messages as m
from bequest.protocol.present_epoch import PresentEpoch
from bequest.protocol.scrutiny import has_place

if TYPE_CHECKING:
    from collections.abc import Mapping


class Recovery:
    """The questions of a new steward, and the answers so far.

    Args:
        processes: node -> the incarnation that is asked.

    Attributes:
        asked: the same.
        waiting: the nodes that have not answered yet.
        situations: node -> its answer.
        dead: the nodes that were lost meanwhile.
    """

    def __init__(self, processes: Mapping[int, int]) -> None:
        self.asked, self.waiting = dict(processes), set(processes)
        self.situations: dict[int, m.Situation] = {}
        self.dead: set[int] = set()

    def hear(self, node: int, situation: m.Situation) -> None:
        """Take in an answer."""
        self.situations[node] = situation
        self.waiting.discard(node)

    def lose(self, node: int) -> None:
        """Wait no longer for a node that is lost, and forget what it said."""
        self.dead.add(node)
        self.waiting.discard(node)
        self.situations.pop(node, None)

    @property
    def newest(self) -> int:
        """The highest number of an epoch or attempt that a node has heard of."""
        return max((situation.newest for situation in self.situations.values()), default=0)

    @property
    def founders(self) -> set[int]:
        """The nodes that can found the network, if no node has begun any epoch.

        A node that asks to come back to what has never begun is as good as a founder, but it has to
        find one.
        """
        told = self.situations
        if not any(map(is_founder, told.values())):
            return set()
        return {node for node, said in told.items() if said.purpose in (None, "return")}


@dataclass(eq=False)
class Remains:
    """The latest epoch that a node has begun, and what is left of it.

    Attributes:
        begin: how it began.
        present: the epoch, with its network as far as a node that is alive says so.
        members: the members that are there, or were when they answered.
        incarnations: nodes with a place in it, leavers too -> the incarnation that has it.
        requests: the nodes that ask to come, and how.
        excluded: the nodes that are there, have no place in it and do not ask for one.
        behind: the members that have not begun it yet.
    """

    begin: m.Begin
    present: PresentEpoch
    members: set[int]
    incarnations: dict[int, int]
    requests: dict[int, m.Request]
    excluded: list[int]
    behind: set[int]

    @property
    def dismissed(self) -> list[int]:
        """The nodes that were leaving, and may go now that it has begun."""
        return sorted(self.incarnations.keys() - self.members)


def request_in(situation: m.Situation) -> m.Request | None:
    """Return the request that a node repeats in its answer, if it wants to come."""
    if situation.purpose is None:
        return None
    return m.Request(situation.purpose, situation.host, situation.known, situation.incarnation)


def is_founder(situation: m.Situation) -> bool:
    """Whether a node is there from the start, or has been taken for one that is.

    A node that comes to a network that has begun has a sponsor there.
    """
    place = situation.prepared
    stands_in = place is not None and place.neighbours is not None and place.sponsor is None
    return situation.purpose is None or stands_in


def rebuild(told: Mapping[int, m.Situation], requests: Mapping[int, m.Request]) -> Remains | None:
    """Return what is left of the latest epoch; None if no node has begun any.

    Args:
        told: what every node that is there has answered.
        requests: the nodes that ask to come, in their answers or since.
    """
    begun = [situation.begun for situation in told.values() if situation.begun is not None]
    if not begun:
        return None
    begin = max(begun, key=lambda begin: begin.epoch)
    places = {
        node: place
        for node, situation in told.items()
        for place in (situation.present, situation.prepared)
        if place is not None and place.epoch == begin.epoch and has_place(node, place, begin)
    }
    members = {node: place for node, place in places.items() if place.neighbours is not None}
    asking = {node: request for node, request in requests.items() if node not in places}
    network: dict[int, set[int]] = {node: set() for node, _ in begin.roster}
    for node, place in members.items():
        for other in place.neighbours or ():
            network[node].add(other)
            network[other].add(node)
    present = PresentEpoch(
        begin.epoch,
        min(place.round for place in members.values()),
        begin.until,
        network,
        lineage=dict(begin.roster),
        buddies={node: place.buddies for node, place in members.items()},
        dead=network.keys() - members.keys(),
    )
    return Remains(
        begin,
        present,
        members=set(members),
        incarnations={node: told[node].incarnation for node in places},
        requests=asking,
        excluded=sorted(told.keys() - places.keys() - asking.keys()),
        behind={n for n, place in members.items() if told[n].present is not place},
    )
