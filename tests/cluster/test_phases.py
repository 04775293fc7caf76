"""Phases on a real cluster: files that only their hosts read, and hosts that go meanwhile."""

import os
import signal
from functools import partial

import numpy as np
import pytest

import bequest as bq
from bequest import phases
from bequest.data import Table, loading, problem_of, questions, select
from bequest.engines import Loop, Ray
from bequest.errors import CannotLoad

OPTIONS = {
    "label": "ill",
    "impute": "mean",
    "categories": {"sex": ["f", "m"], "ward": "agree"},
    "bias": "unpenalised",
}
SITES = ("bonn", "oslo", "rome")


@pytest.fixture(autouse=True)
def connected(machines, driver):
    driver(machines)


def table_of(rows=120):
    rng = np.random.default_rng(6)
    pulse = np.where(rng.random(rows) < 0.2, np.nan, rng.normal(80, 9, rows))
    return Table(
        {
            "age": rng.normal(60, 12, rows),
            "pulse": pulse,
            "sex": rng.choice(["f", "m"], rows),
            "ward": rng.choice(["a", "b", ""], rows),
            "ill": rng.choice(["no", "yes"], rows),
            "site": np.repeat(SITES, [70, 30, 20]),
        }
    )


def files_of(table, folder):
    files = {}
    for site in SITES:
        files[site] = folder / f"{site}.npz"
        own = table.take(np.flatnonzero(table.columns["site"] == site))
        np.savez(files[site], **{n: v for n, v in own.columns.items() if n != "site"})
    return files


def unread(_):
    raise AssertionError("the driver has read a silo's file")


def test_only_hosts_read_their_files_and_silos_agree_on_the_pooled_model(tmp_path, monkeypatch):
    table = table_of()
    files = files_of(table, tmp_path)
    samples = select(table, silo="site", **OPTIONS)
    parts = bq.partition.by_column(samples.silo)
    pooled = problem_of(samples, parts, loss="logistic", l2=0.05)
    common = {"loss": "logistic", "graph": bq.graphs.path(3), "l2": 0.05, **OPTIONS}
    here = phases.on_hosts(files, engine=Loop(), **common)
    # this process only; hosts are others
    monkeypatch.setattr(questions, "read_table", unread)
    monkeypatch.setattr(loading, "read_table", unread)
    engine = Ray(nodes_per_host=2, cpus_per_host=0.25)
    agreed = phases.on_hosts(files, engine=engine, **common)
    assert (agreed.silos, agreed.left) == (SITES, ())
    assert agreed.features == here.features
    # a cluster takes twice the rounds, so that the last digit may be another one
    for mine, theirs in zip(agreed.recipe.columns[:2], here.recipe.columns[:2], strict=True):
        assert (mine.mean, mine.scale) == pytest.approx((theirs.mean, theirs.scale), rel=1e-13)
    assert agreed.classes == ("no", "yes")
    leaving = [bq.Departure(2, 20)]
    run = bq.solve(agreed.problem, agreed.graph, departures=leaving, engine=engine, rounds=60)
    done = phases.newton(run, engine=engine)
    same = bq.solve(pooled, bq.graphs.path(3), departures=leaving, rounds=60,
                    method=run.plan.method)  # fmt: skip
    assert done.x == pytest.approx(same.limit, abs=1e-7)
    with pytest.raises(CannotLoad, match=r'oslo.npz has no column "agee"|has no column "agee"'):
        phases.on_hosts(files, engine=engine, **common | {"features": ["agee"], "categories": {}})


def test_a_host_that_is_asked_to_go_in_a_phase_is_in_the_sum():
    parts = np.random.default_rng(1).normal(size=(6, 50)) * 10.0 ** np.arange(-25, 25)
    gone = []

    def watch(view):
        if not gone and view.round >= 20:
            gone.append(view.hosts["host 1"].pid)
            os.kill(gone[0], signal.SIGTERM)

    engine = Ray(nodes_per_host=2, cpus_per_host=0.25, watch=watch)
    hosts = [phases.on_its_host(partial(np.array, part), 50) for part in parts]
    done = phases.phase(hosts, graph=bq.graphs.path(6), engine=engine, rounds=600)
    assert gone
    assert done.run.survivors == (0, 1, 4, 5)
    wrong = np.abs(done.total - parts.sum(axis=0)) / np.abs(parts).max(axis=0)
    assert wrong.max() < 1e-12
    assert done.graph.n == 4
