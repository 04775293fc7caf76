"""What silos are asked before a run: each answers with numbers from its own table, never a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest.data.reading import read_table
from bequest.data.recipe import Category, Number
from bequest.errors import InvalidData

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.data.loading import Loader
    from bequest.data.names import Question
    from bequest.data.recipe import Columns
    from bequest.data.tables import Table

# Squares of numbers beyond this add up to what no run can compute with.
_LARGEST = 1e30


@dataclass(frozen=True, slots=True)
class FirstSums:
    """How many rows there are; per column how many cells are there, and the sum of the numbers."""

    columns: Columns

    @property
    def size(self) -> int:
        """Rows, a count per column, a sum per column of numbers."""
        return 1 + len(self.columns) + sum(isinstance(one, Number) for one in self.columns)

    def __call__(self, table: Table) -> Vector:
        """Return the number of rows, the counts and the sums."""
        counts, sums = [], []
        for column in self.columns:
            if isinstance(column, Category):
                cells = table.cells(column.name, missing=column.impute)
                counts.append(cells.size - cells.counts().get("", 0))
                continue
            values = column.raw(table)
            there = values[~np.isnan(values)]
            if there.size and max(there.max(), -there.min()) > _LARGEST:
                row = int(np.nanargmax(np.abs(values)))
                raise InvalidData(
                    f"{table.where(row, column.spelled)}: is {values[row]:g}, too large to compute "
                    "with.",
                    remedy=f"Correct the cell, or rescale the column, up to {_LARGEST:g}.",
                )
            counts.append(there.size)
            sums.append(there.sum())
        return np.array([table.rows, *counts, *sums], dtype=float)


@dataclass(frozen=True, slots=True)
class Lacking:
    """How many cells are missing, per column of categories."""

    columns: tuple[Category, ...]

    @property
    def size(self) -> int:
        """A count per column."""
        return len(self.columns)

    def __call__(self, table: Table) -> Vector:
        """Return the counts."""
        cells = [table.cells(column.name, missing=True).counts() for column in self.columns]
        return np.array([counts.get("", 0) for counts in cells], dtype=float)


@dataclass(frozen=True, slots=True)
class SecondSums:
    """How many rows there are; per column of numbers the squared distances to the common mean."""

    columns: Columns
    means: tuple[float, ...]

    @property
    def size(self) -> int:
        """Rows, and a sum per column of numbers."""
        return 1 + len(self.means)

    def __call__(self, table: Table) -> Vector:
        """Return the number of rows and the sums."""
        numbers = [column for column in self.columns if isinstance(column, Number)]
        sums = []
        for column, mean in zip(numbers, self.means, strict=True):
            away = np.nan_to_num(column.raw(table) - mean)
            sums.append(float(away @ away))
        return np.array([table.rows, *sums], dtype=float)


@dataclass(frozen=True, slots=True)
class Curved:
    """The range of curvature of a silo's loss."""

    loader: Loader
    size: int = 2

    def __call__(self, table: Table) -> Vector:
        """Return its ends."""
        curvature = self.loader.loss_of(table).curvature
        return np.array([curvature.a, curvature.b])


@dataclass(frozen=True, slots=True)
class Placed:
    """A silo's answer in a place of its own, so that a sum shows the answer of each."""

    question: Question
    place: int
    silos: int

    @property
    def size(self) -> int:
        """An answer per silo."""
        return self.silos * self.question.size

    def __call__(self, table: Table) -> Vector:
        """Return the answer, and zeros around it."""
        answers = np.zeros((self.silos, self.question.size))
        answers[self.place] = self.question(table)
        return answers.ravel()


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """A silo's answer, computed where its file is."""

    path: str
    question: Question

    @property
    def __name__(self) -> str:
        """What messages call it."""
        return f'{type(self.question).__name__}("{self.path}")'

    def __call__(self) -> Vector:
        """Read the file, and return the answer."""
        return self.question(read_table(self.path))
