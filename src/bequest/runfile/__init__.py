"""A run file: what to solve, who leaves, and which wills to compare, in TOML.

``load`` reads and checks one; ``RunFile.jobs`` turns it into calls of ``bequest.solve``. Whatever
is wrong with a file is an ``InvalidRunFile`` that names the file, the key, the mistake and what
to do about it. ``bequest docs run-file`` describes every key.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, model_validator

from bequest import memory
from bequest.data import Exam
from bequest.engines import Engine
from bequest.errors import (
    BequestError,
    InvalidMethod,
    InvalidRunFile,
    InvalidWill,
    OptimumUnknown,
)
from bequest.model.events import Crash, Departure, schedule
from bequest.model.wills import will_of
from bequest.runfile import sizes
from bequest.runfile.fields import Count, Numbers, Table, list_or_single, refusal
from bequest.runfile.mistakes import mistakes_in, refuse
from bequest.runfile.schema import (
    AnyEveryWill,
    AnyGraph,
    AnyProblem,
    DeparturesTable,
    EngineKind,
    EngineTable,
)
from bequest.runfile.tables import TableProblem
from bequest.solver import GradientTracking, calibrate

if TYPE_CHECKING:
    from bequest.core.bounds import Pilot

__all__ = ["Job", "RunFile", "load", "understand"]


# In bytes; a network of a million edges, written out, is half as long.
_LONGEST = 50_000_000


class MethodTable(Table):
    """How to iterate; a step is chosen if none is given."""

    step: Annotated[float, Field(gt=0)] | None = None


class RunTable(Table):
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
    optimum: Literal["auto", "always", "none"] = "auto"
    problem: AnyProblem
    graph: AnyGraph
    method: MethodTable = MethodTable()
    engine: EngineTable = EngineTable(kind="vector")
    departures: DeparturesTable = DeparturesTable()
    wills: Annotated[list[AnyEveryWill], Field(min_length=1)] = Field(
        default=[{"kind": "adaptive"}], validate_default=True
    )

    @model_validator(mode="after")
    def _seeds_matter(self) -> "RunTable":
        """Refuse seeds that would make statistics out of one and the same run."""
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
    def _everybody_has_a_place(self) -> "RunTable":
        """Refuse a placement that leaves somebody out, or names somebody who does not exist."""
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
    def _wills_apply(self) -> "RunTable":
        """Refuse wills that cannot be told apart, or that belong to nobody."""
        seen: set[str] = set()
        for index, will in enumerate(self.wills):
            if will.title in seen:
                raise refusal(
                    f'is the second one called "{will.title}".',
                    'Give it a label = "..." of its own.',
                    at=("wills", index),
                )
            seen.add(will.title)
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
    """One call of ``bequest.solve``: its keyword arguments, under which label and seed.

    The engine is apart: these are the arguments of ``bequest.solver.prepare``. ``exam`` is what to
    grade the model on, where the problem is to classify. ``impossible`` says why it cannot be run,
    if it cannot, though others may: its will needs a pilot, which failed.
    """

    label: str
    seed: int
    arguments: Mapping[str, Any]
    engine: Engine
    exam: Exam | None = None
    impossible: BequestError | None = None


@dataclass(frozen=True, slots=True)
class RunFile:
    """A run file that has been read and understood; ``text`` is what it says."""

    path: Path
    text: str
    table: RunTable

    def __len__(self) -> int:
        """Return how many runs it asks for."""
        return len(self.table.seeds) * len(self.table.wills)

    @property
    def rounds(self) -> int:
        """How many rounds each run has."""
        return self.table.rounds

    @property
    def seeds(self) -> list[int]:
        """With which seeds every will is run."""
        return self.table.seeds

    @property
    def wills(self) -> list[str]:
        """What the wills are called, in the order in which they are run."""
        return [will.title for will in self.table.wills]

    @property
    def engine(self) -> EngineKind:
        """Which engine it asks for."""
        return self.table.engine.kind

    def on(self, engine: str) -> "RunFile":
        """Return the same runs on this engine, with its options if the file has some."""
        if engine == self.engine:
            return self
        return self._carried_by(EngineTable(kind=cast("EngineKind", engine)))

    def at(self, address: str) -> "RunFile":
        """Return the same runs on the cluster at this address; for the Ray engine only."""
        return self._carried_by(self.table.engine.model_copy(update={"address": address}))

    def _carried_by(self, engine: EngineTable) -> "RunFile":
        return RunFile(self.path, self.text, self.table.model_copy(update={"engine": engine}))

    @property
    def silos(self) -> tuple[str, ...]:
        """The names of the nodes, where they have names."""
        problem = self.table.problem
        return problem.silos if isinstance(problem, TableProblem) else ()

    def job(self, label: str, seed: int) -> Job | None:
        """Return one of the runs, if it is one of them."""
        if seed not in self.table.seeds:
            return None
        return next((job for job in self._jobs(seed) if job.label == label), None)

    def jobs(self) -> Iterator[Job]:
        """Yield the runs, seed by seed; problems are built when their seed's turn comes."""
        for seed in self.table.seeds:
            yield from self._jobs(seed)

    def _jobs(self, seed: int) -> Iterator[Job]:
        table = self.table
        sizes.check(table, self.path)
        exam = None
        if isinstance(table.problem, TableProblem):
            problem, exam = table.problem.build_with_exam(seed)
        else:
            problem = table.problem.build(seed)
        leaving = table.departures.build(problem)
        shared: dict[str, Any] = {
            "problem": problem,
            "graph": table.graph.build(n=problem.n, seed=seed),
            "departures": leaving,
            "method": GradientTracking(step=table.method.step),
            "rounds": table.rounds,
            "start": [table.start] * problem.dim if isinstance(table.start, float) else table.start,
            "buddies": table.buddies,
            "checkpoint_every": table.checkpoint_every,
            "optimum": None if table.optimum == "none" else table.optimum,
        }
        engine = table.engine.build(seed)
        # Refuse impossible events before anything is computed for them.
        last = max(schedule(leaving, n=problem.n, rounds=table.rounds), default=0)
        entries = [(entry.title, entry.build_all()) for entry in table.wills]
        leavers = [event.node for event in leaving if isinstance(event, Departure | Crash)]
        if self.engine == "ray":  # on a cluster anybody may have to leave, at any time
            leavers, last = list(range(problem.n)), last or table.rounds
        executed = {title: [will_of(will, node) for node in leavers] for title, will in entries}
        needy = {
            title: [will for will in group if will.needs_pilot_in(problem.regime)]
            for title, group in executed.items()
        }
        spread = any(will.needs_spread for group in needy.values() for will in group)
        pilot: Pilot | BequestError | None = None
        for title, will in entries:
            if needy[title] and pilot is None:
                # Once per seed: left to itself, solve would measure it again for every will.
                common = {key: shared[key] for key in ("problem", "graph", "method", "start")}
                try:
                    pilot = calibrate(**common, rounds=last, spread=spread)
                except (InvalidMethod, InvalidWill, OptimumUnknown) as error:
                    pilot = error  # others, which need none, can be run all the same
            found = pilot if needy[title] else None
            failed = found if isinstance(found, BequestError) else None
            own = {"will": will, "pilot": None if failed else found}
            yield Job(title, seed, shared | own, engine, exam, failed)


def load(path: Path) -> RunFile:
    """Read and check a run file.

    Raises:
        InvalidRunFile: it cannot be read, or not be understood.
    """
    return understand(_read(path), path)


def understand(text: str, path: Path) -> RunFile:
    """Check the text of a run file.

    Args:
        text: what it says.
        path: where it is or was; the files that it names are next to it.

    Raises:
        InvalidRunFile: it cannot be understood.
    """
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidRunFile(
            f"{path} is not TOML: {error}.",
            remedy="Correct that line; bequest docs run-file shows the format.",
        ) from error
    try:
        context = {"folder": path.parent}
        return RunFile(path, text, RunTable.model_validate(document, context=context))
    except ValidationError as error:
        raise refuse(path, mistakes_in(error, document, top=RunTable.model_fields)) from error


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:  # a pipe is fine, but it need not end
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
