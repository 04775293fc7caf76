"""A cluster without Ray: node groups, a steward and a supervisor in one process.

Batches, reports and verdicts arrive in any order.
"""

import math
import random
from dataclasses import dataclass
from functools import partial

from bequest.engines.runtime.arrivals import Arrivals
from bequest.engines.runtime.message_batch import pack, unpack
from bequest.engines.runtime.node_group import STEWARD_HOST, NodeGroup
from bequest.engines.runtime.node_setup import (
    FinalState,
    charter_of,
    departure_after,
    opening_pace,
    planned_crashes,
    setup_of,
)
from bequest.engines.runtime.placement import Machine, place
from bequest.engines.runtime.steward_desk import StewardDesk
from bequest.engines.runtime.supervisor import (
    DeclareLost,
    GiveReceipt,
    Relocate,
    StartNode,
    Supervisor,
    TakeStock,
)
from bequest.protocol.events import FoundNetwork, Received


@dataclass(frozen=True)
class Rehearsal:
    """An engine: what the Ray engine does, but for the processes.

    Args:
        hosts: how many.
        seed: of the order in which batches and reports arrive.
        kill: (host, round): that host is gone once a node of it has completed that round.
        kill_steward: the steward is gone once a node has completed that round.
        machines: how many.
        records_rounds: whether one process sees the states of all nodes after every round.
    """

    hosts: int = 4
    seed: int = 0
    kill: tuple[str, int] | None = None
    kill_steward: int | None = None
    machines: int = 1
    records_rounds: bool = True

    def run(self, plan, progress=None):
        stage = Stage(self, plan)
        return stage.outcome(stage.run())


