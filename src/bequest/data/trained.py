"""A model that can be used: coefficients, how rows become features, and which silos are in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from scipy.special import expit, softmax

from bequest.core.arrays import refuse_masked
from bequest.data.recipe import Number, Recipe
from bequest.data.tables import Table, as_table
from bequest.errors import InvalidData, InvalidResult, OptimumUnknown
from bequest.model.content import digest
from bequest.model.outcome import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bequest.core.arrays import Matrix, Vector
    from bequest.data.samples import Loss, Samples
    from bequest.model.run import Run
    from bequest.phases import Agreed

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
    """

    loss: Loss
    coef: Matrix
    intercept: Vector
    classes: tuple[str, ...]
    recipe: Recipe
    silos: Mapping[str, Fate]
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def features(self) -> tuple[str, ...]:
        """What each coefficient belongs to."""
        return self.recipe.features

    def decision_function(self, rows: Any) -> Matrix:  # noqa: ANN401 - anything like a table
        """Return the scores of rows: of the second class, or a column per class; or the numbers.

        ``rows`` is a ``Table``, a DataFrame, an Arrow table, a mapping of columns, the path of a
        file, or an array with the columns that the model needs, in its order.
        """
        table = self._table(rows)
        columns = [column.matrix(table) for column in self.recipe.columns]
        with np.errstate(over="ignore", invalid="ignore"):
            scores = np.concatenate(columns, axis=1) @ self.coef.T + self.intercept
        beyond = ~np.isfinite(scores).all(axis=1)
        if beyond.any():
            raise InvalidData(
                f"{table.source}, row {int(np.argmax(beyond)) + 1}: its score is beyond float64.",
                remedy="Check its numbers, and those of the model.",
            )
        found: Matrix = scores[:, 0] if scores.shape[1] == 1 else scores
        return found

    def predict_proba(self, rows: Any) -> Matrix:  # noqa: ANN401
        """Return the probability of every class."""
        if not self.classes:
            raise InvalidData(
                f'A model of the kind "{self.loss}" predicts a number: there are no classes.',
                remedy="Ask it for predict(rows).",
            )
        scores = self.decision_function(rows)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        found: Matrix = softmax(scores, axis=1)
        return found

    def predict(self, rows: Any) -> Any:  # noqa: ANN401 - names of classes, or numbers
        """Return the class of every row, or the number that is predicted for it."""
        scores = self.decision_function(rows)
        if not self.classes:
            return scores
        best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.array(self.classes)[best]

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
                raise InvalidData(
                    f"The rows have shape {array.shape}, and the model needs {len(needs)} columns.",
                    remedy="Pass the columns " + ", ".join(needs[:12]) + ", in this order.",
                )
            # columns of an array of objects are numbers or texts each
            columns = [np.array(one.tolist()) if one.dtype == object else one for one in array.T]
            return Table(dict(zip(needs, columns, strict=True)), "the array")
        return as_table(rows)

    def save(self, path: str | Path) -> None:
        """Write it to a file, as a whole or not at all.

        Raises:
            InvalidResult: it could not be read again, since it holds NaN or its parts do not fit.
            CannotWrite: it cannot be written there.
        """
        from bequest.data.model_file import write_model

        write_model(Path(path), self)


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


def plain_recipe(names: Sequence[str]) -> Recipe:
    """Return the recipe that takes these columns as they are."""
    return Recipe(tuple(Number(name) for name in names), bias=True)
