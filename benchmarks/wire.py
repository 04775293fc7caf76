"""How much it costs to put a round's message on the wire and to take it off again.

``python benchmarks/wire.py`` prints one row per claim, like ``rounds.py``, and exits with 1 if a
target is missed. The target is absolute, 20 microseconds beside three copies. So each measurement
is the fastest of many short ones: whatever else the machine is doing only ever makes it slower.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
from rounds import Row, at_most, printed, seconds, shown

from bequest.protocol import wire
from bequest.protocol.messages import Exchange

if TYPE_CHECKING:
    from collections.abc import Callable

DIM = 1000
ALLOWED = 20e-6
CALLS = 200


def fastest(*works: Callable[[], object], batches: int = 40) -> list[float]:
    """Seconds per call of each, in alternating batches."""

    def repeated(work: Callable[[], object]) -> None:
        for _ in range(CALLS):
            work()

    taken = [[seconds(lambda w=w: repeated(w)) / CALLS for w in works] for _ in range(batches)]
    return list(np.min(taken, axis=0))


def round_message(precision: str) -> tuple[np.ndarray, list[Row]]:
    """What a claim is about, and the times behind it."""
    message = Exchange(3, 1234, np.random.default_rng(1).normal(size=2 * DIM))
    data = wire.encode(0, 1, message, precision=precision)
    measured = np.array(
        [
            fastest(
                lambda: wire.encode(0, 1, message, precision=precision),
                lambda: wire.decode(data),
                lambda: bytearray(data),
            )
            for _ in range(9)
        ]
    )
    what = ("encode", "decode", "a copy of its bytes")
    rows = [
        shown(f"Exchange, d={DIM}, {precision}: {name}, us", times * 1e6)
        for name, times in zip(what, measured.T, strict=True)
    ]
    writing, reading, copying = measured.T
    return (writing + reading - ALLOWED) / copying, rows


def main() -> int:
    ratio, rows = round_message("float64")
    claim = f"Exchange, d={DIM}: (encode + decode - 20 us) / a copy of its bytes"
    rows = [at_most(claim, ratio, 3.0), *rows, *round_message("float32")[1]]
    return printed(rows)


if __name__ == "__main__":
    sys.exit(main())
