"""HTML, in small pieces.

Text in this package may contain markup; text from files is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from bequest.paper.report import palette
from bequest.paper.report.measures import DIVERGED, Sample

__all__ = ["HtmlTable", "code", "each", "escape", "method", "spread", "table"]


@dataclass(frozen=True, slots=True)
class HtmlTable:
    """A table: column heads, and heading -> rows; a heading may be empty.

    The first cell of every row names it; the others are numbers. A table with a ``fold`` is closed
    at first, under that name.
    """

    heads: Sequence[str]
    groups: Mapping[str, Iterable[Sequence[str]]]
    caption: str = ""
    fold: str = ""


def table(content: HtmlTable) -> str:
    """Return a table that scrolls sideways within itself where the screen is too narrow."""
    heads = "".join(f'<th scope="col">{head}</th>' for head in content.heads)
    bodies = "".join(
        _body(title, rows, len(content.heads)) for title, rows in content.groups.items()
    )
    caption = f"<caption><span>{content.caption}</span></caption>" if content.caption else ""
    whole = (
        '<div class="scroll" tabindex="0"><table class="numbers">'
        f"{caption}<thead><tr>{heads}</tr></thead>{bodies}</table></div>"
    )
    if not content.fold:
        return whole
    return f"<details><summary>{content.fold}</summary>{whole}</details>"


def _body(title: str, rows: Iterable[Sequence[str]], columns: int) -> str:
    head = (
        f'<tr class="group"><th colspan="{columns}" scope="rowgroup"><span>{title}</span></th></tr>'
        if title
        else ""
    )
    lines = "".join(
        f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        for name, *cells in rows
    )
    return f"<tbody>{head}{lines}</tbody>"


def each(tag: str, texts: Iterable[str]) -> str:
    """Return every text, which may be broken into lines, as an element of its own."""
    return "".join(f"<{tag}>{' '.join(map(str.strip, t.splitlines()))}</{tag}>" for t in texts)


def method(name: str, shown: str = "") -> str:
    """Return the name of a method or a will with a dot in its colour."""
    role = (palette.WILLS | palette.ITERATIONS).get(name, "muted")
    return f'<span class="method" style="--dot:var(--{role})">{escape(shown or name)}</span>'


def code(text: str) -> str:
    """Return text as code."""
    return f"<code>{escape(text)}</code>"


def spread(sample: Sample, digits: int | None = None) -> tuple[str, str, str]:
    """Return the cells every sample gets in a table: median, quartiles, worst.

    >>> spread(Sample.of([1.0, 2.0, 3.0, 4.0, None]))
    ('3', '[2, 4]', 'diverged (1 of 5)')
    """
    precision = "" if digits is None else f" {digits}"
    worst = format(sample, f"worst{precision}")
    if sample.diverged:
        worst = f"{DIVERGED} ({sample.diverged} of {sample.n})"
    return format(sample, f"median{precision}"), format(sample, f"quartiles{precision}"), worst
