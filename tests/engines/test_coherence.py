"""A record with a right checksum is still refused if its parts do not fit together."""

import struct
from hashlib import sha256

import numpy as np
import pytest
from msgspec import msgpack

import bequest as bq
from bequest.engines import records
from bequest.engines.fingerprint import fingerprint
from bequest.engines.loop.network import Outage, Weather
from bequest.errors import InvalidResult
from bequest.solver import prepare

EVENTS = [bq.Departure(1, 10), bq.Crash(2, 15), bq.Return(1, 20), bq.Departure(3, 25)]


def encoded(engine, **asked):
    problem = bq.problems.quadratics(n=6, dim=2, mu=1.0, L=10.0, seed=3)
    plan = prepare(problem, bq.graphs.complete(6), **asked)
    return records.encode(records.Record(fingerprint(plan, engine), plan.scene, engine.run(plan)))


@pytest.fixture(scope="module")
def record():
    return encoded(bq.engines.Vector(), departures=EVENTS, will=bq.wills.Drift(rank=1), rounds=30)


def rewritten(data, change):
    """The same record with other content, and the checksum of that."""
    content = msgpack.decode(data[16:-32])
    change(content["outcome"], content["fingerprint"])
    body = msgpack.encode(content)
    whole = struct.pack("<4sHHQ", b"BQRC", records.VERSION, 0, len(body)) + body
    return whole + sha256(whole).digest()


def array(*shape, fill=0.0):
    return {"shape": shape, "numbers": np.full(shape, fill).tobytes()}


def some_legacy(outcome):
    return next(iter(outcome["inherited"].values()))


def without_departures_of(node):
    def change(outcome, _):
        outcome["departures"] = [one for one in outcome["departures"] if one["node"] != node]

    return change


CONTRADICTIONS = {
    "x of other nodes": lambda o, _: o.update(x=array(3, 2)),
    "x of other unknowns": lambda o, _: o.update(x=array(4, 3)),
    "x that is no number": lambda o, _: o.update(x=array(4, 2, fill=np.nan)),
    "unknown survivors": lambda o, _: o.update(survivors=[0, 1, 4, 9]),
    "a survivor twice": lambda o, _: o.update(survivors=[0, 1, 4, 4]),
    "survivors in disorder": lambda o, _: o.update(survivors=[1, 0, 4, 5]),
    "survivors of a lost run": lambda o, _: o.update(status="lost"),
    "an unknown node is lost": lambda o, _: o.update(lost=[77]),
    "lost and remembered": lambda o, _: o.update(lost=[2]),
    "lost and there": lambda o, _: o.update(lost=[0]),
    "no memory of a leaver": lambda o, _: o.update(inherited={}),
    "memory of a node that is there": without_departures_of(2),
    "a dead holder": lambda o, _: o.update(inherited={3: some_legacy(o)}),
    "a legacy of another dimension": lambda o, _: some_legacy(o).update(
        p=array(7), factor=array(0, 0), weights=array(0)
    ),
    "a factor of another dimension": lambda o, _: some_legacy(o).update(factor=array(5, 1)),
    "the legacy of an unknown node": lambda o, _: some_legacy(o).update(lineage={9: 1}),
    "errors of other rounds": lambda o, _: o["trajectory"].update(error=array(7)),
    "a table of gaps": lambda o, _: o["trajectory"].update(invariant_gap=array(3, 3)),
    "no step": lambda o, _: o.update(steps=[]),
    "a step of zero": lambda o, _: o["steps"][0].update(value=0.0),
    "a step from nowhere": lambda o, _: o["steps"][0].update(since=99),
    "an unknown heir": lambda o, _: o["departures"][0].update(heir=55),
    "its own heir": lambda o, _: o["departures"][0].update(heir=1),
    "an unknown leaver": lambda o, _: o["departures"][0].update(node=-1),
    "after the last round": lambda o, _: o["departures"][0].update(round=31),
    "a checkpoint of later": lambda o, _: o["departures"][1].update(checkpoint=16),
    "an anchor elsewhere": lambda o, _: o["departures"][0].update(anchor=array(3)),
    "an iterate elsewhere": lambda o, _: o["departures"][0].update(x=array(1)),
    "a bridge to nowhere": lambda o, _: o["departures"][0].update(bridges=[[0, 6]]),
    "an unknown neighbour": lambda o, _: o["changes"][0].update(neighbours=[0, 8]),
    "a return before the start": lambda o, _: o["changes"][0].update(round=-2),
    "a size that is no number": lambda _, f: f.update({"the number of nodes": "many"}),
    "no size": lambda _, f: f.pop("the number of rounds"),
    "another size": lambda _, f: f.update({"the number of unknowns": "3"}),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_what_contradicts_itself_is_refused_in_words(record, name):
    altered = rewritten(record, CONTRADICTIONS[name])
    with pytest.raises(InvalidResult, match="does not hold an outcome") as refusal:
        records.decode(altered, "run.record")
    assert "move it away" in str(refusal.value)


def test_the_same_content_written_again_is_accepted(record):
    assert rewritten(record, lambda *_: None) == record
    records.decode(record, "run.record")


class Silent(bq.wills.Will):
    def decide(self, estate):
        """Fail every node that makes a checkpoint."""


@pytest.mark.parametrize(
    ("engine", "asked"),
    [
        (bq.engines.Vector(), {"method": bq.GradientTracking(step=1e3)}),
        (bq.engines.Vector(), {"departures": EVENTS, "will": bq.wills.Classic()}),
        (bq.engines.Vector(), {"departures": EVENTS, "buddies": 0}),
        (bq.engines.Vector(), {"departures": [*EVENTS[:2], bq.Forget(2, 16), bq.Join(5, 4)]}),
        (bq.engines.Loop(), {"departures": EVENTS, "checkpoint_every": None}),
        (bq.engines.Loop(), {"will": Silent()}),  # no node is left
        (
            bq.engines.Loop(
                Weather(1, (0.5, 1.5), outages=(Outage(9.0, "host 0"), Outage(9.0, "host 1"))),
                hosts=2,
            ),
            {},
        ),
    ],
)
def test_whatever_a_run_comes_to_fits_together(engine, asked):
    read = records.decode(encoded(engine, rounds=30, **asked), "run.record")
    assert read.fingerprint["the number of nodes"] == "6"
