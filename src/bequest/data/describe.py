"""A table, described before it is used: what its columns are, and what would be refused."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from bequest.data.tables import number_in

if TYPE_CHECKING:
    from bequest.data.tables import Column, Table

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}", re.ASCII)
# More distinct texts than this, and most of them once: names or numbers of rows, not categories.
_MANY = 20


class ColumnDocument(TypedDict):
    """One column; ``refused`` says why it cannot be a feature as it is, and what to do."""

    name: str
    kind: str
    missing: int
    distinct: int
    least: float | None
    mean: float | None
    most: float | None
    refused: str | None


def describe(table: Table, *, label: str | None = None, silo: str | None = None) -> dict[str, Any]:
    """Return what a table holds, as plain data: columns, and rows and labels per silo."""
    columns = [_column(name, values) for name, values in table.columns.items()]
    document: dict[str, Any] = {"source": table.source, "rows": table.rows, "columns": columns}
    if silo is not None:
        owners = table.cells(silo)
        document["silos"] = dict(sorted(Counter(owners).items()))
    if label is not None:
        labels = table.cells(label)
        document["labels"] = dict(sorted(Counter(labels).items()))
        if silo is not None:
            pairs = Counter(zip(owners, labels, strict=True))
            document["balance"] = {
                owner: {name: pairs[owner, name] for name in document["labels"]}
                for owner in document["silos"]
            }
    return document


def _column(name: str, values: Column) -> ColumnDocument:
    if values.ndim == 2:
        inside = values[np.isfinite(values)]
        return _document(name, f"block of {values.shape[1]}", values.size - inside.size, inside)
    if values.dtype.kind == "f":
        inside = values[~np.isnan(values)]
        return _document(name, "number", values.size - inside.size, inside)
    cells = values.tolist()
    full = [cell for cell in cells if cell]
    missing = len(cells) - len(full)
    numbers = [number_in(cell) for cell in full]
    if full and all(number is not None for number in numbers):
        return _document(name, "number", missing, np.array(numbers, dtype=float))
    distinct = len(set(full))
    kind, refused = "text", f'is text: declare categories = {{ {name} = "agree" }}, or leave it out'
    if full and all(_DATE.fullmatch(cell) for cell in full):
        kind, refused = "date", "holds dates: make numbers of them, such as days since admission"
    elif any(number is not None for number in numbers):
        odd = next(cell for cell, number in zip(full, numbers, strict=True) if number is None)
        kind, refused = "mixed", f'holds numbers and text such as "{odd}": correct the cells'
    elif distinct > _MANY and 2 * distinct > len(full):
        refused = "is text, and nearly every row has its own: a name or a number of rows"
    elif missing:
        refused += '; cells are missing: add impute = "mean"'
    return ColumnDocument(
        name=name,
        kind=kind,
        missing=missing,
        distinct=distinct,
        least=None,
        mean=None,
        most=None,
        refused=refused,
    )


def _document(name: str, kind: str, missing: int, inside: Column) -> ColumnDocument:
    refused = None
    if not inside.size:
        refused = "holds no number at all"
    elif np.isinf(inside).any():
        refused = "holds infinite numbers: correct the cells"
    elif missing:
        refused = 'cells are missing: add impute = "mean", or remove the rows'
    finite = inside[np.isfinite(inside)]
    return ColumnDocument(
        name=name,
        kind=kind,
        missing=int(missing),
        distinct=int(np.unique(inside).size),
        least=float(finite.min()) if finite.size else None,
        mean=float(finite.mean()) if finite.size else None,
        most=float(finite.max()) if finite.size else None,
        refused=refused,
    )
