"""Reading off a finished run what the theorems promise about it.

No premise is taken from what a will says of itself: what was sent is held against the leaver's own
loss (``evidence``), what the survivors hold against what was sent, and x* against the losses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import bounds as branch_bounds
from bequest.core import certificates as promise
from bequest.core.arrays import norm
from bequest.core.certificates import ROUNDING, Bound, Certificate, Premise
from bequest.core.legacy import Legacy
from bequest.errors import OptimumUnknown
from bequest.model.facts import Facts

if TYPE_CHECKING:
    from bequest.model.evidence import Evidence
    from bequest.model.run import Run
    from bequest.model.wills import Choice

# Two ways to compute one bound agree to this.
_SAME = 1e-6


def certify(run: Run) -> Certificate:
    """Return every bound of the theory, with its premises checked on this run.

    Raises:
        OptimumUnknown: x* is not known, or data that it takes to check a premise are on their
            hosts.
    """
    if run.problem.regime == "N":
        raise OptimumUnknown(
            "Some losses are not convex, and every theorem is about convex ones.",
            remedy="Go by what is measured, such as run.trajectory and the accuracy of run.model.",
        )
    facts = Facts(run)
    if facts.counted.away:
        raise OptimumUnknown(
            "A certificate holds what was sent against the losses, and the data of some nodes are "
            "on their hosts.",
            remedy="Go by what is measured without them, such as the disagreement and the "
            "gradients of run.trajectory.",
        )
    bounds = [_tight(facts), _main(facts)]
    if any(record.bounds for record in facts.records):
        bounds.append(_selective(facts))
    if facts.points:
        bounds += [_point_only(facts), _capped_point(facts)]
    if run.problem.regime == "C" and facts.anchored:
        bounds += _convex(facts)
    if facts.anchored:
        bounds.append(_floor(facts))
    return Certificate(tuple(bounds))


def _bias(
    facts: Facts, label: str, claim: str, premises: tuple[Premise, ...], promised: float
) -> Bound:
    """Return a bound on the limit's distance to x*, with what every theorem takes for granted."""
    whole = (*facts.premises.sound, *premises)
    return Bound(
        label,
        f"the limit's distance to x*, {claim}",
        whole,
        promised,
        facts.bias,
        slack=facts.slack,
    )


def _tight(facts: Facts) -> Bound:
    residuals = [
        _worst_residual(facts, one) if one.remembered else facts.pulls[one.node]
        for one in facts.evidence
    ]
    residuals += [norm(blur.gradient(facts.optimum)) for blur in facts.blurs]
    return _bias(
        facts,
        "tight",
        "sum of residuals over strength",
        (
            Premise("the surrogate is strongly convex", facts.strength > 0),
            Premise(
                "no node was taken out of a compressed memory",
                all(change.exact for change in facts.run.changes),
            ),
        ),
        promise.tight_bias(residuals=residuals, strength=facts.strength),
    )


def _worst_residual(facts: Facts, one: Evidence) -> float:
    """Return the largest |(grad q - grad f)(x*)| of any loss with this leaver's curvature range.

    For a curvature eta in every direction that is max(eta - a, b - eta) |y - x*|: the spread times
    the distance at the midpoint (lem:center), and never more than twice that. A legacy whose
    gradient at its anchor is not the loss's (an averaged one, a point-only one) adds what it is
    off by; and it cannot be off by more than both pulls at x* together, its own and zeta.
    """
    assert one.record.legacy is not None  # noqa: S101 - asked of remembered nodes only
    low, high = one.spectrum
    curvature = one.loss.curvature
    worst = max(high - curvature.a, curvature.b - low) * facts.distance(one) + one.off
    if one.is_anchored:
        return worst
    return min(worst, norm(one.record.legacy.gradient(facts.optimum)) + facts.pulls[one.node])


def _main(facts: Facts) -> Bound:
    known = facts.premises
    wanted = (known.graceful, known.strongly_convex, known.all_anchored)
    promised = np.inf
    if all(premise.holds for premise in wanted):
        rho = [
            norm(one.anchor - target)
            for one, target in zip(facts.evidence, facts.targets, strict=False)
        ]
        promised = promise.main_bias(beta=facts.beta, distances=rho)
    premises = (*wanted, known.small, known.one_at_a_time)
    return _bias(facts, "thm:main", "2 beta sum rho", premises, promised)


def _selective(facts: Facts) -> Bound:
    """Return cor:selective, each departure at the bound of the branch it took.

    A forgotten node costs zeta/((n-k) mu), and an anchored one at most 2 omega |y - x*|/(n mu) as
    long as no more than half of the nodes are forgotten: then no smallness of k beta is needed.
    Which branch that is shows in what was sent; what it costs at most is computed again.
    """
    n, survivors = facts.run.problem.n, len(facts.run.survivors)
    taken = [_branch(facts, one) for one in facts.evidence]
    compared = [branch for branch in taken if branch is not None]
    terms = []
    for index, branch in enumerate(taken):
        if branch is not None:
            remaining = n - index - 1  # when the will decided; the corollary counts at the end
            terms.append(branch.cost * (remaining / survivors if branch.name == "none" else 1.0))
    forgotten = len(facts.run.lost)
    return _bias(
        facts,
        "cor:selective",
        "each departure at the bound of its branch",
        (
            facts.premises.graceful,
            facts.premises.strongly_convex,
            Premise("every leaver compared its branches", len(compared) == len(taken)),
            Premise(
                "the pilot's certificate covers every departure",
                all(branch.covered for branch in compared),
            ),
            Premise(f"at most half are forgotten ({forgotten} of {n})", forgotten <= n / 2),
        ),
        math.fsum(terms) if len(compared) == len(taken) else np.inf,
    )