class Stage:
    """A carrier of the runtime: it moves batches and commands about, in any order, and no more."""

    def __init__(self, engine, plan):
        self.engine, self.plan = engine, plan
        machines = [Machine(f"m{k}", f"m{k}", 64.0) for k in range(engine.machines)]
        share = -(-plan.problem.n // engine.hosts)
        self.placement = place(plan.problem.n, machines, nodes_per_host=share)
        hosts, domains = self.placement.hosts, self.placement.domains
        first = opening_pace(plan)
        records_rounds = engine.records_rounds
        self.supervisor = Supervisor(
            plan,
            first,
            hosts,
            domain_of=self.placement.domain_of,
            records_rounds=records_rounds,
        )
        self.arrivals = Arrivals(self.supervisor)
        self.groups = {}
        for name in self.placement.machines:
            group = self.groups[name] = NodeGroup(
                name,
                hosts,
                planned_crashes=planned_crashes(plan),
                oracle=plan.optima.known,
                reports_rounds=records_rounds,
            )
            for node in self.placement.nodes_of(name):
                if node not in plan.absent:
                    setup = setup_of(plan, node, host=domains[node], pace=first.value)
                    group.add(setup.build())
                    after = departure_after(plan, node, 0)
                    if after is not None:
                        group.leave(node, after)
        self.make_desk = partial(StewardDesk, charter_of(plan, first), domains=domains)
        self.desk = self.make_desk(where=hosts)
        self.steward_dies_at = engine.kill_steward
        self.random = random.Random(engine.seed)  # noqa: S311 - which batch is next
        self.mail = []
        self.calls = []
        self.finished = False

    def run(self):
        """Return the nodes that are there in the end."""
        self._orders(self.desk.handle(FoundNetwork()))
        for host in list(self.groups):
            self._turn(host)
        while not self.finished:
            for host in [name for name, group in self.groups.items() if group.is_busy]:
                self._turn(host)
            if self.finished:
                break
            if not self.mail:
                if any(group.is_busy for group in self.groups.values()):
                    continue
                for host in self.groups:
                    self._report(host)
                self._carry_out(self.supervisor.tick(math.inf))
                assert self.mail, "nothing is under way"
            where, what = self.mail.pop(self.random.randrange(len(self.mail)))
            if callable(what):
                what()
            elif where == STEWARD_HOST:
                for sender, _, message in unpack(what):
                    self._orders(self.desk.handle(Received(sender, message)))
            elif where in self.groups:
                self.groups[where].deliver(unpack(what))
                self._turn(where)
        for host in self.groups:
            self._report(host)
        return [node for group in self.groups.values() for node in group.nodes.values()]

    def outcome(self, nodes):
        return self.supervisor.outcome(FinalState.of(node) for node in nodes if node.epoch)

    def _orders(self, orders):
        if orders.note is not None:
            self._carry_out(self.supervisor.note(orders.note))
        self.mail += [(host, pack(some)) for host, some in orders.messages.items()]

    def _turn(self, host):
        out = self.groups[host].run(lambda: 0.0)
        for host_to, messages in out.messages.items():
            self.calls.append((host, host_to, messages))
            self.mail.append((host_to, pack(messages)))
        if out.urgent or self.random.random() < 0.05:
            self._report(host)
        elif self.groups[host].has_to_explain:
            self.mail.append((host, lambda: self._report(host, rounds=False)))
        kill = self.engine.kill
        nodes = self.groups[host].nodes.values()
        if kill is not None and kill[0] == host and any(node.round >= kill[1] for node in nodes):
            del self.groups[host]
            self._carry_out(self.supervisor.host_lost(host, "its machine is gone"))
        dies_at = self.steward_dies_at
        if dies_at is not None and any(node.round >= dies_at for node in nodes):
            self.steward_dies_at = None
            self._replace_steward()

    def _replace_steward(self):
        """Let the steward die with what is under way to it, and another one take over."""
        stewards = self.supervisor.stewards
        self._carry_out(self.supervisor.steward_lost())
        self.mail = [(where, what) for where, what in self.mail if where != STEWARD_HOST]
        for host in list(
            self.groups
        ):  # verdicts and reports that come before the next one is there
            self._report(host)
        stewards.inquire()
        for group in self.groups.values():
            group.apply_again()
        appointment = stewards.appoint()
        self.desk = self.make_desk(where=appointment.where, term=stewards.term)
        for event in appointment.events:
            self._orders(self.desk.handle(event))

    def _report(self, host, *, rounds=True):
        if host in self.groups:
            items, messages = self.groups[host].report(rounds=rounds)
            self.mail += [(host_to, pack(some)) for host_to, some in messages.items()]
            self._carry_out(self.supervisor.report(host, items, 0.0))

    def _carry_out(self, commands):
        for command in commands:
            match command:
                case DeclareLost(verdict):
                    told = partial(self._tell_steward, verdict)
                    self.mail.append((STEWARD_HOST, told))
                case TakeStock():
                    self.finished = True
                case GiveReceipt(node, host, receipt):
                    self.groups[host].give_receipt(node, receipt)
                case Relocate() | StartNode():
                    if self.arrivals.put(command):
                        self.mail.append((None, self._let_in))

    def _tell_steward(self, verdict):
        self._orders(self.desk.handle(verdict))

    def _let_in(self):
        """Carry out the next command about a node that arrives."""
        match self.arrivals.next:
            case Relocate(node, host):
                self.desk.locate(node, host)
                for group in self.groups.values():
                    group.locate(node, host)
                self.arrivals.moved()
            case StartNode(_, host, _) if host not in self.groups:
                self._carry_out(self.arrivals.host_died())
            case StartNode(setup, host, leaves):
                self.groups[host].admit(setup.build(), leaves)
                self._carry_out(self.arrivals.answered(None))
                self._turn(host)
        if self.arrivals.next is not None:
            self.mail.append((None, self._let_in))


def same(one, other):
    """Whether two runs are the same in every bit that counts."""
    return (
        one.status is other.status
        and one.survivors == other.survivors
        and one.x.tobytes() == other.x.tobytes()
        and one.lost == other.lost
        and one.steps == other.steps
        and [str(r) for r in one.departures] == [str(r) for r in other.departures]
        and [str(r) for r in one.changes] == [str(r) for r in other.changes]
        and one.invariant_gap.tobytes() == other.invariant_gap.tobytes()
        and one.trajectory.gradient_norm.tobytes() == other.trajectory.gradient_norm.tobytes()
        and one.trajectory.disagreement.tobytes() == other.trajectory.disagreement.tobytes()
        # where losses are not convex there is no optimum to be away from
        and (one.problem.regime == "N" or one.error.tobytes() == other.error.tobytes())
    )
