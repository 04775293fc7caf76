"""Which names a silo knows that all must agree on: columns, classes, categories."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bequest.data.choosing import ignoring, refuse_unmentioned
from bequest.data.names import union
from bequest.data.written import number_in
from bequest.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bequest.data.names import Ask
    from bequest.data.tables import Table


# The width of a column in which a silo has no cell.
_BLANK = -1


@dataclass(frozen=True, slots=True)
class Naming:
    """The names in a silo's table, each with a word before it that says what it names.

    Attributes:
        categories: columns whose categories are to be agreed on.
        impute: whether cells of them may be missing.
        label: the column whose classes are to be agreed on; None for none.
        features: which columns to tell the widths of; None for all with numbers in them.
        others: columns that are no features; with these, columns are to be agreed on.
        ignore: which of those are to be ignored.
    """

    categories: tuple[str, ...] = ()
    impute: bool = False
    label: str | None = None
    features: tuple[str, ...] | None = None
    others: frozenset[str] | None = None
    ignore: tuple[str, ...] = ()

    def __call__(self, table: Table) -> set[str]:
        """Return what it knows."""
        known = {f"ignored {name}" for name in self.ignore if name in table.columns}
        if self.label is not None:
            known |= {f"class {cell}" for cell in table.cells(self.label).present()}
        known |= {f"column {width} {name}" for name, width in self._columns(table)}
        for number, name in enumerate(self.categories):
            cells = {*table.cells(name, missing=self.impute).present()} - {""}
            known |= {f"{number} {cell}" for cell in cells}
        return known

    def _columns(self, table: Table) -> Iterable[tuple[str, int]]:
        if self.others is None:
            return
        named = table.columns if self.features is None else self.features
        mine = [name for name in named if name not in self.others]
        if self.features is None:
            # a silo that knows no value may impute one that others know
            refuse_unmentioned(table, mine, blank=True)
        for name in mine:
            column = table.column(name)
            if self.features is None and not table.is_numeric(name):
                yield name, _BLANK
            else:
                yield name, 0 if column.ndim == 1 else column.shape[1]


@dataclass(frozen=True, slots=True)
class Names:
    """What silos have agreed on.

    Attributes:
        categories: the categories of each column, sorted.
        classes: the names of the classes, sorted: numbers as numbers.
        columns: the width of every column of numbers; 0 for a single one.
    """

    categories: dict[str, tuple[str, ...]] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    columns: dict[str, int] = field(default_factory=dict)


def agree_on_names(naming: Naming, ask: Ask, *, source: str) -> Names:
    """Return the union of what the silos know.

    Raises:
        InvalidData: there is too much of it, or columns are of different widths in two silos.
    """
    categories: dict[str, list[str]] = {name: [] for name in naming.categories}
    classes: list[str] = []
    columns: dict[str, int] = {}
    blank: set[str] = set()
    lacking = {*naming.ignore}
    for known in sorted(union(naming, ask, source=source)):
        what, _, name = known.partition(" ")
        if what == "class":
            classes.append(name)
        elif what == "ignored":
            lacking.discard(name)
        elif what == "column" and name.startswith(f"{_BLANK} "):
            blank.add(name.partition(" ")[2])
        elif what == "column":
            width, _, column = name.partition(" ")
            if columns.setdefault(column, int(width)) != int(width):
                raise InvalidData(
                    f'{source}, column "{column}": is {columns[column] or 1} columns wide in one '
                    f"silo and {int(width) or 1} in another.",
                    remedy="Give every silo's file the same columns.",
                )
        else:
            categories[naming.categories[int(what)]].append(name)
    empty = sorted(blank - {*columns})
    if empty:
        raise InvalidData(
            f'{source}, column "{empty[0]}": is empty in every silo.',
            remedy=f"Name the features, or leave it out with {ignoring(empty[:1])}.",
        )
    if lacking:
        raise InvalidData(
            f'{source}: no silo has the column "{min(lacking)}", which is to be ignored.',
            remedy="Check the name.",
        )
    if all(number_in(one) is not None for one in classes):
        classes.sort(key=float)
    return Names({name: tuple(v) for name, v in categories.items()}, tuple(classes), columns)
