"""Processes that are killed, frozen and asked to go, for real; the rest goes on and is right."""

import os
import signal
import sys
import time
from pathlib import Path

import faults
import numpy as np
import pytest
from faults import GRAPH, NODES, PROBLEM, Fault, check_sound, is_gone, send

import bequest as bq
from bequest.engines import Ray

COMMON = {"rounds": 400, "checkpoint_every": 5, "will": bq.wills.Drift(0)}


@pytest.fixture
def cluster(machines, driver):
    driver(machines)
    return machines


def solve(fault, **more):
    options = {"patience": 3.0, "watch": fault, **more.pop("engine", {})}
    return bq.solve(PROBLEM, GRAPH, engine=Ray(nodes_per_host=4, **options), **{**COMMON, **more})


def of(run, *, crashed):
    return sorted(record.node for record in run.departures if record.crashed is crashed)


def test_sigkill_of_a_host(cluster):
    fault = Fault(send(signal.SIGKILL))
    run = solve(fault, engine={"patience": 60.0})
    check_sound(run, fault)
    assert of(run, crashed=True) == NODES["host 1"]
    assert run.lost == ()
    # They were renewed every five rounds. How many rounds go by until the last one has reached its
    # buddy is up to how busy the machine is.
    assert all(record.checkpoint % 5 == 0 for record in run.departures)
    assert all(record.checkpoint >= record.round / 2 for record in run.departures)
    # No node adopts what may die together with it.
    assert not {record.heir for record in run.departures} & set(NODES["host 1"])
    assert run.error[-1] < 1e-2
    # Its death was noticed, and not its silence.
    assert fault.since("crashed") < 30.0


def test_two_buddies_survive_two_hosts_that_die_together(cluster):
    """Every pair of nodes are neighbours: nothing but the hosts says where buddies are to be."""

    def both(view):
        pids = [view.hosts[name].pid for name in ("host 1", "host 2")]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids

    fault, rng = Fault(both), np.random.default_rng(3)
    # Losses that are remembered exactly: a node that is lost moves the limit.
    losses = [bq.Quadratic(h * np.eye(5), rng.standard_normal(5)) for h in rng.uniform(1, 3, 12)]
    run = bq.solve(
        bq.Problem(losses),
        bq.graphs.complete(12),
        engine=Ray(nodes_per_host=3, patience=3.0, watch=fault),
        **{**COMMON, "will": bq.wills.Consensus(), "buddies": 2},
    )
    check_sound(run, fault)
    dead = list(range(3, 9))
    assert of(run, crashed=True) == dead
    assert run.survivors == (0, 1, 2, 9, 10, 11)
    assert run.lost == ()
    # What the second buddy of a node was there for: its first one has died with it.
    assert {record.heir for record in run.departures} <= {0, 1, 2, 9, 10, 11}
    remembered = {node: legacy.lineage for node, legacy in run.inherited.items()}
    assert sorted(node for inside in remembered.values() for node in inside) == dead
    np.testing.assert_allclose(run.limit, run.optimum, rtol=0, atol=1e-9)
    assert run.error[-1] < 1e-9


def test_sigkill_of_the_steward(cluster):
    fault = Fault(lambda view: os.kill(view.steward, signal.SIGKILL) or [view.steward])
    run = solve(fault, departures=[bq.Departure(3, 350)])
    check_sound(run, fault)
    assert fault.views[-1].term == 1
    # Rounds went on meanwhile, and the new one lets who wants to leave.
    reached = [view.round for view in fault.views if view.steward is None]
    assert max(reached, default=0) > fault.fired.round
    assert of(run, crashed=False) == [3]
    same = bq.solve(PROBLEM, GRAPH, departures=[bq.Departure(3, 350)], **COMMON)
    assert run.error[-1] == pytest.approx(same.error[-1], rel=1e-3, abs=1e-9)


