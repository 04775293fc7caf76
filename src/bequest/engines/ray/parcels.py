"""All messages from one host to another as one contiguous buffer.

A parcel, everything little-endian::

    0    4  magic               b"BQPC"
    4    4  exchanges           how many
    8    4  other letters       how many
    12   4  width               numbers per payload
    16   8  receivers           how many of the exchanges, all together
    24      heads               4 int64 per exchange: sender, epoch, round, how many receivers
            receivers           int64 each, in the order of the exchanges
            payloads            float64, a row per exchange
            other letters       (length, receivers) int64 each, the receivers, a ``wire`` message
         4  CRC-32              of everything before it

Exchanges are what travels in every round. A message of ``wire`` each would cost more than the
mixing does; as one block they cost a copy. A payload that goes to several nodes of a host travels
once.
"""

from __future__ import annotations

import struct
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from bequest.errors import MalformedMessage
from bequest.protocol import wire
from bequest.protocol.messages import Exchange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.protocol.messages import Message

_MAGIC = b"BQPC"
_PREFIX = struct.Struct("<4sIIIQ")
_LETTER = struct.Struct("<qq")
_CHECKSUM = struct.Struct("<I")
_WHOLE, _REAL = np.dtype("<i8"), np.dtype("<f8")


class Letter(NamedTuple):
    """A message from one node to some that live together."""

    sender: int
    receivers: tuple[int, ...]
    message: Message


def pack(letters: Sequence[Letter]) -> bytes:
    """Return letters as one buffer.

    Raises:
        MalformedMessage: one of them cannot be sent.
    """
    exchanges: list[tuple[int, tuple[int, ...], Exchange]] = []
    others: list[bytes] = []
    for sender, receivers, message in letters:
        if isinstance(message, Exchange):
            exchanges.append((sender, receivers, message))
            continue
        body = wire.encode(sender, receivers[0], message)
        others.append(_LETTER.pack(len(body), len(receivers)))
        others.append(np.array(receivers, _WHOLE).tobytes())
        others.append(body)
    heads = [(sender, m.epoch, m.round, len(to)) for sender, to, m in exchanges]
    everybody = list(chain.from_iterable(to for _, to, _ in exchanges))
    width = exchanges[0][2].payload.size if exchanges else 0
    parts: list[bytes | memoryview] = [
        _PREFIX.pack(_MAGIC, len(exchanges), len(others) // 3, width, len(everybody)),
        np.array(heads, _WHOLE).tobytes(),
        np.array(everybody, _WHOLE).tobytes(),
        *(np.ascontiguousarray(m.payload, _REAL).data for _, _, m in exchanges),
        *others,
    ]
    body = b"".join(parts)
    return body + _CHECKSUM.pack(crc32(body))


def unpack(parcel: bytes) -> list[Letter]:
    """Return the letters in a parcel; their vectors stay where they are, read-only.

    Raises:
        MalformedMessage: it is not a parcel.
    """
    try:
        return _unpack(parcel)
    except (ValueError, struct.error, OverflowError) as error:
        raise _malformed(str(error)) from error


def _unpack(parcel: bytes) -> list[Letter]:
    end = len(parcel) - _CHECKSUM.size
    magic, count, others, width, receivers = _PREFIX.unpack_from(parcel)
    if magic != _MAGIC or _CHECKSUM.unpack_from(parcel, end)[0] != crc32(parcel[:end]):
        raise _malformed("its beginning or its checksum is wrong")
    place = _PREFIX.size
    heads = np.frombuffer(parcel, _WHOLE, 4 * count, place).reshape(count, 4).tolist()
    place += 32 * count
    everybody = np.frombuffer(parcel, _WHOLE, receivers, place).tolist()
    place += 8 * receivers
    payloads = np.frombuffer(parcel, _REAL, count * width, place).reshape(count, width)
    place += 8 * count * width
    letters: list[Letter] = []
    first = 0
    for (sender, epoch, round_, size), payload in zip(heads, payloads, strict=True):
        to = tuple(everybody[first : first + size])
        letters.append(Letter(sender, to, Exchange(epoch, round_, payload)))
        first += size
    for _ in range(others):
        length, size = _LETTER.unpack_from(parcel, place)
        place += _LETTER.size
        to = tuple(np.frombuffer(parcel, _WHOLE, size, place).tolist())
        place += 8 * size
        envelope = wire.decode(parcel[place : place + length])
        letters.append(Letter(envelope.sender, to, envelope.message))
        place += length
    if place != end or first != receivers:
        raise _malformed("its lengths do not add up")
    return letters


def _malformed(why: str) -> MalformedMessage:
    return MalformedMessage(
        f"These bytes are not a parcel: {why}.",
        remedy="Let all machines run the same release of bequest.",
    )