@dataclass(frozen=True, slots=True)
class _Branch:
    """The branch of the three-way rule that a departure took, and what it costs at most.

    ``covered``: whether that is no less than with the true distances.
    """

    name: Choice
    cost: float
    covered: bool


def _branch(facts: Facts, one: Evidence) -> _Branch | None:
    """Return which of the paper's branches was taken, or None if it is none of them.

    None also if the leaver did not compare, did not take the branch of which it said that it costs
    least, or gave a cost that is neither the certified one nor the one with the true distances.
    """
    said = one.record.bounds
    names: tuple[Choice, ...] = ("local",)
    if one.record.legacy is None:
        names = ("none",)
    elif not one.is_anchored:
        return None
    elif one.is_at_iterate:
        names = ("consensus", "local")
    smallest = min(said.values(), default=np.nan)
    for name in names:
        if said.get(name) == smallest:
            return _priced(facts, one, name)
    return None


def _priced(facts: Facts, one: Evidence, name: Choice) -> _Branch | None:
    """Return the branch at the cost that its will gave, if that is one of the rule's."""
    run, record, pilot = facts.run, one.record, facts.run.pilot
    problem, curvature = run.problem, one.loss.curvature
    remaining = problem.n - facts.records.index(record) - 1
    if problem.mu == 0:
        return None

    def anchored(distance: float) -> float:
        return branch_bounds.anchored_bias(
            spread=curvature.spread, distance=distance, n=problem.n, mu=problem.mu
        )

    def forgetting(heterogeneity: float) -> float:
        return branch_bounds.forgetting_bias(
            heterogeneity=heterogeneity, remaining=remaining, mu=problem.mu
        )

    true = forgetting(facts.pulls[one.node]) if name == "none" else anchored(facts.distance(one))
    slack = _SAME * true + facts.slack
    if abs(record.bounds[name] - true) <= slack:
        return _Branch(name, record.bounds[name], covered=True)
    if pilot is None:
        return None
    error = pilot.error(record.round)
    covered = error >= norm(record.x - facts.optimum)
    if name == "none":
        certified = forgetting(norm(one.loss.gradient(record.x)) + curvature.b * error)
    elif name == "consensus":
        certified = anchored(error)
    else:
        descent_left = norm(one.loss.gradient(one.anchor)) / curvature.a
        certified = anchored(pilot.zeta / curvature.a + descent_left)
    if math.isclose(record.bounds[name], certified, rel_tol=_SAME):
        return _Branch(name, certified, covered=covered and certified >= true - slack)
    if name == "none" and not math.isnan(pilot.spread):
        sharper = branch_bounds.sensitivity_bias(
            kappa=problem.kappa, radius=pilot.spread, remaining=remaining
        )
        if math.isclose(record.bounds[name], sharper, rel_tol=_SAME):
            held = pilot.spread >= facts.spread * (1 - _SAME)
            return _Branch(name, sharper, covered=covered and held)
    return None


def _point_only(facts: Facts) -> Bound:
    problem, pilot = facts.run.problem, facts.run.pilot
    points = facts.points
    errors = [pilot.error(one.record.round) if pilot else np.inf for one in points]
    pulls = [norm(one.loss.gradient(one.record.x)) for one in points]
    weights = [one.weight for one in points]
    free = all(
        w >= 0.999 * pull / e for w, pull, e in zip(weights, pulls, errors, strict=True) if e > 0
    )
    covered = all(e >= facts.distance(one) for one, e in zip(points, errors, strict=True))
    return _bias(
        facts,
        "prop:pointonly",
        "with the scheduled weights",
        (
            facts.premises.graceful,
            facts.premises.strongly_convex,
            _only_points(facts),
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
                pull + one.loss.curvature.b * e
                for one, pull, e in zip(points, pulls, errors, strict=True)
            ],
            survivors=len(facts.run.survivors),
            mu=problem.mu,
            kbeta=len(points) * facts.beta,
        )
        if problem.mu > 0
        else np.inf,
    )


def _capped_point(facts: Facts) -> Bound:
    points = facts.points
    return _bias(
        facts,
        "prop:pointonly (capped)",
        "with any weights",
        (facts.premises.graceful, facts.premises.strongly_convex, _only_points(facts)),
        promise.capped_point_bias(
            weights=[one.weight for one in points],
            distances=[facts.distance(one) for one in points],
            heterogeneity=[facts.pulls[one.node] for one in points],
            survivors_strength=facts.survivors_strength,
        )
        if facts.survivors_strength > 0
        else np.inf,
    )