@pytest.mark.slow
def test_sigkill_of_the_steward_and_a_host_together(cluster):
    def both(view):
        pids = [view.steward, view.hosts["host 2"].pid]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids

    fault = Fault(both)
    run = solve(fault)
    check_sound(run, fault)
    assert of(run, crashed=True) == NODES["host 2"]
    assert run.lost == ()


def test_a_frozen_host_is_given_up(cluster):
    fault = Fault(send(signal.SIGSTOP))
    run = solve(fault)
    check_sound(run, fault)
    assert of(run, crashed=True) == NODES["host 1"]
    assert any("has not answered" in story for story in fault.messages)
    assert fault.since("crashed") < 30.0


def test_sigterm_to_a_host_means_to_leave_in_good_order(cluster):
    fault = Fault(send(signal.SIGTERM))
    run = solve(fault)
    check_sound(run, fault)
    assert of(run, crashed=False) == NODES["host 1"]
    assert fault.since("left") < 20.0  # its grace is 30 seconds
    rounds = {record.node: record.round for record in run.departures}
    leaving = [bq.Departure(node, t) for node, t in rounds.items()]
    vector = bq.solve(PROBLEM, GRAPH, departures=leaving, **COMMON)
    assert run.error[-1] == pytest.approx(vector.error[-1], rel=1e-6, abs=1e-10)


class Slow(bq.wills.Drift):
    """A will that takes its time when it is executed, and says when; ``place`` is a folder.

    It is that of the second leaver: with fewer left than all others this is no checkpoint.
    """

    place = ""

    def decide(self, estate):
        if estate.remaining == estate.setting.n - 2:
            Path(self.place, str(estate.node)).touch()
            time.sleep(1.0)
        return super().decide(estate)


@pytest.mark.parametrize("victim", ["host 1", "host 2"])
def test_sigkill_in_the_middle_of_a_hand_off(cluster, tmp_path, victim):
    """The leavers' own host, or their heirs', after the first farewell and before the second."""
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    will = Slow(0)
    object.__setattr__(will, "place", str(tmp_path))

    def act(view):
        pid = view.hosts[victim].pid
        os.kill(pid, signal.SIGKILL)
        return [pid]

    class InTheMiddle(Fault):
        def __call__(self, view):
            if not any(tmp_path.iterdir()):
                self.views.append(view)
                return
            super().__call__(view)

    fault = InTheMiddle(act, at=0)
    # Host 1 is asked to go at round 100; its second leaver then takes a second to decide.
    asked = []

    def watch(view):
        if not asked and view.round >= 100:
            asked.append(view)
            os.kill(view.hosts["host 1"].pid, signal.SIGTERM)
        if asked:
            fault(view)
        else:
            fault.views.append(view)

    run = solve(watch, will={None: bq.wills.Drift(0), 5: will}, checkpoint_every=5)
    assert asked
    check_sound(run, fault)
    assert fault.fired.departures == 0  # nothing had been handed over for good
    assert of(run, crashed=True) == NODES[victim]
    if victim != "host 1":
        assert of(run, crashed=False) == NODES["host 1"]
    assert run.lost == ()


@pytest.mark.slow
def test_one_host_after_the_other_until_one_is_left(cluster):
    hosts = ["host 0", "host 2"]

    def watch(view):
        fault.views.append(view)
        if hosts and view.round >= 100 * (3 - len(hosts)) and view.steward is not None:
            pid = view.hosts[hosts.pop()].pid
            fault.fired = view
            fault.ended.append(pid)
            os.kill(pid, signal.SIGKILL)

    fault = Fault(None)
    run = solve(watch)
    check_sound(run, fault)
    assert not hosts
    assert list(run.survivors) == NODES["host 1"]
    assert run.lost == ()


def test_an_empty_host_that_freezes_does_not_hold_up_the_end(cluster):
    fault = Fault(send(signal.SIGSTOP, "host 2"), at=150)
    run = solve(fault, departures=[bq.Departure(node, 60) for node in NODES["host 2"]])
    check_sound(run, fault)
    assert of(run, crashed=False) == NODES["host 2"]


