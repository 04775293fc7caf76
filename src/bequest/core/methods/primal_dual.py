"""Methods in which s is a dual variable: one vector per edge and round.

Two rounds carry four methods. With the difference D = (I - W) m of what nodes say,

    adapt, then combine:   m = x - z/P;  s+ = s + c D;  x+ = m - c D/P           NIDS
    combine, then adapt:   m = x;        s+ = s + c D;  x+ = x - (z + 2 c D)/P   ADMM, linearised

and with one step alpha = 1/P for all nodes these are exact diffusion and, with c = 1/(2 alpha),
EXTRA.

P is the node's own: a number, or a matrix (its *metric*). The rounds of NIDS are stable whenever
P > M/2 and P > 3/4 c (I - W), M being a bound on the node's Hessian; those of ADMM whenever
P > M/2 + 3/4 c (I - W). (Z. Li and M. Yan, arXiv 1711.06785, prove it for any convex losses, and
that 3/4 is the least.) Both are for the node alone to see to (W has rows that sum to one, so that
I - W is at most 2 (1 - w_ii)), and no node ever has to slow down for another one.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from numpy import add, multiply, subtract

from bequest.core import steps
from bequest.core.methods import pace as paces
from bequest.core.methods.base import Local, Method, OneStep, check_pace
from bequest.errors import InvalidMethod

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Tensor as Array
    from bequest.core.methods.base import Conditions, PerNode, Rows
    from bequest.core.steps import StepChoice

# How much of what is stable a node uses: P is M over twice this, and half of M would be the end. A
# number must come close to that, as it is too large in all directions but one. A matrix need not:
# at 0.7 the slowest of nine setups takes 3% more rounds, and a node alone is there in 16, not 132.
SAFETY = {"scalar": 0.95, "hessian": 0.7}
# How much of c (I - W) a node's P holds at least: 3/4 would be the end.
_HELD = 0.79
# Curvature below this part of the largest is rounding: of a node alone, which mixes with none, it
# is all that there is in directions that its loss does not depend on.
_FLAT = 1e-13


class PrimalDual(Method):
    """Methods in which s gains c times the difference of what nodes say: what they hear."""

    @staticmethod
    @abstractmethod
    def _modes(a: Array, l: Array) -> Array:  # noqa: E741 - the letters of the formula
        """Return how much of a mode is left after a round; a = h/P, l of c(I - W)/P."""


class _AdaptThenCombine(PrimalDual):
    """m = x - z/P, s+ = s + c D, x+ = m - c D/P.

    Where P is a number it does itself what ``Local.descend`` does: in small networks a call is 1%
    of a round.
    """

    def message(self, x: Rows, z: Rows, local: Local, out: Rows | None = None) -> tuple[Rows, ...]:
        """Return where its own z alone would lead the node."""
        number = local.inverse is None
        adapted = multiply(z, local.step, out) if number else local.descend(z, out)
        return (subtract(x, adapted, adapted),)

    def advance(
        self,
        x: Rows,  # noqa: ARG002 - it is in what was said
        z: Rows,
        said: tuple[Rows, ...],
        heard: tuple[Rows, ...],
        local: Local,
        out: Rows | None = None,
    ) -> tuple[Rows, Rows]:
        """Return what was said with what flows taken off, and z with what flows."""
        flow, number = heard[0], local.inverse is None
        there = multiply(flow, local.step, out) if number else local.descend(flow, out)
        subtract(said[0], there, there)
        return there, add(flow, z, flow)

    @staticmethod
    def _modes(a: Array, l: Array) -> Array:  # noqa: E741 - the letters of the formula
        # 1 - d with d^2 - d (2l + a(1 - l)) + l = 0
        return paces.largest_root((1 - l) * (2 - a), (1 - l) * (1 - a))


class _CombineThenAdapt(PrimalDual):
    """m = x, s+ = s + c D, x+ = x - (z + 2 c D)/P."""

    def message(
        self,
        x: Rows,
        z: Rows,  # noqa: ARG002 - it adapts afterwards
        local: Local,  # noqa: ARG002
        out: Rows | None = None,  # noqa: ARG002
    ) -> tuple[Rows, ...]:
        """Return x."""
        return (x,)

    def advance(
        self,
        x: Rows,
        z: Rows,
        said: tuple[Rows, ...],  # noqa: ARG002
        heard: tuple[Rows, ...],
        local: Local,
        out: Rows | None = None,
    ) -> tuple[Rows, Rows]:
        """Return x with what z and twice the flow say, and z with the flow."""
        (flow,) = heard
        gained = z + flow
        flow += gained
        there = local.descend(flow, out)
        np.subtract(x, there, out=there)
        return there, gained

    @staticmethod
    def _modes(a: Array, l: Array) -> Array:  # noqa: E741 - the letters of the formula
        # 1 - d with d^2 - d (2l + a) + l = 0
        return paces.largest_root(2 - a - 2 * l, 1 - a - l)


@dataclass(frozen=True)
class _Coupled(PrimalDual):
    """Methods whose pace is c and whose P is each node's own."""

    metric: Literal["scalar", "hessian"] = "scalar"
    coupling: float | None = None
    safety: float | None = None

    def __post_init__(self) -> None:
        check_pace(self.coupling, "coupling")
        if not isinstance(self.metric, str) or self.metric not in ("scalar", "hessian"):
            raise InvalidMethod(
                f"The metric is {self.metric!r}.", remedy='Use "scalar" or "hessian".'
            )
        check_pace(self.safety, "safety")
        if self.safety is not None and self.safety >= 1:
            raise InvalidMethod(
                f"The safety is {self.safety}, but nothing is stable from 1 on.",
                remedy="Use a number below 1, such as 0.5 where curvatures may be twice as large.",
            )

    @property
    def given(self) -> float | None:
        """The coupling c."""
        return self.coupling

    @property
    def wants_matrix(self) -> bool:  # type: ignore[override]
        """Only a matrix metric needs a bound on the Hessian."""
        return self.metric == "hessian"

    def first_pace(self, conditions: Conditions) -> StepChoice:
        """Return the c at which the slowest mode of the network is fastest."""
        return self._chosen(conditions, 0)

    def next_pace(self, current: float, conditions: Conditions, since: int) -> StepChoice | None:
        """Return the c for these nodes and this graph, if it is another one."""
        chosen = self._chosen(conditions, since)
        return None if chosen.value == current else chosen

    def _chosen(self, conditions: Conditions, since: int) -> StepChoice:
        chosen = self._scanned(conditions, since)
        if not self.wants_matrix:
            return chosen
        numbers = replace(self, metric="scalar")._scanned(conditions.of_numbers, since)
        return paces.between(chosen, numbers, conditions)

    def _scanned(self, conditions: Conditions, since: int) -> StepChoice:
        return paces.chosen(
            conditions, since, modes=self._modes, metric=self._any_metric, fastest=1 / _HELD
        )

    def _any_metric(self, curvature: Array, spread: PerNode) -> Array:
        """Return P, infinite where there is neither curvature nor mixing: nothing moves there."""
        P = self._metric(curvature, spread)
        return np.where(P > 0, P, np.inf)

    def localise(
        self,
        pace: float,
        *,
        own_weight: PerNode,
        stiffness: PerNode,
        bound: Callable[[], Array | None],
    ) -> Local:
        """Return P, as its inverse: from the node's own curvature and its share of the mixing."""
        spread = 2.0 * pace * (1.0 - own_weight)
        # An array also where it is one number: vectors are multiplied with that twice as fast.
        stiffness = np.asarray(stiffness, dtype=float)
        P = self._metric(stiffness, spread)
        step = np.asarray(1.0 / np.where(P > 0, P, 1.0))
        # Where mixing asks for more than any curvature does, a matrix would be a number.
        plain = self._metric(np.zeros_like(stiffness), spread) == P
        M = bound() if self.wants_matrix and not plain.all() else None
        if M is None:
            return Local(pace, step, coupling=pace)
        values, basis = np.linalg.eigh(M)
        P = self._metric(values, spread)
        largest = P.max(axis=-1, keepdims=True)
        # Where nothing pulls, any step will do; it must not blow up what is left of rounding.
        inverse = 1.0 / np.where(_FLAT * largest < P, P, np.where(largest > 0, largest, 1.0))
        matrix = (basis * inverse[..., None, :]) @ basis.swapaxes(-1, -2)
        # Of several nodes, those whose matrix is a number go as they would alone, to the last bit.
        matrix = np.where(plain[..., None], step[..., None] * np.eye(values.shape[-1]), matrix)
        return Local(pace, step, np.ascontiguousarray(matrix), coupling=pace)

    def own_step(self, pace: float, smoothness: float) -> float:
        """Return one over its smoothness, whatever the coupling."""
        _ = pace
        return 1.0 / smoothness if smoothness else 1.0

    @property
    def _least(self) -> float:
        """What M is divided by: twice the safety."""
        return 2 * (SAFETY[self.metric] if self.safety is None else self.safety)

    @abstractmethod
    def _metric(self, curvature: Array, spread: PerNode) -> Array:
        """Return P for curvatures up to these; ``spread`` is 2c(1 - w_ii), a bound of c(I - W)."""


