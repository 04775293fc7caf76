"""A table of data: columns by name, and what is wrong with them."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from bequest import memory
from bequest.core.arrays import first_masked, frozen, is_fixed
from bequest.data.choosing import declaring
from bequest.data.texts import Texts, code_type
from bequest.data.written import are_beyond, first_beyond, label_of, looks_like_a_number, number_in
from bequest.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Indices, Matrix

    Column: TypeAlias = np.ndarray[Any, Any] | Texts


# What to do about a number that is missing.
_FILL_IN = 'Remove the row, or fill in the missing value; impute = "mean" does so in features.'
_CORRECT = "Correct the cell, or remove the row: no model can learn from an infinite number."
# Maximum number of column names that are shown.
_SHOWN = 12


class Stretch(NamedTuple):
    """Where rows come from, and nothing of what is in them."""

    source: str
    rows: int
    lines: Sequence[int] | None

    def place(self, row: int) -> str:
        """Return the place of a row in words."""
        where = f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"
        return f"{self.source}, {where}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table:
    """Columns of equal length by name: numbers (float64) or text (``Texts``).

    A column may also be a block of several columns of numbers, an array with two dimensions. Whole
    numbers that float64 does not tell apart, from 2^53 on, are kept as text, and count as numbers.

    Attributes:
        columns: the columns.
        source: where they come from, for messages.
        lines: the line of the file that each row begins at, if there is one.

    >>> Table({"age": [41, 52], "town": ["Rome", "Bonn"]}).rows
    2
    """

    columns: Mapping[str, Column]
    source: str = "the table"
    lines: Sequence[int] | None = None

    def __post_init__(self) -> None:
        given: object = self.columns
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise InvalidData(
                f"{self.source}: a {type(given).__name__} is no mapping from names to columns.",
                remedy='Pass {"age": [41, 52], ...}; as_table takes DataFrames and Arrow tables.',
            )
        columns = {name: self._clean(name, values) for name, values in self.columns.items()}
        object.__setattr__(self, "columns", columns)
        lengths = {name: values.shape[0] for name, values in columns.items()}
        if not any(lengths.values()):
            raise InvalidData(f"{self.source} holds no rows.", remedy="Name a table with data.")
        usual = Counter(lengths.values()).most_common(1)[0][0]
        odd = next((name for name, length in lengths.items() if length != usual), None)
        if odd is not None:
            raise InvalidData(
                f'{self.source}, column "{odd}": has {lengths[odd]} rows, others have {usual}.',
                remedy="Give every column one entry per sample.",
            )

    def _clean(self, name: str, values: ArrayLike) -> Column:
        masked = first_masked(values)
        if masked:
            raise InvalidData(
                f"{self.where(masked[0], name)}: is masked, that is, missing.",
                remedy="Remove the row, or fill in the missing value first.",
            )
        if isinstance(values, Texts):
            return values
        try:
            column = np.asarray(values)
        except ValueError as error:
            raise InvalidData(
                f'{self.source}, column "{name}": its rows are of different lengths.',
                remedy="Store it as an array of numbers, with one or two dimensions, or of text.",
            ) from error
        if column.dtype.kind in "biuf" and column.ndim in (1, 2) and 0 not in column.shape[1:]:
            # what can never change need not be copied: a table may be most of what the memory holds
            if column.dtype.kind in "iu" and column.ndim == 1 and _reaches_beyond(column):
                return _coded(column, str)
            fixed = column is values and column.base is None and is_fixed(column)
            return column if fixed and column.dtype == np.float64 else frozen(column)
        if column.dtype.kind in "US" and column.ndim == 1:
            return Texts.of(column.astype(str, copy=False))
        raise InvalidData(
            f'{self.source}, column "{name}": holds neither numbers nor text '
            f"(type {column.dtype}, shape {column.shape}).",
            remedy="Store it as an array of numbers, with one or two dimensions, or of text.",
        )

    def __repr__(self) -> str:
        """Return the shapes of its columns, and not what is in them."""
        shapes = [f'"{name}" {_shape(values)}' for name, values in self.columns.items()]
        return f"Table({self.source}: {', '.join(shapes[:_SHOWN])}{_more(shapes)})"

    @property
    def rows(self) -> int:
        """How many samples it holds."""
        return int(next(iter(self.columns.values())).shape[0])

    def matrix(self, names: Sequence[str]) -> Matrix:
        """Return these columns of finite numbers side by side, a row per row."""
        if isinstance(names, str) or not len(names):
            raise InvalidData(
                f"{names!r} is no list of columns.", remedy=f'Pass ["{names or "age"}"].'
            )
        return np.concatenate([self.numbers(name) for name in names], axis=1)

    def take(self, rows: Indices) -> TableRows:
        """Return the table of these rows; messages go on naming where they come from."""
        return TableRows(Taken(self.columns, rows), self.source, whole=self, rows_of_whole=rows)

    def where(self, row: int, column: str) -> str:
        """Return the place of a cell in words."""
        return f'{self.place(row)}, column "{column}"'

    def place(self, row: int) -> str:
        """Return the place of a row in words."""
        return Stretch(self.source, 0, self.lines).place(row)

    def column(self, name: str) -> Column:
        """Return a column, or say which one may have been meant."""
        if name in self.columns:
            return self.columns[name]
        near = difflib.get_close_matches(name, self.columns, n=1)
        raise InvalidData(
            f'{self.source} has no column "{name}".',
            remedy=f'Did you mean "{near[0]}"?' if near else f"It has {_quoted(self.columns)}.",
        )

    def is_numeric(self, name: str) -> bool:
        """Whether a column holds numbers, or is meant to: some of its cells are."""
        column = self.column(name)
        return not isinstance(column, Texts) or any(map(looks_like_a_number, column.present()))

    def numbers(self, name: str, *, missing: bool = False) -> Matrix:
        """Return a column as finite numbers, rows by 1 (or by the width of the block).

        Where cells may be missing, those that are empty or NaN are NaN.
        """
        column = self.column(name)
        if isinstance(column, Texts):
            none = column.each(lambda cell: number_in(cell) is None and bool(cell or not missing))
            if none.any():
                row = int(np.argmax(none))
                cell = column[row]
                is_what = f'is "{cell}", which is not a number' if cell else "is empty"
                raise InvalidData(
                    f"{self.where(row, name)}: {is_what}.",
                    remedy="Correct the cell; if the column is a feature, leave it out, or "
                    f"declare its categories: {declaring(name)}."
                    if cell
                    else _FILL_IN,
                )
            block = column.numbers(lambda cell: float(cell or "nan"))[:, None]
        else:
            block = column.reshape(self.rows, -1)
        wrong = np.argwhere(np.isinf(block) if missing else ~np.isfinite(block))
        if wrong.size:
            row, part = (int(index) for index in wrong[0])
            full_name = name if column.ndim == 1 else f"{name}[{part}]"
            raise InvalidData(
                f"{self.where(row, full_name)}: is {_odd(block[row, part])}.",
                remedy=_FILL_IN if np.isnan(block[row, part]) else _CORRECT,
            )
        return block

    def cells(self, name: str, *, missing: bool = False) -> Texts:
        """Return a column as text, 7 and not 7.0; empty where a cell is missing and may be."""
        column = self.column(name) if missing else self.named(name)
        if isinstance(column, Texts):
            return column
        self._refuse_merged(name, column)
        return cells_of(column)

    def names(self, name: str) -> np.ndarray[Any, Any]:
        """Return a column whose cells name something (a class, a silo): none may be missing."""
        column = self.named(name)
        memory.check(
            float(column.dtype.itemsize) * column.size,
            f'{self.source}, column "{name}", in which cells get as much room as the longest,',
            remedy="Shorten its longest cells.",
            error=InvalidData,
        )
        return np.asarray(column)

    def named(self, name: str) -> Column:
        """Return the same as it is kept, texts each once."""
        column = self.column(name)
        if not isinstance(column, Texts) and column.ndim != 1:
            raise InvalidData(
                f'{self.source}, column "{name}": is a block of {column.shape[1]} columns.',
                remedy="Name a single column.",
            )
        missing = column == "" if isinstance(column, Texts) else ~np.isfinite(column)
        if missing.any():
            row = int(np.argmax(missing))
            raise InvalidData(
                f"{self.where(row, name)}: is {_odd(column[row])}.",
                remedy="Remove the row, or fill in the missing value first.",
            )
        self._refuse_merged(name, column)
        return column

    def keys(self, name: str) -> np.ndarray[Any, Any]:
        """Return a column to sort by: as numbers, where all cells are."""
        column = self.column(name)
        texts = column.present() if isinstance(column, Texts) else []
        counted = column.ndim == 1 and all(number_in(cell) is not None for cell in texts)
        return self.numbers(name)[:, 0] if counted else self.names(name)

    def _refuse_merged(self, name: str, column: Column) -> None:
        """Refuse numbers as names if two of them may have become one."""
        row = None if isinstance(column, Texts) else first_beyond(column)
        if row is not None:
            raise InvalidData(
                f"{self.where(row, name)}: is {label_of(float(column[row]))}, and float64 does not "
                "tell whole numbers of that size apart.",
                remedy="Store the column as whole numbers or as text, in full.",
            )


@dataclass(frozen=True, slots=True, eq=False)
class Taken(Mapping[str, "Column"]):
    """Some rows of columns, taken when a column is asked for: most questions are about a few."""

    columns: Mapping[str, Column]
    rows: Indices

    def __getitem__(self, name: str) -> Column:
        """Return these rows of one column."""
        return self.columns[name][self.rows]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the columns."""
        return iter(self.columns)

    def __len__(self) -> int:
        """Return how many columns there are."""
        return len(self.columns)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TableRows(Table):
    """Some rows of a table."""

    whole: Table | None = None
    rows_of_whole: Indices | None = None

    def __post_init__(self) -> None:
        """Have nothing checked: the columns come from a table."""

    @property
    def rows(self) -> int:
        """How many samples it holds."""
        assert self.rows_of_whole is not None  # noqa: S101
        return int(self.rows_of_whole.size)

    def place(self, row: int) -> str:
        """Return the place of a row in words."""
        assert self.whole is not None and self.rows_of_whole is not None  # noqa: S101, PT018
        return self.whole.place(int(self.rows_of_whole[row]))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Joined(Table):
    """The tables of several silos as one, with a column that names the silo of every row."""

    parts: tuple[Stretch, ...] = ()

    def __post_init__(self) -> None:
        """Have nothing checked: the columns come from tables."""

    def place(self, row: int) -> str:
        """Return the place of a row in words: the file, and where it stands there."""
        for part in self.parts:
            if row < part.rows:
                return part.place(row)
            row -= part.rows
        raise IndexError(row)


