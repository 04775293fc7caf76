"""[problem] kind = "table": a user's own data, read from a file next to the run file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import Field, PrivateAttr, ValidationInfo, model_validator

from bequest import data
from bequest.data.samples import CLASSIFIERS, Loss, Weigh
from bequest.data.tables import label_of
from bequest.errors import BequestError
from bequest.model import partition
from bequest.model.problem import Problem
from bequest.runfile.fields import Count, Section, refusal

if TYPE_CHECKING:
    from bequest.core.arrays import Indices
    from bequest.data.samples import Total

Silos = Annotated[Count, Field(ge=2)]
Answer = TypeVar("Answer")


class ByLabel(Section):
    """Every silo knows few labels."""

    kind: Literal["by_label"]
    n: Silos

    def split(self, samples: data.Samples, table: data.Table, seed: int) -> "list[Indices]":  # noqa: ARG002
        """Return the rows of every silo."""
        return partition.by_label(samples.y, self.n)


class Dirichlet(Section):
    """Every label is spread unevenly; the smaller alpha, the more so."""

    kind: Literal["dirichlet"]
    n: Silos
    alpha: Annotated[float, Field(gt=0)]

    def split(self, samples: data.Samples, table: data.Table, seed: int) -> "list[Indices]":  # noqa: ARG002
        """Return the rows of every silo."""
        return partition.dirichlet(samples.y, self.n, self.alpha, seed)


class SortedChunks(Section):
    """Consecutive chunks, sorted by columns; by label and first principal component if not told."""

    kind: Literal["sorted_chunks"]
    n: Silos
    by: Annotated[list[str], Field(min_length=1)] | None = None

    def split(self, samples: data.Samples, table: data.Table, seed: int) -> "list[Indices]":  # noqa: ARG002
        """Return the rows of every silo."""
        if self.by is not None:
            keys = [table.names(name)[samples.rows] for name in self.by]
        else:
            features = samples.X[:, : len(samples.features)]
            keys = [samples.y, partition.first_component(features)]
        return partition.sorted_chunks(*keys, n=self.n)


class Iid(Section):
    """Shuffled and dealt out."""

    kind: Literal["iid"]
    n: Silos

    def split(self, samples: data.Samples, table: data.Table, seed: int) -> "list[Indices]":  # noqa: ARG002
        """Return the rows of every silo."""
        return partition.iid(samples.y.size, self.n, seed)


PARTITIONS = {
    "by_label": ByLabel,
    "dirichlet": Dirichlet,
    "sorted_chunks": SortedChunks,
    "iid": Iid,
}
AnyPartition = Annotated[ByLabel | Dirichlet | SortedChunks | Iid, Field(discriminator="kind")]


class TableProblem(Section):
    """Rows of a table, in silos; one loss per silo."""

    kind: Literal["table"]
    file: str
    label: str
    loss: Loss
    l2: Annotated[float, Field(ge=0)] = 0.0
    delta: Annotated[float, Field(gt=0)] = 1.0
    features: Annotated[list[str], Field(min_length=1)] | None = None
    standardise: bool = True
    bias: bool = True
    penalise_bias: bool = True
    impute: Literal["mean"] | None = None
    categories: dict[str, Literal["agree"] | Annotated[list[str], Field(min_length=1)]] = Field(
        default_factory=dict
    )
    weigh: Weigh = "samples"
    silo: str | None = None
    partition: AnyPartition | None = None
    test_fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    entries: ClassVar[float] = 0.0  # what is read from a file is there already
    _table: data.Table = PrivateAttr()
    _silos: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="after")
    def _makes_sense(self, info: ValidationInfo) -> "TableProblem":
        """Refuse options that contradict each other, and a file that does not fit them."""
        self._refuse_contradictions()
        folder = (info.context or {}).get("folder", Path())
        self._table = _told(("file",), lambda: data.read_table(folder / self.file))
        self._check_columns()
        samples = _told((), lambda: self._select(None, 0))
        if self.loss == "logistic" and len(samples.classes) != 2:
            raise refusal(
                f'is "logistic", for two classes, but "{self.label}" has {len(samples.classes)}.',
                'Use "softmax".',
                at=("loss",),
            )
        if samples.silo is not None:
            self._silos = tuple(label_of(name) for name in np.unique(samples.silo).tolist())
        return self

    def _refuse_contradictions(self) -> None:
        if self.silo is not None and self.partition is not None:
            raise refusal("has both silo and partition.", "Keep the one you mean.")
        if self.silo is None and self.partition is None:
            raise refusal(
                "says neither silo nor partition.",
                'Add silo = "..." with the column that names the silo of a row, or a table '
                "[problem.partition].",
            )
        if "delta" in self.model_fields_set and self.loss != "huber":
            raise refusal(
                f'is of no use with loss = "{self.loss}".',
                'Remove it, or use loss = "huber".',
                at=("delta",),
            )
        if self.loss in CLASSIFIERS:
            return
        if self.test_fraction is not None:
            raise refusal(
                f'is of no use with loss = "{self.loss}": there are no classes to tell apart.',
                "Remove it.",
                at=("test_fraction",),
            )
        if isinstance(self.partition, ByLabel | Dirichlet):
            raise refusal(
                f'is "{self.partition.kind}", but loss = "{self.loss}" has no classes.',
                'Use "sorted_chunks" or "iid".',
                at=("partition", "kind"),
            )

    def _check_columns(self) -> None:
        """Say which key names a column that is not there."""
        named: list[tuple[tuple[str | int, ...], str | None]] = [
            (("label",), self.label),
            (("silo",), self.silo),
            *((("features", i), name) for i, name in enumerate(self.features or ())),
            *((("categories", name), name) for name in self.categories),
        ]
        if isinstance(self.partition, SortedChunks):
            named += [(("partition", "by", i), n) for i, n in enumerate(self.partition.by or ())]
        for at, name in named:
            if name is not None:
                _told(at, partial(self._table.column, name))

    @property
    def random(self) -> bool:
        """Whether a seed makes a difference."""
        return self.test_fraction is not None or isinstance(self.partition, Dirichlet | Iid)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self._silos) if self.partition is None else self.partition.n

    @property
    def silos(self) -> tuple[str, ...]:
        """The values of the silo column, in the order of the nodes."""
        return self._silos

    def samples(self, seed: int, total: "Total | None" = None) -> data.Samples:
        """Return the samples of this seed; ``total`` is how silos add up their sums."""
        return self._select(self.test_fraction, seed, total)

    def split(self, samples: data.Samples, seed: int) -> Problem:
        """Return the problem in which every silo has its own samples."""
        if self.partition is None:
            assert samples.silo is not None  # noqa: S101 - one of the two is there
            rows = partition.by_column(samples.silo)
        else:
            rows = self.partition.split(samples, self._table, seed)
        return data.problem_of(
            samples, rows, loss=self.loss, l2=self.l2, delta=self.delta, weigh=self.weigh
        )

    def build(self, seed: int) -> Problem:
        """Return the problem of this seed."""
        return self.split(self.samples(seed), seed)

    def _select(
        self, test_fraction: float | None, seed: int, total: "Total | None" = None
    ) -> data.Samples:
        return data.select(
            self._table,
            label=self.label,
            features=self.features,
            silo=self.silo,
            standardise=self.standardise,
            bias=self.bias if self.penalise_bias or not self.bias else "unpenalised",
            impute=self.impute,
            categories=self.categories,
            classes=self.loss in CLASSIFIERS,
            test_fraction=test_fraction,
            seed=seed,
            total=total,
        )


def _told(at: tuple[str | int, ...], find: Callable[[], Answer]) -> Answer:
    """Return the result of ``find``, or refuse the key in the library's own words."""
    try:
        return find()
    except BequestError as error:
        raise refusal(error.what, error.remedy, at=at) from error
