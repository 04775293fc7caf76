"""The sections of a run file: one small model each, and how it becomes an object.

The types here only say what a file may contain. Whether that makes sense together (a departure
after the last round, a graph that falls apart) is for the library to judge: it judges the same
way when no file is involved. The options of graphs and wills are read off the functions and
classes themselves, so that a file can say what Python can say, and nothing else.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    create_model,
    model_validator,
)

from bequest.errors import BequestError
from bequest.model import events as membership
from bequest.model import graphs, problems, wills
from bequest.model.graph import Graph
from bequest.model.objectives import Quadratic
from bequest.model.problem import Problem
from bequest.runfile.fields import Count, Node, Numbers, Section, list_or_single, refusal
from bequest.runfile.tables import TableProblem


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def options_of(make: Callable[..., Any], *, skip: Iterable[str]) -> dict[str, Any]:
    """Return the parameters of a function or class as fields of a model."""
    hints = get_type_hints(make.__init__ if inspect.isclass(make) else make, include_extras=True)
    fields = {}
    for name, parameter in inspect.signature(make).parameters.items():
        if name in skip:
            continue
        hint = hints[name]
        is_tuple = tuple in (get_origin(hint), *map(get_origin, get_args(hint)))
        if NoneType in get_args(hint):  # TOML has no null
            hint = Annotated[hint, BeforeValidator(lambda v: None if v == "none" else v)]
        if is_tuple:  # TOML has lists only
            hint = Annotated[hint, BeforeValidator(_as_tuple)]
        required = parameter.default is inspect.Parameter.empty
        fields[name] = (hint, ... if required else parameter.default)
    return fields


def sections_of(base: type[Section], kinds: dict[str, Any], *, skip: Iterable[str] = ()) -> Any:  # noqa: ANN401
    """Return the union of one section per kind, told apart by the key ``kind``."""
    sections = []
    for kind, make in kinds.items():
        fields = options_of(make, skip=skip) | {"kind": (Literal[kind], ...)}
        sections.append(create_model(f"{base.__name__}-{kind}", __base__=base, **fields))
    return Annotated[Union[tuple(sections)], Field(discriminator="kind")]  # noqa: UP007


# --- problems -----------------------------------------------------------------------------


class QuadraticsSection(Section):
    """Random heterogeneous quadratics (``bequest.problems.quadratics``)."""

    random: ClassVar[bool] = True
    kind: Literal["quadratics"]
    n: Count
    dim: Count
    mu: float
    L: float
    basis: problems.Basis = "random"
    spectrum: (
        Annotated[
            Annotated[problems.Spectrum, Tag("single")] | Annotated[Numbers, Tag("list")],
            Discriminator(list_or_single),
        ]
        | None
    ) = None
    spread: float = 5.0

    @property
    def entries(self) -> float:
        """How many entries the problem's matrices will have."""
        return float(self.n) * float(self.dim) ** 2

    def build(self, seed: int) -> Problem:
        """Return the problem of this seed."""
        return problems.quadratics(**self.model_dump(exclude={"kind"}), seed=seed)


class QuadraticSection(Section):
    """One loss 1/2 (x - c)' A (x - c)."""

    A: Annotated[list[Numbers], Field(min_length=1)]
    c: Numbers


class ExplicitSection(Section):
    """Small quadratics, written out."""

    random: ClassVar[bool] = False
    entries: ClassVar[float] = 0.0  # what is written out is there already
    kind: Literal["explicit"]
    objectives: Annotated[list[QuadraticSection], Field(min_length=1)]

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.objectives)

    @model_validator(mode="after")
    def _convex(self) -> "ExplicitSection":
        """Say which of the objectives is refused: the library sees them one at a time."""
        for node, table in enumerate(self.objectives):
            try:
                Quadratic(table.A, table.c)
            except BequestError as error:
                raise refusal(error.what, error.remedy, at=("objectives", node)) from error
        return self

    def build(self, seed: int) -> Problem:  # noqa: ARG002 - nothing here is random
        """Return the problem."""
        return Problem([Quadratic(table.A, table.c) for table in self.objectives])


PROBLEMS = {"quadratics": QuadraticsSection, "explicit": ExplicitSection, "table": TableProblem}
AnyProblem = Annotated[
    QuadraticsSection | ExplicitSection | TableProblem, Field(discriminator="kind")
]


# --- graphs -------------------------------------------------------------------------------


Edge = Annotated[list[Node], Field(min_length=2, max_length=2)]


def edges(n: int, edges: list[Edge]) -> Graph:
    """Return the network with these edges."""
    return Graph(edges, n=n)


GRAPHS: dict[str, Callable[..., Graph]] = {
    "ring": graphs.ring,
    "ring_with_chords": graphs.ring_with_chords,
    "grid": graphs.grid,
    "complete": graphs.complete,
    "star": graphs.star,
    "path": graphs.path,
    "erdos_renyi": graphs.erdos_renyi,
    "random_regular": graphs.random_regular,
    "edges": edges,
}


# About how many edges each of them has: n, the table -> edges.
_SIZES: dict[str, Callable[[float, Any], float]] = {
    "ring": lambda n, _: n,
    "path": lambda n, _: n,
    "star": lambda n, _: n,
    "ring_with_chords": lambda n, table: n + table.chords,
    "grid": lambda _, table: 2.0 * table.rows * table.columns,
    "complete": lambda n, _: n * n / 2,
    "erdos_renyi": lambda n, table: table.probability * n * n / 2,
    "random_regular": lambda n, table: n * table.degree / 2,
    "edges": lambda _, table: len(table.edges),
}


