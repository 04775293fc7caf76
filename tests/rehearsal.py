"""A cluster without Ray: crews, a steward and a chronicle in one process, parcels in any order."""

import random
from dataclasses import dataclass

from bequest.engines.assembly import (
    Ending,
    charter_of,
    comers,
    departure_after,
    opening_step,
    outcome_of,
    seat_of,
)
from bequest.engines.ray.chronicle import Chronicle
from bequest.engines.ray.crew import STEWARDSHIP, Crew
from bequest.engines.ray.parcels import Letter, pack, unpack
from bequest.engines.ray.placement import Machine, place
from bequest.engines.ray.reports import Ended
from bequest.protocol.events import Committed, Finished, Lost, Received, Send
from bequest.protocol.messages import STEWARD
from bequest.protocol.steward import Steward


@dataclass(frozen=True)
class Rehearsal:
    """An engine: what the Ray engine does, but for the processes.

    Args:
        hosts: how many.
        seed: of the order in which parcels and reports arrive.
        kill: (host, round): that host is gone once a node of it has completed that round.
        machines: how many.
    """

    hosts: int = 4
    seed: int = 0
    kill: tuple[str, int] | None = None
    machines: int = 1

    def run(self, plan, progress=None):
        return _Stage(self, plan).run()


class _Stage:
    def __init__(self, engine, plan):
        self.engine, self.plan = engine, plan
        machines = [Machine(f"m{k}", f"m{k}", 64.0) for k in range(engine.machines)]
        share = -(-plan.problem.n // engine.hosts)
        self.placement = place(plan.problem.n, machines, nodes_per_host=share)
        self.where = dict(self.placement.hosts)
        first = opening_step(plan)
        self.chronicle = Chronicle(plan, first, lambda change: None)
        doomed = [(k, t) for t, changes in plan.schedule.items() for k in changes.crashes]
        self.crews = {}
        for host in self.placement.machines:
            crew = self.crews[host] = Crew(
                host, self.where, doomed=doomed, oracle=plan.optima.known
            )
            for node in self.placement.nodes_of(host):
                if node not in plan.absent:
                    crew.seat(self._seat(node, step=first.value).fill())
                    after = departure_after(plan, node, 0)
                    if after is not None:
                        crew.leave(node, after)
        self.steward = Steward(charter_of(plan, first), self.placement.domains)
        self.random = random.Random(engine.seed)  # noqa: S311 - which parcel is next
        self.mail = []
        self.calls = []
        self.lives = dict.fromkeys(plan.network(), 0)
        self.silent = {}
        self.finished = False

    def _seat(self, node, **more):
        return seat_of(self.plan, node, host=self.placement.domains[node], **more)

    def run(self):
        self._orders(self.steward.found())
        for host in list(self.crews):
            self._turn(host)
        while not self.finished:
            for host in [name for name, crew in self.crews.items() if crew.is_busy]:
                self._turn(host)
            if self.finished:
                break
            if not self.mail:
                if any(crew.is_busy for crew in self.crews.values()):
                    continue
                self._let_the_world_move()
            where, what = self.mail.pop(self.random.randrange(len(self.mail)))
            if callable(what):
                what()
            elif where == STEWARDSHIP:
                for sender, _, message in unpack(what):
                    self._orders(self.steward.handle(Received(sender, message)))
            elif where in self.crews:
                self.crews[where].deliver(unpack(what))
                self._turn(where)
        for host in self.crews:
            self._report(host)
        endings = {n: Ending.of(x) for c in self.crews.values() for n, x in c.nodes.items()}
        members = sorted(self.chronicle.film.members & endings.keys())
        chosen = [endings[node] for node in members]
        return outcome_of(self.plan, self.chronicle.film, self.chronicle.ledger, chosen)

    def _orders(self, effects):
        parcels = {}
        for effect in effects:
            if isinstance(effect, Send):
                for node in effect.to:
                    letter = Letter(STEWARD, (node,), effect.message)
                    parcels.setdefault(self.where[node], []).append(letter)
            elif isinstance(effect, Committed):
                self.chronicle.commit(effect)
            elif isinstance(effect, Finished):
                self.finished = True
        for host, letters in parcels.items():
            self.mail.append((host, pack(letters)))

    def _turn(self, host):
        out = self.crews[host].run()
        for host_to, letters in out.letters.items():
            self.calls.append((host, host_to, letters))
            self.mail.append((host_to, pack(letters)))
        if out.urgent or self.random.random() < 0.05:
            self._report(host)
        elif self.crews[host].has_to_explain:
            self.mail.append((host, lambda: self._report(host, rounds=False)))
        kill = self.engine.kill
        nodes = self.crews[host].nodes.values()
        if kill is not None and kill[0] == host and any(node.round >= kill[1] for node in nodes):
            self._lose(host)

    def _report(self, host, *, rounds=True):
        if host not in self.crews:
            return
        items, letters = self.crews[host].report(rounds=rounds)
        self.chronicle.report(items)
        self.mail += [(host_to, pack(some)) for host_to, some in letters.items()]
        for item in items:
            if isinstance(item, Ended):
                self.lives.pop(item.process, None)
                if item.silent:
                    self.silent[item.process] = item.life
                elif item.why is not None:
                    self._condemn(item.process, item.life, item.why)

    def _condemn(self, node, life, why):
        self.chronicle.lose(node)
        verdict = Lost(node, why, life)
        self.mail.append(("", lambda: self._orders(self.steward.handle(verdict))))

    def _lose(self, host):
        for node in sorted(self.crews.pop(host).nodes):
            self._condemn(node, self.lives.pop(node), "its host is gone")

    def _let_the_world_move(self):
        awaited = self.steward.awaited
        assert awaited or self.silent, "nothing is under way"
        for host in self.crews:
            self._report(host)
        for node, life in sorted(self.silent.items()):
            self._condemn(node, life, "its process is gone")
        self.silent.clear()
        if not awaited:
            return
        t = self.steward.round_reached
        for purpose, node in comers(self.plan, t):
            if node in awaited:
                ledger = self.chronicle.ledger
                life = self.lives[node] = self.lives.get(node, 0) + 1
                seat = self._seat(
                    node,
                    step=ledger.steps[-1].value,
                    t=t,
                    purpose=purpose,
                    receipt=ledger.receipts.get(node),
                    life=life,
                )
                self.chronicle.admit(node)
                crew = self.crews[self.where[node]]
                crew.admit(seat.fill())
                after = departure_after(self.plan, node, t)
                if after is not None:
                    crew.leave(node, after)
                self._turn(self.where[node])


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
        and one.error.tobytes() == other.error.tobytes()
    )
