"""Results as one tidy table: a row per run, with the settings that it had."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from bequest import files
from bequest.data.writing import parquet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bequest.documents import RunDocument

KINDS = (".csv", ".parquet")


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


def _is_plain(value: object) -> bool:
    return isinstance(value, bool | int | float | str)
