"""Rows as the bytes of a Parquet file."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from bequest import extras

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a Parquet file with these rows.

    Raises:
        NotInstalled: without pyarrow.
    """
    extras.need("parquet", what="A Parquet file")
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([dict(row) for row in rows])
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()
