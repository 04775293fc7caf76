"""Messages as bytes, and bytes as messages.

A message on the wire, everything little-endian::

    0    4  magic            b"BQST"
    4    2  version          these six bytes are the same in every version
    6    1  kind             its place in ``messages.KINDS``
    7    1  width            bytes per number in the vectors: 8 (float64) or 4 (float32)
    8    8  total length
    16   4  header length
    20      header           msgpack: sender, receiver and the message's fields, by name
            zeros            up to a multiple of 8, so that vectors can be used where they are
            vectors          raw numbers, in the order of the fields
         4  CRC-32           of everything before it

In the header a vector is its length, and a legacy is everything but its numbers: p (unless it is
zero beside samples), F and w, and of each of its samples shares, labels, means and factors. Nothing
that is read is believed: whatever cannot be a message is refused by name, and no claim about a
length is acted on before the bytes are there. What the vectors hold is not judged here, though:
that is the node's business.

Never pickle: these bytes come from others.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_type_hints
from zlib import crc32

import numpy as np
from msgspec import Meta, Struct, defstruct
from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import asdict

from bequest.core.arrays import frozen
from bequest.core.legacy import Legacy
from bequest.errors import MalformedMessage, MessageTooLarge, UnsupportedVersion
from bequest.protocol.legacy_header import LARGEST, Finite, LegacyHeader, Length, Natural, spelled
from bequest.protocol.messages import KINDS, STEWARD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bequest.core.arrays import Vector
    from bequest.protocol.messages import Message

VERSION = 4
# Earlier versions had no more than these, and what they lacked has a default.
_READABLE = (1, 2, 3, 4)
# The most memory that reading one message may take, unless one says otherwise.
DEFAULT_LIMIT = 1 << 30

_MAGIC = b"BQST"
_PREFIX = struct.Struct("<4sHBBQI")
_CHECKSUM = struct.Struct("<I")
# The CRC-32 of any bytes with their own CRC-32 behind them.
_RESIDUE = 0x2144DF1C
_ALIGNMENT = 8
_WIDTHS = {"float64": 8, "float32": 4}
_DTYPES: dict[int, np.dtype[Any]] = {8: np.dtype("<f8"), 4: np.dtype("<f4")}

# Reading takes at most this much memory. Bytes that others can change are copied, and a legacy
# copies its numbers, in float64, up to twice. The most wasteful header is one long lineage, whose
# dictionary is sorted into another one; that takes up to 75.
_BYTES_PER_NUMBER = 24
_BYTES_PER_HEADER_BYTE = 128

_Address = Annotated[int, Meta(ge=STEWARD, le=LARGEST)]


class Envelope(Struct, frozen=True):
    """A message, its sender and its receiver."""

    sender: int
    receiver: int
    message: Message


# What a field is called on the wire, where that is not its name.
_CALLED = {"incarnation": "life", "pace": "step"}

# What the names in a message's annotations stand for in a header.
_MEANINGS: dict[str, Any] = {
    "int": Natural,
    "float": Finite,
    "Vector": Length,
    "Legacy": LegacyHeader,
    "Purpose": Literal["join", "return", "forget"],
}


# Nothing in a form can refer back to it, so the garbage collector need not look (gc=False).
def _form_of(kind: type[Message]) -> type[Struct]:
    """Return what a message of this kind looks like in a header, field by field."""
    hints = get_type_hints(kind, localns=_MEANINGS, include_extras=True)
    fields: list[Any] = []
    for field in dataclasses.fields(kind):
        required = field.default is dataclasses.MISSING
        wanted = (field.name, hints[field.name])
        fields.append(wanted if required else (*wanted, field.default))
    return defstruct(
        kind.__name__,
        fields,
        frozen=True,
        forbid_unknown_fields=True,
        gc=False,
        rename=_CALLED,
    )


class _Layout:
    """How one kind of message is written and read.

    Attributes:
        kind: its class.
        form: what its fields are in a header.
        fields: their names.
        arrays: those of them whose numbers follow the header.
        messages: those of them that are messages themselves; these have no vectors.
        decoder: reads, and checks, a whole header.
    """

    __slots__ = ("arrays", "decoder", "fields", "form", "kind", "messages")

    def __init__(self, kind: type[Message]) -> None:
        says = {field.name: str(field.type) for field in dataclasses.fields(kind)}
        inside = tuple(other.__name__ for other in KINDS)
        self.kind = kind
        self.form = _form_of(kind)
        self.fields = tuple(says)
        self.arrays = tuple(name for name in says if says[name].startswith(("Vector", "Legacy")))
        self.messages = tuple(name for name in says if says[name].startswith(inside))
        parts = [("sender", _Address), ("receiver", _Address), ("message", self.form)]
        self.decoder: Decoder[Any] = Decoder(
            defstruct("Header", parts, frozen=True, forbid_unknown_fields=True, gc=False)
        )
        _MEANINGS[kind.__name__] = self.form  # for the messages that it is inside of

    def form_of(self, message: Message) -> Struct:
        """Return a message without vectors as what stands in a header."""
        return self.form(*(getattr(message, name) for name in self.fields))

    def read(self, header: bytes) -> tuple[Any, int]:
        """Return a header, checked, and how many numbers it says will follow.

        Raises:
            ValueError: it is not a header of this kind.
        """
        found = self.decoder.decode(header)
        described = 0
        for name in self.arrays:
            described += _numbers(getattr(found.message, name))
        return found, described

    def zeros(self, form: Any) -> int:  # noqa: ANN401 - of this kind
        """Return how many zeros its legacies leave out."""
        parts = (getattr(form, name) for name in self.arrays)
        return sum(part.zeros for part in parts if isinstance(part, LegacyHeader))


def _numbers(part: int | LegacyHeader | None) -> int:
    """Return how many numbers follow the header for a field."""
    if isinstance(part, int):
        return part
    return 0 if part is None else part.numbers


_LAYOUTS = tuple(_Layout(kind) for kind in KINDS)
_NUMBER_OF = {kind: number for number, kind in enumerate(KINDS)}
_LAYOUT_OF = {layout.form: layout for layout in _LAYOUTS}


# --- writing -------------------------------------------------------------------------------


def encode(
    sender: int,
    receiver: int,
    message: Message,
    *,
    precision: Literal["float64", "float32"] = "float64",
) -> bytes:
    """Return a message as bytes.

    Args:
        sender: the process that it is from.
        receiver: the process that it is for.
        message: what.
        precision: of the vectors; all other numbers are float64. In float32 what is too large for
            it becomes infinite.

    Raises:
        TypeError: it is not a message.
        MalformedMessage: its fields hold what no receiver would accept.
    """
    number = _NUMBER_OF.get(type(message))
    if number is None:
        raise TypeError(f"{type(message).__name__} is not a kind of message")
    layout, width = _LAYOUTS[number], _WIDTHS[precision]
    arrays: list[NDArray[Any]] = []
    try:
        fields = {name: getattr(message, name) for name in layout.fields}
        for name in layout.arrays:
            fields[name] = _spelled(fields[name], arrays)
        for name in layout.messages:
            if fields[name] is not None:
                fields[name] = _LAYOUTS[_NUMBER_OF[type(fields[name])]].form_of(fields[name])
        body = layout.form(**fields)
        header = _ENCODER.encode({"sender": sender, "receiver": receiver, "message": body})
        _, count = layout.read(header)  # what no receiver would accept is not sent
        vectors = _raw(arrays, width)
    except (TypeError, ValueError, OverflowError) as error:
        raise MalformedMessage(
            f"This {type(message).__name__} cannot be sent: {error}.",
            remedy="Give each field what the message's class says.",
        ) from error
    end = _PREFIX.size + len(header)
    begin = end + -end % _ALIGNMENT
    total = begin + count * width + _CHECKSUM.size
    prefix = _PREFIX.pack(_MAGIC, VERSION, number, width, total, len(header))
    head = (prefix + header).ljust(begin, b"\0")
    checksum = crc32(head)
    for vector in vectors:
        checksum = crc32(vector, checksum)
    return b"".join((head, *vectors, _CHECKSUM.pack(checksum)))


def _spelled(value: object, arrays: list[NDArray[Any]]) -> object:
    """Return what the header says about a field with vectors; append these to ``arrays``."""
    if isinstance(value, np.ndarray):
        if value.ndim != 1:
            raise ValueError(f"a vector has the shape {value.shape}")
        arrays.append(value)
        return value.size
    if isinstance(value, Legacy):
        return spelled(value, arrays)
    if value is not None:
        raise TypeError(f"{type(value).__name__} is neither a vector nor a legacy")
    return None


def _plain(value: object) -> object:
    """Return a number of NumPy's as one of Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no type for a field")


