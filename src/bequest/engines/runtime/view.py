"""What there is to see of a run on a cluster while it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.model.outcome import Status


@dataclass(frozen=True, slots=True)
class HostView:
    """One host.

    Attributes:
        pid: its process.
        machine: where it is.
        nodes: the nodes on it, ascending.
        state: ``"there"``, ``"leaving"`` or ``"gone"``.
    """

    pid: int
    machine: str
    nodes: tuple[int, ...]
    state: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth telling, and when: seconds since the run began."""

    time: float
    round: int
    what: str


@dataclass(frozen=True, slots=True)
class View:
    """A run as it is now.

    Attributes:
        version: grows with every view.
        time: seconds since the run began.
        round: the last round of which everything has been measured.
        rounds: how many there are to be.
        epoch: the number of the present epoch; 0 before the first.
        members: the nodes that take part.
        error: the distance of the worst of them to x*, if that is known.
        gradient_norm: |sum grad h|, zero at the limit.
        invariant_gap: |sum z - sum grad h|, zero but for rounding.
        departures: how many have left or were lost.
        notices: the latest things worth telling, the latest last.
        hosts: name -> what is known of it.
        steward: its process; None while there is none.
        term: how many stewards there were before it.
        status: how the run ended; None while it goes on.
        news: what is new since the view that the caller has seen (``engines.news``).
    """

    version: int
    time: float
    round: int
    rounds: int
    epoch: int
    members: tuple[int, ...]
    error: float | None
    gradient_norm: float
    invariant_gap: float
    departures: int
    notices: tuple[Notice, ...]
    hosts: Mapping[str, HostView]
    steward: int | None
    term: int
    status: Status | None
    news: tuple[Mapping[str, Any], ...] = ()
