"""What a leaver decides to bequeath.

A will decides once, at the departure, from its estate alone: its own loss, its own iterate,
what it inherited, and what everybody in the run knows (rem:frozen).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from bequest.core import anchors, bounds
from bequest.core.arrays import norm
from bequest.core.legacy import Legacy
from bequest.errors import InvalidWill

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.core.bounds import Pilot
    from bequest.model.objectives.base import Objective

Choice: TypeAlias = Literal["classic", "none", "consensus", "local", "point"]
Handoff: TypeAlias = Literal["exact", "printed"]


@dataclass(frozen=True, slots=True)
class Setting:
    """What everybody in a run knows.

    ``pilot`` is there if some will asked for it. ``optimum`` is the oracle: known in studies,
    never in the field, and given only to wills that say they need it.
    """

    n: int
    mu: float
    kappa: float
    step: float
    pilot: Pilot | None
    optimum: Vector | None


@dataclass(frozen=True)
class Estate:
    """What a leaver has when it writes its will; ``remaining`` nodes stay behind."""

    node: int
    round: int
    remaining: int
    objective: Objective
    x: Vector
    start: Vector
    setting: Setting

    @cached_property
    def gradient(self) -> Vector:
        """The own gradient at the iterate."""
        return self.objective.gradient(self.x)

    @cached_property
    def local_track(self) -> Vector:
        """u: where its own descent has led it by now (alg:lgt)."""
        return anchors.local_track(
            self.objective.gradient,
            self.start,
            smoothness=self.objective.curvature.b,
            rounds=self.round,
        )

    def anchored_at(self, anchor: Vector) -> Legacy:
        """Return the legacy with the midpoint curvature at that anchor (eq:legacy, lem:center)."""
        return Legacy.anchored(
            self.node,
            anchor=anchor,
            value=self.objective.value(anchor),
            gradient=self.objective.gradient(anchor),
            eta=self.objective.curvature.midpoint,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Bequest:
    """A will's decision about the leaver's OWN loss; what it inherited is passed on as it is.

    Attributes:
        choice: which branch was taken.
        why: in words.
        legacy: the memory of the own loss, or None.
        anchor: where that memory is exact.
        bounds: what each branch was expected to cost, in units of the final error.
        handoff: ``"exact"``; ``"printed"`` for the paper's correction; ``"restart"`` if nothing is
            handed over and every survivor restarts its tracker.
    """

    choice: Choice
    why: str
    legacy: Legacy | None = None
    anchor: Vector | None = None
    bounds: Mapping[Choice, float] = field(default_factory=dict)
    handoff: Handoff | Literal["restart"] = "exact"


class Will(ABC):
    """The policy that decides what a leaver bequeaths."""

    label: ClassVar[str]

    @property
    def needs_pilot(self) -> bool:
        """Whether it reads ``Setting.pilot``."""
        return False

    def needs_pilot_in(self, regime: str) -> bool:  # noqa: ARG002 - most wills do not care
        """Whether it reads ``Setting.pilot`` in that regime, ``"SC"`` or ``"C"``."""
        return self.needs_pilot

    @property
    def needs_oracle(self) -> bool:
        """Whether it reads ``Setting.optimum``."""
        return False

    @property
    def needs_spread(self) -> bool:
        """Whether it reads ``Pilot.spread``, which costs a minimisation per node."""
        return False

    @abstractmethod
    def decide(self, estate: Estate) -> Bequest:
        """Return what happens to the leaver's own loss."""


@dataclass(frozen=True)
class Classic(Will):
    """Drop and forget: the leaver is gone, every survivor restarts its tracker.

    The baseline of every comparison. Whatever the leaver had inherited is lost with it.

    Paper: eq:dropbias, Sec. 5.1.
    """

    label: ClassVar[str] = "classic"

    def decide(self, estate: Estate) -> Bequest:  # noqa: ARG002 - it forgets without looking
        """Return nothing at all."""
        return Bequest("classic", "drop and restart", handoff="restart")


@dataclass(frozen=True)
class Forgetful(Will):
    """No legacy of the own loss, but an exact hand-off of the surplus and of what was inherited.

    Paper: alg:lgt, the no-legacy branch. Deviates: the paper's throws the inherited away too.
    """

    label: ClassVar[str] = "forgetful"

    def decide(self, estate: Estate) -> Bequest:  # noqa: ARG002 - it forgets without looking
        """Return no legacy."""
        return Bequest("none", "forgets its own loss, as asked")


@dataclass(frozen=True)
class Consensus(Will):
    """GT-C: anchor at the iterate. The later the exit, the better the memory.

    Paper: Sec. 2 (GT-C), thm:main.
    """

    handoff: Handoff = "exact"
    label: ClassVar[str] = "consensus (GT-C)"

    def __post_init__(self) -> None:
        _check_handoff(self.handoff)

    def decide(self, estate: Estate) -> Bequest:
        """Return the legacy at x."""
        return _anchored(estate, "consensus", "anchored at the iterate, as asked", self.handoff)


