"""What must be true after every event of a run, whatever has gone wrong by then.

The checker sees everything: it looks into the nodes, which a deployment could not. It relies on
nothing that the steward says but what has been committed AND begun by a node.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.legacy import Legacy
from bequest.model.pseudo_samples import evaluated
from bequest.protocol.events import (
    Adopted,
    Began,
    Checkpointed,
    Committed,
    Completed,
    Decided,
    Dropped,
    Failed,
    Recalled,
    Received,
    Withdrawn,
)
from bequest.protocol.messages import Halted, Imbalance
from bequest.protocol.states import State

if __package__:
    from simulation.books import Books, Violation, identical
    from simulation.formulas import Drawn, Rule, bound, instability
else:
    from books import Books, Violation, identical
    from formulas import Drawn, Rule, bound, instability

if TYPE_CHECKING:
    from bequest.engines.loop.engine import Execution
    from bequest.protocol.node import Node

# The first numbers of a steward's epochs say how many stewards there were before.
_TERM = 20
# How far sums in different orders may be apart, relative to what was added up.
_ROUNDING = 1e-9


class Checker:
    """Watches one execution; ``look`` after every event.

    Attributes:
        now: the latest epoch that any node has begun.
        accepted: every epoch that was the latest one, in order, as (the epoch before, what began).
        books: what every node must hold in each of them.
        until: epoch -> the round after which every node stops.
        completed: node -> the last round that it has completed in its epoch.
        is_orderly: whether no node has gone on from a round that it had not completed, and none
            was lost to a steward that had just taken over: it does not know all of the network.
        events: how many have been looked at.
        cuts: on how many cuts the invariant was checked.
    """

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.world = execution.world
        self.committed: dict[int, Committed] = {}
        self.now: Committed | None = None
        self.accepted: list[tuple[int, Committed]] = []
        plan = execution.plan
        self.books = Books(frozenset(plan.network()), plan.problem.dim)
        self.until: dict[int, int] = {}
        # node -> round of its epoch -> (x, z) after it, of the last two
        self.states: dict[int, dict[int, tuple[np.ndarray, np.ndarray]]] = {}
        # epoch -> the pace that all have agreed on
        self.paces = {0: execution.supervisor.ledger.steps[-1].value}
        # node -> what it goes by in its epoch, and the gradients of its own loss
        self.rules: dict[int, Rule] = {}
        self.drawn: dict[int, Drawn] = {}
        self.known: dict[int, tuple[int, ...]] = {}
        self.weights: dict[int, dict[int, float]] = {}
        self.keepers: dict[int, tuple[int, ...]] = {}
        self.rounds: dict[int, tuple[int, int]] = {}
        self.completed: dict[int, int] = {}
        self.is_orderly = True
        self._beginners: dict[int, Node] = {}
        # node -> its tracker after its last round, whatever hand-offs have added to it since
        self._tracked: dict[int, np.ndarray] = {}
        self.events = 0
        self.cuts = 0
        self._changed = False
        # every node's latest process that was a member, alive or not
        self.bodies: dict[int, Node] = {}
        # (who comes, the epoch that it has prepared) -> its process, which may die before that
        self._comers: dict[tuple[int, int], Node] = {}
        # epoch -> what was known, and who kept and weighed whom, before it
        self._before: dict[int, tuple[dict, dict, dict]] = {}
        # every node that was there after the last event
        self._there: dict[int, Node] = {}
        self._failed: set[int] = set()
        # (node, round) -> what the checkpoints that it made then say of its own loss
        self._made: dict[tuple[int, int], list[Legacy]] = defaultdict(list)
        # attempt -> what every node that has stopped for it said
        self._reports: dict[int, list[Halted]] = defaultdict(list)
        # attempt after a loss -> node -> what it knew when it told the next one
        self._balances: dict[int, dict[int, tuple]] = defaultdict(dict)
        self._stepped = 0
        observe, send = self.world._observe, self.world.network.send

        def watch(process, effect):
            observe(process, effect)
            self.hear(process, effect)

        def overhear(sender, receiver, event, **options):
            if isinstance(event, Received) and isinstance(event.message, Halted):
                self._reports[event.message.epoch].append(event.message)
            elif isinstance(event, Received) and isinstance(event.message, Imbalance):
                self._balances[event.message.epoch][sender] = self._balance(sender)
            send(sender, receiver, event, **options)

        self.world._observe = watch
        self.world.network.send = overhear

    @property
    def counted(self) -> frozenset[int]:
        """Every node that counts: founders, and the nodes that joined, but for the forgotten."""
        return self.books.pages[0 if self.now is None else self.now.epoch].counted

    # --- what is heard ------------------------------------------------------------------------

    def hear(self, process: int, effect: object) -> None:
        if isinstance(effect, Completed):
            self._changed = True
            epoch, before = self.rounds[process]
            if effect.round != before + 1:
                raise Violation(f"node {process} went from round {before} to {effect.round}")
            self.rounds[process] = epoch, effect.round
            self.completed[process] = effect.round
            self._judge_round(process, effect)
            states = self.states[process]
            states[effect.round] = effect.x, effect.z
            states.pop(effect.round - 2, None)
            self._tracked[process] = effect.z
            self._judge_freshness(process, effect.round)
        elif isinstance(effect, Failed):
            self._failed.add(process)
            if effect.why != "it was taken for lost":
                raise Violation(f"node {process} failed: {effect.why}")
        elif isinstance(effect, Dropped):
            if "cannot be right" in effect.why:
                raise Violation(f"{process} takes what is right for wrong: {effect}")
        elif isinstance(effect, Checkpointed):
            self._judge_estate(process, effect.round)
            legacy = None if effect.bequest is None else effect.bequest.legacy
            zero = Legacy.zero(self.world.nodes[process].x.size)
            self._made[process, effect.round].append(zero if legacy is None else legacy)
        elif isinstance(effect, Decided | Adopted | Recalled | Withdrawn):
            self.books.announce(process, effect)
            if isinstance(effect, Decided):
                self._judge_estate(process, effect.round)
            elif isinstance(effect, Adopted):
                self._judge_adoption(effect)
            elif isinstance(effect, Recalled):
                self._judge_recall(process, effect)
        elif isinstance(effect, Committed):
            self.committed[effect.epoch] = effect
            self._judge_losses(effect)
        elif isinstance(effect, Began):
            self._changed = True
            node = self.world.nodes[process]
            is_fresh = self._beginners.get(process) is not node
            before, last = (0, effect.round) if is_fresh else self.rounds[process]
            self.is_orderly &= last == effect.round
            self._beginners[process] = node
            if is_fresh:
                self._tracked[process] = effect.z
                self.drawn[process] = Drawn(node, effect.x, effect.round)
            self.rounds[process] = effect.epoch, effect.round
            self.completed.pop(process, None)
            self.states[process] = {effect.round: (effect.x, effect.z)}
            if self.now is None or effect.epoch > self.now.epoch:
                self._accept(self.committed[effect.epoch], before)
            self._judge_beginning(process, effect)

    def _accept(self, change: Committed, before: int) -> None:
        """A node, that was in that epoch before, has begun it: from now on it is the truth."""
        ready = [
            node
            for node in (self.bodies.get(member) for member in change.members)
            if node is not None
            and node.preparation is not None
            and node.preparation.arrange.epoch == change.epoch
        ]
        base = max([before, *(node.epoch for node in ready)])
        abandoned = [later for _, later in self.accepted if later.epoch > base]
        for _ in abandoned:
            self._go_back()
        self._judge_appointment(change)
        self._before[change.epoch] = dict(self.known), dict(self.keepers), dict(self.weights)
        self.now = change
        self.accepted.append((base, change))
        self.paces[change.epoch] = self.paces[base] if change.step is None else change.step.value
        self.is_orderly &= not change.adoptions or base >> _TERM == change.epoch >> _TERM
        arrival = change.arrival
        if arrival is not None and arrival.purpose != "forget":
            # the process of an earlier incarnation says nothing of this one
            self.bodies[arrival.node] = self._comers[arrival.node, change.epoch]
        self._comers = {key: node for key, node in self._comers.items() if key[1] > change.epoch}
        self._reports = defaultdict(
            list, {epoch: said for epoch, said in self._reports.items() if epoch > change.epoch}
        )
        self.books.turn(change, base, lambda node: self._virtual(self.bodies[node])[0])

    def _judge_appointment(self, change: Committed) -> None:
        """A node that has an appointment comes to it, and not before."""
        if change.arrival is None:
            return
        appointed = [
            t
            for t, planned in self.execution.plan.schedule.items()
            if change.arrival.node in (*planned.forgets, *planned.returns, *planned.joins)
        ]
        if change.round not in appointed and any(t > change.round for t in appointed):
            raise Violation(f"{change.arrival} after round {change.round}, not {appointed}")

    def _judge_beginning(self, process: int, began: Began) -> None:
        """A node that begins holds what the books say, and nothing about another optimum."""
        node, epoch = self.world.nodes[process], began.epoch
        page = self.books.pages[epoch]
        self.until[epoch] = node.place.begin.until
        if node.iterate.pace != self.paces[epoch]:
            raise Violation(f"{node!r} has the pace {node.iterate.pace}, not {self.paces[epoch]}")
        self.rules[process] = self._rule(node)
        if not page.held[process].is_in(node.inherited):
            raise Violation(f"{node!r} holds {node.inherited}, not {page.held[process]}")
        g = self.drawn[process].used + node.inherited.gradient(began.x)
        if not np.abs(began.g - g).max() <= _ROUNDING * (1 + np.abs(g).max()):
            raise Violation(f"{node!r} begins with the gradient {began.g}, not {g}")
        base = next(base for base, change in self.accepted if change.epoch == epoch)
        moved = page.counted != self.books.pages[base].counted
        if moved and node.executor.path is not None and node.executor.path.carried is not None:
            raise Violation(f"{node!r} carries a prediction of another optimum along")

    def _rule(self, node: Node) -> Rule:
        """What a node has to go by in the epoch that is the truth."""
        assert self.now is not None
        inherited, _ = self._virtual(node)
        arrange = node.place.arrange if node.epoch == self.now.epoch else node.preparation.arrange
        method, epoch = self.execution.plan.method, self.now.epoch
        weights = dict(zip(arrange.neighbours, arrange.weights, strict=True))
        M = bound(method, node.objective, inherited)
        return Rule(method, epoch, self.paces[epoch], weights, M)

    def _judge_round(self, process: int, after: Completed) -> None:
        """A round is what the formulas make of what the node and its neighbours had before it."""
        node, rule, drawn = self.world.nodes[process], self.rules[process], self.drawn[process]
        before, others = drawn.used, {}
        own = drawn.draw(after.x, after.round)
        for other in rule.weights:
            theirs, state = self.rules[other], self.states[other].get(after.round - 1)
            if theirs.epoch != rule.epoch or state is None:
                return  # the others have gone on without this one, which was taken for lost
            others[other] = (theirs, *state)
        x, z = self.states[process][after.round - 1]
        there, gain = rule.follow(x, z, others)
        g = before + node.inherited.gradient(x)
        g_next = own + node.inherited.gradient(after.x)
        expected = z - g + gain + g_next
        scale = 1.0 + sum(np.abs(one).max() for one in (x, there, z, g, gain, g_next))
        gap = max(np.abs(after.x - there).max(), np.abs(after.z - expected).max())
        if not gap <= _ROUNDING * scale:
            raise Violation(f"{node!r} is at {after}, where the formulas lead to {there, expected}")

    def _judge_estate(self, process: int, after: int) -> None:
        """A will is shown the tracker of the last round, an estimate of the mean gradient."""
        node, will = self.world.nodes[process], self.execution.plan.wills[process]
        estate, _ = will.notes[process, after][-1]
        came_in = self._beginners.get(process) is node
        z = self._tracked[process] if came_in else self._first_tracker(node)
        rounding = 0.0 if came_in else 1e-12 * (1.0 + np.abs(node.iterate.g).max())
        if not np.abs(estate.z - z).max() <= rounding:
            raise Violation(f"the will of {node!r} was shown {estate.z}, not its tracker {z}")

    def _first_tracker(self, node: Node) -> np.ndarray:
        """A node that comes back begins with its gradient less what was held of it."""
        gradient = Drawn(node, node.x, node.round).used
        if self.now is None or node.purpose != "return":
            return gradient
        page = self.books.pages[self.now.epoch]
        if not any(node.ident in entry.lineage for entry in page.held.values()):
            return gradient
        receipt = page.receipts[node.ident]  # in bytes there are no points yet
        drawn = receipt.drawn_by(lambda part: evaluated(part, node.objective))
        return gradient - drawn.gradient(node.x)

    def _judge_adoption(self, adopted: Adopted) -> None:
        """What is adopted is what the lost node had written down, and no node has a later word."""
        fresh = [
            round_
            for report in self._reports[adopted.epoch]
            for ward, round_, _ in report.wards
            if ward == adopted.node
        ]
        if adopted.round < max(fresh):
            raise Violation(f"{adopted} is not the latest checkpoint: there are {fresh}")
        made = self._made[adopted.node, adopted.round]
        if not any(identical(adopted.own, legacy) for legacy in made):
            raise Violation(f"{adopted} is none of {made}")

    def _balance(self, ident: int) -> tuple[np.ndarray, np.ndarray, float]:
        """A node's tracker, gradient and least curvature."""
        node = self.world.nodes[ident]
        strength = node.objective.curvature.a + node.inherited.curvature[0]
        way = np.linalg.norm(node.x - node.executor.start)
        return node.iterate.z, node.iterate.g, strength, way

    def _judge_recall(self, process: int, recalled: Recalled) -> None:
        """What is recalled is what all others lack, and only where trackers are small."""
        # also of a node that has died, or has given the attempt up, since it told its surplus
        known = [*self._balances.pop(recalled.epoch, {}).values(), self._balance(process)]
        Z, G = (np.array([one[k] for one in known]) for k in range(2))
        lacking, trackers = (Z - G).sum(axis=0), np.linalg.norm(Z, axis=1).sum()
        strength = sum(one[2] for one in known)
        gradients, size = np.linalg.norm(G, axis=1).sum(), np.linalg.norm(lacking)
        way = sum(one[3] for one in known)
        least = min(
            0.2 * gradients, 0.4 * len(known) * size, 3 * max(strength, 0) * way / len(known)
        )
        doubt = trackers / least if least else np.inf
        legacy = recalled.legacy
        if (legacy is None) != (doubt > 1 or strength <= 0) and abs(doubt - 1) > _ROUNDING:
            raise Violation(f"{recalled}, though the doubt is {doubt} and the strength {strength}")
        if legacy is None:
            return
        flat = legacy.curvature == (0.0, 0.0) and dict(legacy.lineage) == {recalled.node: 1}
        if not flat or not np.abs(legacy.p - lacking).max() <= _ROUNDING * (1 + size):
            raise Violation(f"{recalled} is not what the others lack, {lacking}")

    def _judge_freshness(self, process: int, t: int) -> None:
        """After every round a node's own checkpoint is as fresh as was agreed on."""
        executor = self.world.nodes[process].executor
        every, made = executor.every, executor.own_round
        if every is not None and made // every < t // every:
            raise Violation(f"node {process} has a checkpoint of round {made} after round {t}")

    def _judge_losses(self, change: Committed) -> None:
        """No node may be given up whose checkpoint is held, or has to be, by a node alive."""
        for adoption in change.adoptions:
            obliged = [
                keeper
                for keeper in self.keepers.get(adoption.node, ())
                if keeper in change.members
                and self._is_alive(keeper)
                and self.now is not None
                and self.bodies[keeper].epoch == self.now.epoch
            ]
            needless = set(self.known.get(adoption.node, ())) & set(adoption.lost)
            if obliged and (adoption.adopter is None or needless):
                raise Violation(f"{adoption} loses {needless}, which {obliged} have to keep")
            alive = [
                keeper
                for keeper in change.members
                if self._is_alive(keeper) and adoption.node in self.bodies[keeper].kept.wards
            ]
            if adoption.adopter is None and alive:
                raise Violation(f"node {adoption.node} was given up, though {alive} keep it")

    # --- what is looked at --------------------------------------------------------------------

    def look(self) -> None:
        """Check everything that the last event may have changed."""
        self.events += 1
        self.meet()
        self._check_who_has_gone()
        if self.now is not None and self._is_abandoned:
            self._go_back()
        if self.now is None or not self._changed:
            return
        self._changed = False
        views = {node: self._view(node) for node in self.now.members}
        self._check_lineage(views)
        if all(self._is_alive(node) for node in self.now.members):
            self._check_invariant()
            self._check_step()

    @property
    def _is_abandoned(self) -> bool:
        """Whether only dead nodes have begun the latest epoch; others have never heard of it."""
        alive = [self.world.nodes[n] for n in self.now.members if self._is_alive(n)]
        return any(not self._takes_part(node) for node in alive) and all(
            node.epoch < self.now.epoch for node in alive
        )

    def _go_back(self) -> None:
        """Take the epoch before for the truth: no node that has begun a later one is left."""
        base, abandoned = self.accepted.pop()
        self.now = next((change for _, change in self.accepted if change.epoch == base), None)
        self.known, self.keepers, self.weights = self._before[abandoned.epoch]
        self.is_orderly, self._changed = False, True

    def meet(self) -> None:
        """Remember every node that is, or has been, more than a node that asks to come."""
        for ident, node in self.world.nodes.items():
            if node.purpose is None or node.epoch or self._takes_part(node):
                self.bodies[ident] = node
            elif node.preparation is not None:
                self._comers[ident, node.preparation.arrange.epoch] = node

    def _takes_part(self, node: Node) -> bool:
        if self.now is None:
            return False
        preparation = node.preparation
        prepared = None if preparation is None else preparation.arrange.epoch
        return self.now.epoch in (node.epoch, prepared)

    def _is_alive(self, ident: int) -> bool:
        node = self.world.nodes.get(ident)
        return node is not None and node is self.bodies.get(ident)

    def _is_declared(self, node: Node) -> bool:
        verdicts = self.execution.supervisor.incarnations.verdicts
        return any((v.node, v.incarnation) == (node.ident, node.incarnation) for v in verdicts)

    def fault(self) -> None:
        """Something was done to the network: look at everything again."""
        self._changed = True
        self.look()

    def _check_who_has_gone(self) -> None:
        """A node is dismissed only when every other node has begun without it."""
        nodes = self.world.nodes
        gone = [node for ident, node in self._there.items() if nodes.get(ident) is not node]
        for node in gone:
            if node.state is not State.GONE or node.ident in self._failed:
                continue  # it was killed, or taken for lost
            epoch = node.preparation.arrange.epoch
            members = self.committed[epoch].members if epoch in self.committed else ()
            # The steward cannot wait for a node that was declared lost, be it wrongly.
            waiting = [
                n
                for n in members
                if self._is_alive(n) and nodes[n].epoch < epoch and not self._is_declared(nodes[n])
            ]
            if not members or waiting:
                raise Violation(f"{node!r} was dismissed, but {waiting} have not begun {epoch}")
        self._there = dict(nodes)
        self._failed.clear()

    def _virtual(self, node: Node) -> tuple[Legacy, np.ndarray]:
        """What a node has inherited, and its tracker's surplus, in the epoch that is the truth."""
        assert self.now is not None
        if node.epoch == self.now.epoch:
            return node.inherited, node.iterate.z - node.iterate.g
        preparation = node.preparation
        alive = self._is_alive(node.ident)
        ready = preparation is not None and (node.state is State.READY or not alive)
        if not ready or preparation.arrange.epoch != self.now.epoch:
            raise Violation(f"{node!r} has not prepared epoch {self.now.epoch}, which has begun")
        if preparation.arrange.restart:
            return preparation.inherited, np.zeros_like(node.iterate.z)
        return preparation.inherited, node.iterate.z - node.iterate.g + preparation.surplus

    def _view(self, ident: int) -> tuple[int, ...]:
        node = self.bodies.get(ident)
        if node is None:  # it died before any node met it
            return self.known.get(ident, ())
        if not self._is_alive(ident) and not self._takes_part(node):
            return self.known.get(ident, ())
        inherited, _ = self._virtual(node)
        arrange = node.place.arrange if node.epoch == self.now.epoch else node.preparation.arrange
        self.weights[ident] = dict(zip(arrange.neighbours, arrange.weights, strict=True))
        self.keepers[ident] = arrange.buddies
        self._check_hosts(ident, arrange.buddies)
        self.known[ident] = tuple(inherited.lineage)
        if any(share != 1 for share in inherited.lineage.values()):
            raise Violation(f"node {ident} remembers a node more than once: {inherited.lineage}")
        return self.known[ident]

    def _check_hosts(self, ident: int, buddies: tuple[int, ...]) -> None:
        """The buddies of a node are on as many other hosts as there are for so many."""
        assert self.now is not None
        hosts = self.execution.hosts
        others = {hosts[node] for node in self.now.members} - {hosts[ident]}
        taken = {hosts[node] for node in buddies} - {hosts[ident]}
        if len(taken) < min(len(buddies), len(others)):
            raise Violation(f"the buddies of {ident} are on {taken}, where there are {others}")

    def _check_lineage(self, views: dict[int, tuple[int, ...]]) -> None:
        """Each original node is alive, or in exactly one inherited quadratic, or known as lost."""
        assert self.now is not None
        seen = [*views, *(i for inside in views.values() for i in inside), *self.now.lost]
        if sorted(seen) != sorted(self.counted):
            raise Violation(
                f"lineage in epoch {self.now.epoch}: members with inherited {views}, lost "
                f"{self.now.lost}, but {sorted(self.counted)} count"
            )

    def _check_invariant(self) -> None:
        """On this cut, messages under way included, the trackers sum to the gradients.

        An edge whose ends are one round apart has given to the one ahead what the one behind will
        lose with its next round.
        """
        assert self.now is not None
        nodes = {ident: self.world.nodes[ident] for ident in self.now.members}
        total, scale = 0.0, 1.0
        for ident, node in nodes.items():
            _, surplus = self._virtual(node)
            total = total + surplus
            scale += float(np.abs(node.iterate.z).sum() + np.abs(node.iterate.g).sum())
            if node.epoch != self.now.epoch:
                continue
            for other, weight in self.weights[ident].items():
                peer = nodes[other]
                behind = peer.round if peer.epoch == self.now.epoch else self.now.round
                if node.round == behind + 1:
                    rule = self.rules[ident]
                    theirs = self.rules[other].tells(peer.iterate.x, peer.iterate.z)
                    ahead = rule.tells(*self.states[ident][behind])
                    total = total + rule.share * weight * (theirs - ahead)
                elif node.round > behind + 1:
                    raise Violation(f"nodes {ident} and {other} are {node.round - behind} apart")
        self.cuts += 1
        gap = float(np.abs(total).max())
        if not gap <= 1e-9 * scale:
            raise Violation(f"the invariant is broken by {gap:.3g} in epoch {self.now.epoch}")

    def _check_step(self) -> None:
        """Before any node completes a round a chosen pace is stable for what every node carries."""
        assert self.now is not None
        given = self.execution.plan.method.given
        if given is not None or self._stepped == self.now.epoch:
            return
        nodes = {ident: self.world.nodes[ident] for ident in self.now.members}
        begun = [node for node in nodes.values() if node.epoch == self.now.epoch]
        if all(node.round == self.now.round for node in begun):
            return
        self._stepped = self.now.epoch
        wrong = instability({ident: self._rule(node) for ident, node in nodes.items()})
        if wrong is not None:
            raise Violation(f"the pace is not stable in epoch {self.now.epoch}: {wrong}")
