"""Whole machines that are taken away, with notice or without."""

import os
import signal
import time

import pytest
import ray
from faults import GRAPH, PROBLEM, Fault, check_sound
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import bequest as bq
from bequest.engines import Ray
from bequest.engines.ray import ray_private as rays

COMMON = {"rounds": 400, "checkpoint_every": 5, "will": bq.wills.Drift(0)}

# Who is on the machine that is lost.
VICTIMS = [4, 5, 6, 11]


@pytest.fixture
def cluster(machines, driver):
    """The four machines, and a fifth that may be lost, as machine number ``cluster.victim``."""
    driver(machines)
    (machines.victim,) = machines.add()
    yield machines
    if machines.machines[machines.victim].process.poll() is None:
        machines.thaw(machines.victim)
        machines.kill(machines.victim)
    deadline = time.monotonic() + 60
    while f"machine-{machines.victim}" in machines.alive():  # or the next test puts hosts there
        assert time.monotonic() < deadline
        time.sleep(0.1)


def solve(cluster, fault, **more):
    name = f"machine-{cluster.victim}"
    others = ["machine-1", "machine-2", "machine-3"]
    placement = {node: name if node in VICTIMS else others[node % 3] for node in range(12)}
    engine = Ray(placement=placement, patience=20.0, watch=fault)
    return bq.solve(PROBLEM, GRAPH, engine=engine, **{**COMMON, **more})


def leavers(run, *, crashed):
    return sorted(record.node for record in run.departures if record.crashed is crashed)


@pytest.mark.parametrize("how", ["SIGTERM", "drain"])
def test_a_machine_that_is_preempted(cluster, how):
    def act(view):
        if how == "SIGTERM":
            cluster.terminate(cluster.victim)
        else:
            cluster.drain(cluster.victim)
        return [view.hosts[f"machine-{cluster.victim}"].pid]

    fault = Fault(act)
    run = solve(cluster, fault)
    check_sound(run, fault)
    assert leavers(run, crashed=False) == VICTIMS
    assert fault.since("is drained") < 15.0  # of 30 seconds
    # Acknowledged: a node is on record as gone when every node has begun the epoch without it.
    assert fault.since("left") - fault.since("is drained") < 15.0
    assert not {record.heir for record in run.departures} & set(VICTIMS)
    leaving = [bq.Departure(record.node, record.round) for record in run.departures]
    vector = bq.solve(PROBLEM, GRAPH, departures=leaving, **COMMON)
    assert run.error[-1] == pytest.approx(vector.error[-1], rel=1e-6, abs=1e-10)
    if how == "SIGTERM":
        # The machine does not wait for its deadline once every node has gone.
        cluster.machines[cluster.victim].process.wait(timeout=20)


def test_a_power_failure(cluster):
    """SIGKILL of a raylet and of everything on its machine."""

    def act(view):
        cluster.kill(cluster.victim)
        return [view.hosts[f"machine-{cluster.victim}"].pid]

    fault = Fault(act)
    run = solve(cluster, fault)
    check_sound(run, fault)
    assert leavers(run, crashed=True) == VICTIMS
    assert run.lost == ()
    assert fault.since("crashed") < 60.0


@pytest.mark.slow
def test_a_frozen_machine(cluster):
    def act(view):
        cluster.freeze(cluster.victim)

    fault = Fault(act)
    run = solve(cluster, fault)
    cluster.kill(cluster.victim)
    check_sound(run, fault)
    assert leavers(run, crashed=True) == VICTIMS
    assert run.lost == ()


@ray.remote
class Somebody:
    def ready(self):
        return True


def test_ray_still_has_what_it_has_no_public_call_for(cluster, monkeypatch):
    """Fails loudly when a new Ray has moved what ``bequest.engines.ray.ray_private`` relies on."""
    monkeypatch.setenv("RAY_ADDRESS", "10.1.2.3:4567")
    assert rays.address_of("auto") == "10.1.2.3:4567"
    assert rays.draining() == {}
    assert rays.is_running(ray.get_runtime_context().get_job_id())
    assert not rays.is_running("fffffffe")
    names = {machine.name for machine in rays.machines()}
    assert {"machine-1", f"machine-{cluster.victim}"} <= names
    assert rays.address_of(cluster.address) == cluster.address
    # A machine on which no node is goes at once.
    there = NodeAffinitySchedulingStrategy(cluster.node_id(cluster.victim), soft=False)
    somebody = Somebody.options(num_cpus=0, scheduling_strategy=there).remote()
    ray.get(somebody.ready.remote())
    cluster.terminate(cluster.victim)
    deadline = time.monotonic() + 10
    while not (found := rays.draining()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(found) == [cluster.node_id(cluster.victim)]
    (due,) = found.values()
    assert due / 1000 > time.time()
    assert f"machine-{cluster.victim}" not in {machine.name for machine in rays.machines()}
    ray.kill(somebody)


def test_a_worker_hears_sigterm(cluster):
    @ray.remote(num_cpus=0)
    class Dispatcher:
        heard = 0

        async def listen(self):
            from bequest.engines.ray import ray_private

            return ray_private.on_sigterm(self.hear), os.getpid()

        def hear(self):
            self.heard += 1

        async def count(self):
            return self.heard

    listener = Dispatcher.remote()
    works, pid = ray.get(listener.listen.remote())
    assert works
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 10
    while not ray.get(listener.count.remote()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ray.get(listener.count.remote()) == 1
    ray.kill(listener)
