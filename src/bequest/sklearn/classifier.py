"""Logistic regression across silos."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from bequest.data import scoring
from bequest.errors import InvalidData
from bequest.model.objectives import Logistic, Softmax
from bequest.sklearn.base import SiloEstimator, checked_number, checked_weights

if TYPE_CHECKING:
    from bequest.core.arrays import Matrix, Vector
    from bequest.data.losses import Loss


class SiloLogisticRegression(ClassifierMixin, SiloEstimator):  # type: ignore[misc]
    """scikit-learn's LogisticRegression, trained across silos that may leave.

    Minimises C times the sum of the samples' losses plus 1/2 |coef|^2; the intercept is not
    penalised. Two classes have one row of coefficients, more classes a row each (softmax).

    Args:
        C: inverse strength of the penalty, > 0; ``np.inf`` for none.
        fit_intercept: whether to have one.
        class_weight: None, "balanced" or a mapping, as in scikit-learn.
        graph, departures, absent, will, method, rounds, engine, weigh, finish: see
            ``SiloEstimator``.

    >>> import numpy as np
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"]
    >>> model = SiloLogisticRegression().fit(X, y, silos=["a", "b", "a", "b"])
    >>> model.predict([[0.5], [2.5]]).tolist(), model.silos_.tolist()
    (['no', 'yes'], ['a', 'b'])
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        fit_intercept: bool = True,
        class_weight: Any = None,  # noqa: ANN401 - None, "balanced" or a mapping
        graph: Any = None,  # noqa: ANN401 - a Graph, a networkx graph or an edge list
        departures: Any = (),  # noqa: ANN401 - events
        absent: str = "warn",
        will: Any = None,  # noqa: ANN401 - a Will, or a mapping from silos to wills
        method: Any = None,  # noqa: ANN401 - a Method
        rounds: int | None = None,
        engine: Any = None,  # noqa: ANN401 - an Engine
        weigh: str = "samples",
        finish: str = "newton",
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.graph = graph
        self.departures = departures
        self.absent = absent
        self.will = will
        self.method = method
        self.rounds = rounds
        self.engine = engine
        self.weigh = weigh
        self.finish = finish

    def fit(
        self,
        X: Any,  # noqa: ANN401
        y: Any,  # noqa: ANN401
        sample_weight: Any = None,  # noqa: ANN401
        *,
        silos: Any = None,  # noqa: ANN401
    ) -> SiloLogisticRegression:
        """Fit the model.

        Args:
            X: a row per sample; an array, a DataFrame or a sparse matrix.
            y: the classes, as numbers or text.
            sample_weight: how much each row counts; one by default.
            silos: the name of the silo that each row belongs to; by default all are in one.
        """
        strength = checked_number(self.C, "C", least=0.0, beyond=True)
        X, y = self._checked(X, y)
        check_classification_targets(y)
        self.classes_, number = np.unique(y, return_inverse=True)
        classes = self.classes_.size
        if classes < 2:
            raise InvalidData(
                f"y holds one class only, {self.classes_[:1].tolist()[0]!r}.",
                remedy="Pass samples of at least two classes, in one silo or in several.",
            )
        weights = self._class_weights(y, number, checked_weights(sample_weight, X))
        loss = Logistic if classes == 2 else partial(_softmax, classes=classes)
        centre = self._centre(X, weights)
        X = X if issparse(X) else X - centre
        x = self._solve(X, number.astype(float), silos, weights, loss, penalty=1.0 / strength)
        coef, intercept = self._uncentred(x, X, centre)
        if classes > 2:
            # a shift of all classes changes nothing; theirs is the one without
            coef, intercept = coef - coef.mean(axis=0), intercept - intercept.mean()
        self.coef_, self.intercept_ = coef.copy(), intercept.copy()
        return self

    def _class_weights(self, y: Any, number: Any, weights: Vector | None) -> Vector | None:  # noqa: ANN401
        if self.class_weight is None:
            return weights
        each = compute_class_weight(
            self.class_weight, classes=self.classes_, y=y, sample_weight=weights
        )
        of_class: Vector = each[number]
        return of_class if weights is None else weights * of_class

    def decision_function(self, X: Any) -> Matrix:  # noqa: ANN401
        """Return the scores: of the second class, or a column per class if there are more."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        return scoring.linear_scores(X, self.coef_, self.intercept_)

    def predict_proba(self, X: Any) -> Matrix:  # noqa: ANN401
        """Return the probability of every class."""
        return scoring.probabilities(self.decision_function(X))

    def predict_log_proba(self, X: Any) -> Matrix:  # noqa: ANN401
        """Return the logarithm of the probability of every class."""
        return scoring.logarithms(self.predict_proba(X))

    @property
    def _kind(self) -> Loss:
        return "logistic" if self.classes_.size == 2 else "softmax"

    def predict(self, X: Any) -> Any:  # noqa: ANN401
        """Return the most probable class of every row."""
        scores = self.decision_function(X)
        return self.classes_[scoring.most_likely(scores)]


def _softmax(X: Any, y: Vector, *, classes: int, **options: Any) -> Softmax:  # noqa: ANN401
    return Softmax(X, y, classes, **options)
