"""A table of data, read from a file.

The only place that knows pyarrow, and only while it reads a Parquet file.
"""

from __future__ import annotations

import csv
import difflib
import re
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bequest import extras
from bequest.core.arrays import first_masked, frozen
from bequest.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Matrix

    Column: TypeAlias = np.ndarray[Any, Any]


# So many names of columns are shown where there are more.
_SHOWN = 12
# What a number looks like in a table. Python reads more than that as one: 1_0, and the digits of
# every script; where such a cell was meant as a number, it had better be said.
_NUMBER = re.compile(
    r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)", re.ASCII | re.IGNORECASE
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Table:
    """Columns of equal length by name: numbers (float64) or text.

    A column may also be a block of several columns of numbers, an array with two dimensions.

    Attributes:
        columns: the columns.
        source: where they come from, for messages.
        lines: the line of the file that each row begins at, if there is one.

    >>> Table({"age": [41, 52], "town": ["Rome", "Bonn"]}).rows
    2
    """

    columns: Mapping[str, Column]
    source: str = "the table"
    lines: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
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
        column = np.array(values)
        if column.dtype.kind in "biuf" and column.ndim in (1, 2) and 0 not in column.shape[1:]:
            return frozen(column)
        if column.dtype.kind in "US" and column.ndim == 1:
            column = column.astype(str)
            column.setflags(write=False)
            return column
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

    def where(self, row: int, column: str) -> str:
        """Return the place of a cell in words."""
        place = f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"
        return f'{self.source}, {place}, column "{column}"'

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
        return column.dtype.kind == "f" or any(_looks_like_a_number(cell) for cell in column)

    def numbers(self, name: str) -> Matrix:
        """Return a column as finite numbers, rows by 1 (or by the width of the block)."""
        column = self.column(name)
        if column.dtype.kind == "f":
            block = column.reshape(self.rows, -1)
        else:
            for row, cell in enumerate(column):
                if _number(cell) is None:
                    is_what = f'is "{cell}", which is not a number' if cell else "is empty"
                    raise InvalidData(
                        f"{self.where(row, name)}: {is_what}.",
                        remedy="Correct the cell, or choose features without this column.",
                    )
            block = np.array([[float(cell)] for cell in column])
        wrong = np.argwhere(~np.isfinite(block))
        if wrong.size:
            row, part = (int(index) for index in wrong[0])
            full_name = name if column.ndim == 1 else f"{name}[{part}]"
            raise InvalidData(
                f"{self.where(row, full_name)}: is {block[row, part]}.",
                remedy="Remove the row, or fill in the missing value first.",
            )
        return block

    def names(self, name: str) -> Column:
        """Return a column whose cells name something (a class, a silo): none may be missing."""
        column = self.column(name)
        if column.ndim != 1:
            raise InvalidData(
                f'{self.source}, column "{name}": is a block of {column.shape[1]} columns.',
                remedy="Name a single column.",
            )
        missing = ~np.isfinite(column) if column.dtype.kind == "f" else column == ""
        if missing.any():
            row = int(np.argmax(missing))
            raise InvalidData(
                f"{self.where(row, name)}: is {column[row] or 'empty'}.",
                remedy="Remove the row, or fill in the missing value first.",
            )
        return column


