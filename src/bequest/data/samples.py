"""Samples to learn from and to test on, and the losses of silos that hold them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from bequest.core.arrays import frozen, refuse_masked
from bequest.data.choosing import feature_names
from bequest.data.dealing import part_of
from bequest.data.grading import Exam
from bequest.data.naming import Naming, agree_on_names
from bequest.data.questions import Lacking
from bequest.data.recipe import Category, Number, Recipe, agree
from bequest.data.tables import label_of
from bequest.errors import InvalidData
from bequest.model import partition
from bequest.model.objectives import Huber, LeastSquares, Logistic, Softmax
from bequest.model.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bequest.core.arrays import Indices, Matrix, Vector
    from bequest.data.names import Ask, Question
    from bequest.data.tables import Column, Table
    from bequest.model.objectives import Objective

    # Vectors of silos -> their sum.
    Total = Callable[[Sequence[Vector]], Vector]
    # Columns of categories: those declared, or "agree".
    Categories = Mapping[str, Sequence[str] | Literal["agree"]]

Loss: TypeAlias = Literal["logistic", "softmax", "least_squares", "huber"]
CLASSIFIERS = ("logistic", "softmax")
# What counts the same: every sample, as if all silos were one table; or every silo.
Weigh: TypeAlias = Literal["samples", "silos"]
# Whether a column of ones is appended, and whether it is penalised.
Bias: TypeAlias = bool | Literal["unpenalised"]


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
        recipe: how rows of a table become such samples.
        unpenalised: the columns of X that a penalty is to leave alone.
    """

    X: Matrix
    y: Vector
    features: tuple[str, ...]
    classes: tuple[str, ...]
    silo: Column | None
    rows: Indices
    exam: Exam | None
    recipe: Recipe = field(default_factory=lambda: Recipe(()))
    unpenalised: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("X", "y", "silo", "rows"):
            refuse_masked(getattr(self, name), name, InvalidData)

    def without_rows(self) -> Samples:
        """Return what there is to know about them, once the losses have the samples themselves."""
        none = np.empty((0, self.X.shape[1]))
        none.setflags(write=False)
        return replace(self, X=none, y=none[:, 0], silo=None, rows=np.empty(0, dtype=np.intp))

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
    bias: Bias = True,
    impute: Literal["mean"] | None = None,
    categories: Categories | None = None,
    ignore: Sequence[str] = (),
    classes: bool = True,
    test_fraction: float | None = None,
    seed: int = 0,
    total: Total | None = None,
) -> Samples:
    """Choose columns of a table to learn from.

    Args:
        table: the table.
        label: what to predict.
        features: from what; by default, all other columns. One without numbers is refused then,
            unless its categories are declared or it is ignored.
        silo: which silo a row belongs to.
        standardise: shift and scale every feature to mean 0 and deviation 1 (in training).
        bias: append a column of ones; ``"unpenalised"`` leaves it out of the penalty.
        impute: ``"mean"`` fills in for missing numbers, with a feature that says that they were
            missing, and makes a category of missing ones; by default they are refused.
        categories: columns that hold categories, and which: a feature each. ``"agree"`` takes those
            that some silo knows; rows that are kept for testing say so too, though what numbers
            are shifted and scaled by is that of the others.
        ignore: columns to leave out, where features are not named.
        classes: whether the label names a class, or is a number to predict.
        test_fraction: the share of every class that is kept for testing; None for no test.
        seed: of that choice.
        total: how silos add up their sums (``bequest.phases.total``); by default they are added.

    Raises:
        InvalidData: a column or a cell is not what it should be.

    >>> from bequest.data import Table
    >>> table = Table({"age": [30, 40, 50, 60], "ill": ["no", "no", "yes", "yes"]})
    >>> samples = select(table, label="ill")
    >>> samples.y.tolist(), samples.classes, samples.X[0].round(2).tolist()
    ([0.0, 0.0, 1.0, 1.0], ('no', 'yes'), [-1.34, 1.0])
    """
    kinds = dict(categories or {})
    names = feature_names(table, features, label=label, silo=silo, categories=kinds, ignore=ignore)
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
    every = np.arange(table.rows)
    parts = [every] if belongs is None else partition.by_column(belongs)
    learns = np.isin(every, train)
    add = _added if total is None else total

    def ask_all(question: Question) -> Vector:
        return add([question(table.take(rows)) for rows in parts])

    def ask(question: Question) -> Vector:
        return add([question(table.take(rows[learns[rows]])) for rows in parts])

    recipe, _ = agree(
        _columns(table, names, kinds, ask_all, impute=imputes(impute)),
        ask,
        standardise=standardise,
        bias=bool(bias),
        source=table.source,
    )
    if test_fraction is not None:
        recipe = _knowing_all(recipe, ask_all)
    learned = recipe.matrix(table, None if test_fraction is None else train)
    tested = learned if test_fraction is None else recipe.matrix(table, test)
    for part in (learned, tested):
        part.setflags(write=False)
    return Samples(
        X=learned,
        y=frozen(y[train]),
        features=recipe.features,
        classes=known,
        silo=None if belongs is None else belongs[train],
        rows=train,
        exam=Exam(
            tested,
            y[test].astype(np.intp),
            known,
            "training" if test_fraction is None else "test",
        )
        if classes
        else None,
        recipe=recipe,
        unpenalised=(learned.shape[1] - 1,) if is_unpenalised(bias) else (),
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
        l2: weight of the penalty l2/2 |x|^2. With ``weigh="samples"`` every sample brings its
            share of it, so that a silo which is forgotten leaves the optimum of the other rows
            with the same l2; with ``"silos"`` every silo has all of it.
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
                part_of(samples.X, rows),
                part_of(samples.y, rows),
                loss=loss,
                classes=len(samples.classes),
                l2=l2,
                delta=delta,
                divisor=divisor,
                unpenalised=samples.unpenalised,
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
    unpenalised: Sequence[int] = (),
) -> Objective:
    """Return the loss of one silo's samples; see ``problem_of``."""
    l2 *= 1.0 if divisor is None else y.size / divisor
    if loss == "softmax":
        return Softmax(X, y, classes, l2, divisor=divisor, unpenalised=unpenalised)
    if loss == "logistic":
        return Logistic(X, y, l2, divisor=divisor, unpenalised=unpenalised)
    if loss == "huber":
        return Huber(X, y, delta, l2, divisor=divisor, unpenalised=unpenalised)
    return LeastSquares(X, y, l2, divisor=divisor, unpenalised=unpenalised)


