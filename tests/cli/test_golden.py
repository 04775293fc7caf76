"""Logs that an earlier version wrote: they still replay to the same states, bit for bit."""

import lzma
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

LOGS = sorted((Path(__file__).parent / "golden").glob("*.jsonl.xz"))
# The digest of ``arithmetic()`` on the machine where these logs were written.
WRITTEN_WITH = "6598b50e052def06"


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


def test_there_are_logs():
    assert [path.name.split(".")[0] for path in LOGS] == [
        "crashes-adaptive",
        "crashes-classic",
        "crashes-drift",
        "crashes-full-hessian",
        "oracle",
    ]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name.split(".")[0])
def test_a_log_of_an_earlier_version_replays_to_the_same_states(path, bequest, tmp_path):
    log = tmp_path / "run.jsonl"
    log.write_bytes(lzma.decompress(path.read_bytes()))
    result = bequest("replay", log)
    if arithmetic() == WRITTEN_WITH:
        assert result.exit_code == 0, result.output
        assert "every state identical" in result.output
    else:  # another processor rounds differently; everything but the last bits must still be there
        assert result.exit_code == 0 or "leads to another state" in result.stderr
