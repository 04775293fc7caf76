"""A model that can be used: coefficients, how rows become features, and which silos are in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from scipy.sparse import issparse

from bequest.core.arrays import refuse_masked
from bequest.data import scoring
from bequest.data.frames import as_table
from bequest.data.recipe import Number, Recipe
from bequest.data.tables import Table
from bequest.data.written import label_of
from bequest.errors import InvalidData, InvalidResult, OptimumUnknown
from bequest.model.content import digest
from bequest.model.outcome import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bequest.core.arrays import Matrix, Vector
    from bequest.data.losses import Loss
    from bequest.data.samples import Samples
    from bequest.model.run import Run
    from bequest.phases import Agreed

# Of what type the classes are: numbers by NumPy's names, or text in an array of text or of objects.
ClassType: TypeAlias = Literal[
    "text", "object", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "float16", "float32", "float64",
]  # fmt: skip
Fate: TypeAlias = Literal["alive", "remembered", "forgotten", "lost", "absent", "unknown"]


@dataclass(frozen=True, slots=True, eq=False)
class TrainedModel:
    """A linear model, ready to be used on new rows.

    Attributes:
        loss: what it was fitted by.
        coef: a row of coefficients, or one per class of a softmax; without the intercept.
        intercept: one number per row of ``coef``.
        classes: the names of the classes; empty where a number is predicted.
        recipe: how rows of a table become features.
        silos: the name of every silo -> how it is in the model: ``"alive"``, ``"remembered"`` by a
            legacy, ``"forgotten"`` on request, ``"lost"``, ``"absent"`` from the beginning; or
            ``"unknown"``, where an estimator was pickled, and its run left behind.
        about: where it comes from: the status of the run, the fingerprint, the certificate, ...
        class_type: what ``predict`` returns classes as; text, if they come from a table.

    What scikit-learn calls ``coef_``, ``intercept_``, ``classes_``, ``n_features_in_`` and
    ``feature_names_in_`` (the columns that it needs) is there by these names, too.
    """

    loss: Loss
    coef: Matrix
    intercept: Vector
    classes: tuple[str, ...]
    recipe: Recipe
    silos: Mapping[str, Fate]
    about: Mapping[str, Any] = field(default_factory=dict)
    class_type: ClassType = "text"

    @property
    def features(self) -> tuple[str, ...]:
        """What each coefficient belongs to."""
        return self.recipe.features

    @property
    def classes_(self) -> Any:  # noqa: ANN401 - an array of the classes' own type
        """The classes as they were given."""
        if not self.classes:
            raise AttributeError("A model that predicts a number has no classes.")
        return classes_of(self.classes, self.class_type)

    @property
    def coef_(self) -> Matrix:
        """The coefficients in scikit-learn's shape: a vector where a number is predicted."""
        return self.coef if self.classes else self.coef[0]

    @property
    def intercept_(self) -> Any:  # noqa: ANN401 - a vector, or a number
        """The intercepts in scikit-learn's shape: one number where a number is predicted."""
        return self.intercept if self.classes else float(self.intercept[0])

    @property
    def feature_names_in_(self) -> Any:  # noqa: ANN401 - an array of names
        """The columns that it needs, each once."""
        return np.array(self.recipe.needs, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """How many columns it needs."""
        return len(self.recipe.needs)

    def decision_function(self, rows: Any) -> Matrix:  # noqa: ANN401 - anything like a table
        """Return the scores of rows: of the second class, or a column per class; or the numbers.

        ``rows`` is a ``Table``, a DataFrame, an Arrow table, a mapping of columns, the path of a
        file, or an array with the columns that the model needs, in its order; where columns are
        numbers as they are (models of estimators) also a sparse one.
        """
        X, source = self._samples(rows)
        scores = scoring.linear_scores(X, self.coef, self.intercept)
        beyond = ~np.isfinite(scores.reshape(scores.shape[0], -1)).all(axis=1)
        if beyond.any():
            raise InvalidData(
                f"{source}, row {int(np.argmax(beyond)) + 1}: its score is beyond float64.",
                remedy="Check its numbers, and those of the model.",
            )
        return scores

    def predict_proba(self, rows: Any) -> Matrix:  # noqa: ANN401
        """Return the probability of every class."""
        self._need_classes()
        return scoring.probabilities(self.decision_function(rows))

    def predict_log_proba(self, rows: Any) -> Matrix:  # noqa: ANN401
        """Return the logarithm of the probability of every class."""
        return scoring.logarithms(self.predict_proba(rows))

    def predict(self, rows: Any) -> Any:  # noqa: ANN401 - names of classes, or numbers
        """Return the class of every row, or the number that is predicted for it."""
        scores = self.decision_function(rows)
        if not self.classes:
            return scores
        return self.classes_[scoring.most_likely(scores)]

    def score(self, rows: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: ANN401
        """Return the share of rows that it is right about, or R^2 where a number is predicted."""
        predicted, given = self.predict(rows), np.asarray(y)
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        if given.shape != predicted.shape or (weights is not None and weights.shape != given.shape):
            raise InvalidData(
                f"There are {predicted.size} rows, and y has shape {given.shape}"
                f"{'' if weights is None else f', sample_weight {weights.shape}'}.",
                remedy="Pass one of each for every row.",
            )
        if not self.classes:
            return scoring.determination(given.astype(float), predicted, weights)
        if self.class_type in ("text", "object"):  # cells of a table are numbers, if they look so
            given = np.array([label_of(one) for one in given.tolist()], dtype=object)
        return scoring.accuracy(given == predicted, weights)

    def _need_classes(self) -> None:
        if not self.classes:
            raise InvalidData(
                f'A model of the kind "{self.loss}" predicts a number: there are no classes.',
                remedy="Ask it for predict(rows).",
            )

    def _samples(self, rows: Any) -> tuple[Any, str]:  # noqa: ANN401
        """Return the features of rows, and what to call these."""
        if not issparse(rows):
            table = self._table(rows)
            if (
                table.lines is not None
            ):  # it was read from CSV, where texts may mean numbers or none
                self.recipe.refuse_doubtful(table)
            return replace(self.recipe, bias=False).matrix(table), table.source
        if any(not isinstance(one, Number) or one.is_shifted for one in self.recipe.columns):
            raise InvalidData(
                "The rows are sparse, and the model shifts or codes its columns.",
                remedy="Pass a table with the columns by name.",
            )
        if rows.shape[1] != len(self.features):
            raise self._misshapen(rows.shape)
        return rows, "the sparse array"

    def _misshapen(self, shape: tuple[int, ...]) -> InvalidData:
        needs = self.recipe.needs
        return InvalidData(
            f"The rows have shape {shape}, and the model needs {len(needs)} columns.",
            remedy="Pass the columns " + ", ".join(needs[:12]) + ", in this order.",
        )

    def _table(self, rows: Any) -> Table:  # noqa: ANN401
        if isinstance(rows, str | Path):
            from bequest.data.reading import read_table

            return read_table(rows)
        if isinstance(rows, np.ndarray | list):
            needs = self.recipe.needs
            refuse_masked(rows, "The rows", InvalidData)
            try:
                array = np.asarray(rows)
            except ValueError as error:
                raise InvalidData(
                    "The rows do not all have the same length.",
                    remedy=f"Pass {len(needs)} numbers or texts for every row.",
                ) from error
            if array.ndim != 2 or array.shape[1] != len(needs):
                raise self._misshapen(array.shape)
            # columns of an array of objects are numbers or texts each
            columns = [np.array(one.tolist()) if one.dtype == object else one for one in array.T]
            return Table(dict(zip(needs, columns, strict=True)), "the array")
        return as_table(rows)

    def save(self, path: str | Path) -> None:
        """Write it to a file, as a whole or not at all; a file that is there is replaced.

        Raises:
            InvalidResult: it could not be read again, since it holds NaN or its parts do not fit.
            CannotWrite: it cannot be written there.
        """
        from bequest.data.model_file import write_model

        write_model(Path(path), self)

    def to_onnx(self, path: str | Path) -> None:
        """Write it as an ONNX graph, for other programs; needs ``bequest[onnx]``.

        An input per column by its name: numbers in double precision, NaN where they are missing;
        categories as text. Outputs ``prediction`` and ``probabilities``. A graph has no words:
        where ``predict`` refuses a row, its probabilities are NaN.

        Raises:
            NotInstalled: onnx is not.
            CannotWrite: it cannot be written there.
        """
        from bequest.data.onnx_file import write_onnx

        write_onnx(Path(path), self)


def load_model(path: str | Path) -> TrainedModel:
    """Read a model from a file.

    Raises:
        InvalidResult: there is none, it is of another version, it was damaged, or its parts do not
            fit each other.
    """
    from bequest.data.model_file import read_model

    return read_model(Path(path))


def trained(
    run: Run,
    samples: Samples | Agreed,
    *,
    loss: Loss,
    names: Sequence[str] = (),
    about: Mapping[str, Any] | None = None,
    x: Vector | None = None,
) -> TrainedModel:
    """Return the model that the survivors of a run agree on: the mean of theirs.

    Args:
        run: the run.
        samples: what it has learned from, or what silos have agreed on where samples stay on their
            hosts (``bequest.phases.on_hosts``).
        loss: which loss.
        names: what the silos are called, in the order of the nodes; their numbers by default.
        about: more to keep with it.
        x: other parameters than that mean.

    Raises:
        InvalidResult: the run has no model.
    """
    if run.status in (Status.DIVERGED, Status.LOST):
        raise InvalidResult(
            f"The run is {run.status}, so that there is no model.",
            remedy="Use a run that did not diverge, and in which some node is left.",
        )
    parameters = run.x.mean(axis=0) if x is None else x
    rows = parameters.reshape(len(samples.classes) if loss == "softmax" else 1, -1)
    features = len(samples.features)
    return TrainedModel(
        loss=loss,
        coef=rows[:, :features].copy(),
        intercept=rows[:, features].copy() if samples.recipe.bias else np.zeros(rows.shape[0]),
        classes=samples.classes,
        recipe=samples.recipe,
        silos=fates(run, names),
        about={**told(run), **(about or {})},
    )


def told(run: Run, *, certify: bool = False) -> dict[str, Any]:
    """Return where a model comes from, as plain data.

    There is a certificate if the run knows x*; ``certify`` computes it where it does not.
    """
    certificate = None
    if certify or run.trajectory.error is not None:
        try:
            certificate = run.certificate.as_dict()
        except OptimumUnknown:
            certificate = None
    return {
        "status": str(run.status),
        "rounds": run.rounds,
        "fingerprint": digest(run.problem, run.plan.schedule, run.plan.wills, run.plan.rounds),
        "certificate": certificate,
        "provenance": dict(run.provenance),
    }


def fates(run: Run, names: Sequence[str] = ()) -> dict[str, Fate]:
    """Return how each silo is in the model of a run."""
    forgotten = {change.node for change in run.changes if change.kind == "forget"}
    back = {(c.node, c.round) for c in run.changes if c.kind != "forget"}
    forgotten -= {node for node, _ in back if node in run.survivors}
    gone = {record.node for record in run.departures}
    found: dict[str, Fate] = {}
    for node in range(run.problem.n):
        fate: Fate = "absent"
        if node in run.survivors:
            fate = "alive"
        elif node in forgotten:
            fate = "forgotten"
        elif node in run.lost:
            fate = "lost"
        elif node in gone:
            fate = "remembered"
        found[names[node] if names else str(node)] = fate
    return found


def classes_of(names: Sequence[str], kind: ClassType) -> Any:  # noqa: ANN401 - of that type
    """Return classes as they were given, from their names.

    Raises:
        ValueError: a name is none of that type.
    """
    if kind in ("text", "object"):
        return np.array(names, dtype=object if kind == "object" else str)
    read: Any = {"b": lambda name: name == "True", "f": float}.get(np.dtype(kind).kind, int)
    try:
        found = np.array([read(name) for name in names], dtype=kind)
    except OverflowError as error:
        raise ValueError(f"a class does not fit into {kind}") from error
    if [label_of(one) for one in found.tolist()] != [*names]:
        raise ValueError(f"the classes are not of the type {kind}")
    return found


def type_of_classes(classes: Any) -> ClassType:  # noqa: ANN401 - an array
    """Return how to tell the type of these classes in a file."""
    name = "object" if classes.dtype.kind == "O" else classes.dtype.name
    known: tuple[ClassType, ...] = get_args(ClassType)
    return next((one for one in known if one == name), "text")


def plain_recipe(names: Sequence[str]) -> Recipe:
    """Return the recipe that takes these columns as they are."""
    return Recipe(tuple(Number(name) for name in names), bias=True)