def joined(tables: Mapping[str, Table], *, silo: str, names: Iterable[str] | None = None) -> Joined:
    """Return the tables of silos as one.

    Args:
        tables: the name of every silo -> its table.
        silo: what to call the column with these names.
        names: which columns to take; by default all, which must then be in every table.

    Raises:
        InvalidData: a table lacks a column that another one has, or they are of different widths.
    """
    parts = tuple(tables.values())
    first = parts[0]
    wanted = dict.fromkeys(
        name for part in parts for name in (part.columns if names is None else names)
    )
    columns: dict[str, Column] = {}
    for name in wanted:
        having = next((part for part in parts if name in part.columns), None)
        for part in parts:
            if name not in part.columns and having is not None:
                near = difflib.get_close_matches(name, part.columns, n=1)
                instead = f' Is it "{near[0]}" there?' if near else ""
                raise InvalidData(
                    f'{part.source} has no column "{name}", which {having.source} has.',
                    remedy=f"Give every silo's file the same columns.{instead}",
                )
        cells = [part.column(name) for part in parts]
        widths = [column.shape[1:] for column in cells]
        odd = next((k for k, width in enumerate(widths) if width != widths[0]), None)
        if odd is not None:
            raise InvalidData(
                f'{parts[odd].source}, column "{name}": is {_wide(widths[odd])}, and '
                f"{_wide(widths[0])} in {first.source}.",
                remedy="Give every silo's file the same columns.",
            )
        columns[name] = _together(cells)
    if silo in columns:
        raise InvalidData(
            f'{first.source} has a column "{silo}", which is what the names of the files make up.',
            remedy="Rename it, or leave it out of the features.",
        )
    columns[silo] = Texts.repeated([*tables], [part.rows for part in parts])
    source = ", ".join(part.source for part in parts)
    return Joined(
        columns, source, parts=tuple(Stretch(part.source, part.rows, part.lines) for part in parts)
    )


