"""``bequest data``: a table, described before it is used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bequest.cli.terminal import Terminal
from bequest.cli.terminal import table as lay_out
from bequest.data import read_table
from bequest.data.describe import describe

if TYPE_CHECKING:
    from pathlib import Path


def describe_table(path: Path, *, label: str | None, silo: str | None, as_json: bool) -> None:
    """Print what is in a table, and what would be refused and why."""
    found = describe(read_table(path), label=label, silo=silo)
    if as_json:
        print(json.dumps(found, indent=2, allow_nan=False))
        return
    out = Terminal()
    out.print(f"{path}: {found['rows']} rows, {len(found['columns'])} columns\n")
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
        out.print(f"silo {name}: {count} rows{f' ({shown})' if shown else ''}")
    if "labels" in found and "silos" not in found:
        out.print("labels: " + ", ".join(f"{k} {v}" for k, v in found["labels"].items()))
    used = {label, silo}
    for one in found["columns"]:
        if one["refused"] and one["name"] not in used:
            out.print(f'"{one["name"]}" {one["refused"]}')
