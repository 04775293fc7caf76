"""What a node's data look like, in a few numbers: the part of a memory that is no quadratic.

A quadratic is near a loss only where it was made. A few statistics of the samples say what the loss
is everywhere: an heir draws points from them and adds their loss to its own. This is how a network
that has lost a silo early does not forget it.

Clusters of samples have a share in the loss, a label, a mean and, unless they are single points,
directions in which they spread. Class-wise moments are one cluster per class; centroids are many
clusters that do not spread.

The paper does not have it: its legacies are quadratics (eq:legacy).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bequest.core.arrays import frozen
from bequest.errors import DimensionMismatch, InvalidObjective

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bequest.core.arrays import Matrix, Tensor, Vector

# How the name of a loss begins whose penalty is among its parameters, since it leaves some
# coordinates alone: two of these are not one with twice the samples.
PENALISED = "penalised "
# How it begins where the classes of a network spread as far as its samples do: it learns the noise
# of few points, so that more are drawn.
SPREAD = "spread "
# How many points are drawn from a cluster that spreads; more where it has so many directions that
# fewer than two points for each would be left.
_DRAWN, _PER_DIRECTION = 64, 2
# And at least so many in all from what spreads like that.
_SPREAD_DRAWN = 256


class Evaluated(Protocol):
    """The loss of drawn points: what a memory asks it."""

    def value(self, x: Any) -> float:  # noqa: ANN401 - as a loss takes it
        """Return f(x)."""
        ...

    def gradient(self, x: Any) -> Vector:  # noqa: ANN401
        """Return grad f(x)."""
        ...

    def bound(self) -> Matrix:
        """Return a matrix that its Hessian exceeds nowhere."""
        ...

    @property
    def curvature(self) -> Any:  # noqa: ANN401
        """The range of its curvature."""
        ...


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of samples, and which nodes they are from.

    Attributes:
        origins: the nodes; several once clusters were merged.
        form: which loss, and its parameters.
        shares: how much each cluster counts; of a mean over samples they sum to one.
        labels: the label of each cluster; none where the target is the last coordinate.
        means: their means, one row each.
        factors: for each cluster rows that span how it spreads, up to sign and rotation the square
            root of its covariance; no rows for points.
        key: with which points are drawn: every holder draws the same ones.
        sign: -1 for what is taken out of a sum.
        loss: the loss of the drawn points; None until a node has drawn them.
    """

    origins: tuple[int, ...]
    form: tuple[str, tuple[float, ...]]
    shares: Vector
    labels: Vector
    means: Matrix
    factors: Tensor
    key: tuple[int, int]
    sign: int = 1
    loss: Evaluated | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("shares", "labels", "means", "factors"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        count, width = self.means.shape if self.means.ndim == 2 else (-1, -1)
        fits = (
            count >= 1
            and self.shares.shape == (count,)
            and self.labels.shape in ((count,), (0,))
            and self.factors.ndim == 3
            and (self.factors.shape[0], self.factors.shape[2]) == (count, width)
        )
        if not fits:
            raise DimensionMismatch(
                f"Clusters have means of shape {self.means.shape}, factors of shape "
                f"{self.factors.shape}, {self.shares.size} shares and {self.labels.size} labels.",
                remedy="Give every cluster one mean, one share, as many factors as the others, and "
                "a label unless none has one.",
            )

    def __getstate__(self) -> dict[str, Any]:
        """Leave the drawn points behind: they come again from the key."""
        return {**vars(self), "loss": None}

    @property
    def rank(self) -> int:
        """In how many directions a cluster spreads."""
        return int(self.factors.shape[1])

    @property
    def width(self) -> int:
        """How many coordinates a sample has, the target included where it has no label."""
        return int(self.means.shape[1])

    @property
    def numbers(self) -> int:
        """How many numbers it takes to send them."""
        return int(sum(array.size for array in self.arrays))

    @property
    def arrays(self) -> tuple[Vector, Vector, Matrix, Tensor]:
        """All that is not in a few words."""
        return self.shares, self.labels, self.means, self.factors

    @property
    def drawn(self) -> int:
        """How many points are drawn from each cluster."""
        if not self.rank:
            return 1
        in_all = _SPREAD_DRAWN if self.form[0].startswith(SPREAD) else 0
        return max(_DRAWN, -(-in_all // len(self.means)), _PER_DIRECTION * self.rank)

    @property
    def points(self) -> int:
        """How many points are drawn from all clusters."""
        return int(self.means.shape[0]) * self.drawn

    @property
    def is_finite(self) -> bool:
        """Whether all of it are numbers."""
        parameters = all(math.isfinite(one) for one in self.form[1])
        return parameters and all(bool(np.isfinite(array).all()) for array in self.arrays)

    @property
    def evaluated(self) -> Evaluated:
        """The loss of the drawn points.

        Raises:
            InvalidObjective: no points have been drawn.
        """
        if self.loss is None:
            raise InvalidObjective(
                f"The samples of node {', '.join(map(str, self.origins))} have not been drawn.",
                remedy="Let a loss of the same form draw them: legacy.drawn_by(objective).",
            )
        return self.loss

    def is_same(self, other: Clusters) -> bool:
        """Whether these are the same clusters, whatever their sign."""
        names = ("origins", "form", "key")
        return all(getattr(self, name) == getattr(other, name) for name in names) and all(
            one.shape == two.shape and one.tobytes() == two.tobytes()
            for one, two in zip(self.arrays, other.arrays, strict=True)
        )

    def __neg__(self) -> Clusters:
        return replace(self, sign=-self.sign)

    def __repr__(self) -> str:
        inside = ", ".join(map(str, self.origins))
        return f"Clusters(of {inside}; {self.means.shape[0]} clusters, rank={self.rank})"


def joined(one: tuple[Clusters, ...], other: tuple[Clusters, ...]) -> tuple[Clusters, ...]:
    """Return all of them, by origin, without those that cancel."""
    rest = list(one)
    for part in other:
        match = next(
            (k for k, held in enumerate(rest) if held.sign == -part.sign and held.is_same(part)),
            None,
        )
        if match is None:
            rest.append(part)
        else:
            del rest[match]
    return tuple(sorted(rest, key=lambda part: (part.origins, part.key)))


def merged(parts: Iterable[Clusters]) -> tuple[Clusters, ...]:
    """Return fewer clusters: those of one form and one label become one, of the rank they had.

    Shares, means and, up to the rank, covariances of the sum are kept. Points stay points: merging
    them would leave only their mean. So do losses with a penalty of their own, which would count
    once.
    """
    kept: list[Clusters] = []
    groups: dict[tuple[object, ...], list[Clusters]] = {}
    for part in parts:
        alike = part.form, part.width, part.rank, bool(part.labels.size), part.sign
        if part.rank and not part.form[0].startswith(PENALISED):
            groups.setdefault(alike, []).append(part)
        else:
            kept.append(part)
    kept += [_as_one(group) if len(group) > 1 else group[0] for group in groups.values()]
    return tuple(sorted(kept, key=lambda part: (part.origins, part.key)))


def _as_one(parts: list[Clusters]) -> Clusters:
    shares = np.concatenate([part.shares for part in parts])
    means = np.concatenate([part.means for part in parts])
    factors = np.concatenate([part.factors for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    groups = [np.arange(shares.size)]
    if labels.size:
        groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    rank = parts[0].rank
    whole = [_pooled(shares[rows], means[rows], factors[rows], rank) for rows in groups]
    return Clusters(
        tuple(sorted({node for part in parts for node in part.origins})),
        parts[0].form,
        np.array([share for share, _, _ in whole]),
        np.unique(labels),
        np.array([mean for _, mean, _ in whole]),
        np.array([spread for _, _, spread in whole]),
        max(part.key for part in parts),
        parts[0].sign,
    )


def _pooled(
    shares: Vector, means: Matrix, factors: Tensor, rank: int
) -> tuple[float, Vector, Matrix]:
    """Return share, mean and spread of several clusters together."""
    total = float(shares.sum())
    weights = shares / total if total > 0 else np.full(shares.size, 1.0 / shares.size)
    mean: Vector = weights @ means
    spread = [np.sqrt(weights)[:, None] * (means - mean)]
    spread += [np.sqrt(weight) * factor for weight, factor in zip(weights, factors, strict=True)]
    return total, mean, principal(np.concatenate(spread), rank)


def principal(rows: Matrix, rank: int) -> Matrix:
    """Return that many rows R with R'R as close to rows'rows as can be; zeros beyond its rank."""
    out = np.zeros((rank, rows.shape[1]))
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    found = min(rank, sizes.size)
    out[:found] = sizes[:found, None] * directions[:found]
    return out
