"""From the log of a run back to what was to be done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bequest.errors import InvalidLog
from bequest.runfile import understand

if TYPE_CHECKING:
    from bequest.journal import Log
    from bequest.runfile import Job


def job_of(log: Log) -> Job:
    """Return the run that a log is of.

    Raises:
        InvalidLog: it does not say, or says what cannot be.
        InvalidRunFile: its run file cannot be understood any more.
    """
    origin = log.origin
    if origin is None:
        raise InvalidLog(
            f"{log.path} is of a run in Python, and does not say what was solved.",
            remedy="Call bequest.solve as then, with engine=bequest.replay.Replay(log).",
        )
    # On the engine that wrote it: what silos agree on beforehand is summed up by the engine, too.
    file = understand(origin.toml, Path(origin.file), method=origin.method).on("loop")
    job = file.job(origin.label, origin.seed)
    if job is None:
        raise InvalidLog(
            f'{log.path}: its run file has no will "{origin.label}" with seed {origin.seed}.',
            remedy="Write it anew with bequest run --log.",
        )
    return job
