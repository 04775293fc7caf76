"""Tables that stay on their hosts: what silos agree on, and the problem that follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bequest.data.choosing import check_declared
from bequest.data.loading import Loader, loader
from bequest.data.losses import CLASSIFIERS, pooled_divisor
from bequest.data.naming import Naming, agree_on_names
from bequest.data.questions import Curved, HostAnswer, Placed
from bequest.data.recipe import Recipe, agree
from bequest.data.samples import columns_of, imputes, to_agree_on
from bequest.engines import one_cluster
from bequest.errors import InvalidData
from bequest.model.graph import as_graph
from bequest.model.objectives import Loaded
from bequest.model.objectives.isotropic import on_its_host
from bequest.model.problem import Problem
from bequest.phases.sums import for_these, phase

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import PurePath
    from typing import Literal

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.methods import Method
    from bequest.data.losses import Loss, Weigh
    from bequest.data.names import Question
    from bequest.data.samples import Bias, Categories
    from bequest.engines.base import Engine
    from bequest.model.graph import Graph

# What the loaders of all silos have in common.
_COMMON = ("label", "loss", "bias", "l2", "delta", "divisor", "unpenalised")
# A declared range of curvature is this much wider than what silos have found: sums are rounded.
_WIDER = 1e-9


@dataclass(frozen=True, slots=True)
class Agreed:
    """What silos have agreed on, and their problem.

    Attributes:
        problem: a loss per silo, loaded on its host.
        graph: which of them talk to each other.
        engine: what carries them, each on the host that has its file.
        silos: their names, in the order of the nodes.
        left: silos that went away meanwhile. What they had told is in the recipe; the problem is
            that of the others.
        recipe: how rows become features.
        classes: the names of the classes; empty where the label is a number to predict.
    """

    problem: Problem
    graph: Graph
    engine: Engine | None
    silos: tuple[str, ...]
    left: tuple[str, ...]
    recipe: Recipe
    classes: tuple[str, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features, without the bias."""
        return self.recipe.features

    def as_dict(self) -> dict[str, Any]:
        """Return what was agreed on as plain data: of each silo where its file is, and no row."""
        loaders = [_loader_of(self.problem.objective(node)) for node in range(self.problem.n)]
        common = {name: getattr(loaders[0], name) for name in _COMMON}
        return {
            "silos": {
                name: {"path": load.path, "curvature": list(curvature)}
                for name, load, curvature in zip(
                    self.silos,
                    loaders,
                    zip(self.problem.a.tolist(), self.problem.b.tolist(), strict=True),
                    strict=True,
                )
            },
            "left": list(self.left),
            "recipe": self.recipe.as_dict(),
            "common": common | {"classes": list(self.classes)},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, graph: Graph, engine: Engine | None) -> Agreed:
        """Return what ``as_dict`` was made of; nothing is read, and no silo is asked.

        Raises:
            InvalidData: the parts do not fit each other.
        """
        try:
            recipe, common = Recipe.from_dict(data["recipe"]), data["common"]
            classes = tuple(common["classes"])
            dim = _unknowns(recipe, classes, common["loss"])
            losses = []
            for one in data["silos"].values():
                fields = {name: common[name] for name in _COMMON} | {"classes": classes}
                load = Loader(path=one["path"], features=None, recipe=recipe, **fields)
                losses.append(Loaded(load, dim=dim, curvature=tuple(one["curvature"])))
            silos, left = tuple(data["silos"]), tuple(data["left"])
            return cls(Problem(losses, names=silos), graph, engine, silos, left, recipe, classes)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidData(
                f"This is not what silos have agreed on: {error}.", remedy="Have them agree again."
            ) from error


def _loader_of(loss: Any) -> Loader:  # noqa: ANN401 - one of on_hosts
    found: Loader = loss.loader
    return found


def _unknowns(recipe: Recipe, classes: Sequence[str] | None, loss: str) -> int:
    return (len(recipe.features) + recipe.bias) * (len(classes or ()) if loss == "softmax" else 1)


@dataclass(slots=True)
class Assembly:
    """Silos whose tables are on their hosts, and who of them is there, phase after phase."""

    files: dict[str, str]
    graph: Graph
    engine: Engine | None
    method: Method | None = None
    left: list[str] = field(default_factory=list)

    def ask(self, question: Question) -> Vector:
        """Return the sum of all answers."""
        return self._sum([question] * len(self.files))

    def ask_each(self, question: Sequence[Question]) -> Matrix:
        """Return the answer of each, a row per silo that is there to begin with."""
        silos = len(self.files)
        return self._sum([Placed(one, place, silos) for place, one in enumerate(question)]).reshape(
            silos, -1
        )

    def _sum(self, questions: Sequence[Question]) -> Vector:
        parts = [
            on_its_host(HostAnswer(path, question), question.size)
            for path, question in zip(self.files.values(), questions, strict=True)
        ]
        done = phase(parts, graph=self.graph, engine=self.engine, method=self.method)
        there = done.run.survivors
        if len(there) < len(parts):
            names = [*self.files]
            self.left += [name for node, name in enumerate(names) if node not in there]
            self.files = {names[node]: self.files[names[node]] for node in there}
            self.graph, self.engine = done.graph, for_these(self.engine, there)
        return done.total


