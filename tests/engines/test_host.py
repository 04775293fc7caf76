"""A host without Ray: what it tells the office, and what waits until the office knows."""

import asyncio
from types import SimpleNamespace

import pytest
from ray.exceptions import ActorDiedError, RayTaskError

import bequest as bq
from bequest.engines.ray import host as module
from bequest.engines.ray.crew import STEWARDSHIP, Outgoing
from bequest.engines.ray.engine import AFTERWARDS
from bequest.engines.ray.host import Host, Posting
from bequest.engines.ray.parcels import Letter, unpack
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


class Crew:
    """Does what the test has planned, turn by turn: (to explain, urgent)."""

    def __init__(self, turns):
        self.turns, self.nodes, self.rounds, self.waiting = list(turns), {}, 0, []
        self.reported = []

    is_busy = property(lambda self: bool(self.turns))
    has_to_explain = property(lambda self: bool(self.waiting))

    def run(self):
        some, urgent = self.turns.pop(0)
        self.waiting += some
        return Outgoing({}, urgent)

    def report(self, *, rounds=True):
        letters, self.waiting = self.waiting, []
        self.reported.append(rounds)
        return [], {"b": letters} if letters else {}


def letter(number):
    return Letter(0, (1,), Kept(number))


def said_to(actor):
    """What has been delivered to another host, parcel by parcel."""
    parcels = [unpack(call.arguments[0]) for call in actor.named("deliver")]
    return [[one.message.epoch for one in parcel] for parcel in parcels]


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def stage(monkeypatch):
    """Run a coroutine with a host, its office and another host."""
    monkeypatch.setattr(module, "_COMPANY", 0.01)

    def play(scene, turns):
        async def prologue():
            office, other = Actor(), Actor()
            host = Host(Posting("a", (), {}), office)
            host._crew = Crew(turns)
            await host.meet({"b": other, STEWARDSHIP: Actor()})
            await scene(host, office, other)
            for task in host._tasks:
                task.cancel()

        asyncio.run(prologue())

    return play


def test_letters_wait_until_the_office_knows_what_they_are_about(stage):
    async def scene(host, office, other):
        await asyncio.sleep(0.03)
        (report,) = office.named("report")
        assert said_to(other) == []
        report.answer.set_result(None)
        await settle()
        assert said_to(other) == [[1]]
        assert host._crew.reported == [False]  # rounds can wait

    stage(scene, [([letter(1)], False)])


def test_letters_of_many_turns_share_a_report(stage):
    async def scene(host, office, other):
        await asyncio.sleep(0.03)
        (first,) = office.named("report")
        host._crew.turns = [([letter(4)], False), ([letter(5)], False)]
        await host._turn()
        await asyncio.sleep(0.03)
        assert len(office.named("report")) == 1  # the next one waits for its answer
        first.answer.set_result(None)
        await asyncio.sleep(0.03)
        assert said_to(other) == [[1, 2, 3]]
        _, second = office.named("report")
        second.answer.set_result(None)
        await settle()
        assert said_to(other) == [[1, 2, 3], [4, 5]]
        assert not host._explaining

    stage(scene, [([letter(1)], False), ([letter(2)], False), ([letter(3)], False)])


def test_what_is_urgent_takes_along_what_waits(stage):
    async def scene(host, office, other):
        (report,) = office.named("report")  # at once
        assert host._crew.reported == [True]
        report.answer.set_result(None)
        await asyncio.sleep(0.03)
        assert said_to(other) == [[1, 2]]
        assert len(office.named("report")) == 1

    stage(scene, [([letter(1), letter(2)], True)])


def test_a_host_waits_for_an_office_that_does_not_keep_up(stage):
    async def scene(host, office, other):
        while len(office.named("report")) < module._UNDER_WAY:
            host._crew.turns = [([], True)]
            await host._turn()
        host._crew.turns = [([], True)]
        waiting = asyncio.create_task(host._turn())
        await settle()
        assert not waiting.done()
        office.named("report")[0].answer.set_result(None)
        await settle()
        assert waiting.done()

    stage(scene, [([], True)])


def test_a_report_that_the_office_cannot_take_is_said_to_be_so(stage):
    async def scene(host, office, other):
        (report,) = office.named("report")
        report.answer.set_exception(RayTaskError("report", "a story", ValueError("no")))
        await settle()
        (broken,) = office.named("broken")
        assert broken.arguments[0] == "a"
        assert said_to(other) == []
        assert host._under_way == 0

    stage(scene, [([letter(1)], True)])


def test_without_an_office_nothing_is_said(stage):
    async def scene(host, office, other):
        (report,) = office.named("report")
        report.answer.set_exception(ActorDiedError())
        await settle()
        assert office.named("broken") == []
        assert said_to(other) == []

    stage(scene, [([letter(1)], True)])


def test_runs_within_runs_share_the_outer_cluster():
    ended = []
    assert AFTERWARDS.get() is None
    with bq.engines.one_cluster():
        with bq.engines.one_cluster():
            AFTERWARDS.get().callback(ended.append, True)
        assert ended == []
    assert ended == [True]
    assert AFTERWARDS.get() is None
