"""All messages from one host to another as one contiguous buffer.

A batch, everything little-endian::

    0    4  magic               b"BQPC"
    4    4  exchanges           how many
    8    4  other messages      how many
    12   4  width               numbers per payload
    16   8  receivers           how many of the exchanges, all together
    24      heads               4 int64 per exchange: sender, epoch, round, how many receivers
            receivers           int64 each, in the order of the exchanges
            payloads            float64, a row per exchange
            other messages      (length, receivers) int64 each, the receivers, a ``wire`` message
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
_OTHER = struct.Struct("<qq")
_CHECKSUM = struct.Struct("<I")
_WHOLE, _REAL = np.dtype("<i8"), np.dtype("<f8")


class Addressed(NamedTuple):
    """A message from one node to some on one host."""

    sender: int
    receivers: tuple[int, ...]
    message: Message


def pack(messages: Sequence[Addressed]) -> bytes:
    """Return messages as one buffer.

    Raises:
        MalformedMessage: one of them cannot be sent.
    """
    exchanges: list[tuple[int, tuple[int, ...], Exchange]] = []
    others: list[bytes] = []
    for sender, receivers, message in messages:
        if isinstance(message, Exchange):
            exchanges.append((sender, receivers, message))
            continue
        body = wire.encode(sender, receivers[0], message)
        others.append(_OTHER.pack(len(body), len(receivers)))
        others.append(np.array(receivers, _WHOLE).tobytes())
        others.append(body)
    heads = [(sender, m.epoch, m.round, len(to)) for sender, to, m in exchanges]
    addressed = list(chain.from_iterable(to for _, to, _ in exchanges))
    width = exchanges[0][2].payload.size if exchanges else 0
    parts: list[bytes | memoryview] = [
        _PREFIX.pack(_MAGIC, len(exchanges), len(others) // 3, width, len(addressed)),
        np.array(heads, _WHOLE).tobytes(),
        np.array(addressed, _WHOLE).tobytes(),
        *(np.ascontiguousarray(m.payload, _REAL).data for _, _, m in exchanges),
        *others,
    ]
    body = b"".join(parts)
    return body + _CHECKSUM.pack(crc32(body))


def unpack(batch: bytes) -> list[Addressed]:
    """Return the messages of a batch; their vectors stay where they are, read-only.

    Raises:
        MalformedMessage: it is not a batch.
    """
    try:
        return _unpack(batch)
    except (ValueError, struct.error, OverflowError) as error:
        raise _malformed(str(error)) from error


def _unpack(batch: bytes) -> list[Addressed]:
    end = len(batch) - _CHECKSUM.size
    magic, count, others, width, receivers = _PREFIX.unpack_from(batch)
    if magic != _MAGIC or _CHECKSUM.unpack_from(batch, end)[0] != crc32(batch[:end]):
        raise _malformed("its beginning or its checksum is wrong")
    place = _PREFIX.size
    heads = np.frombuffer(batch, _WHOLE, 4 * count, place).reshape(count, 4).tolist()
    place += 32 * count
    addressed = np.frombuffer(batch, _WHOLE, receivers, place).tolist()
    place += 8 * receivers
    payloads = np.frombuffer(batch, _REAL, count * width, place).reshape(count, width)
    place += 8 * count * width
    messages: list[Addressed] = []
    first = 0
    for (sender, epoch, round_, size), payload in zip(heads, payloads, strict=True):
        to = tuple(addressed[first : first + size])
        messages.append(Addressed(sender, to, Exchange(epoch, round_, payload)))
        first += size
    for _ in range(others):
        length, size = _OTHER.unpack_from(batch, place)
        place += _OTHER.size
        to = tuple(np.frombuffer(batch, _WHOLE, size, place).tolist())
        place += 8 * size
        envelope = wire.decode(batch[place : place + length])
        messages.append(Addressed(envelope.sender, to, envelope.message))
        place += length
    if place != end or first != receivers:
        raise _malformed("its lengths do not add up")
    return messages


def _malformed(why: str) -> MalformedMessage:
    return MalformedMessage(
        f"These bytes are not a batch of messages: {why}.",
        remedy="Let all machines run the same release of bequest.",
    )
