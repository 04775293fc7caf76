"""Which node holds which samples: from one table of data to silos.

Every partitioner returns one array of row numbers per silo, ascending and read-only. Together
they hold every sample exactly once, and no silo is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.core.arrays import is_number, is_whole, refuse_masked
from bequest.errors import InvalidData
from bequest.model.seeding import seeded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Indices, Matrix, Vector

_TRIES = 1000


def by_column(values: ArrayLike) -> list[Indices]:
    """Return one silo per distinct value, in the order of the values.

    >>> by_column(["Rome", "Bonn", "Rome"])
    [array([1]), array([0, 2])]
    """
    column = _column(values, "The silo column")
    _, silo = np.unique(column, return_inverse=True)
    return _finished(np.flatnonzero(silo == number) for number in range(int(silo.max()) + 1))


def by_label(y: ArrayLike, n: int) -> list[Indices]:
    """Return silos that know as few labels each as possible, and are as even as that allows.

    Up to as many silos as there are labels, every label stays whole; beyond, the largest ones
    are cut into shards. With one silo per label, silo i holds the i-th label.

    >>> by_label([0, 0, 1, 1, 1, 1], n=3)
    [array([0, 1]), array([2, 3]), array([4, 5])]
    """
    labels = _column(y, "y")
    _check_count(n, labels.size)
    _, label = np.unique(labels, return_inverse=True)
    groups = by_column(label)
    sizes = np.array([group.size for group in groups])
    if n > len(groups):
        shards = np.ones(len(groups), dtype=int)
        for _ in range(n - len(groups)):
            shards[np.argmax(sizes / shards)] += 1
        return _finished(
            shard
            for group, count in zip(groups, shards, strict=True)
            for shard in np.array_split(group, count)
        )
    members: list[list[int]] = [[] for _ in range(n)]
    load = np.zeros(n, dtype=int)
    for number in np.argsort(-sizes, kind="stable"):  # the largest first, to the emptiest silo
        emptiest = int(np.argmin(load))
        members[emptiest].append(int(number))
        load[emptiest] += sizes[number]
    return _finished(
        np.concatenate([groups[number] for number in sorted(silo)])
        for silo in sorted(members, key=min)
    )


def dirichlet(y: ArrayLike, n: int, alpha: float, seed: int) -> list[Indices]:
    """Return silos among which every label is spread in random, uneven shares.

    The shares of a label are drawn from Dirichlet(alpha, ..., alpha): small alpha gives most of
    a label to a few silos, large alpha gives all silos the same mixture. Drawn again until no
    silo is empty.

    >>> [silo.size for silo in dirichlet([0, 1] * 50, n=3, alpha=0.5, seed=2)]
    [35, 51, 14]
    """
    labels = _column(y, "y")
    _check_count(n, labels.size)
    if not (is_number(alpha) and np.isfinite(alpha) and alpha > 0):
        raise InvalidData(f"alpha is {alpha!r}.", remedy="Use a finite number > 0.")
    rng = seeded(seed, InvalidData)
    groups = by_column(labels)
    for _ in range(_TRIES):
        silo = np.empty(labels.size, dtype=int)
        for group in groups:
            shares = rng.dirichlet(np.full(n, float(alpha)))
            ends = np.round(np.cumsum(shares)[:-1] * group.size).astype(int)
            for number, part in enumerate(np.split(rng.permutation(group), ends)):
                silo[part] = number
        if np.bincount(silo, minlength=n).all():
            return by_column(silo)
    raise InvalidData(
        f"In none of {_TRIES} draws with alpha={alpha:g} did {labels.size} samples reach all of "
        f"{n} silos.",
        remedy="Use a larger alpha, or fewer silos.",
    )


def sorted_chunks(*keys: ArrayLike, n: int) -> list[Indices]:
    """Return consecutive chunks of the samples in the order of the first key, then the second, ...

    Sorted by label and ``first_component``, this is the paper's split of real data: silos that
    are as different as they can be.

    Paper: fig:real.

    >>> sorted_chunks([1, 0, 1, 0], [0.1, 0.9, 0.0, 0.2], n=2)
    [array([1, 3]), array([0, 2])]
    """
    if not keys:
        raise InvalidData("There is no key to sort by.", remedy="Pass at least one array.")
    columns = [_column(key, f"Key {place}") for place, key in enumerate(keys)]
    sizes = {column.size for column in columns}
    if len(sizes) > 1:
        raise InvalidData(
            f"The keys have different lengths: {sorted(sizes)}.",
            remedy="Pass one entry per sample.",
        )
    _check_count(n, columns[0].size)
    return _finished(np.array_split(np.lexsort(columns[::-1]), n))


def iid(count: int, n: int, seed: int) -> list[Indices]:
    """Return silos of equal size (give or take one), drawn at random.

    >>> iid(5, n=2, seed=0)
    [array([2, 3, 4]), array([0, 1])]
    """
    if not is_whole(count, least=1):
        raise InvalidData(f"count is {count}.", remedy="Use the number of samples, at least 1.")
    _check_count(n, int(count))
    return _finished(np.array_split(seeded(seed, InvalidData).permutation(int(count)), n))


def holdout(y: ArrayLike, fraction: float, seed: int) -> tuple[Indices, Indices]:
    """Return the rows to learn from and the rows to test on, the same share of every label.

    Every label keeps at least one row to learn from.

    >>> holdout([0, 0, 0, 0, 1, 1], fraction=0.5, seed=1)
    (array([2, 3, 5]), array([0, 1, 4]))
    """
    labels = _column(y, "y")
    if not is_number(fraction) or not 0 < fraction < 1:
        raise InvalidData(f"The test fraction is {fraction!r}.", remedy="Use 0 < fraction < 1.")
    rng = seeded(seed, InvalidData)
    tested = np.zeros(labels.size, dtype=bool)
    for group in by_column(labels):
        count = min(round(fraction * group.size), group.size - 1)
        tested[rng.permutation(group)[:count]] = True
    if not tested.any():
        raise InvalidData(
            f"A fraction of {fraction:g} of {labels.size} samples leaves nothing to test on.",
            remedy="Use a larger fraction, or more data.",
        )
    learn, test = _finished([np.flatnonzero(~tested), np.flatnonzero(tested)])
    return learn, test


def first_component(X: ArrayLike) -> Vector:
    """Return where every sample lies along the direction in which they differ most.

    The first principal component; its sign is such that the direction's largest entry is
    positive.

    >>> first_component([[0.0, 0.0], [0.0, -2.0], [0.0, 2.0]]).tolist()
    [0.0, -2.0, 2.0]
    """
    refuse_masked(X, "X", InvalidData)
    samples: Matrix = np.asarray(X, dtype=float)
    if samples.ndim != 2 or 0 in samples.shape or not np.isfinite(samples).all():
        raise InvalidData(
            f"X has shape {samples.shape}, or holds NaN or infinite entries.",
            remedy="Pass one row of finite numbers per sample.",
        )
    centred = samples - samples.mean(axis=0)
    direction = np.linalg.svd(centred, full_matrices=False)[2][0]
    direction *= 1.0 if direction[np.argmax(np.abs(direction))] >= 0 else -1.0
    scores: Vector = centred @ direction
    return scores


def _column(values: ArrayLike, name: str) -> np.ndarray[Any, Any]:
    refuse_masked(values, name, InvalidData)
    column = np.asarray(values)
    if column.ndim != 1 or column.size == 0 or column.dtype.kind not in "biufUS":
        raise InvalidData(
            f"{name} has shape {column.shape} and type {column.dtype}.",
            remedy="Pass one number or one text per sample, and at least one sample.",
        )
    if column.dtype.kind == "f" and np.isnan(column).any():
        raise InvalidData(
            f"{name} holds NaN at index {int(np.argmax(np.isnan(column)))}.",
            remedy="Remove or impute missing entries first.",
        )
    return column


def _check_count(n: int, samples: int) -> None:
    if not is_whole(n, least=1):
        raise InvalidData(f"n is {n}.", remedy="Use a whole number of silos, at least 1.")
    if n > samples:
        raise InvalidData(
            f"{samples} samples cannot fill {n} silos.",
            remedy=f"Use at most {samples} silos: none may be empty.",
        )


def _finished(silos: Iterable[np.ndarray[Any, Any]]) -> list[Indices]:
    finished = [np.sort(silo).astype(int) for silo in silos]
    for silo in finished:
        silo.setflags(write=False)
    return finished
