"""``bequest forget``: a silo is taken out of the model of a recorded run, with a receipt."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from bequest import files
from bequest.cli.model import model_of
from bequest.cli.records import Records
from bequest.cli.terminal import Terminal
from bequest.engines.fingerprint import fingerprint
from bequest.errors import CannotWrite, InvalidMethod, InvalidResult, UnknownNode
from bequest.model.content import digest
from bequest.model.withdrawal import withdraw
from bequest.runfile import load
from bequest.runfile.tables import TableProblem
from bequest.solver import conclude

if TYPE_CHECKING:
    from pathlib import Path

    from bequest.runfile import Job, RunFile

_FORMAT, _VERSION = "bequest receipt", 1


def forget_silo(path: Path, silo: str, *, record: Path, number: int | None, output: Path) -> None:
    """Write the model of a recorded run without a silo, and the receipt of that."""
    file = load(path)
    if not isinstance(file.content.problem, TableProblem):
        raise InvalidMethod(
            f"{path}: only a table has a model.", remedy='Use a [problem] with kind = "table".'
        )
    node = _node(file, silo)
    chosen, job = _job(file, number)
    engine = job.engine
    kept = Records(record, len(file), resume=True).at(chosen).kept_by(engine)
    found = Records(record, len(file), resume=True).at(chosen).find(fingerprint(job.plan, kept))
    if found is None:
        raise InvalidResult(
            f"{record} has no record of run {chosen}.",
            remedy=f"Write it first: bequest run {path} --record {record}.",
        )
    if (output / "receipt.json").exists():
        raise CannotWrite(
            f"{output} holds the receipt of a silo that was forgotten before.",
            remedy="Choose another folder with --output: a receipt is there to be kept.",
        )
    run = conclude(job.plan, found, engine)
    gone = withdraw(run, node)
    files.make_folder(output)
    model = model_of(file, job, run, x=gone.x)
    # what was promised about the run was promised with the silo in it
    about = {**model.about, "certificate": None, "forgotten": {"silo": silo, "exact": gone.exact}}
    model = replace(model, silos={**model.silos, silo: "forgotten"}, about=about)
    model.save(output / "model.json")
    receipt = {
        "format": _FORMAT,
        "version": _VERSION,
        "silo": silo,
        "node": node,
        "run": {"file": str(path), "will": job.label, "seed": job.seed, "rounds": run.rounds},
        "fingerprint": model.about["fingerprint"],
        "holder": gone.holder,
        "withdrawn": None if gone.withdrawn is None else digest(gone.withdrawn),
        "exact": gone.exact,
        "why": gone.why,
        "moved": gone.moved,
        "model": hashlib.sha256((output / "model.json").read_bytes()).hexdigest(),
    }
    files.write(output / "receipt.json", (json.dumps(receipt, indent=1) + "\n").encode())
    out = Terminal()
    out.print(f"{silo}: {gone.why}; the model has moved by {gone.moved:.3g}")
    out.print(f"withdrawn {'exactly' if gone.exact else 'NOT exactly'}")
    out.print(f"written to {output / 'model.json'}, {output / 'receipt.json'}")


def _node(file: RunFile, silo: str) -> int:
    names = file.silos or tuple(str(node) for node in range(file.content.problem.n))
    if silo not in names:
        raise UnknownNode(
            f'There is no silo "{silo}".', remedy=f"The silos are {', '.join(names[:12])}."
        )
    return names.index(silo)


def _job(file: RunFile, number: int | None) -> tuple[int, Job]:
    """Return the run to take it out of: the only one, or the one that was named."""
    if number is None and len(file) > 1:
        raise InvalidMethod(
            f"{file.path} has {len(file)} runs.", remedy="Add --run with the number of one of them."
        )
    for place, job in enumerate(file.jobs(), start=1):
        if place == (number or 1):
            return place, job
    raise InvalidMethod(
        f"--run {number}: {file.path} has {len(file)} runs.", remedy="They count from 1."
    )
