"""The nodes that are there and what they remember, and how that changes after a round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from bequest.core import recall, rounds, topology
from bequest.core.farewell import Farewell
from bequest.core.history import EpochPath
from bequest.core.legacy import Legacy
from bequest.core.recall import Balance
from bequest.engines.vector.checkpoints import Checkpoints
from bequest.engines.vector.path_history import PathHistories
from bequest.engines.vector.row_by_row import Sampling
from bequest.model.outcome import ChangeRecord, DepartureRecord
from bequest.model.pseudo_samples import evaluated
from bequest.model.wills import Bequest, decision, keeps_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.arrays import Matrix, Tensor, Vector
    from bequest.model.plan import Plan
    from bequest.model.wills import Estate


class Membership:
    """The nodes that are there, as rows of arrays: row j belongs to ``nodes[j]``."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.network = plan.network()
        self.legacies: dict[int, Legacy] = {}
        self.lost: set[int] = set()
        self.records: list[DepartureRecord] = []
        self.changes: list[ChangeRecord] = []
        self.histories = PathHistories(plan)
        self.target = 0  # after which round what is aimed at was last changed
        self.nodes = np.array(sorted(self.network))
        self.X: Matrix = plan.start[self.nodes]
        self.G: Matrix = np.empty_like(self.X)
        self.Z: Matrix = np.empty_like(self.X)
        # the gradients that rounds use, where these are not the same every time
        self.sampling = Sampling(plan.problem) if plan.problem.is_stochastic else None
        self._checkpoints = Checkpoints(plan)
        self._hindsight = plan.hindsight(0)
        self._bequeathed: dict[int, Legacy | None] = {}  # by every node that left, the last time
        # of the membership change under way
        self._rows: dict[int, int] = {}
        self._trackers = self.Z
        self._heirs: set[int] = set()
        # node that has just come in -> how many others were there then
        self._newcomers = dict.fromkeys(self.nodes.tolist(), len(self.network) - 1)

    # --- checkpoints ----------------------------------------------------------------------

    def checkpoints_due(self, t: int, stop: int) -> Mapping[int, set[int]]:
        """Return round -> the nodes whose checkpoint is needed after it, for rounds t+1..stop."""
        return self._checkpoints.due(t, stop)

    def keep_checkpoints(self, first: int, X: Tensor, Z: Tensor, *, pace: float) -> None:
        """Keep the checkpoints that are due in consecutive rounds, from ``first`` on."""
        for t, nodes in self._checkpoints.due(first - 1, first - 1 + len(X)).items():
            for node in nodes:
                row, others = int(np.searchsorted(self.nodes, node)), len(self.network) - 1
                x, z = X[t - first, row], Z[t - first, row]
                self._checkpoint(node, t, others, x, z, pace=pace)

    def welcome(self, t: int, *, pace: float) -> None:
        """Keep the first checkpoint of nodes that have just come in, with the pace until then."""
        for node, others in self._newcomers.items():
            if self._checkpoints.are_needed_of(node, t):
                row = int(np.searchsorted(self.nodes, node))
                x, z = self.X[row], self.Z[row]
                self._checkpoint(node, t, others, x, z, pace=pace, newcomer=True)
        self._newcomers = {}

    def _checkpoint_heirs(self, t: int, *, pace: float) -> None:
        """Keep the checkpoint of every node that has inherited, from before it did."""
        for node in sorted(self._heirs & self.network.keys()):
            if self._checkpoints.are_needed_of(node, t):
                x, z = self.X[self._rows[node]], self._trackers[self._rows[node]]
                self._checkpoint(node, t, len(self.network) - 1, x, z, pace=pace)
        self._heirs = set()

    def _checkpoint(
        self,
        node: int,
        t: int,
        others: int,
        x: Vector,
        z: Vector,
        *,
        pace: float,
        newcomer: bool = False,
    ) -> None:
        # A node alone has no others to decide for; there may be some when this is needed.
        estate = self._estate(node, t, max(others, 1), x, z, pace=pace, newcomer=newcomer)
        self._checkpoints.keep(estate)

    def _estate(
        self,
        node: int,
        t: int,
        remaining: int,
        x: Vector,
        z: Vector,
        *,
        pace: float,
        newcomer: bool = False,
    ) -> Estate:
        recent, carried = None, None
        if keeps_path(self.plan.wills[node], self.plan.problem.mu):
            if newcomer:
                recent = EpochPath(x[None].copy(), z[None].copy())
            else:
                recent, carried = self.histories.of(node, t)
        return self.plan.estate(
            node,
            round=t,
            remaining=remaining,
            x=x,
            z=z,
            pace=pace,
            target=self.target,
            recent=recent,
            carried=carried,
        )

    # --- a membership change --------------------------------------------------------------

    def change(self, t: int, *, pace: float) -> None:
        """Carry out the changes at the end of round t."""
        changes = self.plan.schedule[t]
        self._rows = {int(node): row for row, node in enumerate(self.nodes)}
        self._trackers = self.Z.copy()  # before any node hands anything over
        if changes.crashes:
            self._crash(changes.crashes, t)
            self._checkpoint_heirs(t, pace=pace)
        for node in changes.departures:
            self._leave(node, t, changes.departures, pace=pace)
        self._checkpoint_heirs(t, pace=pace)
        for node in changes.forgets:
            self._forget(node, t)
        for node in changes.returns:
            self._return(node, t)
        for node in changes.joins:
            self._join(node, t)
        self.nodes = np.array(sorted(self.network))
        order = [self._rows[node] for node in self.nodes.tolist()]
        self.X, self.Z, self.G = self.X[order], self.Z[order], self.G[order]
        if t in self.plan.counted:
            self.target = t
            self._hindsight = self.plan.hindsight(t)
            self.histories.drop_predictions()

    def _load(self, node: int) -> int:
        return len(self.legacies[node].lineage) if node in self.legacies else 0

    def _inherit(self, heir: int, legacy: Legacy) -> Vector:
        """Let a node remember that, too; return what its gradient gains."""
        if legacy.samples:
            objective = self.plan.problem.objective(heir)
            legacy = legacy.drawn_by(lambda part: evaluated(part, objective))
        row, held = self._rows[heir], self.legacies.get(heir, Legacy.zero(legacy.dim))
        self.legacies[heir] = whole = held + legacy
        # In the order of a real node, which knows what it holds before and after.
        change: Vector = whole.gradient(self.X[row]) - held.gradient(self.X[row])
        self.G[row] += change
        self._heirs.add(heir)
        return change

    def _restart(self) -> None:
        present = [self._rows[node] for node in self.network]
        self.Z[present] = self.G[present]

    # --- leaving in good order ------------------------------------------------------------

    def _leave(self, node: int, t: int, leaving: tuple[int, ...], *, pace: float) -> None:
        row, dim = self._rows[node], self.plan.problem.dim
        will = self.plan.wills[node]
        remaining = len(self.network) - 1
        estate = self._estate(node, t, remaining, self.X[row], self._trackers[row], pace=pace)
        bequest = decision(will, estate)
        heir = topology.choose_heir(self.network, node, leaving=leaving, load=self._load)
        bridges = topology.remove(self.network, node, hub=heir)
        inherited = self.legacies.pop(node, Legacy.zero(dim))
        lost = {node} if bequest.legacy is None else set()
        if bequest.restart:  # the classic way loses what was inherited, too
            lost |= set(inherited.lineage)
            inherited = Legacy.zero(dim)
        self.lost |= lost
        self._bequeathed[node] = bequest.legacy
        whole = bequest.compose(inherited, estate.x)
        sent = self.hand_over(node, heir, t, whole, bequest)
        self.records.append(
            DepartureRecord.of_farewell(
                node,
                t,
                bequest,
                self._hindsight,
                will=will.title,
                heir=None if bequest.restart else heir,
                sent=sent,
                x=estate.x,
                passed_on=tuple(inherited.lineage),
                blur=_blur(bequest, inherited, whole),
                lost=tuple(sorted(lost)),
                bridges=tuple(bridges),
            )
        )

    def hand_over(
        self, node: int, heir: int, t: int, legacy: Legacy, bequest: Bequest
    ) -> tuple[float, int]:
        """Carry out a bequest; return the vectors and bytes that travelled."""
        i, a = self._rows[node], self._rows[heir]
        if bequest.restart:
            self._restart()
            return 0.0, 0
        farewell = Farewell(node, t, legacy, rounds.surplus(self.Z[i], self.G[i]))
        push = farewell.surplus
        if not legacy.is_zero:
            push = push + self._inherit(heir, legacy)
        self.Z[a] += push
        return farewell.vectors, farewell.nbytes

    # --- crashing -------------------------------------------------------------------------

    def _crash(self, crashed: tuple[int, ...], t: int) -> None:
        """Let these nodes die, all at once; one node takes over what they had in surplus.

        A checkpoint holds no surplus, and an old one would break the invariant for good. What the
        lost had is what is missing in the sum of all others.
        """
        adopters = {node: self._adopter(node, crashed) for node in crashed}
        hubs = [self._die(node, t, crashed, adopters[node]) for node in crashed]
        found = [node for node in adopters.values() if node is not None]
        present = [self._rows[node] for node in self.network]
        # What a node adopts has changed its gradient, and not its tracker.
        self.Z[self._rows[(found or hubs)[0]]] -= (self.Z[present] - self.G[present]).sum(axis=0)

    def _recalled(self, node: int, *, alone: bool) -> Bequest:
        """Return what the others hold of the one node that is lost, if they can tell."""
        why = _why_lost(self.plan)
        if not self.plan.may_recall(node):
            return Bequest("none", why)
        if not alone:
            return Bequest("none", f"{why}, {recall.MINGLED}")
        others = [other for other in self.network if other != node]
        rows = [self._rows[other] for other in others]
        balance = Balance(
            (self.Z[rows] - self.G[rows]).sum(axis=0),
            float(np.linalg.norm(self.Z[rows], axis=1).sum()),
            float(np.linalg.norm(self.G[rows], axis=1).sum()),
            sum(map(self._strength, self.network.keys() - {node})),
            len(rows),
            float(np.linalg.norm(self.X[rows] - self.plan.start[others], axis=1).sum()),
        )
        if not balance.is_trusted:
            return Bequest("none", f"{why}, {recall.DOUBTED}")
        return Bequest("recall", f"{why}, {recall.TRUSTED}", balance.recall(node))

    def _strength(self, node: int) -> float:
        """Return the least curvature of what a node minimises."""
        own = float(self.plan.problem.a[node])
        return own + self.legacies[node].curvature[0] if node in self.legacies else own

    def _adopter(self, node: int, crashed: tuple[int, ...]) -> int | None:
        """Return the first of its buddies that is still there, if there are checkpoints at all."""
        if self.plan.checkpoint_every is None:
            return None
        buddies = topology.choose_buddies(self.network, node, count=self.plan.buddies)
        return next((buddy for buddy in buddies if buddy not in crashed), None)

    def _die(self, node: int, t: int, crashed: tuple[int, ...], adopter: int | None) -> int:
        """Let a node die; return the node that the others close ranks around."""
        dim, will = self.plan.problem.dim, self.plan.wills.get(node)
        inherited = self.legacies.pop(node, Legacy.zero(dim))
        lost: set[int] = set()
        checkpoint = None
        if adopter is None:
            # The memories of several nodes that are lost at once cannot be told apart.
            alone = len(crashed) == 1 and inherited.is_zero
            bequest = self._recalled(node, alone=alone)
            lost, inherited = set(inherited.lineage), Legacy.zero(dim)
        elif will is None:
            bequest = Bequest("none", "it had no will")
        else:
            estate = self._checkpoints.of(node)
            bequest, checkpoint = decision(will, estate), estate.round
        if bequest.legacy is None:
            lost |= {node}
        self.lost |= lost
        self._bequeathed[node] = bequest.legacy
        own = Legacy.zero(dim) if bequest.legacy is None else bequest.legacy
        hub = adopter
        if hub is None:
            near = [other for other in self.network[node] if other not in crashed]
            hub = min(near or (other for other in self.network if other not in crashed))
        bridges = topology.remove(self.network, node, hub=hub)
        whole = own + inherited
        if not whole.is_zero:
            self._inherit(hub, whole)
        self.records.append(
            DepartureRecord.of_crash(
                node,
                t,
                bequest,
                self._hindsight,
                will="none" if will is None else will.title,
                adopter=hub,
                own=own,
                inherited=inherited,
                x=self.X[self._rows[node]].copy(),
                lost=tuple(sorted(lost)),
                bridges=tuple(bridges),
                checkpoint=checkpoint,
            )
        )
        return hub

    # --- returning, joining, being forgotten ----------------------------------------------

    def _forget(self, node: int, t: int) -> None:
        if self.sampling is not None:
            self.sampling.begin(node)  # a process comes for it, and goes again
        holder, exact = self._withdraw(node)
        self._record("forget", node, t, holder=holder, exact=exact)

    def _return(self, node: int, t: int) -> None:
        holder, exact = self._withdraw(node)
        neighbours = self._neighbours(node, holder)
        sponsor = neighbours[0] if holder is None else holder
        self._come_in(node, t, neighbours, sponsor)
        part = self._bequeathed.get(node)
        if holder is not None and part is not None:
            # Its gradient goes over, and the holder's tracker stays as it is.
            slope = part.gradient(self.X[self._rows[holder]])
            self.Z[self._rows[holder]] += slope
            self.Z[self._rows[node]] -= slope
        self._record("return", node, t, holder, sponsor, neighbours, exact=exact)

    def _join(self, node: int, t: int) -> None:
        neighbours = self._neighbours(node, None)
        self._come_in(node, t, neighbours, neighbours[0])
        self._record("join", node, t, None, neighbours[0], neighbours)

    def _record(
        self,
        kind: Literal["return", "join", "forget"],
        node: int,
        t: int,
        holder: int | None = None,
        sponsor: int | None = None,
        neighbours: tuple[int, ...] = (),
        *,
        exact: bool = True,
    ) -> None:
        self.changes.append(
            ChangeRecord.of(
                kind,
                node,
                t,
                holder=holder,
                sponsor=sponsor,
                neighbours=neighbours,
                exact=exact,
            )
        )

    def _withdraw(self, node: int) -> tuple[int | None, bool]:
        """Take a node's memory out of its holder; return the holder, and whether it was exact."""
        self.lost.discard(node)
        holder = next((one for one, q in self.legacies.items() if node in q.lineage), None)
        if holder is None:
            return None, True
        part, held = self._bequeathed[node], self.legacies.pop(holder)
        assert part is not None  # noqa: S101 - a node remembers it
        row = self._rows[holder]
        rest = held.without(part, at=self.X[row])
        change = rest.gradient(self.X[row]) - held.gradient(self.X[row])
        self.Z[row] += change
        self.G[row] += change
        if not rest.is_zero:
            self.legacies[holder] = rest
        return holder, node not in held.blended

    def _neighbours(self, node: int, holder: int | None) -> tuple[int, ...]:
        """Return a newcomer's neighbours: the nodes it knows that are there, or else any one."""
        there = tuple(other for other in self.plan.known[node] if other in self.network)
        return there or (min(self.network) if holder is None else holder,)

    def _come_in(self, node: int, t: int, neighbours: tuple[int, ...], sponsor: int) -> None:
        x = self.X[self._rows[sponsor]]
        if self.sampling is None:
            gradient = self.plan.problem.objective(node).gradient(x)
        else:
            gradient = self.sampling.enter(node, x, t)
        self._rows[node] = len(self.X)
        self.X = np.vstack([self.X, x])
        self.Z, self.G = np.vstack([self.Z, gradient]), np.vstack([self.G, gradient])
        self.network[node] = set(neighbours)
        for other in neighbours:
            self.network[other].add(node)
        self._newcomers[node] = len(self.network) - 1
        self.histories.start_anew(node)


def _blur(bequest: Bequest, inherited: Legacy, whole: Legacy) -> Legacy | None:
    """Return what compressing the message changed: zero at the anchor, and None if nothing."""
    lossless = inherited if bequest.legacy is None else bequest.legacy + inherited
    return None if whole.rank == lossless.rank else whole - lossless


def _why_lost(plan: Plan) -> str:
    if plan.checkpoint_every is None:
        return "no node makes checkpoints"
    return "its buddies crashed with it" if plan.buddies else "no node keeps checkpoints"
