"""Columns of text: every distinct cell once, and for every row a number that says which it is.

As an array of NumPy every cell would take four bytes per letter of the longest one, and as a list
of Python some sixty: often more than a table's numbers.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from bequest.core.arrays import Indices

    Words = np.ndarray[Any, np.dtype[np.str_]]
    Codes = np.ndarray[Any, np.dtype[np.unsignedinteger[Any]]]
    Mask = np.ndarray[Any, np.dtype[np.bool_]]

# Cells that are taken at a time, fewer than 2^16.
_ROWS = 2**12
# Beyond so many, distinct cells are no longer looked for among those that came before.
_MANY = 2**16


class Ranks(NamedTuple):
    """The distinct cells of a column, sorted, and the place of every row's cell among them.

    The places are the smallest whole numbers that will do.
    """

    values: tuple[Any, ...]
    places: Indices


class Texts:
    """A column of text, which nothing can change; ``numpy.asarray`` writes it out.

    >>> towns = Texts.of(["Rome", "Bonn", "Rome", ""])
    >>> towns, towns[1], (towns == "Rome").tolist(), towns.counts()
    (Texts(4 cells, 3 distinct), 'Bonn', [True, False, True, False], {'Rome': 2, 'Bonn': 1, '': 1})
    """

    __hash__ = None  # type: ignore[assignment]  # compared cell by cell, as arrays are
    ndim = 1

    def __init__(self, words: Words, codes: Codes) -> None:
        """Take distinct cells (one may be there twice), and for every row which it is."""
        self._words, self._codes = words, codes
        for part in (words, codes):
            part.setflags(write=False)

    @classmethod
    def of(cls, cells: Iterable[str]) -> Texts:
        """Return these cells as a column."""
        rest = iter(cells.tolist() if isinstance(cells, np.ndarray) else cells)
        pieces = []
        while some := list(islice(rest, _ROWS)):
            pieces.append(cls.piece(some))
        return cls.together(pieces)

    @classmethod
    def piece(cls, cells: Sequence[str]) -> Texts:
        """Return a few cells as a column."""
        words: dict[str, int] = {}
        codes = [words.setdefault(cell, len(words)) for cell in cells]
        return cls(np.array([*words], dtype=str), np.array(codes, dtype=code_type(len(words))))

    @classmethod
    def together(cls, pieces: list[Texts]) -> Texts:
        """Return columns one below the other."""
        if not pieces:
            return cls(np.empty(0, dtype=str), np.empty(0, dtype=np.uint8))
        known: dict[str, int] = {}
        places: list[Indices] = []
        for piece in pieces:
            if len(known) > _MANY:
                break
            found = [known.setdefault(word, len(known)) for word in piece._words.tolist()]
            places.append(np.array(found, dtype=np.intp))
        if len(places) == len(pieces) and len(known) <= _MANY:
            words = np.array([*known], dtype=str)
        else:  # nearly every cell is another one: side by side they take less than in a mapping
            words = np.concatenate([piece._words for piece in pieces])
            firsts = np.cumsum([0, *(piece._words.size for piece in pieces)])
            places = [
                first + np.arange(p._words.size)
                for first, p in zip(firsts[:-1], pieces, strict=True)
            ]
        codes = np.empty(sum(piece.size for piece in pieces), dtype=code_type(words.size))
        first = 0
        for piece, place in zip(pieces, places, strict=True):
            codes[first : first + piece.size] = place[piece._codes]
            first += piece.size
        return cls(words, codes)

    @classmethod
    def repeated(cls, words: Sequence[str], counts: Sequence[int]) -> Texts:
        """Return each word so many times."""
        return cls(
            np.array(words, dtype=str),
            np.repeat(np.arange(len(words), dtype=code_type(len(words))), counts),
        )

    def __len__(self) -> int:
        """Return how many cells there are."""
        return self.size

    def __iter__(self) -> Iterator[str]:
        """Yield the cells."""
        words = self._words.tolist()
        return (words[code] for code in self._codes.tolist())

    @overload
    def __getitem__(self, rows: int | np.integer[Any]) -> str: ...
    @overload
    def __getitem__(self, rows: slice | np.ndarray[Any, Any]) -> Texts: ...
    def __getitem__(self, rows: Any) -> str | Texts:
        """Return a cell, or the column of some rows."""
        codes = self._codes[rows]
        return Texts(self._words, codes) if np.ndim(codes) else str(self._words[codes])

    def __eq__(self, other: object) -> Any:  # noqa: ANN401 - as of an array
        """Return which cells are equal to a text, or to those of another column."""
        if isinstance(other, str):
            return (self._words == other)[self._codes]
        return np.asarray(self) == np.asarray(other)

    def __ne__(self, other: object) -> Any:  # noqa: ANN401 - as of an array
        """Return which cells are not."""
        return ~(self == other)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:  # noqa: ANN401, FBT001
        """Return the cells as an array of NumPy, each as long as the longest one."""
        return self._words[self._codes].astype(dtype or self.dtype, copy=False)

    def __repr__(self) -> str:
        """Return how many cells there are, and not what is in them."""
        return f"Texts({self.size} cells, {len(self.present())} distinct)"

    @property
    def dtype(self) -> np.dtype[np.str_]:
        """What ``numpy.asarray`` makes of it."""
        return self._words.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """How many cells there are, as of an array."""
        return (self.size,)

    @property
    def size(self) -> int:
        """How many cells there are."""
        return int(self._codes.size)

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return int(self._words.nbytes + self._codes.nbytes)

    def tolist(self) -> list[str]:
        """Return the cells."""
        return list(self)

    def each(self, rule: Callable[[str], bool]) -> Mask:
        """Return the rows whose cells a rule is true of; it is asked once per distinct cell."""
        return np.array([rule(word) for word in self._words.tolist()], dtype=bool)[self._codes]

    def numbers(self, number: Callable[[str], float]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return a number for every row; the rule is asked once per distinct cell that is there."""
        there = self._there()
        words = zip(self._words.tolist(), there.tolist(), strict=True)
        found = np.array([number(word) if is_there else np.nan for word, is_there in words])
        return found[self._codes]

    def counts(self) -> dict[str, int]:
        """Return how often every cell is there, in the order in which they came."""
        found: dict[str, int] = {}
        counts = np.bincount(self._codes, minlength=self._words.size).tolist()
        for word, count in zip(self._words.tolist(), counts, strict=True):
            if count:
                found[word] = found.get(word, 0) + count
        return found

    def present(self) -> list[str]:
        """Return the distinct cells."""
        return [*dict.fromkeys(self._words[self._there()].tolist())]

    def ranks(self) -> Ranks:
        """Return the distinct cells, sorted, and the place of every row's cell among them."""
        values, back = np.unique(self._words[self._there()], return_inverse=True)
        places = np.zeros(self._words.size, dtype=np.intp)
        places[self._there()] = back
        return Ranks(tuple(values.tolist()), places.astype(code_type(values.size))[self._codes])

    def _there(self) -> Mask:
        """Return which of the distinct cells some row has: these may be some rows of many."""
        there = np.zeros(self._words.size, dtype=bool)
        there[self._codes] = True
        return there


def ranks(column: Texts | np.ndarray[Any, Any]) -> Ranks:
    """Return the distinct cells of a column of texts or of numbers, sorted, and every row's."""
    if isinstance(column, Texts):
        return column.ranks()
    values, places = np.unique(column, return_inverse=True)
    return Ranks(tuple(values.tolist()), places.astype(code_type(values.size)))


def code_type(count: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest numbers that tell so many things apart."""
    if count <= 2**8:
        return np.uint8
    return np.uint16 if count <= 2**16 else np.uint32