def on_hosts(
    files: Mapping[str, str | PurePath],
    *,
    label: str,
    loss: Loss,
    graph: Graph | Any,  # noqa: ANN401 - a networkx graph or an edge list
    engine: Engine | None = None,
    features: Sequence[str] | None = None,
    classes: Sequence[object] | None = None,
    standardise: bool = True,
    bias: Bias = True,
    impute: Literal["mean"] | None = None,
    categories: Categories | None = None,
    ignore: Sequence[str] = (),
    l2: float = 0.0,
    delta: float = 1.0,
    weigh: Weigh = "samples",
    method: Method | None = None,
) -> Agreed:
    """Let silos agree on how rows become features, and return the problem of their losses.

    Every file is read by the process of its silo alone, once per phase: for names that are to be
    agreed on, for sums, for squares, for the range of curvature. On the vector and the loop engine
    that is this process; on Ray it is the host of the node, and only sums come back.

    Args:
        files: the name of every silo -> its file, as the machine of that silo calls it.
        label: the column with what to predict.
        loss: which loss.
        graph: which silos talk to each other.
        engine: what carries them; on a cluster ``Ray(placement=...)`` says which is where.
        features: from which columns to predict, in this order; by default all columns that some
            silo has, in alphabetical order; one without numbers is refused then, unless it is among
            ``categories`` or ignored.
        classes: the names of all classes; by default those that some silo knows, sorted.
        standardise: as in ``bequest.data.select``, and so are the next three.
        bias: whether there is a column of ones, and whether it is penalised.
        impute: whether missing numbers are filled in.
        categories: columns of categories, declared or to be agreed on.
        ignore: columns to leave out, where features are not named.
        l2: as in ``bequest.data.problem_of``, and so are the next two.
        delta: where a Huber loss becomes linear.
        weigh: what counts the same, samples or silos.
        method: how silos iterate in these phases.

    Raises:
        InvalidData: options contradict each other, or files do not fit.
        CannotLoad: a host cannot read its file; it says why.
    """
    given: object = files
    if not isinstance(given, Mapping) or not given:
        raise InvalidData(
            "There are no files of silos.", remedy='Pass {"bonn": "/data/bonn.csv", ...}.'
        )
    kinds, fills = dict(categories or {}), imputes(impute)
    assembly = Assembly(
        {str(name): str(path) for name, path in files.items()},
        as_graph(graph, len(files)),
        engine,
        method,
    )
    source = f"the files of {len(files)} silos"
    check_declared(source, features, {label: "the label"}, categories=kinds, ignore=ignore)
    with one_cluster():
        naming = Naming(
            to_agree_on(kinds),
            fills,
            label=label if loss in CLASSIFIERS and classes is None else None,
            features=None if features is None else tuple(f for f in features if f not in kinds),
            others=frozenset({label, *kinds, *ignore}),
            ignore=tuple(ignore),
        )
        names = agree_on_names(naming, assembly.ask, source=source)
        wanted = sorted({*names.columns, *kinds}) if features is None else list(features)
        if not wanted:
            raise InvalidData(
                f"{source} have no column besides the label and what is ignored.",
                remedy="A model needs at least one feature.",
            )
        columns = columns_of(
            {name: names.columns.get(name, 0) for name in wanted},
            kinds, names.categories, impute=fills, source=source,
        )  # fmt: skip
        recipe, rows = agree(
            columns, assembly.ask, standardise=standardise, bias=bool(bias), source=source
        )
        silos = len(assembly.files)
        common: dict[str, Any] = {
            "label": label,
            "loss": loss,
            "classes": (names.classes if classes is None else classes) or None,
            "bias": bias,
            "l2": l2,
            "delta": delta,
            "divisor": pooled_divisor([rows / silos] * silos, weigh),
            "recipe": recipe,
        }
        loaders = {name: loader(path, **common) for name, path in assembly.files.items()}
        ranges = assembly.ask_each([Curved(load) for load in loaders.values()])
    of = dict(zip(loaders, ranges, strict=True))
    there = [name for name in loaders if name in assembly.files]
    dim = _unknowns(recipe, common["classes"], loss)
    losses = [_loaded(loaders[name], dim, *of[name]) for name in there]
    problem = Problem(losses, names=there)
    return Agreed(
        problem, assembly.graph, assembly.engine, tuple(there), tuple(assembly.left), recipe,
        next(iter(loaders.values())).classes,
    )  # fmt: skip


def _loaded(load: Loader, dim: int, low: float, high: float) -> Loaded:
    slack = _WIDER * high
    return Loaded(load, dim=dim, curvature=(max(low - slack, 0.0), high + slack))
