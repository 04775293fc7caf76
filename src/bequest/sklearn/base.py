"""What all estimators share: from rows in silos to the minimiser that the survivors agree on."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, hstack, issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bequest.core.methods import NIDS
from bequest.data.losses import pooled_divisor
from bequest.data.tables import Table
from bequest.data.trained import TrainedModel, fates, plain_recipe, told, type_of_classes
from bequest.data.written import label_of
from bequest.errors import InvalidData, InvalidMethod, NotFinite, OptimumUnknown
from bequest.model.default_method import default_method
from bequest.model.objectives.base import LARGEST
from bequest.model.outcome import Status
from bequest.model.problem import Problem
from bequest.model.wills import Adaptive, FullHessian
from bequest.phases import newton
from bequest.sklearn.silos import silos_of
from bequest.solver import solve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.methods import Method
    from bequest.model.objectives import Objective
    from bequest.model.objectives.rows import Features
    from bequest.model.run import Run
    from bequest.model.wills import Will
    from bequest.sklearn.silos import Silos

# Rounds after the last event: enough for the survivors to be near where they go, and for a run to
# show it. The rest of the way is Newton's.
_ROUNDS = 300
# Up to this many unknowns silos bequeath whole Hessians, of 33,000 numbers at most.
_WHOLE = 256
# Up to this many, rounds go by the Hessians of silos. So do Newton steps at the end, if those of
# all silos together are no more numbers than this (34 MB).
_CURVED, _MOST_NUMBERS = 1000, 2**22
_CHOICES = {"finish": ("newton", "rounds"), "absent": ("warn", "error")}


class SiloEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator whose rows are in silos, each of them a node that keeps its own.

    The parameters that all of them have:

    graph: which silos talk to each other; by default all, or a ring with shortcuts beyond twelve.
    departures: events such as ``bq.Departure("charite", 300)``, with the names of silos.
    absent: what to do about events and wills of silos that have no row, as in some folds of a
        cross-validation: ``"warn"`` leaves them out, ``"error"`` refuses them.
    will: what a silo that leaves bequeaths; by default ``bq.wills.FullHessian()`` up to 256
        unknowns and ``bq.wills.Adaptive()`` beyond.
    method: how silos iterate; by default NIDS, with Hessians for a metric up to 1000 unknowns, and
        with numbers beyond.
    rounds: how many; by default 300 after the last event.
    engine: what carries the nodes.
    weigh: ``"samples"``: every sample counts the same, as on the pooled table; ``"silos"``: every
        silo does.
    finish: ``"newton"``: the point that the rounds approach, the minimiser of what the survivors
        hold, by Newton steps whose gradient and Hessian they add up on the same engine;
        ``"rounds"``: the mean of where the rounds have led.

    Attributes that all of them have after ``fit``:

    silos_: the names of the silos, in the order of the nodes of ``run_``.
    run_: the whole ``Run``. It holds the data of all silos, so that a pickled model leaves it out.
    n_iter_: how many rounds it had.
    finished_by_: how the coefficients were found at its end: ``"sums"`` of the silos,
        ``"rounds"``, or by the ``"estimator"`` itself, from the rows of all silos, where sums do
        not do: beyond 1000 unknowns (or four million numbers of all silos), where a memory holds
        samples, and in some corners.
    """

    def _solve(
        self,
        X: Features,
        y: Vector,
        silos: object,
        weights: Vector | None,
        loss: Callable[..., Objective],
        *,
        penalty: float,
        start: Vector | None = None,
    ) -> Vector:
        """Run, set what all estimators have afterwards, and return the parameters.

        ``penalty`` is that of the sum over all samples: its weight times |x|^2/2 is added to it.
        The rounds begin at ``start``, or at zero.
        """
        for name, known in _CHOICES.items():
            if (given := getattr(self, name)) not in known:
                raise InvalidData(
                    f"{name} is {given!r}.", remedy=f'Use "{known[0]}" or "{known[1]}".'
                )
        found = silos_of(silos, X.shape[0])
        losses = list(self._losses(X, y, found, weights, loss, penalty=penalty))
        events = found.events(self.departures, absent=self.absent)
        last = max((event.round for event in events), default=0)
        problem = Problem(losses, names=found.names)
        run = solve(
            problem,
            found.graph() if self.graph is None else self.graph,
            departures=events,
            will=_usual_will(problem.dim)
            if self.will is None
            else found.will(self.will, absent=self.absent),
            method=_usual_method(problem) if self.method is None else self.method,
            rounds=last + _ROUNDS if self.rounds is None else self.rounds,
            engine=self.engine,
            start=start,
            optimum=None,
        )
        run.raise_for_status()
        self.silos_ = np.array(found.names)
        self.run_, self.n_iter_ = run, max(run.rounds, 1)
        return self._finished(run)

    def _losses(
        self,
        X: Features,
        y: Vector,
        silos: Silos,
        weights: Vector | None,
        loss: Callable[..., Objective],
        *,
        penalty: float,
    ) -> Iterator[Objective]:
        """Yield the loss of every silo, so that their sum is that of all samples but for a factor.

        It is the mean over the samples, times the number of silos. Every sample brings its share of
        the penalty: a silo that is forgotten takes no more of it along than of the samples.
        """
        rows = self._with_intercept(X)
        counts = np.ones(y.size) if weights is None else weights
        sizes = [float(counts[part].sum()) for part in silos.rows]
        divisor = pooled_divisor(sizes, self.weigh)
        total = sum(sizes)
        if not total > 0:
            raise InvalidData(
                "Every sample has weight 0.", remedy="Pass a positive sample_weight for some."
            )
        for part, size in zip(silos.rows, sizes, strict=True):
            # a silo whose samples do not count has no mean to be divided by
            yield loss(
                rows[part],
                y[part],
                l2=penalty / total * (1.0 if divisor is None else size / divisor),
                divisor=(divisor or size or 1.0),
                sample_weight=None if weights is None else weights[part],
                unpenalised=[-1] if self.fit_intercept else [],
            )

    def _checked(self, X: Any, *y: Any, **options: Any) -> Any:  # noqa: ANN401 - scikit-learn's
        """Return X, or X and y, as scikit-learn checks them; what it has no words for is told."""
        _refuse_what_is_no_number(X)
        try:
            found = validate_data(self, X, *y, accept_sparse="csr", dtype=np.float64, **options)
        except TypeError as error:
            if "datetime" in str(error) or "Timestamp" in str(error):
                raise _dates("X") from error
            raise
        _refuse_what_is_too_large(found[0] if y else found)
        return found

    def _centre(self, X: Features, weights: Vector | None) -> Vector:
        """Return the means of the columns, if there is an intercept to make up for them.

        An intercept beside columns far from zero is hardly told from them, and its curvature would
        pass for rounding. Sparse columns stay as they are.
        """
        if not self.fit_intercept or issparse(X):
            return np.zeros(X.shape[1])
        counts = weights if weights is not None and weights.sum() > 0 else None
        centre: Vector = np.average(X, axis=0, weights=counts)
        return centre

    def _with_intercept(self, X: Features) -> Features:
        if not self.fit_intercept:
            return csr_array(X) if issparse(X) else X
        column = np.full((X.shape[0], 1), _unit(X))
        return csr_array(hstack([X, column])) if issparse(X) else np.hstack([X, column])

    def _uncentred(self, x: Vector, X: Features, centre: Vector) -> tuple[Matrix, Vector]:
        """Return coefficients and intercepts, a row per class, for columns as they were given."""
        rows = x.reshape(-1, X.shape[1] + bool(self.fit_intercept))
        coef = rows[:, : X.shape[1]]
        if not self.fit_intercept:
            return coef, np.zeros(rows.shape[0])
        return coef, rows[:, -1] * _unit(X) - coef @ centre

    def _finished(self, run: Run) -> Vector:
        """Return the model of the survivors, and set how it was found."""
        if self.finish == "newton":
            for name, way in {"sums": self._by_sums, "estimator": _here}.items():
                self.finished_by_ = name
                try:
                    return way(run)
                except (InvalidMethod, OptimumUnknown) as error:
                    why = error.what
            self._warn(f"Newton steps lead nowhere: {why}")
        elif run.status is not Status.CONVERGED:
            self._warn(f"The silos have not converged after {run.rounds} rounds.")
        self.finished_by_ = "rounds"
        mean: Vector = run.x.mean(axis=0)
        return mean

    def _by_sums(self, run: Run) -> Vector:
        dim, silos = run.problem.dim, len(run.survivors)
        if dim > _CURVED or silos * dim * (dim + 1) // 2 > _MOST_NUMBERS:
            raise InvalidMethod("Too many unknowns.", remedy="Find it here.")
        return newton(run, engine=self.engine).x

    @staticmethod
    def _warn(what: str) -> None:
        warnings.warn(
            f"{what} Increase rounds, scale the features, or penalise more.",
            ConvergenceWarning,
            stacklevel=5,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: no data of any silo."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "run_"}

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn's
        """Return what it can take: sparse features, too."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def to_model(self) -> TrainedModel:
        """Return the fitted model as one that can be saved, and used without scikit-learn.

        Its rows are those that ``fit`` was given: of a pipeline, ``bequest.sklearn.to_model`` makes
        one model with the steps before it.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        columns = [f"x{k}" for k in range(self.n_features_in_)] if names is None else names.tolist()
        silos = [str(name) for name in self.silos_.tolist()]
        run = getattr(self, "run_", None)
        classes = getattr(self, "classes_", np.array([], dtype=str))
        return TrainedModel(
            loss=self._kind,
            coef=np.atleast_2d(self.coef_),
            intercept=np.atleast_1d(self.intercept_),
            classes=tuple(label_of(one) for one in classes.tolist()),
            recipe=plain_recipe(columns),
            silos=dict.fromkeys(silos, "unknown") if run is None else fates(run, silos),
            about={} if run is None else told(run, certify=True),
            class_type=type_of_classes(classes),
        )


def _refuse_what_is_no_number(X: Any) -> None:  # noqa: ANN401 - what the caller has given
    if isinstance(X, Table):
        raise InvalidData(
            f"X is a Table ({X.source}), and an estimator takes an array, a DataFrame or a sparse "
            "matrix.",
            remedy="Pass X.matrix([...]), with the names of columns of numbers.",
        )
    dtypes = getattr(X, "dtypes", getattr(X, "dtype", None))
    kinds = [dtypes] if isinstance(dtypes, np.dtype) else list(() if dtypes is None else dtypes)
    for place, kind in enumerate(kinds):
        if getattr(kind, "kind", "") in ("M", "m") or str(kind).startswith(("Date", "Duration")):
            columns = getattr(X, "columns", None)
            raise _dates("X" if columns is None else f'The column "{columns[place]}" of X')


def _refuse_what_is_too_large(X: Features) -> None:
    """Refuse numbers that the intercept's unit, or a loss, would make infinite."""
    numbers = X.data if issparse(X) else X
    if numbers.size and max(numbers.max(), -numbers.min()) > LARGEST:
        raise NotFinite(
            f"X holds {numbers.flat[np.abs(numbers).argmax()]:g}, too large to compute with.",
            remedy=f"Rescale X, for instance to unit variance; up to {LARGEST:g} is allowed.",
        )


def _dates(what: str) -> InvalidData:
    return InvalidData(
        f"{what} holds dates, which are no numbers.",
        remedy="Make numbers of them, such as days since admission, or leave them out.",
    )


def _here(run: Run) -> Vector:
    return run.limit


def _unit(X: Features) -> float:
    """Return the size of the largest column: an intercept of that size is curved as much."""
    squares = X.multiply(X).mean(axis=0) if issparse(X) else np.mean(np.square(X), axis=0)
    return float(np.sqrt(np.max(squares))) or 1.0


def _usual_method(problem: Problem) -> Method:
    """Return NIDS, with Hessians for more unknowns than ``bequest.solve`` takes them for.

    After as many rounds silos are much nearer to where they go, and so is what a leaver bequeaths;
    beyond, matrices take more time and memory than the data.
    """
    return NIDS(metric="hessian") if problem.dim <= _CURVED else default_method(problem)


def _usual_will(dim: int) -> Will:
    """Return the whole Hessian, once per leaver, where that is no large message.

    Beyond 15 unknowns ``Adaptive`` sends eight directions of it, which is less exact
    (`bequest reproduce robustness`).
    """
    return FullHessian() if dim <= _WHOLE else Adaptive()


def checked_weights(sample_weight: Any, X: Features) -> Vector | None:  # noqa: ANN401
    """Return one weight per row, or None if all rows count the same."""
    if sample_weight is None:
        return None
    weights: Vector = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    return weights


def checked_number(value: Any, name: str, *, least: float, beyond: bool) -> float:  # noqa: ANN401
    """Return a parameter that is a number >= least, or > least where it must go beyond."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not (number > least if beyond else number >= least):
        sign = ">" if beyond else ">="
        raise InvalidData(f"{name} is {value!r}.", remedy=f"Use a number {sign} {least:g}.")
    return number
