"""The numbers that bounds are made of, and the premises that theorems have, read off a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import EPSILON, norm
from bequest.core.certificates import ROUNDING, Premise
from bequest.core.legacy import Legacy
from bequest.model.evidence import Evidence

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.model.ensemble import Ensemble
    from bequest.model.outcome import DepartureRecord
    from bequest.model.run import Run

# x* is believed if the gradients there cancel to this share of what they could be.
_CANCELLED = 1e-8
# What the survivors hold is what was sent, but for this share of its terms: rounding, as sums of
# many legacies are merged.
_MERGED = 1e-10
# How many times its relative size rounding may come to, of coarse losses and of legacies.
_ROUNDINGS = 4


@dataclass(frozen=True)
class Facts:
    """The numbers that the bounds are made of, read off a run."""

    run: Run

    @cached_property
    def records(self) -> list[DepartureRecord]:
        """The last departure of every node that is gone and still counts, in order."""
        latest = {record.node: record for record in self.run.departures}
        forgotten = {
            change.node
            for change in self.run.changes
            if change.kind == "forget" and change.round > latest[change.node].round
        }
        # A network that went back to an earlier epoch may remember a node that was forgotten since.
        still = set(latest).difference(self.run.survivors, forgotten - self.remembered)
        return [r for r in self.run.departures if r.node in still and r is latest[r.node]]

    @cached_property
    def counted(self) -> Ensemble:
        """The nodes whose losses make up the target in the end."""
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
        """The nodes that some survivor remembers."""
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
        problem, told = self.run.problem, self.run.plan.optima.given
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
    def slack(self) -> float:
        """How far rounding can put a distance to x*, and what is promised of it, off."""
        exact = ROUNDING * self.scale + self.memory_rounding
        if not self.rounding:
            return exact
        # what is promised moves with x* by this much at most
        stiffness = sum(one.loss.curvature.b for one in self.evidence)
        lever = 2 * stiffness / self.strength if self.strength > 0 else 0.0
        return exact + (2 + lever) * self.rounding

    @cached_property
    def memory_rounding(self) -> float:
        """How far the limit is off as legacies are rounded: those of anchors far out, by more."""
        terms = sum(one.terms for one in self.evidence if one.remembered)
        return _ROUNDINGS * EPSILON * terms / self.strength if self.strength > 0 else 0.0

    @cached_property
    def rounding(self) -> float:
        """How far off x* and the limit may be, as the losses are coarser than float64; else 0.

        Infinite where they do not tell the least curvature at x* from none.
        """
        counted, x = self.counted, self.optimum
        if counted.precision <= EPSILON:
            return 0.0
        slopes = counted.gradients(np.broadcast_to(x, (counted.size, x.size)))
        stiffness = float(self.run.problem.b.sum())
        terms = float(np.linalg.norm(slopes, axis=1).sum()) + stiffness * norm(x)
        left = norm(slopes.sum(axis=0)) + _ROUNDINGS * counted.precision * terms
        strength = sum(one.loss.curvature.a for one in self.evidence) + self.survivors_strength
        if self.strength > 0:
            strength = min(strength, self.strength)
        if strength == 0:
            hessian = counted.total_hessian(x)
            unsure = counted.blur * float(np.abs(hessian).sum())
            strength = float(np.linalg.eigvalsh(hessian)[0]) - unsure
        return left / strength if strength > 0 else np.inf

    @cached_property
    def value_rounding(self) -> float:
        """Likewise how far off the sum of the losses may be at x*."""
        if not self.rounding:
            return 0.0
        X = np.broadcast_to(self.optimum, (self.counted.size, self.optimum.size))
        return _ROUNDINGS * self.counted.precision * float(np.abs(self.counted.values(X)).sum())

    @cached_property
    def pulls(self) -> dict[int, float]:
        """zeta_i = |grad f_i(x*)| of every node that is gone."""
        return {one.node: norm(one.loss.gradient(self.optimum)) for one in self.evidence}

    @cached_property
    def bias(self) -> float:
        """|limit - x*|; NaN if the run diverged."""
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

    @cached_property
    def premises(self) -> Premises:
        """What the theorems require, checked on this run."""
        return Premises(self)

    def distance(self, one: Evidence) -> float:
        """|y - x*|."""
        return norm(one.anchor - self.optimum)


@dataclass(frozen=True)
class Premises:
    """What the theorems require of a run, checked on its facts."""

    facts: Facts

    @property
    def sound(self) -> tuple[Premise, ...]:
        """What every theorem takes for granted."""
        run = self.facts.run
        exact = all(record.exact_handoff for record in run.departures)
        return (
            Premise("the run stayed bounded", self.is_bounded),
            Premise("every curvature is certified", run.problem.certified),
            Premise("every hand-off was exact", exact),
            *self._ends,
            Premise("the gradients cancel at x*", self.is_optimal),
            *self._told,
            Premise("what is remembered is what was sent", self.is_accounted_for),
        )

    @property
    def _ends(self) -> tuple[Premise, ...]:
        """What is worth a word only where it fails: all methods but one get to their limit."""
        method = self.facts.run.plan.method
        if method.is_exact:
            return ()
        return (
            Premise(
                f"the method ends at the minimiser, which {method.label} does not", holds=False
            ),
        )

    @property
    def _told(self) -> tuple[Premise, ...]:
        """What is worth a word only where it fails: losses in float64 always tell."""
        if np.isfinite(self.facts.rounding):
            return ()
        return (Premise("the losses are precise enough to tell where x* is", holds=False),)

    @property
    def is_bounded(self) -> bool:
        """Whether the run did not diverge."""
        return self.facts.run.status != "diverged"

    @cached_property
    def is_optimal(self) -> bool:
        """Whether x* is where the gradients of all nodes that count sum to zero."""
        counted, optimum = self.facts.counted, self.facts.optimum
        slopes = counted.gradients(np.broadcast_to(optimum, (counted.size, counted.dim)))
        stiffness = float(self.facts.run.problem.b.sum())
        terms = float(np.linalg.norm(slopes, axis=1).sum()) + stiffness * (1 + norm(optimum))
        share = max(_CANCELLED, _ROUNDINGS * counted.precision)
        return norm(slopes.sum(axis=0)) <= share * terms

    @cached_property
    def is_accounted_for(self) -> bool:
        """Whether the survivors' memory pulls, at x* and at the limit, as what was sent does."""
        held = list(self.facts.run.inherited.values())
        sent = [one.record.legacy for one in self.facts.evidence if one.remembered]
        parts = [*(q for q in sent if q is not None), *self.facts.blurs]
        for x in (self.facts.optimum, self.facts.run.surrogate_minimiser):
            gap = sum((q.gradient(x) for q in held), np.zeros_like(x))
            gap = gap - sum((q.gradient(x) for q in parts), np.zeros_like(x))
            terms = sum(norm(q.product(x)) + norm(q.p) for q in (*held, *parts))
            if not norm(gap) <= _MERGED * terms:
                return False
        return True

    @property
    def graceful(self) -> Premise:
        """What the paper is about."""
        run = self.facts.run
        crashed = any(record.crashed for record in run.departures)
        return Premise("only graceful departures (as:grace)", not crashed and not run.changes)

    @property
    def strongly_convex(self) -> Premise:
        """The regime of thm:main."""
        return Premise("every loss is strongly convex (SC)", self.facts.run.problem.regime == "SC")

    @property
    def all_anchored(self) -> Premise:
        """Whether every leaver sent the paper's legacy (eq:legacy, lem:center)."""
        return Premise(
            "every leaver left a gradient-anchored legacy with the midpoint curvature",
            len(self.facts.anchored) == len(self.facts.records) and not self.facts.blurs,
        )

    @property
    def small(self) -> Premise:
        """What keeps the compounding of departures below a factor of 2."""
        left = len(self.facts.records)
        kbeta = left * self.facts.beta if left else 0.0
        return Premise(f"k beta = {kbeta:.3g} <= 1/2", kbeta <= 0.5)

    @property
    def one_at_a_time(self) -> Premise:
        """The paper orders departures by their rounds."""
        rounds = [record.round for record in self.facts.records]
        return Premise("one departure per round (as:net)", len(set(rounds)) == len(rounds))
