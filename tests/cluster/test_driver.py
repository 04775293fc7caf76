"""A driver that is killed loses nothing: the run goes on, and is found again."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import driver as program
import numpy as np
import pytest
from faults import is_gone
from rehearsal import same

import bequest as bq
from bequest.engines import Loop, Ray
from bequest.engines.ray import ray_private
from bequest.engines.ray.supervisor_actor import _LINGER

HERE = Path(__file__).parent


def job_table():
    """What Ray knows of the programs that are or were connected."""
    import ray

    return ray._private.state.state.job_table()


def start(machines, name, record, rounds):
    """Start the program; return it once its run has come to round 100."""
    words = [sys.executable, str(HERE / "driver.py"), machines.address, name, str(record)]
    running = subprocess.Popen([*words, str(rounds)], cwd=HERE, preexec_fn=_hears_interrupts)
    deadline = time.monotonic() + 120
    while reached(record) < 100:
        assert running.poll() is None, "the program has ended"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return running


def _hears_interrupts():
    """Undo what a shell does to jobs in its background: they ignore interrupts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def reached(record):
    """The last round in the log."""
    log = record.with_suffix(".jsonl")
    if not log.exists():
        return 0
    return max([json.loads(line).get("round", 0) for line in log.read_bytes().splitlines()] or [0])


def test_a_run_whose_driver_was_killed_is_joined_again(machines, tmp_path):
    """Some of its losses are stochastic: resumed in the middle, it still takes the same samples."""
    record = tmp_path / "run.record"
    running = start(machines, "joined", record, 800)
    running.send_signal(signal.SIGKILL)
    running.wait(timeout=10)
    assert running.returncode == -signal.SIGKILL
    alone = reached(record)
    views = []

    def watch(view):
        if not views:
            (job,) = (job["JobID"] for job in job_table() if job["DriverPid"] == running.pid)
            assert not ray_private.is_running(job)
        views.append(view)

    engine = Ray(
        machines.address,
        nodes_per_host=4,
        name="joined",
        record=record,
        resume=True,
        watch=watch,
    )
    run = bq.solve(**program.arguments(800), engine=engine)
    # It was not begun anew, and not a bit is different.
    assert views[0].round >= min(alone, 100)
    # Where they were at the start; by now a node may have left.
    hosts = {node: views[0].hosts[f"host {node // 4}"].machine for node in range(12)}
    loop = bq.solve(**program.arguments(800), engine=Loop(hosts=hosts))
    assert same(run, loop)
    pids = [host.pid for host in views[-1].hosts.values()]
    assert all(is_gone(pid) for pid in [*pids, views[-1].steward])


@pytest.mark.slow
def test_a_driver_that_is_busy_when_its_run_ends_still_gets_it(machines, driver):
    """It sleeps for longer than a supervisor whose driver is gone waits for another one."""
    driver(machines)
    statuses = []

    def watch(view):
        statuses.append(view.status)
        if len(statuses) == 1:
            time.sleep(_LINGER + 5.0)

    engine = Ray(nodes_per_host=12, watch=watch)
    run = bq.solve(program.PROBLEM, program.GRAPH, rounds=20, engine=engine)
    assert statuses[-1] is run.status
    assert len(statuses) < 5  # it was over when the driver looked again


def test_a_run_that_ended_while_nobody_watched_is_collected(machines, tmp_path):
    record = tmp_path / "run.record"
    running = start(machines, "collected", record, 400)
    running.send_signal(signal.SIGKILL)
    running.wait(timeout=10)
    deadline = time.monotonic() + 120
    while not record.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    engine = Ray("127.0.0.1:1", nodes_per_host=4, name="collected", record=record, resume=True)
    run = bq.solve(**program.arguments(400), engine=engine)  # needs no cluster any more
    assert len(run.departures) == 2
    told = [json.loads(line) for line in record.with_suffix(".jsonl").read_text().splitlines()]
    assert any("it is over" in entry.get("what", "") for entry in told)
    # A record of another run is not taken for this one's: other labels, another graph.
    asked = program.arguments(400)
    moved = bq.Quadratic(asked["problem"].objective(5).A, np.ones(5))
    losses = [moved if node == 5 else asked["problem"].objective(node) for node in range(12)]
    for other, what in (
        ({"problem": bq.Problem(losses)}, "another run; what differs: the loss of node 5"),
        ({"graph": bq.graphs.complete(12)}, "another run; what differs: the graph"),
        ({"checkpoint_every": 7}, r"checkpoint_every \(20 there, 7 here\)"),
    ):
        with pytest.raises(bq.errors.InvalidResult, match=what):
            bq.solve(**{**asked, **other}, engine=engine)


def test_a_driver_that_is_killed_before_the_run_has_begun(machines, driver, tmp_path):
    """Every process that was started for it ends, and resuming it begins anew."""
    import ray

    ray.cloudpickle.register_pickle_by_value(program)
    record, flag = tmp_path / "run.record", tmp_path / "slow"
    flag.touch()
    words = [sys.executable, str(HERE / "driver.py"), machines.address, "early", str(record)]
    running = subprocess.Popen([*words, "100"], cwd=HERE)
    driver(machines)
    wait_for(lambda: len(actors_of("early")) == 5)
    running.send_signal(signal.SIGKILL)
    running.wait(timeout=10)
    before = actors_of("early")
    flag.unlink()
    engine = Ray(nodes_per_host=4, name="early", record=record, resume=True)
    run = bq.solve(**program.loaded(100, flag), engine=engine)
    assert len(run.survivors) == 10
    # Those that were not quite there when the driver died Ray has ended itself.
    assert "supervisor" in before
    wait_for(lambda: not actors_of("early"))


def actors_of(name):
    """What the processes of a run are called that are alive."""
    import ray

    everybody = ray.util.list_named_actors(all_namespaces=True)
    return [actor["name"] for actor in everybody if actor["namespace"] == f"bequest {name}"]


def wait_for(condition, patience=60.0):
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_same_name_twice(machines, tmp_path):
    record = tmp_path / "run.record"
    running = start(machines, "twice", record, 30_000)
    try:
        other = r"is another one; what differs: .*the number of rounds \(30000 there, 2000 here\)"
        for resume, rounds, says in ((False, 30_000, "is going on"), (True, 2000, other)):
            engine = Ray(
                machines.address, nodes_per_host=4, name="twice", record=record, resume=resume
            )
            with pytest.raises(bq.errors.ClusterFailed, match=says):
                bq.solve(**program.arguments(rounds), engine=engine)
    finally:
        # An interrupt, unlike a SIGKILL, ends the run.
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=60) != 0
    import ray

    ray.init(machines.address, log_to_driver=False)
    deadline = time.monotonic() + 20
    while [a for a in ray.util.list_named_actors(all_namespaces=True) if "twice" in a["namespace"]]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    ray.shutdown()
