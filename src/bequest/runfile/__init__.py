"""A run file: what to solve, which nodes leave, and which wills to compare, in TOML.

``load`` reads and checks one; ``RunFile.jobs`` turns it into plans. What is
wrong with a file is an ``InvalidRunFile`` that names the file, the key, the mistake and what to do
about it. ``bequest docs run-file`` describes every key.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from bequest import files, memory, phases
from bequest.data import Exam, Samples
from bequest.engines import Engine
from bequest.errors import BequestError, InvalidRunFile
from bequest.runfile import sizes
from bequest.runfile.carriers import EngineKind, EngineSection
from bequest.runfile.fields import Count, Numbers, Section, list_or_single, refusal
from bequest.runfile.iterating import AnyMethod
from bequest.runfile.mistakes import mistakes_in, refuse
from bequest.runfile.schema import (
    AnyEveryWill,
    AnyGraph,
    AnyProblem,
    DeparturesSection,
)
from bequest.runfile.tables import Answer, TableProblem
from bequest.solver import prepare_each

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.data.samples import Total
    from bequest.model.graph import Graph
    from bequest.model.plan import Plan

__all__ = ["Job", "RunFile", "load", "parsed", "read", "understand", "understood"]


# Maximum length of a run file in bytes; a million edges take half of it.
_LONGEST = 50_000_000


class WholeFile(Section):
    """The whole file."""

    rounds: Count
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] = Field([0])
    start: (
        Annotated[
            Annotated[float, Tag("single")] | Annotated[Numbers, Tag("list")],
            Discriminator(list_or_single),
        ]
        | None
    ) = None
    buddies: Annotated[int, Field(ge=0, le=10**9)] = 1
    checkpoint_every: Annotated[
        Count | None, BeforeValidator(lambda given: None if given == "none" else given)
    ] = 20
    recall: bool = True
    statistics: bool = True
    optimum: Literal["auto", "always", "none"] = "auto"
    finish: Literal["rounds", "newton"] = "rounds"
    problem: AnyProblem
    graph: AnyGraph
    method: AnyMethod = None
    engine: EngineSection = EngineSection(kind="vector")
    departures: DeparturesSection = DeparturesSection()
    wills: Annotated[list[AnyEveryWill], Field(min_length=1)] = Field(
        default=[{"kind": "adaptive"}], validate_default=True
    )

    @field_validator("problem", mode="after")
    @classmethod
    def _names_are_known(cls, problem: AnyProblem, info: ValidationInfo) -> AnyProblem:
        """Let what follows name nodes by their silos; it is validated in this order."""
        if info.context is not None:
            info.context["silos"] = getattr(problem, "silos", ())
            given = getattr(problem, "files", None)
            info.context["pattern"] = given if isinstance(given, str) else None
        return problem

    @model_validator(mode="after")
    def _seeds_matter(self) -> "WholeFile":
        """Refuse seeds that would repeat one and the same run."""
        if len(set(self.seeds)) < len(self.seeds):
            raise refusal("names a seed twice.", "Use distinct seeds.", at=("seeds",))
        if len(self.seeds) > 1 and not (self.problem.random or self.graph.random):
            raise refusal(
                f"lists {len(self.seeds)} seeds, but nothing here is random.",
                "Use one seed, or a random problem or graph.",
                at=("seeds",),
            )
        return self

    @model_validator(mode="after")
    def _every_node_has_a_host(self) -> "WholeFile":
        """Refuse a placement that leaves a node out, or names one that does not exist."""
        placement, n = self.engine.placement, self.problem.n
        if placement is None:
            return self
        remedy = f"Give each of the nodes 0..{n - 1} a host."
        for node in placement:
            if node >= n:
                raise refusal(
                    "names a node that does not exist.",
                    remedy,
                    at=("engine", "placement", str(node)),
                )
        missing = next((node for node in range(n) if node not in placement), None)
        if missing is not None:
            raise refusal(f"leaves out node {missing}.", remedy, at=("engine", "placement"))
        return self

    @model_validator(mode="after")
    def _wills_apply(self) -> "WholeFile":
        """Refuse wills that cannot be told apart, or that belong to no node."""
        seen: set[str] = set()
        for index, will in enumerate(self.wills):
            title = will.titled(())
            if title in seen:
                raise refusal(
                    f'is the second one called "{title}".',
                    'Give it a label = "..." of its own.',
                    at=("wills", index),
                )
            seen.add(title)
            for node in will.nodes:
                if node >= self.problem.n:
                    raise refusal(
                        "names a node that does not exist.",
                        f"Nodes are numbered 0..{self.problem.n - 1}.",
                        at=("wills", index, "nodes", str(node)),
                    )
        return self


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a file, with its label and seed.

    ``prepared`` is its plan, or why it cannot be run, though others may. ``samples`` are what it
    learns from, where the problem is a table, and ``names`` those of its silos.
    """

    label: str
    seed: int
    prepared: "Plan | BequestError"
    engine: Engine
    samples: "Samples | phases.Agreed | None" = None
    names: tuple[str, ...] = ()

    @property
    def exam(self) -> Exam | None:
        """What to grade the model on, where the problem is to classify."""
        return self.samples.exam if isinstance(self.samples, Samples) else None

    @property
    def plan(self) -> "Plan":
        """The plan; raises the reason if there is none."""
        if isinstance(self.prepared, BequestError):
            raise self.prepared
        return self.prepared


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run file that has been read and understood; ``text`` is what it says."""

    path: Path
    text: str
    content: WholeFile
    _sums: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        """Return how many runs it asks for."""
        return len(self.content.seeds) * len(self.content.wills)

    @property
    def rounds(self) -> int:
        """How many rounds each run has."""
        return self.content.rounds

    @property
    def seeds(self) -> list[int]:
        """The seeds that every will is run with."""
        return self.content.seeds

    @property
    def wills(self) -> list[str]:
        """The titles of the wills, in the order in which they are run."""
        return [will.titled(self.silos) for will in self.content.wills]

    @property
    def engine(self) -> EngineKind:
        """Which engine it asks for."""
        return self.content.engine.kind

    def on(self, engine: str) -> "RunFile":
        """Return the same runs on this engine, with its options if the file has some."""
        if engine == self.engine:
            return self
        return self._carried_by(EngineSection(kind=cast("EngineKind", engine)))

    def at(self, address: str) -> "RunFile":
        """Return the same runs on the cluster at this address; for the Ray engine only."""
        return self._carried_by(self.content.engine.model_copy(update={"address": address}))

    def _carried_by(self, engine: EngineSection) -> "RunFile":
        return RunFile(self.path, self.text, self.content.model_copy(update={"engine": engine}))

    @property
    def silos(self) -> tuple[str, ...]:
        """The names of the nodes, where they have names."""
        problem = self.content.problem
        return problem.silos if isinstance(problem, TableProblem) else ()

    def job(self, label: str, seed: int) -> Job | None:
        """Return the run with this label and seed; None if there is none."""
        if seed not in self.content.seeds:
            return None
        return next((job for job in self._jobs(seed) if job.label == label), None)

    def jobs(self) -> Iterator[Job]:
        """Yield the runs, seed by seed; problems are built when their seed's turn comes."""
        for seed in self.content.seeds:
            yield from self._jobs(seed)

    def _jobs(self, seed: int) -> Iterator[Job]:
        content = self.content
        sizes.check(content, self.path)
        engine = content.engine.build(seed)
        graph = content.graph.build(n=content.problem.n, seed=seed)
        samples: Samples | phases.Agreed | None = None
        if not isinstance(content.problem, TableProblem):
            problem = content.problem.build(seed)
        elif content.problem.on_hosts:
            table = content.problem
            samples = self._once((seed, "agreed"), lambda: table.agreed(graph, engine))
            problem = samples.problem
        else:
            total = self._total(seed, graph, engine)
            problem, samples = content.problem.split(content.problem.samples(seed, total), seed)
        plans = prepare_each(
            [entry.build_all() for entry in content.wills],
            unplanned=getattr(engine, "unplanned", False),
            problem=problem,
            graph=graph,
            departures=content.departures.build(problem),
            method=None if content.method is None else content.method.build_for(problem),
            rounds=content.rounds,
            start=[content.start] * problem.dim
            if isinstance(content.start, float)
            else content.start,
            buddies=content.buddies,
            recall=content.recall,
            statistics=content.statistics,
            checkpoint_every=content.checkpoint_every,
            optimum=None if content.optimum == "none" else content.optimum,
        )
        for title, plan in zip(self.wills, plans, strict=True):
            yield Job(title, seed, plan, engine, samples, self.silos)

    def with_agreement(self, seed: int, agreed: "Mapping[str, Any]") -> None:
        """Take this for what silos have agreed on, so that none has to be asked again.

        Raises:
            InvalidData: it cannot be that.
        """
        content = self.content
        graph = content.graph.build(n=content.problem.n, seed=seed)
        engine = content.engine.build(seed)
        self._sums[seed, "agreed"] = phases.Agreed.from_dict(agreed, graph=graph, engine=engine)

    def _total(self, seed: int, graph: "Graph", engine: Engine) -> "Total | None":
        """Return how silos add up their sums: as nodes of the same network, if they have names."""
        if not self.silos:
            return None

        def total(parts: "Sequence[Vector]") -> "Vector":
            key = seed, *(np.asarray(part).tobytes() for part in parts)
            return self._once(key, lambda: phases.total(parts, graph=graph, engine=engine))

        return total

    def _once(self, key: object, find: Callable[[], Answer]) -> Answer:
        """Return what silos have agreed on: on a cluster, asking them again would take seconds."""
        if key not in self._sums:
            self._sums[key] = find()
        found: Answer = self._sums[key]
        return found