@dataclass(frozen=True)
class NIDS(_Coupled, _AdaptThenCombine):
    """NIDS with a metric of every node's own: half the bytes of gradient tracking, and faster.

    m = x - z/P;  s+ = s + c (I - W) m;  x+ = m - c (I - W) m/P,
    P = max(M/(2 safety), 1.58 c (1 - w_ii)).
    There is no global step: an heir raises its own P, and no other node slows down.

    Args:
        metric: "scalar" for M = b, the largest curvature of the node's loss; "hessian" for a matrix
            above its Hessian, where the loss has one cheaply: faster where curvatures differ by
            direction. A round then costs dim^2 more per node.
        coupling: c; None chooses it for every epoch, from curvatures and the graph.
        safety: how much of what is stable a node uses: below 1, and 0.5 where M is a guess that may
            be too small by a factor of two. None is 0.95 for a number and 0.7 for a matrix.
    """

    label: ClassVar[str] = "NIDS"

    def _metric(self, curvature: Array, spread: PerNode) -> Array:
        return np.maximum(curvature / self._least, _HELD * spread)


@dataclass(frozen=True)
class ADMM(_Coupled, _CombineThenAdapt):
    """Linearised decentralized ADMM (DLM), in node form, with a metric of every node's own.

    s+ = s + c (I - W) x;  x+ = x - (z + 2 c (I - W) x)/P,
    P = M/(2 safety) + 1.58 c (1 - w_ii).

    Args:
        metric: as in ``NIDS``.
        coupling: c; None chooses it for every epoch, from curvatures and the graph.
        safety: as in ``NIDS``.
    """

    label: ClassVar[str] = "ADMM"

    def _metric(self, curvature: Array, spread: PerNode) -> Array:
        return np.asarray(curvature / self._least + _HELD * spread)


