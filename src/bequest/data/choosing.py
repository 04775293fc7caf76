"""Which columns of a table are features; what is none and was not mentioned is refused."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from bequest.data.texts import Texts
from bequest.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from bequest.data.tables import Column, Table

# What TOML takes for a key without quotes.
_BARE = re.compile(r"[A-Za-z0-9_-]+")
# More distinct texts than this, and most of them once: names or numbers of rows, not categories.
_MANY = 20
# What a date looks like in a table.
DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}", re.ASCII)


def feature_names(
    table: Table,
    wanted: Sequence[str] | None,
    *,
    label: str,
    silo: str | None,
    categories: Collection[str] = (),
    ignore: Sequence[str] = (),
) -> list[str]:
    """Return the columns to learn from, or say which of those wanted is none.

    If none are named, these are all but the label, the silo column and those to ignore. A column
    without numbers is refused then unless its categories are declared: what was left out silently
    would be missed too late.
    """
    others: dict[str | None, str] = {label: "the label", silo: "the silo column"}
    for name in (label, silo, *categories):
        if name is not None:
            table.column(name)
    check_declared(table.source, wanted, others, categories=categories, ignore=ignore)
    for name in ignore:
        table.column(name)
    if wanted is None:
        left = [name for name in table.columns if name not in others and name not in ignore]
        refuse_unmentioned(table, [name for name in left if name not in categories])
        if not left:
            raise InvalidData(
                f"{table.source} has no column besides label, silo and what is ignored.",
                remedy="A model needs at least one feature.",
            )
        return left
    for place, name in enumerate(wanted):
        if name in others:
            raise InvalidData(
                f'{table.source}, column "{name}": is {others[name]}, and a feature too.',
                remedy="Remove it from the features.",
            )
        if name in wanted[:place]:
            raise InvalidData(
                f'{table.source}, column "{name}": is named twice among the features.',
                remedy="Name it once.",
            )
    return list(wanted)


def check_declared(
    source: str,
    wanted: Sequence[str] | None,
    others: Mapping[str | None, str],
    *,
    categories: Collection[str],
    ignore: Sequence[str],
) -> None:
    """Refuse what is said of columns if it contradicts itself.

    Args:
        source: what they are of, for messages.
        wanted: the features, if they are named.
        others: columns that are something else, and what.
        categories: columns of categories.
        ignore: columns to leave out.
    """
    for name in categories:
        if name in others or (wanted is not None and name not in wanted):
            raise InvalidData(
                f'{source}, column "{name}": has categories, but is '
                f"{others.get(name, 'none of the features')}.",
                remedy="Declare categories of features only.",
            )
    if isinstance(ignore, str):
        raise InvalidData(f"ignore is {ignore!r}, which is no list.", remedy=f'Write ["{ignore}"].')
    if wanted is not None and ignore:
        raise InvalidData(
            f'{source}: features are named, and "{ignore[0]}" is to be ignored.',
            remedy="Leave out ignore: nothing but the features is used.",
        )
    for name in ignore:
        if name in others or name in categories:
            raise InvalidData(
                f'{source}, column "{name}": is to be ignored, but '
                f"{'is ' + others[name] if name in others else 'has categories'}.",
                remedy="Say one of the two.",
            )


def refuse_unmentioned(table: Table, names: Iterable[str], *, blank: bool = False) -> None:
    """Refuse columns without a number of which nothing was said.

    Args:
        table: the table.
        names: its columns of which nothing was said.
        blank: whether columns without any cell may pass.
    """
    odd = {name: what_else(table.column(name)) for name in names if not table.is_numeric(name)}
    told = {name: what for name, what in odd.items() if not (blank and what == "is empty")}
    if told:
        shown = ", ".join(f'"{name}" {what}' for name, what in told.items())
        leave = f"Leave {'it' if len(told) == 1 else 'them'} out with {ignoring(told)}"
        coded = next((name for name in told if may_be_categories(table.column(name))), None)
        raise InvalidData(
            f"{table.source}: {shown}, and nothing says what to do about it.",
            remedy=f"{leave}, or name the features."
            if coded is None
            else f"{leave}, name the features, or declare categories: {declaring(coded)}.",
        )


def may_be_categories(column: Column) -> bool:
    """Whether texts are neither dates nor, as names are, nearly all different."""
    if not isinstance(column, Texts) or what_else(column) != "is text":
        return False
    counts = column.counts()
    full = column.size - counts.pop("", 0)
    return len(counts) <= _MANY or 2 * len(counts) <= full


def what_else(column: Column) -> str:
    """Return in words what a column without numbers holds."""
    full = [cell for cell in (column.present() if isinstance(column, Texts) else ()) if cell]
    if not full:
        return "is empty"
    return "holds dates" if all(DATE.fullmatch(cell) for cell in full) else "is text"


def ignoring(names: Iterable[str]) -> str:
    """Return the option that leaves columns out, as a run file and Python say it."""
    return f"ignore = [{', '.join(map(_quoted, names))}]"


def declaring(name: str) -> str:
    """Return the option that declares a column's categories, as a run file and as Python say it."""
    key = name if _BARE.fullmatch(name) else _quoted(name)
    return (
        f'categories = {{ {key} = "agree" }} in a run file, '
        f'categories={{{_quoted(name)}: "agree"}} in Python'
    )


def _quoted(name: str) -> str:
    """Return a name in quotes, as TOML and Python read it."""
    return json.dumps(name, ensure_ascii=False)
