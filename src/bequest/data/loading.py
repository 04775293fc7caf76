"""One node's own file of samples, read where it lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import numpy as np

from bequest.data.choosing import feature_names
from bequest.data.losses import CLASSIFIERS, Loss, loss_of
from bequest.data.reading import read_table
from bequest.data.samples import is_unpenalised
from bequest.data.written import label_of
from bequest.errors import InvalidData

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import PurePath

    from bequest.core.arrays import Matrix, Vector
    from bequest.data.recipe import Recipe
    from bequest.data.samples import Bias
    from bequest.data.tables import Table
    from bequest.model.objectives import Objective


@dataclass(frozen=True, slots=True)
class Loader:
    """Reads one node's samples and returns their loss; see ``loader``, which makes these."""

    path: str
    label: str
    loss: Loss
    features: tuple[str, ...] | None
    classes: tuple[str, ...]
    bias: bool
    l2: float
    delta: float
    divisor: float | None
    recipe: Recipe | None = None
    unpenalised: bool = False
    ignore: tuple[str, ...] = ()

    @property
    def __name__(self) -> str:
        """What messages call it."""
        return f'loader("{self.path}")'

    def __call__(self) -> Objective:
        """Read the file, and return the loss."""
        return self.loss_of(read_table(self.path))

    def loss_of(self, table: Table) -> Objective:
        """Return the loss of the samples in a table."""
        X = self._features(table) if self.recipe is None else self.recipe.matrix(table)
        return loss_of(
            X,
            self._labels(table),
            loss=self.loss,
            classes=len(self.classes),
            l2=self.l2,
            delta=self.delta,
            divisor=self.divisor,
            unpenalised=[-1] if self.unpenalised else [],
        )

    def _features(self, table: Table) -> Matrix:
        names = feature_names(table, self.features, label=self.label, silo=None, ignore=self.ignore)
        X = table.matrix(names)
        return np.column_stack([X, np.ones(table.rows)]) if self.bias else X

    def _labels(self, table: Table) -> Vector:
        if self.loss not in CLASSIFIERS:
            numbers: Vector = table.numbers(self.label)[:, 0]
            return numbers
        number = {name: float(index) for index, name in enumerate(self.classes)}
        found = [label_of(value) for value in table.names(self.label).tolist()]
        for row, name in enumerate(found):
            if name not in number:
                raise InvalidData(
                    f'{table.where(row, self.label)}: is "{name}", which is no class.',
                    remedy=f"The classes were given as {', '.join(self.classes)}; name them all, "
                    "in one order for every node.",
                )
        return np.array([number[name] for name in found])


def loader(
    path: str | PurePath,
    *,
    label: str,
    loss: Loss,
    classes: Sequence[object] | None = None,
    features: Sequence[str] | None = None,
    bias: Bias = True,
    l2: float = 0.0,
    delta: float = 1.0,
    divisor: float | None = None,
    recipe: Recipe | None = None,
    ignore: Sequence[str] = (),
) -> Loader:
    """Return what reads one node's samples from a file and makes a loss of them, for ``Loaded``.

    Nothing is read before it is called, and the path is understood by the machine on which that
    happens. Features go in as they are, or by a recipe that is the same for every silo: silos that
    were standardised one by one would not mean the same by them.

    Args:
        path: a table that ``read_table`` can read: ``.csv``, ``.npz`` or ``.parquet``.
        label: the column with what to predict.
        loss: which loss.
        classes: the names of all classes, of which a silo may lack some, in one order for every
            node; for "logistic" (the second one is the positive class) and "softmax".
        features: from which columns to predict, in this order; by default all other columns, in
            the order of the file. Name them if files may differ in that.
        bias: append a column of ones; it counts in ``dim``. ``"unpenalised"`` leaves it out of the
            penalty.
        l2: weight of the penalty l2/2 |x|^2.
        delta: where a Huber loss becomes linear.
        divisor: what the sum over the samples is divided by, by default their number, so that
            every silo weighs alike; with one number for all silos every sample does.
        ignore: columns to leave out, where features are not named.
        recipe: how rows become features, such as ``Samples.recipe`` or that of a model; instead of
            ``features``, and with or without a bias of its own.

    Raises:
        InvalidData: the options contradict each other; when it is called, the file does not fit.

    >>> import bequest as bq
    >>> load = loader("/data/silo3.npz", label="y", loss="logistic", classes=["no", "yes"], l2=0.1)
    >>> bq.Loaded(load, dim=11, curvature=(0.1, 2.5))
    Loaded(loader("/data/silo3.npz"), dim=11, Curvature(a=0.1, b=2.5, certified=True))
    """
    if loss not in get_args(Loss):
        raise InvalidData(
            f"The loss is {loss!r}.", remedy=f"Use one of {', '.join(get_args(Loss))}."
        )
    if recipe is not None and (features is not None or ignore or bool(bias) != recipe.bias):
        raise InvalidData(
            "The recipe says which features there are, and whether there is a bias.",
            remedy=f"Leave features and ignore out, and pass bias={recipe.bias}.",
        )
    names = tuple(label_of(name) for name in classes or ())
    if loss not in CLASSIFIERS and names:
        raise InvalidData(
            f'Classes are given, but the loss "{loss}" predicts a number.',
            remedy='Leave them out, or use the loss "logistic" or "softmax".',
        )
    if loss in CLASSIFIERS and (len(names) < 2 or len(set(names)) < len(names)):
        raise InvalidData(
            f'The loss "{loss}" tells classes apart, and these are given: '
            f"{', '.join(names) or 'none'}.",
            remedy="Name all classes, each once: no silo can know the others'.",
        )
    if loss == "logistic" and len(names) != 2:
        raise InvalidData(
            f"A logistic loss tells two classes apart, and there are {len(names)}.",
            remedy='Use the loss "softmax".',
        )
    return Loader(
        path=str(path),
        label=label,
        loss=loss,
        features=None if features is None else tuple(features),
        classes=names,
        bias=bool(bias),
        l2=l2,
        delta=delta,
        divisor=divisor,
        recipe=recipe,
        unpenalised=is_unpenalised(bias),
        ignore=tuple(ignore),
    )