@pytest.mark.slow
def test_who_was_to_crash_and_is_preempted_before_is_not_waited_for(cluster):
    fault = Fault(send(signal.SIGTERM), at=60)
    run = solve(fault, departures=[bq.Crash(5, 250)])
    check_sound(run, fault)
    assert of(run, crashed=False) == NODES["host 1"]


def test_who_returns_to_a_host_that_is_gone_comes_to_another(cluster):
    fault = Fault(send(signal.SIGKILL), at=60)
    run = solve(fault, departures=[bq.Crash(5, 200), bq.Return(5, 250)])
    check_sound(run, fault)
    assert run.survivors == (0, 1, 2, 3, 5, 8, 9, 10, 11)
    (change,) = run.changes
    assert (change.kind, change.node, change.exact) == ("return", 5, True)


def slow(node):
    """A loss that takes its time on a host, and none here."""
    good, here = PROBLEM.objective(node), os.getpid()

    def value_and_grad(x):
        if os.getpid() != here:
            time.sleep(0.02)
        return good.value(x), good.gradient(x)

    return bq.Function(value_and_grad, dim=5, curvature=good.curvature, check=False)


def test_hosts_that_are_busy_are_not_given_up(cluster):
    """All nodes on one host need no other node, and could compute for minutes without a word."""
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    problem = bq.Problem([slow(node) for node in range(4)])
    engine = Ray(nodes_per_host=4, patience=1.0)
    run = bq.solve(problem, [(0, 1), (1, 2), (2, 3)], engine=engine, rounds=40, will=COMMON["will"])
    assert run.survivors == (0, 1, 2, 3)
    assert run.departures == ()


def test_everybody_dies(cluster):
    def all_of_them(view):
        pids = [host.pid for host in view.hosts.values()]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids

    fault = Fault(all_of_them)
    run = solve(fault)
    assert fault.fired
    assert run.status is bq.Status.LOST
    assert run.survivors == ()
    assert run.lost == tuple(range(12))
    assert all(is_gone(pid) for pid in fault.ended)


def broken(how):
    """A loss that breaks on a host once x is close to the optimum, and is fine here."""
    good = PROBLEM.objective(6)
    here, near = os.getpid(), PROBLEM.optimum()

    def value_and_grad(x):
        if os.getpid() != here and np.linalg.norm(x - near) < 0.1:
            if how == "raises":
                raise OSError("the disk is gone")
            return 0.0, np.full(x.size, np.nan)
        return good.value(x), good.gradient(x)

    return bq.Function(value_and_grad, dim=5, curvature=good.curvature, check=False)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("raises", "the disk is gone"),
        pytest.param("nan", "not finite", marks=pytest.mark.slow),
    ],
)
def test_a_gradient_that_breaks_on_one_node(cluster, how, says):
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    losses = [PROBLEM.objective(node) for node in range(12)]
    losses[6] = broken(how)
    views = []
    engine = Ray(nodes_per_host=4, watch=views.append)
    run = bq.solve(bq.Problem(losses), GRAPH, engine=engine, **COMMON)
    (record,) = run.departures
    assert record.node == 6
    assert record.failed
    assert says in record.why
    assert any(says in notice.what for notice in views[-1].notices)
    assert len(run.survivors) == 11
    faults.check_lineage(run)


def test_the_supervisor_takes_the_whole_run_with_it(cluster):
    """Without its record a run is worth nothing; nothing of it stays behind."""
    import ray

    def kill(_view):
        (namespace,) = (
            actor["namespace"]
            for actor in ray.util.list_named_actors(all_namespaces=True)
            if actor["name"] == "supervisor"
        )
        ray.kill(ray.get_actor("supervisor", namespace))

    # Once: a supervisor that is being killed may still answer, when its name is gone already.
    fault = Fault(kill)
    with pytest.raises(bq.errors.ClusterFailed, match="supervisor died"):
        solve(fault)
    pids = [host.pid for host in fault.views[-1].hosts.values()]
    assert all(is_gone(pid) for pid in [*pids, fault.views[-1].steward])
