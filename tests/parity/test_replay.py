"""A replay is the run: the same events lead fresh nodes to the same states, bit for bit."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scenarios
from seeds import seeds
from simulation import chaos

import bequest as bq
from bequest import journal
from bequest.engines import Loop, Outage, Partition, Weather
from bequest.errors import CannotWrite, InvalidLog, InvalidMethod, ReplayDiffers
from bequest.journal import End, Journal, line_of
from bequest.protocol.node import Node
from bequest.replay import Replay

STORM = Weather(3, (0.0, 5.0), 0.3, (Partition(4.0, 30.0, frozenset(["host 1"])),))
WEATHERS = {"calm": Weather(), "reordering": Weather(1, (0.0, 3.0)), "storm": STORM}


def arguments(seed, will):
    """Return a run in which everything happens that can be planned."""
    rng = np.random.default_rng([seed, 11])
    losses = scenarios.objectives(rng, 8, 2, mixed=bool(seed % 2))
    one, two, three, four, late = (int(node) for node in rng.permutation(8)[:5])
    t = np.cumsum(rng.integers(3, 9, size=6)).tolist()
    return {
        "optimum": "always",
        "problem": bq.Problem(losses),
        "graph": [*bq.graphs.ring(8).edges.tolist(), (0, 4), (1, 6), (2, 5), (3, 7)],
        "departures": [
            bq.Departure(one, t[0]),
            bq.Departure(two, t[0]),
            bq.Crash(three, t[1]),
            bq.Return(one, t[2]),
            bq.Join(late, t[3]),
            bq.Forget(two, t[3]),
            bq.Crash(one, t[4]),
            bq.Departure(four, t[4]),
            bq.Return(three, t[5]),
        ],
        "will": will,
        "method": bq.GradientTracking(step=0.1 / max(loss.curvature.b for loss in losses)),
        "rounds": 60,
        "start": rng.standard_normal((8, 2)),
        "checkpoint_every": 7,
        "pilot": bq.Pilot(radius=2.0, theta=0.05, zeta=1.0, spread=3.0),
    }


def logged(path, engine, **asked):
    with Journal(path) as scribe:
        return bq.solve(**asked, engine=replace(engine, scribe=scribe))


def assert_identical(one, other):
    assert one.status == other.status
    np.testing.assert_array_equal(one.x, other.x)
    for name in ("error", "invariant_gap", "gradient_norm", "disagreement"):
        pair = [getattr(run.trajectory, name) for run in (one, other)]
        np.testing.assert_array_equal(*pair)
    assert one.survivors == other.survivors
    assert one.lost == other.lost
    assert one.steps == other.steps
    assert [str(record) for record in (*one.departures, *one.changes)] == [
        str(record) for record in (*other.departures, *other.changes)
    ]


@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("seed", seeds(range(8), quick=3))
def test_the_run_comes_out_again_from_its_log(tmp_path, seed, weather):
    names = [name for name in scenarios.WILLS if name != "classic"]
    wills = [*(scenarios.WILLS[name] for name in names), bq.wills.Drift(1), bq.wills.Adaptive()]
    asked = arguments(seed, wills[(seed * 3 + len(weather)) % len(wills)])
    engine = Loop(WEATHERS[weather], 1 + seed % 3, as_bytes=bool(seed % 2))
    run = logged(tmp_path / "log", engine, **asked)
    heard = []
    again = Replay(journal.read(tmp_path / "log"), listen=lambda entry, _: heard.append(entry))
    assert_identical(run, bq.solve(**asked, engine=again))
    assert [entry.number for entry in heard[:-1]] == list(range(1, len(heard)))
    assert heard[-1] == End(None)
    # and writing it down has changed nothing
    assert_identical(run, bq.solve(**asked, engine=engine))


@pytest.mark.parametrize("first", seeds(range(0, 200, 20), quick=3))
def test_bad_days_are_repeated_from_their_logs(tmp_path, first):
    """Kills, wrong verdicts, replaced stewards, duplicates: all of it is in the log."""
    for seed in range(first, first + 20):
        day = chaos.day(seed)
        path = tmp_path / f"{seed}.jsonl"
        with Journal(path) as scribe, np.errstate(over="ignore", invalid="ignore"):
            simulation = chaos.Simulation(replace(day, engine=replace(day.engine, scribe=scribe)))
            simulation.run()
        count = []
        log = journal.read(path)
        Replay(log, listen=lambda entry, _, count=count: count.append(entry)).run(day.plan)
        assert isinstance(count[-1], End)
        assert len(count) > simulation.checker.events / 2


def test_the_bad_days_have_everything_that_can_happen(tmp_path):
    kinds = set()
    for seed in range(60):
        day = chaos.day(seed)
        with Journal(tmp_path / "log") as scribe:
            chaos.Simulation(replace(day, engine=replace(day.engine, scribe=scribe))).run()
        lines = (tmp_path / "log").read_text().splitlines()[1:]
        kinds |= {json.loads(line)["kind"] for line in lines}
    assert kinds == {
        "founded", "received", "leave", "lost", "admitted", "killed", "replaced", "end",
    }  # fmt: skip


def test_a_run_can_be_repeated_up_to_any_event(tmp_path):
    asked = arguments(4, bq.wills.Consensus())
    logged(tmp_path / "log", Loop(), **asked)
    log = journal.read(tmp_path / "log")
    events = sum(not isinstance(entry, End) for entry in log.entries())
    for until in (1, 2, 5, 17, 50, events - 1, events, events + 1):
        heard = []
        engine = Replay(log, until, lambda entry, _, heard=heard: heard.append(entry))
        bq.solve(**asked, engine=engine)
        assert sum(not isinstance(entry, End) for entry in heard) == min(until, events)


def test_a_replay_of_another_problem_is_found_out(tmp_path):
    asked = arguments(4, bq.wills.Consensus())
    logged(tmp_path / "log", Loop(), **asked)
    moved = asked | {"start": np.asarray(asked["start"]) + 1e-15}
    with pytest.raises(ReplayDiffers, match="another state") as caught:
        bq.solve(**moved, engine=Replay(journal.read(tmp_path / "log")))
    assert "What happened to node" in caught.value.what


def test_hosts_by_name_are_those_of_the_run(tmp_path):
    asked = arguments(9, bq.wills.Consensus())
    hosts = {node: "rack" if node < 2 else f"host {node}" for node in range(asked["problem"].n)}
    run = logged(tmp_path / "log", Loop(hosts=hosts), **asked)
    log = journal.read(tmp_path / "log")
    assert log.hosts == hosts
    assert_identical(run, bq.solve(**asked, engine=Replay(log)))


@pytest.mark.parametrize("kind", ["raises", "nan"])
def test_a_node_that_fails_is_told_and_the_others_go_on(tmp_path, kind):
    calls = []

    def loss(x):
        calls.append(1)
        if len(calls) > 60:
            if kind == "raises":
                raise RuntimeError("the database is gone")
            return float("nan"), np.full_like(x, np.nan)
        return float(x @ x), 2 * x

    bad = bq.Function(loss, dim=1, curvature=(2.0, 2.0), check=False)
    good = [bq.Quadratic([[1.0 + k]], [float(k)]) for k in range(3)]
    asked = {
        "problem": bq.Problem([*good, bad]),
        "graph": bq.graphs.ring(4),
        "will": bq.wills.Consensus(),
        "method": bq.GradientTracking(step=0.05),
        "rounds": 400,
        "checkpoint_every": 5,
    }
    calls.clear()
    run = logged(tmp_path / "log", Loop(), **asked)
    assert run.status is bq.Status.CONVERGED
    (record,) = run.departures
    assert record.node == 3
    assert record.crashed
    assert record.failed
    assert ("the database is gone" if kind == "raises" else "not finite") in record.why
    assert "failed after round" in str(record)
    assert record.heir is not None
    assert run.survivors == (0, 1, 2)


def test_who_fails_and_comes_back_has_not_failed_for_good():
    """The reason of a failure is that of one incarnation."""
    calls = []

    def loss(x):
        calls.append(1)
        if len(calls) == 60:
            raise RuntimeError("once")
        return float(x @ x), 2 * x

    bad = bq.Function(loss, dim=1, curvature=(2.0, 2.0), check=False)
    good = [bq.Quadratic([[1.0 + k]], [float(k)]) for k in range(3)]
    problem = bq.Problem([*good, bad])
    calls.clear()
    run = bq.solve(
        problem,
        bq.graphs.ring(4),
        departures=[bq.Crash(3, 200), bq.Return(3, 300), bq.Crash(3, 350)],
        will=bq.wills.Consensus(),
        method=bq.GradientTracking(step=0.05),
        rounds=400,
        engine=Loop(),
    )
    assert [record.failed for record in run.departures] == [True, False]


def test_a_host_that_dies_is_in_the_log(tmp_path):
    asked = arguments(4, bq.wills.Consensus()) | {"departures": []}
    weather = Weather(2, (0.1, 2.0), 0.1, outages=(Outage(15.0, "host 1"),), patience=3.0)
    run = logged(tmp_path / "log", Loop(weather, 2), **asked)
    assert {record.node for record in run.departures} == {2, 3}
    assert_identical(run, bq.solve(**asked, engine=Replay(journal.read(tmp_path / "log"))))
    header = json.loads(lines_of(tmp_path / "log")[0])
    assert header["engine"]["outages"] == [[15.0, "host 1"]]


def test_a_journal_is_of_one_run(tmp_path):
    asked = arguments(4, bq.wills.Consensus())
    with Journal(tmp_path / "log") as scribe:
        bq.solve(**asked, engine=Loop(scribe=scribe))
        with pytest.raises(InvalidMethod, match="another run"):
            bq.solve(**asked, engine=Loop(scribe=scribe))


def test_a_run_that_breaks_off_says_so_in_its_log(tmp_path, monkeypatch):
    asked = arguments(4, bq.wills.Consensus())

    def broken(self, sender, message):
        raise ZeroDivisionError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr("bequest.protocol.steward.Steward._on_begun", broken)
        with pytest.raises(ZeroDivisionError) as caught, Journal(tmp_path / "log") as scribe:
            bq.solve(**asked, engine=Loop(scribe=scribe))
        (note,) = caught.value.__notes__
        assert note.startswith("What happened to the steward, the latest last:")
        assert note.splitlines()[-1].startswith("  Begun from node")
        heard = []
        log = journal.read(tmp_path / "log")
        bq.solve(**asked, engine=Replay(log, listen=lambda entry, _: heard.append(entry)))
    assert heard[-1] == End("ZeroDivisionError: a defect")
    assert heard[-2].state is None


def test_a_defect_after_the_event_was_handled_is_repeated_too(tmp_path, monkeypatch):
    asked = arguments(4, bq.wills.Consensus())

    def broken(self, change):
        raise KeyError(change.epoch)

    with monkeypatch.context() as patch:
        patch.setattr("bequest.engines.runtime.ledger.Ledger.commit", broken)
        with pytest.raises(KeyError), Journal(tmp_path / "log") as scribe:
            bq.solve(**asked, engine=Loop(scribe=scribe))
        heard = []
        log = journal.read(tmp_path / "log")
        bq.solve(**asked, engine=Replay(log, listen=lambda entry, _: heard.append(entry)))
    assert heard[-1] == End("KeyError: 1")
    assert heard[-2].state is not None
    # and a defect that the run did not have is a difference
    logged(tmp_path / "log", Loop(), **asked)
    monkeypatch.setattr("bequest.engines.runtime.ledger.Ledger.commit", broken)
    with pytest.raises(ReplayDiffers, match="cannot be repeated: KeyError: 1"):
        bq.solve(**asked, engine=Replay(journal.read(tmp_path / "log")))


@pytest.mark.parametrize("lost", [0, 1])
def test_an_interrupt_may_cost_the_last_event_but_not_the_log(tmp_path, lost):
    path = tmp_path / "log"
    asked = arguments(4, bq.wills.Consensus())
    logged(path, Loop(), **asked)
    lines = lines_of(path)
    end = {"n": 31 + lost, "kind": "end", "why": "KeyboardInterrupt"}
    path.write_bytes(b"".join([*lines[:31], line_of(end)]))
    *entries, last = journal.read(path).entries()
    assert (len(entries), last) == (30, End("KeyboardInterrupt"))
    path.write_bytes(b"".join([*lines[:31], line_of(end | {"why": None, "n": 32})]))
    with pytest.raises(InvalidLog, match="it should be event 31"):
        list(journal.read(path).entries())


def test_the_digest_is_the_one_described():
    """As docs/loop.md says, without any of our code."""
    import hashlib

    seen = []

    class Witness:
        def began(self, engine):
            pass

        def before(self, time, process, what):
            pass

        def after(self, machine):
            if isinstance(machine, Node) and not machine.inherited.is_zero:
                seen.append(machine)
                held = machine.inherited
                words = [machine.state.value, machine.epoch, machine.round, machine.incarnation]
                text = json.dumps([*words, sorted(held.lineage)])
                numbers = [
                    held.eta,
                    held.c,
                    *machine.x,
                    *machine.iterate.z,
                    *machine.iterate.g,
                    *held.p,
                ]
                numbers += [*held.factor.flatten(), *held.weights]
                raw = text.encode() + struct.pack(f"<{len(numbers)}d", *numbers)
                assert journal.digest(machine) == hashlib.sha256(raw).hexdigest()[:16]
            elif not isinstance(machine, Node):
                network = [
                    [node, sorted(machine.present.network[node])]
                    for node in sorted(machine.present.network)
                ]
                place = [
                    machine.phase.value,
                    machine.present.number,
                    machine.present.round,
                    machine.pace,
                ]
                text = json.dumps([*place, network, sorted(machine.register.lost)])
                assert journal.digest(machine) == hashlib.sha256(text.encode()).hexdigest()[:16]

    bq.solve(**arguments(4, bq.wills.Drift(1)), engine=Loop(scribe=Witness()))
    assert len(seen) > 20


def test_a_disc_that_is_full_is_told(tmp_path):
    with pytest.raises(CannotWrite, match="no space left"), Journal(Path("/dev/full")) as scribe:
        bq.solve(**arguments(4, bq.wills.Consensus()), engine=Loop(scribe=scribe))


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n": 99}, "it should be event 3"),
        ({"kind": "dance"}, "keys"),
        ({"for": "me"}, "keys"),
        ({"state": 5}, "keys"),
        ({"t": None}, "keys"),
        ({"kind": "received", "bytes": "!"}, "not a message"),
        ({"kind": "received", "bytes": "QlFTVA=="}, "not a message"),
        ({"kind": "received", "bytes": 5}, "keys"),
        ({"kind": "end", "why": 5}, "keys"),
        ({"kind": "end", "why": None}, "after the end"),
    ],
)
def test_a_line_that_cannot_be_is_refused_by_its_number(tmp_path, change, words):
    path = tmp_path / "log"
    logged(path, Loop(), **arguments(4, bq.wills.Consensus()))
    lines = lines_of(path)
    fields = json.loads(lines[3])
    del fields["crc"]
    path.write_bytes(b"".join([*lines[:3], line_of(fields | change), *lines[4:]]))
    log = journal.read(path)
    entries = log.entries()
    assert [next(entries).number for _ in range(2)] == [1, 2]
    with pytest.raises(InvalidLog, match=words) as caught:
        next(entries)
    assert "line 4" in caught.value.what or "line 5" in caught.value.what


def test_lines_that_were_swapped_or_dropped_are_noticed(tmp_path):
    path = tmp_path / "log"
    logged(path, Loop(), **arguments(4, bq.wills.Consensus()))
    lines = lines_of(path)
    for wrong in (lines[:5] + lines[6:], [*lines[:5], lines[6], lines[5], *lines[7:]]):
        path.write_bytes(b"".join(wrong))
        with pytest.raises(InvalidLog, match="it should be event 5"):
            list(journal.read(path).entries())


def test_whatever_byte_is_changed_it_is_noticed(tmp_path):
    path = tmp_path / "log"
    logged(path, Loop(), **arguments(4, bq.wills.Consensus()))
    good = b"".join(lines_of(path)[:12])
    rng = np.random.default_rng(0)
    for _ in range(300):
        at, bit = int(rng.integers(len(good))), int(rng.integers(8))
        bad = bytearray(good)
        bad[at] ^= 1 << bit
        path.write_bytes(bad)
        with pytest.raises(InvalidLog) as caught:
            list(journal.read(path).entries())
        if at >= good.index(b"\n"):
            known = ("is damaged in line", "breaks off after event 10, in the middle")
            assert any(words in caught.value.what for words in known)


def test_wherever_a_log_is_cut_what_comes_before_is_read(tmp_path):
    path = tmp_path / "log"
    logged(path, Loop(), **arguments(4, bq.wills.Consensus()))
    lines = lines_of(path)
    whole = b"".join(lines)
    rng = np.random.default_rng(1)
    for cut in sorted({int(c) for c in rng.integers(len(lines[0]), len(whole), size=100)}):
        path.write_bytes(whole[:cut])
        complete = whole[:cut].count(b"\n") - 1
        entries = journal.read(path).entries()
        assert [next(entries).number for _ in range(complete)] == list(range(1, complete + 1))
        with pytest.raises(InvalidLog, match=f"breaks off after event {complete}"):
            next(entries)
