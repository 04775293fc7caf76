"""A host without Ray: what it tells the supervisor, and what waits until the supervisor knows."""

import asyncio
from types import SimpleNamespace

import pytest
from ray.exceptions import ActorDiedError, RayTaskError

import bequest as bq
from bequest.engines.ray import AFTERWARDS
from bequest.engines.ray import host_actor as module
from bequest.engines.ray.host_actor import HostActor, HostSetup
from bequest.engines.runtime.message_batch import Addressed, unpack
from bequest.engines.runtime.node_group import STEWARD_HOST, Outgoing
from bequest.protocol.messages import Kept


class Actor:
    """An actor as others see it: every call is kept, and answered when the test says so."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)

        def remote(*arguments):
            answer = asyncio.get_running_loop().create_future()
            self.calls.append(SimpleNamespace(name=name, arguments=arguments, answer=answer))
            return answer

        return SimpleNamespace(remote=remote)

    def named(self, name):
        return [call for call in self.calls if call.name == name]


class NodeGroup:
    """Does what the test has planned, turn by turn: (to explain, urgent)."""

    def __init__(self, turns):
        self.turns, self.nodes, self.rounds, self.waiting = list(turns), {}, 0, []
        self.reported = []

    is_busy = property(lambda self: bool(self.turns))
    has_to_explain = property(lambda self: bool(self.waiting))

    def run(self, clock):
        some, urgent = self.turns.pop(0)
        self.waiting += some
        return Outgoing({}, urgent)

    def report(self, *, rounds=True):
        messages, self.waiting = self.waiting, []
        self.reported.append(rounds)
        return [], {"b": messages} if messages else {}


def message(number):
    return Addressed(0, (1,), Kept(number))


def said_to(actor):
    """What has been delivered to another host, batch by batch."""
    batches = [unpack(call.arguments[0]) for call in actor.named("deliver")]
    return [[one.message.epoch for one in batch] for batch in batches]


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def stage(monkeypatch):
    """Run a coroutine with a host, its supervisor and another host."""
    monkeypatch.setattr(module, "_COMPANY", 0.01)

    def play(scene, turns):
        async def prologue():
            supervisor, other = Actor(), Actor()
            host = HostActor(HostSetup("a", (), {}), supervisor)
            host._group = NodeGroup(turns)
            await host.meet({"b": other, STEWARD_HOST: Actor()})
            await scene(host, supervisor, other)
            for task in host._tasks:
                task.cancel()

        asyncio.run(prologue())

    return play


def test_messages_wait_until_the_supervisor_knows_what_they_are_about(stage):
    async def scene(host, supervisor, other):
        await asyncio.sleep(0.03)
        (report,) = supervisor.named("report")
        assert said_to(other) == []
        report.answer.set_result(None)
        await settle()
        assert said_to(other) == [[1]]
        assert host._group.reported == [False]  # rounds can wait

    stage(scene, [([message(1)], False)])


def test_messages_of_many_turns_share_a_report(stage):
    async def scene(host, supervisor, other):
        await asyncio.sleep(0.03)
        (first,) = supervisor.named("report")
        host._group.turns = [([message(4)], False), ([message(5)], False)]
        await host._turn()
        await asyncio.sleep(0.03)
        assert len(supervisor.named("report")) == 1  # the next one waits for its answer
        first.answer.set_result(None)
        await asyncio.sleep(0.03)
        assert said_to(other) == [[1, 2, 3]]
        _, second = supervisor.named("report")
        second.answer.set_result(None)
        await settle()
        assert said_to(other) == [[1, 2, 3], [4, 5]]
        assert not host._explaining

    stage(scene, [([message(1)], False), ([message(2)], False), ([message(3)], False)])


def test_what_is_urgent_takes_along_what_waits(stage):
    async def scene(host, supervisor, other):
        (report,) = supervisor.named("report")  # at once
        assert host._group.reported == [True]
        report.answer.set_result(None)
        await asyncio.sleep(0.03)
        assert said_to(other) == [[1, 2]]
        assert len(supervisor.named("report")) == 1

    stage(scene, [([message(1), message(2)], True)])


def test_a_host_waits_for_a_supervisor_that_does_not_keep_up(stage):
    async def scene(host, supervisor, other):
        while len(supervisor.named("report")) < module._UNDER_WAY:
            host._group.turns = [([], True)]
            await host._turn()
        host._group.turns = [([], True)]
        waiting = asyncio.create_task(host._turn())
        await settle()
        assert not waiting.done()
        supervisor.named("report")[0].answer.set_result(None)
        await settle()
        assert waiting.done()

    stage(scene, [([], True)])


def test_a_report_that_the_supervisor_cannot_take_is_said_to_be_so(stage):
    async def scene(host, supervisor, other):
        (report,) = supervisor.named("report")
        report.answer.set_exception(RayTaskError("report", "a story", ValueError("no")))
        await settle()
        (broken,) = supervisor.named("broken")
        assert broken.arguments[0] == "a"
        assert said_to(other) == []
        assert host._under_way == 0

    stage(scene, [([message(1)], True)])


def test_without_a_supervisor_nothing_is_said(stage):
    async def scene(host, supervisor, other):
        (report,) = supervisor.named("report")
        report.answer.set_exception(ActorDiedError())
        await settle()
        assert supervisor.named("broken") == []
        assert said_to(other) == []

    stage(scene, [([message(1)], True)])


def test_runs_within_runs_share_the_outer_cluster():
    ended = []
    assert AFTERWARDS.get() is None
    with bq.engines.one_cluster():
        with bq.engines.one_cluster():
            AFTERWARDS.get().callback(ended.append, True)
        assert ended == []
    assert ended == [True]
    assert AFTERWARDS.get() is None
