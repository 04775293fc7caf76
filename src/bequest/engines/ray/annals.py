"""What happens in a run, written down as it goes: one line of JSON each."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from bequest import files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bequest.engines.ray.view import Happening

# The dials are read off so often, in seconds.
_EVERY = 1.0


class Annals:
    """A file for people: whatever becomes of the cluster, it says how far the run got.

    Args:
        path: where; what is there already is replaced.
    """

    def __init__(self, path: Path) -> None:
        self._file = files.Growing(path)
        self._read_off = -math.inf

    def tell(self, happening: Happening) -> None:
        """Write down something worth telling."""
        self._write({"t": happening.time, "round": happening.round, "what": happening.what})

    def read_off(self, time: float, readings: Mapping[str, float | None]) -> None:
        """Write down where the dials are, if that has not just been done."""
        if time - self._read_off >= _EVERY:
            self._read_off = time
            known = {k: v for k, v in readings.items() if v is not None and math.isfinite(v)}
            self._write({"t": time, **known})

    def _write(self, fields: Mapping[str, object]) -> None:
        self._file.write(json.dumps(fields, allow_nan=False).encode() + b"\n")
