"""Samples to learn from and to test on: which rows and columns of a table, and as what."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from bequest.core.arrays import frozen, refuse_masked
from bequest.data.choosing import feature_names
from bequest.data.dealing import by_silo
from bequest.data.grading import Exam
from bequest.data.naming import Naming, agree_on_names
from bequest.data.questions import Lacking
from bequest.data.recipe import Category, Number, Recipe, agree
from bequest.data.texts import ranks
from bequest.data.written import label_of
from bequest.errors import InvalidData
from bequest.model import partition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bequest.core.arrays import Indices, Matrix, Vector
    from bequest.data.names import Ask, Question
    from bequest.data.tables import Column, Table

    # Vectors of silos -> their sum.
    Total = Callable[[Sequence[Vector]], Vector]
    # Columns of categories: those declared, or "agree".
    Categories = Mapping[str, Sequence[str] | Literal["agree"]]

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


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a table to learn from, before samples are made of it; as in ``Samples``."""

    table: Table
    recipe: Recipe
    y: Vector
    classes: tuple[str, ...] | None
    silo: Column | None
    train: Indices
    test: Indices | None
    unpenalised: bool

    def check(self) -> None:
        """Refuse what ``samples`` would refuse, in the memory of a column at a time."""
        self.recipe.check(self.table)

    def samples(self) -> Samples:
        """Return the samples."""
        learned = self.recipe.matrix(self.table, None if self.test is None else self.train)
        learned.setflags(write=False)
        exam = None
        if self.classes is not None:
            test = self.train if self.test is None else self.test
            tested = learned if self.test is None else self.recipe.matrix(self.table, test)
            tested.setflags(write=False)
            on: Literal["training", "test"] = "training" if self.test is None else "test"
            exam = Exam(tested, self.y[test].astype(np.intp), self.classes, on)
        return Samples(
            X=learned,
            y=frozen(self.y[self.train]),
            features=self.recipe.features,
            classes=self.classes or (),
            silo=None if self.silo is None else self.silo[self.train],
            rows=self.train,
            exam=exam,
            recipe=self.recipe,
            unpenalised=(learned.shape[1] - 1,) if self.unpenalised else (),
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
        test_fraction: the share of every class that is kept for testing, or of all rows where the
            label is a number to predict; None for no test.
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
    return selection(
        table,
        label=label,
        features=features,
        silo=silo,
        standardise=standardise,
        bias=bias,
        impute=impute,
        categories=categories,
        ignore=ignore,
        classes=classes,
        test_fraction=test_fraction,
        seed=seed,
        total=total,
    ).samples()


def selection(
    table: Table,
    *,
    label: str,
    features: Sequence[str] | None,
    silo: str | None,
    standardise: bool,
    bias: Bias,
    impute: Literal["mean"] | None,
    categories: Categories | None,
    ignore: Sequence[str],
    classes: bool,
    test_fraction: float | None,
    seed: int,
    total: Total | None,
) -> Selection:
    """Return what ``select`` takes, before it is made; its cells are looked at later."""
    kinds = dict(categories or {})
    names = feature_names(table, features, label=label, silo=silo, categories=kinds, ignore=ignore)
    belongs = None if silo is None else _silo(table, silo)
    parts = [np.arange(table.rows)] if belongs is None else by_silo(belongs)
    if classes:
        y, known = _classes(table, label)
    else:
        y, known = table.numbers(label)[:, 0], ()
    train = test = np.arange(table.rows)
    if test_fraction is not None:
        # numbers are no classes of which each needs its share
        of = y if classes else np.zeros(table.rows)
        train, test = partition.holdout(of, test_fraction, seed)
    learns = np.zeros(table.rows, dtype=bool)
    learns[train] = True
    lacking = next((rows for rows in parts if not learns[rows].any()), None)
    if belongs is not None and lacking is not None:
        raise InvalidData(
            f'{table.source}, column "{silo}": all rows of {label_of(belongs[lacking[0]])} were '
            "drawn for testing.",
            remedy="Use a smaller test fraction, or another seed.",
        )
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
    return Selection(
        table=table,
        recipe=recipe,
        y=y,
        classes=known if classes else None,
        silo=belongs,
        train=train,
        test=None if test_fraction is None else test,
        unpenalised=is_unpenalised(bias),
    )


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
    column = table.named(name)
    if (column == column[0]).all():
        raise InvalidData(
            f'{table.source}, column "{name}": every row belongs to {label_of(column[0])}.',
            remedy="Name a column with at least two silos, or use a partition.",
        )
    return column


def _classes(table: Table, label: str) -> tuple[Vector, tuple[str, ...]]:
    values, number = ranks(table.named(label))
    if len(values) == 1:
        raise InvalidData(
            f'{table.source}, column "{label}": every label is {label_of(values[0])}.',
            remedy="Name a label with at least two classes.",
        )
    return number.astype(float), tuple(label_of(value) for value in values)
