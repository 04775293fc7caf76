"""Wills beyond the paper: anchored where the optimum is going to be, curved along the way there.

To first order the bias of a legacy H~ at an anchor y is proportional to (H~ - H)(y - x*). So
(a) the anchor is extrapolated towards x*, and (b) the curvature is made right along the drift, the
directions in which y - x* can be expected to lie. Top eigenvectors aim at the wrong subspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from bequest.core import sketch
from bequest.core.anchors import LEAST_PAIRS
from bequest.core.arrays import is_whole, norm
from bequest.core.legacy import Legacy
from bequest.errors import InvalidWill
from bequest.model.wills.base import Bequest, Will

if TYPE_CHECKING:
    from bequest.core.anchors import Prediction
    from bequest.core.arrays import Matrix, Vector
    from bequest.model.wills.base import Estate


@dataclass(frozen=True)
class Drift(Will):
    """Anchor at the predicted optimum, with the curvature that the loss has along the drift.

    Where the own path does not predict the optimum reliably (too short, or bent too much) the
    anchor is the iterate, as in Consensus; where it wanders about, as it does under stochastic
    gradients, the anchor is the middle of where it wanders. Everything sent is of constant size:
    what a leaver had inherited is compressed together with its own loss.

    Args:
        rank: how many directions get their own curvature; the farewell has 2 + rank vectors.
            With 0 the curvature is isotropic, and that along the drift. Where the whole Hessian
            is no dearer, from (dim + 1)/2 on, it is sent instead.
        hessian: ``"products"`` uses rank Hessian-vector products (finite differences of gradients
            where a loss has none); ``"secant"`` uses gradients alone, over the length of the
            drift, for losses whose gradients are only accurate to a few digits. Products that
            no loss of this curvature can have are not believed; then gradients are used.

    Beyond the paper (its "second-order legacies"). Every curvature sent lies within the loss's
    own range [a, b], by construction (core.sketch).
    """

    rank: int = 0
    hessian: Literal["products", "secant"] = "products"
    label: ClassVar[str] = "drift"

    def __post_init__(self) -> None:
        if not is_whole(self.rank, least=0):
            raise InvalidWill(f"Drift(rank={self.rank!r}).", remedy="Use a whole number >= 0.")
        if self.hessian not in ("products", "secant"):
            raise InvalidWill(
                f"Drift(hessian={self.hessian!r}).", remedy='Use "products" or "secant".'
            )

    @property
    def title(self) -> str:
        """Its label and the size of its farewells."""
        how = ", secant" if self.hessian == "secant" else ""
        return f"{self.label} ({2 + self.rank} vectors{how})"

    @property
    def needs_history(self) -> bool:
        """The drift is read off the node's own path."""
        return True

    @property
    def by_gradients(self) -> bool:
        """The secant variant never asks for a Hessian."""
        return self.hessian == "secant"

    def decide(self, estate: Estate) -> Bequest:
        """Return the legacy at the predicted optimum, or at the iterate."""
        if not self.by_gradients and self.rank >= whole_hessian(estate.objective.dim):
            return FullHessian().decide(estate)  # no dearer, and nothing is left out
        believed = estate.foresee(by_gradients=self.by_gradients)
        path = estate.recent
        if not believed and not (self.rank and path is not None and path.drifts):
            return _without_prediction(estate, self.rank)
        anchor = believed[0].point if believed else estate.x
        Q = _drift(estate, believed, self.rank)
        legacy = self._legacy(estate, anchor, Q)
        where = (
            f"anchored {norm(anchor - estate.x):.3g} ahead of the iterate"
            if believed
            else "no steady prediction, so anchored at the iterate"
        )
        curved = f"curvature {legacy.eta:.3g}" + (
            f" and {legacy.rank} directions" * bool(self.rank)
        )
        along = Q if Q.shape[1] else None
        return Bequest("drift", f"{where}, {curved}", legacy, anchor, rank=self.rank, along=along)

    def _legacy(self, estate: Estate, anchor: Vector, Q: Matrix) -> Legacy:
        loss, curvature = estate.objective, estate.objective.curvature
        if not Q.shape[1]:
            return estate.anchored_at(anchor)
        if not self.rank:
            s = anchor - estate.x
            bend = float(s @ (loss.gradient(anchor) - estate.gradient) / (s @ s))
            return estate.anchored_at(anchor, _within(bend, curvature.a, curvature.b))
        for how in ("products", "secant") if self.hessian == "products" else ("secant",):
            product = self._products(estate, anchor, Q, how)
            if sketch.is_plausible(product, Q, low=curvature.a, high=curvature.b):
                factor = sketch.nystrom(product, Q, low=curvature.a, high=curvature.b)
                return estate.anchored_at(anchor, curvature.a, factor)
        return estate.anchored_at(anchor)

    @staticmethod
    def _products(estate: Estate, anchor: Vector, Q: Matrix, how: str) -> Matrix:
        """Return H Q, by Hessian-vector products or by gradients over the length of the drift."""
        loss = estate.objective
        if how == "products":
            columns = [loss.hvp(anchor, q) for q in Q.T]
        else:
            here, length = loss.gradient(anchor), _length(estate, anchor)
            columns = [(loss.gradient(anchor + length * q) - here) / length for q in Q.T]
        return np.array(columns).reshape(Q.shape[::-1]).T


