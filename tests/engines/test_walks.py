"""The sequence diagrams of ARCHITECTURE.md: every arrow is what a run does.

The actors of a cluster run here in one process, without Ray, under a profiler that sees which
module calls which. An arrow is a call, what a call returns, or a message that one end makes and the
other end takes.
"""

import asyncio
import re
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from ray.exceptions import ActorDiedError

import bequest as bq
from bequest.core.farewell import Farewell
from bequest.engines.ray import host_actor, ray_private, supervisor_actor
from bequest.engines.ray.host_actor import HostActor, HostSetup
from bequest.engines.ray.steward_actor import StewardActor
from bequest.engines.ray.supervisor_actor import RunSetup, SupervisorActor
from bequest.engines.runtime.node_setup import charter_of, opening_pace, setup_of
from bequest.engines.runtime.placement import Machine, place
from bequest.protocol import events, messages
from bequest.protocol.events import Received, Send
from bequest.solver import prepare

PAGE = Path(__file__).parents[2] / "ARCHITECTURE.md"
WALKS = ("### A round, on Ray", "### A departure", "### A crash, on Ray")
HOUSE = "bequest."
# What travels from one machine of the protocol to another, or to the record.
KINDS = {
    kind.__name__: kind
    for kind in (Farewell, *vars(messages).values(), *vars(events).values())
    if isinstance(kind, type) and kind not in (Received, Send)
}