class GraphSection(Section):
    """A network with one node per loss; ``kind`` says how it is made."""

    kind: str

    def size(self, n: int) -> float:
        """Return about how many edges it has among n nodes."""
        return _SIZES[self.kind](float(n), self)

    @property
    def random(self) -> bool:
        """Whether a seed makes a difference."""
        return "seed" in inspect.signature(GRAPHS[self.kind]).parameters

    def build(self, *, n: int, seed: int) -> Graph:
        """Return the graph of this seed."""
        make = GRAPHS[self.kind]
        known = inspect.signature(make).parameters
        given = {key: value for key, value in {"n": n, "seed": seed}.items() if key in known}
        return make(**given, **self.model_dump(exclude={"kind"}))


# --- departures ---------------------------------------------------------------------------


EVENTS: dict[str, Callable[..., membership.Event]] = {
    "departure": membership.Departure,
    "crash": membership.Crash,
    "return": membership.Return,
    "join": membership.Join,
    "forget": membership.Forget,
}


class EventSection(Section):
    """One event; a departure if it does not say."""

    node: Node
    round: Count
    kind: Literal["departure", "crash", "return", "join", "forget"] = "departure"
    neighbours: list[Node] | None = None

    @model_validator(mode="after")
    def _for_joins_only(self) -> "EventSection":
        if self.neighbours is not None and self.kind != "join":
            raise refusal(
                f'is of no use with kind = "{self.kind}".',
                'Remove it, or use kind = "join".',
                at=("neighbours",),
            )
        return self

    def build(self) -> membership.Event:
        """Return the event."""
        if self.neighbours is not None:
            return membership.Join(self.node, self.round, tuple(self.neighbours))
        return EVENTS[self.kind](self.node, self.round)


class DeparturesSection(Section):
    """Departures and returns: events, or rounds for the most heterogeneous nodes."""

    most_heterogeneous: list[Count] | None = None
    events: list[EventSection] | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "DeparturesSection":
        if self.most_heterogeneous is not None and self.events is not None:
            raise refusal("has both most_heterogeneous and events.", "Keep the one you mean.")
        return self

    def build(self, problem: Problem) -> list[membership.Event]:
        """Return the events."""
        if self.most_heterogeneous is not None:
            return [*membership.most_heterogeneous(problem, rounds=self.most_heterogeneous)]
        return [event.build() for event in self.events or ()]


# --- wills --------------------------------------------------------------------------------

WILLS: dict[str, type[wills.Will]] = {
    "classic": wills.Classic,
    "forgetful": wills.Forgetful,
    "consensus": wills.Consensus,
    "local-track": wills.LocalTrack,
    "point-only": wills.PointOnly,
    "adaptive": wills.Adaptive,
    "drift": wills.Drift,
    "full-hessian": wills.FullHessian,
    "budget": wills.Budget,
    "replay": wills.Replay,
}


class WillSection(Section):
    """A will by its kind, with the options of its class."""

    kind: str

    @model_validator(mode="after")
    def _possible(self) -> "WillSection":
        try:
            self.build()
        except BequestError as error:
            raise refusal(error.what, error.remedy.replace("None", '"none"')) from error
        return self

    def _options(self) -> dict[str, Any]:
        known = inspect.signature(WILLS[self.kind]).parameters
        return {name: getattr(self, name) for name in known}

    def build(self) -> wills.Will:
        """Return the will."""
        return WILLS[self.kind](**self._options())

    def describe(self) -> str:
        """Return its title, and what that leaves out of the options that are not the usual ones."""
        kind, options = WILLS[self.kind], self._options()
        title = self.build().title
        usual = {
            name: parameter.default
            for name, parameter in inspect.signature(kind).parameters.items()
            if parameter.default is not inspect.Parameter.empty
        }
        left_out = (
            f"{name}={options[name]}"
            for name, value in usual.items()
            if options[name] != value and self._title_of(options | {name: value}) == title
        )
        return ", ".join([title, *left_out])

    def _title_of(self, options: dict[str, Any]) -> str | None:
        """Return what the will is called with these options; None if they do not go together."""
        try:
            return WILLS[self.kind](**options).title
        except BequestError:
            return None


class EveryWillSection(WillSection):
    """An entry of [[wills]]: a will for all nodes, and perhaps others for single nodes."""

    label: str | None = None
    nodes: "dict[Annotated[Node, Field(strict=False)], AnyWill]" = Field(default_factory=dict)

    def build_all(self) -> wills.Will | dict[int | None, wills.Will]:
        """Return what ``bequest.solve`` takes as ``will``."""
        if not self.nodes:
            return self.build()
        return {None: self.build()} | {node: will.build() for node, will in self.nodes.items()}

    def titled(self, silos: Sequence[str]) -> str:
        """Return the label, or a description of what is in the entry; silos by their names."""
        named = {node: silos[node] if silos else f"node {node}" for node in self.nodes}
        others = [f"{named[node]}: {will.describe()}" for node, will in self.nodes.items()]
        return self.label or "; ".join([self.describe(), *others])


if TYPE_CHECKING:
    AnyGraph = GraphSection
    AnyWill = WillSection
    AnyEveryWill = EveryWillSection
else:
    AnyGraph = sections_of(GraphSection, GRAPHS, skip=("n", "seed"))
    AnyWill = sections_of(WillSection, WILLS)
    AnyEveryWill = sections_of(EveryWillSection, WILLS)
