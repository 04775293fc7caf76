"""A network that exists in memory only, with every fault that a real one has except corruption.

Messages between living processes arrive, sooner or later, in any order and perhaps twice; what
was under way from or to a process that dies may be lost. All of it follows from one seed.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bequest.core.arrays import hold_as_floats, is_whole
from bequest.errors import InvalidMethod, InvalidPlacement
from bequest.protocol.membership_register import domains_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bequest.protocol.events import Input

_new = tuple.__new__

# An error names so many hosts at most.
_LISTED = 20


class Delivery(NamedTuple):
    """An event under way: when it arrives, where it comes from and where it goes."""

    time: float
    number: int
    sender: int
    receiver: int
    event: Input


@dataclass(frozen=True, slots=True)
class Partition:
    """From ``start`` to ``end`` nothing passes between these hosts (or machines) and the others."""

    start: float
    end: float
    hosts: frozenset[str]

    def __post_init__(self) -> None:
        if not isinstance(self.hosts, frozenset | set) or not self.hosts:
            raise InvalidMethod(
                f"{self} has hosts that are not a set of names.",
                remedy='Use frozenset(["host 1"]), with at least one name.',
            )
        if not 0 <= self.start < self.end < math.inf:
            raise InvalidMethod(f"{self} never begins or ends.", remedy="Use 0 <= start < end.")
        hold_as_floats(self, "start", "end")

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

    def __post_init__(self) -> None:
        if not 0 <= self.time < math.inf:
            raise InvalidMethod(f"{self} never happens.", remedy="Use a time >= 0.")
        hold_as_floats(self, "time")


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
        if not is_whole(self.seed, least=0):
            raise InvalidMethod(f"seed is {self.seed!r}.", remedy="Use a whole number >= 0.")
        pair = isinstance(self.delay, tuple | list) and len(self.delay) == 2
        low, high = self.delay if pair else (math.nan, math.nan)
        numbers = (low, high, self.duplication, self.patience)
        if not all(map(_is_length, numbers)) or low > high or self.duplication > 1:
            raise InvalidMethod(
                f"delay={self.delay}, duplication={self.duplication}, patience={self.patience}.",
                remedy="Use 0 <= least delay <= largest delay, a share between 0 and 1, and "
                "patience >= 0.",
            )
        if self.outages and high == 0:
            raise InvalidMethod(
                f"Outages with delay={self.delay}.",
                remedy="Give messages a delay, so that time passes.",
            )
        hold_as_floats(self, "duplication", "patience")
        object.__setattr__(self, "delay", (float(low) + 0.0, float(high) + 0.0))

    def check_hosts(self, hosts: Iterable[str]) -> None:
        """Refuse what is about a host, or a machine, that is not among these.

        Raises:
            InvalidPlacement: something is.
        """
        there = list(dict.fromkeys(domain for host in hosts for domain in domains_of(host)))
        events: list[Outage | Partition] = [*self.outages, *self.partitions]
        for event in events:
            names = frozenset([event.host]) if isinstance(event, Outage) else event.hosts
            unknown = sorted(str(name) for name in names.difference(there))
            if unknown:
                more = f", and {len(there) - _LISTED} more" if len(there) > _LISTED else ""
                raise InvalidPlacement(
                    f'{event} is about "{unknown[0]}", and no node is on such a host.',
                    remedy=f"Name one of these: {', '.join(there[:_LISTED])}{more}.",
                )

    @property
    def is_calm(self) -> bool:
        """Whether messages arrive at once and in order."""
        return not (self.delay[1] or self.duplication or self.partitions)


class VirtualNetwork:
    """Deliveries under way, in the order in which they arrive."""

    def __init__(self, weather: Weather, host: Callable[[int], str]) -> None:
        self._weather, self._host = weather, host
        self._is_calm = weather.is_calm
        self._rng = np.random.default_rng(weather.seed)
        self._numbers = 0
        # In calm weather the order of sending is the order of arrival.
        self._line: deque[Delivery] = deque()
        self._heap: list[Delivery] = []
        self.time = 0.0

    def __len__(self) -> int:
        return len(self._line) + len(self._heap)

    def __bool__(self) -> bool:
        return bool(self._line or self._heap)

    def __iter__(self) -> Iterator[Delivery]:
        yield from self._line
        yield from self._heap

    def send(self, sender: int, receiver: int, event: Input, *, after: float = 0.0) -> None:
        """Put an event on its way."""
        self._numbers = number = self._numbers + 1
        if self._is_calm and not after:
            # Delivery(...) comes to this, and takes twice as long.
            self._line.append(_new(Delivery, (self.time, number, sender, receiver, event)))
            return
        copies = 2 if self._rng.random() < self._weather.duplication else 1
        for _ in range(copies):
            self._numbers += 1
            time = self.time + after + self._rng.uniform(*self._weather.delay)
            for partition in self._weather.partitions:
                if partition.holds_up(self.time, self._host(sender), self._host(receiver)):
                    time = max(time, partition.end + self._rng.uniform(*self._weather.delay))
            heapq.heappush(self._heap, Delivery(time, self._numbers, sender, receiver, event))

    @property
    def next_time(self) -> float:
        """When the next delivery arrives; now, if none is under way."""
        ahead = [queue[0].time for queue in (self._line, self._heap) if queue]
        return min(ahead, default=self.time)

    def next(self) -> Delivery | None:
        """Take out what arrives next, if anything is under way."""
        line, heap = self._line, self._heap
        if line and (not heap or line[0].time <= heap[0].time):
            return line.popleft()
        if not heap:
            return None
        delivery = heapq.heappop(heap)
        self.time = max(self.time, delivery.time)
        return delivery

    def lose(self, keep: Callable[[Delivery], bool]) -> list[Delivery]:
        """Take out for good what is not kept; return it."""
        gone = [delivery for delivery in self if not keep(delivery)]
        self._line = deque(delivery for delivery in self._line if keep(delivery))
        self._heap = [delivery for delivery in self._heap if keep(delivery)]
        heapq.heapify(self._heap)
        return gone


def _is_length(given: object) -> bool:
    """Whether it is a number that a time or a share can be."""
    return isinstance(given, int | float | np.integer | np.floating) and bool(0 <= given < math.inf)
