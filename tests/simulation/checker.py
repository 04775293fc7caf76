"""What must be true after every event of a run, whatever has gone wrong by then.

The checker sees everything: it looks into the nodes, which a deployment could not. It relies on
nothing that the steward says but what has been committed AND begun by somebody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.protocol.events import Began, Committed, Completed, Dropped, Failed
from bequest.protocol.states import State

if TYPE_CHECKING:
    from bequest.core.legacy import Legacy
    from bequest.engines.loop import Execution
    from bequest.protocol.node import Node


class Violation(AssertionError):
    """Something that must never happen has happened."""


class Checker:
    """Watches one execution; ``look`` after every event."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.world = execution.world
        self.committed: dict[int, Committed] = {}
        self.now: Committed | None = None
        # everybody who counts: founders, and whoever joined, but for the forgotten
        self.counted = set(execution.plan.network())
        self.trackers: dict[int, dict[int, np.ndarray]] = {}
        self.known: dict[int, tuple[int, ...]] = {}
        self.weights: dict[int, dict[int, float]] = {}
        self.keepers: dict[int, tuple[int, ...]] = {}
        self.rounds: dict[int, tuple[int, int]] = {}
        self.completed: dict[int, int] = {}
        self.events = 0
        self.cuts = 0
        self._changed = False
        # everybody's latest process that was a member, alive or not
        self.bodies: dict[int, Node] = {}
        # (who comes, the epoch that it has prepared) -> its process, which may die before that
        self._comers: dict[tuple[int, int], Node] = {}
        observe = self.world._observe

        def watch(process, effect):
            observe(process, effect)
            self.hear(process, effect)

        self.world._observe = watch

    # --- what is heard ------------------------------------------------------------------------

    def hear(self, process: int, effect: object) -> None:
        if isinstance(effect, Completed):
            self._changed = True
            epoch, before = self.rounds[process]
            if effect.round != before + 1:
                raise Violation(f"node {process} went from round {before} to {effect.round}")
            self.rounds[process] = epoch, effect.round
            self.completed[process] = effect.round
            trackers = self.trackers[process]
            trackers[effect.round] = effect.z
            trackers.pop(effect.round - 2, None)
        elif isinstance(effect, Failed):
            if effect.why != "it was taken for lost":
                raise Violation(f"node {process} failed: {effect.why}")
        elif isinstance(effect, Dropped):
            if "cannot be right" in effect.why:
                raise Violation(f"{process} takes what is right for wrong: {effect}")
        elif isinstance(effect, Committed):
            self.committed[effect.epoch] = effect
            self._judge_losses(effect)
        elif isinstance(effect, Began):
            self._changed = True
            self.rounds[process] = effect.epoch, effect.round
            self.completed.pop(process, None)
            self.trackers[process] = {effect.round: effect.z}
            if self.now is None or effect.epoch > self.now.epoch:
                self._accept(self.committed[effect.epoch])

    def _accept(self, change: Committed) -> None:
        """Somebody has begun it: from now on it is the truth."""
        self.now = change
        arrival = change.arrival
        if arrival is not None:
            if arrival.purpose == "forget":
                self.counted.discard(arrival.node)
            else:
                self.counted.add(arrival.node)
                # the process of an earlier life says nothing of this one
                self.bodies[arrival.node] = self._comers[arrival.node, change.epoch]
        self._comers = {key: node for key, node in self._comers.items() if key[1] > change.epoch}

    def _judge_losses(self, change: Committed) -> None:
        """Nobody may be given up whose checkpoint is held, or has to be, by somebody alive."""
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
                if self._is_alive(keeper) and adoption.node in self.bodies[keeper]._vault.wards
            ]
            if adoption.adopter is None and alive:
                raise Violation(f"node {adoption.node} was given up, though {alive} keep it")

    # --- what is looked at --------------------------------------------------------------------

    def look(self) -> None:
        """Check everything that the last event may have changed."""
        self.events += 1
        self.meet()
        if self.now is None or not self._changed:
            return
        self._changed = False
        views = {node: self._view(node) for node in self.now.members}
        self._check_lineage(views)
        if all(self._is_alive(node) for node in self.now.members):
            self._check_invariant()

    def meet(self) -> None:
        """Remember everybody who is, or has been, more than somebody who asks to come."""
        for ident, node in self.world.nodes.items():
            if node.purpose is None or node.epoch or self._takes_part(node):
                self.bodies[ident] = node
            elif node._preparation is not None:
                self._comers[ident, node._preparation.arrange.epoch] = node

    def _takes_part(self, node: Node) -> bool:
        if self.now is None:
            return False
        preparation = node._preparation
        prepared = None if preparation is None else preparation.arrange.epoch
        return self.now.epoch in (node.epoch, prepared)

    def _is_alive(self, ident: int) -> bool:
        node = self.world.nodes.get(ident)
        return node is not None and node is self.bodies.get(ident)

    def fault(self) -> None:
        """Something was done to the network: look at everything again."""
        self._changed = True
        self.look()

    def _virtual(self, node: Node) -> tuple[Legacy, np.ndarray]:
        """What a node has inherited, and its tracker's surplus, in the epoch that is the truth."""
        assert self.now is not None
        if node.epoch == self.now.epoch:
            return node.inherited, node.z - node.g
        preparation = node._preparation
        alive = self._is_alive(node.ident)
        ready = preparation is not None and (node.state is State.READY or not alive)
        if not ready or preparation.arrange.epoch != self.now.epoch:
            raise Violation(f"{node!r} has not prepared epoch {self.now.epoch}, which has begun")
        if node.epoch == 0 or preparation.arrange.restart:
            return preparation.inherited, np.zeros_like(node.z)
        return preparation.inherited, node.z - node.g + preparation.surplus

    def _view(self, ident: int) -> tuple[int, ...]:
        node = self.bodies.get(ident)
        if node is None:  # it died before anybody met it
            return self.known.get(ident, ())
        if not self._is_alive(ident) and not self._takes_part(node):
            return self.known.get(ident, ())
        inherited, _ = self._virtual(node)
        arrange = node._present if node.epoch == self.now.epoch else node._preparation.arrange
        self.weights[ident] = dict(zip(arrange.neighbours, arrange.weights, strict=True))
        self.keepers[ident] = arrange.buddies
        self._check_hosts(ident, arrange.buddies)
        self.known[ident] = tuple(inherited.lineage)
        if any(share != 1 for share in inherited.lineage.values()):
            raise Violation(f"node {ident} remembers somebody more than once: {inherited.lineage}")
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

        An edge whose ends are one round apart carries w z of the one ahead, not yet received, and
        has already given w z of the one behind.
        """
        assert self.now is not None
        nodes = {ident: self.world.nodes[ident] for ident in self.now.members}
        total, scale = 0.0, 1.0
        for ident, node in nodes.items():
            _, surplus = self._virtual(node)
            total = total + surplus
            scale += float(np.abs(node.z).sum() + np.abs(node.g).sum())
            if node.epoch != self.now.epoch:
                continue
            for other, weight in self.weights[ident].items():
                peer = nodes[other]
                behind = peer.round if peer.epoch == self.now.epoch else self.now.round
                if node.round == behind + 1:
                    ahead_z = self.trackers[ident][behind]
                    total = total + weight * (ahead_z - peer.z)
                elif node.round > behind + 1:
                    raise Violation(f"nodes {ident} and {other} are {node.round - behind} apart")
        self.cuts += 1
        gap = float(np.abs(total).max())
        if not gap <= 1e-9 * scale:
            raise Violation(f"the invariant is broken by {gap:.3g} in epoch {self.now.epoch}")
