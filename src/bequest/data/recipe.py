"""How columns of a table become features: the same for every silo, and for every new row."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bequest.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from bequest.core.arrays import Indices, Matrix, Vector
    from bequest.data.names import Ask
    from bequest.data.tables import Table

    Columns: TypeAlias = "tuple[Number | Category, ...]"

MISSING = "(missing)"
# Cells of files that pandas takes for missing, and read_table for texts.
_PERHAPS_MISSING = frozenset(
    [
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-1.#IND",
        "-1.#QNAN",
        "-NaN",
        "-nan",
        "1.#IND",
        "1.#QNAN",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "None",
        "n/a",
        "nan",
        "null",
    ]
)


@dataclass(frozen=True, slots=True)
class Number:
    """A column of numbers, shifted and scaled.

    Attributes:
        name: the column.
        part: which one of a block of columns; None if it is a single one.
        mean: what is taken off.
        scale: what the rest is divided by.
        impute: whether cells may be missing.
        indicator: whether another feature says that they are.
        fill: what fills in for what is missing; None for the mean.
    """

    name: str
    part: int | None = None
    mean: float = 0.0
    scale: float = 1.0
    impute: bool = False
    indicator: bool = False
    fill: float | None = None

    @property
    def spelled(self) -> str:
        """Its name, and its part of it."""
        return self.name if self.part is None else f"{self.name}[{self.part}]"

    @property
    def features(self) -> tuple[str, ...]:
        """What its features are called."""
        return (self.spelled, f"{self.spelled} is missing") if self.indicator else (self.spelled,)

    @property
    def is_shifted(self) -> bool:
        """Whether it differs from the column as it is: by a mean, a scale, or filled cells."""
        return self.impute or (self.mean, self.scale) != (0.0, 1.0)

    @property
    def filled_in(self) -> float:
        """What a missing cell counts as."""
        return self.mean if self.fill is None else self.fill

    def raw(self, table: Table) -> Vector:
        """Return the numbers, NaN where they are missing and may be."""
        values: Vector = table.numbers(self.name, missing=self.impute)[:, self.part or 0]
        return values

    def write(self, features: Matrix, table: Table) -> None:
        """Write its features."""
        values = self.raw(table)
        gone = np.isnan(values)
        filled = np.where(gone, self.filled_in, values)
        filled -= self.mean
        np.divide(filled, self.scale, out=features[:, 0])
        if self.indicator:
            features[:, 1] = gone


@dataclass(frozen=True, slots=True)
class Category:
    """A column of categories: a feature for each, one where it is that and zero elsewhere.

    ``impute`` says that cells may be missing; ``indicator`` that some are, in some silo, which is a
    category of its own. What pipelines of scikit-learn may say besides: missing cells count as the
    category ``fill``, those in ``silent`` have no feature, and where it is ``lenient``, one that is
    not known has none either.
    """

    name: str
    values: tuple[str, ...]
    impute: bool = False
    indicator: bool = False
    fill: str = ""
    silent: tuple[str, ...] = ()
    lenient: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """What its features are called."""
        values = (*self.values, MISSING) if self.indicator else self.values
        return tuple(f"{self.name}={value}" for value in values)

    def refuse_doubtful(self, table: Table) -> None:
        """Refuse cells of a file that are unknown, if they are not refused, or else missing.

        Where both mean the same, it does not matter which they are.
        """
        if not self.lenient or not (self.indicator or self.fill):
            return
        cells = table.cells(self.name, missing=True)
        unsure = _PERHAPS_MISSING - {*self.values, *self.silent}
        odd = cells.each(lambda cell: cell in unsure)
        if odd.any():
            row = int(np.argmax(odd))
            raise InvalidData(
                f'{table.where(row, self.name)}: is "{cells[row]}", which may be a missing cell or '
                "a category that is not known.",
                remedy="Leave the cell empty if it is missing, or pass a DataFrame.",
            )

    def write(self, features: Matrix, table: Table) -> None:
        """Write its features, or say which cell is of no known category."""
        known = (*self.values, "") if self.indicator else self.values
        # says which one is empty
        cells = table.cells(self.name, missing=self.impute or self.lenient or bool(self.fill))
        told = {*known, *self.silent, *([""] if self.fill else [])}
        odd = cells.each(lambda cell: not (self.lenient or cell in told))
        if odd.any():
            row = int(np.argmax(odd))
            raise InvalidData(
                f'{table.where(row, self.name)}: is "{cells[row]}", which is no known category.'
                if cells[row]
                else f"{table.where(row, self.name)}: is empty, and no silo lacked one.",
                remedy=f"The categories are {_some(self.values)}. Correct the cell, or declare "
                "this one as well before training.",
            )
        for place, value in enumerate(known):
            features[:, place] = cells == value
            if value and value == self.fill:
                features[:, place] += cells == ""


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

    def matrix(self, table: Table, rows: Indices | None = None) -> Matrix:
        """Return the samples of a table, whatever the order of its columns; or of some rows."""
        chosen = table if rows is None else table.take(rows)
        whole = np.ones((chosen.rows, len(self.features) + self.bias))
        first = 0
        for column in self.columns:
            after = first + len(column.features)
            column.write(whole[:, first:after], chosen)
            first = after
        return whole

    def refuse_doubtful(self, table: Table) -> None:
        """Refuse what a table that was read from CSV leaves open: missing, or not known."""
        for column in self.columns:
            if isinstance(column, Category):
                column.refuse_doubtful(table)

    def check(self, table: Table) -> None:
        """Refuse what ``matrix`` would refuse, in the memory of a column at a time."""
        for column in self.columns:
            replace(self, columns=(column,)).matrix(table)

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
                lists = {name: tuple(fields.get(name, ())) for name in ("values", "silent")}
                columns.append(Category(**fields | lists))
        return cls(tuple(columns), bool(data["bias"]))


class Agreement(NamedTuple):
    """How rows become features, and how many rows the silos have that are still there."""

    recipe: Recipe
    rows: float


def agree(
    columns: Columns, ask: Ask, *, standardise: bool, bias: bool, source: str = "the table"
) -> Agreement:
    """Return the recipe that silos agree on without showing each other a row.

    They add up first the number of their rows and, per column, how many cells are there and the sum
    of the numbers; then, with the means that follow, the squares of the distances to them, and the
    rows that these are of: a silo that has left in between is in the means only. A column that
    lacks no cell in any silo has no indicator.

    Args:
        columns: which columns, before anything is agreed on.
        ask: a question -> the sum of all silos' answers.
        standardise: whether numbers are shifted and scaled.
        bias: whether a column of ones is appended.
        source: what the columns are of, for messages.
    """
    from bequest.data.questions import FirstSums, SecondSums

    numbers = [column for column in columns if isinstance(column, Number)]
    sums = ask(FirstSums(columns))
    rows, counts = float(sums[0]), sums[1 : 1 + len(columns)]
    of = dict(zip(columns, counts.tolist(), strict=True))
    empty = next((number for number in numbers if of[number] < 0.5), None)
    if empty is not None:
        raise InvalidData(
            f'{source}, column "{empty.spelled}": holds no number at all.',
            remedy="Choose features without this column.",
        )
    means = sums[1 + len(columns) :] / np.array([of[column] for column in numbers])
    squares = ask(SecondSums(columns, tuple(means.tolist())))
    # A column that is constant but for rounding is not scaled up to noise.
    spread = np.sqrt(np.maximum(squares[1:], 0.0) / squares[0])
    spread = np.where(spread > 1e-12 * np.abs(means), spread, 0.0)
    known = dict(zip(numbers, zip(means.tolist(), spread.tolist(), strict=True), strict=True))
    made: list[Number | Category] = []
    for column in columns:
        indicator = column.impute and of[column] < rows - 0.5
        if isinstance(column, Category):
            made.append(replace(column, indicator=indicator))
            continue
        mean, scale = known[column]
        made.append(
            replace(
                column,
                mean=mean if standardise else 0.0,
                scale=scale if standardise and scale > 0 else 1.0,
                indicator=indicator,
                # numbers that stay as they are have the mean filled in, and nothing taken off
                fill=mean if column.impute and not standardise else None,
            )
        )
    return Agreement(Recipe(tuple(made), bias), float(np.rint(squares[0])))


def _some(values: Sequence[str]) -> str:
    return ", ".join(values[:8]) + (", ..." if len(values) > 8 else "")