@dataclass(frozen=True)
class LocalTrack(Will):
    """GT-M: anchor where the node's own descent has led it. Independent of how early the exit is.

    Paper: Sec. 2 (GT-M), thm:main.
    """

    handoff: Handoff = "exact"
    label: ClassVar[str] = "local track (GT-M)"

    def __post_init__(self) -> None:
        _check_handoff(self.handoff)

    def decide(self, estate: Estate) -> Bequest:
        """Return the legacy at u."""
        return _anchored(estate, "local", "anchored at the local track, as asked", self.handoff)


@dataclass(frozen=True)
class PointOnly(Will):
    """GT-P: a penalty eta/2 |x - y|^2 toward the iterate; it reveals no gradient in its legacy.

    eta = |grad f(y)| / eps(t), with eps from the pilot, and at most cap/step: an uncapped weight
    outgrows any fixed step in the end (``cap=None`` lets it). The cap is per legacy: an heir that
    inherits from several such leavers gets as stiff as all of them together, which a fixed step
    may not survive; a chosen step is lowered instead.

    Paper: eq:etat, prop:pointonly.
    """

    cap: float | None = 0.5
    label: ClassVar[str] = "point only (GT-P)"

    def __post_init__(self) -> None:
        if self.cap is not None and not (math.isfinite(self.cap) and self.cap > 0):
            raise InvalidWill(
                f"PointOnly(cap={self.cap}).",
                remedy="Use a positive number (weights are at most cap/step), or None for no cap.",
            )

    @property
    def needs_pilot(self) -> bool:
        """The schedule eq:etat divides by the pilot's certificate."""
        return True

    def decide(self, estate: Estate) -> Bequest:
        """Return the penalty with the scheduled weight."""
        error = _pilot(estate).error(estate.round)
        pull = norm(estate.gradient)
        scheduled = pull / error if error > 0 else math.inf
        eta = scheduled if self.cap is None else min(scheduled, self.cap / estate.setting.step)
        if math.isinf(eta):
            raise InvalidWill(
                "The pilot certifies an error of zero, which asks for an infinite weight.",
                remedy="Give PointOnly a cap, or start the pilot away from the optimum.",
            )
        capped = "" if eta == scheduled else f", capped from {scheduled:.3g}"
        legacy = Legacy.anchored(
            estate.node, anchor=estate.x, value=0.0, gradient=0 * estate.x, eta=eta
        )
        why = f"weight {eta:.3g} = |grad f| {pull:.3g} / certified error {error:.3g}{capped}"
        return Bequest("point", why, legacy, estate.x)