def read_table(path: str | Path) -> Table:
    """Read a table: ``.csv`` with a header row, ``.npz`` with arrays by name, or ``.parquet``.

    Raises:
        InvalidData: it cannot be read or understood.
        NotInstalled: a Parquet file without pyarrow.
    """
    path = Path(path)
    readers = {".csv": _read_csv, ".npz": _read_npz, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidData(
            f"{path} is not of a known kind.", remedy=f"Use one of {', '.join(readers)}."
        )
    try:
        if path.stat().st_size == 0:
            raise InvalidData(f"{path} is empty.", remedy="Name a table with data.")
        return reader(path)
    except FileNotFoundError as error:
        raise InvalidData(
            f"{path} does not exist.", remedy="Check the name, and the folder it is in."
        ) from error
    except OSError as error:
        raise InvalidData(
            f"{path} cannot be read: {(error.strerror or str(error)).lower()}.",
            remedy="Check that it is a whole file, and its permissions.",
        ) from error


def _read_csv(path: Path) -> Table:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _parse_csv(str(path), csv.reader(file, strict=True))
    except UnicodeDecodeError as error:
        raise InvalidData(
            f"{path} is not text: byte {error.start} is not UTF-8.", remedy="Save it as UTF-8."
        ) from error
    except csv.Error as error:
        raise InvalidData(f"{path} is not CSV: {error}.", remedy="Check its quotes.") from error


def _parse_csv(source: str, reader: Any) -> Table:  # noqa: ANN401 - csv's type has no public name
    rows = _with_lines(reader)
    _, header = next(rows, (0, []))
    names = [name.strip() for name in header]
    _check_header(source, names)
    lines, cells = [], []
    for line, row in rows:
        if len(row) != len(names):
            raise InvalidData(
                f"{source}, line {line}: has {len(row)} cells, but the header has {len(names)}.",
                remedy="Give every row one cell per column; put text with commas in quotes.",
            )
        lines.append(line)
        cells.append([cell.strip() for cell in row])
    if not cells:
        raise InvalidData(f"{source} has a header, but no rows.", remedy="Name a table with data.")
    columns = {name: _as_column(list(values)) for name, *values in zip(names, *cells, strict=True)}
    return Table(columns, source, tuple(lines))


def _with_lines(reader: Any) -> Iterator[tuple[int, list[str]]]:  # noqa: ANN401
    """Yield the rows that are not blank, each with the line that it begins at."""
    line = 1
    for row in reader:
        if any(cell.strip() for cell in row) or len(row) > 1:
            yield line, row
        line = reader.line_num + 1


def _check_header(source: str, names: Sequence[str]) -> None:
    if not names:
        raise InvalidData(f"{source} is empty.", remedy="Name a table with data.")
    for number, name in enumerate(names, start=1):
        if not name:
            raise InvalidData(
                f"{source}, line 1: column {number} has no name.", remedy="Name every column."
            )
        if names.index(name) < number - 1:
            raise InvalidData(
                f'{source}, line 1: two columns are called "{name}".',
                remedy="Give every column a name of its own.",
            )
    if all(_looks_like_a_number(name) for name in names):
        raise InvalidData(
            f"{source}, line 1: holds numbers, not the names of columns.",
            remedy="Add a first line with one name per column.",
        )
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise InvalidData(
            f"{source}, line 1: is a single column.", remedy="Separate the columns by commas."
        )


def _as_column(cells: Sequence[str]) -> Column:
    numbers = [_number(cell) for cell in cells]
    if any(number is None for number in numbers):
        return np.array(cells, dtype=str)
    return np.array(numbers, dtype=float)


def _read_npz(path: Path) -> Table:
    try:
        with path.open("rb") as stream:
            if not zipfile.is_zipfile(stream):
                raise ValueError("it is no archive of arrays with names")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                columns = {name: file[name] for name in file.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidData(
            f"{path} cannot be read as NPZ: {str(error).rstrip('.')}.",
            remedy="Write it with numpy.savez, from arrays of numbers or text.",
        ) from error
    return Table(columns, str(path))


def _read_parquet(path: Path) -> Table:
    extras.need("parquet", what=f"Reading {path}")
    import pyarrow as pa
    import pyarrow.parquet as pq
    import pyarrow.types as pat

    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InvalidData(
            f"{path} cannot be read as Parquet: {reason}.", remedy="Check that it is a whole file."
        ) from error
    columns = {}
    for name, values in zip(table.column_names, table.columns, strict=True):
        if pat.is_nested(values.type):
            raise InvalidData(
                f'{path}, column "{name}": holds {values.type}, not numbers or text.',
                remedy="Spread it over columns of its own, or remove it.",
            )
        if pat.is_boolean(values.type):
            values = values.cast(pa.int8())
        if any(kind(values.type) for kind in (pat.is_integer, pat.is_floating, pat.is_decimal)):
            columns[name] = values.cast(pa.float64(), safe=False).to_numpy()
        else:
            columns[name] = np.array(["" if v is None else str(v) for v in values.to_pylist()])
    return Table(columns, str(path))


def _number(cell: str) -> float | None:
    return float(cell) if _NUMBER.fullmatch(cell) else None


def _looks_like_a_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _quoted(names: Iterable[str]) -> str:
    shown = [f'"{name}"' for name in names]
    return ", ".join(shown[:_SHOWN]) + _more(shown)


def _more(things: Sequence[str]) -> str:
    return ", ..." if len(things) > _SHOWN else ""


def _shape(column: Column) -> str:
    return f"{column.shape}{'' if column.dtype.kind == 'f' else ' text'}"
