"""Runs that are done, as files: a command that was interrupted goes on from there."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bequest import files
from bequest.engines import Ray, records
from bequest.errors import CannotWrite

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bequest.engines import Engine
    from bequest.engines.base import Outcome


class Records:
    """A folder with one file per finished run.

    Args:
        folder: where they are.
        count: how many runs there are.
        resume: whether runs that are on record already count as done.

    Raises:
        CannotWrite: there are records already and they are not to be resumed; or the folder
            cannot be written to.
    """

    def __init__(self, folder: Path, count: int, *, resume: bool) -> None:
        self._folder, self._resume = folder, resume
        self._digits = max(2, len(str(count)))
        there = sorted(path.name for path in folder.glob("run-*"))
        if there and not resume:
            raise CannotWrite(
                f"--record {folder}: {there[0]} is there already.",
                remedy="Add --resume to go on from what is on record, or choose another folder.",
            )
        files.make_folder(folder)

    def at(self, number: int) -> Record:
        """Return the place of a run; they count from 1."""
        return Record(self._folder / f"run-{number:0{self._digits}}.record", self._resume)


@dataclass(frozen=True, slots=True)
class Record:
    """Where one run is on record, or will be."""

    path: Path
    resume: bool

    @property
    def is_there(self) -> bool:
        """Whether there is something that may be the record, if it counts."""
        return self.resume and os.path.lexists(self.path)

    def find(self, own: Mapping[str, str]) -> Outcome | None:
        """Return the outcome of the run with this fingerprint, if it is on record.

        Raises:
            InvalidResult: what is there is not a record, or that of another run.
        """
        return records.find(self.path, own) if self.resume else None

    def keep(self, own: Mapping[str, str], engine: Engine, outcome: Outcome) -> None:
        """Write down a run that is done."""
        if not isinstance(engine, Ray):  # that one writes it itself, also if nobody waits for it
            records.write(self.path, own, outcome)

    def kept_by(self, engine: Engine) -> Engine:
        """Return the engine for the run, such that the run can be found again if we are killed."""
        if not isinstance(engine, Ray):
            return engine
        # The office, which writes the record, works in another folder than we do.
        path = self.path.resolve()
        name = f"{hashlib.sha256(str(path.parent).encode()).hexdigest()[:12]}-{path.stem}"
        return replace(engine, name=name, record=path, resume=self.resume)