def load(path: Path) -> RunFile:
    """Read and check a run file.

    Raises:
        InvalidRunFile: it cannot be read, or not be understood.
    """
    return understand(read(path), path)


def understand(text: str, path: Path, *, method: Mapping[str, object] | None = None) -> RunFile:
    """Check the text of a run file.

    Args:
        text: what it says.
        path: where it is or was; the files that it names are next to it.
        method: how nodes iterate where it does not say so, as it would; None to have that chosen.

    Raises:
        InvalidRunFile: it cannot be understood.
    """
    document = parsed(text, path)
    if "sweep" in document:
        raise InvalidRunFile(
            f"{path} has a [sweep], which is many runs with different settings.",
            remedy="Only bequest run carries those out; name a file without one here.",
        )
    said = document.get("method", {})
    if method is not None and isinstance(said, dict) and {*said} <= {"half"}:
        document["method"] = dict(method)
    return understood(document, text, path)


def parsed(text: str, path: Path) -> dict[str, Any]:
    """Return what TOML says, or why it is none."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidRunFile(
            f"{path} is not TOML: {error}.",
            remedy="Correct that line; bequest docs run-file shows the format.",
        ) from error


def understood(document: dict[str, Any], text: str, path: Path) -> RunFile:
    """Check what a run file says; ``text`` is how it says that."""
    try:
        context = {"folder": path.parent}
        return RunFile(path, text, WholeFile.model_validate(document, context=context))
    except ValidationError as error:
        raise refuse(path, mistakes_in(error, document, top=WholeFile.model_fields)) from error


def read(path: Path) -> str:
    """Return the text of a run file, or say why it cannot be read."""
    try:
        if files.is_named_pipe(path):
            raise OSError(None, "it is a named pipe, which would keep its reader waiting")
        with path.open("rb") as file:  # a pipe of the shell is fine, but it need not end
            content = file.read(_LONGEST + 1)
        if len(content) > _LONGEST:
            raise InvalidRunFile(
                f"{path} is longer than {memory.shown(_LONGEST)}.",
                remedy="Name a TOML file; data belong into a table of their own.",
            )
        return content.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InvalidRunFile(
            f"{path} does not exist.", remedy="Check the name, and the folder you are in."
        ) from error
    except IsADirectoryError as error:
        raise InvalidRunFile(f"{path} is a folder.", remedy="Name the TOML file in it.") from error
    except OSError as error:
        raise InvalidRunFile(
            f"{path} cannot be read: {error.strerror or error}.",
            remedy="Check its permissions, or name another file.",
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidRunFile(
            f"{path} is not text: byte {error.start} is not UTF-8.",
            remedy="Name a TOML file, saved as UTF-8.",
        ) from error
