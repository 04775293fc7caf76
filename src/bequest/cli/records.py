"""Records of finished runs, from which an interrupted command goes on."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bequest import files
from bequest.engines import Ray, records
from bequest.errors import CannotWrite, InvalidResult

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from bequest.engines import Engine
    from bequest.model.outcome import Outcome
    from bequest.model.plan import Plan
    from bequest.phases import Agreed

_AGREED = "bequest agreement 1"


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
        self._folder, self._count, self._resume = folder, count, resume
        there = sorted(path.name for path in folder.glob("run-*"))
        if there and not resume:
            raise CannotWrite(
                f"--record {folder}: {there[0]} is there already.",
                remedy="Add --resume to go on from what is on record, or choose another folder.",
            )
        files.make_folder(folder)

    def keep_agreement(self, seed: int, agreed: Agreed) -> None:
        """Write down what silos have agreed on, for when one of them is not there any more."""
        content = agreed.as_dict()
        document = {"format": _AGREED, "sha256": _checksum(content), "content": content}
        files.write(
            self._folder / _agreement(seed), (json.dumps(document, indent=1) + "\n").encode()
        )

    def at(self, number: int) -> RecordFile:
        """Return the record file of a run; runs count from 1."""
        return RecordFile(self._folder / _name(number, self._count), self._resume)


def agreement_in(folder: Path, seed: int) -> dict[str, Any] | None:
    """Return what silos had agreed on before the runs with a seed; None if it is not there.

    Raises:
        InvalidResult: the file was damaged.
    """
    path = folder / _agreement(seed)
    raw = files.read(path)
    if raw is None:
        return None
    try:
        document = files.parsed(raw)
        content: dict[str, Any] = document["content"]
        right = document["format"] == _AGREED and document["sha256"] == _checksum(content)
    except (ValueError, KeyError, TypeError, RecursionError):
        right = False
    if not right:
        raise InvalidResult(
            f"{path} is damaged.", remedy="Remove it, to have the silos agree again."
        )
    return content


def _agreement(seed: int) -> str:
    return f"agreed-{seed}.json"


def _checksum(content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def record_at(folder: Path, number: int, count: int) -> RecordFile:
    """Return the record of one of so many runs, to be read; nothing is made for it."""
    return RecordFile(folder / _name(number, count), resume=True)


def _name(number: int, count: int) -> str:
    """Return what the record of a run is called; names sort in the order of the runs."""
    return f"run-{number:0{max(2, len(str(count)))}}.record"


@dataclass(frozen=True, slots=True)
class RecordFile:
    """The file of one run's record, written or not."""

    path: Path
    resume: bool

    @property
    def is_there(self) -> bool:
        """Whether there is a file, and it counts."""
        return self.resume and os.path.lexists(self.path)

    def find(self, own: Mapping[str, str], *, unseen: Collection[int] = ()) -> Outcome | None:
        """Return the outcome of the run with this fingerprint, if it is on record.

        The losses of nodes that are ``unseen`` are not compared.

        Raises:
            InvalidResult: what is there is not a record, or that of another run.
        """
        return records.find(self.path, own, unseen=unseen) if self.resume else None

    def keep(self, own: Mapping[str, str], plan: Plan, engine: Engine, outcome: Outcome) -> None:
        """Write down a run that is done."""
        if not isinstance(engine, Ray):  # Ray writes it itself, also if no driver waits
            records.write(self.path, records.Record(own, plan.scene, outcome))

    def kept_by(self, engine: Engine) -> Engine:
        """Return the engine with what it takes to find the run again if we are killed."""
        if not isinstance(engine, Ray):
            return engine
        # The supervisor, which writes the record, works in another folder than we do.
        path = self.path.resolve()
        name = f"{hashlib.sha256(str(path.parent).encode()).hexdigest()[:12]}-{path.stem}"
        return replace(engine, name=name, record=path, resume=self.resume)
