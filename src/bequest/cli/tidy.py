"""Results as one tidy table: a row per run, with the settings that it had."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, Any

from bequest import files
from bequest.data import read_table
from bequest.data.writing import parquet
from bequest.data.written import number_in
from bequest.errors import InvalidData, InvalidResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bequest.documents import RunDocument

KINDS = (".csv", ".parquet")
REMEDY = "Name a file that bequest run -o has written."


def row_of(run: RunDocument, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return one run as a row; what is infinite or unknown is None."""
    farewells = run["departures"]
    return {
        **{name: value if _is_plain(value) else repr(value) for name, value in settings.items()},
        "will": run["will"],
        "seed": run["seed"],
        "status": run["status"],
        "rounds": run["rounds"],
        "error": run["error"],
        "limit_error": run["limit_error"],
        "invariant_gap": run["invariant_gap"],
        "accuracy": run["score"]["accuracy"] if "score" in run else None,
        "survivors": len(run["survivors"]),
        "lost": len(run["lost"]),
        "vectors": max((one["vectors"] for one in farewells), default=None),
        "bytes": sum(one["bytes"] for one in farewells),
    }


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as CSV or Parquet, by the name of the file."""
    if path.suffix.lower() == ".parquet":
        files.write(path, parquet(rows))
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    files.write(path, text.getvalue().encode())


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows that ``write_rows`` has written; numbers as numbers, None where unknown.

    Raises:
        InvalidResult: the file holds no such rows.
    """
    try:
        table = read_table(path)
    except InvalidData as error:
        raise InvalidResult(f"{path} holds no results: {error.what}", remedy=REMEDY) from error
    if not {"will", "seed", "error"} <= {*table.columns}:
        raise InvalidResult(f"{path} holds no results of bequest run.", remedy=REMEDY)
    columns = {
        name: [_cell(one) for one in cells.tolist()] for name, cells in table.columns.items()
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def settings_in(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return which columns are settings of a sweep: those before the will."""
    names = [*rows[0]]
    return names[: names.index("will")]


def _cell(value: Any) -> Any:  # noqa: ANN401 - of a table
    if isinstance(value, float):
        return None if math.isnan(value) else value
    number = number_in(value)
    return number if number is not None else value or None


def _is_plain(value: object) -> bool:
    return isinstance(value, bool | int | float | str)
