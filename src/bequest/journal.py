"""The log of a run on the loop engine, written as it goes.

A log is text, one JSON object per line, each line with a checksum of its own. The first line is
the header: the version of the format, the versions that wrote it, which run of which run file it
is (with the text of that file), and the engine. Every further line is one thing that happened to
one process, in order, with the SHA-256 of the state that it left the process in. The last line of
a run that ended by itself says so. ``bequest docs loop`` describes every key.

A line is handed to the operating system before the run goes on. Of a run that is killed
everything is there, but perhaps the end of the last line. Never pickle: logs come from others.
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from zlib import crc32

import numpy as np

from bequest import files
from bequest.engines.loop.narration import Admitted, Founded, Killed, Replaced
from bequest.errors import BequestError, CannotWrite, InvalidLog, InvalidMethod
from bequest.protocol import wire
from bequest.protocol.events import Leave, Lost, Received
from bequest.protocol.messages import STEWARD, Request
from bequest.protocol.node import Node
from bequest.version import provenance

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bequest.engines.loop.engine import Loop
    from bequest.engines.loop.narration import Happening
    from bequest.protocol.events import Input
    from bequest.protocol.steward import Steward

FORMAT = 1
# The longest line that is read: the largest message, in base64, and some room.
_LONGEST = wire.DEFAULT_LIMIT * 4 // 3 + (1 << 16)
# The end of every line: the CRC-32 of everything before it.
_CHECKSUM = ',"crc":"{:08x}"}}\n'
_CHECKSUM_LENGTH = len(_CHECKSUM.format(0))
_HAPPENINGS: dict[str, Happening] = {
    "founded": Founded(),
    "killed": Killed(),
    "replaced": Replaced(),
}
# What nodes iterated by when logs did not say it yet.
_ONLY_METHOD = {"kind": "gradient-tracking"}
_KINDS = {type(happening): kind for kind, happening in _HAPPENINGS.items()}


@dataclass(frozen=True, slots=True)
class Origin:
    """Which run of which run file a log is of: by the will's label and the seed.

    The files that the run file names are next to it; ``toml`` is its text. ``method`` is how nodes
    iterated, as a run file says it: where that is not in the text, it was chosen.
    """

    file: str
    toml: str
    label: str
    seed: int
    method: Mapping[str, object]


@dataclass(frozen=True, slots=True, eq=False)
class LoggedEvent:
    """One thing that happened.

    Attributes:
        number: how many happened up to it.
        time: when, on the virtual clock.
        process: the node, or the steward, that it happened to.
        what: an event, or the beginning or the end of a process.
        state: the digest of the process after it; None if the run broke off right there.
    """

    number: int
    time: float
    process: int
    what: Input | Happening
    state: str | None


@dataclass(frozen=True, slots=True)
class End:
    """The run is over: by itself, or (``why``) because something went wrong."""

    why: str | None


Entry: TypeAlias = LoggedEvent | End


# --- writing -------------------------------------------------------------------------------


class Journal:
    """Writes the log of one run; hand it to ``Loop(scribe=...)``.

    Args:
        path: the file; one that is there already is replaced.
        origin: which run of which run file it is, if it is one.

    Raises:
        CannotWrite: it cannot be written there.
    """

    def __init__(self, path: Path, *, origin: Origin | None = None) -> None:
        self._file, self._origin = files.Growing(path), origin
        self._number = 0
        self._begun = False
        self._pending: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        """Say how the run ended; nothing is lost without it."""
        try:
            if self._begun and not isinstance(error, CannotWrite):
                if self._pending is not None:
                    self._write(self._pending | {"state": None})
                self._write({"n": self._number + 1, "kind": "end", "why": _cause(error)})
        finally:
            self._file.close()

    def began(self, engine: Loop) -> None:
        """Write the header."""
        if self._begun:
            raise InvalidMethod(
                "This journal holds the log of another run.", remedy="Use a journal per run."
            )
        self._begun = True
        weather, hosts = engine.weather, engine.hosts
        header = {
            "log": "bequest",
            "format": FORMAT,
            "provenance": provenance(),
            "run": None if self._origin is None else asdict(self._origin),
            "engine": {
                "hosts": hosts if isinstance(hosts, int) else {str(k): v for k, v in hosts.items()},
                "delay": list(weather.delay),
                "duplication": weather.duplication,
                "seed": weather.seed,
                "partitions": [
                    [one.start, one.end, sorted(one.hosts)] for one in weather.partitions
                ],
                "outages": [[one.time, one.host] for one in weather.outages],
                "patience": weather.patience,
                "as_bytes": engine.as_bytes,
            },
        }
        self._write(header)

    def before(self, time: float, process: int, what: Input | Happening) -> None:
        """Keep what is about to happen."""
        self._number += 1
        self._pending = {"n": self._number, "t": time, "for": process, **_spelled(process, what)}

    def after(self, machine: Node | Steward) -> None:
        """Write it down, with the state that it led to."""
        assert self._pending is not None  # noqa: S101 - before comes before after
        line = line_of(self._pending | {"state": digest(machine)})
        # In this order: an interrupt while it is being written must not write it twice.
        self._pending = None
        self._file.write(line)

    def _write(self, fields: Mapping[str, Any]) -> None:
        self._file.write(line_of(fields))


def line_of(fields: Mapping[str, Any]) -> bytes:
    """Return a line of a log, with its checksum."""
    body = json.dumps(fields, allow_nan=False, separators=(",", ":"))[:-1].encode()
    return body + _CHECKSUM.format(crc32(body)).encode()


def _spelled(process: int, what: Input | Happening) -> dict[str, Any]:
    match what:
        case Received():
            return {"kind": "received", "bytes": _bytes(what.sender, process, what)}
        case Leave():
            return {"kind": "leave", "after": what.after}
        case Lost():
            return {"kind": "lost", "node": what.node, "why": what.why, "life": what.incarnation}
        case Admitted():
            asks = Received(process, what.request)
            return {"kind": "admitted", "bytes": _bytes(process, STEWARD, asks)}
    return {"kind": _KINDS[type(what)]}


def _bytes(sender: int, receiver: int, event: Received) -> str:
    return b64encode(wire.encode(sender, receiver, event.message)).decode("ascii")


def _cause(error: BaseException | None) -> str | None:
    if error is None:
        return None
    said = error.what if isinstance(error, BequestError) else str(error)
    return ": ".join([type(error).__name__, *said.splitlines()[:1]])


def digest(machine: Node | Steward) -> str:
    """Return 16 hexadecimal digits that change with anything a process computes.

    Of a node that is its place in the protocol, x, z, g, and what it has inherited; of the steward
    its place in the protocol, the network, the step, and the nodes that no node remembers.
    """
    if not isinstance(machine, Node):
        present = machine.present
        network = sorted((node, sorted(others)) for node, others in present.network.items())
        place = (str(machine.phase), present.number, present.round, machine.pace)
        words = json.dumps([*place, network, sorted(machine.register.lost)])
        return sha256(words.encode()).hexdigest()[:16]
    iterate = machine.iterate
    held = iterate.inherited
    words = json.dumps(
        [str(machine.state), machine.epoch, machine.round, machine.incarnation, list(held.lineage)]
    )
    vectors = (iterate.x, iterate.z, iterate.g, held.p, held.factor, held.weights)
    told = (array for part in held.samples for array in part.arrays)
    parts = [np.asarray(vector, "<f8").tobytes() for vector in (*vectors, *told)]
    numbers = struct.pack("<2d", held.eta, held.c)
    return sha256(b"".join([words.encode(), numbers, *parts])).hexdigest()[:16]


# --- reading -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Log:
    """A log whose header has been read.

    Attributes:
        path: where it is.
        provenance: the versions and the machine that wrote it.
        origin: which run of which run file it is; None if it is of no run file.
        hosts: as the engine had them.
    """

    path: Path
    provenance: Mapping[str, str]
    origin: Origin | None
    hosts: int | Mapping[int, str]

    def entries(self) -> Iterator[Entry]:
        """Yield what happened, as far as it can be read.

        Raises:
            InvalidLog: after the last line that can be read, if that is not the end of the run.
        """
        number = 0
        with self.path.open("rb") as file:
            file.readline(_LONGEST)
            while line := file.readline(_LONGEST):
                if not line.endswith(b"\n") and not file.read(1):
                    raise _breaks_off(self.path, number, ", in the middle of a line")
                entry = _entry(self.path, line, number + 1)
                if isinstance(entry, End) and file.read(1):
                    raise _damaged(self.path, number + 3, "it comes after the end")
                yield entry
                if isinstance(entry, End):
                    return
                number += 1
        raise _breaks_off(self.path, number)


def read(path: Path) -> Log:
    """Read the header of a log.

    Raises:
        InvalidLog: it is not a log, or not one of this version.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # it will be read twice
            raise OSError(None, "it is not an ordinary file")
        with path.open("rb") as file:
            line = file.readline(_LONGEST)
    except IsADirectoryError as error:
        names = ", ".join(sorted(one.name for one in path.glob("*.jsonl"))[:5])
        raise InvalidLog(
            f"{path} is a folder.", remedy=f"Name one of the logs in it: {names or 'it has none'}."
        ) from error
    except OSError as error:
        raise InvalidLog(
            f"{path} cannot be read: {(error.strerror or str(error)).lower()}.",
            remedy="Check the name and its permissions.",
        ) from error
    try:
        header = json.loads(line)
        is_log = header["log"] == "bequest"
        version, provenance = header["format"], _plain(header["provenance"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        is_log = False
    if not is_log:
        raise InvalidLog(
            f"{path} is not a log of bequest.",
            remedy="Name a file that was written by bequest run --log.",
        )
    if version != FORMAT:
        raise InvalidLog(
            f"{path} is in version {str(version)[:20]!r} of the format; we read version {FORMAT}.",
            remedy=f"Replay it with bequest {provenance.get('bequest')}, which wrote it.",
        )
    match _fields(path, line, 1):
        case {"run": None | dict() as run, "engine": {"hosts": int() | dict() as hosts}}:
            try:
                placed = (
                    hosts
                    if isinstance(hosts, int)
                    else {int(node): str(host) for node, host in hosts.items()}
                )
                return Log(path, provenance, None if run is None else _origin(run), placed)
            except (KeyError, ValueError) as error:
                raise _damaged(path, 1, "its keys are not those of a header") from error
    raise _damaged(path, 1, "its keys are not those of a header")


def _plain(provenance: Mapping[str, object]) -> dict[str, str]:
    """Return the origin of a log, as far as it can be shown."""
    shown = {key: value for key, value in provenance.items() if isinstance(value, str)}
    return {key: value for key, value in shown.items() if (key + value).isprintable()}


def _origin(run: Mapping[str, object]) -> Origin:
    match run:
        case {"file": str(file), "toml": str(toml), "label": str(label), "seed": int(seed)}:
            method = run.get("method", _ONLY_METHOD)
            if isinstance(method, dict):
                return Origin(file, toml, label, seed, method)
    raise ValueError("not an origin")


def _fields(path: Path, line: bytes, place: int) -> dict[str, Any]:
    """Return the content of a line whose checksum is right."""
    body = line[:-_CHECKSUM_LENGTH]
    if line[len(body) :] != _CHECKSUM.format(crc32(body)).encode():
        raise _damaged(path, place, "its checksum is wrong")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, place, "it is not JSON") from error
    return found if isinstance(found, dict) else {}


def _entry(path: Path, line: bytes, number: int) -> Entry:
    place = number + 1  # the header is the first line
    fields = _fields(path, line, place)
    match fields:
        # An interrupt can come between counting an event and writing it down.
        case {"kind": "end", "why": str(why), "n": int(n)} if n in (number, number + 1):
            return End(why)
    if fields.get("n") != number:
        raise _damaged(path, place, f"it should be event {number}")
    match fields:
        case {"kind": "end", "why": None}:
            return End(None)
        case {
            "t": int() | float() as time,
            "for": int() as process,
            "state": None | str() as state,
        }:
            what = _what(path, place, process, fields)
            return LoggedEvent(number, float(time), process, what, state)
    raise _damaged(path, place, "its keys are not those of an event")


def _what(path: Path, place: int, process: int, fields: dict[str, Any]) -> Input | Happening:
    match fields:
        case {"kind": "received", "bytes": str(text)}:
            envelope = _opened(path, place, text)
            if envelope.receiver == process:
                return Received(envelope.sender, envelope.message)
        case {"kind": "leave", "after": int(after)}:
            return Leave(after)
        case {"kind": "lost", "node": int(node), "why": str(why), "life": int(incarnation)}:
            return Lost(node, why, incarnation)
        case {"kind": "admitted", "bytes": str(text)}:
            message = _opened(path, place, text).message
            if isinstance(message, Request):
                return Admitted(message)
        case {"kind": str(kind)} if kind in _HAPPENINGS:
            return _HAPPENINGS[kind]
    raise _damaged(path, place, "its keys are not those of an event")


def _opened(path: Path, place: int, text: str) -> wire.Envelope:
    try:
        return wire.decode(b64decode(text, validate=True))
    except (ValueError, BequestError) as error:
        raise _damaged(path, place, "its bytes are not a message") from error


def _damaged(path: Path, place: int, why: str) -> InvalidLog:
    return InvalidLog(
        f"{path} is damaged in line {place}: {why}.",
        remedy="Use an undamaged copy, or write it anew with bequest run --log.",
    )


def _breaks_off(path: Path, number: int, where: str = "") -> InvalidLog:
    return InvalidLog(
        f"{path} breaks off after event {number}{where}: "
        "its run was ended from outside, or is still going on.",
        remedy="What comes before is good; run it again with --log to have it all.",
    )
