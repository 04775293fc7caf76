"""A network that exists in memory only, with every fault that a real one has except corruption.

Messages between living processes arrive, sooner or later, in any order and perhaps twice; what
was under way from or to a process that dies may be lost. All of it follows from one seed.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bequest.errors import InvalidMethod
from bequest.protocol.register import domains_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bequest.protocol.events import Event


class Parcel(NamedTuple):
    """An event under way: when it arrives, where it comes from and where it goes."""

    time: float
    number: int
    sender: int
    receiver: int
    event: Event


@dataclass(frozen=True, slots=True)
class Partition:
    """From ``start`` to ``end`` nothing passes between these hosts (or machines) and the others."""

    start: float
    end: float
    hosts: frozenset[str]

    def holds_up(self, time: float, one: str, other: str) -> bool:
        """Whether a message sent then has to wait for the end."""
        return self.start <= time < self.end and self._has(one) != self._has(other)

    def _has(self, host: str) -> bool:
        return not self.hosts.isdisjoint(domains_of(host))


@dataclass(frozen=True, slots=True)
class Outage:
    """At this time the host (or machine) dies, with every node on it, whatever they are doing."""

    time: float
    host: str


@dataclass(frozen=True, slots=True)
class Weather:
    """What the virtual network does to messages, and what happens to hosts.

    Attributes:
        seed: everything random follows from it.
        delay: how long a message takes, at least and at most; unequal delays reorder messages.
        duplication: the share of messages that arrive twice.
        partitions: when hosts cannot hear each other; what is sent then arrives after.
        outages: hosts that die; of what their nodes had sent, what is under way still arrives.
        patience: how long it takes until a death is noticed.

    Times are those of the virtual network: a message takes as long as ``delay`` says, computing
    takes no time, and without delays no time passes at all.
    """

    seed: int = 0
    delay: tuple[float, float] = (0.0, 0.0)
    duplication: float = 0.0
    partitions: tuple[Partition, ...] = ()
    outages: tuple[Outage, ...] = ()
    patience: float = 0.0

    def __post_init__(self) -> None:
        low, high = self.delay
        if self.outages and not (high > 0 and 0 <= self.patience < float("inf")):
            raise InvalidMethod(
                f"Outages with delay={self.delay} and patience={self.patience}.",
                remedy="Give messages a delay, so that time passes, and patience >= 0.",
            )
        if not (0 <= low <= high < float("inf") and 0 <= self.duplication <= 1):
            raise InvalidMethod(
                f"delay={self.delay}, duplication={self.duplication}.",
                remedy="Use 0 <= least delay <= largest delay, and a share between 0 and 1.",
            )

    @property
    def is_calm(self) -> bool:
        """Whether messages arrive at once and in order."""
        return not (self.delay[1] or self.duplication or self.partitions)


class VirtualNetwork:
    """Parcels under way, in the order in which they arrive."""

    def __init__(self, weather: Weather, host: Callable[[int], str]) -> None:
        self._weather, self._host = weather, host
        self._rng = np.random.default_rng(weather.seed)
        self._numbers = 0
        # In calm weather the order of sending is the order of arrival.
        self._line: deque[Parcel] = deque()
        self._heap: list[Parcel] = []
        self.time = 0.0

    def __len__(self) -> int:
        return len(self._line) + len(self._heap)

    def __iter__(self) -> Iterator[Parcel]:
        yield from self._line
        yield from self._heap

    def send(self, sender: int, receiver: int, event: Event, *, after: float = 0.0) -> None:
        """Put an event on its way."""
        self._numbers += 1
        if self._weather.is_calm and not after:
            self._line.append(Parcel(self.time, self._numbers, sender, receiver, event))
            return
        copies = 2 if self._rng.random() < self._weather.duplication else 1
        for _ in range(copies):
            self._numbers += 1
            time = self.time + after + self._rng.uniform(*self._weather.delay)
            for partition in self._weather.partitions:
                if partition.holds_up(self.time, self._host(sender), self._host(receiver)):
                    time = max(time, partition.end + self._rng.uniform(*self._weather.delay))
            heapq.heappush(self._heap, Parcel(time, self._numbers, sender, receiver, event))

    @property
    def next_time(self) -> float:
        """When the next parcel arrives; now, if none is under way."""
        ahead = [queue[0].time for queue in (self._line, self._heap) if queue]
        return min(ahead, default=self.time)

    def next(self) -> Parcel:
        """Take out what arrives next."""
        if self._line and (not self._heap or self._line[0].time <= self._heap[0].time):
            return self._line.popleft()
        parcel = heapq.heappop(self._heap)
        self.time = max(self.time, parcel.time)
        return parcel

    def lose(self, keep: Callable[[Parcel], bool]) -> list[Parcel]:
        """Take out for good what is not kept; return it."""
        gone = [parcel for parcel in self if not keep(parcel)]
        self._line = deque(parcel for parcel in self._line if keep(parcel))
        self._heap = [parcel for parcel in self._heap if keep(parcel)]
        heapq.heapify(self._heap)
        return gone
