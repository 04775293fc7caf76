"""``bequest reproduce``: the paper's figures and tables, computed again and written up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest import extras, files
from bequest.cli.guard import not_found
from bequest.cli.terminal import Meter, Terminal, table
from bequest.paper import ALONG, ASIDE, aside, studies
from bequest.paper.report import pages
from bequest.paper.studies.study import carry_out

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def reproduce(names: Sequence[str], *, folder: Path, again: bool) -> None:
    """Compute the missing results, then write the report from the result files."""
    wanted = [studies.find(name) for name in _checked(names)]
    needed = {extra for study in wanted for extra in study.needs}
    if any(study.name in studies.NAMES for study in wanted):
        needed.add("plot")
    extras.need(*needed, what="The report on these studies")
    files.make_folder(folder)
    out = Terminal()
    with Meter(sum(len(study.cases) for study in wanted)) as meter:

        def progress(done: int, total: int, study: str) -> None:
            meter.report(done, total, label=study)

        tally = carry_out(wanted, folder, again=again, progress=progress)
    out.print(_summary(tally.computed, tally.kept))
    for study in wanted:
        if study.name in ASIDE:
            _tell(study.name, folder, out)
    if any(study.name in studies.NAMES for study in wanted):
        written = pages.build(folder)
        out.print(f"report: {next(path for path in written if path.name == 'index.html')}")


def _tell(name: str, folder: Path, out: Terminal) -> None:
    for title, headers, rows in aside.tables(name, folder):
        out.print(f"\n{title}\n")
        out.print(table(headers, rows, text=(0,)))


def _checked(names: Sequence[str]) -> Sequence[str]:
    known = (*studies.NAMES, *ASIDE)
    for name in names:
        if name not in known:
            raise not_found("study", name, known)
    # in the order of the report, each once
    asked = {*names, *(ALONG[name] for name in names if name in ALONG)}
    return [name for name in known if name in asked] if names else studies.NAMES


def _summary(computed: int, kept: int) -> str:
    if not kept:
        return f"{computed} results computed"
    return f"{computed} results computed, {kept} were there already (--again computes them anew)"
