"""The command on a real cluster, as a user would type it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rehearsal import same

import bequest as bq
from bequest.engines import Loop, Ray

RUN = """
rounds = 150
seeds = [2]

[problem]
kind = "quadratics"
n = 8
dim = 3
mu = 1.0
L = 5.0

[graph]
kind = "ring"

[departures]
events = [{ node = 1, round = 40 }, { node = 6, round = 60, kind = "crash" }]

[engine]
kind = "ray"
nodes_per_host = 4

[[wills]]
kind = "drift"
"""


def bequest(*words, **more):
    command = [sys.executable, "-m", "bequest", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **more)


def test_run(machines, tmp_path):
    """Only JSON on standard output, a log on the other, and the numbers of the other engines."""
    file = tmp_path / "run.toml"
    file.write_text(RUN)
    record = tmp_path / "record"
    words = ("run", file, "--json", "--address", machines.address, "--record", record)
    done = bequest(*words, "--view")
    assert done.returncode == 0, done.stderr
    assert "watch it while it goes on: http://127.0.0.1:" in done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert "node 1 left after round 40" in done.stderr
    assert "node 6 crashed after round 60" in done.stderr
    file.write_text(RUN.replace('"ray"', '"loop"').replace("nodes_per_host", "hosts"))
    loop = json.loads(bequest("run", file, "--json").stdout)["runs"][0]
    assert run["error"] == loop["error"]
    file.write_text(RUN)
    assert [d["node"] for d in run["departures"]] == [1, 6]
    again = bequest(*words, "--resume")
    assert json.loads(again.stdout)["runs"] == [run]
    lines = [json.loads(line) for line in Path(record / "run-01.jsonl").read_text().splitlines()]
    assert any("node 1 left" in line.get("what", "") for line in lines)
    # The log beside the record is one that can be watched, too, and was while it grew.
    told = [line["departure"] for line in lines if "departure" in line]
    assert told == run["departures"]
    assert "begun" in lines[0]
    assert any(line.get("ended") for line in lines)
    shown = bequest(
        "view", record / "run-01.jsonl", record / "run-01.record", "-o", record / "x.html"
    )
    assert shown.returncode == 0, shown.stderr


@pytest.mark.slow
def test_demo(machines):
    """One silo is killed and one preempted for real, and all the same their digits are known."""
    done = bequest("demo", "--engine", "ray", "--address", machines.address)
    assert done.returncode == 0, done.stderr
    right = {
        line[: line.index("  ")].strip(): float(line.split()[-11])
        for line in done.stdout.splitlines()
        if re.match(r"\s*(nobody left|classic|drift \(2 vectors\)|drift \(6 vectors\))\s+\d", line)
    }
    assert right["nobody left"] > 92
    assert right["classic"] < 75
    assert right["drift (2 vectors)"] > right["nobody left"] - 3
    assert right["drift (6 vectors)"] > right["nobody left"] - 3
    for words in ("node 7 crashed", "node 3 left", "node 8 left"):
        assert done.stdout.count(words) == 3, done.stdout
    assert "no node remembers 3, 7 and 8" in done.stdout  # under the classic will


@pytest.mark.slow
def test_calls_that_fail_on_their_way(fragile, driver):
    """A tenth of all requests and of all replies are lost; nothing is, and no bit differs."""
    failures = {"num_failures": 100, "req_failure_prob": 10, "resp_failure_prob": 10}
    rule = {"CoreWorkerService.grpc_client.PushTask": failures}
    stage = fragile(2, RAY_testing_rpc_failure=json.dumps(rule))
    driver(stage)
    problem = bq.problems.quadratics(n=8, dim=4, mu=1.0, L=10.0, seed=1)
    graph = bq.graphs.ring_with_chords(8, chords=4, seed=1)
    events = [bq.Departure(2, 80), bq.Crash(5, 100), bq.Return(2, 130), bq.Join(7, 150)]
    common = {"rounds": 200, "departures": events, "will": bq.wills.Drift(0)}
    views = []
    run = bq.solve(problem, graph, engine=Ray(nodes_per_host=4, watch=views.append), **common)
    hosts = {node: views[0].hosts[f"host {node // 4}"].machine for node in range(8)}
    assert same(run, bq.solve(problem, graph, engine=Loop(hosts=hosts), **common))
    lost = [
        line.split("Inject RPC ")[1].split(" failure")[0]
        for log in stage.folder.rglob("python-core-worker*.log")
        for line in log.read_text(errors="replace").splitlines()
        if "Inject RPC " in line
    ]
    assert min(lost.count("request"), lost.count("response")) > 20, len(lost)
