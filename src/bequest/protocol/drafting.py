"""The next epoch, as far as it is known: its members, and what each of them has to prepare.

A draft is one attempt at one change: it is about lost nodes, about leavers, or about one arrival.
It knows nothing of phases, and nothing in it counts: the steward begins it once all nodes are
ready, or throws it away.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bequest.core import mixing, topology
from bequest.core.methods import Conditions
from bequest.core.methods.base import checked
from bequest.model.graph import epoch_edges
from bequest.protocol import messages as m
from bequest.protocol.events import Adoption, Arrival, Committed, Handover, Send

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from scipy.sparse import csr_array

    from bequest.core.methods import Method
    from bequest.core.steps import StepChoice
    from bequest.core.topology import Domains, Network
    from bequest.protocol.charter import Charter
    from bequest.protocol.events import Effect


@dataclass(eq=False)
class Draft:
    """A change under way.

    Attributes:
        epoch: the number of this attempt, and of the epoch if it succeeds.
        round: after which round it begins.
        network: the members, and which of them will talk to each other.
        lineage: member -> the original nodes that it will remember.
        follows: the number of the epoch before it; 0 for the first.
        restart: whether all trackers begin anew.
        settler: after a loss, the node that makes up for what trackers hold beyond gradients.
        recalls: the lost node that the settler may remember by that.
        leaving: the leavers, in the order in which they write their wills.
        handovers: the leavers that have been asked to, and their heirs.
        silent: the leavers that hand over nothing.
        adoptions: the lost nodes, and the nodes that adopt their checkpoints.
        arrival: the node that comes (back), or asks to be forgotten.
        target_moves: whether the common optimum will be another one.
        forgotten: the original nodes that no node will remember.
        ready: member -> what it says of itself: how curved what it will minimise is.
        buddies: member -> the nodes that will keep its checkpoints.
        waiting: the nodes that are not ready yet.
    """

    epoch: int
    round: int
    network: Network
    lineage: dict[int, tuple[int, ...]] = field(default_factory=dict)
    follows: int = 0
    restart: bool = False
    settler: int | None = None
    recalls: int | None = None
    leaving: list[int] = field(default_factory=list)
    handovers: list[Handover] = field(default_factory=list)
    silent: set[int] = field(default_factory=set)
    adoptions: list[Adoption] = field(default_factory=list)
    arrival: Arrival | None = None
    target_moves: bool = False
    forgotten: set[int] = field(default_factory=set)
    ready: dict[int, m.Ready] = field(default_factory=dict)
    buddies: dict[int, tuple[int, ...]] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)

    # --- losses -------------------------------------------------------------------------------

    def lose(
        self,
        dead: set[int],
        reports: Mapping[int, m.Halted],
        buddies: Mapping[int, tuple[int, ...]],
        recallable: Collection[int],
    ) -> None:
        """Close ranks around the lost; the holder of the latest checkpoint of each adopts it.

        The first adopter, or else the node that the others close ranks around, takes over what the
        lost had in surplus: minus the sum of all surpluses that are left. Of a single lost node
        without a checkpoint, and with nothing inherited, that sum may be a memory.
        """
        hubs: list[int] = []
        for node in sorted(dead):
            holder = _freshest(node, reports, buddies.get(node, ()))
            alive = self.network.keys() - dead
            near = sorted(self.network[node] & alive) or sorted(alive)
            hub = holder if holder is not None else near[0]
            hubs.append(hub)
            bridges = topology.remove(self.network, node, hub=hub)
            # What the holder remembers of these will be known when it is ready.
            inside = (node, *self.lineage.pop(node, ()))
            if holder is None and dead == {node} == {*inside} and node in recallable:
                self.recalls, holder = node, hub
            self.adoptions.append(Adoption(node, holder, inside, tuple(bridges)))
        self.settler = next((a.adopter for a in self.adoptions if a.adopter is not None), hubs[0])
        self._mend()

    def _mend(self) -> None:
        """Connect what the lost held together by edges that a new steward has not heard of."""
        first, *others = (min(part) for part in topology.components(self.network))
        for other in others:
            self.network[first].add(other)
            self.network[other].add(first)
            last = self.adoptions[-1]
            self.adoptions[-1] = replace(last, bridges=(*last.bridges, (first, other)))

    def without(self, node: int, epoch: int) -> Draft:
        """Return another attempt at founding, without a node that has not even begun."""
        bridges = topology.remove(self.network, node, hub=min(self.network[node]))
        given_up = Adoption(node, None, (node,), tuple(bridges))
        return Draft(
            epoch,
            0,
            self.network,
            adoptions=[*self.adoptions, given_up],
            forgotten={*self.forgotten, node},
        )

    def count_lost(self) -> None:
        """Note what is lost with the lost, now that their adopters have said what they have."""
        for index, adoption in enumerate(self.adoptions):
            kept = () if adoption.adopter is None else self.lineage[adoption.adopter]
            gone = tuple(sorted(set(adoption.lost) - set(kept)))
            self.adoptions[index] = replace(adoption, lost=gone)
            self.forgotten |= set(gone)

    def may_remember(self, node: int) -> set[int]:
        """Return the original nodes that can be in what a node will have inherited."""
        adopted = (a.lost for a in self.adoptions if a.adopter == node)
        return set(self.lineage.get(node, ())).union(*adopted)

    # --- leavers ------------------------------------------------------------------------------

    def ask_next_leaver(self, *, domains: Domains, incarnation: Callable[[int], int]) -> Send:
        """Choose the next leaver's heir, and let it write its will."""
        leaver = self.leaving[len(self.handovers)]
        heir = topology.choose_heir(
            self.network,
            leaver,
            leaving=self.leaving,
            load=lambda node: len(self.lineage[node]),
            domains=domains,
        )
        remaining = len(self.network) - 1
        bridges = topology.remove(self.network, leaver, hub=heir)
        self.handovers.append(Handover(leaver, heir, tuple(bridges)))
        self.waiting = {leaver}
        arrange = m.Arrange(
            self.epoch,
            self.round,
            self.restart,
            remaining,
            heir=heir,
            remaining=remaining,
            farewells=self._farewells_to(leaver),
            incarnation=incarnation(leaver),
        )
        return Send((leaver,), arrange)

    def note_will(self, ready: m.Ready) -> None:
        """Note what the latest leaver's will decided: the next one's heir depends on it."""
        handover = self.handovers[-1]
        inside = {handover.node, *self.lineage.pop(handover.node)} - set(ready.forgets)
        self.forgotten |= set(ready.forgets)
        if ready.restart:
            self.restart = True
            self.silent.add(handover.node)
        else:
            merged = {*self.lineage[handover.heir], *inside}
            self.lineage[handover.heir] = tuple(sorted(merged))

    def may_forget(self, node: int) -> set[int]:
        """Return the original nodes that a node's will can forget; none unless it leaves now."""
        leaves = bool(self.handovers) and self.handovers[-1].node == node
        return {node, *self.lineage[node]} if leaves else set()

    def _farewells_to(self, node: int) -> tuple[int, ...]:
        return tuple(h.node for h in self.handovers if h.heir == node and h.node not in self.silent)

    # --- arrivals -----------------------------------------------------------------------------

    def admit(self, node: int, request: m.Request, lost: Collection[int]) -> None:
        """Let a node in, or forget it, and have it taken out of the memory that holds it."""
        holder = next((h for h, inside in self.lineage.items() if node in inside), None)
        if request.purpose == "forget":
            self.arrival = Arrival("forget", node, holder, None, ())
            self.target_moves = True
            return
        near = tuple(sorted(set(request.known) & self.network.keys()))
        if not near:
            near = (holder if holder is not None else min(self.network),)
        sponsor = holder if holder is not None else near[0]
        self.target_moves = request.purpose == "join" or (holder is None and node not in lost)
        self.network[node] = set(near)
        for other in near:
            self.network[other].add(node)
        self.lineage[node] = ()
        self.arrival = Arrival(request.purpose, node, holder, sponsor, near)

    def is_about(self, node: int) -> bool:
        """Whether the draft is about an arrival, and this is the node that comes."""
        return self.arrival is not None and self.arrival.node == node

    # --- all members --------------------------------------------------------------------------

    def arrange(
        self,
        *,
        buddies: int,
        leaving: Collection[int],
        domains: Domains,
        incarnation: Callable[[int], int],
    ) -> list[Effect]:
        """Tell the members of the next epoch, and a claimant, what to prepare.

        Args:
            buddies: how many nodes keep a node's checkpoints.
            leaving: the nodes that want to leave, and have to wait until this change is over.
            domains: node -> what it can fail together with, the smallest first.
            incarnation: node -> the incarnation that the order is for.
        """
        nodes, edges = epoch_edges(self.network)
        weights = _entries(mixing.metropolis(edges, nodes.size))
        row = {int(node): k for k, node in enumerate(nodes)}
        places = {node: domains(node) for node in self.network}
        self.buddies = {
            node: topology.choose_buddies(
                self.network, node, count=buddies, domains=places.__getitem__
            )
            for node in self.network
        }
        wards: dict[int, list[int]] = {node: [] for node in self.network}
        for node, keepers in sorted(self.buddies.items()):
            for keeper in keepers:
                wards[keeper].append(node)
        arrival = self.arrival
        returns = arrival is not None and arrival.purpose == "return"
        tree = {} if self.settler is None else topology.tree(self.network, self.settler)
        effects: list[Effect] = []
        for node in sorted(self.network):
            near = tuple(sorted(self.network[node]))
            comes = arrival is not None and arrival.node == node
            holds = arrival is not None and arrival.holder == node
            arrange = m.Arrange(
                self.epoch,
                self.round,
                self.restart,
                len(self.network),
                near,
                tuple(weights[row[node], row[other]] for other in near),
                self.buddies[node],
                tuple(wards[node]),
                farewells=self._farewells_to(node),
                adopted=tuple(
                    a.node for a in self.adoptions if a.adopter == node and a.node != self.recalls
                ),
                claim=arrival.holder if arrival is not None and comes else None,
                claimant=arrival.node if arrival is not None and holds else None,
                newcomer=arrival.node if arrival is not None and arrival.sponsor == node else None,
                sponsor=arrival.sponsor if arrival is not None and comes else None,
                target_moves=self.target_moves,
                stays=node in leaving,
                incarnation=incarnation(node),
                gives_back=returns and (comes or holds),
                sums_from=tuple(k for k, above in tree.items() if above == node) if tree else None,
                sums_to=tree.get(node),
                recalls=self.recalls if node == self.settler else None,
            )
            effects.append(Send((node,), arrange))
        self.waiting = set(self.network)
        if arrival is not None and arrival.purpose == "forget":
            claim = m.Arrange(
                self.epoch,
                self.round,
                self.restart,
                len(self.network),
                claim=arrival.holder,
                incarnation=incarnation(arrival.node),
            )
            self.waiting.add(arrival.node)
            effects.append(Send((arrival.node,), claim))
        return effects

    def next_pace(self, method: Method, pace: float, charter: Charter) -> StepChoice | None:
        """Return another pace if the members, and what they will carry, call for it."""
        nodes, edges = epoch_edges(self.network)
        strength, stiffness, floor = (
            {node: getattr(ready, what) for node, ready in self.ready.items()}
            for what in ("strength", "stiffness", "floor")
        )
        weights = mixing.metropolis(edges, nodes.size)
        conditions = Conditions(
            strength, stiffness, floor, weights, charter.modulus, charter.shared_floor
        )
        chosen = method.next_pace(pace, conditions, since=self.round)
        return None if chosen is None else checked(method, chosen)

    def committed(
        self,
        step: StepChoice | None,
        lost: tuple[int, ...],
        incarnation: Callable[[int], int],
    ) -> Committed:
        """Return the record of it, once it counts."""
        members = tuple(sorted(self.network))
        return Committed(
            self.epoch,
            self.round,
            self.restart,
            members,
            tuple(self.handovers),
            tuple(self.adoptions),
            self.arrival,
            step,
            lost,
            tuple(map(incarnation, members)),
            self.follows,
        )


def _freshest(node: int, reports: Mapping[int, m.Halted], buddies: tuple[int, ...]) -> int | None:
    """Return the node that holds the latest checkpoint of a lost node, if one does."""
    held = {
        keeper: round_
        for keeper, report in reports.items()
        for ward, round_, _ in report.wards
        if ward == node
    }

    def preference(keeper: int) -> tuple[int, int, int]:
        place = buddies.index(keeper) if keeper in buddies else len(buddies)
        return -held[keeper], place, keeper

    return min(held, key=preference, default=None)


def _entries(weights: csr_array) -> dict[tuple[int, int], float]:
    """Return what is not zero, by row and column: to look one up in a sparse array is slow."""
    entries = weights.tocoo()
    places = zip(entries.row.tolist(), entries.col.tolist(), strict=True)
    return dict(zip(places, entries.data.tolist(), strict=True))