@dataclass(frozen=True)
class _Stepped(OneStep, PrimalDual):
    """Methods with one step alpha for all nodes: P = 1/alpha, c = mixing/alpha."""

    def localise(
        self,
        pace: float,
        *,
        own_weight: PerNode,  # noqa: ARG002 - one step and one coupling for all
        stiffness: PerNode,  # noqa: ARG002
        bound: Callable[[], Array | None],  # noqa: ARG002
    ) -> Local:
        """Return the step, and the coupling that goes with it."""
        return Local(pace, pace, coupling=self._mixing / pace)

    def first_pace(self, conditions: Conditions) -> StepChoice:
        """Return the step at which the slowest mode of the network is fastest."""
        safe = self._safe(conditions)
        return paces.fastest_step(conditions, safe=safe, mixing=self._mixing, modes=self._modes)

    def _safe(self, conditions: Conditions) -> float:
        smoothness = max(conditions.stiffness.values())
        return steps.safe_step(
            smoothness=smoothness, limit=self._limit(conditions), safety=SAFETY["scalar"]
        )

    @property
    @abstractmethod
    def _mixing(self) -> float:
        """What part of the difference to its neighbours a node takes up in a round."""

    @staticmethod
    @abstractmethod
    def _limit(conditions: Conditions) -> float:
        """Return what step times smoothness must stay below."""


@dataclass(frozen=True)
class ExactDiffusion(_Stepped, _AdaptThenCombine):
    """Exact diffusion (D2): NIDS with one step for all nodes.

    m = x - step z;  x+ = m - mixing (I - W) m;  s+ = s + mixing (I - W) m/step.

    It is stable for steps below 2/L where l = mixing (1 - w) < 4/3, w being the smallest eigenvalue
    of W: a mode with a = step h keeps 1 - d of itself, d^2 - d (2l + a(1 - l)) + l = 0, and 4/3 is
    what l may be for every a from 0 to 2 (for a <= 4/3 it may be 1 + 1/(3 - 2a)). As w > -1 on
    every graph, 2/3 is the largest mixing that is stable on all of them, those that departures
    leave included.

    Args:
        step: the step of every node; None picks one that is stable for the stiffest.
        mixing: what part of the difference to its neighbours a node takes up in a round. 1/2 is
            the textbook's exact diffusion; 1 is D2, which diverges where w <= -1/3.
    """

    mixing: float = 2 / 3

    label: ClassVar[str] = "exact diffusion"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_pace(self.mixing, "mixing")
        if self.mixing is None or self.mixing > 1:
            raise InvalidMethod(
                f"The mixing is {self.mixing!r}.",
                remedy="Use a number up to 2/3, which is stable on every graph, or up to 1 where "
                "the weights have no eigenvalue below 1 - 4/(3 mixing).",
            )

    @property
    def _mixing(self) -> float:
        return self.mixing

    @staticmethod
    def _limit(conditions: Conditions) -> float:
        _ = conditions  # the mixing sees to the graph
        return 2.0


@dataclass(frozen=True)
class EXTRA(_Stepped, _CombineThenAdapt):
    """EXTRA: x+ = W x - step z, s+ = s + (I - W) x/(2 step).

    Args:
        step: the step of every node; None picks one that is stable for the stiffest on this graph.
    """

    label: ClassVar[str] = "EXTRA"

    @property
    def _mixing(self) -> float:
        return 0.5

    @staticmethod
    def _limit(conditions: Conditions) -> float:
        return (5.0 + 3.0 * conditions.smallest_eigenvalue) / 4.0