def _together(cells: Sequence[Column]) -> Column:
    """Return columns of several tables as one: of text, if one of them is."""
    numbers = [column for column in cells if not isinstance(column, Texts)]
    if len(numbers) == len(cells):
        whole = np.concatenate(numbers)
        whole.setflags(write=False)
        return whole
    return Texts.together([c if isinstance(c, Texts) else cells_of(c) for c in cells])


def _reaches_beyond(column: np.ndarray[Any, Any]) -> bool:
    return column.size > 0 and are_beyond([int(column.min()), int(column.max())])


def _coded(column: np.ndarray[Any, Any], shown: Callable[[Any], str]) -> Texts:
    """Return a column of numbers as text; the rule is asked once per distinct one."""
    values, places = np.unique(column, return_inverse=True)
    words = np.array([shown(value) for value in values.tolist()], dtype=str)
    return Texts(words, places.reshape(-1).astype(code_type(words.size)))


def cells_of(column: np.ndarray[Any, Any]) -> Texts:
    """Return a column of numbers as text, 7 and not 7.0; what is missing is empty."""
    return _coded(column, lambda value: "" if value != value else label_of(value))


def _wide(shape: tuple[int, ...]) -> str:
    return f"a block of {shape[0]} columns" if shape else "a single column"


def _odd(cell: float | str) -> str:
    """Return what a cell is that should be a finite number, or a name."""
    if isinstance(cell, str):
        return "empty"
    return "missing (empty, or NaN)" if np.isnan(cell) else str(cell)


def _quoted(names: Iterable[str]) -> str:
    shown = [f'"{name}"' for name in names]
    return ", ".join(shown[:_SHOWN]) + _more(shown)


def _more(things: Sequence[str]) -> str:
    return ", ..." if len(things) > _SHOWN else ""


def _shape(column: Column) -> str:
    return f"{column.shape}{' text' if isinstance(column, Texts) else ''}"
