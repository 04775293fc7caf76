"""A run that has been validated: what ``prepare`` makes and engines carry out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import frozen
from bequest.model.hindsight import Hindsight
from bequest.model.wills import Estate, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.anchors import Prediction
    from bequest.core.arrays import Matrix, Vector
    from bequest.core.bounds import Pilot
    from bequest.core.history import EpochPath
    from bequest.core.methods import Method
    from bequest.core.topology import Network
    from bequest.model.events import Changes
    from bequest.model.graph import Graph
    from bequest.model.optima import Optima
    from bequest.model.problem import Problem
    from bequest.model.wills import Will

# Looking for a good pace may take this part of the gradients of the run, and so many per node at
# most: a long run, too, begins at once.
_FRACTION, _MOST_GRADIENTS = 0.1, 300


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a run takes place: enough to draw it, and nothing that any node would not tell.

    Attributes:
        nodes: how many there are, with those that are not there yet.
        edges: which nodes talk to each other, if all of them are there.
        absent: the nodes that are not there at the start, ascending.
        method: how nodes iterate.
        wills: the titles of their wills, each once.
    """

    nodes: int
    edges: tuple[tuple[int, int], ...]
    absent: tuple[int, ...]
    method: str
    wills: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Plan:
    """A run that has been validated; an engine need not check anything again.

    Attributes:
        problem: the losses of all nodes.
        graph: which nodes talk to each other, if all of them are there.
        schedule: round -> what happens at its end.
        wills: node -> its will; every node that leaves in good order has one.
        rounds: how many.
        method: how nodes iterate.
        start: one row per node.
        pilot: for the wills that need one.
        buddies: how many other nodes keep a node's checkpoints.
        recall: whether a node of which there is no checkpoint may be remembered by what the others
            lack.
        statistics: whether statistics of samples may leave a node.
        checkpoint_every: rounds between two checkpoints; None for no checkpoints.
        absent: the nodes that are not there at the start.
        known: node that joins or returns -> the nodes it would talk to, ascending.
        counted: round -> the nodes whose losses make up the target from its end on; 0 for the
            start.
        optima: likewise -> x*, to measure the error against; computed when first asked for.
    """

    problem: Problem
    graph: Graph
    schedule: Mapping[int, Changes]
    wills: Mapping[int, Will]
    rounds: int
    method: Method
    start: Matrix
    pilot: Pilot | None
    buddies: int
    recall: bool
    checkpoint_every: int | None
    absent: frozenset[int]
    known: Mapping[int, tuple[int, ...]]
    counted: Mapping[int, frozenset[int]]
    optima: Optima
    statistics: bool = True

    @property
    def leavers(self) -> list[int]:
        """The nodes that are planned to leave or crash, ascending."""
        gone = (node for now in self.schedule.values() for node in (*now.crashes, *now.departures))
        return sorted(set(gone))

    def network(self) -> Network:
        """Return each node's neighbours at the start, as a mapping that the caller may change."""
        network = self.graph.network()
        for node in self.absent:
            for other in network.pop(node):
                if other in network:
                    network[other].discard(node)
        return network

    @property
    def scene(self) -> Scene:
        """Where it takes place, for records and pictures."""
        return Scene(
            nodes=self.problem.n,
            edges=tuple((int(one), int(other)) for one, other in self.graph.edges),
            absent=tuple(sorted(self.absent)),
            method=self.method.label,
            wills=tuple(sorted({will.title for will in self.wills.values()})),
        )

    @cached_property
    def modulus(self) -> float:
        """The least curvature of the mean loss of the first members, where they start."""
        if self.method.given is not None:
            return 0.0
        nodes = np.array(sorted(self.network()))
        losses = self.problem.among(nodes)
        return losses.smallest_mean_curvature(
            self.start[nodes].mean(axis=0), gradients=min(_FRACTION * self.rounds, _MOST_GRADIENTS)
        )

    @cached_property
    def shared_floor(self) -> float:
        """The least curvature of the mean of the first members' matrices, where their method asks.

        Of directions in which any of them has something to do.
        """
        nodes = np.array(sorted(self.network()))
        losses = self.problem.among(nodes)
        if self.method.given is not None or not self.method.wants_matrix or losses.away:
            return 0.0
        return losses.smallest_mean_bound(self.start[nodes])

    def lacks_pilot(self, will: Will) -> bool:
        """Return whether this will needs a pilot, and there is none."""
        return self.pilot is None and will.needs_pilot_in(self.problem.regime)

    def may_recall(self, node: int) -> bool:
        """Return whether this node may be remembered though it left nothing."""
        will = self.wills.get(node)
        return self.recall and will is not None and not will.forgets

    def hindsight(self, target: int) -> Hindsight:
        """Return the judge of decisions that are taken while x* is that of round ``target``."""
        return Hindsight(self.problem, self.counted[target], self.optima, target)

    def setting(self, node: int, will: Will | None, *, pace: float, target: int) -> Setting:
        """Return what a node knows of the run, as far as its will, if there is one, may know it.

        ``target`` is the round after which the target was last changed.
        """
        return Setting(
            n=self.problem.n,
            mu=self.problem.mu,
            kappa=self.problem.kappa,
            step=self.method.own_step(pace, float(self.problem.b[node])),
            pilot=self.pilot if will is not None and will.needs_pilot else None,
            optimum=self.optima.at(target) if will is not None and will.needs_oracle else None,
            statistics=self.statistics,
        )

    def estate(
        self,
        node: int,
        *,
        round: int,  # noqa: A002 - the word for it, everywhere
        remaining: int,
        x: Vector,
        z: Vector,
        pace: float,
        target: int,
        recent: EpochPath | None = None,
        carried: Prediction | None = None,
    ) -> Estate:
        """Return what a node with a will has when it decides, as far as the will may know it."""
        will = self.wills[node]
        return Estate(
            node=node,
            round=round,
            remaining=remaining,
            objective=self.problem.objective(node).convexified,
            x=frozen(x),
            z=frozen(z),
            start=frozen(self.start[node]),
            setting=self.setting(node, will, pace=pace, target=target),
            recent=recent,
            carried=carried,
            by_gradients=will.by_gradients,
        )