@dataclass(frozen=True)
class Adaptive(Will):
    """Legacy-GT: anchor at the iterate, or at the local track, or leave no legacy at all.

    Whichever promises the smallest bias (ties in this order). In the convex regime (C) it is
    always the iterate, the anchor thm:cvx is about.

    Args:
        rule: ``"certified"`` compares the paper's bounds, computed from a pilot run; ``"oracle"``
            compares the same bounds with true distances to x*, which only a study knows.
        drop: the certified bound of leaving no legacy: ``"heterogeneity"`` (eq:anchor) or the
            sharper ``"sensitivity"`` (rem:hr).
        handoff: ``"exact"``, or ``"printed"`` for the ablation.

    Paper: eq:anchor, cor:selective, rem:noanchor.
    """

    rule: Literal["certified", "oracle"] = "certified"
    drop: Literal["heterogeneity", "sensitivity"] = "heterogeneity"
    handoff: Handoff = "exact"
    label: ClassVar[str] = "adaptive (Legacy-GT)"

    def __post_init__(self) -> None:
        _check_handoff(self.handoff)
        for name, given, known in (
            ("rule", self.rule, ("certified", "oracle")),
            ("drop", self.drop, ("heterogeneity", "sensitivity")),
        ):
            if given not in known:
                raise InvalidWill(
                    f"Adaptive({name}={given!r}).", remedy=f"Use one of {', '.join(known)}."
                )

    @property
    def needs_pilot(self) -> bool:
        """The certified bounds come from the pilot."""
        return self.rule == "certified"

    def needs_pilot_in(self, regime: str) -> bool:
        """In regime (C) it anchors at the iterate without asking."""
        return self.needs_pilot and regime == "SC"

    @property
    def needs_oracle(self) -> bool:
        """The oracle distances come from x*."""
        return self.rule == "oracle"

    @property
    def needs_spread(self) -> bool:
        """rem:hr needs the radius of a ball that holds every local minimiser."""
        return self.rule == "certified" and self.drop == "sensitivity"

    def decide(self, estate: Estate) -> Bequest:
        """Return the branch with the smallest bound."""
        if estate.setting.mu == 0:
            why = "anchored at the iterate, as thm:cvx asks in the convex regime"
            return _anchored(estate, "consensus", why, self.handoff)
        costs = self._oracle(estate) if self.rule == "oracle" else self._certified(estate)
        choice = min(costs, key=lambda branch: costs[branch])  # the first of equals
        shown = ", ".join(f"{branch} {cost:.3g}" for branch, cost in costs.items())
        why = f"smallest {self.rule} bound of {shown}"
        if choice == "none":
            return Bequest("none", why, bounds=costs, handoff=self.handoff)
        return _anchored(estate, choice, why, self.handoff, costs)

    def _oracle(self, estate: Estate) -> dict[Choice, float]:
        optimum = estate.setting.optimum
        if optimum is None:
            raise InvalidWill(
                'Adaptive(rule="oracle") needs the optimum, which is not known here.',
                remedy='Use rule="certified", or a problem whose optimum can be computed.',
            )
        return self._costs(
            estate,
            consensus=norm(estate.x - optimum),
            local=norm(estate.local_track - optimum),
            none=bounds.forgetting_bias(
                heterogeneity=norm(estate.objective.gradient(optimum)),
                remaining=estate.remaining,
                mu=estate.setting.mu,
            ),
        )

    def _certified(self, estate: Estate) -> dict[Choice, float]:
        pilot, setting, curvature = _pilot(estate), estate.setting, estate.objective.curvature
        error = pilot.error(estate.round)
        if self.drop == "sensitivity":
            if math.isnan(pilot.spread):
                raise InvalidWill(
                    'Adaptive(drop="sensitivity") needs a pilot whose spread was measured.',
                    remedy="Calibrate it with bequest.calibrate(..., spread=True).",
                )
            none = bounds.sensitivity_bias(
                kappa=setting.kappa, radius=pilot.spread, remaining=estate.remaining
            )
        else:
            none = bounds.forgetting_bias(
                heterogeneity=norm(estate.gradient) + curvature.b * error,
                remaining=estate.remaining,
                mu=setting.mu,
            )
        # |u - x_i*| <= |grad f_i(u)|/mu_i: what the node can see now is sharper than the rate.
        descent_left = norm(estate.objective.gradient(estate.local_track)) / curvature.a
        local = pilot.zeta / curvature.a + descent_left
        return self._costs(estate, consensus=error, local=local, none=none)

    @staticmethod
    def _costs(
        estate: Estate, *, consensus: float, local: float, none: float
    ) -> dict[Choice, float]:
        spread, setting = estate.objective.curvature.spread, estate.setting

        def bias(distance: float) -> float:
            return bounds.anchored_bias(
                spread=spread, distance=distance, n=setting.n, mu=setting.mu
            )

        return {"consensus": bias(consensus), "local": bias(local), "none": none}


def _anchored(
    estate: Estate,
    choice: Choice,
    why: str,
    handoff: Handoff,
    costs: Mapping[Choice, float] | None = None,
) -> Bequest:
    anchor = estate.local_track if choice == "local" else estate.x
    return Bequest(choice, why, estate.anchored_at(anchor), anchor, costs or {}, handoff)


def _pilot(estate: Estate) -> Pilot:
    if estate.setting.pilot is None:
        raise InvalidWill(
            "This will needs a pilot, and the run has none.",
            remedy="Pass pilot=bequest.calibrate(problem, graph, rounds=...) to solve.",
        )
    return estate.setting.pilot


def _check_handoff(handoff: str) -> None:
    if handoff not in ("exact", "printed"):
        raise InvalidWill(
            f"handoff={handoff!r}.", remedy='Use "exact", or "printed" for the ablation.'
        )


def check_wills(will: object, *, n: int) -> None:
    """Refuse what is not a will, and wills of somebody who does not exist (a slip, unnoticed)."""
    if not isinstance(will, Mapping):
        will = {None: will}
    for node, one in will.items():
        if not isinstance(one, Will):
            raise InvalidWill(
                f"{one!r} is not a will.",
                remedy="Pass one of bequest.wills, e.g. wills.Adaptive().",
            )
        if node is not None and node not in range(n):
            raise InvalidWill(
                f"There is a will for node {node!r}, who does not exist.",
                remedy=f"Nodes are numbered 0..{n - 1}; the default has the key None.",
            )


def will_of(will: Will | Mapping[int | None, Will], node: int) -> Will:
    """Return the will of one node: its own if it has one, the default (key None) otherwise."""
    if isinstance(will, Will):
        return will
    chosen = will.get(node, will.get(None))
    if chosen is None:
        raise InvalidWill(
            f"Node {node} leaves, but has no will and there is no default.",
            remedy="Add it to the mapping, or a default under the key None.",
        )
    return chosen
