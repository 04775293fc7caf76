"""From one table of samples to the shares of silos, without a second copy of it.

Samples may be most of what the memory holds. Sorted by silo, in place, the share of every silo is a
part of one array, which losses keep as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bequest.data.texts import ranks
from bequest.model.partition import by_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.core.arrays import Indices, Matrix
    from bequest.data.samples import Samples
    from bequest.data.tables import Column

# Bytes that are moved at a time.
_MOVED = 2**25


def by_silo(silo: Column) -> list[Indices]:
    """Return the rows of every silo, in the order of their names."""
    return by_column(ranks(silo).places)


def part_of(samples: Matrix, rows: Indices) -> Matrix:
    """Return these rows: a part of the array where they follow each other, or else a copy."""
    first, count = int(rows[0]), rows.size
    if np.array_equal(rows, np.arange(first, first + count)):
        return samples[first : first + count]
    copied: Matrix = samples[rows]
    copied.setflags(write=False)
    return copied


def dealt(samples: Samples, silos: Sequence[Indices]) -> tuple[Samples, list[Indices]]:
    """Return the samples in the order of the silos, and the rows of each.

    The samples that are given are used up: their arrays are sorted where they are.
    """
    order = np.concatenate(silos)
    if not np.array_equal(order, np.arange(order.size)):
        X = _sorted(samples.X, order)
        exam = samples.exam
        if exam is not None and exam.on == "training":
            exam = replace(exam, X=X, y=exam.y[order])
        silo = None if samples.silo is None else samples.silo[order]
        y = samples.y[order]
        y.setflags(write=False)
        rows = samples.rows[order]
        samples = replace(samples, X=X, y=y, silo=silo, rows=rows, exam=exam)
    ends = np.cumsum([silo.size for silo in silos])
    return samples, [np.arange(end - silo.size, end) for end, silo in zip(ends, silos, strict=True)]


def _sorted(samples: Matrix, order: Indices) -> Matrix:
    """Return the rows in this order, in the same array: some columns at a time."""
    samples.setflags(write=True)
    some = max(1, _MOVED // (8 * order.size))
    for first in range(0, samples.shape[1], some):
        columns = samples[:, first : first + some]
        columns[:] = columns[order]
    samples.setflags(write=False)
    return samples
