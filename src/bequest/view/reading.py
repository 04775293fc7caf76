"""From a file that a run has left, or is still writing, to its runs as documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from bequest import files, journal
from bequest.curves import NAMES, CurvesDocument
from bequest.documents import outcome_document
from bequest.engines import records
from bequest.errors import InvalidLog, InvalidResult
from bequest.journal import End
from bequest.replay import Replay
from bequest.runfile.logs import job_of
from bequest.view import soundness

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bequest.core.arrays import Vector
    from bequest.documents import OutcomeDocument
    from bequest.model.run import Run

# As many rounds of its curves as a run has on a page.
MANY = 4000
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class ShownRun:
    """One run, as far as its file tells.

    Attributes:
        title: which run it is, in few words.
        source: the name of its file.
        document: what is known of it.
        notes: what a reader has to know about the file itself, such as that it breaks off.
        is_whole: whether the run is told to its end.
    """

    title: str
    source: str
    document: OutcomeDocument
    notes: tuple[str, ...] = ()
    is_whole: bool = True


def read(path: Path) -> list[ShownRun]:
    """Return the runs in a file: a record, a log, or what ``bequest run --json`` has printed.

    Raises:
        InvalidResult: it is none of these, or of another version, or damaged.
        InvalidLog: likewise, if it is a log.
    """
    if path.is_dir():
        raise InvalidResult(f"{path} is a folder.", remedy=_in_folder(path))
    content = files.read(path)
    growing = path.with_suffix(".jsonl")
    if content is None and path.suffix == ".record" and growing.is_file():
        path, content = growing, files.read(growing)  # it is not on record before it is over
    if content is None:
        raise InvalidResult(
            f"There is no file {path}.",
            remedy="Name a record (bequest run --record), a log (--log), or a file with what "
            "bequest run --json prints.",
        )
    if records.is_record(content):
        return [_record(content, path)]
    for reads, knows in ((_log, _is_log), (_news, _is_news), (_results, _is_results)):
        if knows(content):
            return reads(content, path)
    why = "no part of bequest writes this" if content else "it is empty"
    raise InvalidResult(
        f"{path} is not a run: {why}.",
        remedy="Name a record (bequest run --record), a log (--log), or a file with what "
        "bequest run --json prints.",
    )


def shown(run: Run, title: str) -> ShownRun:
    """Return a run of this process as its record would tell it."""
    return ShownRun(title, "", outcome_document(run.outcome, run.plan.scene, most=MANY))


def _in_folder(path: Path) -> str:
    names = sorted(
        one.name for one in path.iterdir() if one.suffix in (".record", ".jsonl", ".json")
    )
    if not names:
        return "Name a file: a record, a log or results; this folder has none."
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"Name one or two of the files in it: {', '.join(names[:5])}{more}."


# --- records -------------------------------------------------------------------------------


def _record(content: bytes, path: Path) -> ShownRun:
    _, scene, outcome = records.decode(content, path)
    document = outcome_document(outcome, scene, most=MANY)
    return ShownRun(", ".join(scene.wills) or scene.method, path.name, document)


# --- logs ----------------------------------------------------------------------------------


def _is_log(content: bytes) -> bool:
    return b'"log":"bequest"' in content[:200]


def _log(_: bytes, path: Path) -> list[ShownRun]:
    """Repeat the run from its log, as far as that goes."""
    log = journal.read(path)
    job = job_of(log)
    count, note = _readable(log)
    if count == 0:
        raise InvalidLog(note, remedy="Wait until the run has begun, or write it anew.")
    outcome = Replay(log, count).run(job.plan)
    last = _last_measured(outcome.trajectory.gradient_norm) if note else None
    document = outcome_document(outcome, job.plan.scene, last=last, most=MANY, names=job.names)
    notes = (f"{note} What is shown is what is there so far.",) if note else ()
    return [ShownRun(f"{job.label}, seed {job.seed}", path.name, document, notes, not note)]


def _last_measured(values: Vector) -> int:
    return int(np.flatnonzero(np.isfinite(values)).max(initial=0))


def _readable(log: journal.Log) -> tuple[int | None, str]:
    """Return the last event that can be read, None for the run's own end, and what is wrong."""
    count = 0
    try:
        for entry in log.entries():
            if isinstance(entry, End):
                return None, "" if entry.why is None else f"The run broke off: {entry.why}."
            count += 1
    except InvalidLog as error:
        return count, error.what
    return count, ""


