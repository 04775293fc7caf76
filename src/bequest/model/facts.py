"""The numbers that bounds are made of, and the premises that theorems have, read off a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import norm
from bequest.core.certificates import Premise
from bequest.core.legacy import Legacy
from bequest.model.evidence import Evidence

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.model.problem import Ensemble
    from bequest.model.run import DepartureRecord, Run

# x* is believed if the gradients there cancel to this share of what they could be.
_CANCELLED = 1e-8
# What the survivors hold is what was sent, but for this share of its terms: rounding, as sums of
# many legacies are merged.
_MERGED = 1e-10


@dataclass(frozen=True)
class Facts:
    """The numbers that the bounds are made of."""

    run: Run

    @cached_property
    def records(self) -> list[DepartureRecord]:
        """How everybody went who is gone and still counts, the last time; in order."""
        latest = {record.node: record for record in self.run.departures}
        forgotten = {
            change.node
            for change in self.run.changes
            if change.kind == "forget" and change.round > latest[change.node].round
        }
        still = set(latest).difference(self.run.survivors, forgotten)
        return [r for r in self.run.departures if r.node in still and r is latest[r.node]]

    @cached_property
    def counted(self) -> Ensemble:
        """Everybody whose loss is in the sum that is aimed at in the end."""
        gone = (record.node for record in self.records)
        return self.run.problem.among({*self.run.survivors, *gone})

    def value(self, x: Vector) -> float:
        """Return that sum at x."""
        return float(self.counted.values(np.broadcast_to(x, (self.counted.size, x.size))).sum())

    @cached_property
    def evidence(self) -> list[Evidence]:
        """What they left, in the same order."""
        objective, held = self.run.problem.objective, self.remembered
        return [
            Evidence(r, objective(r.node), r.node in held and r.legacy is not None)
            for r in self.records
        ]

    @cached_property
    def remembered(self) -> set[int]:
        """Who is in what a survivor holds."""
        return {node for q in self.run.inherited.values() for node in q.lineage}

    @cached_property
    def anchored(self) -> list[Evidence]:
        """The departures that left a legacy of the paper's kind, still remembered."""
        return [one for one in self.evidence if one.is_anchored]

    @cached_property
    def points(self) -> list[Evidence]:
        """The departures that left a point-only legacy, and no better one, still remembered."""
        return [one for one in self.evidence if one.is_point_only and not one.is_anchored]

    @cached_property
    def blurs(self) -> list[Legacy]:
        """What compressing messages changed, as far as it is still remembered."""
        return [
            record.blur
            for record in self.run.departures
            if record.blur is not None
            and not self.remembered.isdisjoint({record.node, *record.passed_on})
        ]

    @cached_property
    def optimum(self) -> Vector:
        """x*; in regime (C) the minimiser closest to the last anchor (prop:certC).

        Computed, also if the run was told what it is: that is no evidence.
        """
        problem, told = self.run.problem, self.run.targets.given
        if problem.regime == "SC" or not self.anchored:
            if told is not None:
                return self.counted.minimiser(Legacy.zero(problem.dim), start=told)
            return self.run.optimum
        last = self.anchored[-1].anchor
        return self.counted.minimiser(Legacy.zero(problem.dim), start=last)

    @cached_property
    def scale(self) -> float:
        """How large the numbers are that distances to x* are differences of."""
        return 1.0 + norm(self.optimum)

    @cached_property
    def pulls(self) -> dict[int, float]:
        """zeta_i = |grad f_i(x*)| of every node that is gone."""
        return {one.node: norm(one.loss.gradient(self.optimum)) for one in self.evidence}

    @cached_property
    def bias(self) -> float:
        """|limit - x*|."""
        return norm(self.run.limit - self.optimum)

    @cached_property
    def strength(self) -> float:
        """The certified curvature of what the survivors minimise."""
        return self.survivors_strength + sum(q.curvature[0] for q in self.run.inherited.values())

    @cached_property
    def survivors_strength(self) -> float:
        """The certified curvature of the survivors' own losses."""
        return float(self.run.problem.a[list(self.run.survivors)].sum())

    @cached_property
    def targets(self) -> list[Vector]:
        """x*_0, x*_1, ...: the minimiser of the running objective after each departure."""
        problem = self.run.problem
        alive = set(range(problem.n))
        memories: dict[int, Legacy] = {}
        targets = [self.optimum]
        for record in self.records:
            alive.discard(record.node)
            if record.legacy is not None:
                memories[record.node] = record.legacy
            for node in record.lost:
                memories.pop(node, None)
            memory = sum(memories.values(), Legacy.zero(problem.dim))
            targets.append(problem.among(alive).minimiser(memory, start=targets[-1]))
        return targets

    @cached_property
    def beta(self) -> float:
        """(kappa - 1)/(2n): how far a departure moves the target, per distance of its anchor."""
        problem = self.run.problem
        return (problem.kappa - 1) / (2 * problem.n)

    @cached_property
    def spread(self) -> float:
        """The radius of a ball around x* that holds every node's own minimiser (rem:hr)."""
        problem, nothing = self.run.problem, Legacy.zero(self.run.problem.dim)
        own = [problem.among([node]).minimiser(nothing) for node in range(problem.n)]
        return max(norm(point - self.optimum) for point in own)

    def distance(self, one: Evidence) -> float:
        """|y - x*|."""
        return norm(one.anchor - self.optimum)

    # --- premises ---------------------------------------------------------------------------

    @property
    def sound(self) -> tuple[Premise, ...]:
        """What every theorem takes for granted."""
        return (
            Premise("the run stayed bounded", self.run.status != "diverged"),
            Premise("every curvature is certified", self.run.problem.certified),
            Premise("every hand-off was exact", all(r.exact_handoff for r in self.run.departures)),
            Premise("the gradients cancel at x*", self.is_optimal),
            Premise("what is remembered is what was sent", self.is_accounted_for),
        )

    @cached_property
    def is_optimal(self) -> bool:
        """Whether x* is where the gradients of everybody who counts sum to zero."""
        everybody, size = self.counted, norm(self.optimum)
        slopes = everybody.gradients(np.broadcast_to(self.optimum, (everybody.size, everybody.dim)))
        stiffness = float(self.run.problem.b.sum())
        terms = float(np.linalg.norm(slopes, axis=1).sum()) + stiffness * (1 + size)
        return norm(slopes.sum(axis=0)) <= _CANCELLED * terms

    @cached_property
    def is_accounted_for(self) -> bool:
        """Whether the survivors' memory pulls, at x* and at the limit, as what was sent does."""
        held = list(self.run.inherited.values())
        sent = [one.record.legacy for one in self.evidence if one.remembered]
        parts = [*(q for q in sent if q is not None), *self.blurs]
        for x in (self.optimum, self.run.limit):
            gap = sum((q.gradient(x) for q in held), np.zeros_like(x))
            gap = gap - sum((q.gradient(x) for q in parts), np.zeros_like(x))
            terms = sum(norm(q.product(x)) + norm(q.p) for q in (*held, *parts))
            if not norm(gap) <= _MERGED * terms:
                return False
        return True

    @property
    def graceful(self) -> Premise:
        """What the paper is about."""
        crashed = any(record.crashed for record in self.run.departures)
        return Premise("only graceful departures (as:grace)", not crashed and not self.run.changes)

    @property
    def strongly_convex(self) -> Premise:
        """The regime of thm:main."""
        return Premise("every loss is strongly convex (SC)", self.run.problem.regime == "SC")

    @property
    def all_anchored(self) -> Premise:
        """Whether the paper's legacy is what everybody sent (eq:legacy, lem:center)."""
        return Premise(
            "every leaver left a gradient-anchored legacy with the midpoint curvature",
            len(self.anchored) == len(self.records) and not self.blurs,
        )

    @property
    def small(self) -> Premise:
        """What keeps the compounding of departures below a factor of 2."""
        kbeta = len(self.records) * self.beta if self.records else 0.0
        return Premise(f"k beta = {kbeta:.3g} <= 1/2", kbeta <= 0.5)

    @property
    def one_at_a_time(self) -> Premise:
        """The paper orders departures by their rounds."""
        rounds = [record.round for record in self.records]
        return Premise("one departure per round (as:net)", len(set(rounds)) == len(rounds))
