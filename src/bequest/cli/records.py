"""Runs that are done, as files: a command that was interrupted goes on from there."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import typer

from bequest import files
from bequest.engines import Ray
from bequest.errors import CannotWrite, InvalidResult

if TYPE_CHECKING:
    from pathlib import Path

    from bequest.engines import Engine
    from bequest.report.documents import RunDocument
    from bequest.runfile import Job, RunFile

_FORMAT = 1
# What a fingerprint is made of, in words.
_DIFFERENCES = {
    "file": "another run file",
    "data": "other data",
    "engine": "another engine, or other options of it",
    "will": "another will",
    "seed": "another seed",
    "bequest": "another version of bequest",
}


class Records:
    """A folder with one file per finished run.

    Args:
        folder: where they are.
        plan: the runs.
        resume: whether runs that are on record already count as done.

    Raises:
        CannotWrite: there are records already and they are not to be resumed; or the folder
            cannot be written to.
        InvalidResult: a file in the place of a record is none.
    """

    def __init__(self, folder: Path, plan: RunFile, *, resume: bool) -> None:
        self._folder, self._plan, self._resume = folder, plan, resume
        there = sorted(path.name for path in folder.glob("run-*"))
        if there and not resume:
            raise CannotWrite(
                f"--record {folder}: {there[0]} is there already.",
                remedy="Add --resume to go on from what is on record, or choose another folder.",
            )
        files.make_folder(folder)
        paths = {number: self._path(number) for number in range(1, len(plan) + 1)}
        # Whatever is in our way is noticed now, not after hours.
        self._found = {number: _read(path) for number, path in paths.items() if path.exists()}

    def find(self, number: int, job: Job, title: str) -> RunDocument | None:
        """Return a run that is on record, if it is and nothing has changed since; say so."""
        found = self._found.get(number)
        if found is None:
            return None
        own, name = self._plan.fingerprint(job.label, job.seed), self._path(number)
        differences = [words for key, words in _DIFFERENCES.items() if found[key] != own[key]]
        if differences:
            typer.echo(f"{title}: run again, {name} is of {differences[0]}", err=True)
            return None
        typer.echo(f"{title}: not run again, it is on record in {name}", err=True)
        return cast("RunDocument", found["run"])

    def keep(self, number: int, job: Job, document: RunDocument) -> None:
        """Write down a run that is done."""
        fingerprint = self._plan.fingerprint(job.label, job.seed)
        record = {"format": _FORMAT, **fingerprint, "run": document}
        text = json.dumps(record, indent=2, allow_nan=False) + "\n"
        files.write(self._path(number), text.encode())
        # The document says all that is asked for; an outcome is for a run that nobody waited for.
        self._path(number, "outcome").unlink(missing_ok=True)

    def engine(self, number: int, engine: Engine) -> Engine:
        """Return the engine for a run, such that the run can be found again if we are killed."""
        if not isinstance(engine, Ray):
            return engine
        # The office, which writes the outcome, works in another folder than we do.
        outcome = self._path(number, "outcome").resolve()
        name = f"{hashlib.sha256(str(outcome.parent).encode()).hexdigest()[:12]}-{outcome.stem}"
        return replace(engine, name=name, record=outcome, resume=self._resume)

    def _path(self, number: int, ending: str = "json") -> Path:
        digits = max(2, len(str(len(self._plan))))
        return self._folder / f"run-{number:0{digits}}.{ending}"


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes())
        if record["format"] != _FORMAT:
            raise ValueError
        return {key: record[key] for key in (*_DIFFERENCES, "run")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidResult(
            f"{path} is not the record of a run, or not one that this version can read.",
            remedy="Move it away, or choose another folder with --record.",
        ) from error