def _only_points(facts: Facts) -> Premise:
    only = len(facts.points) == len(facts.records) and not facts.blurs
    at_iterates = all(one.is_at_iterate for one in facts.points)
    return Premise("every legacy is point-only, a pull toward an iterate", only and at_iterates)


def _convex(facts: Facts) -> list[Bound]:
    """Return thm:cvx and prop:certC."""
    problem, run = facts.run.problem, facts.run
    leavers = [one.node for one in facts.anchored]
    premises = (
        *facts.premises.sound,
        facts.premises.graceful,
        facts.premises.all_anchored,
        Premise("no leaver is strongly convex (C)", bool((problem.a[leavers] == 0).all())),
        Premise("every anchor is an iterate", all(one.is_at_iterate for one in facts.anchored)),
        Premise("every loss is curved somewhere", float(problem.b.min()) > 0),
    )
    ratio = float(problem.b.max() / problem.b.min()) if problem.b.min() > 0 else np.inf
    errors = [facts.distance(one) for one in facts.anchored]
    best = facts.value(facts.optimum)
    survivors = problem.among(run.survivors)
    hessian = survivors.total_hessian(run.surrogate_minimiser)
    memory = sum(q.curvature[0] for q in run.inherited.values())
    measured = float(np.linalg.eigvalsh(hessian)[0]) + memory
    off = facts.rounding  # of every anchor error
    value_gap = partial(promise.convex_value_gap, ratio=ratio, smoothness=problem.L)
    farther = [error + off for error in errors]
    bounds = [
        Bound(
            "thm:cvx (i)",
            "strong convexity contributed by the legacies, at least k/2 min L",
            premises,
            len(leavers) / 2 * float(problem.b.min()),
            measured,
            relation=">=",
            slack=ROUNDING * (1.0 + memory) + survivors.blur * float(np.abs(hessian).sum()),
        ),
        Bound(
            "thm:cvx (ii) distance",
            "the limit's distance to the common minimiser",
            premises,
            promise.convex_distance(errors=errors, ratio=ratio),
            facts.bias,
            slack=facts.slack + (ratio * off if off else 0.0),
        ),
        Bound(
            "thm:cvx (ii) value",
            "F(limit) - F*, quadratic in the anchor errors",
            premises,
            value_gap(errors=errors),
            facts.value(run.surrogate_minimiser) - best if facts.premises.is_bounded else np.nan,
            slack=ROUNDING * (1.0 + abs(best))
            + facts.value_rounding
            + (value_gap(errors=farther) - value_gap(errors=errors) if off else 0.0),
        ),
    ]
    return bounds + _growth(facts, premises, best)


def _growth(facts: Facts, premises: tuple[Premise, ...], best: float) -> list[Bound]:
    """Return prop:certC (a) and (b), each at the departure where it is tightest."""
    problem = facts.run.problem
    growth = problem.quadratic_growth()
    known = (*premises, Premise("F grows quadratically with a known modulus", growth > 0))
    anchors = [one.anchor for one in facts.anchored]
    zero = Legacy.zero(problem.dim)
    nearest = [facts.counted.minimiser(zero, start=y) for y in anchors]
    gamma = [
        promise.growth_distance(value_gap=facts.value(y) - best, growth=growth) for y in anchors
    ]
    to_set = [norm(y - point) for y, point in zip(anchors, nearest, strict=True)]
    common = [g + norm(y - anchors[-1]) for g, y in zip(gamma, anchors, strict=True)]
    to_common = [norm(y - facts.optimum) for y in anchors]

    # a value that is off by e leaves the root of 2 e/growth
    hidden = promise.growth_distance(value_gap=2 * facts.value_rounding, growth=growth)
    off = 1e3 * ROUNDING * facts.scale + facts.rounding + (hidden if facts.value_rounding else 0.0)

    def tightest(label: str, claim: str, promised: list[float], measured: list[float]) -> Bound:
        slack = [p - m for p, m in zip(promised, measured, strict=True)]
        m = int(np.argmin(slack))
        return Bound(label, claim, known, promised[m], measured[m], slack=off)

    return [
        tightest("prop:certC (a)", "an anchor's distance to the minimisers", gamma, to_set),
        tightest(
            "prop:certC (b)", "an anchor's distance to the common minimiser", common, to_common
        ),
    ]


def _floor(facts: Facts) -> Bound:
    """Return thm:lower, at the departure where it is highest."""
    problem, floors = facts.run.problem, []
    for one in facts.anchored:
        a, b = float(problem.a[one.node]), float(problem.b[one.node])
        rest = facts.strength - one.weight
        floors.append(promise.first_order_floor(a=a, b=b, distance=facts.distance(one), rest=rest))
    return Bound(
        "thm:lower",
        "a comparison of bounds: our promise, and what no memory of one gradient can beat",
        (
            *facts.premises.sound,
            facts.premises.graceful,
            Premise("the surrogate is strongly convex", facts.strength > 0),
        ),
        max(floors),
        _tight(facts).promised,
        relation=">=",
        slack=facts.slack,
    )
