"""Replay: what the samples look like, instead of a quadratic that is right in one place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import is_whole
from bequest.core.legacy import Legacy
from bequest.errors import InvalidWill
from bequest.model import pseudo_samples
from bequest.model.wills.base import Bequest, Will

if TYPE_CHECKING:
    from bequest.core.samples import Clusters
    from bequest.model.wills.base import Estate

_RANK = 8


@dataclass(frozen=True)
class Replay(Will):
    """Hand over statistics of the samples, from which the heir draws points and adds their loss.

    q(x) = sum_k share_k mean_j loss(u_kj, k) + l2/2 |x|^2, u_kj drawn from cluster k. It does not
    matter where the optimum is, or how far the network has come; so it holds for early exits and
    for losses that no quadratic is near, such as neural networks.

    **What it reveals.** Moments are averages over all samples of a class, and their main
    directions; few centroids are close to single samples. Neither is differentially private. A run
    can forbid both (``solve(..., statistics=False)``).

    Args:
        rank: class-wise moments: count, mean and so many directions per class (8 by default). For
            losses with targets that are numbers, joint moments of samples and targets.
        centroids: instead of that, so many centroids with their counts, over all classes.

    The paper does not have it.
    """

    rank: int | None = None
    centroids: int | None = None
    label = "replay"

    def __post_init__(self) -> None:
        for name, least in (("rank", 0), ("centroids", 1)):
            given = getattr(self, name)
            if given is not None and not is_whole(given, least=least):
                raise InvalidWill(
                    f"{name} is {given!r}.", remedy=f"Use a whole number >= {least}, or None."
                )
        if self.rank is not None and self.centroids is not None:
            raise InvalidWill(
                "Replay is given a rank and centroids.", remedy="Choose one of the two."
            )

    @property
    def title(self) -> str:
        """Its label, and what is handed over."""
        if self.centroids is not None:
            return f"{self.label} ({self.centroids} centroids)"
        return f"{self.label} (moments, rank {_RANK if self.rank is None else self.rank})"

    @property
    def tells_statistics(self) -> bool:
        """That is all it does."""
        return True

    @property
    def insists(self) -> bool:
        """Samples are no quadratic: they hold wherever the survivors go."""
        return True

    def decide(self, estate: Estate) -> Bequest:
        """Return the samples' statistics, and nothing about where the node is."""
        table = pseudo_samples.table_of(estate.objective)
        key, convex = (estate.node, estate.round), estate.setting.mu >= 0
        if self.centroids is not None:
            samples = pseudo_samples.centroids(table, self.centroids, key, convex=convex)
            what = f"{samples.means.shape[0]} centroids"
        else:
            rank = _RANK if self.rank is None else self.rank
            samples = pseudo_samples.moments(table, rank, key, convex=convex)
            what = f"moments of {samples.means.shape[0]} classes, rank {samples.rank}"
            if not samples.labels.size:
                what = f"joint moments of samples and targets, rank {samples.rank}"
        return Bequest(
            "replay",
            f"{what}: the heir replays the loss of points like these",
            remembered(estate, samples, table.l2),
        )


def remembered(estate: Estate, samples: Clusters, l2: float) -> Legacy:
    """Return the memory that these samples make, with the node's own penalty."""
    drawn = replace(samples, loss=pseudo_samples.evaluated(samples, estate.objective))
    nothing = np.zeros(estate.x.size)
    return Legacy(l2, nothing, 0.0, {estate.node: 1}, samples=(drawn,))
