"""Runs on the loop engine, their logs, and bequest replay."""

import json
import os
import pty
import signal
import subprocess
import time

import pytest

from bequest.journal import FORMAT, line_of
from bequest.runfile import understand

EVERY_KIND = """
[departures]
events = [
  { node = 1, round = 30 },
  { node = 0, round = 50, kind = "crash" },
  { node = 4, round = 50, kind = "crash" },
  { node = 4, round = 60, kind = "forget" },
  { node = 1, round = 70, kind = "return" },
  { node = 5, round = 80, kind = "join" },
]
"""
WILLS = "[[wills]]\nkind = 'consensus'\n[[wills]]\nkind = 'drift'\nrank = 1\n"
STORM = "[engine]\nkind = 'loop'\ndelay = [0.0, 4.0]\nduplication = 0.2\nseed = 5\nhosts = 2\n"


@pytest.fixture
def logged(bequest, write, tmp_path):
    """Run a small file on the loop engine; return the log of its first run."""

    def run(rest=EVERY_KIND + WILLS, *options):
        result = bequest(
            "run", write(rest=rest), "--engine", "loop", "--log", tmp_path / "logs", *options
        )
        assert result.exit_code == 0, result.output
        return tmp_path / "logs" / "run-1.jsonl"

    return run


def refused(result, *words):
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    error, remedy = result.stderr.splitlines()
    assert error.startswith("error: ")
    assert remedy.startswith("what to do: ")
    for word in words:
        assert word in result.stderr
    return error


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


def rewritten(path, number, **changes):
    """Change a line of a log, and make its checksum right again."""
    lines = lines_of(path)
    fields = json.loads(lines[number])
    del fields["crc"]
    lines[number] = line_of(fields | changes)
    path.write_bytes(b"".join(lines))


# --- the engine ----------------------------------------------------------------------------


