"""DataFrames and Arrow tables as tables, without a word of pandas, polars or pyarrow."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.data.tables import Table
from bequest.data.texts import Texts
from bequest.data.written import are_beyond, label_of
from bequest.errors import InvalidData

if TYPE_CHECKING:
    from bequest.data.tables import Column


def as_table(data: Any) -> Table:  # noqa: ANN401 - a Table, a DataFrame, an Arrow table, a mapping
    """Return columns by name, from a DataFrame, an Arrow table or a mapping; a Table as it is.

    What is missing is NaN among numbers and empty among texts. Dates become texts such as
    2024-03-01, which are no features: a model needs to be told what of them counts.
    """
    if isinstance(data, Table):
        return data
    if hasattr(data, "to_pydict"):  # pyarrow
        names = [*data.column_names]
        cells = [column.to_pylist() for column in data.columns]
    elif hasattr(data, "columns") and hasattr(data, "__getitem__"):  # pandas, polars
        names = [str(name) for name in data.columns]
        frame = data.items() if hasattr(data, "items") else zip(names, data, strict=True)
        cells = [column.to_list() for _, column in frame]
    elif isinstance(data, Mapping):
        return Table(data)
    else:
        raise InvalidData(
            f"A {type(data).__name__} is no table.",
            remedy="Pass a DataFrame, an Arrow table, or a mapping from names to columns.",
        )
    source = f"the {type(data).__name__}"
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise InvalidData(
            f'{source}: two columns are called "{twice}".',
            remedy="Give every column a name of its own.",
        )
    return Table({name: _cells(one) for name, one in zip(names, cells, strict=True)}, source)


def _cells(cells: list[Any]) -> Column:
    kinds = {type(cell) for cell in cells if not _is_missing(cell)}
    if all(issubclass(kind, numbers.Real | np.bool_) for kind in kinds):
        whole = [int(cell) for cell in cells if isinstance(cell, numbers.Integral)]
        if are_beyond(whole):
            return Texts.of("" if _is_missing(cell) else label_of(cell) for cell in cells)
        return np.array([math.nan if _is_missing(cell) else float(cell) for cell in cells])
    return Texts.of("" if _is_missing(cell) else str(cell) for cell in cells)


def _is_missing(cell: object) -> bool:
    return cell is None or cell != cell or type(cell).__name__ in ("NAType", "NaTType")
