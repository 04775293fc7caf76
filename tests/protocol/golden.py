"""One message of every kind, and the files that hold them in every version of the format.

``python tests/protocol/golden.py`` writes the files that are missing. It never overwrites one: what
is there has been sent by a node, and must stay readable. A change that needs other bytes needs
another version, and a folder beside this one.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from bequest.core.farewell import Farewell
from bequest.core.legacy import Legacy
from bequest.core.samples import Clusters
from bequest.protocol import messages as m
from bequest.protocol import wire

FOLDER = Path(__file__).parent / "golden" / f"v{wire.VERSION}"

SKETCHED = Legacy(
    0.5,
    np.array([1.0, -2.0, 0.1]),
    -3.25,
    {4: 1, 9: 1, 300: 2},
    np.array([[1.0, 0.5], [0.0, -0.25], [2.0, 1e-300]]),
    np.array([1.0, -1.0]),
    frozenset({300, 9}),
)
SAMPLES = (
    Clusters(
        (4,), ("softmax", (3.0,)), [0.5, 0.25, 0.25], [0, 1, 2], np.arange(6.0).reshape(3, 2) / 8,
        np.arange(12.0).reshape(3, 2, 2) / 16, (4, 17),
    ),
    Clusters((9,), ("huber", (0.5,)), [0.5, 0.5], [], [[1.0, -2.0], [0.5, 1e300]],
            np.empty((2, 0, 2)), (9, 3)),
)  # fmt: skip
TELLING = Legacy(0.125, np.zeros(6), 0.0, {4: 1, 9: 1}, samples=SAMPLES)
FULL = Legacy(0.0, np.array([1.0, 2.0]), 7.0, {0: 1}, np.array([[1.0, 2.0], [3.0, 4.0]], order="F"))
ARRANGE = m.Arrange(
    epoch=3,
    round=70_000,
    restart=True,
    members=5,
    neighbours=(1, 2, 300),
    weights=(0.25, 0.25, 1 / 3),
    buddies=(2, 1),
    wards=(7,),
    heir=1,
    remaining=4,
    farewells=(8, 9),
    adopted=(10,),
    claim=11,
    claimant=12,
    newcomer=13,
    sponsor=14,
    target_moves=True,
    stays=True,
    incarnation=2,
    term=1,
    gives_back=True,
    sums_from=(16, 17),
    sums_to=18,
    recalls=19,
)
LEAVER = m.Arrange(4, 70_001, restart=False, members=4)
BEGIN = m.Begin(3, 0.02, 80_000, roster=((0, ()), (1, (5, 6))), lost=(15,))
HALTED = m.Halted(3, 70_000, (5, 6), ((7, 69_990, (7, 16)), (8, 0, ())), leaving=False)
SPECIAL = np.array([1.5, -0.0, 5e-324, math.inf, -math.inf, math.nan])

# name of the file -> sender, receiver, message, precision
EXAMPLES: dict[str, tuple[int, int, m.Message, str]] = {
    "Exchange": (0, 1, m.Exchange(2, 1234, SPECIAL), "float64"),
    "Exchange-float32": (0, 1, m.Exchange(2, 1234, SPECIAL), "float32"),
    "Farewell": (4, 300, Farewell(4, 17, SKETCHED, np.array([0.1, 0.2, 0.3]), epoch=2), "float64"),
    "Farewell-samples": (4, 300, Farewell(4, 17, TELLING, np.arange(6.0), epoch=2), "float64"),
    "Checkpoint": (1, 2, m.Checkpoint(1, 20, SKETCHED, SKETCHED + SKETCHED), "float64"),
    "Checkpoint-first": (1, 2, m.Checkpoint(1, 0, Legacy.zero(2), None), "float64"),
    "Kept": (2, 1, m.Kept(1), "float64"),
    "Withdrawal": (3, 2, m.Withdrawal(6, FULL), "float64"),
    "Welcome": (0, 70_000, m.Welcome(1, np.array([3.0]), 0.125), "float64"),
    "Halt": (m.STEWARD, 0, m.Halt(4, 3), "float64"),
    "Advance": (m.STEWARD, 0, m.Advance(4, 70_000), "float64"),
    "Arrange": (m.STEWARD, 0, ARRANGE, "float64"),
    "Arrange-leaver": (m.STEWARD, 0, LEAVER, "float64"),
    "Begin": (m.STEWARD, 0, BEGIN, "float64"),
    "Dismiss": (m.STEWARD, 0, m.Dismiss(4, excluded=True), "float64"),
    "Inquiry": (m.STEWARD, 0, m.Inquiry(), "float64"),
    "Halted": (0, m.STEWARD, HALTED, "float64"),
    "Ready": (
        0,
        m.STEWARD,
        m.Ready(4, 12.5, (5, 6), (7,), restart=True, strength=0.5, floor=2.0),
        "float64",
    ),
    "Refused": (0, m.STEWARD, m.Refused(4), "float64"),
    "Begun": (0, m.STEWARD, m.Begun(2**40), "float64"),
    "LeaveRequest": (0, m.STEWARD, m.LeaveRequest(incarnation=1), "float64"),
    "Accusation": (
        0,
        m.STEWARD,
        m.Accusation(epoch=3, culprit=2, why="a farewell that cannot be — ∞"),
        "float64",
    ),
    "Situation": (
        0,
        m.STEWARD,
        m.Situation(
            ARRANGE,
            BEGIN,
            LEAVER,
            4,
            HALTED,
            "machine-1",
            purpose="return",
            known=(1, 2),
            incarnation=1,
        ),
        "float64",
    ),
    "Situation-new": (
        0,
        m.STEWARD,
        m.Situation(None, None, None, 0, m.Halted(0, 0, (), (), leaving=False), ""),
        "float64",
    ),
    "Imbalance": (5, 6, m.Imbalance(4, np.array([0.5, -1.5]), 2.5, 4.0, 1.5, 3, 7.5), "float64"),
    "Request": (
        90,
        m.STEWARD,
        m.Request("join", "machine-2", known=(0, 1), incarnation=2),
        "float64",
    ),
}


# version -> the messages that it did not have yet
LATER = {1: {"Imbalance", "Farewell-samples"}, 2: {"Farewell-samples"}, 3: set()}
# Up to which version a message did not say something yet, and what that means.
UNSAID = {
    m.Arrange: (1, {"gives_back": False, "sums_from": None, "sums_to": None, "recalls": None}),
    m.Ready: (1, {"strength": 0.0, "floor": 0.0}),
    m.Welcome: (3, {"pace": None}),
}


def as_in(version: int, message: m.Message) -> m.Message:
    """Return the message as an earlier version of the format can say it."""
    until, fields = UNSAID.get(type(message), (0, {}))
    said = replace(message, **fields) if version <= until else message
    if isinstance(said, m.Situation) and said.present is not None:
        said = replace(said, present=as_in(version, said.present))
    return said


def path_of(name: str, folder: Path = FOLDER) -> Path:
    return folder / f"{name}.bin"


def encoded(name: str) -> bytes:
    sender, receiver, message, precision = EXAMPLES[name]
    return wire.encode(sender, receiver, message, precision=precision)


def write_missing(folder: Path = FOLDER) -> list[str]:
    """Write the files that are not there; return the names of those that are, but differ."""
    folder.mkdir(parents=True, exist_ok=True)
    differing = []
    for name in EXAMPLES:
        try:
            with path_of(name, folder).open("xb") as file:
                file.write(encoded(name))
        except FileExistsError:
            if path_of(name, folder).read_bytes() != encoded(name):
                differing.append(name)
    return differing


if __name__ == "__main__":
    found = write_missing()
    for name in found:
        sys.stderr.write(f"{path_of(name)} holds other bytes; it is kept as it is.\n")
    sys.exit(1 if found else 0)
