"""Output with a terminal, and without one."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NoReturn, Self

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Without a terminal there is no width to fit into.
_UNLIMITED = 10_000
# Work shorter than this needs no progress bar.
_PATIENCE_S = 1.0


class Terminal(Console):
    """Standard output; labels are printed as they are, never read as markup."""

    def __init__(self) -> None:
        width = None if sys.stdout.isatty() else _UNLIMITED
        super().__init__(width=width, markup=False, highlight=False, emoji=False)

    def on_broken_pipe(self) -> NoReturn:
        """Let the guard end the process; rich would exit on its own."""
        raise BrokenPipeError


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text: Sequence[int],
    dense: bool = False,
) -> Table:
    """Return a table; the columns ``text`` are aligned left, the others are numbers.

    A dense one has a single blank between its columns, so that many fit into a narrow terminal.
    """
    result = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 0 if dense else 1),
        collapse_padding=True,
        pad_edge=False,
        show_edge=False,
        header_style="bold",
    )
    for index, header in enumerate(headers):
        if index in text:  # only words are broken, and never in the middle
            result.add_column(header, min_width=len("converged,"))
        else:
            result.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        result.add_row(*row)
    return result


def pairs(rows: Sequence[Sequence[str]]) -> Table:
    """Return names and their values, side by side."""
    result = Table.grid(padding=(0, 3), pad_edge=False)
    result.add_column(style="bold")
    result.add_column()
    for row in rows:
        result.add_row(*row)
    return result


def plural(count: int, noun: str) -> str:
    """Return how many there are of something."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


class Meter:
    """A progress bar on stderr, shown only in a terminal, and only for long work."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._began = total, 0, time.monotonic()
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._label = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def part(self, label: str, size: int) -> Callable[[int], None]:
        """Begin a part of the work; return the function to call with its progress."""
        before, self._label = self._done, label
        self._done += size
        self._show(before)
        return lambda done: self._show(before + done)

    def skip(self, size: int) -> None:
        """Count a part of the work that need not be done."""
        self._done += size

    def report(self, done: int, total: int, *, label: str) -> None:
        """Set the progress of work whose size is known only now."""
        self._total, self._label = total, label
        self._show(done)

    def _show(self, done: int) -> None:
        if self._bar is None:
            if not sys.stderr.isatty() or time.monotonic() - self._began < _PATIENCE_S:
                return
            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.percentage:.0f}%"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(self._label, total=self._total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=self._total, description=self._label)
