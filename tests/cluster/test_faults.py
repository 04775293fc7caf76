"""Processes that are killed, frozen and asked to go, for real; the rest goes on and is right."""

import os
import signal
import sys
import time

import faults
import numpy as np
import pytest
from faults import GRAPH, PROBLEM, Fault, check_sound, is_gone, send

import bequest as bq
from bequest.engines import Ray

COMMON = {"rounds": 600, "checkpoint_every": 5, "will": bq.wills.Drift(0)}


@pytest.fixture
def cluster(machines, driver):
    driver(machines)
    return machines


def solve(fault, **more):
    options = {"patience": 3.0, "watch": fault, **more.pop("engine", {})}
    return bq.solve(PROBLEM, GRAPH, engine=Ray(nodes_per_host=5, **options), **{**COMMON, **more})


def of(run, *, crashed):
    return sorted(record.node for record in run.departures if record.crashed is crashed)


def test_sigkill_of_a_host(cluster):
    fault = Fault(send(signal.SIGKILL))
    run = solve(fault)
    check_sound(run, fault)
    assert of(run, crashed=True) == [5, 6, 7, 8, 9]
    assert run.lost == ()
    # Every five rounds, and some more until it has reached its buddy.
    assert all(record.checkpoint >= record.round - 20 for record in run.departures)
    # Nobody adopts what may die together with it.
    assert not {record.heir for record in run.departures} & {5, 6, 7, 8, 9}
    assert run.error[-1] < 1e-2
    assert fault.since("crashed") < 2.0


def test_sigkill_of_the_steward(cluster):
    fault = Fault(lambda view: os.kill(view.steward, signal.SIGKILL) or [view.steward])
    run = solve(fault, departures=[bq.Departure(3, 500)])
    check_sound(run, fault)
    assert fault.views[-1].term == 1
    # Rounds went on meanwhile, and the new one lets who wants to leave.
    reached = [view.round for view in fault.views if view.steward is None]
    assert max(reached, default=0) > fault.fired.round
    assert of(run, crashed=False) == [3]
    same = bq.solve(PROBLEM, GRAPH, departures=[bq.Departure(3, 500)], **COMMON)
    assert run.error[-1] == pytest.approx(same.error[-1], rel=1e-3, abs=1e-9)


def test_sigkill_of_the_steward_and_a_host_together(cluster):
    def both(view):
        pids = [view.steward, view.hosts["host 2"].pid]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids

    fault = Fault(both)
    run = solve(fault)
    check_sound(run, fault)
    assert of(run, crashed=True) == [10, 11, 12, 13, 14]
    assert run.lost == ()


def test_a_frozen_host_is_given_up(cluster):
    fault = Fault(send(signal.SIGSTOP))
    run = solve(fault)
    check_sound(run, fault)
    assert of(run, crashed=True) == [5, 6, 7, 8, 9]
    assert any("has not answered" in story for story in fault.stories)
    assert fault.since("crashed") < 8.0


def test_sigterm_to_a_host_means_to_leave_in_good_order(cluster):
    fault = Fault(send(signal.SIGTERM))
    run = solve(fault)
    check_sound(run, fault)
    assert of(run, crashed=False) == [5, 6, 7, 8, 9]
    assert fault.since("left") < 2.0
    rounds = {record.node: record.round for record in run.departures}
    leaving = [bq.Departure(node, t) for node, t in rounds.items()]
    vector = bq.solve(PROBLEM, GRAPH, departures=leaving, **COMMON)
    assert run.error[-1] == pytest.approx(vector.error[-1], rel=1e-6, abs=1e-10)


class Slow(bq.wills.Drift):
    """A will that takes its time, and says when it has begun; ``place`` is a folder."""

    place = ""

    def decide(self, estate):
        if estate.remaining < estate.setting.n - 1:
            return super().decide(estate)
        with open(f"{self.place}/{estate.node}", "w") as marker:  # noqa: PTH123 - on a host
            marker.write(str(os.getpid()))
        time.sleep(1.0)
        return super().decide(estate)


@pytest.mark.parametrize("victim", ["host 1", "host 2"])
def test_sigkill_in_the_middle_of_a_hand_off(cluster, tmp_path, victim):
    """The leaver's own host, or its heir's, while the leaver is writing its will."""
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    will = Slow(0)
    object.__setattr__(will, "place", str(tmp_path))
    killed = []

    def act(view):
        pid = view.hosts[victim].pid
        os.kill(pid, signal.SIGKILL)
        killed.append(view.epoch)
        return [pid]

    class InTheMiddle(Fault):
        def __call__(self, view):
            if not any(tmp_path.iterdir()):
                self.views.append(view)
                return
            super().__call__(view)

    fault = InTheMiddle(act, at=0)
    # Host 1 is asked to go at round 100; its first leaver then takes a second to decide.
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
    gone = {"host 1": [5, 6, 7, 8, 9], "host 2": [10, 11, 12, 13, 14]}
    assert of(run, crashed=True) == gone[victim]
    if victim != "host 1":
        assert of(run, crashed=False) == gone["host 1"]
    assert run.lost == ()


def test_one_node_after_the_other_until_one_host_is_left(cluster):
    hosts = ["host 0", "host 1", "host 3"]

    def watch(view):
        fault.views.append(view)
        if hosts and view.round >= 100 * (4 - len(hosts)) and view.steward is not None:
            pid = view.hosts[hosts.pop()].pid
            fault.fired = view
            fault.ended.append(pid)
            os.kill(pid, signal.SIGKILL)

    fault = Fault(None)
    run = solve(watch)
    check_sound(run, fault)
    assert not hosts
    assert run.survivors == (10, 11, 12, 13, 14)
    assert run.lost == ()


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
    assert run.lost == tuple(range(20))
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

    return bq.Function(value_and_grad, dim=10, curvature=good.curvature, check=False)


@pytest.mark.parametrize(("how", "says"), [("raises", "the disk is gone"), ("nan", "not finite")])
def test_a_gradient_that_breaks_on_one_node(cluster, how, says):
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    losses = [PROBLEM.objective(node) for node in range(20)]
    losses[6] = broken(how)
    views = []
    engine = Ray(nodes_per_host=5, watch=views.append)
    run = bq.solve(bq.Problem(losses), GRAPH, engine=engine, **COMMON)
    (record,) = run.departures
    assert record.node == 6
    assert record.failed
    assert says in record.why
    assert any(says in happening.what for happening in views[-1].happenings)
    assert len(run.survivors) == 19
    faults.check_lineage(run)


def test_the_office_takes_everybody_with_it(cluster):
    """Without its record a run is worth nothing; nothing of it stays behind."""
    import ray

    seen = []

    def watch(view):
        seen.append(view)
        if view.round >= 100:
            office = next(
                actor
                for actor in ray.util.list_named_actors(all_namespaces=True)
                if actor["name"] == "office"
            )
            ray.kill(ray.get_actor(office["name"], office["namespace"]))

    with pytest.raises(bq.errors.ClusterFailed, match="office died"):
        solve(watch)
    pids = [host.pid for host in seen[-1].hosts.values()]
    assert all(is_gone(pid) for pid in [*pids, seen[-1].steward])
