"""What the theorems promise: the formulas, and the form in which a promise is kept.

The formulas take numbers and return numbers; ``bequest.model.certify`` reads the numbers off a
run, checks the premises on it and puts what was measured beside what was promised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Minimisers are computed to 1e-12; a promise is not broken by less than ten times that.
# This is relative to their length.
ROUNDING = 1e-11


@dataclass(frozen=True, slots=True)
class Premise:
    """Something a theorem asks for, and whether this run has it."""

    text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Bound:
    """One promise: measured <= promised (or >=), if the premises hold.

    ``holds`` is None where a premise fails: then nothing was promised, though both numbers are
    still there to look at. ``slack`` is what rounding can make of the difference.
    """

    label: str
    claim: str
    premises: tuple[Premise, ...]
    promised: float
    measured: float
    relation: Literal["<=", ">="] = "<="
    slack: float = ROUNDING

    @property
    def applies(self) -> bool:
        """Whether every premise holds on this run."""
        return all(premise.holds for premise in self.premises)

    @property
    def holds(self) -> bool | None:
        """Whether the promise is kept; None if nothing was promised."""
        if not self.applies:
            return None
        slack = self.slack + 1e-9 * abs(self.promised)
        if self.relation == "<=":
            return self.measured <= self.promised + slack
        return self.measured >= self.promised - slack

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        if self.holds is None:
            failed = "; ".join(premise.text for premise in self.premises if not premise.holds)
            return f"no promise, as this does not hold: {failed}"
        return "holds" if self.holds else "BROKEN"

    def __str__(self) -> str:
        return (
            f"{self.label}: {self.claim}: measured {self.measured:.3g} {self.relation} "
            f"promised {self.promised:.3g} [{self.verdict}]"
        )


@dataclass(frozen=True, slots=True)
class Certificate:
    """Every promise the theory makes about a run."""

    bounds: tuple[Bound, ...]

    @property
    def holds(self) -> bool:
        """Whether every promise that was made is kept."""
        return all(bound.holds is not False for bound in self.bounds)

    def __getitem__(self, label: str) -> Bound:
        for bound in self.bounds:
            if bound.label == label:
                return bound
        known = ", ".join(bound.label for bound in self.bounds)
        raise KeyError(f"no bound {label!r}; this certificate has: {known}")

    def __iter__(self) -> Iterator[Bound]:
        return iter(self.bounds)

    def __str__(self) -> str:
        return "\n".join(map(str, self.bounds))

    def as_dict(self) -> dict[str, dict[str, object]]:
        """Return it as plain data, for JSON; numbers that are not finite become None."""

        def plain(number: float) -> float | None:
            return number if math.isfinite(number) else None

        return {
            bound.label: {
                "claim": bound.claim,
                "relation": bound.relation,
                "promised": plain(bound.promised),
                "measured": plain(bound.measured),
                "holds": bound.holds,
                "premises": {premise.text: premise.holds for premise in bound.premises},
            }
            for bound in self.bounds
        }


def tight_bias(*, residuals: Sequence[float], strength: float) -> float:
    """Return sum of residuals / strength, which bounds |limit - x*|.

    A residual is how far the gradient of what is remembered of a node can be from its true
    gradient at x*: omega |y - x*| for a gradient-anchored legacy, eta |y - x*| + zeta for a
    point-only one, zeta for a forgotten node. The strength is the curvature of the surrogate,
    the survivors' mu and the legacies' eta added up. No smallness premise, no compounding.

    Paper: eq:gradtransfer at x*. Deviates: not in the paper; sharper than thm:main, and attained.
    """
    total = math.fsum(residuals)
    return total / strength if strength > 0 else (math.inf if total > 0 else 0.0)


def main_bias(*, beta: float, distances: Sequence[float]) -> float:
    """Return 2 beta sum rho_m, rho_m the distance of anchor m to the target it was made for.

    Paper: thm:main, eq:main.
    """
    return 2 * beta * math.fsum(distances)


def point_only_bias(
    *,
    errors: Sequence[float],
    heterogeneity: Sequence[float],
    survivors: int,
    mu: float,
    kbeta: float,
) -> float:
    """Return sum min{2 eps_m, zeta_m/((n-k) mu)}, with exp(k beta) for the paper's 1 + O(k beta).

    Paper: prop:pointonly.
    """
    terms = (
        min(2 * error, zeta / (survivors * mu))
        for error, zeta in zip(errors, heterogeneity, strict=True)
    )
    factor = math.exp(kbeta) if kbeta < 700 else math.inf  # beyond, exp overflows
    return factor * math.fsum(terms)


def capped_point_bias(
    *,
    weights: Sequence[float],
    distances: Sequence[float],
    heterogeneity: Sequence[float],
    survivors_strength: float,
) -> float:
    """Return sum (eta |y - x*| + zeta)/((n-k) mu + eta): true for every weight, capped or not.

    Its floor for late exits is the zeta/((n-1) mu + c0/alpha) of the paper.

    Paper: prop:pointonly and its derivation.
    """
    return math.fsum(
        (eta * distance + zeta) / (survivors_strength + eta)
        for eta, distance, zeta in zip(weights, distances, heterogeneity, strict=True)
    )


def convex_distance(*, errors: Sequence[float], ratio: float) -> float:
    """Return kappa~ times the mean anchor error, which bounds |limit - x*| in regime (C).

    Paper: thm:cvx (ii).
    """
    return ratio * math.fsum(errors) / len(errors)


def convex_value_gap(*, errors: Sequence[float], ratio: float, smoothness: float) -> float:
    """Return (L/4) [2 k delta^2 + 3 sum eps_m^2], delta = kappa~ mean(eps): bounds F(limit) - F*.

    Paper: thm:cvx (ii). Deviates: the paper's last step has an inequality the wrong way round;
    this is its own display before that step.
    """
    delta = convex_distance(errors=errors, ratio=ratio)
    squares = math.fsum(error * error for error in errors)
    return smoothness / 4 * (2 * len(errors) * delta**2 + 3 * squares)


def growth_distance(*, value_gap: float, growth: float) -> float:
    """Return sqrt(2 G/nu), which bounds the distance to the minimisers under nu-quadratic growth.

    Paper: prop:certC (a).
    """
    return math.sqrt(2 * max(value_gap, 0.0) / growth) if growth > 0 else math.inf


def first_order_floor(*, a: float, b: float, distance: float, rest: float) -> float:
    """Return (b - a) distance / (2 (rest + b)): what no memory of one gradient can promise to beat.

    There are two losses with curvature in [a, b] and the same value and gradient at the anchor
    whose optima are twice that far apart (``lower_bound_pair``).

    Paper: thm:lower, with rest = (n-1) mu.
    """
    return (b - a) * distance / (2 * (rest + b)) if rest + b > 0 else 0.0


def lower_bound_pair(
    *, mu: float, L: float, n: int, distance: float, gradient: float = 1.0
) -> tuple[float, float, float]:
    """Return (b, c, c~): two leavers that no node can tell apart, on the line.

    The survivors sum to (n-1) mu/2 (x - b)^2. One leaver is mu/2 (x - c)^2, the other
    L/2 (x - c~)^2; both have the given gradient at 0, and the first optimum lies at
    ``distance`` from 0. The two optima are (L - mu) distance/((n-1) mu + L) apart.

    Paper: thm:lower.
    """
    b = (gradient + distance * n * mu) / ((n - 1) * mu)
    return b, -gradient / mu, -gradient / L
