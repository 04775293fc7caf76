"""Reading off a finished run what the theorems promise about it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import certificates as promise
from bequest.core.arrays import norm
from bequest.core.certificates import Bound, Certificate, Premise
from bequest.core.legacy import Legacy

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.model.problem import Ensemble
    from bequest.model.run import DepartureRecord, Run


def certify(run: Run) -> Certificate:
    """Return every bound of the theory, with its premises checked on this run."""
    facts = _Facts(run)
    bounds = [_tight(facts), _main(facts)]
    if any(record.bounds for record in facts.records):
        bounds.append(_selective(facts))
    if any(record.choice == "point" for record in facts.records):
        bounds += [_point_only(facts), _capped_point(facts)]
    if run.problem.regime == "C" and facts.anchored:
        bounds += _convex(facts)
    if facts.anchored:
        bounds.append(_floor(facts))
    return Certificate(tuple(bounds))


@dataclass(frozen=True)
class _Facts:
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
    def anchored(self) -> list[DepartureRecord]:
        """The departures that left a legacy of the paper's kind, still remembered."""
        gone = set(self.run.lost)
        return [
            record
            for record in self.records
            if record.choice in ("consensus", "local") and record.node not in gone
        ]

    @cached_property
    def blurs(self) -> list[Legacy]:
        """What compressing messages changed, as far as it is still remembered."""
        inside = {node for q in self.run.inherited.values() for node in q.lineage}
        return [
            record.blur
            for record in self.run.departures
            if record.blur is not None and not inside.isdisjoint({record.node, *record.passed_on})
        ]

    @cached_property
    def optimum(self) -> Vector:
        """x*; in regime (C) the minimiser closest to the last anchor (prop:certC)."""
        problem = self.run.problem
        if problem.regime == "SC" or not self.anchored:
            return self.run.optimum
        last = self.anchored[-1].anchor
        return self.counted.minimiser(Legacy.zero(problem.dim), start=last)

    @cached_property
    def scale(self) -> float:
        return 1.0 + norm(self.optimum)

    @cached_property
    def pulls(self) -> dict[int, float]:
        """zeta_i = |grad f_i(x*)| of every node that is gone."""
        return {
            record.node: norm(self.run.problem.objective(record.node).gradient(self.optimum))
            for record in self.records
        }

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
        problem = self.run.problem
        return (problem.kappa - 1) / (2 * problem.n)

    def distance(self, record: DepartureRecord) -> float:
        """|y - x*|."""
        assert record.anchor is not None  # noqa: S101 - asked of anchored legacies only
        return norm(record.anchor - self.optimum)

    # --- premises ---------------------------------------------------------------------------

    @property
    def sound(self) -> tuple[Premise, ...]:
        """What every theorem takes for granted."""
        return (
            Premise("the run stayed bounded", self.run.status != "diverged"),
            Premise("every curvature is certified", self.run.problem.certified),
            Premise("every hand-off was exact", all(r.exact_handoff for r in self.run.departures)),
        )

    @property
    def graceful(self) -> Premise:
        """What the paper is about."""
        crashed = any(record.crashed for record in self.run.departures)
        return Premise("only graceful departures (as:grace)", not crashed and not self.run.changes)

    @property
    def strongly_convex(self) -> Premise:
        return Premise("every loss is strongly convex (SC)", self.run.problem.regime == "SC")

    @property
    def all_anchored(self) -> Premise:
        return Premise(
            "every leaver left a gradient-anchored legacy with the midpoint curvature",
            len(self.anchored) == len(self.records),
        )

    @property
    def small(self) -> Premise:
        kbeta = len(self.records) * self.beta if self.records else 0.0
        return Premise(f"k beta = {kbeta:.3g} <= 1/2", kbeta <= 0.5)

    @property
    def one_at_a_time(self) -> Premise:
        rounds = [record.round for record in self.records]
        return Premise("one departure per round (as:net)", len(set(rounds)) == len(rounds))


def _tight(facts: _Facts) -> Bound:
    residuals = []
    for record in facts.records:
        zeta = facts.pulls[record.node]
        if record.node in facts.run.lost:
            residuals.append(zeta)
        elif record.choice == "point":
            assert record.legacy is not None  # noqa: S101 - point-only legacies are legacies
            residuals.append(record.legacy.eta * facts.distance(record) + zeta)
        else:
            residuals.append(_worst_residual(facts, record))
    residuals += [norm(blur.gradient(facts.optimum)) for blur in facts.blurs]
    return Bound(
        "tight",
        "the limit's distance to x*, sum of residuals over strength",
        (
            *facts.sound,
            Premise("the surrogate is strongly convex", facts.strength > 0),
            Premise(
                "nobody was taken out of a compressed memory",
                all(change.exact for change in facts.run.changes),
            ),
        ),
        promise.tight_bias(residuals=residuals, strength=facts.strength),
        facts.bias,
        scale=facts.scale,
    )


