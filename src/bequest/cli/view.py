"""``bequest view``: one page on which a run, or two, can be watched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest import files
from bequest.cli.terminal import plural
from bequest.view.page import page_of
from bequest.view.reading import read
from bequest.view.scenery import staged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def write_page(paths: Sequence[Path], *, output: Path | None) -> None:
    """Read the runs, and write the page about them."""
    target = paths[0].with_suffix(".html") if output is None else output
    files.check_writable(target)
    runs = [run for path in paths for run in read(path)]
    page = page_of(staged(runs))
    files.write(target, page)
    for note in dict.fromkeys(note for run in runs if not run.is_whole for note in run.notes):
        print(f"note: {note}")
    print(f"{plural(len(runs), 'run')}, {len(page) / 1e6:.2f} MB: {target}")