def module_of(frame):
    """The module of the house that a frame is in, or was called from; None if there is none."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(HOUSE) and frame.f_code.co_filename != "<string>":
            return name.rpartition(".")[2]
        frame = frame.f_back
    return None


class Trace:
    """What a run does, seen by a profiler.

    Attributes:
        calls: (the module that calls, the module that is called).
        answers: (the module that returns something, the module that had called it).
        made: (module, kind of message or effect) that it has made, or that its machine says.
        taken: (module, kind) that was given to it.
        arrived: the kinds of the messages that nodes and the steward were given, in order.
    """

    def __init__(self):
        self.calls, self.answers, self.made, self.taken = set(), set(), set(), set()
        self.arrived = []

    def __call__(self, frame, event, argument):
        if event not in ("call", "return"):
            return
        module = module_of(frame)
        if module is None:
            return
        if frame.f_code.co_filename == "<string>":  # the constructor of a dataclass
            made = frame.f_locals.get("self")
            if type(made).__name__ in KINDS:
                self.made.add((module, type(made).__name__))
            return
        if frame.f_globals["__name__"].rpartition(".")[2] != module:
            return  # a frame of a library
        caller = module_of(frame.f_back)
        if event == "return":
            if argument is not None:
                self.answers.add((module, caller))
            if frame.f_code.co_name == "handle" and isinstance(argument, list):
                for effect in argument:
                    said = effect.message if isinstance(effect, Send) else effect
                    self.made.add((module, type(said).__name__))
            return
        self.calls.add((caller, module))
        code = frame.f_code
        for name in code.co_varnames[: code.co_argcount]:
            given = frame.f_locals.get(name)
            if isinstance(given, Received):
                given = given.message
                if code.co_name == "handle" and module in ("node", "steward"):
                    self.arrived.append(type(given).__name__)
            if type(given).__name__ in KINDS:
                self.taken.add((module, type(given).__name__))

    def has(self, one, other, label):
        """Whether an arrow from one module to another is what the run did."""
        named = [word for word in re.findall(r"\w+", label) if word in KINDS]
        travelled = ((one, kind) in self.made and (other, kind) in self.taken for kind in named)
        return (one, other) in self.calls | self.answers or (bool(named) and all(travelled))


class Handle:
    """An actor as others see it, in the same process.

    Args:
        trace: hears of every call from one process to another.
        dies: whether the time has come, asked before every call.
    """

    def __init__(self, trace, dies=lambda actor: False):
        self._trace, self._dies, self.actor = trace, dies, None
        self._death = asyncio.get_running_loop().create_future()

    def kill(self):
        if not self._death.done():
            self._death.set_exception(ActorDiedError())
            self._death.exception()  # a death that no task waits for is no error

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        call = partial(self._call, name)
        return SimpleNamespace(remote=call, options=lambda **_: SimpleNamespace(remote=call))

    def _call(self, name, *arguments):
        if name == "watch" or self._death.done():
            return asyncio.shield(self._death)
        if self._dies(self.actor):
            self.kill()
            return asyncio.shield(self._death)
        caller = module_of(sys._getframe())
        self._trace.calls.add((caller, type(self.actor).__module__.rpartition(".")[2]))
        return asyncio.ensure_future(getattr(self.actor, name)(*arguments))


async def play(trace, plan, leaving, doomed):
    """Carry out a plan on three hosts.

    Args:
        trace: sees what happens.
        plan: of six nodes.
        leaving: node -> the round after which it wants to leave, though that is not planned.
        doomed: whether the last host dies after four rounds.
    """
    placement = place(plan.problem.n, [Machine("m", "m", 64.0)], nodes_per_host=2)
    first, hosts = opening_pace(plan), {}
    setup = RunSetup(plan, first, placement, "", 1e9, None, {}, False, "", 0.0)
    supervisor, steward = Handle(trace), Handle(trace)
    supervisor.actor = SupervisorActor(setup)
    await supervisor.actor.expect(supervisor)
    for name in placement.machines:
        nodes = placement.nodes_of(name)
        setups = tuple(
            setup_of(plan, n, host=placement.domains[n], pace=first.value) for n in nodes
        )
        theirs = {node: leaving[node] for node in nodes if node in leaving}
        given = HostSetup(name, setups, placement.hosts, theirs)
        dies = doomed and name == list(placement.machines)[-1]
        handle = hosts[name] = Handle(trace, _after_four_rounds if dies else lambda actor: False)
        handle.actor = HostActor(given, supervisor)
    steward.actor = StewardActor(charter_of(plan, first), placement.domains, 0, supervisor)
    ready = {name: (handle, await handle.actor.prepare()) for name, handle in hosts.items()}
    sys.setprofile(trace)
    await supervisor.actor.open(ready, steward, supervisor)
    while supervisor.actor._outcome is None and supervisor.actor._error is None:
        await asyncio.sleep(0.001)
    sys.setprofile(None)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    return await supervisor.actor.outcome()


def _after_four_rounds(host):
    return any(node.round >= 4 for node in host._group.nodes.values())


@pytest.fixture(scope="module")
def traces():
    """Heading -> what a run did in which that happens."""
    problem = bq.problems.quadratics(n=6, dim=2, mu=1.0, L=4.0, seed=0)
    will, network = bq.wills.Consensus(), bq.graphs.ring(6)
    plan = prepare(problem, network, will=will, rounds=9, checkpoint_every=1, unplanned=True)
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor_actor, "Monitoring", Mock())
        patch.setattr(supervisor_actor.ray, "kill", Handle.kill)
        patch.setattr(ray_private, "draining", dict)
        patch.setattr(ray_private, "on_sigterm", lambda heard: True)
        patch.setattr(host_actor, "_COMPANY", 0.001)
        for heading in WALKS:
            leaves, doomed = "departure" in heading, "crash" in heading
            trace = found[heading] = Trace()
            try:
                outcome = asyncio.run(play(trace, plan, {1: 4} if leaves else {}, doomed))
            finally:
                sys.setprofile(None)
            gone = [(record.node, record.crashed) for record in outcome.departures]
            assert gone == [(1, False)] * leaves + [(4, True), (5, True)] * doomed
    return found


def walk(heading):
    """The title of each participant, the arrows of a diagram, and the text around it."""
    text = PAGE.read_text().split(heading)[1].split("\n## ")[0].split("\n### ")[0]
    diagram = text.split("```mermaid\n")[1].split("```")[0]
    titles = {n: t or n for n, t in re.findall(r"participant (\w+)(?: as (.+))?", diagram)}
    return titles, re.findall(r"^    (\w+)->>(\w+): (.+)$", diagram, re.MULTILINE), text


def arrows():
    for heading in WALKS:
        titles, found, _ = walk(heading)
        for one, other, label in found:
            ends = [titles[end].split()[0] for end in (one, other)]
            yield pytest.param(heading, *ends, label, id=f"{heading[4:]}: {one} {other} {label}")


@pytest.mark.parametrize(("heading", "one", "other", "label"), list(arrows()))
def test_an_arrow_is_what_a_run_does(traces, heading, one, other, label):
    assert traces[heading].has(one, other, label)


def test_an_arrow_that_no_run_has_is_found(traces):
    trace = traces["### A departure"]
    assert not trace.has("ledger", "steward", "the record")
    assert not trace.has("steward", "node", "Inquiry")
    assert not trace.has("node", "steward", "Accusation")
    assert not trace.has("node", "ledger", "Farewell")


def test_the_messages_of_a_departure_follow_each_other_as_listed(traces):
    _, _, text = walk("### A departure")
    count, listed = re.search(r"(\d+) messages follow each other:(.+?)\.", text, re.DOTALL).groups()
    names = re.findall(r"[A-Z]\w+", re.sub(r"\(.*?\)", "", listed))
    assert len(names) == int(count)
    arrived = iter(traces["### A departure"].arrived)
    assert all(name in arrived for name in names)  # each of them after the one before


@pytest.mark.parametrize("heading", WALKS)
def test_as_many_modules_as_are_told(heading):
    titles, found, text = walk(heading)
    assert {end for one, other, _ in found for end in (one, other)} == set(titles)
    modules = {title.split()[0] for title in titles.values()}
    assert re.findall(r"^(\d+) modules\.", text, re.MULTILINE) == [str(len(modules))]


# Which process of a cluster a participant is part of; the others are the supervisor's.
STEWARDS = {"steward_actor", "steward_desk", "steward", "change", "drafting"}
HOSTS = {"host_actor", "node_group", "node", "preparation", "iterate"}


def process_of(module):
    if module == "ray_private":
        return "Ray"
    return next((room for room in (STEWARDS, HOSTS) if module in room), "supervisor")


def test_as_many_calls_between_processes_as_are_told():
    """Two of them bring the verdict to the steward, and its orders are a third."""
    _, found, text = walk("### A crash, on Ray")
    calls = [(one, other) for one, other, _ in found if process_of(one) is not process_of(other)]
    heard = found.index(("steward_desk", "steward", "Lost"))
    before = [arrow[:2] for arrow in found[:heard] if arrow[:2] in calls]
    assert len(before) == 2
    assert "Two calls between processes bring the verdict to the steward" in text
    assert [process_of(other) for _, other in calls[2:3]] == [HOSTS]
    assert "a\nthird, its order to halt, reaches the hosts" in text