_ENCODER = Encoder(enc_hook=_plain)


def _raw(arrays: list[NDArray[Any]], width: int) -> list[memoryview]:
    """Return the numbers as they lie on the wire."""
    if width == _WIDTHS["float32"]:
        with np.errstate(over="ignore", invalid="ignore"):
            arrays = [array.astype(np.float32) for array in arrays]
    return [np.ascontiguousarray(array, _DTYPES[width]).data for array in arrays]


# --- reading -------------------------------------------------------------------------------


def decode(data: bytes | bytearray | memoryview, *, limit: int = DEFAULT_LIMIT) -> Envelope:
    """Return the message that these bytes are.

    Vectors are read-only. Those in float64 stay where they are, in ``data``, if it is ``bytes``;
    anything else could still be changed by others and is copied first.

    Args:
        data: one message, the whole of it and nothing else.
        limit: the most memory, in bytes, that reading it may take.

    Raises:
        UnsupportedVersion: a message of another version.
        MessageTooLarge: reading it could take more than ``limit``.
        MalformedMessage: anything else that is not a message.
    """
    size = len(data) if isinstance(data, bytes) else memoryview(data).nbytes
    if size > limit:
        raise _too_large(size, limit)
    raw = data if isinstance(data, bytes) else bytes(data)
    number, width, header_length = _opened(raw)
    end = _PREFIX.size + header_length
    begin = end + -end % _ALIGNMENT
    room = size - _CHECKSUM.size - begin
    if number >= len(KINDS) or width not in _DTYPES or room < 0 or room % width:
        raise _malformed("its prefix makes no sense")
    if any(raw[end:begin]):
        raise _malformed("there is something between its header and its vectors")
    count = room // width
    needed = _BYTES_PER_NUMBER * count + _BYTES_PER_HEADER_BYTE * header_length
    if needed > limit:
        raise _too_large(needed, limit)
    try:
        header, described = _LAYOUTS[number].read(raw[_PREFIX.size : end])
    except ValueError as error:
        raise _malformed(f"in its header: {error}") from error
    # A slope of zeros is not sent, and takes its room all the same.
    needed += _BYTES_PER_NUMBER * _LAYOUTS[number].zeros(header.message)
    if needed > limit:
        raise _too_large(needed, limit)
    if described != count:
        raise _malformed(f"its header describes {described} numbers, and there are {count}")
    message = cast("Message", _restored(header.message, raw, _DTYPES[width], begin))
    return Envelope(header.sender, header.receiver, message)


