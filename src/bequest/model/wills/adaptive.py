"""The default: as much as a farewell may weigh, or the branch that promises the smallest bias."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal

from bequest.core import bounds
from bequest.core.arrays import norm
from bequest.errors import InvalidWill
from bequest.model.wills.base import Bequest, Branch, Choice, Will
from bequest.model.wills.drift import Budget, Drift, FullHessian, check_vectors, whole_hessian
from bequest.model.wills.observed import LARGEST, displacements
from bequest.model.wills.paper import anchored, pilot_of
from bequest.model.wills.replay import Replay
from bequest.model.wills.trust import Trust

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.model.wills.base import Estate


# In the order in which ties are decided. By default the first two are chosen from: where the
# rule says local or none, that is the better choice too rarely (`bequest reproduce robustness`).
BRANCHES: tuple[Branch, ...] = ("drift", "consensus", "local", "none")
_CALIBRATED = BRANCHES[:2]
# Without a prediction that can be believed, branches that ignore where the network is have to
# promise this many times less displacement than the others.
_CAUTION = 2.0
# What a sketch would have cost where the whole Hessian is sent: that of so many directions.
_FEW = 2


@dataclass(frozen=True)
class Adaptive(Will):
    """As much curvature as a farewell may weigh; with two vectors, the branch of smallest bias.

    Better content beats better choosing: with the whole Hessian (up to 15 unknowns) or eight
    directions of it a memory is hardly ever worse than none, however early the exit
    (`bequest reproduce robustness`). The record says what one, two and more vectors would have
    cost. Two are sent where a loss is curved alike in all directions.

    With ``rule="certified"`` it is the paper's Legacy-GT; the other two rules go by names of their
    own, and know two vectors only. In the convex regime (C) two vectors are always anchored at the
    iterate, the anchor thm:cvx is about; with more the content is the same as elsewhere, and no
    slope of it is without curvature. thm:cvx says nothing about that: ``Consensus`` is what it is
    about.

    Args:
        rule: ``"observed"`` predicts from what the node itself can see how far each branch would
            move the optimum. ``"certified"`` compares the paper's bounds, computed from a pilot
            run; ``"oracle"`` compares the same bounds with true distances to x*, which only a
            study knows. Ties go to the branch named first.
        vectors: how many vectors of the problem's dimension a farewell may have, 2 or more, under
            the observed rule; the rest of the message, the surplus, is one of them.
        branches: what the observed rule chooses from: ``"drift"`` (the predicted optimum, see
            Budget), ``"consensus"`` (the iterate), ``"local"`` (the local track) and ``"none"``. By
            default the first two where there are two vectors, and the first alone where there are
            more: the evidence for forgetting, and for the local track, is not good enough. The
            other two rules know the paper's three only.
        drop: the certified rule's bound of leaving no legacy: ``"heterogeneity"`` (eq:anchor) or
            the sharper ``"sensitivity"`` (rem:hr).
        statistics: whether statistics of the samples may be handed over (``Replay``), under the
            observed rule. They are where no prediction of the optimum can be believed and the loss
            is no quadratic: early, with minibatches, for neural networks. See what they reveal.

    Paper: eq:anchor, cor:selective, rem:noanchor; the oracle's distances are those of Sec. 5.1.
    Deviates: the observed rule and the drift branch are beyond the paper.
    """

    rule: Literal["observed", "certified", "oracle"] = "observed"
    vectors: float = 10.0
    branches: tuple[Branch, ...] | None = None
    drop: Literal["heterogeneity", "sensitivity"] = "heterogeneity"
    statistics: bool = False
    label: ClassVar[str] = "adaptive"

    def __post_init__(self) -> None:
        for name, given, known in (
            ("rule", self.rule, ("observed", "certified", "oracle")),
            ("drop", self.drop, ("heterogeneity", "sensitivity")),
        ):
            if given not in known:
                raise InvalidWill(
                    f"Adaptive({name}={given!r}).", remedy=f"Use one of {', '.join(known)}."
                )
        check_vectors("Adaptive", self.vectors)
        object.__setattr__(self, "vectors", float(self.vectors))
        named = self.offered if isinstance(self.offered, tuple) else ()
        known_once = all(branch in BRANCHES and named.count(branch) == 1 for branch in named)
        if not named or not known_once:
            raise InvalidWill(
                f"Adaptive(branches={self.branches!r}).",
                remedy=f"Use a tuple of some of {', '.join(BRANCHES)}, each at most once.",
            )
        if self.rule != "observed" and self.branches is not None:
            raise InvalidWill(
                f"Adaptive(rule={self.rule!r}) with branches={self.branches!r}.",
                remedy="Only the observed rule can choose from other branches than the paper's.",
            )
        for name, default, user in (
            ("vectors", 10, "observed"),
            ("drop", "heterogeneity", "certified"),
            ("statistics", False, "observed"),
        ):
            value = getattr(self, name)
            if self.rule != user and value != default:
                raise InvalidWill(
                    f"Adaptive(rule={self.rule!r}) with {name}={value!r}, which it does not use.",
                    remedy=f'Leave {name} out, or use rule="{user}".',
                )

    @property
    def offered(self) -> tuple[Branch, ...]:
        """What the observed rule chooses from."""
        if self.branches is not None:
            return self.branches
        return _CALIBRATED if self.vectors < 3 else BRANCHES[:1]

    @property
    def title(self) -> str:
        """What it is called under its rule: the paper's name is for the paper's rule."""
        if type(self) is not Adaptive:
            return self.label
        usual = self.vectors == type(self).vectors
        size = self.label if usual else f"{self.label} ({self.vectors:g} vectors)"
        return {"certified": "certified (Legacy-GT)", "oracle": "oracle"}.get(self.rule, size)

    @property
    def tells_statistics(self) -> bool:
        """Only if it was allowed to."""
        return self.statistics

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

    @property
    def needs_history(self) -> bool:
        """What can be observed is the node's own path."""
        return self.rule == "observed"

    def decide(self, estate: Estate) -> Bequest:
        """Return the branch with the smallest bias, promised or predicted."""
        bent, unsure = estate.setting.mu < 0, not estate.believed
        if self.statistics and (bent or unsure) and not estate.objective.constant_hessian:
            return Replay().decide(estate)
        if bent:  # a quadratic of a network holds near where it was made, if at all
            return replace(Trust().decide(estate), rank=self._rank)
        content = self.rule == "observed" and self.offered == BRANCHES[:1]
        if estate.setting.mu == 0 and not content:
            why = "anchored at the iterate, as thm:cvx asks in the convex regime"
            at_iterate = anchored(estate, "consensus", why)
            return replace(at_iterate, rank=self._rank if self.rule == "observed" else None)
        if self.rule == "observed":
            return self._spend(estate) if content else self._observe(estate)
        costs = self._oracle(estate) if self.rule == "oracle" else self._certified(estate)
        compared = {branch: self._bequest(estate, branch) for branch in costs}
        choice = min(costs, key=lambda branch: costs[branch])  # the first of equals
        return replace(
            compared[choice],
            why=f"smallest {self.rule} bound of {_listed(costs)}",
            bounds=costs,
            branches={branch: bequest.legacy for branch, bequest in compared.items()},
        )

    @property
    def _rank(self) -> int:
        """What is passed on keeps so many directions."""
        return int(self.vectors - 2)

    def _spend(self, estate: Estate) -> Bequest:
        """Return what the vectors allow, and what every other size would have cost instead.

        That they would do at the optimum as it is now does not make them enough: a node that joins
        or is forgotten later moves it, and then what is missing of the curvature is missed. Only
        where a loss is curved alike in all directions do two vectors hold all there is.
        """
        large = Budget(self.vectors).decide(estate)
        if large.choice == "drift":
            large = replace(large, choice="sketch")
        if large.legacy is None or not large.legacy.rank:
            return large
        sizes = [Bequest("none", ""), Drift().decide(estate), large, *_others(estate, large)]
        legacies = {one.choice: one.legacy for one in sizes}
        weights = {
            choice: 1.0 if legacy is None else 1 + legacy.vectors
            for choice, legacy in legacies.items()
        }
        legacies = {choice: legacies[choice] for choice in sorted(weights, key=weights.__getitem__)}
        predicted = displacements(estate, legacies)
        told = ", ".join(
            f"by {predicted[choice]:.2g} with {_counted(weights[choice])}" for choice in legacies
        )
        return replace(
            large,
            why=f"{large.why}; predicted to move the optimum {told}",
            predicted=predicted,
            branches=legacies,
        )

    def _observe(self, estate: Estate) -> Bequest:
        compared: dict[Choice, Bequest] = {
            branch: self._bequest(estate, branch) for branch in self.offered
        }
        legacies = {branch: bequest.legacy for branch, bequest in compared.items()}
        predicted = displacements(estate, legacies)
        # Where nothing can be believed, ignoring where the network is must be clearly better.
        caution = 1.0 if estate.believed else _CAUTION
        handicap = {"none": caution, "local": caution}
        choice = min(predicted, key=lambda branch: predicted[branch] * handicap.get(branch, 1.0))
        chosen = compared[choice]
        detail = f" ({chosen.why})" if choice == "drift" else ""
        return replace(
            chosen,
            why=f"smallest predicted displacement of {_listed(predicted)}{detail}",
            predicted=predicted,
            branches=legacies,
            rank=chosen.rank if choice == "drift" else self._rank,
        )

    def _bequest(self, estate: Estate, branch: Choice) -> Bequest:
        if branch == "none":
            return Bequest("none", "")
        if branch == "drift":
            # This is the branch that was taken, even if it falls back to another.
            drifted = Budget(self.vectors).decide(estate)
            return replace(drifted, choice="drift")
        return anchored(estate, branch, "")

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
        pilot, setting, curvature = pilot_of(estate), estate.setting, estate.objective.curvature
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


def _others(estate: Estate, large: Bequest) -> list[Bequest]:
    """Return the sizes beside two vectors that were not sent: a sketch, or the whole Hessian.

    Where a Hessian has a formula: what is only said should not take many gradients.
    """
    loss = estate.objective
    if loss.hessian_work == math.inf or loss.dim > LARGEST:
        return []
    if large.choice != "full":
        return [FullHessian().decide(estate)]
    if whole_hessian(loss.dim) <= _FEW:
        return []  # no dearer
    return [replace(Drift(_FEW).decide(estate), choice="sketch")]


def _counted(vectors: float) -> str:
    """Write a number of vectors."""
    return f"{vectors:g} vector{'s' if vectors != 1 else ''}"


def _listed(costs: Mapping[Choice, float]) -> str:
    return ", ".join(f"{branch} {cost:.3g}" for branch, cost in costs.items())
