"""When a silent host is asked whether it is there, and when it is given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

# A host is asked after this part of the patience, and again at every look from then on.
_ASKED = 0.25


class Looked(NamedTuple):
    """What a look at the hosts says.

    Attributes:
        ask: the hosts that have to show that they are there.
        give_up: (host, the seconds of its silence), for hosts that have not answered in time.
    """

    ask: list[str]
    give_up: list[tuple[str, float]]


class Patience:
    """How long the hosts of a run have been silent. All times are the carrier's.

    Args:
        seconds: of silence after which a host counts as lost: it may be frozen.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._heard: dict[str, float] = {}

    def heard(self, host: str, now: float) -> None:
        """Hear that a host has begun, has reported or has answered."""
        self._heard[host] = now

    def look(self, hosts: Iterable[str], *, before: float, now: float) -> Looked:
        """Return which hosts to ask, and which ones to give up.

        Args:
            hosts: those that are not known to be gone.
            before: when the carrier looked last.
            now: the time. If it is much later, the carrier was away, not the hosts: all of them
                are heard anew.
        """
        if now - before > self._seconds * _ASKED:
            self._heard = dict.fromkeys(self._heard, now)
        ask: list[str] = []
        give_up: list[tuple[str, float]] = []
        for host in hosts:
            silence = now - self._heard[host]
            if silence > self._seconds:
                give_up.append((host, silence))
                self._heard[host] = now
            elif silence >= self._seconds * _ASKED:
                ask.append(host)
        return Looked(ask, give_up)
