"""The union of the names that silos know, as sums of numbers: no silo lists names to all.

Every silo puts each of its names into three cells of a table of numbers, chosen by the name itself:
a one, a checksum, and the name's bytes, three to a number. Silos add these tables up. A cell that
only one name was put into, by however many silos, holds multiples of that name's numbers, and can
be read; what was read is taken out of its other cells, of which more can be read then, and so on
(an invertible Bloom lookup table). What cannot be read is asked for again, with other cells.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bequest.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from bequest.core.arrays import Indices, Vector
    from bequest.data.tables import Table

    # A question -> the sum of all silos' answers.
    Ask = Callable[["Question"], Vector]
    # Which names a silo knows.
    Names = Callable[[Table], Collection[str]]

_CHOICES, _BYTES = 3, 3
# Of all silos together, counted as often as silos know them; and how long a name may be.
MOST_NAMES, LONGEST = 20_000, 120
_TRIES = 8


class Question(Protocol):
    """What a silo is asked: a vector that it computes from its own table."""

    @property
    def size(self) -> int:
        """How many entries the answer has."""

    def __call__(self, table: Table) -> Vector:
        """Return the answer."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """How many names a silo knows, by their lengths."""

    names: Names

    @property
    def size(self) -> int:
        """An entry per length, three bytes to a step."""
        return LONGEST // _BYTES

    def __call__(self, table: Table) -> Vector:
        """Return the counts."""
        counts = np.zeros(self.size)
        for name in self.names(table):
            size = len(name.encode())
            if size > LONGEST:
                raise InvalidData(
                    f'{table.source}: "{name[:40]}..." is {size} bytes long, too long for a name.',
                    remedy=f"Names of categories, labels and columns have at most {LONGEST} bytes. "
                    "Leave a column of free text out.",
                )
            counts[max(size - 1, 0) // _BYTES] += 1
        return counts


@dataclass(frozen=True, slots=True)
class Cells:
    """The names that a silo knows, in cells.

    Attributes:
        names: which names these are.
        rows: how many cells each of a name's three choices is among.
        width: how many numbers the longest name takes.
        salt: another one chooses other cells.
        known: names that need not be told again.
    """

    names: Names
    rows: int
    width: int
    salt: int = 0
    known: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """Count, checksum and bytes per cell."""
        return _CHOICES * self.rows * (2 + self.width)

    def __call__(self, table: Table) -> Vector:
        """Return the cells, one after the other."""
        cells = np.zeros((_CHOICES * self.rows, 2 + self.width))
        for name in self.names(table):
            if name not in self.known:
                cells[self._places(name)] += self._numbers(name)
        return cells.ravel()

    def read(self, total: Vector) -> tuple[set[str], bool]:
        """Return the names in a sum of such cells, and whether these are all."""
        cells = np.rint(total).astype(np.int64).reshape(-1, 2 + self.width)
        found: set[str] = set()
        full = {*np.flatnonzero(cells[:, 0] > 0).tolist()}
        while full:
            place = full.pop()
            count = cells[place, 0]
            if count <= 0 or (cells[place] % count).any():
                continue
            name = self._name(cells[place] // count, place)
            if name is not None:
                found.add(name)
                places = self._places(name)
                cells[places] -= count * self._numbers(name)
                full.update(places.tolist())
        return found, not cells.any()

    def _places(self, name: str) -> Indices:
        digest = hashlib.blake2b(f"{self.salt} {name}".encode(), digest_size=8 * _CHOICES).digest()
        chosen = np.frombuffer(digest, dtype="<u8") % self.rows
        return chosen.astype(int) + self.rows * np.arange(_CHOICES)

    def _numbers(self, name: str) -> Indices:
        raw = name.encode()
        numbers = [1, int.from_bytes(hashlib.blake2b(raw, digest_size=_BYTES).digest())]
        padded = raw.ljust(_BYTES * self.width, b"\0")
        pieces = (padded[first : first + _BYTES] for first in range(0, len(padded), _BYTES))
        return np.array([*numbers, *map(int.from_bytes, pieces)])

    def _name(self, numbers: Indices, place: int) -> str | None:
        """Return the name that a cell holds, if it holds a single one."""
        if (numbers < 0).any() or (numbers >= 256**_BYTES).any():
            return None
        raw = b"".join(int(number).to_bytes(_BYTES) for number in numbers[2:]).rstrip(b"\0")
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            return None
        same = np.array_equal(self._numbers(name), numbers)
        return name if same and place in self._places(name) else None


def union(names: Names, ask: Ask, *, source: str) -> set[str]:
    """Return the names that some silo knows.

    Args:
        names: a silo's table -> the names that it knows.
        ask: a question -> the sum of all silos' answers.
        source: what is asked, for messages.

    Raises:
        InvalidData: there are too many names, or they are too long.
    """
    lengths = np.rint(ask(Lengths(names)))
    count = int(lengths.sum())
    if count > MOST_NAMES:
        raise InvalidData(
            f"{source}: the silos know {count} names, counted in each.",
            remedy=f"At most {MOST_NAMES} can be agreed on. A column in which nearly every row has "
            "its own is a name or a number: leave it out.",
        )
    if not count:
        return set()
    width = int(np.flatnonzero(lengths)[-1]) + 1
    cells = Cells(names, rows=count // 2 + 8, width=width)
    for salt in range(_TRIES):
        cells = replace(cells, salt=salt)
        found, is_all = cells.read(ask(cells))
        cells = replace(cells, known=cells.known | found)
        if is_all:
            return set(cells.known)
    raise InvalidData(
        f"{source}: the names of the silos could not be told apart.",
        remedy="Declare the categories, classes and features instead of having them agreed on.",
    )
