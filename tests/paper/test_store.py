"""Results as files: whole or not at all, kept, resumed, and refused when they cannot be used."""

import json
import os
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from small_studies import broken, double

from bequest import errors, memory
from bequest.paper import store
from bequest.paper.studies import study
from bequest.paper.studies.study import Case, Study, carry_out

SMALL = Study("small", tuple(study.seeded(3)), double)


def test_a_result_comes_back_as_it_was(tmp_path):
    found = double(seed=4)
    given = store.Result("s", "c", {"seed": 4}, found.arrays, found.facts)
    path = store.write(tmp_path, given)
    back = store.read(path)
    np.testing.assert_array_equal(back.arrays["x"], [0, 4, 8])
    assert (back.study, back.case, back.params, back.facts) == ("s", "c", {"seed": 4}, found.facts)
    assert {"bequest", "python", "numpy", "machine"} <= set(back.provenance)


def test_a_result_with_a_fact_that_is_not_a_number_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        store.write(tmp_path, store.Result("s", "c", {}, {}, {"x": float("nan")}))
    assert not store.path_of(tmp_path, "s", "c").exists()


@pytest.mark.parametrize("damage", ["cut short", "not a file of ours", "empty"])
def test_a_damaged_result_is_refused_and_left_alone(tmp_path, damage):
    path = store.write(tmp_path, store.Result("small", "seed-00", {"seed": 0}, {}, {}))
    content = path.read_bytes()
    damaged = {"cut short": content[: len(content) // 2], "empty": b""}.get(damage, b"x" * 100)
    path.write_bytes(damaged)
    with pytest.raises(errors.InvalidResult, match="seed-00"):
        carry_out([SMALL], tmp_path, workers=1)
    assert path.read_bytes() == damaged
    assert carry_out([SMALL], tmp_path, again=True, workers=1).computed == 3
    assert store.read(path).facts["seed"] == 0


def test_a_result_of_another_version_is_refused_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "provenance", lambda: {"bequest": "0.0.1"})
    store.write(tmp_path, store.Result("small", "seed-00", {"seed": 0}, {}, {}))
    monkeypatch.undo()
    with pytest.raises(errors.InvalidResult, match=r"0\.0\.1") as caught:
        carry_out([SMALL], tmp_path, workers=1)
    assert "--again" in caught.value.remedy


def test_a_result_of_other_parameters_is_refused(tmp_path):
    store.write(tmp_path, store.Result("small", "seed-00", {"seed": 99}, {}, {}))
    with pytest.raises(errors.InvalidResult, match="other parameters"):
        carry_out([SMALL], tmp_path, workers=1)


def test_what_is_there_is_kept_and_only_the_rest_is_computed(tmp_path):
    heard = []
    first = carry_out([SMALL], tmp_path, progress=lambda *words: heard.append(words))
    assert (first.computed, first.kept) == (3, 0)
    assert heard == [(1, 3, "small"), (2, 3, "small"), (3, 3, "small")]
    store.path_of(tmp_path, "small", "seed-01").unlink()
    untouched = store.path_of(tmp_path, "small", "seed-00").stat().st_mtime_ns
    second = carry_out([SMALL], tmp_path)
    assert (second.computed, second.kept) == (1, 2)
    assert store.path_of(tmp_path, "small", "seed-00").stat().st_mtime_ns == untouched
    assert [r.facts["seed"] for r in store.read_all(tmp_path, "small")] == [0, 1, 2]


def test_an_error_in_a_case_is_the_error_of_the_study_and_keeps_the_others(tmp_path):
    cases = (Case("a", {"seed": 1}),)
    good, bad = Study("good", cases, double), Study("bad", cases, broken)
    with pytest.raises(errors.InvalidMethod, match="no"):
        carry_out([good, bad], tmp_path, workers=1)
    assert store.path_of(tmp_path, "good", "a").exists()


def test_the_environment_is_left_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    carry_out([SMALL], tmp_path, workers=1)
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "OPENBLAS_NUM_THREADS" not in os.environ


def test_drafts_of_killed_workers_are_swept_away(tmp_path):
    draft = store.path_of(tmp_path, "small", "x").parent / ".seed-00.npz.123.part"
    draft.parent.mkdir(parents=True)
    draft.write_bytes(b"half")
    carry_out([SMALL], tmp_path, workers=1)
    assert not draft.exists()


def test_a_reproduction_that_is_interrupted_goes_on_from_there(tmp_path):
    """Really interrupted: SIGINT to a process in the middle of its work."""
    command = [sys.executable, "-m", "bequest", "reproduce", "stress", "-o", str(tmp_path)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Started in the background, a process inherits deafness to Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    results = tmp_path / "results" / "stress"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(results.glob("*.npz"))) < 3:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    done = sorted(results.glob("*.npz"))
    assert 3 <= len(done) < 100
    assert not list(results.glob(".*"))
    for path in done:
        assert zipfile.is_zipfile(path)
        assert store.read(path).study == "stress"


def test_manifests_are_plain_json_inside_the_file(tmp_path):
    path = store.write(tmp_path, store.Result("s", "c", {"seed": 1}, {"x": np.ones(2)}, {"y": 2}))
    with np.load(path, allow_pickle=False) as stored:
        manifest = json.loads(str(stored["manifest"]))
    assert manifest["params"] == {"seed": 1}
    assert manifest["format"] == store.FORMAT


def test_every_byte_that_is_altered_is_noticed_or_harmless(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"x": np.arange(8.0), "y": rng.standard_normal(5)}
    path = store.write(tmp_path, store.Result("s", "c", {"seed": 1}, arrays, {"y": 2.5}))
    whole, data = store.read(path), path.read_bytes()
    noticed = 0
    for place in range(len(data)):
        altered = bytearray(data)
        altered[place] ^= 0x41
        path.write_bytes(bytes(altered))
        try:
            found = store.read(path)
        except errors.InvalidResult:
            noticed += 1
            continue
        # zip files say some things twice, and others, such as times, to no purpose
        assert found.arrays.keys() == arrays.keys()
        assert all(np.array_equal(found.arrays[name], arrays[name]) for name in arrays)
        assert (found.study, found.case, found.params, found.facts) == (
            "s",
            "c",
            {"seed": 1},
            {"y": 2.5},
        )
        assert found.provenance == whole.provenance
    assert noticed > len(data) / 2


def test_a_result_that_cannot_fit_into_memory_is_not_unpacked(tmp_path, monkeypatch):
    path = store.write(tmp_path, store.Result("s", "c", {}, {"x": np.zeros(100_000)}, {}))
    monkeypatch.setattr(memory, "here", lambda: 1e6)
    monkeypatch.setattr(np, "load", None)
    with pytest.raises(errors.InvalidResult, match=r"unpacks to 80\d kB, would take about 1\.6"):
        store.read(path)


def test_a_pipe_is_no_result_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(errors.InvalidResult, match="not an ordinary file"):
        store.read(tmp_path / "pipe.npz")
