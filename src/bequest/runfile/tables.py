"""[problem] kind = "table": a user's own data, read from a file next to the run file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Discriminator, Field, PrivateAttr, Tag, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from bequest import data, phases
from bequest.data.dealing import by_silo, dealt
from bequest.data.losses import CLASSIFIERS, Loss, Weigh
from bequest.data.samples import Selection, selection
from bequest.data.tables import joined
from bequest.data.texts import ranks
from bequest.data.written import label_of
from bequest.engines import Engine
from bequest.errors import BequestError, InvalidMethod
from bequest.model import partition
from bequest.model.graph import Graph
from bequest.model.problem import Problem
from bequest.runfile.fields import Count, Section, refusal

if TYPE_CHECKING:
    from bequest.core.arrays import Indices
    from bequest.data.samples import Bias, Total

Silos = Annotated[Count, Field(ge=2)]
Answer = TypeVar("Answer")
# The column that says which file a row is from.
_SILO = "(silo)"
# A table of more bytes than this is not kept once there are samples.
_LARGE = 2**26


def _glob_or_names(value: object) -> str:
    """Tell a pattern from a table of names, so that a mistake is told of what was meant."""
    return "glob" if isinstance(value, str) else "names"


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
            keys = [table.keys(name)[samples.rows] for name in self.by]
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
    file: str | None = None
    files: (
        Annotated[
            Annotated[str, Tag("glob")] | Annotated[dict[str, str], Tag("names")],
            Discriminator(_glob_or_names),
        ]
        | None
    ) = None
    on_hosts: bool = False
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
    ignore: Annotated[list[str], Field(min_length=1)] | None = None
    weigh: Weigh = "samples"
    silo: str | None = None
    partition: AnyPartition | None = None
    test_fraction: Annotated[float, Field(gt=0, lt=1)] | None = None
    entries: ClassVar[float] = 0.0  # what is read from a file is there already
    _kept: data.Table | None = PrivateAttr(None)
    _again: Callable[[], data.Table] = PrivateAttr()
    _files: dict[str, Path] = PrivateAttr(default_factory=dict)
    _silos: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="after")
    def _makes_sense(self, info: ValidationInfo) -> "TableProblem":
        """Refuse options that contradict each other, and files that do not fit them."""
        self._refuse_contradictions()
        folder = (info.context or {}).get("folder", Path())
        if self.files is not None:
            self._files = named_files(self.files, folder)
            if self.on_hosts:  # only hosts may read them
                self._silos = tuple(self._files)
                return self
        self._again = partial(self._read, folder)
        self._kept = self._again()
        self._check_columns()
        found = _told((), self._looked_through)
        count = len(found.classes or ())
        if self.loss == "logistic" and count != 2:
            raise refusal(
                f'is "logistic", for two classes, but "{self.label}" has {count}.',
                'Use "softmax".',
                at=("loss",),
            )
        if found.silo is not None:
            self._silos = tuple(label_of(name) for name in ranks(found.silo).values)
        return self

    @property
    def _table(self) -> data.Table:
        if self._kept is None:
            self._kept = self._again()
        return self._kept

    def _release(self) -> None:
        """Let go of a large table: the samples are made, and it can be read again."""
        if self._kept is not None and sum(c.nbytes for c in self._kept.columns.values()) > _LARGE:
            self._kept = None

    def _read(self, folder: Path) -> data.Table:
        if self.file is not None:
            path = folder / self.file
            return _told(("file",), lambda: data.read_table(path))
        tables = {
            name: _told(self._at(name), partial(data.read_table, path))
            for name, path in self._files.items()
        }
        wanted = None
        if self.features is not None:
            wanted = [self.label, *self.features]
        try:
            return _told(("files",), lambda: joined(tables, silo=_SILO, names=wanted))
        except PydanticCustomError as error:
            if not isinstance(self.files, str):
                raise
            told = error.context or {}
            remedy = (
                f'{told["remedy"]} If one of them is no silo, keep it where "{self.files}" does '
            )
            raise refusal(told["what"], f"{remedy}not match it.", at=("files",)) from error

    def _at(self, name: str) -> tuple[str, ...]:
        """Return the key that names a silo's file."""
        return ("files", name) if isinstance(self.files, dict) else ("files",)

    def _refuse_contradictions(self) -> None:
        if self.file is not None and self.files is not None:
            raise refusal("has both file and files.", "Keep the one you mean.")
        if self.file is None and self.files is None:
            raise refusal(
                "says neither file nor files.",
                'Add file = "..." with all rows, or files = { name = "...", ... } with a file per '
                "silo.",
            )
        if self.on_hosts and self.files is None:
            raise refusal(
                "is of no use with one file of all silos.",
                'Name a file per silo: files = { bonn = "/data/bonn.csv", ... }.',
                at=("on_hosts",),
            )
        for name in ("silo", "partition", "test_fraction"):
            given = getattr(self, name) is not None
            if given and (self.on_hosts or (self.files is not None and name != "test_fraction")):
                why = "on_hosts" if self.on_hosts else "files: every file is a silo"
                raise refusal(f"is of no use with {why}.", "Remove it.", at=(name,))
        if self.files is not None:
            self._refuse_useless()
            return
        if self.silo is not None and self.partition is not None:
            raise refusal("has both silo and partition.", "Keep the one you mean.")
        if self.silo is None and self.partition is None:
            raise refusal(
                "says neither silo nor partition.",
                'Add silo = "..." with the column that names the silo of a row, or a table '
                "[problem.partition].",
            )
        self._refuse_useless()

    def _refuse_useless(self) -> None:
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
            *((("ignore", i), name) for i, name in enumerate(self.ignore or ())),
        ]
        if isinstance(self.partition, SortedChunks):
            named += [(("partition", "by", i), n) for i, n in enumerate(self.partition.by or ())]
        for at, name in named:
            if name is not None:
                _told(at, partial(self._table.column, name))

    @property
    def hosted(self) -> dict[str, Path]:
        """The files of silos that only their hosts may read."""
        return self._files if self.on_hosts else {}

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
        """The values of the silo column, or the names of files, in the order of the nodes."""
        return self._silos

    def samples(self, seed: int, total: "Total | None" = None) -> data.Samples:
        """Return the samples of this seed; ``total`` is how silos add up their sums."""
        return data.select(self._table, **self._options(self.test_fraction, seed, total))

    def split(self, samples: data.Samples, seed: int) -> tuple[Problem, data.Samples]:
        """Return the problem in which every silo has its own samples, and the samples without rows.

        What is given is used up, and a large table is let go: of the rows there is one copy, which
        the losses share, and the exam where it is about what they have learned from.
        """
        if self.partition is None:
            assert samples.silo is not None  # noqa: S101 - one of the two is there
            rows = by_silo(samples.silo)
        else:
            rows = self.partition.split(samples, self._table, seed)
        self._release()
        samples, rows = dealt(samples, rows)
        problem = data.problem_of(
            samples,
            rows,
            loss=self.loss,
            l2=self.l2,
            delta=self.delta,
            weigh=self.weigh,
            names=self.silos,
        )
        return problem, samples.without_rows()

    def build(self, seed: int) -> Problem:
        """Return the problem of this seed."""
        return self.split(self.samples(seed), seed)[0]

    @property
    def _bias(self) -> "Bias":
        return self.bias if self.penalise_bias or not self.bias else "unpenalised"

    @property
    def _ignored(self) -> list[str]:
        """Columns that are no features; texts to sort by are among them."""
        by = self.partition.by or () if isinstance(self.partition, SortedChunks) else ()
        texts = [] if self.features is not None else [n for n in by if self._is_text(n)]
        return list(dict.fromkeys([*(self.ignore or ()), *texts]))

    def _is_text(self, name: str) -> bool:
        return name != self.label and not (name in self.categories or self._table.is_numeric(name))

    def agreed(self, graph: Graph, engine: Engine) -> phases.Agreed:
        """Return what silos have agreed on whose files only their hosts read.

        Raises:
            InvalidMethod: a silo left meanwhile.
        """
        found = phases.on_hosts(
            self._files,
            label=self.label,
            loss=self.loss,
            graph=graph,
            engine=engine,
            features=self.features,
            standardise=self.standardise,
            bias=self._bias,
            impute=self.impute,
            categories=self.categories,
            ignore=self.ignore or (),
            l2=self.l2,
            delta=self.delta,
            weigh=self.weigh,
        )
        if found.left:
            raise InvalidMethod(
                f"{', '.join(found.left)} left while the silos were agreeing on how rows become "
                "features.",
                remedy="Run again, without its file or when it is back.",
            )
        return found

    def _looked_through(self) -> Selection:
        """Return what will be selected, or refuse it: without making samples, which take room."""
        found = selection(self._table, **self._options(None, 0, None))
        found.check()
        return found

    def _options(
        self, test_fraction: float | None, seed: int, total: "Total | None"
    ) -> dict[str, Any]:
        return {
            "label": self.label,
            "features": self.features,
            "silo": self.silo if self.files is None else _SILO,
            "standardise": self.standardise,
            "bias": self._bias,
            "impute": self.impute,
            "categories": self.categories,
            "ignore": self._ignored,
            "classes": self.loss in CLASSIFIERS,
            "test_fraction": test_fraction,
            "seed": seed,
            "total": total,
        }


def named_files(files: str | dict[str, str], folder: Path) -> dict[str, Path]:
    """Return the file of every silo, sorted by name; of a pattern, names are those of the files."""
    if isinstance(files, dict):
        found = {name: (folder / path).absolute() for name, path in files.items()}
    else:
        paths = sorted(folder.glob(files)) if not Path(files).is_absolute() else []
        found = {path.stem: path.absolute() for path in paths if path.is_file()}
        if len(found) < len(paths):
            raise refusal(
                "matches files of one name in several folders.",
                'Name them: files = { bonn = "...", ... }.',
                at=("files",),
            )
    if len(found) < 2:
        raise refusal(
            f"names {len(found)} file{'' if len(found) == 1 else 's'}.",
            "There must be at least two silos, a file each; a pattern is relative to the run file.",
            at=("files",),
        )
    return dict(sorted(found.items()))


def _told(at: tuple[str | int, ...], find: Callable[[], Answer]) -> Answer:
    """Return the result of ``find``, or refuse the key in the library's own words."""
    try:
        return find()
    except BequestError as error:
        raise refusal(error.what, error.remedy, at=at) from error
