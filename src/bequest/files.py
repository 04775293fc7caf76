"""Files that are written as a whole or not at all, and files that grow line by line."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bequest.errors import CannotWrite, InvalidResult

if TYPE_CHECKING:
    from collections.abc import Iterator

# Errors of the operating system: the disk is full, or broken.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def parsed(content: bytes | str) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return what is in JSON whose numbers are all finite: NaN, Infinity and 1e999 are no JSON.

    Raises:
        ValueError: it is none.
        RecursionError: it is too deep.
    """
    return json.loads(content, parse_constant=_finite, parse_float=_finite)


def _finite(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(f"{written} is no finite number")
    return number


def write(path: Path, content: bytes) -> None:
    """Write a file so that readers see the old one or the new one, and never a part of it.

    Raises:
        CannotWrite: it cannot be written there.
    """
    with _explained(path):
        _refuse_named_pipe(path)
        if _is_special(path):  # a device or our own output is written to, not replaced
            path.write_bytes(content)
            return
        target = Path(os.path.realpath(path))  # a link stays a link
        draft = _draft(target)
        try:
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)


def read(path: Path) -> bytes | None:
    """Return what a file holds; None if there is none.

    Raises:
        InvalidResult: it cannot be read; or it is no ordinary file, such as a pipe, which would
            keep its reader waiting.
    """
    try:
        # Do not wait for the other end of a pipe.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(None, "it is not an ordinary file")
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidResult(
            f"{path} cannot be read: {(error.strerror or str(error)).lower()}.",
            remedy="Choose another place, or check its permissions.",
        ) from error


def check_writable(path: Path) -> None:
    """Fail now rather than after a long computation if ``path`` cannot be written later.

    Raises:
        CannotWrite: it cannot.
    """
    with _explained(path):
        if path.is_dir():
            raise IsADirectoryError(None, "it is a folder")
        _refuse_named_pipe(path)
        if not _is_special(path):
            _probe(Path(os.path.realpath(path)))


def is_named_pipe(path: Path) -> bool:
    """Whether opening it would wait, perhaps for ever, for a process at the other end.

    The pipes that the shell gives us (/dev/stdout, <(...)) are open already, and have no path.
    """
    return Path(os.path.realpath(path)).is_fifo()


def make_folder(path: Path) -> None:
    """Create a folder, and those above it, if it is not there, and check that it is writable.

    Raises:
        CannotWrite: it cannot be created, or is not writable.
    """
    with _explained(path):
        path.mkdir(parents=True, exist_ok=True)
        _probe(path / "figure")


def refuse_existing(path: Path, option: str) -> None:
    """Refuse to replace what took a run to make, unless that is asked for.

    Raises:
        CannotWrite: there is such a file already.
    """
    if os.path.lexists(path) and not _is_special(path):
        raise CannotWrite(
            f"{option}: {path} is there already.",
            remedy="Add --overwrite to replace it, or choose another place.",
        )


class Growing:
    """A file that grows; what was written is there even if we are killed.

    Raises:
        CannotWrite: it cannot be opened; or, when it is written to, cannot be written any more.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with _explained(path):
            _refuse_named_pipe(path)
            self._file = path.open("wb")

    def write(self, content: bytes) -> None:
        """Append, and flush to the operating system."""
        with _explained(self._path):
            self._file.write(content)
            self._file.flush()

    def close(self) -> None:
        """End it."""
        with _explained(self._path):
            self._file.close()


def _probe(target: Path) -> None:
    draft = _draft(target)
    draft.touch(exist_ok=False)
    draft.unlink()


def _draft(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.part")


def _refuse_named_pipe(path: Path) -> None:
    if is_named_pipe(path):
        raise OSError(None, "it is a named pipe, which would keep its writer waiting")


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        remedy = "Choose another place, or create its folder and check its permissions."
        if error.errno in NO_ROOM:
            remedy = "Make room there, or choose another place."
        raise CannotWrite(
            f"{path} cannot be written: {(error.strerror or str(error)).lower()}.", remedy=remedy
        ) from error
