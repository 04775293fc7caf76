"""Wills beyond the paper: anchored where the optimum is going to be, curved along the way there.

To first order the bias of a legacy H~ at an anchor y is proportional to (H~ - H)(y - x*). So
(a) the anchor is extrapolated towards x*, and (b) the curvature is made right along the drift, the
directions in which y - x* can be expected to lie. Top eigenvectors aim at the wrong subspace.

Where nothing can be predicted, and the loss is no quadratic, its curvature at the iterate says
little about the optimum: where it is locally flat the legacy would run away, where it is steep it
would stay. The legacy then has the MEAN curvature around the way from the iterate to u, the
minimiser of the node's own loss. Its gradient is that of the loss at both ends, so that it pulls no
farther than the loss itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from bequest.core import sketch
from bequest.core.anchors import LEAST_PAIRS
from bequest.core.arrays import hold_as_floats, is_whole, norm
from bequest.core.legacy import Legacy
from bequest.errors import InvalidWill
from bequest.model.wills.base import Bequest, Will
from bequest.model.wills.products import (
    TURNED,
    hessian_products,
    looks_homeward,
    size_of,
    still_falling,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.curvature import Curvature
    from bequest.model.wills.base import Estate

# A way that is this much shorter than what the node has come is rounding.
_ROUNDING = 1e-10
# Curvature that differs by less than this part of the largest one is the same in all directions.
_ISOTROPIC = 1e-12
# How many directions show what a sketch leaves out, and the most it gets of the sketch's least.
_PROBES, _BELOW = 8, 0.9
# Where a memory has less than this part of the largest curvature it is taken for flat.
_FLAT = 1e-8
# No Hessian of more unknowns is put together from products.
_DENSE = 2000


@dataclass(frozen=True)
class Drift(Will):
    """Anchor at the predicted optimum, with the curvature that the loss has along the drift.

    Where the own path does not predict the optimum reliably (too short, or bent too much) the
    anchor is the iterate. The curvature there counts for quadratics only; a sketch of other losses
    is that of the mean curvature on the way to the own minimiser, and with rank 0 they get the
    midpoint, as in Consensus. Where stochastic gradients make the path wander about, the
    anchor is the middle of where it wanders. Everything sent is of constant size:
    what a leaver had inherited is compressed together with its own loss.

    Args:
        rank: how many directions get their own curvature; the farewell has 2 + rank vectors.
            With 0 the curvature is isotropic, and that along the drift. Where the whole Hessian
            is no dearer, from (dim + 1)/2 on, it is sent instead: the title says how many vectors
            a farewell may have, and ``record.vectors`` how many it had.
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
    needs_history = True  # the drift is read off the node's own path

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
    def by_gradients(self) -> bool:
        """The secant variant never asks for a Hessian."""
        return self.hessian == "secant"

    def decide(self, estate: Estate) -> Bequest:
        """Return the legacy at the predicted optimum, or at the iterate."""
        if not self.by_gradients and self.rank >= whole_hessian(estate.objective.dim):
            return FullHessian().decide(estate)  # no dearer, and nothing is left out
        if not estate.believed and (not self.rank or estate.is_noisy):
            return _without_prediction(estate, self.rank)
        Q, anchor = _drift(estate, self.rank), _anchor(estate)
        legacy = self._legacy(estate, anchor, Q)
        directions = f" and {legacy.rank} directions" if self.rank else ""
        why = f"{_where(estate)}, curvature {legacy.eta:.3g}{directions}"
        along = Q if Q.shape[1] else None
        floor = self.rank > 0 and _is_unheld(estate)
        return Bequest("drift", why, legacy, anchor, rank=self.rank, along=along, floor=floor)

    def _legacy(self, estate: Estate, anchor: Vector, Q: Matrix) -> Legacy:
        curvature = estate.objective.curvature
        if not self.rank:
            s = anchor - estate.x
            if norm(s) <= _ROUNDING * size_of(estate):
                return estate.anchored_at(anchor)  # too short a way to bend on
            bend = float(s @ (estate.objective.gradient(anchor) - estate.gradient) / (s @ s))
            return estate.anchored_at(anchor, _within(bend, curvature))
        wide, rank = _widened(estate, Q), Q.shape[1]
        product = hessian_products(estate, anchor, wide)
        if product is None:
            return estate.anchored_at(anchor)
        low = _elsewhere(estate, wide.T @ product, rank)
        factor = sketch.nystrom(product[:, :rank], Q, low=low, high=curvature.b)
        curved = sketch.orthonormal(factor.T, rank=rank) if factor.size else factor
        if low < _FLAT * curvature.b and still_falling(estate, anchor, curved) is not None:
            low = sketch.HELD * curvature.b
            factor = sketch.nystrom(product[:, :rank], Q, low=low, high=curvature.b)
        return estate.anchored_at(anchor, low, factor)


