"""What ``bequest view`` reads: records, logs and results, whole, cut short, or not ours at all."""

import json
import re

import pytest
from typer.testing import CliRunner

from bequest import journal
from bequest.cli import app
from bequest.errors import BequestError, InvalidLog, InvalidResult
from bequest.view.page import SCRIPTS, bundled, page_of
from bequest.view.reading import read
from bequest.view.scenery import MOST_DRAWN, positions, staged

RUN_FILE = """
rounds = 120
[problem]
kind = "quadratics"
n = 6
dim = 2
mu = 1.0
L = 4.0
[graph]
kind = "ring"
[departures]
events = [
  { node = 5, round = 10, kind = "join" },
  { node = 1, round = 30 },
  { node = 2, round = 50, kind = "crash" },
  { node = 1, round = 70, kind = "return" },
  { node = 2, round = 90, kind = "forget" },
]
[[wills]]
kind = "classic"
[[wills]]
kind = "adaptive"
label = "<script>alert(1)</script>"
"""


def bequest(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records, logs and results of the same two runs."""
    place = tmp_path_factory.mktemp("runs")
    (place / "run.toml").write_text(RUN_FILE)
    for engine, more in (("vector", ()), ("loop", ("--log", place / "logs"))):
        done = bequest(
            "run", place / "run.toml", "--engine", engine, *more,
            "--record", place / engine, "--output", place / f"{engine}.json",
        )  # fmt: skip
        assert done.exit_code == 0, done.output
    return place


def events(document):
    happened = [(one["round"], one["node"]) for one in document["departures"]]
    return happened + [(one["round"], one["node"]) for one in document["changes"]]


def test_all_three_kinds_of_files_tell_the_same_run(folder):
    (record,) = read(folder / "loop" / "run-02.record")
    (log,) = read(folder / "logs" / "run-2.jsonl")
    results = read(folder / "loop.json")[1]
    assert record.document == log.document
    for name, told in record.document.items():
        if name != "curves":  # results have fewer rounds of them
            assert results.document[name] == told, name
    kept = results.document["curves"]["rounds"]
    whole = record.document["curves"]
    assert whole["rounds"] == list(range(121))
    assert set(kept) <= set(whole["rounds"])
    assert all(run.is_whole and not run.notes for run in (record, log, results))
    assert events(record.document) == [(30, 1), (50, 2), (10, 5), (70, 1), (90, 2)]


def test_a_log_that_breaks_off_is_shown_as_far_as_it_goes(folder, tmp_path):
    whole = (folder / "logs" / "run-2.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    reached = []
    for part in (0.15, 0.5, 0.9):
        cut = tmp_path / "cut.jsonl"
        cut.write_bytes(b"".join(lines[: int(part * len(lines))]) + b'{"n":')
        (run,) = read(cut)
        assert not run.is_whole
        assert "breaks off" in run.notes[0]
        assert "so far" in run.notes[0]
        reached.append(run.document["curves"]["rounds"][-1])
        assert all(t <= reached[-1] + 1 for t, _ in events(run.document))
    assert 0 < reached[0] < reached[1] < reached[2] < 120
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    cut.write_bytes(damaged)
    assert "checksum" in read(cut)[0].notes[0]
    cut.write_bytes(lines[0])
    with pytest.raises(InvalidLog, match="breaks off"):
        read(cut)


def test_a_log_of_another_version_is_refused_in_words(folder, tmp_path):
    first, *rest = (folder / "logs" / "run-1.jsonl").read_bytes().splitlines(keepends=True)
    header = {k: v for k, v in json.loads(first).items() if k != "crc"} | {"format": 9}
    other = tmp_path / "other.jsonl"
    other.write_bytes(journal.line_of(header) + b"".join(rest))
    with pytest.raises(InvalidLog, match="version '9' of the format"):
        read(other)


def with_other(results, **changes):
    return json.dumps(results | changes).encode()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: with_other(r, format=7), "version '7' of the format"),
        (lambda r: with_other(r, runs=[{"will": "x", "seed": 1}]), 'run 1 cannot .* no "status"'),
        (lambda r: with_other(r, runs=[3]), "run 1 cannot be shown: it is no run"),
        (lambda r: with_other(r)[:-20], "or not all of it"),
        (lambda _: b"", "it is empty"),
        (lambda _: b"hello", "no part of bequest writes this"),
        (lambda _: b"BQRC\x01\x00" + bytes(60), "in version 1 of the format"),
        (lambda _: b"BQRC", "too short"),
    ],
)
def test_what_is_no_run_is_refused_in_words(folder, tmp_path, change, says):
    results = json.loads((folder / "vector.json").read_bytes())
    path = tmp_path / "odd.json"
    path.write_bytes(change(results))
    with pytest.raises(BequestError, match=says) as refusal:
        read(path)
    assert refusal.value.remedy


WRONG = {
    "no network": lambda run: run.pop("network"),
    "no nodes": lambda run: run["network"].update(nodes=0),
    "an edge to nowhere": lambda run: run["network"]["edges"].append([0, 6]),
    "half an edge": lambda run: run["network"]["edges"].append([0]),
    "no node absent": lambda run: run["network"].update(absent="5"),
    "no rounds": lambda run: run["curves"].pop("rounds"),
    "rounds that go back": lambda run: run["curves"]["rounds"].reverse(),
    "a short curve": lambda run: run["curves"]["error"].pop(),
    "a curve of words": lambda run: run["curves"].update(error=["x"] * 121),
    "a departure without a node": lambda run: run["departures"][0].pop("node"),
    "an heir that is nowhere": lambda run: run["departures"][0].update(heir=99),
    "an heir by name": lambda run: run["departures"][0].update(heir="alice"),
    "a bridge to nowhere": lambda run: run["departures"][0].update(bridges=[[0, 77]]),
    "a change that is none": lambda run: run["changes"].append("soon"),
    "a round that is none": lambda run: run["changes"][0].update(round=None),
    "no will": lambda run: run.pop("will"),
}


def test_names_of_silos_are_told(folder, tmp_path):
    results = json.loads((folder / "vector.json").read_bytes())
    network = results["runs"][0]["network"]
    network["names"] = ["<b>", *(f"silo {k}" for k in range(1, network["nodes"]))]
    path = tmp_path / "named.json"
    path.write_text(json.dumps(results))
    (scene, *_) = staged(read(path))["runs"]
    assert scene["network"]["names"] == network["names"]
    for wrong in (["too few"], [7] * network["nodes"], "ab"):
        network["names"] = wrong
        path.write_text(json.dumps(results))
        with pytest.raises(InvalidResult, match="the names of its nodes do not fit"):
            read(path)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_no_results(folder, tmp_path, number):
    results = json.loads((folder / "vector.json").read_bytes())
    results["runs"][0]["error"] = "HERE"
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(results).replace('"HERE"', number))
    with pytest.raises(InvalidResult, match="not what bequest run --json prints"):
        read(path)


@pytest.mark.parametrize(
    "line", ['{"begun": 5}', '{"begun": {"wills": 5}}', '{"begun": {}}\n{"gradient_norm": 1}']
)
def test_news_that_are_none_are_refused_in_words(tmp_path, line):
    path = tmp_path / "news.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(BequestError, match="not the log of a run"):
        read(path)


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_drawn_is_refused_in_words(folder, tmp_path, name):
    results = json.loads((folder / "vector.json").read_bytes())
    WRONG[name](results["runs"][1])
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(results))
    with pytest.raises(InvalidResult, match="run 2 cannot be shown") as refusal:
        read(path)
    assert "Write it anew" in refusal.value.remedy


def test_a_folder_and_nothing_are_told_apart(folder):
    with pytest.raises(InvalidResult) as refusal:
        read(folder / "vector")
    assert "run-01.record, run-02.record" in refusal.value.remedy
    with pytest.raises(InvalidResult, match="There is no file"):
        read(folder / "nowhere.record")


def test_the_command_writes_one_page_that_holds_everything(folder, tmp_path):
    page = tmp_path / "page.html"
    done = bequest(
        "view", folder / "vector" / "run-01.record", folder / "vector" / "run-02.record", "-o", page
    )
    assert done.exit_code == 0
    assert f"2 runs, {page.stat().st_size / 1e6:.2f} MB: {page}" in done.output.replace("\n", "")
    text = page.read_text()
    assert "{{" not in text
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", text)
    assert "connect-src 'none'" in text
    # A label cannot become a part of the page.
    assert "<script>alert" not in page_of(staged(read(folder / "vector.json"))).decode()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert [len(run["departures"]) for run in data["runs"]] == [2, 2]


def test_the_command_says_when_it_shows_a_part_only(folder, tmp_path):
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes((folder / "logs" / "run-1.jsonl").read_bytes()[:200_000])
    done = bequest("view", cut)
    assert done.exit_code == 0
    assert "note: " in done.output
    assert "so far" in (tmp_path / "cut.html").read_text()


def test_a_place_that_cannot_be_written_is_known_before_anything_is_read(folder):
    done = bequest("view", folder / "nowhere.record", "-o", folder / "no" / "page.html")
    assert done.exit_code == 2
    assert "page.html cannot be written" in done.output


def test_twenty_nodes_and_2600_rounds_stay_below_a_megabyte_and_a_half(folder, tmp_path):
    text = re.sub("rounds = 120", "rounds = 2600", RUN_FILE).replace("n = 6", "n = 20")
    (tmp_path / "long.toml").write_text(text)
    bequest("run", tmp_path / "long.toml", "--record", tmp_path / "long")
    runs = read(tmp_path / "long" / "run-02.record")
    assert len(runs[0].document["curves"]["rounds"]) == 2601
    assert len(page_of(staged(runs))) < 1_500_000


def test_nodes_are_drawn_apart_and_too_many_as_an_overview(folder):
    network = read(folder / "vector.json")[0].document["network"]
    places = positions(network)
    assert len({tuple(place) for place in places}) == network["nodes"]
    assert all(0 <= x <= 1 for place in places for x in place)
    many = {"nodes": MOST_DRAWN + 1, "edges": [[k, k + 1] for k in range(MOST_DRAWN)], "absent": []}
    assert positions(many) is None
    grid = {"nodes": 100, "edges": [[k, k + 1] for k in range(99)] + [[0, 50]], "absent": []}
    assert len({tuple(place) for place in positions(grid)}) == 100
    assert positions({"nodes": 1, "edges": [], "absent": []}) == [[0.5, 0.5]]


def test_every_script_is_in_the_page_once():
    script = bundled()
    for name in SCRIPTS:
        assert script.count(f'modules["./{name}"] = ') == 1
    assert not re.findall(r"^(?:import|export) ", script, re.MULTILINE)
