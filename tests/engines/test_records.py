"""Records: what was written is read again to the last bit, and nothing else is taken for it."""

import dataclasses
import os
import pickle
import struct
from hashlib import sha256

import numpy as np
import pytest

import bequest as bq
from bequest.engines import records
from bequest.engines.fingerprint import fingerprint
from bequest.errors import InvalidResult
from bequest.solver import conclude, prepare

ENGINE = bq.engines.Vector()
EVENTS = [
    bq.Departure(1, 30),
    bq.Departure(2, 40),
    bq.Crash(3, 50),
    bq.Forget(2, 60),
    bq.Return(1, 70),
    bq.Join(7, 10),
]
SCENARIOS = {
    "everything": {"departures": EVENTS, "will": bq.wills.Drift(rank=2), "rounds": 120},
    "sketches": {"departures": EVENTS, "will": bq.wills.FullHessian(), "rounds": 120},
    "compared": {"departures": EVENTS[:2], "will": bq.wills.Adaptive(), "rounds": 90},
    "certified": {
        "departures": EVENTS[:1],
        "will": bq.wills.Adaptive(rule="certified"),
        "rounds": 60,
    },
    "diverged": {"rounds": 400, "method": bq.GradientTracking(step=1e3)},
    "unknown": {"departures": EVENTS[:1], "rounds": 60, "optimum": None},
    "nothing": {"rounds": 0},
}


def planned(name="everything"):
    problem = bq.problems.quadratics(n=8, dim=3, mu=1.0, L=10.0, seed=3)
    return prepare(problem, bq.graphs.complete(8), **SCENARIOS[name])


def stored(name="everything"):
    plan = planned(name)
    return records.Record(fingerprint(plan, ENGINE), plan.scene, ENGINE.run(plan))


@pytest.fixture(scope="module")
def record():
    """A small one, as bytes."""
    problem = bq.Problem([bq.Quadratic([[1.0]], [0.0]), bq.Quadratic([[3.0]], [4.0])])
    plan = prepare(problem, [(0, 1)], departures=[bq.Departure(1, 2)], rounds=3)
    return records.encode(records.Record(fingerprint(plan, ENGINE), plan.scene, ENGINE.run(plan)))


def identical(one, other):
    """Whether two things are the same to the last bit, and of the same kinds."""
    one = one.item() if isinstance(one, np.generic) else one
    assert type(one) is type(other), (one, other)
    if isinstance(one, np.ndarray):
        assert one.tobytes() == other.tobytes()
        assert one.shape == other.shape
        assert one.flags.c_contiguous == other.flags.c_contiguous
        assert not other.flags.writeable
    elif dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            identical(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            identical(one[key], other[key])
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for part, counterpart in zip(one, other, strict=True):
            identical(part, counterpart)
    else:
        assert one == other


@pytest.mark.parametrize("name", SCENARIOS)
def test_an_outcome_is_read_as_it_was_written(name, tmp_path):
    whole = own, _, outcome = stored(name)
    path = tmp_path / "run.record"
    records.write(path, whole)
    identical(whole, records.decode(path.read_bytes(), path))
    found = records.find(path, own)
    identical(outcome, found)
    plan = planned(name)
    first, second = conclude(plan, outcome, ENGINE), conclude(plan, found, ENGINE)
    if name not in ("diverged", "unknown"):
        assert np.array_equal(first.error, second.error)
        assert str(first.certificate) == str(second.certificate)


def test_outcomes_of_real_nodes_are_read_as_they_were_written():
    engine = bq.engines.Loop(hosts=2)
    plan = planned()
    outcome = engine.run(plan)
    data = records.encode(records.Record(fingerprint(plan, engine), plan.scene, outcome))
    identical(outcome, records.decode(data, "here").outcome)


def test_there_is_no_record():
    from pathlib import Path

    assert records.find(Path("nowhere.record"), {}) is None


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_byte_that_is_altered_is_noticed(record, mask):
    for place in range(len(record)):
        altered = bytearray(record)
        altered[place] ^= mask
        with pytest.raises(InvalidResult) as refusal:
            records.decode(bytes(altered), "run.record")
        assert "run.record" in str(refusal.value)


def test_every_length_but_its_own_is_noticed(record):
    for length in range(len(record)):
        with pytest.raises(InvalidResult, match=r"run\.record is not the record of a run"):
            records.decode(record[:length], "run.record")
    for more in (b"\0", record):
        with pytest.raises(InvalidResult, match="bytes of content"):
            records.decode(record + more, "run.record")


def signed(content, version=records.VERSION):
    whole = struct.pack("<4sHHQ", b"BQRC", version, 0, len(content)) + content
    return whole + sha256(whole).digest()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is empty"),
        (b"{}", "too short"),
        (b"x" * 100, "does not begin like one"),
        (pickle.dumps({"fingerprint": "", "outcome": list(range(100))}), "does not begin like one"),
        (signed(b"", version=1), "in version 1 of the format; we read version 2"),
        (signed(b""), "does not hold an outcome"),
        (signed(b"\x80"), "does not hold an outcome"),  # an empty mapping
        (signed(b"\x91" * 100_000 + b"\x90"), "does not hold an outcome"),  # deeply nested
        (signed(b"\xdd\xff\xff\xff\xff"), "does not hold an outcome"),  # a list of 2^32 - 1
    ],
)
def test_what_is_no_record_is_refused_in_words(data, says):
    with pytest.raises(InvalidResult, match=says) as refusal:
        records.decode(data, "run.record")
    assert "move it away" in str(refusal.value)


def test_pipes_and_folders_are_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(InvalidResult, match="not an ordinary file"):
            records.find(tmp_path / name, {})


def test_the_record_of_another_run_is_refused_and_named(tmp_path):
    whole = stored("compared")
    own = whole.fingerprint
    path = tmp_path / "run.record"
    records.write(path, whole)
    before = path.read_bytes()
    for part in own:
        other = own | {part: "another"}
        with pytest.raises(InvalidResult, match="is the record of another run") as refusal:
            records.find(path, other)
        assert part in str(refusal.value)
    assert path.read_bytes() == before