@dataclass(frozen=True)
class FullHessian(Will):
    """Anchor at the predicted optimum, with the whole Hessian: exact for quadratics.

    The farewell has 2 + (d + 1)/2 vectors; worth it where that is no more than a sketch costs.
    Where nothing can be predicted, the Hessian of other losses is the mean one on the way to the
    own minimiser. Beyond the paper.
    """

    label: ClassVar[str] = "full Hessian"
    needs_history = True  # the anchor is read off the node's own path

    def decide(self, estate: Estate) -> Bequest:
        """Return the second-order Taylor polynomial, its spectrum within [a, b]."""
        if not estate.believed and estate.is_noisy:
            return _without_prediction(estate, rank=None)
        if estate.x.size > _DENSE and not np.isfinite(estate.objective.hessian_work):
            return _without_prediction(estate, rank=None)  # no message can hold that many vectors
        anchor, curvature = _anchor(estate), estate.objective.curvature
        hessian = hessian_products(estate, anchor, np.eye(anchor.size))
        if hessian is None:
            return _without_prediction(estate, rank=None)
        values, basis = np.linalg.eigh((hessian + hessian.T) / 2)
        above = np.clip(values, curvature.a, curvature.b) - curvature.a
        if above.max() <= _ISOTROPIC * curvature.b:  # two vectors say it all
            above[:] = 0.0
        factor = basis[:, above > 0] * np.sqrt(above[above > 0])
        falling = still_falling(estate, anchor, basis[:, above > _FLAT * curvature.b])
        if falling is not None:
            factor = np.column_stack([factor, falling * np.sqrt(sketch.HELD * curvature.b)])
        legacy = estate.anchored_at(anchor, curvature.a, factor)
        return Bequest("full", f"{_where(estate)}, with the whole Hessian", legacy, anchor)


@dataclass(frozen=True)
class Budget(Will):
    """The best will whose farewell has at most that many vectors.

    The whole Hessian where it fits, otherwise the sketch with as many directions as fit.

    Args:
        vectors: how many vectors of the problem's dimension a farewell may have; at least 2.
    """

    vectors: float
    label: ClassVar[str] = "budget"
    needs_history = True  # what fits is anchored at a prediction

    def __post_init__(self) -> None:
        check_vectors("Budget", self.vectors)
        hold_as_floats(self, "vectors")

    @property
    def title(self) -> str:
        """Its label and the budget."""
        return f"{self.label} ({self.vectors:g} vectors)"

    def choose(self, dim: int) -> Drift | FullHessian:
        """Return the will that fits in that dimension."""
        if self.vectors >= 2 + whole_hessian(dim):
            return FullHessian()
        return Drift(rank=min(int(self.vectors - 2), dim))

    def decide(self, estate: Estate) -> Bequest:
        """Return what the chosen will decides."""
        return self.choose(estate.objective.dim).decide(estate)


def check_vectors(will: str, vectors: float) -> None:
    """Refuse a budget that has no room for a memory, or is no number at all."""
    number = isinstance(vectors, int | float | np.number) and not isinstance(vectors, bool)
    if not (number and vectors >= 2 and np.isfinite(vectors)):
        raise InvalidWill(
            f"{will}(vectors={vectors!r}).",
            remedy="Use at least 2: the linear term of the legacy, and the surplus.",
        )


def whole_hessian(dim: int) -> float:
    """Return how many vectors a symmetric matrix fills."""
    return (dim + 1) / 2


def _anchor(estate: Estate) -> Vector:
    return estate.believed[0].point if estate.believed else estate.x


def _where(estate: Estate) -> str:
    if not estate.believed and looks_homeward(estate):
        end = "at the own minimiser" if estate.has_own_end else "after some steps of its own"
        return f"no steady prediction, so exact at the iterate and {end}"
    if not estate.believed:
        return "no steady prediction, so anchored at the iterate"
    return f"anchored {norm(estate.believed[0].point - estate.x):.3g} ahead of the iterate"


def _drift(estate: Estate, rank: int) -> Matrix:
    """Return an orthonormal basis of where the anchor's error is to be expected.

    With a prediction: ahead of the iterate; from the anchor to what else this epoch predicts, with
    other dampings and before its latest pairs came in; and back along the path. As far as
    z = Hbar (x - x*) holds, all these predictions err by the same operator, (Hbar^-1 - B), on what
    each of them left unexplained (``anchors.predictions``): their differences are samples of the
    anchor's error. The least damped ones were the best samples.

    Without one: towards the own minimiser, downhill for the network, and back along the path.

    Directions that are rounding are left out. Where a path is too short for ``rank`` directions, or
    its end too close to the optimum, what else points somewhere comes in, and then what the Hessian
    makes of all these: it turns them to where the loss is curved most.
    """
    Q, size = sketch.orthonormal(_ways(estate), rank=max(rank, 1)), estate.x.size
    if not Q.size:
        return np.empty((size, 0))
    while Q.shape[1] < min(rank, size):
        product = hessian_products(estate, _anchor(estate), Q)
        wider = Q if product is None else sketch.orthonormal([*Q.T, *product.T], rank=rank)
        if wider.shape[1] == Q.shape[1]:
            break  # the loss bends none of these out of their span
        Q = wider
    return Q