@dataclass(frozen=True)
class FullHessian(Will):
    """Anchor at the predicted optimum, with the whole Hessian: exact for quadratics.

    The farewell has 2 + (d + 1)/2 vectors; worth it where that is no more than a sketch costs.

    Beyond the paper.
    """

    label: ClassVar[str] = "full Hessian"

    @property
    def needs_history(self) -> bool:
        """The anchor is read off the node's own path."""
        return True

    def decide(self, estate: Estate) -> Bequest:
        """Return the second-order Taylor polynomial, its spectrum within [a, b]."""
        believed = estate.foresee()
        anchor = believed[0].point if believed else estate.x
        curvature = estate.objective.curvature
        hessian = estate.objective.hessian(anchor)
        everywhere = np.eye(anchor.size)
        plausible = sketch.is_plausible(hessian, everywhere, low=curvature.a, high=curvature.b)
        wanders = estate.recent is not None and not estate.recent.drifts
        if not plausible or (wanders and not believed):
            return _without_prediction(estate, rank=None)
        values, basis = np.linalg.eigh((hessian + hessian.T) / 2)
        above = np.clip(values, curvature.a, curvature.b) - curvature.a
        factor = basis[:, above > 0] * np.sqrt(above[above > 0])
        where = (
            f"anchored {norm(anchor - estate.x):.3g} ahead of the iterate"
            if believed
            else "anchored at the iterate"
        )
        legacy = estate.anchored_at(anchor, curvature.a, factor)
        return Bequest("full", f"{where}, with the whole Hessian", legacy, anchor)


@dataclass(frozen=True)
class Budget(Will):
    """The best will whose farewell has at most that many vectors.

    The whole Hessian where it fits, otherwise the sketch with as many directions as fit.

    Args:
        vectors: how many vectors of the problem's dimension a farewell may have; at least 2.
    """

    vectors: float
    label: ClassVar[str] = "budget"

    def __post_init__(self) -> None:
        number = isinstance(self.vectors, int | float | np.number)
        number = number and not isinstance(self.vectors, bool)
        if not (number and self.vectors >= 2 and np.isfinite(self.vectors)):
            raise InvalidWill(
                f"Budget(vectors={self.vectors!r}).",
                remedy="Use at least 2: the linear term of the legacy, and the surplus.",
            )

    @property
    def title(self) -> str:
        """Its label and the budget."""
        return f"{self.label} ({self.vectors:g} vectors)"

    @property
    def needs_history(self) -> bool:
        """Whatever fits is anchored at a prediction."""
        return True

    def choose(self, dim: int) -> Drift | FullHessian:
        """Return the will that fits in that dimension."""
        if self.vectors >= 2 + whole_hessian(dim):
            return FullHessian()
        return Drift(rank=min(int(self.vectors - 2), dim))

    def decide(self, estate: Estate) -> Bequest:
        """Return what the chosen will decides."""
        return self.choose(estate.objective.dim).decide(estate)


def whole_hessian(dim: int) -> float:
    """Return how many vectors a symmetric matrix fills."""
    return (dim + 1) / 2


def _drift(estate: Estate, believed: list[Prediction], rank: int) -> Matrix:
    """Return an orthonormal basis of where the anchor's error is to be expected.

    Ahead of the iterate; between the two best predictions, which differ by about their errors;
    and back along the path.
    """
    directions = []
    if believed:
        directions.append(believed[0].point - estate.x)
        directions += [other.point - believed[0].point for other in believed[1:2]]
    if estate.recent is not None:
        directions += list(-np.diff(estate.recent.X, axis=0))
    Q = sketch.orthonormal(directions, rank=max(rank, 1))
    return Q if Q.size else np.empty((estate.x.size, 0))


def _length(estate: Estate, anchor: Vector) -> float:
    """Return how long the drift is: ahead to the anchor, or else back along the path."""
    ahead = norm(anchor - estate.x)
    if ahead > 0 or estate.recent is None:
        return ahead or 1.0
    return norm(estate.x - estate.recent.X[-1]) or 1.0


def _within(bend: float, low: float, high: float) -> float:
    """Return the curvature, clipped to what it can be; the midpoint if it is not a number."""
    return float(np.clip(bend, low, high)) if np.isfinite(bend) else (low + high) / 2


def _without_prediction(estate: Estate, rank: int | None) -> Bequest:
    """Return an isotropic memory: in the middle of a path that wanders, else at the iterate."""
    path = estate.recent
    long_enough = path is not None and len(path) >= LEAST_PAIRS
    if path is not None and long_enough and not path.drifts:
        legacy, anchor = _averaged(estate, path.X)
        why = f"the path leads nowhere, so averaged over {len(path)} of its points"
        return Bequest("average", why, legacy, anchor, rank=rank)
    why = "no steady prediction" if long_enough else "too few rounds to predict the optimum"
    why += ", so anchored at the iterate with the midpoint curvature"
    return Bequest("consensus", why, estate.anchored_at(estate.x), estate.x, rank=rank)


def _averaged(estate: Estate, X: Matrix) -> tuple[Legacy, Vector]:
    """Return the legacy at the mean of these points with the mean of the gradients there.

    What a path that wanders about has in common is the optimum it wanders around. Both noises are
    averaged out: that of the iterate, and that of the gradients, where they are stochastic.
    """
    anchor = X.mean(axis=0)
    legacy = Legacy.anchored(
        estate.node,
        anchor=anchor,
        value=estate.objective.value(anchor),
        gradient=np.mean([estate.objective.gradient(x) for x in X], axis=0),
        eta=estate.objective.curvature.midpoint,
    )
    return legacy, anchor
