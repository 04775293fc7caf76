"""Who is there: on which host, and in which life; who has ended, and who is lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bequest.protocol.events import Lost

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bequest.engines.ray.reports import Ended


class Roll:
    """Everybody's presence.

    Args:
        where: node -> the name of its host, also of those who are yet to come.
        there: who is there from the start.

    Attributes:
        where: node -> the name of its host, or of the one where it was last.
        verdicts: who is lost, in the order in which that was said.
    """

    def __init__(self, where: Mapping[int, str], there: Iterable[int]) -> None:
        self.where = dict(where)
        self.verdicts: list[Lost] = []
        # node -> in which life it is there
        self._lives: dict[int, int] = dict.fromkeys(there, 0)
        self._latest = dict(self._lives)
        self._over: set[tuple[int, int]] = set()
        # node -> (its life, since when): died as planned, so that others notice
        self._silent: dict[int, tuple[int, float]] = {}
        # whom the present steward has asked where they are, and in which life
        self._inquired: dict[int, int] = {}

    # --- who is there -------------------------------------------------------------------------

    def __contains__(self, node: int) -> bool:
        return node in self._lives

    @property
    def nodes(self) -> list[int]:
        """Who is there, ascending."""
        return sorted(self._lives)

    def on(self, host: str) -> list[int]:
        """Return who is on a host, ascending."""
        return sorted(node for node in self._lives if self.where[node] == host)

    def inquire(self) -> dict[int, int]:
        """Return whom a new steward is to ask, and in which life they are."""
        self._inquired = dict(self._lives)
        return self._inquired

    # --- who comes ----------------------------------------------------------------------------

    def begin_life(self, node: int) -> int:
        """Return the number of the life that a node is to begin."""
        self._latest[node] = self._latest.get(node, -1) + 1
        return self._latest[node]

    def settle(self, node: int, life: int) -> None:
        """Take note that a node has come, unless it is heard to have ended before."""
        if (node, life) not in self._over:
            self._lives[node] = life

    # --- who goes -----------------------------------------------------------------------------

    def end(self, ended: Ended) -> Lost | None:
        """Take note that a node is not there any more; return the verdict if it is lost."""
        node = ended.process
        life = self._inquired.get(node, 0) if ended.life < 0 else ended.life
        self._over.add((node, life))
        if self._lives.get(node) == life:
            del self._lives[node]
        if ended.silent:
            self._silent[node] = life, time.monotonic()
            return None
        return None if ended.why is None else self.lose(node, ended.why, life)

    def end_all(self, host: str, why: str) -> list[Lost]:
        """Take note that a host is gone, and everybody on it; return the verdicts."""
        return [self.lose(node, why, self._lives.pop(node)) for node in self.on(host)]

    def noticed(self, after: float = 0.0) -> list[Lost]:
        """Return the verdicts on those who died in silence at least so many seconds ago."""
        before = time.monotonic() - after
        noticed = {node: life for node, (life, since) in self._silent.items() if since <= before}
        for node in noticed:
            del self._silent[node]
        return [self.lose(node, "its process is gone", noticed[node]) for node in sorted(noticed)]

    def lose(self, node: int, why: str, life: int | None = None) -> Lost:
        """Return the verdict that a node is lost, in its latest life unless another is named."""
        verdict = Lost(node, why, self._latest[node] if life is None else life)
        self.verdicts.append(verdict)
        return verdict

    def gone(self, asked: Mapping[int, int]) -> list[Lost]:
        """Return the verdicts on lives that are over, given who is asked in which life."""
        return [v for v in self.verdicts if v.node not in asked or v.life < asked[v.node]]

    def is_latest(self, verdict: Lost) -> bool:
        """Whether it is about the latest life of its node."""
        return verdict.life == self._latest.get(verdict.node)
