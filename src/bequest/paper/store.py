"""Results as files: arrays, facts, and a manifest that says where they come from.

One result is one file, written whole or not at all, so that an interrupted study leaves only
complete results and can go on from there. Figures and tables are made from these files alone.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bequest import archives, files
from bequest.errors import InvalidResult
from bequest.version import __version__, provenance

FORMAT = 2
_MANIFEST = "manifest"
# What is raised by reading a file that is a damaged archive, or no archive.
_DAMAGED = (
    *archives.UNREADABLE,
    OSError,
    TypeError,
    AttributeError,
    KeyError,
    RecursionError,
)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one case of a study.

    Attributes:
        case: the case's name within the study, also that of its file.
        params: what the case was asked for; enough to compute it again.
        arrays: long series of numbers, by name.
        facts: all other findings, as plain data.
        provenance: versions and machine; filled in when the result is written.
    """

    study: str
    case: str
    params: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    facts: Mapping[str, Any]
    provenance: Mapping[str, Any] = field(default_factory=dict)


def path_of(folder: Path, study: str, case: str) -> Path:
    """Return where a result is kept."""
    return folder / "results" / study / f"{case}.npz"


def write(folder: Path, result: Result) -> Path:
    """Write a result; return where."""
    manifest = {
        "format": FORMAT,
        "study": result.study,
        "case": result.case,
        "params": dict(result.params),
        "facts": dict(result.facts),
        "provenance": provenance(),
    }
    buffer = io.BytesIO()
    manifest["checksum"] = _checksum(manifest, result.arrays)
    text = np.array(json.dumps(manifest, allow_nan=False))
    contents: dict[str, Any] = {**result.arrays, _MANIFEST: text}
    np.savez_compressed(buffer, **contents)
    path = path_of(folder, result.study, result.case)
    files.make_folder(path.parent)
    files.write(path, buffer.getvalue())
    return path


def read(path: Path) -> Result:
    """Read a result.

    Raises:
        InvalidResult: the file is not a result, was cut short, or is of another version.
    """
    try:
        content = files.read(path)
        if content is None:
            raise ValueError("gone")
        arrays = archives.read_arrays(
            path, io.BytesIO(content), packed=len(content), copies=2, error=InvalidResult
        )
        manifest = json.loads(str(arrays.pop(_MANIFEST)))
        if manifest.pop("checksum") != _checksum(manifest, arrays):
            raise ValueError("altered")
    except InvalidResult:
        raise
    except _DAMAGED as error:
        raise InvalidResult(
            f"{path} cannot be read: it is damaged, cut short, or no result at all.",
            remedy="Compute it again with --again, or move it away.",
        ) from error
    made_by = manifest.get("provenance", {}).get("bequest")
    if manifest.get("format") != FORMAT or made_by != __version__:
        raise InvalidResult(
            f"{path} was written by bequest {made_by} (format {manifest.get('format')}), "
            f"this is {__version__} (format {FORMAT}).",
            remedy="Compute it again with --again, or choose another folder with --output.",
        )
    return Result(
        manifest["study"],
        manifest["case"],
        manifest["params"],
        arrays,
        manifest["facts"],
        manifest["provenance"],
    )


def _checksum(manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Return 32 hexadecimal digits that change with anything that a result holds."""
    found = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:32]


def read_all(folder: Path, study: str) -> list[Result]:
    """Read every result of a study, in the order of their file names."""
    return [read(path) for path in sorted(path_of(folder, study, "x").parent.glob("*.npz"))]