def close(one, other, where=""):
    """Whether two documents hold the same, but for rounding."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            close(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for index, pair in enumerate(zip(one, other, strict=True)):
            close(*pair, f"{where}[{index}]")
    elif isinstance(one, float):
        assert other == pytest.approx(one, rel=1e-6, abs=1e-9), where
    else:
        assert one == other, where


@pytest.mark.parametrize("engine", ["", STORM, STORM + "as_bytes = true\n"])
def test_the_loop_engine_gives_the_numbers_of_the_vector_engine(bequest, write, engine):
    wills = "[[wills]]\nkind = 'consensus'\n[[wills]]\nkind = 'classic'\n"
    hostless = engine.replace("hosts = 2\n", "")  # heirs on other hosts are other heirs
    path = write(top="seeds = [1, 2]", rest=hostless + EVERY_KIND + wills)
    vector = json.loads(bequest("run", path, "--json", "--engine", "vector").stdout)
    loop = json.loads(bequest("run", path, "--json", "--engine", "loop").stdout)
    for one, other in zip(vector["runs"], loop["runs"], strict=True):
        assert "Vector" in one.pop("provenance")["engine"]
        assert "Loop" in other.pop("provenance")["engine"]
        for x, y in zip(one["limit"], other["limit"], strict=True):
            assert abs(x - y) <= 1e-9
        assert abs(one["error"] - other["error"]) <= 1e-9
        one.pop("certificate")
        other.pop("certificate")
        for run in (one, other):
            for record in run["departures"]:
                record.pop("why")
        close(one, other)


def test_the_file_can_name_the_engine(bequest, write):
    document = json.loads(bequest("run", write(rest=STORM + EVERY_KIND + WILLS), "--json").stdout)
    engine = document["runs"][0]["provenance"]["engine"]
    assert "Loop(" in engine
    assert "delay=(0.0, 4.0)" in engine
    assert "seed=5" in engine
    assert "hosts=2" in engine


def test_the_weather_has_the_seed_of_the_run_if_it_has_none_of_its_own(bequest, write):
    path = write(top="seeds = [3, 8]", rest="[engine]\nkind = 'loop'\n")
    runs = json.loads(bequest("run", path, "--json").stdout)["runs"]
    assert ["seed=3" in runs[0]["provenance"]["engine"], runs[1]["seed"]] == [True, 8]
    assert "seed=8" in runs[1]["provenance"]["engine"]


@pytest.mark.parametrize(
    ("rest", "what", "remedy"),
    [
        ("kind = 'lop'", 'engine.kind: is "lop", which is not known.', 'mean "loop"?'),
        ("hosts = 2", "engine.kind: is missing.", "Add kind = ... to engine."),
        ("kind = 'vector'\nhosts = 2", "engine.hosts: is of no use", 'kind = "loop"'),
        ("kind = 'loop'\nhost = 2", "engine.host: is not a known key.", "mean hosts?"),
        ("kind = 'loop'\nhosts = 0", "engine.hosts: is 0.", "at least 1"),
        ("kind = 'loop'\ndelay = 3", "engine.delay: is 3, but must be a list", "delay = [3]"),
        ("kind = 'loop'\ndelay = [1.0]", "engine.delay: has length 1.", "at least 2"),
        ("kind = 'loop'\ndelay = [0.0, -1.0]", "engine.delay[1]: is -1.0.", "at least 0"),
        ("kind = 'loop'\ndelay = [2.0, 1.0]", "engine.delay: is [2, 1].", "least delay first"),
        ("kind = 'loop'\ndelay = [0.0, inf]", "engine.delay[1]: is inf", "finite"),
        ("kind = 'loop'\nduplication = 1.5", "engine.duplication: is 1.5.", "at most 1"),
        ("kind = 'loop'\nseed = -1", "engine.seed: is -1.", "at least 0"),
        ("kind = 'loop'\nas_bytes = 1", "engine.as_bytes: is 1", "true or false"),
    ],
)
def test_what_is_wrong_with_the_engine_is_told_in_words(bequest, write, rest, what, remedy):
    result = bequest("run", write(rest=f"[engine]\n{rest}\n"))
    refused(result, what, remedy)


def test_an_engine_that_does_not_exist_is_refused(bequest, write):
    result = bequest("run", write(), "--engine", "steam")
    assert result.exit_code == 2
    assert "vector" in result.stderr
    assert "loop" in result.stderr


# --- logs ----------------------------------------------------------------------------------


def test_every_run_has_a_log_and_the_table_says_which(bequest, write, tmp_path):
    path = write(top="seeds = [1, 2]", rest=STORM + EVERY_KIND + WILLS)
    result = bequest("run", path, "--log", tmp_path / "new" / "logs")
    assert result.exit_code == 0
    found = sorted((tmp_path / "new" / "logs").iterdir())
    assert [log.name for log in found] == [f"run-{k}.jsonl" for k in (1, 2, 3, 4)]
    assert "run-3.jsonl: consensus (GT-C), seed 2" in result.stdout
    for log in found:
        replayed = bequest("replay", log)
        assert replayed.exit_code == 0, replayed.stderr
        assert "events replayed, every state identical" in replayed.stdout


def test_a_log_changes_nothing_in_the_results(bequest, write, tmp_path):
    path = write(rest=STORM + EVERY_KIND + WILLS)
    plain = bequest("run", path, "--json")
    logged = bequest("run", path, "--json", "--log", tmp_path / "logs")
    assert logged.stdout == plain.stdout


def test_a_log_needs_the_loop_engine(bequest, write, tmp_path):
    result = bequest("run", write(), "--log", tmp_path / "logs")
    refused(result, "vector engine", "--engine loop", 'kind = "loop"')
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("place", ["run.toml", "run.toml/logs"])
def test_a_place_that_cannot_be_written_is_told_before_the_run(
    bequest, write, tmp_path, monkeypatch, place
):
    path = write()
    monkeypatch.setattr("bequest.runfile.prepare_each", lambda *_, **_kw: pytest.fail("too late"))
    result = bequest("run", path, "--engine", "loop", "--log", tmp_path / place)
    refused(result, "cannot be written")


def test_a_log_can_be_read_without_us(logged):
    """As docs/loop.md says: JSON line by line, and a checksum at the end of each."""
    import zlib

    for number, line in enumerate(lines_of(logged())):
        record = json.loads(line)
        body = line[: line.rindex(b',"crc"')]
        assert record["crc"] == f"{zlib.crc32(body):08x}"
        if number:
            assert record["n"] == number
        else:
            assert record["format"] == FORMAT
            assert record["run"]["label"] == "consensus (GT-C)"
            assert record["run"]["toml"].startswith("\nrounds = 200")
            assert record["engine"]["hosts"] == 1
    assert record["kind"] == "end"


# --- replay --------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["", STORM, STORM + "as_bytes = true\n"])
def test_a_run_is_replayed_bit_for_bit(bequest, logged, engine):
    log = logged(engine + EVERY_KIND + WILLS)
    events = len(lines_of(log)) - 2
    for path in sorted(log.parent.iterdir()):
        result = bequest("replay", path)
        assert result.exit_code == 0, result.stderr
    result = bequest("replay", log)
    assert result.stdout.splitlines()[-1] == f"{events} events replayed, every state identical"
    assert result.stderr == ""


def test_a_log_outlives_its_run_file(bequest, logged, tmp_path):
    log = logged()
    (tmp_path / "run.toml").unlink()
    assert bequest("replay", log).exit_code == 0


def test_a_run_on_a_table_is_replayed_if_the_table_is_still_there(bequest, root, tmp_path):
    for name in ("table.toml", "patients.csv"):
        (tmp_path / name).write_text((root / "examples" / name).read_text())
    run = tmp_path / "table.toml"
    run.write_text(run.read_text().replace("= 3000", "= 60").replace("round = 300", "round = 20"))
    result = bequest("run", run, "--engine", "loop", "--log", tmp_path / "logs")
    assert result.exit_code == 0, result.stderr
    log = min((tmp_path / "logs").iterdir())
    assert bequest("replay", log).exit_code == 0
    (tmp_path / "patients.csv").unlink()
    refused(bequest("replay", log), "patients.csv")


def test_the_story_of_a_node(bequest, logged):
    log = logged(STORM + EVERY_KIND + WILLS)
    said = bequest("replay", log, "--node", "1").stdout
    for words in (
        "node 1: asked to leave after round 30",
        "node 1: Arrange from the steward (epoch 1, round 0)",
        "- round 30 is completed",
        "- prepares to leave after round 30, with 2 vectors: consensus (",
        "the steward: epoch 2 is to begin after round 30; node 1 hands over to node",
        "node 0 is lost, node",
        "node 1: starts, and asks to come back",
        "dropped (",
    ):
        assert words in said, words
    assert "node 3: " not in said
    assert said.splitlines()[-1].endswith("every state identical")
    everybody = "".join(bequest("replay", log, "--node", str(node)).stdout for node in range(6))
    for words in (
        "prepares to adopt node 4's checkpoint of round 40",
        "prepares to take out its memory of node 4",
        "its process is killed",
        "asks to be forgotten",
        "asks to come in",
    ):
        assert words in everybody, words
    steward = bequest("replay", log, "--node", "steward").stdout
    assert "the steward: the network is founded" in steward
    assert "the steward: the verdict that node 0 is lost (its process is gone)" in steward
    assert "- the run is over after round 200" in steward


def test_tail_and_until_show_a_part(bequest, logged):
    log = logged()
    result = bequest("replay", log, "--until", "100", "--tail", "3")
    assert result.exit_code == 0
    told = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("    ")]
    assert [number for number in told if number != "-"] == ["98", "99", "100"]
    assert result.stdout.splitlines()[-1] == "100 events replayed, every state identical"
    one = bequest("replay", log, "--until", "1")
    assert one.stdout.splitlines()[-1] == "1 event replayed, every state identical"
    of_node = bequest("replay", log, "--node", "2", "--tail", "1").stdout.splitlines()
    assert len(of_node) in (3, 4)
    assert "node 2: " in of_node[1]


@pytest.mark.parametrize("name", ["6", "-1", "two", ""])
def test_a_node_that_does_not_exist_is_refused(bequest, logged, name):
    refused(bequest("replay", logged(), f"--node={name}"), f'--node is "{name}"', "0..5")


@pytest.mark.parametrize("number", [1, 40, 333])
def test_a_state_that_was_tampered_with_is_found_out_at_its_event(bequest, logged, number):
    log = logged(STORM + EVERY_KIND + WILLS)
    rewritten(log, number, state="0123456789abcdef")
    result = bequest("replay", log)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: Event {number} (")
    assert "leads to another state than it did in the run" in result.stderr
    assert "What happened to " in result.stderr
    assert "identical" not in result.stdout
    assert bequest("replay", log, "--until", number - 1 or 1).exit_code == (number == 1)


def test_a_message_that_was_tampered_with_is_found_out(bequest, logged):
    log = logged()
    lines = [json.loads(line) for line in lines_of(log)]
    exchanges = [k for k, r in enumerate(lines) if r.get("kind") == "received" and k > 60]
    one, other = exchanges[:2]
    rewritten(log, one, **{"bytes": lines[other]["bytes"], "for": lines[other]["for"]})
    result = bequest("replay", log)
    assert result.exit_code == 1
    found = int(result.stderr.split()[2])
    assert one <= found < one + 20


def test_an_event_for_somebody_who_is_gone_is_found_out(bequest, logged):
    log = logged()
    records = [json.loads(line) for line in lines_of(log)]
    killed = next(k for k, record in enumerate(records) if record.get("kind") == "killed")
    rewritten(log, killed + 1, **{"kind": "leave", "after": 3, "for": records[killed]["for"]})
    result = bequest("replay", log)
    assert result.exit_code == 1
    assert f"Event {killed + 1} " in result.stderr
    assert "is gone" in result.stderr


def test_a_log_from_another_machine_says_so_when_it_differs(bequest, logged):
    log = logged()
    provenance = json.loads(lines_of(log)[0])["provenance"]
    rewritten(log, 0, provenance=provenance | {"numpy": "1.0", "machine": "Abacus"})
    assert bequest("replay", log).exit_code == 0
    rewritten(log, 9, state="0" * 16)
    result = bequest("replay", log)
    assert result.exit_code == 1
    assert "numpy 1.0 (here " in result.stderr
    assert "machine Abacus" in result.stderr


# --- logs that cannot be used ----------------------------------------------------------------


def test_a_log_that_is_cut_short_is_replayed_as_far_as_it_goes(bequest, logged):
    log = logged()
    lines = lines_of(log)
    for cut, where in ((b"".join(lines[:70])[:-9], "68, in the"), (b"".join(lines[:70]), "69:")):
        log.write_bytes(cut)
        result = bequest("replay", log)
        refused(result, f"breaks off after event {where}")
        events = int(where[:2])
        assert result.stdout.splitlines()[-1] == f"{events} events replayed, every state identical"
    assert bequest("replay", log, "--until", "60").exit_code == 0


def test_damage_is_told_by_line(bequest, logged):
    log = logged()
    whole = log.read_bytes()
    lines = lines_of(log)
    at = sum(map(len, lines[:50])) + 30
    log.write_bytes(whole[:at] + b"#" + whole[at + 1 :])
    result = bequest("replay", log)
    refused(result, "damaged in line 51")
    assert "49 events replayed, every state identical" in result.stdout
    log.write_bytes(whole + b"more\n")
    refused(bequest("replay", log), "after the end")


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"hello\n", b"[]\n", b"{}\n", b'{"log": "of a ship"}\n', b"\xff\xfe", None],
)
def test_what_is_no_log_is_refused(bequest, tmp_path, content):
    path = tmp_path / "log.jsonl"
    if content is not None:
        path.write_bytes(content)
    error = refused(bequest("replay", path))
    assert ("is not a log" if content is not None else "cannot be read") in error


def test_a_folder_is_refused_with_what_is_in_it(bequest, logged):
    folder = logged().parent
    refused(bequest("replay", folder), "is a folder", "run-1.jsonl, run-2.jsonl")


def test_a_log_of_another_version_is_refused_with_who_can_read_it(bequest, logged):
    log = logged()
    provenance = json.loads(lines_of(log)[0])["provenance"] | {"bequest": "9.1"}
    rewritten(log, 0, format=9, provenance=provenance)
    refused(bequest("replay", log), "version '9' of the format", "bequest 9.1")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"run": None}, "Replay(log)"),
        ({"run": {"file": "x"}}, "damaged in line 1"),
        ({"run": {"file": "x", "toml": 5, "label": "", "seed": 0}}, "damaged in line 1"),
        ({"run": {"file": "x", "toml": "", "label": "", "seed": 0, "method": 5}}, "damaged"),
        ({"engine": 5}, "damaged in line 1"),
        ({"engine": {"hosts": {"a": "b"}}}, "damaged in line 1"),
    ],
)
def test_a_header_that_cannot_be_used_is_refused(bequest, logged, change, word):
    log = logged()
    rewritten(log, 0, **change)
    refused(bequest("replay", log), word)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"label": "another"}, 'no will "another"'),
        ({"seed": 77}, "with seed 77"),
        ({"toml": "rounds = "}, "is not TOML"),
        ({"toml": "rounds = 5"}, "mistakes"),
        ({"method": {"kind": "telepathy"}}, "telepathy"),
    ],
)
def test_a_run_file_that_does_not_fit_is_refused(bequest, logged, change, word):
    log = logged()
    run = json.loads(lines_of(log)[0])["run"]
    rewritten(log, 0, run=run | change)
    result = bequest("replay", log)
    assert result.exit_code == 2
    assert word in result.stderr


@pytest.mark.parametrize("given", ["", "[method]\nkind = 'extra'\n"])
def test_a_log_says_how_nodes_iterated_also_where_the_run_file_does_not(
    bequest, write, tmp_path, given
):
    """What is chosen where nothing is said may change; a log must replay all the same."""
    bequest("run", write(rest=given + WILLS), "--engine", "loop", "--log", tmp_path / "logs")
    log = next((tmp_path / "logs").glob("*.jsonl"))
    run = json.loads(lines_of(log)[0])["run"]
    assert run["method"] == ({"kind": "extra"} if given else {"kind": "nids", "metric": "hessian"})
    assert "every state identical" in bequest("replay", log).stdout
    # a log that does not say it is from before there was a choice
    rewritten(log, 0, run={key: value for key, value in run.items() if key != "method"})
    result = bequest("replay", log)
    assert ("every state identical" in result.stdout) == bool(given)
    assert ("leads to another state" in result.stderr) != bool(given)


def test_momentum_and_shrinking_steps_are_in_the_log(bequest, write, tmp_path):
    given = "[method]\nkind = 'gradient-tracking'\nmomentum = 0.5\nhalf = 300\n"
    bequest("run", write(rest=given + WILLS), "--engine", "loop", "--log", tmp_path / "logs")
    log = next((tmp_path / "logs").glob("*.jsonl"))
    run = json.loads(lines_of(log)[0])["run"]
    assert run["method"] == {"kind": "gradient-tracking", "half": 300, "momentum": 0.5}
    assert "every state identical" in bequest("replay", log).stdout


def test_shrinking_steps_of_the_default_method_are_in_the_log(bequest, write, tmp_path):
    given = "[method]\nhalf = 300\n"
    path = write(rest=given + WILLS)
    bequest("run", path, "--engine", "loop", "--log", tmp_path / "logs")
    log = next((tmp_path / "logs").glob("*.jsonl"))
    run = json.loads(lines_of(log)[0])["run"]
    assert run["method"] == {"kind": "nids", "metric": "hessian", "half": 300}
    assert "every state identical" in bequest("replay", log).stdout
    # the method of the log counts, also if another one would be chosen by now
    kept = understand(run["toml"], path, method=run["method"] | {"metric": "scalar"})
    assert kept.content.method.build().method.metric == "scalar"


# --- runs that end badly -----------------------------------------------------------------------


def test_a_run_that_is_killed_leaves_a_log_that_replays(command, bequest, write, tmp_path):
    text = (
        write(rest=STORM + EVERY_KIND + WILLS)
        .read_text()
        .replace("rounds = 200", "rounds = 2000000")
    )
    path = write(text)
    log = tmp_path / "logs" / "run-1.jsonl"
    process = command("run", path, "--log", log.parent)
    deadline = time.monotonic() + 60
    while not log.exists() or log.stat().st_size < 1_000_000:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    size = log.stat().st_size
    complete = log.read_bytes().count(b"\n") - 1
    result = bequest("replay", log, "--node", "2", "--tail", "5")
    refused(result, f"breaks off after event {complete}")
    assert f"{complete} events replayed, every state identical" in result.stdout
    assert "node 2: " in result.stdout
    assert log.stat().st_size == size


def test_a_run_that_is_interrupted_says_so_in_its_log(interrupted, bequest, write, tmp_path):
    text = write(rest=STORM).read_text().replace("rounds = 200", "rounds = 2000000")
    log = tmp_path / "logs" / "run-1.jsonl"
    interrupted(b"run 1 of 1", "run", write(text), "--log", log.parent)
    last = json.loads(lines_of(log)[-1])
    assert (last["kind"], last["why"]) == ("end", "KeyboardInterrupt")
    result = bequest("replay", log, "--until", "200")
    assert result.exit_code == 0
    assert "broke off" not in result.stdout


def test_a_stall_is_told_with_the_story_of_a_node(bequest, write, tmp_path, monkeypatch):
    """A network that swallows reports: no node goes on, and a reader can see why."""
    from bequest.engines.loop.network import VirtualNetwork
    from bequest.protocol.messages import Halted

    send = VirtualNetwork.send

    def swallow(self, sender, receiver, event, **options):
        if not isinstance(getattr(event, "message", None), Halted):
            send(self, sender, receiver, event, **options)

    path = write(rest=EVERY_KIND + WILLS)
    with monkeypatch.context() as patch:
        patch.setattr(VirtualNetwork, "send", swallow)
        result = bequest("run", path, "--engine", "loop", "--log", tmp_path / "logs")
    assert result.exit_code == 2
    assert f"error: {path}: Nothing is under way, but the run is not over" in result.stderr
    assert "What happened to node 0, the latest last:" in result.stderr
    assert "\n  Exchange from node 1 (epoch 1, round 30)\n" in result.stderr
    log = tmp_path / "logs" / "run-1.jsonl"
    replayed = bequest("replay", log)
    assert replayed.exit_code == 0
    assert "the run broke off there: Stalled: Nothing is under way" in replayed.stdout


def test_a_node_that_fails_is_told_in_words_and_the_others_go_on(bequest, write, monkeypatch):
    from bequest.protocol.node import Node

    advance = Node._advance

    def failing(self):
        if self.ident == 2 and self.round == 44:
            raise RuntimeError("the database is gone")
        return advance(self)

    monkeypatch.setattr(Node, "_advance", failing)
    wills = "[[wills]]\nkind = 'consensus'\n"
    result = bequest("run", write(rest=wills), "--engine", "loop")
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert "node 2 failed (RuntimeError: the database is gone) after round 4" in said
    assert "adopted its checkpoint of round 40" in said
    document = json.loads(bequest("run", write(rest=wills), "--engine", "loop", "--json").stdout)
    (record,) = document["runs"][0]["departures"]
    assert record["failed"]
    assert record["why"] == "RuntimeError: the database is gone"


# --- pipes and terminals -----------------------------------------------------------------------


def test_a_story_goes_through_a_pipe_and_a_reader_may_leave_early(command, logged):
    log = logged()
    process = command("replay", log, "--node", "2", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "\x1b" not in stdout
    assert stderr == ""
    reading, writing = os.pipe()
    os.close(reading)
    process = command("replay", log, "--node", "2", stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (141, "")


def test_a_story_in_a_terminal(command, logged):
    terminal, end = pty.openpty()
    process = command("replay", logged(), "--tail", "2", stdout=end, stderr=end)
    os.close(end)
    seen = b""
    try:
        while chunk := os.read(terminal, 4096):
            seen += chunk
    except OSError:  # how a terminal says that the other side is gone
        pass
    os.close(terminal)
    assert process.wait(timeout=60) == 0
    assert b"every state identical" in seen


def test_what_a_log_from_elsewhere_says_cannot_move_the_cursor(bequest, logged):
    log = logged()
    rewritten(log, len(lines_of(log)) - 1, why="\x1b[2Jboom\r\nnew line")
    said = bequest("replay", log).stdout
    assert "boom" in said
    assert "\x1b" not in said
    assert "\r" not in said
