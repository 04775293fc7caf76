"""The quadratic memory of the departed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from bequest.core import samples, sketch
from bequest.core.arrays import frozen, is_whole
from bequest.errors import DimensionMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.samples import Clusters, Evaluated

# Curvature this far below the largest one, left over by sums that cancel, is rounding.
_ROUNDING = 1e-14
_FLOAT = 8


@dataclass(frozen=True, slots=True, eq=False)
class Legacy:
    r"""A quadratic in canonical form, q(x) = 1/2 x'Hx + p'x + c, and the nodes it remembers.

    H = eta I + F diag(w) F': isotropic where F has no columns (the paper), a sketch where it has a
    few, a full Hessian where it has d. Legacies add and subtract exactly, so a node holds ONE
    inherited quadratic, never a list, and an heir that leaves passes on what it inherited without
    loss.

    Attributes:
        eta: curvature in every direction.
        p: linear term. With an isotropic curvature it is all the vectors a legacy costs, and it
            reveals neither the anchor nor the gradient alone (p = g - H y).
        c: constant, so that values (and not only gradients) are remembered.
        lineage: original node -> its share; 1 for every node inside. Shares add and cancel
            like the quadratics do, so that sums and differences stay traceable.
        factor: F, one column per direction with a curvature of its own.
        weights: w, one per column; 1 in every legacy that leaves a node, negative only in
            differences.
        samples: what no quadratic says: clusters of samples, whose loss counts as well. They are
            there with ``wills.Replay`` only, and sums concatenate them.
        blended: the nodes of the lineage that were compressed (``recompress``) together with
            others: they can be taken out again only approximately.

    Paper: eq:legacy, prop:compose.
    Deviates: the paper keeps (y, g, eta) per legacy; the canonical form is equivalent, closed
    under addition, and one vector smaller. Directions of their own are beyond the paper.

    >>> q = Legacy.anchored(7, anchor=[1.0, 0.0], value=3.0, gradient=[2.0, 2.0], eta=4.0)
    >>> q.value([1.0, 0.0]), q.gradient([1.0, 0.0])
    (3.0, array([2., 2.]))
    >>> (q - q).is_zero, dict((q + Legacy.zero(2)).lineage)
    (True, {7: 1})
    """

    eta: float
    p: Vector
    c: float
    lineage: Mapping[int, int] = field(default_factory=dict)
    factor: Matrix = field(default_factory=lambda: np.empty((0, 0)))
    weights: Vector = field(default_factory=lambda: np.empty(0))
    blended: frozenset[int] = frozenset()
    samples: tuple[Clusters, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", frozen(self.p))
        columns = frozen(self.factor)
        if columns.size == 0:
            columns = frozen(np.empty((self.p.size, 0)))
        weights = frozen(self.weights)
        if not weights.size:
            weights = frozen(np.ones(columns.shape[1]))
        if columns.shape[0] != self.p.size or weights.size != columns.shape[1]:
            raise DimensionMismatch(
                f"A legacy in {self.p.size} dimensions has a factor of shape {columns.shape} and "
                f"{weights.size} weights.",
                remedy="Give the factor one row per dimension and one weight per column.",
            )
        object.__setattr__(self, "factor", columns)
        object.__setattr__(self, "weights", weights)
        inside = {node: share for node, share in sorted(self.lineage.items()) if share}
        object.__setattr__(self, "lineage", inside)
        object.__setattr__(self, "blended", self.blended & inside.keys())

    @classmethod
    def zero(cls, dim: int) -> Legacy:
        """Return the neutral element: the memory of no node."""
        return cls(0.0, np.zeros(dim), 0.0)

    @classmethod
    def anchored(
        cls,
        node: int,
        *,
        anchor: ArrayLike,
        value: float,
        gradient: ArrayLike,
        eta: float,
        factor: ArrayLike | None = None,
    ) -> Legacy:
        """Return value + gradient'(x - anchor) + 1/2 (x - anchor)'H(x - anchor), H = eta I + FF'.

        Paper: eq:legacy.
        """
        y, g = frozen(anchor), frozen(gradient)
        F = np.empty((y.size, 0)) if factor is None else frozen(factor)
        along = F.T @ y
        constant = value - float(g @ y) + (eta * float(y @ y) + float(along @ along)) / 2
        return cls(float(eta), g - eta * y - F @ along, constant, {node: 1}, F)

    def value(self, x: ArrayLike) -> float:
        """Return q(x)."""
        point = np.asarray(x, dtype=float)
        bent = float(point @ self.product(point) / 2 + self.p @ point + self.c)
        return bent + sum(part.sign * part.evaluated.value(point) for part in self.samples)

    def gradient(self, x: ArrayLike) -> Vector:
        """Return the gradient H x + p, and that of the samples."""
        point = np.asarray(x, dtype=float)
        bent: Vector = self.product(point) + self.p
        return bent + self.sample_gradient(point) if self.samples else bent

    def sample_gradient(self, x: Vector) -> Vector:
        """Return the gradient of the samples alone, one origin after the other."""
        total = np.zeros_like(x)
        for part in self.samples:
            slope = part.evaluated.gradient(x)
            total = total + slope if part.sign > 0 else total - slope
        return total

    def drawn_by(self, draw: Callable[[Clusters], Evaluated]) -> Legacy:
        """Return the same, with points drawn from samples that have none yet."""
        if all(part.loss is not None for part in self.samples):
            return self
        drawn = (
            part if part.loss is not None else replace(part, loss=draw(part))
            for part in self.samples
        )
        return replace(self, samples=tuple(drawn))

    def product(self, v: Matrix) -> Matrix:
        """Return H v, for a vector or for the columns of a matrix; samples have no part in H."""
        if not self.rank:
            return np.asarray(self.eta * v)
        return np.asarray(self.eta * v + self.factor @ ((self.factor.T @ v).T * self.weights).T)

    def hessian(self) -> Matrix:
        """Return H, dim by dim; samples have no part in it."""
        return self.product(np.eye(self.dim))

    def bound(self) -> Matrix:
        """Return a matrix that its Hessian, samples included, exceeds nowhere."""
        above = self.hessian()
        for part in self.samples:
            if part.sign > 0:  # what is taken out only lowers it
                above = above + part.evaluated.bound()
        return above

    @property
    def dim(self) -> int:
        """Dimension of its space."""
        return int(self.p.size)

    @property
    def rank(self) -> int:
        """How many directions have a curvature of their own."""
        return int(self.weights.size)

    @property
    def curvature(self) -> tuple[float, float]:
        """The smallest and the largest curvature: of H, and what samples can add to it."""
        low, high = _ends(self)
        for part in self.samples:
            ends = part.evaluated.curvature
            low += ends.a if part.sign > 0 else -ends.b
            high += ends.b if part.sign > 0 else -ends.a
        return low, high

    @property
    def stiffness(self) -> float:
        """The largest curvature of any of its columns, of either sign."""
        if not self.rank:
            return 0.0
        return float((np.abs(self.weights) * np.vecdot(self.factor.T, self.factor.T)).max())

    @property
    def vectors(self) -> float:
        """How many vectors it costs to send: p, the cheaper of F and the half of H, and samples.

        A p that is zero beside samples is not sent.
        """
        if self.is_zero:
            return 0.0
        sent = 1.0 if self.is_sloped else 0.0
        told = sum(part.numbers for part in self.samples) / self.dim
        return sent + min(self.rank, (self.dim + 1) / 2) + told

    @property
    def is_sloped(self) -> bool:
        """Whether p has to be sent: always, but for a memory that is all samples."""
        return not self.samples or bool(self.p.any())

    @property
    def nbytes(self) -> int:
        """What that is in bytes, in float64: vectors, (eta, c), one id per node remembered."""
        scalars = 0 if self.is_zero else 2 + len(self.lineage)
        return _FLOAT * (round(self.vectors * self.dim) + scalars)

    @property
    def is_finite(self) -> bool:
        """Whether all of it are numbers."""
        arrays = (self.p, self.factor, self.weights)
        scalars = math.isfinite(self.eta) and math.isfinite(self.c)
        told = all(part.is_finite for part in self.samples)
        numbers = (bool(np.isfinite(array).all()) for array in arrays if array.size)
        return told and scalars and all(numbers)

    @property
    def is_zero(self) -> bool:
        """Whether it remembers no node: no curvature, no slope, no constant, no lineage."""
        flat = self.eta == 0 and self.c == 0 and not self.rank and not self.samples
        return flat and not self.p.any() and not self.lineage

    def __add__(self, other: Legacy) -> Legacy:
        lineage = dict(self.lineage)
        for node, share in other.lineage.items():
            lineage[node] = lineage.get(node, 0) + share
        factor, weights = _merged(self, other)
        return Legacy(
            self.eta + other.eta,
            self.p + other.p,
            self.c + other.c,
            lineage,
            factor,
            weights,
            self.blended | other.blended,
            samples.joined(self.samples, other.samples),
        )

    def __neg__(self) -> Legacy:
        opposite = {node: -share for node, share in self.lineage.items()}
        return Legacy(
            -self.eta,
            -self.p,
            -self.c,
            opposite,
            self.factor,
            -self.weights,
            self.blended,
            tuple(-part for part in self.samples),
        )

    def __sub__(self, other: Legacy) -> Legacy:
        return self + -other

    def recompress(
        self, rank: int, *, at: ArrayLike, along: Matrix | None = None, floor: bool = False
    ) -> Legacy:
        """Return a legacy of at most that rank with the same value and gradient at one point.

        Args:
            rank: how many directions may keep a curvature of their own.
            at: where nothing changes; elsewhere the gradient changes by (H' - H)(x - at).
            along: columns spanning the directions in which H is to be kept; by default those of
                its own most unusual curvature.
            floor: whether what these directions leave out is curved as it is on average: with
                hardly any curvature a slope could run away.

        The new spectrum lies within the old one. What was composed cannot be taken apart exactly
        any more: see ``Legacy.__sub__``, which stays exact only for what went in unchanged.
        Samples of one form and label are merged into one cluster, which keeps their moments and
        not the gradient at that point.
        """
        if self.samples:
            flat = replace(self, samples=())
            bent = (
                flat
                if flat.rank <= rank
                else flat.recompress(rank, at=at, along=along, floor=floor)
            )
            told = samples.merged(self.samples)
            mixed = {node for part in told if len(part.origins) > 1 for node in part.origins}
            return replace(bent, samples=told, blended=self.blended | bent.blended | mixed)
        if not is_whole(rank, least=0):
            raise DimensionMismatch(f"The rank is {rank!r}.", remedy="Use a whole number >= 0.")
        point = np.asarray(at, dtype=float)
        low, high = self.curvature
        if along is None:  # without a direction that matters, the middle is the safest curvature
            along = _unusual(self) if rank else np.empty((self.dim, 0))
        Q = sketch.orthonormal(along.T, rank=max(rank, 1))
        if rank and Q.shape[1]:
            product = self.product(Q)
            eta, factor = low, sketch.nystrom(product, Q, low=low, high=high)
            if floor:
                eta = min(low + _left_out(self, eta, factor), high)
                factor = sketch.nystrom(product, Q, low=eta, high=high)
        else:
            eta, factor = _rayleigh(self, Q), np.empty((self.dim, 0))
        renewed = Legacy(eta, np.zeros(self.dim), 0.0, self.lineage, factor)
        p = self.gradient(point) - renewed.gradient(point)
        c = self.value(point) - renewed.value(point) - float(p @ point)
        return Legacy(eta, p, c, self.lineage, factor, blended=frozenset(self.lineage))

    def without(self, part: Legacy, *, at: ArrayLike) -> Legacy:
        """Return what is left once ``part``, which went into this sum, is taken out again.

        Exact, but for rounding, unless a node in ``part`` has been compressed together with
        others since. Then the gradient at one point, ``at``, is right to first order in the
        curvature that the compression dropped, and curvature below zero, which only that can
        leave behind, is raised to zero. What is left then differs from the sum of what its nodes
        sent, so that all of them count as blended from there on.

        Paper: prop:compose. Deviates: withdrawing a legacy is beyond the paper (return, forget).
        """
        rest = self - part
        if not rest.lineage:
            return Legacy.zero(self.dim)
        if self.blended.isdisjoint(part.lineage):
            return rest
        rest = replace(rest, blended=frozenset(rest.lineage))
        if rest.samples or rest.curvature[0] >= 0:  # what drawn points bend cannot be raised
            return rest
        point = np.asarray(at, dtype=float)
        eta = max(rest.eta, 0.0)
        Q, R = np.linalg.qr(rest.factor)
        values, basis = np.linalg.eigh((R * rest.weights) @ R.T)
        weights = np.maximum(rest.eta + values, 0.0) - eta
        bent = np.abs(weights) > 0
        raised = Legacy(
            eta,
            np.zeros(self.dim),
            0.0,
            rest.lineage,
            (Q @ basis)[:, bent],
            weights[bent],
            rest.blended,
        )
        p = rest.gradient(point) - raised.gradient(point)
        c = rest.value(point) - raised.value(point) - float(p @ point)
        return replace(raised, p=p, c=c)

    def __repr__(self) -> str:
        inside = ", ".join(map(str, self.lineage)) or "no node"
        beside = f", rank={self.rank}" if self.rank else ""
        beside += f", samples={list(self.samples)}" if self.samples else ""
        return f"Legacy(of {inside}; eta={self.eta:.4g}{beside}, |p|={np.linalg.norm(self.p):.4g})"


def _ends(legacy: Legacy) -> tuple[float, float]:
    """Return the smallest and the largest eigenvalue of H."""
    if not legacy.rank:
        return legacy.eta, legacy.eta
    # The spectrum of F diag(w) F' beyond zero is that of a small matrix.
    Q, R = np.linalg.qr(legacy.factor)
    values = np.linalg.eigvalsh((R * legacy.weights) @ R.T)
    if Q.shape[1] < legacy.dim:
        values = np.append(values, 0.0)
    return legacy.eta + float(values.min()), legacy.eta + float(values.max())


def _unusual(legacy: Legacy) -> Matrix:
    """Return the eigenvectors beyond eta I, those of the largest curvature first."""
    Q, R = np.linalg.qr(legacy.factor)
    values, basis = np.linalg.eigh((R * legacy.weights) @ R.T)
    return np.asarray(Q @ basis[:, np.argsort(-np.abs(values))])


def _rayleigh(legacy: Legacy, Q: Matrix) -> float:
    """Return the curvature along the first direction, or the middle one if there is none."""
    low, high = legacy.curvature
    if not Q.shape[1]:
        return (low + high) / 2
    q = Q[:, 0]
    return float(np.clip(q @ legacy.product(q), low, high))


def _left_out(legacy: Legacy, low: float, factor: Matrix) -> float:
    """Return the mean curvature that low I + F F' leaves out, over the directions beside F."""
    bent = float((legacy.weights * np.vecdot(legacy.factor.T, legacy.factor.T)).sum())
    trace = (legacy.eta - low) * legacy.dim + bent - float((factor**2).sum())
    return float(max(trace, 0.0) / max(legacy.dim - factor.shape[1], 1))


def _merged(one: Legacy, other: Legacy) -> tuple[Matrix, Vector]:
    """Return F and w of a sum: all columns side by side, without those that cancel."""
    factor = np.column_stack([one.factor, other.factor])
    weights = np.concatenate([one.weights, other.weights])
    if one.rank and other.rank:
        same = {column.tobytes(): k for k, column in enumerate(one.factor.T)}
        for k, column in enumerate(other.factor.T, start=one.rank):
            match = same.get(column.tobytes())
            if match is not None:
                weights[match] += weights[k]
                weights[k] = 0.0
        factor, weights = factor[:, weights != 0], weights[weights != 0]
    if weights.size > one.dim:  # more columns than a full matrix needs
        values, basis = np.linalg.eigh((factor * weights) @ factor.T)
        scale = max(one.stiffness, other.stiffness)
        bent = np.abs(values) > _ROUNDING * one.dim * scale
        factor = basis[:, bent] * np.sqrt(np.abs(values[bent]))
        weights = np.sign(values[bent])
    return factor, weights