def _worst_residual(facts: _Facts, record: DepartureRecord) -> float:
    """Return the largest |(grad q - grad f)(x*)| of any loss with this leaver's curvature range.

    For a curvature eta in every direction that is max(eta - a, b - eta) |y - x*|: the spread times
    the distance at the midpoint (lem:center), and never more than twice that. A legacy whose
    gradient at its anchor is not the loss's (an averaged one) adds what it is off by.
    """
    assert record.legacy is not None  # noqa: S101 - asked of those who are remembered
    assert record.anchor is not None  # noqa: S101 - and every legacy has an anchor
    loss = facts.run.problem.objective(record.node)
    low, high = record.legacy.curvature
    off = norm(record.legacy.gradient(record.anchor) - loss.gradient(record.anchor))
    return max(high - loss.curvature.a, loss.curvature.b - low) * facts.distance(record) + off


def _main(facts: _Facts) -> Bound:
    premises = (
        *facts.sound,
        facts.graceful,
        facts.strongly_convex,
        facts.all_anchored,
        facts.small,
        facts.one_at_a_time,
    )
    promised = np.inf
    if facts.graceful.holds and facts.all_anchored.holds and facts.strongly_convex.holds:
        rho = [
            norm(record.anchor - target)
            for record, target in zip(facts.records, facts.targets, strict=False)
            if record.anchor is not None
        ]
        promised = promise.main_bias(beta=facts.beta, distances=rho)
    return Bound(
        "thm:main",
        "the limit's distance to x*, 2 beta sum rho",
        premises,
        promised,
        facts.bias,
        scale=facts.scale,
    )


def _selective(facts: _Facts) -> Bound:
    """Return cor:selective, each departure at the bound of the branch it took.

    A forgotten node costs zeta/((n-k) mu), and an anchored one at most 2 omega |y - x*|/(n mu) as
    long as no more than half of the nodes are forgotten: then no smallness of k beta is needed.
    """
    n, survivors, pilot = facts.run.problem.n, len(facts.run.survivors), facts.run.pilot
    compared = [record for record in facts.records if record.bounds]
    covered = pilot is None or all(
        pilot.error(record.round) >= norm(record.x - facts.optimum) for record in compared
    )
    terms = []
    for index, record in enumerate(facts.records):
        if record.bounds:
            remaining = n - index - 1  # when the will decided; the corollary counts at the end
            scale = remaining / survivors if record.choice == "none" else 1.0
            terms.append(record.bounds[record.choice] * scale)
    forgotten = len(facts.run.lost)
    return Bound(
        "cor:selective",
        "the limit's distance to x*, each departure at the bound of its branch",
        (
            *facts.sound,
            facts.graceful,
            facts.strongly_convex,
            Premise("every leaver compared its branches", len(compared) == len(facts.records)),
            Premise("the pilot's certificate covers every departure", covered),
            Premise(f"at most half are forgotten ({forgotten} of {n})", forgotten <= n / 2),
        ),
        sum(terms),
        facts.bias,
        scale=facts.scale,
    )


def _point_only(facts: _Facts) -> Bound:
    problem, pilot = facts.run.problem, facts.run.pilot
    points = [record for record in facts.records if record.choice == "point"]
    errors = [pilot.error(record.round) if pilot else np.inf for record in points]
    pulls = [norm(problem.objective(r.node).gradient(r.x)) for r in points]
    weights = [r.legacy.eta if r.legacy else 0.0 for r in points]
    free = all(
        w >= 0.999 * pull / e for w, pull, e in zip(weights, pulls, errors, strict=True) if e > 0
    )
    covered = all(e >= facts.distance(r) for r, e in zip(points, errors, strict=True))
    return Bound(
        "prop:pointonly",
        "the limit's distance to x*, with the scheduled weights",
        (
            *facts.sound,
            facts.graceful,
            facts.strongly_convex,
            _only_points(facts, points),
            Premise("no weight is capped", free),
            Premise(
                "every weight is at least (n-1) mu",
                all(w >= (problem.n - 1) * problem.mu for w in weights),
            ),
            Premise("the pilot's certificate covers every departure", covered),
        ),
        promise.point_only_bias(
            errors=errors,
            heterogeneity=[
                pull + float(problem.b[r.node]) * e
                for r, pull, e in zip(points, pulls, errors, strict=True)
            ],
            survivors=len(facts.run.survivors),
            mu=problem.mu,
            kbeta=len(points) * facts.beta,
        )
        if problem.mu > 0
        else np.inf,
        facts.bias,
        scale=facts.scale,
    )


