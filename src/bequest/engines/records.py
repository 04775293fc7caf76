"""Finished runs as files: the outcome, the fingerprint of the run, and where it took place.

A record, everything little-endian::

    0    4  magic         b"BQRC"
    4    2  version       of the format; these six bytes are the same in every version
    6    2  zeros
    8    8  length        of the content
    16      content       msgpack: the fingerprint, the scene and the outcome, field by field
        32  SHA-256       of everything before it

Nothing that is read is believed before its checksum is right, and then only if it has the form of
an outcome and its parts fit together (``coherence``). Never pickle: a file may have come from
anywhere.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, get_type_hints

import numpy as np
from msgspec import MsgspecError, Struct, defstruct, msgpack
from msgspec.structs import asdict

from bequest import files
from bequest.core.arrays import frozen
from bequest.core.legacy import Legacy
from bequest.core.samples import Clusters
from bequest.core.steps import StepChoice
from bequest.engines import coherence
from bequest.engines.fingerprint import NODES, ROUNDS, UNKNOWNS, differences, without_losses
from bequest.errors import InvalidResult
from bequest.model.outcome import ChangeRecord, DepartureRecord, Outcome, Status, Trajectory
from bequest.model.plan import Scene
from bequest.model.wills import Choice

if TYPE_CHECKING:
    from pathlib import Path

VERSION = 2

_MAGIC = b"BQRC"
_PREFIX = struct.Struct("<4sHHQ")
_CHECKSUM_LENGTH = 32
_DTYPE = np.dtype("<f8")
_SIZE = (NODES, UNKNOWNS, ROUNDS)


# --- the form ------------------------------------------------------------------------------


class _ArrayForm(Struct, frozen=True, forbid_unknown_fields=True):
    shape: tuple[int, ...]
    numbers: bytes

    def restored(self) -> np.ndarray:
        return frozen(np.frombuffer(self.numbers, _DTYPE).reshape(self.shape))


class _SamplesForm(Struct, frozen=True, forbid_unknown_fields=True):
    """Clusters, without the points that are drawn from them."""

    origins: tuple[int, ...]
    form: tuple[str, tuple[float, ...]]
    shares: _ArrayForm
    labels: _ArrayForm
    means: _ArrayForm
    factors: _ArrayForm
    key: tuple[int, int]
    sign: int

    def restored(self) -> Clusters:
        return Clusters(
            self.origins,
            self.form,
            self.shares.restored(),
            self.labels.restored(),
            self.means.restored(),
            self.factors.restored(),
            self.key,
            self.sign,
        )


class _LegacyForm(Struct, frozen=True, forbid_unknown_fields=True):
    """A legacy; ``by_columns`` says how F lies in memory, so that products round alike."""

    eta: float
    c: float
    p: _ArrayForm
    lineage: dict[int, int]
    factor: _ArrayForm
    weights: _ArrayForm
    blended: list[int]
    by_columns: bool
    samples: list[_SamplesForm] = []

    def restored(self) -> Legacy:
        factor = self.factor.restored()
        return Legacy(
            self.eta,
            self.p.restored(),
            self.c,
            self.lineage,
            np.asfortranarray(factor) if self.by_columns else factor,
            self.weights.restored(),
            frozenset(self.blended),
            tuple(part.restored() for part in self.samples),
        )


# name in an annotation -> its form in a file
_MEANINGS: dict[str, Any] = {
    "Vector": _ArrayForm,
    "Matrix": _ArrayForm,
    "Legacy": _LegacyForm,
    "Choice": Choice,
    "Status": Status,
    "Mapping": Mapping,
}
_KINDS: dict[type[Struct], type] = {}


def _form_of(kind: type) -> type[Struct]:
    """Return the form of a dataclass in a file, field by field."""
    hints = get_type_hints(kind, localns=_MEANINGS)
    named = [(field.name, hints[field.name]) for field in dataclasses.fields(kind)]
    form = defstruct(kind.__name__, named, frozen=True, forbid_unknown_fields=True)
    _MEANINGS[kind.__name__], _KINDS[form] = form, kind
    return form


for _kind in (StepChoice, Trajectory, DepartureRecord, ChangeRecord, Scene):
    _form_of(_kind)
_CONTENT = defstruct(
    "Content",
    [
        ("fingerprint", dict[str, str]),
        ("scene", _MEANINGS["Scene"]),
        ("outcome", _form_of(Outcome)),
    ],
    forbid_unknown_fields=True,
)


def _spelled(value: Any) -> Any:  # noqa: ANN401 - any part of an outcome
    """Return the same as plain data."""
    match value:
        case np.ndarray():
            return {"shape": value.shape, "numbers": value.astype(_DTYPE, copy=False).tobytes()}
        case Legacy():
            names = [name for name in _LegacyForm.__struct_fields__ if name != "by_columns"]
            held = {name: _spelled(getattr(value, name)) for name in names}
            return held | {"by_columns": not value.factor.flags.c_contiguous}
        case Clusters():
            told = _SamplesForm.__struct_fields__
            return {name: _spelled(getattr(value, name)) for name in told}
        case Mapping():
            return {key: _spelled(part) for key, part in value.items()}
        case tuple():
            return [_spelled(part) for part in value]
        case frozenset():
            return sorted(value)
        case np.generic():
            return value.item()
    if dataclasses.is_dataclass(value):
        return {f.name: _spelled(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return value


def _restored(value: Any) -> Any:  # noqa: ANN401 - any part of the file
    if isinstance(value, _ArrayForm | _LegacyForm):
        return value.restored()
    if isinstance(value, Struct):
        fields = {name: _restored(part) for name, part in asdict(value).items()}
        return _KINDS[type(value)](**fields)
    if isinstance(value, tuple):
        return tuple(map(_restored, value))
    if isinstance(value, dict):
        return {key: _restored(part) for key, part in value.items()}
    return value


_DECODER: msgpack.Decoder[Any] = msgpack.Decoder(_CONTENT)


# --- files ---------------------------------------------------------------------------------


class Record(NamedTuple):
    """What a record holds: what tells the run from others, where it took place, what came out."""

    fingerprint: Mapping[str, str]
    scene: Scene
    outcome: Outcome


def write(path: Path, record: Record) -> None:
    """Write the record of a run.

    Raises:
        CannotWrite: it cannot be written there.
    """
    files.write(path, encode(record))


def find(
    path: Path, fingerprint: Mapping[str, str], *, unseen: Collection[int] = ()
) -> Outcome | None:
    """Return the outcome of the run that has this fingerprint; None if there is no such file.

    ``unseen`` are nodes whose losses cannot be looked into any more, and are not compared.

    Raises:
        InvalidResult: the file is not a record, is damaged, or is the record of another run.
    """
    content = files.read(path)
    if content is None:
        return None
    there = decode(content, path)
    other = differences(
        without_losses(there.fingerprint, unseen), without_losses(fingerprint, unseen)
    )
    if other:
        raise InvalidResult(
            f"{path} is the record of another run; what differs: {other}.",
            remedy="Change it back to go on from there; or choose another place for the record, "
            "or move this one away, to run it anew.",
        )
    return there.outcome


def encode(record: Record) -> bytes:
    """Return a record as bytes."""
    parts = {name: _spelled(part) for name, part in record._asdict().items()}
    content = msgpack.encode(parts)
    whole = _PREFIX.pack(_MAGIC, VERSION, 0, len(content)) + content
    return whole + sha256(whole).digest()


def is_record(data: bytes) -> bool:
    """Whether a file begins like a record of some version."""
    return data.startswith(_MAGIC)


def decode(data: bytes, path: Path) -> Record:
    """Return the record in the bytes of a file.

    Raises:
        InvalidResult: they are no record, or a damaged one, or one of another version.
    """
    if len(data) < _PREFIX.size + _CHECKSUM_LENGTH:
        _refuse(path, "it is empty" if not data else "it is too short")
    magic, version, zeros, length = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        _refuse(path, "it does not begin like one")
    if version != VERSION:
        raise InvalidResult(
            f"{path} is a record in version {version} of the format; we read version {VERSION}.",
            remedy="Read it with the release of bequest that wrote it, or move it away.",
        )
    content = data[_PREFIX.size : -_CHECKSUM_LENGTH]
    if zeros or length != len(content):
        _refuse(path, f"it should have {length} bytes of content, and has {len(content)}")
    if sha256(data[:-_CHECKSUM_LENGTH]).digest() != data[-_CHECKSUM_LENGTH:]:
        _refuse(path, "it was altered, its checksum is wrong")
    try:
        found = _DECODER.decode(content)
        scene, outcome = _restored(found.scene), _restored(found.outcome)
        nodes, unknowns, rounds = (int(found.fingerprint[part]) for part in _SIZE)
        coherence.check(outcome, scene, nodes=nodes, unknowns=unknowns, rounds=rounds)
    except (MsgspecError, ValueError, KeyError) as error:
        raise _refusal(path, f"it does not hold an outcome ({error})") from error
    return Record(found.fingerprint, scene, outcome)


def _refusal(path: Path, why: str) -> InvalidResult:
    return InvalidResult(
        f"{path} is not the record of a run, or a damaged one: {why}.",
        remedy="Use an undamaged copy; or move it away to run it anew.",
    )


def _refuse(path: Path, why: str) -> NoReturn:
    raise _refusal(path, why)
