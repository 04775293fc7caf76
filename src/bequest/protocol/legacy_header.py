"""A legacy on the wire: what stands in a header, and which numbers follow it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct

from bequest.core.legacy import Legacy
from bequest.core.samples import Clusters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

LARGEST = (1 << 63) - 1
Natural = Annotated[int, Meta(ge=0, le=LARGEST)]
Length = Annotated[int, Meta(ge=1, le=LARGEST)]
Finite = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]


# Nothing in a form can refer back to it, so the garbage collector need not look (gc=False).
class SamplesHeader(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Clusters of a legacy in a header: all but their numbers."""

    origins: tuple[Natural, ...]
    form: tuple[Annotated[str, Meta(max_length=80)], tuple[Finite, ...]]
    clusters: Length
    rank: Natural
    width: Length
    labelled: bool
    key: tuple[Natural, Natural]
    sign: Literal[-1, 1]

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """How many shares, labels, and numbers in means and factors follow."""
        many = self.clusters
        return many, many * self.labelled, many * self.width, many * self.rank * self.width


class LegacyHeader(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A legacy in a header: all but its numbers.

    ``by_columns`` says how F lies in memory. Products round differently for each way, and a run
    over the wire is to compute what a run in memory does. Without ``sloped`` p is zero, and does
    not follow.
    """

    eta: float
    c: float
    lineage: dict[Natural, int]
    blended: tuple[Natural, ...]
    dim: Length
    rank: Natural
    by_columns: bool
    sloped: bool = True
    samples: tuple[SamplesHeader, ...] = ()

    @property
    def numbers(self) -> int:
        """How many numbers follow the header."""
        told = sum(sum(one.sizes) for one in self.samples)
        return self.dim * self.sloped + (self.dim + 1) * self.rank + told

    @property
    def zeros(self) -> int:
        """How many zeros are not sent."""
        return 0 if self.sloped else self.dim

    def restored(self, numbers: NDArray[Any]) -> Legacy:
        """Return the legacy that these numbers, all of them, are."""
        dim, rank = self.dim, self.rank
        slope, factor, weights, told = np.split(
            numbers, np.cumsum([dim * self.sloped, dim * rank, rank])
        )
        return Legacy(
            self.eta,
            slope if self.sloped else np.zeros(dim),
            self.c,
            self.lineage,
            factor.reshape(rank, dim).T if self.by_columns else factor.reshape(dim, rank),
            weights,
            frozenset(self.blended),
            tuple(_samples(self.samples, told)),
        )


def spelled(legacy: Legacy, arrays: list[NDArray[Any]]) -> dict[str, object]:
    """Return what a header says about a legacy; append its numbers to ``arrays``."""
    by_columns = not legacy.factor.flags.c_contiguous
    arrays += [legacy.p] if legacy.is_sloped else []
    arrays += [legacy.factor.T if by_columns else legacy.factor, legacy.weights]
    arrays += [array for part in legacy.samples for array in part.arrays]
    return {
        "eta": legacy.eta,
        "c": legacy.c,
        "lineage": legacy.lineage,
        "blended": sorted(legacy.blended),
        "dim": legacy.dim,
        "rank": legacy.rank,
        "by_columns": by_columns,
        "sloped": legacy.is_sloped,
        "samples": [
            {
                "origins": part.origins,
                "form": part.form,
                "clusters": part.means.shape[0],
                "rank": part.rank,
                "width": part.width,
                "labelled": bool(part.labels.size),
                "key": part.key,
                "sign": part.sign,
            }
            for part in legacy.samples
        ],
    }


def _samples(forms: tuple[SamplesHeader, ...], numbers: NDArray[Any]) -> Iterator[Clusters]:
    """Yield the samples that these numbers, all of them, are."""
    for one in forms:
        shares, labels, means, factors, numbers = np.split(numbers, np.cumsum(one.sizes))
        yield Clusters(
            one.origins,
            one.form,
            shares,
            labels,
            means.reshape(one.clusters, one.width),
            factors.reshape(one.clusters, one.rank, one.width),
            one.key,
            one.sign,
        )
