"""A table, described before it is used: what its columns are, and what would be refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from bequest.data.choosing import DATE, may_be_categories
from bequest.data.recipe import MISSING
from bequest.data.tables import cells_of
from bequest.data.texts import Texts
from bequest.data.written import exact_in, first_beyond, number_in

if TYPE_CHECKING:
    from collections.abc import Collection

    from bequest.core.arrays import Vector
    from bequest.data.tables import Column, Table

_INFINITE = "holds infinite numbers"
_MERGED = "holds numbers so large that float64 does not tell them apart: write them in full"
_LACKS = 'cells are missing: add impute = "mean", or remove the rows'


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


@dataclass(frozen=True, slots=True)
class Declared:
    """What was said about columns, as in ``select``."""

    features: Collection[str] | None = None
    categories: Collection[str] = ()
    ignore: Collection[str] = ()
    impute: bool = False

    def left(self, column: ColumnDocument) -> str | None:
        """Return why a column would still be refused."""
        name = column["name"]
        if name in self.ignore or not (self.features is None or name in self.features):
            return None
        coded = name in self.categories
        if coded and column["missing"] and not self.impute:
            return _LACKS
        if coded or (self.impute and column["refused"] == _LACKS):
            return None
        return column["refused"]


def describe(
    table: Table,
    *,
    label: str | None = None,
    silo: str | None = None,
    declared: Declared = Declared(),  # noqa: B008 - immutable
) -> dict[str, Any]:
    """Return what a table holds, as plain data: columns, and rows and labels per silo."""
    columns = [_column(name, values) for name, values in table.columns.items()]
    for column in columns:
        if column["name"] in (label, silo):
            column["refused"] = _no_name(table, column, label)
        else:
            column["refused"] = declared.left(column)
    document: dict[str, Any] = {"source": table.source, "rows": table.rows, "columns": columns}
    if silo is not None:
        owners = _names(table, silo)
        document["silos"] = dict(sorted(owners.counts().items()))
    if label is not None:
        labels = _names(table, label)
        document["labels"] = dict(sorted(labels.counts().items()))
        if silo is not None:
            document["balance"] = {
                owner: {name: counts.get(name, 0) for name in document["labels"]}
                for owner in document["silos"]
                for counts in [labels[np.flatnonzero(owners == owner)].counts()]
            }
    return document


def _names(table: Table, name: str) -> Texts:
    """Return the silo or the label of every row; those of empty cells have a name of their own."""
    if table.column(name).ndim == 1:
        column = table.column(name)
        cells = column if isinstance(column, Texts) else cells_of(column)
        return cells if not (cells == "").any() else Texts.of(cell or MISSING for cell in cells)
    return table.cells(name)  # says why a block is no name


def _no_name(table: Table, column: ColumnDocument, label: str | None) -> str | None:
    """Return why a label or a silo column would be refused."""
    what = "the label" if column["name"] == label else "the silo column"
    values = table.column(column["name"])
    if column["missing"]:
        empty = (values if isinstance(values, Texts) else cells_of(values)) == ""
        first = table.place(int(np.argmax(empty)))
        count = f"{column['missing']} empty cell{'' if column['missing'] == 1 else 's'}"
        return f"is {what}, and has {count} (the first: {first}): fill them in, or remove the rows"
    if column["refused"] is not None and column["refused"].startswith(_INFINITE):
        return column["refused"]
    if not isinstance(values, Texts) and values.ndim == 1 and first_beyond(values) is not None:
        return f"is {what}, and {_MERGED}"
    if column["distinct"] == 1:
        return f"is {what}, and says the same of every row"
    return None


def _column(name: str, values: Column) -> ColumnDocument:
    if not isinstance(values, Texts):
        block = values.ndim == 2
        inside = values[np.isfinite(values) if block else ~np.isnan(values)]
        kind = f"block of {values.shape[1]}" if block else "number"
        return _document(name, kind, values.size - inside.size, inside)
    full = values.counts()
    missing = full.pop("", 0)
    numbers = [number_in(cell) for cell in full]
    if full and all(number is not None for number in numbers):
        inside = values.numbers(lambda cell: float(cell or "nan"))[values != ""]
        # numbers that float64 does not tell apart are texts that differ
        return _document(name, "number", missing, inside) | {
            "distinct": len({*map(exact_in, full)})
        }
    distinct = len(full)
    out = f'ignore = ["{name}"]'
    kind, refused = "text", f'is text: declare categories = {{ {name} = "agree" }}, or {out}'
    if full and all(DATE.fullmatch(cell) for cell in full):
        kind, refused = "date", f"holds dates: make numbers of them, such as days, or {out}"
    elif any(number is not None for number in numbers):
        odd = next(cell for cell, number in zip(full, numbers, strict=True) if number is None)
        kind, refused = "mixed", f'holds numbers and text such as "{odd}": correct the cells'
    elif full and not may_be_categories(values):
        refused = f"is text, and nearly every row has its own, as names have: {out}"
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


def _document(name: str, kind: str, missing: int, inside: Vector) -> ColumnDocument:
    refused = None
    if not inside.size:
        refused = f'holds no number at all: ignore = ["{name}"]'
    elif np.isinf(inside).any():
        refused = f"{_INFINITE}: correct the cells"
    elif missing:
        refused = _LACKS
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
