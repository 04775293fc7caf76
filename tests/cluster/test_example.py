"""The example of the documentation, and what goes wrong before a run begins."""

import os
import runpy
import socket
import sys
from pathlib import Path

import pytest
from faults import GRAPH, PROBLEM, check_lineage

import bequest as bq
from bequest.engines import Loop, Ray

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cluster(machines, driver):
    driver(machines)
    return machines


def test_the_example_runs(cluster, capsys):
    """On the machines that are there: its own Ray would need some seconds more to start."""
    module = runpy.run_path(str(ROOT / "examples" / "ray_cluster.py"))
    run = module["main"]()
    said = capsys.readouterr().out
    assert "host 1 died" in said
    assert "host 2 goes" in said
    assert sorted(r.node for r in run.departures if r.crashed) == [2, 3]
    assert sorted(r.node for r in run.departures if not r.crashed) == [4, 5]
    check_lineage(run, range(8))
    left = bq.Problem([run.problem.objective(node) for node in run.survivors])
    bias = float(abs(left.optimum() - run.problem.optimum()).max())
    assert run.error[-1] < bias / 20


def test_runs_that_share_the_cluster_that_they_start():
    import ray

    seen = []

    def watch(view):
        seen.append(ray.get_runtime_context().gcs_address)

    with bq.engines.one_cluster():
        first, second = (
            bq.solve(PROBLEM, GRAPH, rounds=30, engine=Ray(nodes_per_host=6, watch=watch))
            for _ in range(2)
        )
        assert ray.is_initialized()
    assert not ray.is_initialized()
    assert len(set(seen)) == 1
    assert first.x.tobytes() == second.x.tobytes()


def test_nothing_answers_at_that_address(monkeypatch):
    monkeypatch.setenv("RAY_gcs_rpc_server_connect_timeout_s", "2")
    with pytest.raises(bq.errors.NoCluster, match=r"127\.0\.0\.1:1"):
        bq.solve(PROBLEM, GRAPH, rounds=5, engine=Ray("127.0.0.1:1"))


def test_another_address_than_that_of_the_cluster_it_is_connected_to(cluster):
    import ray

    with socket.create_server(("127.0.0.1", 0)) as somebody:
        address = f"127.0.0.1:{somebody.getsockname()[1]}"
        with pytest.raises(bq.errors.NoCluster, match="is connected to the cluster at"):
            bq.solve(PROBLEM, GRAPH, rounds=5, engine=Ray(address))
    assert ray.is_initialized()
    port = cluster.address.rpartition(":")[2]
    same = Ray(f"localhost:{port}", nodes_per_host=6)
    assert bq.solve(PROBLEM, GRAPH, rounds=5, engine=same).rounds == 5


def test_fewer_cpus_than_the_placement_needs(cluster):
    with pytest.raises(bq.errors.InvalidPlacement, match="12 nodes on 12 hosts need 24 CPUs"):
        bq.solve(PROBLEM, GRAPH, rounds=5, engine=Ray(nodes_per_host=1, cpus_per_host=2.0))


def test_a_will_that_needs_a_pilot_gets_one_as_any_node_may_have_to_leave(cluster):
    will = bq.wills.Adaptive(rule="certified")
    run = bq.solve(PROBLEM, GRAPH, rounds=5, engine=Ray(nodes_per_host=4), will=will)
    assert repr(run.pilot) == repr(bq.calibrate(PROBLEM, GRAPH, rounds=5))


def loaded(node, *, fails=(), driver=None):
    """A loss whose data are made on its host, and not by the driver, which has that pid."""
    objective = PROBLEM.objective(node)

    def load():
        assert os.getpid() != driver, "loaded by the driver"
        if node in fails:
            raise FileNotFoundError(f"/data/silo{node}.npz")
        return objective

    return bq.Loaded(load, dim=5, curvature=(1.0, 10.0))


@pytest.fixture
def by_value():
    import ray

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


def test_a_loader_that_raises_on_one_host(cluster, by_value):
    problem = bq.Problem([loaded(node, fails={9, 10}, driver=os.getpid()) for node in range(12)])
    with pytest.raises(bq.errors.CannotLoad, match=r"node 9 .* host 2 .*1 more.*silo9\.npz"):
        bq.solve(problem, GRAPH, rounds=5, engine=Ray(nodes_per_host=4))


def test_data_that_never_pass_the_driver(cluster, by_value):
    problem = bq.Problem([loaded(node, driver=os.getpid()) for node in range(12)])
    common = {"rounds": 150, "departures": [bq.Departure(3, 60)], "will": bq.wills.Consensus()}
    views = []
    run = bq.solve(problem, GRAPH, engine=Ray(nodes_per_host=4, watch=views.append), **common)
    assert run.trajectory.error is None
    hosts = {node: views[0].hosts[f"host {node // 4}"].machine for node in range(12)}
    here = bq.Problem([loaded(node) for node in range(12)])
    loop = bq.solve(here, GRAPH, engine=Loop(hosts=hosts), **common)
    assert run.x.tobytes() == loop.x.tobytes()
