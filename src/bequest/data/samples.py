"""Samples to learn from and to test on, the losses of silos that hold them, and grades."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from bequest.core.arrays import frozen, refuse_masked
from bequest.errors import InvalidData, NotFinite
from bequest.model import partition
from bequest.model.objectives import Huber, LeastSquares, Logistic, Softmax
from bequest.model.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bequest.core.arrays import Indices, Matrix, Vector
    from bequest.data.tables import Column, Table
    from bequest.model.objectives import Objective

Loss: TypeAlias = Literal["logistic", "softmax", "least_squares", "huber"]
CLASSIFIERS = ("logistic", "softmax")
# What counts the same: every sample, as if all silos were one table; or every silo.
Weigh: TypeAlias = Literal["samples", "silos"]


@dataclass(frozen=True, slots=True)
class Score:
    """How a model did: the share of samples it classified right, overall and class by class.

    The recall of a class without samples is None.
    """

    accuracy: float
    recall: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Exam:
    """Samples with known classes, to grade a model on.

    Attributes:
        X: the features, as the model was trained on.
        y: the classes, numbered from 0.
        classes: their names.
        on: whether the model has seen these samples (``"training"``) or not (``"test"``).
    """

    X: Matrix
    y: Indices
    classes: tuple[str, ...]
    on: Literal["test", "training"]

    def __post_init__(self) -> None:
        refuse_masked(self.X, "X", InvalidData)
        refuse_masked(self.y, "y", InvalidData)

    def __repr__(self) -> str:
        """Return the shapes of its arrays, and not what is in them."""
        classes = len(self.classes)
        return f"Exam(X {self.X.shape}, y {self.y.shape}, classes={classes}, on={self.on!r})"

    def predict(self, x: Vector) -> Indices:
        """Return the class of every sample, for the parameters of a Logistic or a Softmax.

        >>> Exam(np.eye(2), np.array([0, 1]), ("no", "yes"), "test").predict(np.array([-1.0, 2.0]))
        array([0, 1])
        """
        refuse_masked(x, "x", InvalidData)
        features = self.X.shape[1]
        if x.shape == (features,):
            return (self.X @ x > 0).astype(np.intp)
        if x.shape != (len(self.classes) * features,):
            raise InvalidData(
                f"A model with {x.size} parameters cannot classify samples with {features} "
                f"features into {len(self.classes)} classes.",
                remedy="Pass the parameters of a Logistic or a Softmax over these features.",
            )
        scores = self.X @ x.reshape(len(self.classes), features).T
        predicted: Indices = scores.argmax(axis=1)
        return predicted

    def score(self, x: Vector) -> Score:
        """Return the accuracy and the recalls of these parameters.

        Raises:
            NotFinite: they are not all numbers, so that no class is right.
        """
        if not np.isfinite(np.asarray(x, dtype=float)).all():
            raise NotFinite(
                "The parameters hold NaN or infinite entries.",
                remedy="Grade a run that did not diverge: see run.status.",
            )
        right = self.predict(x) == self.y
        recall = {
            name: float(right[self.y == number].mean()) if (self.y == number).any() else None
            for number, name in enumerate(self.classes)
        }
        return Score(float(right.mean()), recall)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Samples:
    """What to learn from, as plain arrays, and what to test on.

    Attributes:
        X: the features of the training samples, one row each; the bias column, if any, last.
        y: their classes, numbered from 0 in the order of ``classes``; or their target numbers.
        features: the names of the features, without the bias.
        classes: the names of the classes; empty where the label is a number to predict.
        silo: the silo of every training sample; None without a silo column.
        rows: where in the table every training sample stands.
        exam: what to grade a model on; None where the label is a number to predict.
    """

    X: Matrix
    y: Vector
    features: tuple[str, ...]
    classes: tuple[str, ...]
    silo: Column | None
    rows: Indices
    exam: Exam | None

    def __post_init__(self) -> None:
        for name in ("X", "y", "silo", "rows"):
            refuse_masked(getattr(self, name), name, InvalidData)

    def __repr__(self) -> str:
        """Return the shapes of its arrays, and not what is in them."""
        silo = "" if self.silo is None else f"silo {self.silo.shape}, "
        return (
            f"Samples(X {self.X.shape}, y {self.y.shape}, {silo}features={len(self.features)}, "
            f"classes={len(self.classes)}, exam={self.exam!r})"
        )


def select(
    table: Table,
    *,
    label: str,
    features: Sequence[str] | None = None,
    silo: str | None = None,
    standardise: bool = True,
    bias: bool = True,
    classes: bool = True,
    test_fraction: float | None = None,
    seed: int = 0,
) -> Samples:
    """Choose columns of a table to learn from.

    Args:
        table: the table.
        label: what to predict.
        features: from what; by default, all other columns with numbers in them.
        silo: which silo a row belongs to.
        standardise: shift and scale every feature to mean 0 and deviation 1 (in training).
        bias: append a column of ones.
        classes: whether the label names a class, or is a number to predict.
        test_fraction: the share of every class that is kept for testing; None for no test.
        seed: of that choice.

    Raises:
        InvalidData: a column or a cell is not what it should be.

    >>> from bequest.data import Table
    >>> table = Table({"age": [30, 40, 50, 60], "ill": ["no", "no", "yes", "yes"]})
    >>> samples = select(table, label="ill")
    >>> samples.y.tolist(), samples.classes, samples.X[0].round(2).tolist()
    ([0.0, 0.0, 1.0, 1.0], ('no', 'yes'), [-1.34, 1.0])
    """
    names = feature_names(table, features, label=label, silo=silo)
    raw = np.concatenate([table.numbers(name) for name in names], axis=1)
    belongs = None if silo is None else _silo(table, silo)
    if classes:
        y, known = _classes(table, label)
    else:
        y, known = table.numbers(label)[:, 0], ()
    train = test = np.arange(table.rows)
    if test_fraction is not None:
        train, test = partition.holdout(y, test_fraction, seed)
    if belongs is not None:
        lacking = np.setdiff1d(belongs, belongs[train])
        if lacking.size:
            raise InvalidData(
                f'{table.source}, column "{silo}": all rows of {label_of(lacking[0])} were drawn '
                "for testing.",
                remedy="Use a smaller test fraction, or another seed.",
            )
    X = _prepared(raw, train, standardise=standardise, bias=bias)
    return Samples(
        X=frozen(X[train]),
        y=frozen(y[train]),
        features=tuple(_spelled(table, names)),
        classes=known,
        silo=None if belongs is None else belongs[train],
        rows=train,
        exam=Exam(
            frozen(X[test]),
            y[test].astype(np.intp),
            known,
            "training" if test_fraction is None else "test",
        )
        if classes
        else None,
    )


def problem_of(
    samples: Samples,
    silos: Sequence[Indices],
    *,
    loss: Loss,
    l2: float = 0.0,
    delta: float = 1.0,
    weigh: Weigh = "samples",
) -> Problem:
    """Return the problem in which every silo holds the loss of its own samples.

    Args:
        samples: what to learn from.
        silos: the rows of every silo, from one of ``bequest.partition``.
        loss: which loss.
        l2: weight of the penalty l2/2 |x|^2, in every silo.
        delta: where a Huber loss becomes linear.
        weigh: ``"samples"``: every sample counts the same, so that the optimum is that of the
            pooled table (all losses are divided by the mean size of a silo). ``"silos"``: every
            silo counts the same, however many samples it has.

    >>> from bequest.data import Table
    >>> table = Table({"age": [30, 40, 50, 60], "ill": ["no", "yes", "no", "yes"]})
    >>> samples = select(table, label="ill")
    >>> problem_of(samples, partition.iid(4, n=2, seed=0), loss="logistic", l2=0.1).n
    2
    """
    divisor = pooled_divisor([silo.size for silo in silos], weigh)
    if samples.classes and loss not in ("logistic", "softmax"):
        raise InvalidData(
            f"The labels are {len(samples.classes)} classes, and a loss of the kind {loss!r} fits "
            "numbers.",
            remedy='Choose the samples with select(..., classes=False), or use the loss "softmax".',
        )
    if loss == "logistic" and len(samples.classes) != 2:
        raise InvalidData(
            f"A logistic loss tells two classes apart, and there are {len(samples.classes)}.",
            remedy='Use the loss "softmax".',
        )
    return Problem(
        [
            loss_of(
                samples.X[rows],
                samples.y[rows],
                loss=loss,
                classes=len(samples.classes),
                l2=l2,
                delta=delta,
                divisor=divisor,
            )
            for rows in silos
        ]
    )


def pooled_divisor(sizes: Sequence[float], weigh: Weigh) -> float | None:
    """Return what the losses of silos of these sizes are divided by; None for each its own."""
    if weigh not in get_args(Weigh):
        raise InvalidData(
            f"weigh is {weigh!r}.",
            remedy='Use "samples", so that every sample counts the same, or "silos".',
        )
    return float(sum(sizes)) / len(sizes) if weigh == "samples" else None


def loss_of(
    X: Matrix,
    y: Vector,
    *,
    loss: Loss,
    classes: int,
    l2: float,
    delta: float,
    divisor: float | None,
) -> Objective:
    """Return the loss of one silo's samples; see ``problem_of``."""
    if loss == "softmax":
        return Softmax(X, y, classes, l2, divisor=divisor)
    if loss == "logistic":
        return Logistic(X, y, l2, divisor=divisor)
    if loss == "huber":
        return Huber(X, y, delta, l2, divisor=divisor)
    return LeastSquares(X, y, l2, divisor=divisor)