def _ways(estate: Estate) -> Iterator[Vector]:
    """Yield the directions one by one: what is not needed is not computed."""
    x, path, least = estate.x, estate.recent, TURNED * size_of(estate)
    back = [] if path is None else list(-np.diff(path.X, axis=0))
    if estate.believed:
        anchor = _anchor(estate)
        views = [one.point for one in estate.foreseen]
        views += [before for one in estate.foreseen for before in one.earlier]
        ways = [anchor - x, *(view - anchor for view in views), *back]
        yield from (way for way in ways if norm(way) > least)
        yield from _slope(estate)
        yield from _home(estate)
    else:
        yield from _home(estate)
        yield from _slope(estate)
        yield from (way for way in back if norm(way) > least)
    yield estate.gradient
    yield x - estate.start


def _slope(estate: Estate) -> list[Vector]:
    """Return what the tracker says is uphill; nothing where it is rounding: all have settled."""
    floor = TURNED * size_of(estate) * estate.objective.curvature.b
    return [estate.z] if norm(estate.z) > floor else []


def _home(estate: Estate) -> list[Vector]:
    """Return the way to the own minimiser, or downhill if that takes a Hessian; no rounding."""
    if estate.by_gradients and estate.is_quadratic:
        return [-estate.gradient]
    way = estate.own_end - estate.x
    return [way] if norm(way) > TURNED * size_of(estate) else []


def _widened(estate: Estate, Q: Matrix) -> Matrix:
    """Return the basis with some random directions (always the same) beside those of a sketch.

    They show how a loss is curved in all that the sketch leaves out. With a prediction, or where
    the network has settled, there is nothing to be expected of it; and where there are no formulas
    for products they are too dear.
    """
    loss = estate.objective
    dear = estate.by_gradients or loss.hessian_work == np.inf
    if not Q.size or (not _is_unheld(estate) and (estate.believed or dear or not _slope(estate))):
        return Q
    probes = np.random.default_rng(1).standard_normal((_PROBES, loss.dim))
    return sketch.orthonormal([*Q.T, *probes], rank=min(Q.shape[1] + _PROBES, loss.dim))


def _is_unheld(estate: Estate) -> bool:
    """Whether a convex loss has next to no curvature from below that would hold a sketch of it."""
    curvature = estate.objective.curvature
    return estate.setting.mu >= 0 and curvature.a <= sketch.HELD * curvature.b


def _elsewhere(estate: Estate, core: Matrix, rank: int) -> float:
    """Return the curvature for all that a sketch of so many directions leaves out.

    Looked at beside it were the last directions of ``core``, Q'HQ. It is the mean there, but less
    than the sketch has in any of its own directions. Where that may be nothing, a slope could run
    away: then it is the mean of what the sketch itself leaves out there, and nothing if it leaves
    out nothing. The more nodes remain, the more of them are curved there, too, and the less of it
    is needed.
    """
    curvature = estate.objective.curvature
    if _is_unheld(estate):
        missed = sketch.left_out(core, rank, low=curvature.a, high=curvature.b)
        return _within(curvature.a + missed / max(estate.remaining, 1), curvature)
    beside = np.diagonal(core)[rank:]
    if not beside.size:
        return curvature.a
    own = core[:rank, :rank]
    least = float(np.linalg.eigvalsh((own + own.T) / 2)[0])
    return _within(min(float(beside.mean()), _BELOW * least), curvature)


def _within(bend: float, curvature: Curvature) -> float:
    """Return the curvature, clipped to what it can be; the midpoint if it is not a number."""
    return (
        float(np.clip(bend, curvature.a, curvature.b)) if np.isfinite(bend) else curvature.midpoint
    )


def _without_prediction(estate: Estate, rank: int | None) -> Bequest:
    """Return an isotropic memory: in the middle of a noisy path, else at the iterate."""
    path = estate.recent
    long_enough = path is not None and len(path) >= LEAST_PAIRS
    if path is not None and long_enough and estate.is_noisy:
        legacy, anchor = _averaged(estate, path.X)
        why = f"gradients are stochastic, so averaged over {len(path)} points of the path"
        return Bequest("average", why, legacy, anchor, rank=rank)
    why = "no steady prediction" if long_enough else "too few rounds to predict the optimum"
    why += ", so anchored at the iterate with the midpoint curvature"
    return Bequest("consensus", why, estate.anchored_at(estate.x), estate.x, rank=rank)


def _averaged(estate: Estate, X: Matrix) -> tuple[Legacy, Vector]:
    """Return the legacy at the mean of these points with the mean of the gradients there.

    What a path that wanders about has in common is the optimum it wanders around. Both noises are
    averaged out: that of the iterates and that of the gradients.
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
