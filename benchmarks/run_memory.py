"""How much memory a whole ``bequest run`` on a CSV file takes, in sizes of the file.

    python benchmarks/run_memory.py [MEGABYTES] [LOSS] [SILOS]

The file is that of benchmarks/csv_memory.py (200 MB by default): twelve columns of numbers, three
of categories, missing cells. Rows are in silos by ``town``; ``ward`` is predicted by a softmax
(five classes), or ``x0`` by LOSS "least_squares". Missing numbers are imputed, ``unit`` is coded,
one silo leaves, and there is a test fraction (softmax). With SILOS rows are in so many uneven ones.
The run is a process of its own, whose peak is what the operating system says (Unix only).
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from csv_memory import write

_FILE = """
rounds = 5
optimum = "none"
[problem]
kind = "table"
file = "table.csv"
label = "{label}"
loss = "{loss}"
l2 = 0.01
{silos}
impute = "mean"
categories = {{ {coded} }}
{more}
[graph]
kind = "{graph}"
[departures]
events = [{{ node = 1, round = 3 }}]
[[wills]]
kind = "{will}"
"""
_RUN = """
import json, resource, sys, time
import bequest.cli.run, bequest.data, bequest.solver
from pathlib import Path
from bequest.cli.run import run_file
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
code = run_file(Path(sys.argv[1]), as_json=True, output=None)
took = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([code, before, peak, took]), file=sys.stderr)
"""


def measure(megabytes: float, loss: str, silos: int | None = None) -> dict[str, float]:
    """Return the peak of memory over the size of the file."""
    uneven = f'ignore = ["town"]\npartition = {{ kind = "dirichlet", n = {silos}, alpha = 5.0 }}'
    text = _FILE.format(
        label="ward" if loss == "softmax" else "x0",
        loss=loss,
        coded='unit = "agree"' if loss == "softmax" else 'unit = "agree", ward = "agree"',
        more="test_fraction = 0.2" if loss == "softmax" else "",
        will="adaptive",
        silos='silo = "town"' if silos is None else uneven,
        graph="complete" if silos is None else "ring",
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.toml"
        write(Path(folder) / "table.csv", megabytes)
        path.write_text(text)
        size = (Path(folder) / "table.csv").stat().st_size
        done = subprocess.run(  # noqa: S603 - Python itself
            [sys.executable, "-c", _RUN, str(path)], check=False, capture_output=True, text=True
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    code, before, peak, seconds = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    return {
        "megabytes": size / 1e6,
        "run": 1024 * peak / size,
        "run, without Python's own": 1024 * (peak - before) / size,
        "seconds": seconds,
    }


if __name__ == "__main__":
    given = sys.argv[1:]
    for name, number in measure(
        float(given[0]) if given else 200.0,
        given[1] if len(given) > 1 else "softmax",
        int(given[2]) if len(given) > 2 else None,
    ).items():
        print(f"{name}: {number:.2f}")
