"""Ridge and Huber regression across silos."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import issparse
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from bequest.core.legacy import Legacy
from bequest.data import scoring
from bequest.model.objectives import Huber, LeastSquares
from bequest.model.problem import Problem
from bequest.sklearn.base import SiloEstimator, checked_number, checked_weights
from bequest.sklearn.silos import silos_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Vector
    from bequest.model.objectives import Objective
    from bequest.model.objectives.rows import Features

# A scale below this part of the largest y is rounding of the residuals. One below this part of the
# objective changes nothing of it. Logarithm of how much smaller each scale is than the one before,
# on the way to such a small one.
_ROUNDING, _NOTHING, _RUNG = 1e-13, 1e-8, np.log(10.0)


class _Regressor(RegressorMixin, SiloEstimator):  # type: ignore[misc]
    """A linear model of a number."""

    def fit(
        self,
        X: Any,  # noqa: ANN401
        y: Any,  # noqa: ANN401
        sample_weight: Any = None,  # noqa: ANN401
        *,
        silos: Any = None,  # noqa: ANN401
    ) -> _Regressor:
        """Fit the model.

        Args:
            X: a row per sample; an array, a DataFrame or a sparse matrix.
            y: the numbers to predict.
            sample_weight: how much each row counts; one by default.
            silos: the name of the silo that each row belongs to; by default all are in one.
        """
        strength = checked_number(self.alpha, "alpha", least=0.0, beyond=False)
        X, y = self._checked(X, y, y_numeric=True)
        weights = checked_weights(sample_weight, X)
        centre = self._centre(X, weights)
        X = X if issparse(X) else X - centre
        x = self._fitted(X, np.asarray(y, dtype=np.float64), weights, silos, strength)
        coef, intercept = self._uncentred(x, X, centre)
        self.coef_, self.intercept_ = coef[0].copy(), float(intercept[0])
        return self

    def predict(self, X: Any) -> Vector:  # noqa: ANN401
        """Return the number predicted for every row."""
        check_is_fitted(self)
        X = self._checked(X, reset=False)
        return scoring.linear_scores(X, self.coef_, self.intercept_)


class SiloRidge(_Regressor):
    """scikit-learn's Ridge, trained across silos that may leave.

    Minimises the sum of squared residuals plus alpha |coef|^2; the intercept is not penalised.

    Args:
        alpha: strength of the penalty, >= 0.
        fit_intercept: whether to have one.
        graph, departures, absent, will, method, rounds, engine, weigh, finish: see
            ``SiloEstimator``.

    >>> model = SiloRidge(alpha=0.0).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0], silos=[1, 1, 2])
    >>> round(float(model.coef_[0]), 6), round(model.intercept_, 6)
    (2.0, 1.0)
    """

    _kind = "least_squares"

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        fit_intercept: bool = True,
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
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.graph = graph
        self.departures = departures
        self.absent = absent
        self.will = will
        self.method = method
        self.rounds = rounds
        self.engine = engine
        self.weigh = weigh
        self.finish = finish

    def _fitted(
        self, X: Features, y: Vector, weights: Vector | None, silos: object, strength: float
    ) -> Vector:
        return self._solve(X, y, silos, weights, LeastSquares, penalty=strength)


class SiloHuber(_Regressor):
    """scikit-learn's HuberRegressor, trained across silos that may leave.

    Minimises the sum of s + s H(r/s) plus alpha |coef|^2 over coefficients and the scale s, where
    H(t) = t^2 up to epsilon, and goes on straight from there; the intercept is not penalised. All
    silos agree on s before the first round; what leaves afterwards is remembered at that scale.

    Args:
        epsilon: beyond how many scales a residual is an outlier, >= 1.
        alpha: strength of the penalty, >= 0.
        fit_intercept: whether to have one.
        graph, departures, absent, will, method, rounds, engine, weigh, finish: see
            ``SiloEstimator``.

    After ``fit``, ``scale_`` is s, and ``outliers_`` says which rows are outliers.
    """

    _kind = "huber"

    def __init__(
        self,
        *,
        epsilon: float = 1.35,
        alpha: float = 0.0001,
        fit_intercept: bool = True,
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
        self.epsilon = epsilon
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.graph = graph
        self.departures = departures
        self.absent = absent
        self.will = will
        self.method = method
        self.rounds = rounds
        self.engine = engine
        self.weigh = weigh
        self.finish = finish

    def _fitted(
        self, X: Features, y: Vector, weights: Vector | None, silos: object, strength: float
    ) -> Vector:
        epsilon = checked_number(self.epsilon, "epsilon", least=1.0, beyond=False)
        self.scale_, start = self._scale(X, y, weights, silos, epsilon=epsilon, strength=strength)
        loss, penalty = _at_scale(self.scale_, epsilon, strength)
        x = self._solve(X, y, silos, weights, loss, penalty=penalty, start=start)
        residuals = np.abs(y - self._with_intercept(X) @ x)
        self.outliers_ = residuals > self.scale_ * epsilon
        return x

    def _scale(
        self,
        X: Features,
        y: Vector,
        weights: Vector | None,
        silos: object,
        *,
        epsilon: float,
        strength: float,
    ) -> tuple[float, Vector]:
        """Return the scale at which the slope along it, a sum over all samples, is zero; and x.

        Where every scale is too large (enough residuals are zero, or epsilon is 1: the least
        absolute residuals are wanted), one that is next to nothing beside the objective. The
        minimisers on the way there are steps on a ladder: from far away, Newton steps do not find
        one at a scale at which nearly every residual is a kink.
        """
        rows, found = self._with_intercept(X), silos_of(silos, y.size)
        counts = np.ones(y.size) if weights is None else weights.copy()
        if self.weigh == "silos":
            for part in found.rows:
                counts[part] /= counts[part].sum() or 1.0
        start = np.zeros(rows.shape[1])

        def at(logarithm: float) -> tuple[float, float]:
            """Return the slope, and the objective, both per sample."""
            nonlocal start
            scale = float(np.exp(logarithm))
            loss, penalty = _at_scale(scale, epsilon, strength)
            problem = Problem(list(self._losses(X, y, found, weights, loss, penalty=penalty)))
            start = problem.all_nodes.minimiser(Legacy.zero(problem.dim), start=start)
            parts = np.minimum(np.abs(y - rows @ start) / scale, epsilon)
            least = problem.all_nodes.values(np.tile(start, (problem.n, 1))).mean()
            slope = float(counts @ (1.0 - parts**2)) / float(counts.sum())
            return slope, scale + 2.0 / scale * float(least)

        largest = float(np.abs(y).max()) or 1.0
        here, floor = np.log(2.0 * largest), np.log(_ROUNDING * largest)
        slope, objective = at(here)
        while here > floor and np.exp(here) > _NOTHING * objective:
            below = max(here - _RUNG, floor)
            slope, objective = at(below)
            if slope < 0:
                here = brentq(lambda one: at(one)[0], below, here, xtol=1e-13)
                at(here)
                break
            here = below
        return float(np.exp(here)), start


def _at_scale(
    scale: float, epsilon: float, strength: float
) -> tuple[Callable[..., Objective], float]:
    """Return the loss and its penalty at one scale, both times scale/2."""
    return partial(_huber, delta=epsilon * scale), strength * scale


def _huber(X: Any, y: Vector, *, delta: float, **options: Any) -> Huber:  # noqa: ANN401
    return Huber(X, y, delta, **options)
