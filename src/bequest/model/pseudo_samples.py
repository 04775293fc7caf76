"""From a loss's samples to a few statistics of them, and from these to points and their loss.

The leaver summarises (``moments``, ``centroids``), the heir draws (``evaluated``): once, with the
key that came along, so that every holder of a memory holds the same points, and withdrawing it is
exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from scipy.sparse import csr_array, hstack, issparse

from bequest.core.samples import PENALISED, SPREAD, Clusters
from bequest.errors import BequestError, InvalidObjective, InvalidWill
from bequest.model.objectives.linear import Huber, LeastSquares, Logistic
from bequest.model.objectives.loaded import Loaded
from bequest.model.objectives.minibatches import Minibatches
from bequest.model.objectives.samples import SampleLoss, SampleStack
from bequest.model.objectives.softmax import Softmax
from bequest.model.sample_statistics import close_up, statistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bequest.core.arrays import Indices, Matrix, Vector
    from bequest.core.legacy import Legacy
    from bequest.core.samples import Evaluated
    from bequest.model.objectives.base import Objective
    from bequest.model.objectives.rows import Features
    from bequest.model.outcome import Outcome
    from bequest.model.problem import Problem

# The names of losses in a message.
OURS = LOGISTIC, SOFTMAX, LEAST_SQUARES, HUBER = "logistic", "softmax", "least squares", "huber"


@dataclass(frozen=True, slots=True, eq=False)
class SampleTable:
    """The samples of a loss, as rows of numbers.

    Attributes:
        form: which loss, and its parameters.
        rows: the samples, one row each, dense or sparse.
        labels: their classes; None where the target is a number.
        targets: these numbers; None where there are classes.
        share: how much a sample of weight one counts in the loss.
        l2: of the loss; 0 where the penalty is part of the form.
        weights: of the samples; None where all have weight one.
    """

    form: tuple[str, tuple[float, ...]]
    rows: Features
    labels: Vector | None
    targets: Vector | None
    share: float
    l2: float
    weights: Vector | None = None


@runtime_checkable
class Replayable(Protocol):
    """A loss that says what its samples are, and evaluates others of its form."""

    def table(self) -> SampleTable:
        """Return its samples."""
        ...

    def replayed(
        self, samples: Clusters, points: Matrix, labels: Vector, weights: Vector
    ) -> Evaluated:
        """Return the loss of these points, each with its weight, and without l2."""
        ...


def table_of(objective: Objective) -> SampleTable:
    """Return the samples of a loss.

    Raises:
        InvalidWill: it has none.
    """
    loss = _inner(objective)
    if isinstance(loss, Replayable):
        return loss.table()
    form: tuple[str, tuple[float, ...]] | None = None
    match loss:
        case Logistic():
            form = (LOGISTIC, ())
        case Softmax():
            form = (SOFTMAX, (float(loss.classes),))
        case LeastSquares():
            form = (LEAST_SQUARES, ())
        case Huber():
            form = (HUBER, (loss.delta,))
    if form is None or not isinstance(loss, SampleLoss):
        raise InvalidWill(
            f"A {type(loss).__name__} has no samples that an heir could replay.",
            remedy="Use another will for this node, such as wills.Adaptive(), or a loss with "
            "samples: Logistic, Softmax, LeastSquares, Huber, bequest.torch or bequest.jax.",
        )
    classes = isinstance(loss, Logistic | Softmax)
    l2 = loss.l2
    if loss.unpenalised and l2:  # a memory's own penalty would bend all coordinates alike
        form, l2 = (PENALISED + form[0], (*form[1], l2, *map(float, loss.unpenalised))), 0.0
    table = SampleTable(
        form,
        loss.X,
        loss.y if classes else None,
        None if classes else loss.y,
        1.0 / loss.divisor,
        l2,
        loss.sample_weight,
    )
    return table if table.weights is None else _that_count(table, table.weights)


def _that_count(table: SampleTable, weights: Vector) -> SampleTable:
    """Return the samples that have a weight at all."""
    kept = np.flatnonzero(weights)
    if not kept.size:
        raise InvalidWill(
            "Every sample of the node has weight 0: there is nothing to replay.",
            remedy="Use another will for this node, such as wills.Forgetful().",
        )
    labels, targets = (
        None if part is None else part[kept] for part in (table.labels, table.targets)
    )
    return replace(
        table, rows=table.rows[kept], labels=labels, targets=targets, weights=weights[kept]
    )


# --- the leaver ----------------------------------------------------------------------------


def moments(
    table: SampleTable, rank: int, key: tuple[int, int], *, convex: bool = True
) -> Clusters:
    """Return count, mean and that many factors of every class; of all samples without classes.

    In the directions of the factors a class spreads as its samples do. For a linear model that is
    what counts. A network, whose loss is not convex, is shown how far its classes spread in all
    (``_widened``): it has to tell apart what lies around their means, whichever way.
    """
    found = _of_clusters(table, key, rank, [rows for rows, _ in _classes(table)])
    return found if _linear(table, convex=convex) else _widened(found, table)


def _widened(samples: Clusters, table: SampleTable) -> Clusters:
    """Return them with factors that are longer, by what is left out of the variance of a class."""
    factors = np.array(samples.factors)
    for k, (rows, _) in enumerate(_classes(table)):
        whole = float(table.rows[rows].var(axis=0).sum())
        told = float((factors[k] ** 2).sum())
        if told > 0:
            factors[k] *= math.sqrt(whole / told)
    return replace(samples, factors=factors, form=(SPREAD + samples.form[0], samples.form[1]))


def _linear(table: SampleTable, *, convex: bool) -> bool:
    """Whether only the directions count in which a class spreads, and not how far in all."""
    ours = table.form[0].removeprefix(PENALISED) in OURS
    return convex or ours or table.labels is None


def centroids(
    table: SampleTable, count: int, key: tuple[int, int], *, convex: bool = True
) -> Clusters:
    """Return that many centroids, shared among the classes by their size; one each at least.

    Centroids lie closer together than what they are the means of. A network is shown how far its
    classes spread in all, as with moments: theirs are moved apart, their mean kept.
    """
    from scipy.cluster.vq import kmeans2

    points = _points(table)
    clusters: list[Indices] = []
    for k, (rows, _) in enumerate(_classes(table)):
        share = max(1, round(count * rows.size / points.shape[0]))
        if share >= rows.size:
            clusters += [rows[[j]] for j in range(rows.size)]
            continue
        rng = np.random.default_rng([*key, k])
        _, nearest = kmeans2(close_up(points[rows], rng), share, minit="++", rng=rng)
        clusters += [rows[nearest == j] for j in range(share) if (nearest == j).any()]
    found = _of_clusters(table, key, 0, clusters)
    return found if _linear(table, convex=convex) else _apart(found, table)


def _apart(samples: Clusters, table: SampleTable) -> Clusters:
    """Return them farther from the mean of their class, by what they lack of its variance."""
    means = np.array(samples.means)
    for rows, label in _classes(table):
        at = np.flatnonzero(samples.labels == label)
        if not 1 < at.size < rows.size:
            continue  # a single one is the mean, and as many as samples are the samples
        weights = samples.shares[at] / samples.shares[at].sum()
        mean = weights @ means[at]
        told = float(weights @ ((means[at] - mean) ** 2).sum(axis=1))
        if told > 0:
            whole = float(table.rows[rows].var(axis=0).sum())
            means[at] = mean + math.sqrt(whole / told) * (means[at] - mean)
    return replace(samples, means=means)


def _points(table: SampleTable) -> Features:
    """Return the samples with their targets beside them, where these are numbers."""
    if table.targets is None:
        return table.rows
    if issparse(table.rows):
        return csr_array(hstack([table.rows, csr_array(table.targets[:, None])]))
    return np.column_stack([table.rows, table.targets])


def _classes(table: SampleTable) -> Iterator[tuple[Indices, float]]:
    if table.labels is None:
        yield np.arange(table.rows.shape[0]), 0.0
        return
    for label in np.unique(table.labels):
        yield np.flatnonzero(table.labels == label), float(label)


def _of_clusters(
    table: SampleTable, key: tuple[int, int], rank: int, clusters: list[Indices]
) -> Clusters:
    points = _points(table)
    found = []
    for rows in clusters:
        weights = None if table.weights is None else table.weights[rows]
        found.append(statistics(points[rows], weights, rank))
    spread = np.array([factors for _, _, factors in found])
    used = int((np.abs(spread).max(axis=(0, 2)) > 0).sum()) if spread.size else 0
    labels = [] if table.labels is None else [table.labels[rows[0]] for rows in clusters]
    return Clusters(
        (key[0],),
        table.form,
        np.array([total * table.share for total, _, _ in found]),
        np.array(labels, dtype=float),
        np.array([mean for _, mean, _ in found]),
        spread[:, :used],
        key,
    )


# --- the heir ------------------------------------------------------------------------------


def points_of(samples: Clusters) -> tuple[Matrix, Vector, Vector]:
    """Return points, their labels or targets, and their weights.

    A cluster's points have its mean and, up to its rank, its covariance exactly: their directions
    are drawn, and then made orthonormal.
    """
    count = samples.drawn
    rng = np.random.default_rng(samples.key)
    points = [mean + _spread(rng, factor, count) for mean, factor in _clusters(samples)]
    rows = np.concatenate(points)
    weights = np.repeat(samples.shares / count, count)
    if samples.labels.size:
        return rows, np.repeat(samples.labels, count), weights
    return np.ascontiguousarray(rows[:, :-1]), rows[:, -1], weights


def _clusters(samples: Clusters) -> Iterator[tuple[Vector, Matrix]]:
    return zip(samples.means, samples.factors, strict=True)


def _spread(rng: np.random.Generator, factor: Matrix, count: int) -> Matrix:
    if not factor.shape[0]:
        return np.zeros((1, factor.shape[1]))
    noise = rng.standard_normal((count, factor.shape[0]))
    basis, _ = np.linalg.qr(noise - noise.mean(axis=0))
    return np.asarray(np.sqrt(count) * basis @ factor)


def evaluated(samples: Clusters, objective: Objective) -> Evaluated:
    """Return the loss of points drawn from them, as a node with that objective evaluates it.

    Raises:
        InvalidObjective: it cannot.
    """
    points, labels, weights = points_of(samples)
    if samples.form[0].removeprefix(PENALISED) in OURS:
        return _weighted(samples.form, points, labels, weights)
    loss = _inner(objective)
    if not isinstance(loss, Replayable):
        raise InvalidObjective(
            f"A {type(loss).__name__} cannot replay samples of a loss called {samples.form[0]!r}.",
            remedy="Let all nodes hold losses of one form, or use a will without samples.",
        )
    return loss.replayed(samples, points, labels, weights)


def _inner(objective: Objective) -> Objective:
    """Return the loss itself, behind minibatches and on its host."""
    if isinstance(objective, Minibatches):
        return objective.loss
    return objective.load() if isinstance(objective, Loaded) else objective


def can_draw(samples: Clusters, objective: Objective, dim: int) -> bool:
    """Whether a node with that objective can evaluate them: an heir tries before it believes.

    What cannot be right is refused by its form; then points are drawn, as numbers that are finite
    may still lead to some that are not.
    """
    if not _fits(samples, objective, dim):
        return False
    try:
        loss = evaluated(samples, objective)
        ends, slope = loss.curvature, loss.gradient(np.zeros(dim))
    except (BequestError, ArithmeticError, ValueError, MemoryError):
        return False
    return math.isfinite(ends.a) and math.isfinite(ends.b) and bool(np.isfinite(slope).all())


def _fits(samples: Clusters, objective: Objective, dim: int) -> bool:
    """Whether they have the form of what a node with that objective evaluates."""
    features = samples.width - (0 if samples.labels.size else 1)
    labels = samples.labels
    try:
        name, parameters, _, free = _parsed(samples.form)
    except ValueError:
        return False
    if not all(0 <= column < features for column in free):
        return False
    match name:
        case "logistic":
            own = features == dim and bool(np.isin(labels, (-1.0, 1.0)).all()) and labels.size > 0
        case "softmax":
            classes = parameters[0]
            whole = classes >= 2 and float(classes).is_integer() and features * classes == dim
            own = whole and labels.size > 0 and bool(np.isin(labels, np.arange(classes)).all())
        case "least squares":
            own = features == dim and not labels.size
        case "huber":
            own = features == dim and not labels.size and parameters[0] > 0
        case _:
            loss = _inner(objective)
            form = samples.form[0].removeprefix(SPREAD), samples.form[1]
            return isinstance(loss, Replayable) and loss.table().form == form
    return own


# How many parameters each of our losses has.
_PARAMETERS = {LOGISTIC: 0, SOFTMAX: 1, LEAST_SQUARES: 0, HUBER: 1}


def _parsed(
    form: tuple[str, tuple[float, ...]],
) -> tuple[str, tuple[float, ...], float, tuple[int, ...]]:
    """Return name, parameters, penalty, and the columns that the penalty leaves alone.

    Raises:
        ValueError: it is none of our losses' forms, though it is called like one.
    """
    name, numbers = form
    bare = name.removeprefix(PENALISED)
    if bare not in OURS:
        return name, numbers, 0.0, ()
    parameters, rest = numbers[: _PARAMETERS[bare]], numbers[_PARAMETERS[bare] :]
    if len(parameters) < _PARAMETERS[bare] or (bare == name) != (not rest):
        raise ValueError(f"{numbers} are no parameters of {name}")
    if not rest:
        return bare, parameters, 0.0, ()
    l2, free = rest[0], rest[1:]
    if l2 < 0 or not all(float(column).is_integer() for column in free):
        raise ValueError(f"{rest} are no penalty")
    return bare, parameters, l2, tuple(int(column) for column in free)


def _weighted(
    form: tuple[str, tuple[float, ...]], points: Matrix, labels: Vector, weights: Vector
) -> SampleLoss:
    """Return one of our own losses on points that do not all count alike."""
    name, parameters, l2, free = _parsed(form)

    def made(rows: Matrix) -> SampleLoss:
        match name:
            case "logistic":
                return Logistic(rows, labels, l2, divisor=1.0, unpenalised=free)
            case "softmax":
                classes = int(parameters[0])
                return Softmax(rows, labels, classes, l2, divisor=1.0, unpenalised=free)
            case "least squares":
                return LeastSquares(rows, labels, l2, divisor=1.0, unpenalised=free)
            case "huber":
                return Huber(rows, labels, parameters[0], l2, divisor=1.0, unpenalised=free)
        raise KeyError(name)

    loss = made(points)
    stack = loss.stack([loss])
    assert isinstance(stack, SampleStack)  # noqa: S101 - as that of any such loss
    stack.weight[0] = weights
    # The bounds of a loss go by the Gram matrix of its samples, in which weights are scales.
    vars(loss)["curvature"] = made(points * np.sqrt(weights)[:, None]).curvature
    vars(loss)["_alone"] = stack
    return loss


def drawn(outcome: Outcome, problem: Problem) -> Outcome:
    """Return the same outcome, with points drawn from the samples that nodes remember.

    What comes from other processes, or from a file, has none. Where only a host could draw them
    they stay as they are.
    """
    legacies = [*outcome.inherited.values(), *(record.legacy for record in outcome.departures)]
    if problem.away or not any(legacy is not None and legacy.samples for legacy in legacies):
        return outcome

    def whole(legacy: Legacy | None, node: int) -> Legacy | None:
        if legacy is None:
            return None
        return legacy.drawn_by(lambda part: evaluated(part, problem.objective(node)))

    departures = [
        replace(r, legacy=whole(r.legacy, r.node), blur=whole(r.blur, r.node))
        for r in outcome.departures
    ]
    inherited = {node: whole(legacy, node) for node, legacy in outcome.inherited.items()}
    return replace(
        outcome,
        departures=tuple(departures),
        inherited={node: legacy for node, legacy in inherited.items() if legacy is not None},
    )
