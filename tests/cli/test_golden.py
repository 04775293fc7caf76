"""Logs that an earlier version wrote: they still replay to the same states, bit for bit.

Processors differ in the last bits, so a process of its own replays them with the arithmetic that
they were written with, which every x86-64 processor of the last ten years has. Elsewhere everything
but the last bits must still be there.
"""

import json
import lzma
import os
import platform
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from typer.testing import CliRunner

from bequest.cli import app

LOGS = sorted((Path(__file__).parent / "golden").glob("*.jsonl.xz"))
# The digest of ``arithmetic()`` in the process that wrote these logs.
WRITTEN_WITH = "6598b50e052def06"
IS_X86 = platform.machine().lower() in {"x86_64", "amd64"}
# What numpy's own functions may not use: other than OpenBLAS, it has to be told what to leave out.
WIDE = [
    name for name in __cpu_dispatch__
    if (name == "X86_V4" or name.startswith("AVX512")) and __cpu_features__[name]
]  # fmt: skip


def arithmetic():
    """Return a digest of what BLAS and the mathematical functions compute here, to the last bit."""
    rng = np.random.default_rng(0)
    digest = sha256()
    for size in (2, 3, 4, 6):
        matrix = rng.standard_normal((size, size))
        square, vector = matrix @ matrix.T, rng.standard_normal(size)
        parts = [square, vector.dot(matrix), np.exp(vector), np.linalg.solve(square, vector)]
        for part in [*parts, *np.linalg.eigh(square)]:
            digest.update(np.ascontiguousarray(part, "<f8").tobytes())
    return digest.hexdigest()[:16]


def replay_all(folder):
    """Return the digest of the arithmetic here, and of each log how its replay ends."""
    ends = {}
    for path in LOGS:
        log = Path(folder) / path.name.removesuffix(".xz")
        log.write_bytes(lzma.decompress(path.read_bytes()))
        result = CliRunner().invoke(app, ["replay", str(log)])
        ends[path.name.split(".")[0]] = result.exit_code, result.output, result.stderr
    return {"arithmetic": arithmetic(), "ends": ends}


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    if IS_X86:
        environment["OPENBLAS_CORETYPE"] = "Haswell"
        environment["NPY_DISABLE_CPU_FEATURES"] = " ".join(WIDE)
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path_factory.mktemp("logs"))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_there_are_logs():
    assert [path.name.split(".")[0] for path in LOGS] == [
        "crashes-adaptive",
        "crashes-classic",
        "crashes-drift",
        "crashes-full-hessian",
        "oracle",
    ]


def test_logs_of_an_earlier_version_replay_to_the_same_states(replayed):
    if IS_X86:
        assert replayed["arithmetic"] == WRITTEN_WITH
    is_strict = replayed["arithmetic"] == WRITTEN_WITH
    assert len(replayed["ends"]) == len(LOGS)
    for name, (code, output, words) in replayed["ends"].items():
        if is_strict or code == 0:
            assert code == 0, (name, words)
            assert "every state identical" in output, name
        else:
            assert "leads to another state" in words, name


if __name__ == "__main__":
    print(json.dumps(replay_all(sys.argv[1])))