# --- growing records -----------------------------------------------------------------------


def empty_document(begun: Mapping[str, Any]) -> OutcomeDocument:
    """Return what is known of a run that has just begun, or is about to."""
    network = begun.get("network", {"nodes": 1, "edges": [], "absent": []})
    return {
        "status": "unfinished",
        "rounds": begun.get("rounds", 1),
        "error": None,
        "invariant_gap": None,
        "survivors": [],
        "lost": [],
        "steps": [],
        "departures": [],
        "changes": [],
        "network": network,
        "method": begun.get("method", ""),
        "curves": {
            "rounds": [],
            "of": 0,
            "error": [],
            "gradient_norm": [],
            "disagreement": [],
            "invariant_gap": [],
        },
    }


def _is_news(content: bytes) -> bool:
    return b'"begun"' in content.partition(b"\n")[0]


def _news(content: bytes, path: Path) -> list[ShownRun]:
    """Read the event log of a run on a cluster, as far as it has been written."""
    lines: list[dict[str, Any]] = []
    for written in content.splitlines():
        try:
            lines.append(dict(files.parsed(written)))
        except (ValueError, TypeError, RecursionError):
            break  # it is being written, or damaged: what comes before is good
    try:
        document, title = _told(lines, path)
        soundness.check(document)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise InvalidLog(
            f"{path} is not the log of a run, or a damaged one: {error}.",
            remedy="View its record, if there is one.",
        ) from error
    is_whole = any("ended" in line for line in lines)
    notes = ["This is a log of what happened: the curves have a number per second, not per round."]
    if not is_whole:
        notes.append(
            "The run is still going on, or broke off. What is shown is what is there so far."
        )
    return [ShownRun(title, path.name, document, tuple(notes), is_whole)]


def _told(lines: list[dict[str, Any]], path: Path) -> tuple[OutcomeDocument, str]:
    """Return what the lines of news tell of a run, and its title."""
    begun: dict[str, Any] = next((line["begun"] for line in lines if "begun" in line), {})
    document = empty_document(begun)
    curves = document["curves"]
    measured: dict[str, list[float | None]] = {name: [] for name in NAMES}
    curves.update(cast("CurvesDocument", measured))
    for line in lines:
        if "departure" in line:
            document["departures"].append(line["departure"])
        elif "change" in line:
            document["changes"].append(line["change"])
        elif "ended" in line:
            document["status"] = line["ended"]
        elif "gradient_norm" in line and line["round"] > (curves["rounds"] or [-1])[-1]:
            curves["rounds"].append(line["round"])
            for name in NAMES:
                measured[name].append(line.get(name))
    curves["of"] = len(curves["rounds"])
    return document, ", ".join(begun.get("wills", ())) or path.stem


# --- results -------------------------------------------------------------------------------


def _is_results(content: bytes) -> bool:
    return content.lstrip()[:1] == b"{" and b'"runs"' in content


def _results(content: bytes, path: Path) -> list[ShownRun]:
    try:
        whole = files.parsed(content)
        version, swept = whole["format"], "sweep" in whole
        runs = [] if swept else list(whole["runs"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidResult(
            f"{path} is not what bequest run --json prints, or not all of it: {error}.",
            remedy="Write it anew; bequest run FILE --output writes it as a whole or not at all.",
        ) from error
    if version != _FORMAT:
        raise InvalidResult(
            f"{path} is in version {str(version)[:20]!r} of the format; we read version {_FORMAT}.",
            remedy="View it with the release of bequest that wrote it.",
        )
    if swept:
        raise InvalidResult(
            f"{path} has a [sweep], many runs with different settings; a page shows one or two.",
            remedy="bequest plot draws it; to view one of its runs, carry that out alone.",
        )
    found = []
    for number, run in enumerate(runs, start=1):
        try:
            soundness.check(run)
            title = f"{run['will']}, seed {run['seed']}"
            found.append(ShownRun(title, path.name, cast("OutcomeDocument", run)))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise InvalidResult(
                f"{path}: run {number} cannot be shown: {error}. Results of earlier releases "
                "lack the network and the curves.",
                remedy="Write it anew with bequest run FILE --json.",
            ) from error
    return found
