"""How much memory it takes to read a CSV file, in sizes of the file.

    python benchmarks/csv_memory.py [MEGABYTES]

The file (200 MB by default) has twelve columns of numbers, two of them with missing cells, and
three of categories, one of them with missing cells. It is read by a process of its own, whose peak
is what the operating system says (Unix only).
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

_ROWS = 20_000
_READ = """
import json, resource, sys, time
from bequest.data import read_table
from bequest.data.describe import describe
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
table = read_table(sys.argv[1])
took, rows = time.perf_counter() - began, table.rows
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
describe(table, label="ward", silo="town")
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([rows, before, peak, most, took]))
"""


def write(path: Path, megabytes: float) -> int:
    """Write such a file of about that size; return how many rows it has."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(50, 20, (_ROWS, 12)).round(4).astype("U10").astype(object)
    numbers[rng.random(_ROWS) < 0.05, 3] = ""
    numbers[rng.random(_ROWS) < 0.3, 7] = ""
    wards = np.array(["icu", "surgery", "medicine", "maternity", "emergency room"], dtype=object)
    wards = wards[rng.integers(0, 5, (_ROWS, 2))]
    wards[rng.random(_ROWS) < 0.1, 1] = ""
    towns = np.array(["bonn", "charite", "rome"], dtype=object)[rng.integers(0, 3, (_ROWS, 1))]
    body = "".join(",".join(row) + "\n" for row in np.hstack([numbers, wards, towns])).encode()
    times = max(1, round(megabytes * 1e6 / len(body)))
    with path.open("wb") as file:
        file.write((",".join([*(f"x{k}" for k in range(12)), "ward", "unit", "town"])).encode())
        file.write(b"\n")
        for _ in range(times):
            file.write(body)
    return times * _ROWS


def measure(megabytes: float) -> dict[str, float]:
    """Return peaks of memory, over the size of the file: to read it, to describe it as well."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        wanted = write(path, megabytes)
        size = path.stat().st_size
        done = subprocess.run(  # noqa: S603 - Python itself
            [sys.executable, "-c", _READ, str(path)], check=True, capture_output=True, text=True
        )
    rows, before, peak, most, seconds = json.loads(done.stdout)
    assert rows == wanted
    return {
        "megabytes": size / 1e6,
        "read": 1024 * peak / size,
        "read, without Python's own": 1024 * (peak - before) / size,
        "described": 1024 * most / size,
        "described, without Python's own": 1024 * (most - before) / size,
        "seconds to read": seconds,
    }


if __name__ == "__main__":
    for name, number in measure(float(sys.argv[1]) if len(sys.argv) > 1 else 200.0).items():
        print(f"{name}: {number:.2f}")
