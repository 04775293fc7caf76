"""Networks on a real cluster: the bits of a virtual one, also resumed in the middle."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import silos
from rehearsal import same
from test_driver import reached

import bequest as bq
from bequest.engines import Loop, Ray

EVENTS = [bq.Departure(2, 8), bq.Crash(4, 15), bq.Return(2, 25), bq.Departure(1, 35)]


def domains(view):
    """Which machine every node is on."""
    hosts = {node: f"host {node // silos.NODES_PER_HOST}" for node in range(silos.NODES)}
    return {node: view.hosts[host].machine for node, host in hosts.items()}


@pytest.mark.parametrize("framework", silos.MAKERS)
@pytest.mark.parametrize(
    ("will", "choice"),
    [(bq.wills.Replay(rank=2), "replay"), (silos.Trust(), "trust")],
    ids=["replay", "trust"],
)
def test_the_same_bits_as_on_a_virtual_network(machines, driver, framework, will, choice):
    driver(machines)
    views = []
    asked = silos.arguments(framework, will, EVENTS, rounds=45)
    engine = Ray(nodes_per_host=silos.NODES_PER_HOST, startup=silos.STARTUP, watch=views.append)
    run = bq.solve(**asked, engine=engine)
    loop = bq.solve(**asked, engine=Loop(hosts=domains(views[0])))
    assert same(run, loop)
    assert [record.choice for record in run.departures] == [choice] * 3
    assert run.invariant_gap.max() < 1e-12


def test_a_run_of_networks_is_resumed_in_the_middle(machines, tmp_path):
    """The driver dies once samples are remembered; the rest of the run is watched by another."""
    record = tmp_path / "run.record"
    words = [sys.executable, silos.__file__, machines.address, "networks", str(record)]
    running = subprocess.Popen(words, cwd=Path(silos.__file__).parent)
    deadline = time.monotonic() + silos.STARTUP
    while reached(record) < 100:
        assert running.poll() is None, "the program has ended"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait(timeout=10)
    views = []
    engine = Ray(
        machines.address,
        nodes_per_host=silos.NODES_PER_HOST,
        startup=silos.STARTUP,
        name="networks",
        record=record,
        resume=True,
        watch=views.append,
    )
    run = bq.solve(**silos.of_program(), engine=engine)
    assert views[0].round >= 100  # it was not begun anew
    assert [record.choice for record in run.departures] == ["replay"] * 2
    loop = bq.solve(**silos.of_program(), engine=Loop(hosts=domains(views[0])))
    assert same(run, loop)
