"""What a new steward makes of everybody's answers: the epoch that they are in.

A steward keeps nothing that others do not have as well. Whoever has begun an epoch knows who is in
it, and everybody knows its own place in it, so those who are left can tell the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bequest.protocol import messages as m
from bequest.protocol.scrutiny import has_place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.topology import Network


@dataclass(eq=False)
class Remains:
    """The latest epoch that anybody has begun, and who is there of it.

    Attributes:
        begin: how it began.
        network: who talks to whom, as far as somebody alive says so.
        members: those of it who are there, or were when they answered.
        round: after which round it began.
        buddies: member -> who keeps its checkpoints.
        lives: those who have a place in it, leavers among them -> the life in which they do.
        reborn: those who have died since they answered.
        requests: who asks to come, and how.
        excluded: those who are there, have no place in it and do not ask for one.
        behind: those who have not begun it yet.
    """

    begin: m.Begin
    network: Network
    members: set[int]
    lives: dict[int, int]
    reborn: set[int]
    requests: dict[int, m.Request]
    excluded: list[int]
    behind: set[int]
    round: int
    buddies: dict[int, tuple[int, ...]]

    @property
    def dead(self) -> set[int]:
        """Those who are in it, but are not there any more."""
        return (self.network.keys() - self.members) | (self.reborn & self.members)

    @property
    def dismissed(self) -> list[int]:
        """Those who were leaving, and may go now that it has begun."""
        return sorted(self.lives.keys() - self.members)


def request_in(situation: m.Situation) -> m.Request | None:
    """Return the request that somebody repeats in its answer, if it wants to come."""
    if situation.purpose is None:
        return None
    return m.Request(situation.purpose, situation.host, situation.known, situation.life)


def rebuild(told: Mapping[int, m.Situation], requests: Mapping[int, m.Request]) -> Remains | None:
    """Return what is left of the latest epoch; None if nobody has begun any.

    Args:
        told: what everybody who is there has answered.
        requests: who asks to come, be it in its answer or since.
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
    # Whoever asks to come in a later life has died since it answered.
    reborn = {n for n, request in requests.items() if n in told and request.life > told[n].life}
    asking = {n: request for n, request in requests.items() if n in reborn or n not in places}
    remains = Remains(
        begin,
        network={node: set() for node, _ in begin.roster},
        members=set(members),
        lives={node: told[node].life for node in places},
        reborn=reborn,
        requests=asking,
        excluded=sorted(told.keys() - places.keys() - asking.keys()),
        behind={n for n, place in members.items() if told[n].present is not place} - reborn,
        round=min(place.round for place in members.values()),
        buddies={node: place.buddies for node, place in members.items()},
    )
    for node, place in members.items():
        for other in place.neighbours or ():
            remains.network[node].add(other)
            remains.network[other].add(node)
    return remains