def label_of(value: Any) -> str:  # noqa: ANN401 - a cell
    """Return a cell as people write it: 7 and not 7.0."""
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)


def feature_names(
    table: Table, wanted: Sequence[str] | None, *, label: str, silo: str | None
) -> list[str]:
    """Return the columns to learn from, or say which of those wanted is none."""
    others = {label: "label", silo: "silo column"}
    for name in others:
        if name is not None:
            table.column(name)
    if wanted is None:
        found = [n for n in table.columns if n not in others and table.is_numeric(n)]
        if not found:
            raise InvalidData(
                f"{table.source} has no column of numbers besides label and silo.",
                remedy="A model needs at least one feature.",
            )
        return found
    for place, name in enumerate(wanted):
        if name in others:
            raise InvalidData(
                f'{table.source}, column "{name}": is the {others[name]}, and a feature too.',
                remedy="Remove it from the features.",
            )
        if name in wanted[:place]:
            raise InvalidData(
                f'{table.source}, column "{name}": is named twice among the features.',
                remedy="Name it once.",
            )
    return list(wanted)


def _spelled(table: Table, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        column = table.column(name)
        if column.ndim == 1:
            yield name
        else:
            yield from (f"{name}[{part}]" for part in range(column.shape[1]))


def _silo(table: Table, name: str) -> Column:
    column = table.names(name)
    if np.unique(column).size == 1:
        raise InvalidData(
            f'{table.source}, column "{name}": every row belongs to {label_of(column[0])}.',
            remedy="Name a column with at least two silos, or use a partition.",
        )
    return column


def _classes(table: Table, label: str) -> tuple[Vector, tuple[str, ...]]:
    column = table.names(label)
    values, number = np.unique(column, return_inverse=True)
    if values.size == 1:
        raise InvalidData(
            f'{table.source}, column "{label}": every label is {label_of(values[0])}.',
            remedy="Name a label with at least two classes.",
        )
    return number.astype(float), tuple(label_of(value) for value in values.tolist())


def _prepared(raw: Matrix, train: Indices, *, standardise: bool, bias: bool) -> Matrix:
    X = raw
    if standardise:
        spread = raw[train].std(axis=0)
        X = (raw - raw[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.column_stack([X, np.ones(X.shape[0])]) if bias else X
