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
from scipy.sparse import issparse

from bequest.core.samples import Clusters, principal
from bequest.errors import BequestError, InvalidObjective, InvalidWill
from bequest.model.objectives.linear import Huber, LeastSquares, Logistic
from bequest.model.objectives.loaded import Loaded
from bequest.model.objectives.minibatches import Minibatches
from bequest.model.objectives.samples import SampleLoss, SampleStack
from bequest.model.objectives.softmax import Softmax

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bequest.core.arrays import Indices, Matrix, Vector
    from bequest.core.legacy import Legacy
    from bequest.core.samples import Evaluated
    from bequest.model.objectives.base import Objective
    from bequest.model.outcome import Outcome
    from bequest.model.problem import Problem

# The names of losses in a message.
OURS = LOGISTIC, SOFTMAX, LEAST_SQUARES, HUBER = "logistic", "softmax", "least squares", "huber"


@dataclass(frozen=True, slots=True, eq=False)
class SampleTable:
    """The samples of a loss, as rows of numbers.

    Attributes:
        form: which loss, and its parameters.
        rows: the samples, one row each.
        labels: their classes; None where the target is a number.
        targets: these numbers; None where there are classes.
        share: how much a sample counts in the loss.
        l2: of the loss.
    """

    form: tuple[str, tuple[float, ...]]
    rows: Matrix
    labels: Vector | None
    targets: Vector | None
    share: float
    l2: float


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
    if loss.sample_weight is not None or loss.unpenalised or issparse(loss.X):
        raise InvalidWill(
            f"A {type(loss).__name__} with sample weights, sparse samples or coefficients without "
            "a penalty cannot be replayed: points stand for samples that count alike.",
            remedy="Use another will for this node, such as wills.Adaptive().",
        )
    classes = isinstance(loss, Logistic | Softmax)
    return SampleTable(
        form,
        loss.X,
        loss.y if classes else None,
        None if classes else loss.y,
        1.0 / loss.divisor,
        loss.l2,
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
    linear = convex or table.form[0] in OURS
    return found if linear or table.labels is None else _widened(found, table)


def _widened(samples: Clusters, table: SampleTable) -> Clusters:
    """Return them with factors that are longer, by what is left out of the variance of a class."""
    factors = np.array(samples.factors)
    for k, (rows, _) in enumerate(_classes(table)):
        whole = float(table.rows[rows].var(axis=0).sum())
        told = float((factors[k] ** 2).sum())
        if told > 0:
            factors[k] *= math.sqrt(whole / told)
    return replace(samples, factors=factors)


def centroids(table: SampleTable, count: int, key: tuple[int, int]) -> Clusters:
    """Return that many centroids, shared among the classes by their size; one each at least."""
    from scipy.cluster.vq import kmeans2

    points = _points(table)
    clusters: list[Indices] = []
    for k, (rows, _) in enumerate(_classes(table)):
        share = max(1, round(count * rows.size / points.shape[0]))
        if share >= rows.size:
            clusters += [rows[[j]] for j in range(rows.size)]
            continue
        rng = np.random.default_rng([*key, k])
        _, nearest = kmeans2(points[rows], share, minit="++", rng=rng)
        clusters += [rows[nearest == j] for j in range(share) if (nearest == j).any()]
    return _of_clusters(table, key, 0, clusters)


def _points(table: SampleTable) -> Matrix:
    """Return the samples with their targets beside them, where these are numbers."""
    if table.targets is None:
        return table.rows
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
    means = np.array([points[rows].mean(axis=0) for rows in clusters])
    spread = np.array(
        [
            principal((points[rows] - mean) / np.sqrt(rows.size), rank)
            for rows, mean in zip(clusters, means, strict=True)
        ]
    )
    used = int((np.abs(spread).max(axis=(0, 2)) > 0).sum()) if spread.size else 0
    labels = [] if table.labels is None else [table.labels[rows[0]] for rows in clusters]
    return Clusters(
        (key[0],),
        table.form,
        np.array([rows.size * table.share for rows in clusters]),
        np.array(labels, dtype=float),
        means,
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
    name, parameters = samples.form
    if name in OURS:
        return _weighted(name, parameters, points, labels, weights)
    loss = _inner(objective)
    if not isinstance(loss, Replayable):
        raise InvalidObjective(
            f"A {type(loss).__name__} cannot replay samples of a loss called {name!r}.",
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
    name, parameters = samples.form
    features = samples.width - (0 if samples.labels.size else 1)
    labels = samples.labels
    match name:
        case "logistic":
            own = features == dim and bool(np.isin(labels, (-1.0, 1.0)).all()) and labels.size > 0
        case "softmax":
            classes = parameters[0] if parameters else 0.0
            whole = classes >= 2 and float(classes).is_integer() and features * classes == dim
            own = whole and labels.size > 0 and bool(np.isin(labels, np.arange(classes)).all())
        case "least squares":
            own = features == dim and not labels.size
        case "huber":
            own = features == dim and not labels.size and bool(parameters) and parameters[0] > 0
        case _:
            loss = _inner(objective)
            return isinstance(loss, Replayable) and loss.table().form == samples.form
    return own


def _weighted(
    name: str, parameters: tuple[float, ...], points: Matrix, labels: Vector, weights: Vector
) -> SampleLoss:
    """Return one of our own losses on points that do not all count alike."""

    def made(rows: Matrix) -> SampleLoss:
        match name:
            case "logistic":
                return Logistic(rows, labels, 0.0, divisor=1.0)
            case "softmax":
                return Softmax(rows, labels, int(parameters[0]), 0.0, divisor=1.0)
            case "least squares":
                return LeastSquares(rows, labels, 0.0, divisor=1.0)
            case "huber":
                return Huber(rows, labels, parameters[0], 0.0, divisor=1.0)
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