def _capped_point(facts: _Facts) -> Bound:
    points = [record for record in facts.records if record.choice == "point"]
    return Bound(
        "prop:pointonly (capped)",
        "the limit's distance to x*, whatever the weights",
        (*facts.sound, facts.graceful, facts.strongly_convex, _only_points(facts, points)),
        promise.capped_point_bias(
            weights=[r.legacy.eta if r.legacy else 0.0 for r in points],
            distances=[facts.distance(r) for r in points],
            heterogeneity=[facts.pulls[r.node] for r in points],
            survivors_strength=facts.survivors_strength,
        )
        if facts.survivors_strength > 0
        else np.inf,
        facts.bias,
        scale=facts.scale,
    )


def _only_points(facts: _Facts, points: list[DepartureRecord]) -> Premise:
    return Premise("every legacy is point-only", len(points) == len(facts.records))


def _convex(facts: _Facts) -> list[Bound]:
    """Return thm:cvx and prop:certC."""
    problem, run = facts.run.problem, facts.run
    leavers = [record.node for record in facts.anchored]
    premises = (
        *facts.sound,
        facts.graceful,
        facts.all_anchored,
        Premise("no leaver is strongly convex (C)", bool((problem.a[leavers] == 0).all())),
        Premise("every anchor is an iterate", all(r.choice == "consensus" for r in facts.anchored)),
        Premise("every loss is curved somewhere", float(problem.b.min()) > 0),
    )
    ratio = float(problem.b.max() / problem.b.min()) if problem.b.min() > 0 else np.inf
    errors = [facts.distance(record) for record in facts.anchored]
    best = facts.value(facts.optimum)
    hessian = problem.among(run.survivors).total_hessian(run.limit)
    memory = sum(q.curvature[0] for q in run.inherited.values())
    measured = float(np.linalg.eigvalsh(hessian)[0]) + memory
    bounds = [
        Bound(
            "thm:cvx (i)",
            "strong convexity contributed by the legacies, at least k/2 min L",
            premises,
            len(leavers) / 2 * float(problem.b.min()),
            measured,
            relation=">=",
            scale=1.0 + memory,
        ),
        Bound(
            "thm:cvx (ii) distance",
            "the limit's distance to the common minimiser",
            premises,
            promise.convex_distance(errors=errors, ratio=ratio),
            facts.bias,
            scale=facts.scale,
        ),
        Bound(
            "thm:cvx (ii) value",
            "F(limit) - F*, quadratic in the anchor errors",
            premises,
            promise.convex_value_gap(errors=errors, ratio=ratio, smoothness=problem.L),
            facts.value(run.limit) - best,
            scale=1.0 + abs(best),
        ),
    ]
    return bounds + _growth(facts, premises, best)


def _growth(facts: _Facts, premises: tuple[Premise, ...], best: float) -> list[Bound]:
    """Return prop:certC (a) and (b), each at the departure where it is tightest."""
    problem = facts.run.problem
    growth = problem.quadratic_growth()
    known = (*premises, Premise("F grows quadratically with a known modulus", growth > 0))
    anchors = [record.anchor for record in facts.anchored if record.anchor is not None]
    zero = Legacy.zero(problem.dim)
    nearest = [facts.counted.minimiser(zero, start=y) for y in anchors]
    gamma = [
        promise.growth_distance(value_gap=facts.value(y) - best, growth=growth) for y in anchors
    ]
    to_set = [norm(y - point) for y, point in zip(anchors, nearest, strict=True)]
    common = [g + norm(y - anchors[-1]) for g, y in zip(gamma, anchors, strict=True)]
    to_common = [norm(y - facts.optimum) for y in anchors]

    def tightest(label: str, claim: str, promised: list[float], measured: list[float]) -> Bound:
        slack = [p - m for p, m in zip(promised, measured, strict=True)]
        m = int(np.argmin(slack))
        return Bound(label, claim, known, promised[m], measured[m], scale=1e3 * facts.scale)

    return [
        tightest("prop:certC (a)", "an anchor's distance to the minimisers", gamma, to_set),
        tightest(
            "prop:certC (b)", "an anchor's distance to the common minimiser", common, to_common
        ),
    ]


def _floor(facts: _Facts) -> Bound:
    """Return thm:lower, at the departure where it is highest."""
    problem, floors = facts.run.problem, []
    for record in facts.anchored:
        assert record.legacy is not None  # noqa: S101 - anchored legacies are legacies
        a, b = float(problem.a[record.node]), float(problem.b[record.node])
        rest = facts.strength - record.legacy.eta
        floors.append(
            promise.first_order_floor(a=a, b=b, distance=facts.distance(record), rest=rest)
        )
    return Bound(
        "thm:lower",
        "a comparison of bounds: our promise, and what no memory of one gradient can beat",
        (
            *facts.sound,
            facts.graceful,
            Premise("the surrogate is strongly convex", facts.strength > 0),
        ),
        max(floors),
        _tight(facts).promised,
        relation=">=",
        scale=facts.scale,
    )
