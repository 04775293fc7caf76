"""Who is who: everybody's machine, the life that everybody is in, and who asks to come.

Whoever comes back is in another life. What is said by somebody, or of somebody, in a life that is
over must not be taken for news of the next one, however late it arrives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest.protocol.succession import request_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bequest.protocol.messages import Request, Situation


def domains_of(host: str) -> tuple[str, ...]:
    """Return what a host can fail together with, the smallest first: itself, then what it is on.

    >>> domains_of("rack 1/machine 2/host 3")
    ('rack 1/machine 2/host 3', 'rack 1/machine 2', 'rack 1')
    """
    parts = host.split("/")
    return tuple("/".join(parts[:depth]) for depth in range(len(parts), 0, -1))


class Register:
    """What a steward knows of everybody, in the network or not.

    Args:
        hosts: node -> the host it is on; "machine/host" where hosts share machines.
        founders: who is there from the start.

    Attributes:
        lives: node -> how often it had been there before.
        requests: node -> how it asks to come (back), or to be forgotten, in a life after that.
    """

    def __init__(self, hosts: Mapping[int, str], founders: Iterable[int]) -> None:
        self.hosts = dict(hosts)
        self.lives: dict[int, int] = dict.fromkeys(founders, 0)
        self.requests: dict[int, Request] = {}
        # node -> the epoch that it came in with
        self._since: dict[int, int] = {}
        # node -> the latest life that is known to be over: its requests may still be under way
        self._buried: dict[int, int] = {}
        self._heard_dead: set[tuple[int, int]] = set()

    def domains(self, node: int) -> tuple[str, ...]:
        """Return what a node can fail together with, the smallest first."""
        return domains_of(self.hosts.get(node, f"node {node}"))

    def life(self, node: int) -> int:
        """Return how often a node had been there before."""
        return self.lives.get(node, 0)

    def came_after(self, epoch: int, node: int) -> bool:
        """Whether what was said in that epoch is about an earlier life of a node."""
        return epoch < self._since.get(node, 0)

    # --- the dead -----------------------------------------------------------------------------

    def bury(self, node: int, life: int) -> bool:
        """Note that a life is over; return whether that is news."""
        self._buried[node] = max(life, self._buried.get(node, life))
        news = (node, life) not in self._heard_dead
        self._heard_dead.add((node, life))
        return news

    def losses(self, node: int) -> int:
        """Return how often a node is known to have been lost."""
        return sum(lost == node for lost, _ in self._heard_dead)

    def is_over(self, node: int, life: int) -> bool:
        """Whether that life, or a later one, is known to be over."""
        return life <= self._buried.get(node, -1)

    def latest(self, node: int) -> int:
        """Return the latest life that a node has begun, or ended."""
        return max(self.life(node), self._buried.get(node, 0))

    # --- who asks to come ---------------------------------------------------------------------

    def is_known(self, node: int, life: int) -> bool:
        """Whether a node has asked in that life, or in a later one, or is in it."""
        asked = self.requests.get(node)
        return life <= (self.lives.get(node, -1) if asked is None else asked.life)

    def enter(self, node: int, request: Request) -> None:
        """Note that a node asks to come, and from where."""
        self.hosts[node], self.requests[node] = request.host, request

    def strike(self, node: int, life: int) -> Request | None:
        """Return the request of a node whose life is over, if it has made one, and forget it."""
        request = self.requests.get(node)
        return self.requests.pop(node) if request is not None and request.life <= life else None

    def admit(self, node: int, epoch: int) -> None:
        """Let the life begin in which a node has asked."""
        self.lives[node], self._since[node] = self.requests.pop(node).life, epoch

    def hear(self, node: int, situation: Situation) -> None:
        """Note what somebody says of itself to a new steward."""
        self.hosts[node] = situation.host
        asked, request = self.requests.get(node), request_in(situation)
        if request is None:
            self.lives[node] = situation.life
        elif asked is None or asked.life <= request.life:
            self.requests[node] = request
