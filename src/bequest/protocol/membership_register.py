"""Which node is which: its machine, its incarnation, and what it asks for.

A node that comes back is in another incarnation. A message by or about an incarnation that is over
must not be taken for news of the next one, however late it arrives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest.protocol.events import Send
from bequest.protocol.messages import Dismiss
from bequest.protocol.recovery import request_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bequest.protocol.events import Effect
    from bequest.protocol.messages import Request, Situation


def domains_of(host: str) -> tuple[str, ...]:
    """Return what a host can fail together with, the smallest first: itself, then what it is on.

    >>> domains_of("rack 1/machine 2/host 3")
    ('rack 1/machine 2/host 3', 'rack 1/machine 2', 'rack 1')
    """
    parts = host.split("/")
    return tuple("/".join(parts[:depth]) for depth in range(len(parts), 0, -1))


class MembershipRegister:
    """What a steward knows of every node, in the network or not.

    Args:
        hosts: node -> the host it is on; "machine/host" where hosts share machines.
        founders: the nodes that are there from the start.

    Attributes:
        incarnations: node -> how often it had been there before.
        requests: node -> how its next incarnation asks to come (back), or to be forgotten.
        leaving: the nodes that want to leave.
        lost: the original nodes that no node remembers.
    """

    def __init__(self, hosts: Mapping[int, str], founders: Iterable[int]) -> None:
        self.hosts = dict(hosts)
        self.incarnations: dict[int, int] = dict.fromkeys(founders, 0)
        self.requests: dict[int, Request] = {}
        self.leaving: set[int] = set()
        self.lost: set[int] = set()
        # node -> the epoch that it came in with
        self._since: dict[int, int] = {}
        # node -> the latest incarnation known to be over: its requests may still be under way
        self._buried: dict[int, int] = {}
        self._heard_dead: set[tuple[int, int]] = set()

    def domains(self, node: int) -> tuple[str, ...]:
        """Return what a node can fail together with, the smallest first."""
        return domains_of(self.hosts.get(node, f"node {node}"))

    def incarnation(self, node: int) -> int:
        """Return how often a node had been there before."""
        return self.incarnations.get(node, 0)

    def came_after(self, epoch: int, node: int) -> bool:
        """Whether what was said in that epoch is about an earlier incarnation of a node."""
        return epoch < self._since.get(node, 0)

    # --- the dead -----------------------------------------------------------------------------

    def bury(self, node: int, incarnation: int) -> bool:
        """Note that an incarnation is over; return whether that is news."""
        self._buried[node] = max(incarnation, self._buried.get(node, incarnation))
        news = (node, incarnation) not in self._heard_dead
        self._heard_dead.add((node, incarnation))
        return news

    def times_lost(self, node: int) -> int:
        """Return how often a node is known to have been lost."""
        return sum(lost == node for lost, _ in self._heard_dead)

    def is_over(self, node: int, incarnation: int) -> bool:
        """Whether that incarnation, or a later one, is known to be over."""
        return incarnation <= self._buried.get(node, -1)

    def latest(self, node: int) -> int:
        """Return the latest incarnation that a node has begun, or ended."""
        return max(self.incarnation(node), self._buried.get(node, 0))

    def exclusion(self, node: int, epoch: int, incarnation: int | None = None) -> Send:
        """Return the word to a node that was taken for lost, should it still be there.

        It goes to that incarnation, or to the latest one.
        """
        number = self.latest(node) if incarnation is None else incarnation
        return Send((node,), Dismiss(epoch, excluded=True, incarnation=number))

    # --- requests -----------------------------------------------------------------------------

    def is_known(self, node: int, incarnation: int) -> bool:
        """Whether a node has asked in that incarnation, or in a later one, or is in it."""
        asked = self.requests.get(node)
        return incarnation <= (
            self.incarnations.get(node, -1) if asked is None else asked.incarnation
        )

    def enter(self, node: int, request: Request) -> None:
        """Note that a node asks to come, and where it is."""
        self.hosts[node], self.requests[node] = request.host, request

    def strike(self, node: int, incarnation: int) -> Request | None:
        """Remove and return the request that an incarnation which is over has made, if any."""
        request = self.requests.get(node)
        return (
            self.requests.pop(node)
            if request is not None and request.incarnation <= incarnation
            else None
        )

    def turn_away(self, epoch: int) -> list[Effect]:
        """Strike every request, and tell the nodes: no node is left that they could come to."""
        requests, self.requests = self.requests, {}
        return [self.exclusion(n, epoch, request.incarnation) for n, request in requests.items()]

    def admit(self, node: int, epoch: int) -> None:
        """Let the incarnation begin in which a node has asked."""
        self.incarnations[node], self._since[node] = self.requests.pop(node).incarnation, epoch

    def due(self, appointment: Callable[[int], int | None], stop: int | None) -> list[int]:
        """Return the nodes whose request can be dealt with now, in that order.

        Args:
            appointment: node -> the stop that its request has to wait for; None for none.
            stop: the stop that has been reached, if one has.
        """
        order, requests = ("forget", "return", "join"), self.requests
        ready = [node for node in requests if appointment(node) in (None, stop)]
        return sorted(ready, key=lambda node: (order.index(requests[node].purpose), node))

    def hear(self, node: int, situation: Situation) -> None:
        """Note what a node says of itself to a new steward."""
        self.hosts[node] = situation.host
        asked, request = self.requests.get(node), request_in(situation)
        if request is None:
            self.incarnations[node] = situation.incarnation
        elif asked is None or asked.incarnation <= request.incarnation:
            self.requests[node] = request