def _opened(raw: bytes) -> tuple[int, int, int]:
    """Return what the prefix says: the kind's number, the width and the header's length."""
    if len(raw) < _PREFIX.size + _CHECKSUM.size:
        raise _malformed(f"{len(raw)} bytes are too few")
    magic, version, number, width, total, header_length = _PREFIX.unpack_from(raw)
    if magic != _MAGIC:
        raise _malformed("it does not begin like one")
    if version not in _READABLE:
        raise UnsupportedVersion(
            f"This message is in version {version} of the format, and we speak version {VERSION}.",
            remedy="Let all nodes run the same release of bequest.",
        )
    if total != len(raw):
        raise _malformed(f"it says that it has {total} bytes, and there are {len(raw)}")
    if crc32(raw) != _RESIDUE:
        raise _malformed("its checksum is wrong")
    return number, width, header_length


def _restored(form: Struct, raw: bytes, dtype: np.dtype[Any], begin: int) -> object:
    """Return the message whose fields are in a header and whose numbers begin there."""
    layout = _LAYOUT_OF[type(form)]
    values = asdict(form)
    for name in layout.arrays:
        part = values[name]
        length = _numbers(part)
        values[name] = _array(part, np.frombuffer(raw, dtype, length, begin))
        begin += length * dtype.itemsize
    for name in layout.messages:
        if values[name] is not None:
            values[name] = _restored(values[name], raw, dtype, begin)
    return layout.kind(*values.values())


def _array(part: int | LegacyHeader | None, numbers: NDArray[Any]) -> Vector | Legacy | None:
    """Return the vector or the legacy that these numbers, all of them, are."""
    if numbers.itemsize == _WIDTHS["float32"]:
        with np.errstate(invalid="ignore"):  # some kinds of NaN make NumPy warn
            numbers = frozen(numbers)
    if isinstance(part, int):
        return numbers
    if part is None:
        return None
    return part.restored(numbers)


def _malformed(why: str) -> MalformedMessage:
    return MalformedMessage(
        f"These bytes are not a message: {why}.",
        remedy="Check what sends to this address, and whether anything alters it on its way.",
    )


def _too_large(needed: int, limit: int) -> MessageTooLarge:
    return MessageTooLarge(
        f"Reading this message could take {needed} bytes, and the limit is {limit}.",
        remedy="Raise the limit if the problem's dimension asks for it.",
    )
