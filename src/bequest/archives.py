"""Arrays by name, read from NPZ files: all that were written, if they fit into memory.

Files come from elsewhere: how much one unpacks to is looked up before it is unpacked, and an
archive whose directory does not list what it holds is refused.
"""

from __future__ import annotations

import lzma
import math
import struct
import zipfile
import zlib
from collections import Counter
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from bequest import memory

if TYPE_CHECKING:
    from pathlib import Path

    from bequest.errors import InvalidInput

# What the unpacking of a damaged archive can raise.
UNREADABLE = (
    ValueError,
    EOFError,
    RuntimeError,  # a damaged flag says that it is encrypted, or of a method of the future
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
# Measured numbers do not shrink to a hundredth; and if some did, a file that unpacks to this many
# bytes can be stored as it is.
_LARGE, _SHRINKS = 256_000_000, 100
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# The record at the end of an archive: how it begins, where in it the number of entries stands, how
# long it is without its comment, and the number that says that there are too many to say here.
_END, _COUNT, _LENGTH, _MANY = b"PK\x05\x06", 10, 22, 0xFFFF


def read_arrays(
    path: Path, stream: BinaryIO, *, packed: int, copies: int, error: type[InvalidInput]
) -> dict[str, np.ndarray]:
    """Return all arrays of an NPZ file by name.

    Args:
        path: where it is, to name it.
        stream: what it holds.
        packed: how many bytes that is.
        copies: how many copies of the arrays are needed.
        error: what to raise if they cannot fit into memory.

    Raises:
        UNREADABLE: it is damaged, or no such file.
    """
    if not zipfile.is_zipfile(stream):
        raise ValueError("it is no archive of arrays with names")
    entries = _entries(stream, packed)
    stream.seek(0)
    with zipfile.ZipFile(stream) as archive:
        listed = archive.infolist()
        if entries not in (_MANY, len(listed)):
            raise ValueError(f"its directory lists {len(listed)} arrays, and it holds {entries}")
        names = Counter(one.filename.removesuffix(".npy") for one in listed)
        twice = next((name for name, count in names.items() if count > 1), None)
        if twice is not None:
            raise ValueError(f'it holds two arrays called "{twice}"')
        remedy = "If it is right, write it with numpy.savez, which does not compress."
        unpacked = sum(one.file_size for one in listed)
        for size in (unpacked, sum(_declared(archive, one) for one in listed)):
            check_size(path, size, packed=packed, copies=copies, remedy=remedy, error=error)
    stream.seek(0)
    with np.load(stream, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def check_size(
    path: Path,
    size: float,
    *,
    packed: int,
    copies: int,
    remedy: str,
    error: type[InvalidInput],
) -> None:
    """Refuse a file that unpacks to more than fits into memory, or than is plausible."""
    if size > max(_LARGE, _SHRINKS * packed):
        raise error(
            f"{path} is a file of {memory.shown(packed)} that unpacks to {memory.shown(size)}, "
            f"{size / packed:.0f} times as much.",
            remedy=remedy,
        )
    memory.check(
        copies * size,
        f"{path}, which unpacks to {memory.shown(size)},",
        remedy="Use fewer rows or columns, or split it.",
        error=error,
    )


def _entries(stream: BinaryIO, packed: int) -> int:
    """Return how many entries an archive says at its end that it has."""
    stream.seek(-min(packed, _LENGTH + _MANY), 2)
    tail = stream.read()
    place = tail.rfind(_END)
    (count,) = struct.unpack_from("<H", tail, place + _COUNT)
    return int(count)


def _declared(archive: zipfile.ZipFile, one: zipfile.ZipInfo) -> float:
    """Return how many bytes an array takes in a table, by what its header says."""
    with archive.open(one) as member:
        version = np.lib.format.read_magic(member)
        if version not in _HEADERS:
            raise ValueError(f"it holds an array in version {version} of the format")
        shape, _, dtype = _HEADERS[version](member)
    letters = {"U": dtype.itemsize, "S": 4 * dtype.itemsize}
    return math.prod(float(side) for side in shape) * max(letters.get(dtype.kind, 8), 8)
