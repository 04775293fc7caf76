"""When a supervisor ends its run by itself: not before its driver is gone."""

import asyncio
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from bequest.engines.ray import supervisor_actor as module
from bequest.engines.ray.supervisor_actor import SupervisorActor


@pytest.fixture
def run(monkeypatch):
    """A supervisor without a cluster: ``run.jobs`` are alive, ``run.killed`` were killed."""
    monkeypatch.setattr(module, "Supervisor", Mock())
    monkeypatch.setattr(module, "Monitoring", Mock())
    jobs, killed = {"first"}, []
    monkeypatch.setattr(module.ray, "kill", killed.append)
    monkeypatch.setattr(module.ray_private, "is_running", jobs.__contains__)

    def supervisor(*, over=True, findable=False, record=None):
        setup = Mock(caller="first", findable=findable, record=record, startup=0.0)
        actor = SupervisorActor(setup)
        actor._own = "itself"
        actor._outcome = Mock() if over else None
        return actor

    return SimpleNamespace(jobs=jobs, killed=killed, supervisor=supervisor)


def wait(actor, seconds):
    """Let this time pass without a call."""
    actor._unasked += seconds
    asyncio.run(actor._end_if_forsaken())


@pytest.mark.parametrize("over", [True, False])
def test_a_driver_that_is_slow_keeps_its_run(run, over):
    """It may be on a busy machine, or in a callback of the user's that takes long."""
    actor = run.supervisor(over=over)
    for _ in range(5):
        wait(actor, 1000.0)
    assert run.killed == []


@pytest.mark.parametrize(("over", "patience"), [(True, module._LINGER), (False, module._FORSAKEN)])
def test_a_driver_that_is_gone_does_not(run, over, patience):
    actor = run.supervisor(over=over)
    run.jobs.clear()
    wait(actor, patience - 1.0)
    assert run.killed == []
    wait(actor, 2.0)
    assert run.killed == ["itself"]


def test_a_run_that_can_be_found_goes_on_and_keeps_an_outcome_that_is_only_there(run):
    run.jobs.clear()
    wait(run.supervisor(over=False, findable=True), 1000.0)
    wait(run.supervisor(over=True, findable=True), 1000.0)
    assert run.killed == []
    wait(run.supervisor(over=True, findable=True, record="a file"), 1000.0)
    assert run.killed == ["itself"]


def test_the_driver_that_counts_is_the_one_that_asked_last(run):
    actor = run.supervisor()
    run.jobs.add("second")
    run.jobs.remove("first")
    asyncio.run(actor.follow(0, "second"))
    wait(actor, 1000.0)
    assert run.killed == []
    run.jobs.remove("second")
    wait(actor, 1000.0)
    assert run.killed == ["itself"]


def test_where_the_cluster_does_not_answer_the_driver_may_be_there(run, monkeypatch):
    monkeypatch.setattr(module.ray_private, "is_running", Mock(side_effect=RuntimeError))
    wait(run.supervisor(), 1000.0)
    assert run.killed == []


def test_a_driver_that_dies_before_the_run_has_begun_takes_it_along(run, monkeypatch):
    monkeypatch.setattr(module, "_LINGER", 0.01)
    actor = run.supervisor(over=False)

    async def play():
        await actor.expect("itself")
        await asyncio.sleep(0.1)
        assert run.killed == []
        run.jobs.clear()
        await asyncio.sleep(0.1)
        actor.hosts["host 0"] = None  # so that it stops to look

    asyncio.run(play())
    assert set(run.killed) == {"itself"}