def _columns(
    table: Table,
    names: Sequence[str],
    categories: Categories,
    ask: Ask,
    *,
    impute: bool,
) -> tuple[Number | Category, ...]:
    """Return the columns to learn from, before silos have agreed on their numbers."""
    naming = Naming(to_agree_on(categories), impute)
    agreed = agree_on_names(naming, ask, source=table.source).categories
    widths = {
        name: 0 if table.column(name).ndim == 1 else table.column(name).shape[1] for name in names
    }
    return columns_of(widths, categories, agreed, impute=impute, source=table.source)


def _knowing_all(recipe: Recipe, ask_all: Ask) -> Recipe:
    """Return the recipe with a category of missing cells also where only rows to test on lack some.

    Categories are names, which a silo knows from all its rows.
    """
    unsure = tuple(
        one for one in recipe.columns if isinstance(one, Category) and one.impute > one.indicator
    )
    if not unsure:
        return recipe
    counts = dict(zip(unsure, np.rint(ask_all(Lacking(unsure))).tolist(), strict=True))
    columns = [
        replace(one, indicator=counts[one] > 0)
        if isinstance(one, Category) and one in counts
        else one
        for one in recipe.columns
    ]
    return replace(recipe, columns=tuple(columns))


def to_agree_on(categories: Categories) -> tuple[str, ...]:
    """Return the columns whose categories are not declared."""
    return tuple(name for name, given in categories.items() if given == "agree")


def columns_of(
    widths: Mapping[str, int],
    categories: Categories,
    agreed: Mapping[str, tuple[str, ...]],
    *,
    impute: bool,
    source: str,
) -> tuple[Number | Category, ...]:
    """Return the columns to learn from, in order, as they are before numbers are agreed on.

    Args:
        widths: every column, and how many it is if it is a block; 0 for a single one.
        categories: what was said about columns of categories.
        agreed: the categories that silos have agreed on.
        impute: whether cells may be missing.
        source: what the columns are of, for messages.
    """
    found: list[Number | Category] = []
    for name, width in widths.items():
        if name in agreed:
            found.append(Category(name, agreed[name], impute))
        elif name in categories:
            found.append(_declared(source, name, categories[name], impute=impute))
        else:
            parts = range(width) if width else [None]
            found += [Number(name, part, impute=impute) for part in parts]
    return tuple(found)


def _declared(source: str, name: str, given: Sequence[str], *, impute: bool) -> Category:
    values = [given] if isinstance(given, str) else [label_of(value) for value in given]
    if isinstance(given, str) or not values or len({*values}) < len(values) or "" in values:
        raise InvalidData(
            f'{source}, column "{name}": its categories are given as {given!r}.',
            remedy='List them, each once, or write "agree" for those that some silo knows.',
        )
    return Category(name, tuple(values), impute)


def imputes(impute: str | None) -> bool:
    """Whether missing values are filled in; refuses what says neither."""
    if impute not in (None, "mean"):
        raise InvalidData(
            f"impute is {impute!r}.", remedy='Use "mean", or leave it out to refuse missing values.'
        )
    return impute == "mean"


def is_unpenalised(bias: object) -> bool:
    """Whether the penalty is to leave the bias alone; refuses what says neither."""
    if not isinstance(bias, bool) and bias != "unpenalised":
        raise InvalidData(f"bias is {bias!r}.", remedy='Use True, False or "unpenalised".')
    return bias == "unpenalised"


def _added(parts: Sequence[Vector]) -> Vector:
    total: Vector = np.sum(parts, axis=0)
    return total


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
