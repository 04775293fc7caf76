"""How columns of a table become features: the same for every silo, and for every new row."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bequest.core.arrays import Indices, Matrix, Vector
    from bequest.data.tables import Table

    # Vectors of silos -> their sum.
    Total = Callable[[Sequence[Vector]], Vector]

MISSING = "(missing)"


@dataclass(frozen=True, slots=True)
class Number:
    """A column of numbers, shifted and scaled.

    Attributes:
        name: the column.
        part: which one of a block of columns; None if it is a single one.
        mean: what is taken off, and what fills in for what is missing.
        scale: what the rest is divided by.
        impute: whether cells may be missing.
        indicator: whether another feature says that they are.
    """

    name: str
    part: int | None = None
    mean: float = 0.0
    scale: float = 1.0
    impute: bool = False
    indicator: bool = False

    @property
    def spelled(self) -> str:
        """Its name, and its part of it."""
        return self.name if self.part is None else f"{self.name}[{self.part}]"

    @property
    def features(self) -> tuple[str, ...]:
        """What its features are called."""
        return (self.spelled, f"{self.spelled} is missing") if self.indicator else (self.spelled,)

    def raw(self, table: Table) -> Vector:
        """Return the numbers, NaN where they are missing and may be."""
        values: Vector = table.numbers(self.name, missing=self.impute)[:, self.part or 0]
        return values

    def matrix(self, table: Table) -> Matrix:
        """Return its features."""
        values = self.raw(table)
        gone = np.isnan(values)
        filled = (np.where(gone, self.mean, values) - self.mean) / self.scale
        return np.column_stack([filled, gone.astype(float)]) if self.indicator else filled[:, None]


@dataclass(frozen=True, slots=True)
class Category:
    """A column of categories: a feature for each, one where it is that and zero elsewhere.

    ``impute`` says that cells may be missing; ``indicator`` that some are, in some silo, which is a
    category of its own.
    """

    name: str
    values: tuple[str, ...]
    impute: bool = False
    indicator: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """What its features are called."""
        values = (*self.values, MISSING) if self.indicator else self.values
        return tuple(f"{self.name}={value}" for value in values)

    def matrix(self, table: Table) -> Matrix:
        """Return its features, or say which cell is of no known category."""
        cells = table.cells(self.name, missing=self.impute)
        known = {value: place for place, value in enumerate(self.values)}
        known |= {"": len(self.values)} if self.indicator else {}
        places = np.array([known.get(cell, -1) for cell in cells])
        if (places < 0).any():
            row = int(np.argmax(places < 0))
            raise InvalidData(
                f'{table.where(row, self.name)}: is "{cells[row]}", which is no known category.'
                if cells[row]
                else f"{table.where(row, self.name)}: is empty, and no silo lacked one.",
                remedy=f"The model knows {_some(self.values)}. Correct the cell, or declare the "
                "category and train again.",
            )
        coded: Matrix = np.eye(len(self.features))[places]
        return coded


@dataclass(frozen=True, slots=True)
class Recipe:
    """How rows of a table become samples: columns in order, and whether a bias is appended."""

    columns: tuple[Number | Category, ...]
    bias: bool = True

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features, without the bias."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns of a table that it is made of, each once."""
        return tuple(dict.fromkeys(column.name for column in self.columns))

    def matrix(self, table: Table) -> Matrix:
        """Return the samples of a table, whatever the order of its columns."""
        whole = np.ones((table.rows, len(self.features) + self.bias))
        first = 0
        for column in self.columns:
            after = first + len(column.features)
            whole[:, first:after] = column.matrix(table)
            first = after
        return whole

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        columns = [
            {"kind": type(column).__name__.lower(), **asdict(column)} for column in self.columns
        ]
        return {"columns": columns, "bias": self.bias}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recipe:
        """Return what ``as_dict`` was made of."""
        columns: list[Number | Category] = []
        for entry in data["columns"]:
            fields = {name: value for name, value in entry.items() if name != "kind"}
            if entry["kind"] == "number":
                columns.append(Number(**fields))
            else:
                columns.append(Category(**fields | {"values": tuple(fields["values"])}))
        return cls(tuple(columns), bool(data["bias"]))


def agree(
    table: Table,
    silos: Sequence[Indices],
    columns: Sequence[Number | Category],
    *,
    standardise: bool,
    bias: bool,
    total: Total,
) -> Recipe:
    """Return the recipe that silos agree on without showing each other a row.

    They add up, by ``total``, first the number of their rows and, per column, how many cells are
    there and the sum of the numbers; then, with the means that follow, the squares of the distances
    to them. A column that lacks no cell in any silo has no indicator.
    """
    numbers = [column for column in columns if isinstance(column, Number)]
    coded = [column for column in columns if isinstance(column, Category)]
    # column by column: a table may be a good part of what the memory holds
    first = np.zeros((len(silos), 2, len(numbers)))
    for place, column in enumerate(numbers):
        values = column.raw(table)
        there = ~np.isnan(values)
        filled = np.where(there, values, 0.0)
        for silo, part in enumerate(silos):
            first[silo, :, place] = there[part].sum(), filled[part].sum()
    full = np.zeros((len(silos), len(coded)))
    for place, category in enumerate(coded):
        empty = np.array([not cell for cell in table.cells(category.name, missing=category.impute)])
        full[:, place] = [part.size - empty[part].sum() for part in silos]
    sums = total(
        [
            np.concatenate([[part.size], own, numeric.ravel()])
            for part, own, numeric in zip(silos, full, first, strict=True)
        ]
    )
    rows, there_are = sums[0], sums[1 : 1 + len(coded)]
    counts, added = sums[1 + len(coded) :].reshape(2, -1)
    for column, count in zip(numbers, counts, strict=True):
        if count < 0.5:
            raise InvalidData(
                f'{table.source}, column "{column.spelled}": holds no number at all.',
                remedy="Choose features without this column.",
            )
    means = added / np.maximum(counts, 1.0)
    second = np.zeros((len(silos), len(numbers)))
    for place, column in enumerate(numbers):
        away = np.nan_to_num(column.raw(table) - means[place])
        second[:, place] = [np.vdot(away[part], away[part]) for part in silos]
    squares = total([*second])
    # A column that is constant but for rounding is not scaled up to noise.
    spread = np.sqrt(np.maximum(squares, 0.0) / rows)
    spread = np.where(spread > 1e-12 * np.abs(means), spread, 0.0)
    made = iter(
        replace(
            column,
            mean=float(mean) if standardise or column.impute else 0.0,
            scale=float(scale) if standardise and scale > 0 else 1.0,
            indicator=column.impute and bool(count < rows - 0.5),
        )
        for column, mean, scale, count in zip(numbers, means, spread, counts, strict=True)
    )
    known = iter(
        replace(category, indicator=category.impute and bool(count < rows - 0.5))
        for category, count in zip(coded, there_are, strict=True)
    )
    return Recipe(
        tuple(next(made) if isinstance(column, Number) else next(known) for column in columns), bias
    )


def vocabulary(table: Table, name: str, silos: Sequence[Indices], *, impute: bool) -> Category:
    """Return a column of categories with the union of what the silos know, sorted."""
    cells = np.array(table.cells(name, missing=impute))
    known: set[str] = set().union(*({*cells[rows].tolist()} for rows in silos)) - {""}
    return Category(name, tuple(sorted(known)), impute)


def _some(values: Sequence[str]) -> str:
    return ", ".join(values[:8]) + (", ..." if len(values) > 8 else "")
