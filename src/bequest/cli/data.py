"""``bequest data``: a table, described before it is used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bequest.cli.terminal import Terminal, plural
from bequest.cli.terminal import table as lay_out
from bequest.data import read_silos, read_table
from bequest.data.describe import Declared, describe
from bequest.errors import InvalidData, InvalidRunFile
from bequest.model.silo_names import on_one_line
from bequest.runfile import parsed, read, understood
from bequest.runfile.sweep import first
from bequest.runfile.tables import named_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.data import Table

# The column that names the file of a row, where there is one per silo.
_SILO = "(silo)"


def describe_table(
    paths: Sequence[Path], *, label: str | None, silo: str | None, as_json: bool
) -> None:
    """Print what is in tables, and what would be refused and why."""
    title = ", ".join(map(str, paths))
    if len(paths) == 1 and paths[0].suffix.lower() == ".toml":
        for option, given in {"--label": label, "--silo": silo}.items():
            if given is not None:
                raise InvalidData(
                    f"{option} {given}: the run file says that.", remedy="Leave it out."
                )
        found = _of_run_file(paths[0])
    elif len(paths) == 1:
        found = describe(read_table(paths[0]), label=label, silo=silo)
    else:
        found = describe(_of_silos(paths, silo), label=label, silo=_SILO)
    if as_json:
        print(json.dumps(found, indent=2, allow_nan=False))
        return
    _print(found, title)


def _of_silos(paths: Sequence[Path], silo: str | None) -> Table:
    if silo is not None:
        raise InvalidData(
            f"--silo {silo}: every file is a silo.", remedy="Leave it out, or name one file."
        )
    files = {path.stem: path for path in paths}
    if len(files) < len(paths):
        raise InvalidData(
            "Two files have the same name, and would be one silo.",
            remedy="Rename one of them: silos are called like their files.",
        )
    return read_silos(files, silo=_SILO)


def _of_run_file(path: Path) -> dict[str, Any]:
    """Describe what a run file names, also where it would be refused for what is in there.

    Of a sweep it is what the first combination names.
    """
    text = read(path)
    document = first(parsed(text, path), path)
    problem = document.get("problem")
    if not isinstance(problem, dict) or problem.get("kind") != "table":
        raise InvalidRunFile(
            f"{path} has no table.", remedy='Name one with [problem] kind = "table".'
        )
    told = _refusal(document, text, path)
    if problem.get("on_hosts"):
        raise InvalidRunFile(
            f"{path}: its files are on the hosts of the silos, which alone may read them.",
            remedy="On each host: bequest data with its file.",
        )
    files, file, silo = problem.get("files"), problem.get("file"), problem.get("silo")
    if isinstance(files, str | dict) and all(isinstance(one, str) for one in [*files]):
        table, silo = read_silos(named_files(files, path.parent), silo=_SILO), _SILO
    elif isinstance(file, str):
        table = read_table(path.parent / file)
    else:
        assert told is not None  # noqa: S101 - a run file without a file is refused
        raise told
    lists = {key: problem.get(key) for key in ("features", "categories", "ignore")}
    declared = Declared(
        **{key: given for key, given in lists.items() if isinstance(given, list | dict)},
        impute=problem.get("impute") == "mean",
    )
    names = [one if one in table.columns else None for one in (problem.get("label"), silo)]
    found = describe(table, label=names[0], silo=names[1], declared=declared)
    return found | {"run file": None if told is None else str(told)}


def _refusal(document: dict[str, Any], text: str, path: Path) -> InvalidRunFile | None:
    try:
        understood(document, text, path)
    except InvalidRunFile as error:
        return error
    return None


def _print(found: dict[str, Any], title: str) -> None:
    out = Terminal()
    out.print(f"{title}: {found['rows']} rows, {len(found['columns'])} columns\n")
    rows = [
        [
            one["name"],
            one["kind"],
            str(one["missing"]),
            str(one["distinct"]),
            *("" if one[k] is None else f"{one[k]:.6g}" for k in ("least", "mean", "most")),
        ]
        for one in found["columns"]
    ]
    heads = ["column", "kind", "missing", "distinct", "least", "mean", "most"]
    out.print(lay_out(heads, rows, text=[0, 1]))
    for name, count in found.get("silos", {}).items():
        balance = found.get("balance", {}).get(name, {})
        shown = ", ".join(f"{what} {many}" for what, many in balance.items() if many)
        out.print(
            f"silo {on_one_line(name)}: {plural(count, 'row')}{f' ({shown})' if shown else ''}"
        )
    if "labels" in found and "silos" not in found:
        out.print("labels: " + ", ".join(f"{k} {v}" for k, v in found["labels"].items()))
    for one in found["columns"]:
        if one["refused"]:
            out.print(f'"{one["name"]}" {one["refused"]}')
    if found.get("run file"):
        out.print(f"refused: {found['run file']}")
