"""Tables, read from files.

The only place that knows pyarrow, and only while it reads a Parquet file. Files come from
elsewhere: how much one unpacks to is looked up before it is unpacked.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Mapping
from itertools import islice
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bequest import archives, extras, memory
from bequest.data.tables import Table, joined
from bequest.data.texts import Texts, code_type
from bequest.data.written import (
    BEYOND,
    are_beyond,
    exact_in,
    is_whole_number,
    looks_like_a_number,
    number_in,
)
from bequest.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bequest.data.tables import Column

# Copies of a table until there is a problem to solve; measured.
_COPIES = 6
# Memory that a CSV file takes until there is a model, in its lengths (benchmarks/run_memory.py).
_CSV_COPIES = 4
# Rows of text that are taken at a time, fewer than 2^16.
_ROWS = 2**12


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
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise OSError(None, "it is not an ordinary file")
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


def read_silos(files: Mapping[str, str | Path], *, silo: str = "silo") -> Table:
    """Read a table per silo into one, with a column that names the silo of every row.

    Args:
        files: the name of every silo -> its file; all have the same columns.
        silo: what to call that column.

    Raises:
        InvalidData: a file cannot be read or understood, or lacks a column.
    """
    given: object = files
    if not isinstance(given, Mapping) or not given:
        raise InvalidData(
            f"{files!r} names no files of silos.", remedy='Pass {"bonn": "bonn.csv", ...}.'
        )
    return joined({str(name): read_table(path) for name, path in files.items()}, silo=silo)


def _read_csv(path: Path) -> Table:
    memory.check(
        _CSV_COPIES * path.stat().st_size,
        f"{path}, to be read,",
        remedy="Read a part of it, or save it as NPZ, which takes less.",
        error=InvalidData,
    )
    try:
        return _parse_csv(str(path), path)
    except UnicodeDecodeError as error:
        raise InvalidData(
            f"{path} is not text: byte {error.start} is not UTF-8.", remedy="Save it as UTF-8."
        ) from error
    except csv.Error as error:
        raise InvalidData(f"{path} is not CSV: {error}.", remedy="Check its quotes.") from error


def _parse_csv(source: str, path: Path) -> Table:
    """Read the numbers, and then, in a second pass, the columns that hold text.

    A cell of numbers takes eight bytes, and one of texts, of which each is kept once, mostly one: a
    table takes about as much memory as its file. An empty cell among numbers is NaN. Numbers
    are read as text, too, if some are whole and beyond what float64 tells apart: they may be names.
    """
    rows = _rows(path)
    _, header = next(rows, (0, []))
    names = [name.strip() for name in header]
    _check_header(source, names)
    lines = array("I")
    numbers = {place: array("d") for place in range(len(names))}
    blank = set(numbers)  # columns without a number so far
    for line, row in rows:
        if len(row) != len(names):
            raise InvalidData(
                f"{source}, line {line}: has {len(row)} cells, but the header has {len(names)}.",
                remedy="Give every row one cell per column; put text with commas in quotes.",
            )
        lines.append(line)
        for place in list(numbers):
            cell = row[place].strip()
            number = number_in(cell) if cell else nan
            if number is None:
                del numbers[place]
                continue
            numbers[place].append(number)
            if cell:
                blank.discard(place)
    if not lines:
        raise InvalidData(f"{source} has a header, but no rows.", remedy="Name a table with data.")
    for place in blank & {*numbers}:
        del numbers[place]
    large = [k for k, column in numbers.items() if (np.abs(np.frombuffer(column)) >= BEYOND).any()]
    exact = _beyond(path, large)
    for place in exact:
        del numbers[place]
    texts = _texts(path, [place for place in range(len(names)) if place not in numbers], exact)
    columns: dict[str, Column] = {}
    for place, name in enumerate(names):
        if place in numbers:
            column = columns[name] = np.array(numbers.pop(place))
            column.setflags(write=False)  # so that the table need not copy it
        else:
            longest = max(piece.dtype.itemsize for piece in texts[place]) // 4
            _check_text(source, name, longest, sum(len(one.present()) for one in texts[place]))
            columns[name] = Texts.together(texts.pop(place))
    return Table(columns, source, lines)


def _beyond(path: Path, places: Sequence[int]) -> set[int]:
    """Return which of these columns hold whole numbers that float64 does not tell apart."""
    rows = _rows(path) if places else iter(())
    next(rows, None)
    cells = ((place, row[place].strip()) for _, row in rows for place in places)
    return {k for k, cell in cells if is_whole_number(cell) and abs(float(cell)) >= BEYOND}


def _texts(path: Path, places: Sequence[int], exact: set[int]) -> dict[int, list[Texts]]:
    """Return the cells of these columns in pieces, in which equal ones are kept once.

    Those of ``exact`` are numbers, and equal ones are, however they are written.
    """
    found: dict[int, list[Texts]] = {place: [] for place in places}
    rows = _rows(path)
    next(rows)
    while places and (some := [row for _, row in islice(rows, _ROWS)]):
        for place, pieces in found.items():
            cells = [row[place].strip() for row in some]
            pieces.append(Texts.piece([*map(exact_in, cells)] if place in exact else cells))
    return found


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from _with_lines(csv.reader(file, strict=True))


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
    seen: set[str] = set()
    for number, name in enumerate(names, start=1):
        if not name:
            raise InvalidData(
                f"{source}, line 1: column {number} has no name.", remedy="Name every column."
            )
        if name in seen:
            raise InvalidData(
                f'{source}, line 1: two columns are called "{name}".',
                remedy="Give every column a name of its own.",
            )
        seen.add(name)
    if all(looks_like_a_number(name) for name in names):
        raise InvalidData(
            f"{source}, line 1: holds numbers, not the names of columns.",
            remedy="Add a first line with one name per column.",
        )
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise InvalidData(
            f"{source}, line 1: is a single column.", remedy="Separate the columns by commas."
        )


def _check_text(source: str, name: str, longest: int, count: int) -> None:
    """Refuse so many different texts if they cannot fit into memory side by side."""
    memory.check(
        3 * 4 * float(longest) * count,
        f'{source}, column "{name}", in which every text gets as much room as the longest, of '
        f"{longest} letters,",
        remedy="Remove the column, or shorten its longest cells.",
        error=InvalidData,
    )


def _read_npz(path: Path) -> Table:
    packed = path.stat().st_size
    try:
        with path.open("rb") as stream:
            columns = archives.read_arrays(
                path, stream, packed=packed, copies=_COPIES, error=InvalidData
            )
    except InvalidData:
        raise
    except archives.UNREADABLE as error:
        raise InvalidData(
            f"{path} cannot be read as NPZ: {str(error).rstrip('.')}.",
            remedy="Write it with numpy.savez, from arrays of numbers or text.",
        ) from error
    return Table(columns, str(path))


def _read_parquet(path: Path) -> Table:
    extras.need("parquet", what=f"Reading {path}")
    import pyarrow as pa

    try:
        return Table(_columns_of(path), str(path))
    except InvalidData:
        raise
    except (pa.ArrowException, ValueError, IndexError, OverflowError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InvalidData(
            f"{path} cannot be read as Parquet: {reason}.", remedy="Check that it is a whole file."
        ) from error


def _columns_of(path: Path) -> dict[str, Column]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    import pyarrow.types as pat

    about = pq.read_metadata(path)
    remedy = 'If it is right, write it with compression="none" and use_dictionary=False.'
    archives.check_size(
        path,
        8.0 * about.num_rows * about.num_columns,
        packed=path.stat().st_size,
        copies=_COPIES,
        remedy=remedy,
        error=InvalidData,
    )
    # As dictionaries, texts take what they take in the file, also where one is repeated often.
    texts = [one.name for one in pq.read_schema(path) if pat.is_string(one.type)]
    table = pq.read_table(path, read_dictionary=texts)
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
            ends = pc.min_max(values).as_py().values() if pat.is_integer(values.type) else ()
            if are_beyond([end for end in ends if end is not None]):
                columns[name] = _text_in(values, str(path), name)
            else:
                columns[name] = values.cast(pa.float64(), safe=False).to_numpy()
        else:
            columns[name] = _text_in(values, str(path), name)
    return columns


def _text_in(values: Any, source: str, name: str) -> Column:  # noqa: ANN401 - pyarrow's
    """Return a column of Parquet as text, made of its distinct values."""
    import pyarrow.types as pat

    coded = values if pat.is_dictionary(values.type) else values.dictionary_encode()
    pieces = []
    for chunk in coded.chunks:
        texts = [*("" if v is None else str(v) for v in chunk.dictionary.to_pylist()), ""]
        _check_text(source, name, max(map(len, texts)), len(texts))
        # What is missing is the last of them, the empty one.
        rows = chunk.indices.fill_null(len(texts) - 1).to_numpy()
        words = np.array(texts, dtype=str)
        pieces.append(Texts(words, rows.astype(code_type(words.size))))
    return Texts.together(pieces)
