"""Losses of a linear prediction: logistic, least squares, Huber."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bequest.core.curvature import Curvature
from bequest.errors import InvalidLabels
from bequest.model.objectives.base import checked_scalar
from bequest.model.objectives.samples import SampleLoss, SampleStack, quadratic_ends
from bequest.model.overrides import replaced

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Matrix, Tensor, Vector
    from bequest.model.objectives.rows import Features


class LinearModel(SampleLoss):
    """f(x) = mean over samples k of loss(a_k'x, y_k) + l2/2 |x|^2.

    Subclasses give the loss of one prediction, its first two derivatives, and the range of
    the second.
    """

    #: The loss's second derivative lies in [lowest, highest] for every prediction.
    lowest: ClassVar[float] = 0.0
    highest: ClassVar[float] = 1.0

    def __init__(
        self,
        X: ArrayLike | Features,
        y: ArrayLike,
        l2: float = 0.0,
        *,
        divisor: float | None = None,
        sample_weight: ArrayLike | None = None,
        unpenalised: Sequence[int] = (),
    ) -> None:
        super().__init__(X, y, l2, divisor, sample_weight, unpenalised)

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    def _certify(self) -> Curvature:
        if not self.unpenalised:
            least, most = self._ends()
            return Curvature(self.l2 + self.lowest * least, self.l2 + self.highest * most)
        penalty = self._penalty(self.dim)
        low, high = (
            quadratic_ends(self._weighted, self.divisor / bend, penalty) if bend else (0.0, 0.0)
            for bend in (self.lowest, self.highest)
        )
        return Curvature(low[0], high[1])

    @property
    def family(self) -> Hashable:
        """Same loss, same dimension, and sample counts within a factor of two."""
        return (type(self), self.dim, self._parameters(), self.size_class)

    def _parameters(self) -> tuple[float, ...]:
        return ()

    def stack(self, members: Sequence[Any]) -> LinearStack:
        """Return these losses as one stack, padded to the longest."""
        return LinearStack(members)

    @abstractmethod
    def losses(self, prediction: Matrix, y: Matrix) -> Matrix:
        """Return the loss of every prediction."""

    @abstractmethod
    def slopes(self, prediction: Matrix, y: Matrix) -> Matrix:
        """Return its derivative."""

    @abstractmethod
    def bends(self, prediction: Matrix, y: Matrix) -> Matrix:
        """Return its second derivative."""

    def secants(self, prediction: Matrix, y: Matrix) -> Matrix:  # noqa: ARG002 - as flat as any
        """Return the second derivative of a parabola that touches it and is nowhere below it."""
        return np.full_like(prediction, self.highest)


class LinearStack(SampleStack):
    """Linear models of one loss."""

    @property
    def _loss(self) -> LinearModel:
        loss: LinearModel = self.members[0]
        return loss

    @property
    def constant_hessian(self) -> bool:
        """Only least squares bends the same everywhere."""
        formulas = ("losses", "slopes", "bends")
        loss = self._loss
        return isinstance(loss, LeastSquares) and not replaced(loss, formulas, LeastSquares)

    @property
    def attains(self) -> bool:
        """Huber losses do, too."""
        return isinstance(self._loss, LeastSquares | Huber)

    def _pull_back(self, samples: Matrix) -> Matrix:
        return self.rows.combine(samples * self.weight)

    def values(self, X: Matrix) -> Vector:
        """Return f_i(x_i) for every member."""
        losses = self._loss.losses(self.rows.predict(X), self.y) * self.weight
        values: Vector = losses.sum(axis=1) + self.penalties(X)
        return values

    def gradients(self, X: Matrix, out: Matrix) -> None:
        """Write grad f_i(x_i) into ``out``."""
        np.multiply(self.penalty, X, out=out)
        out += self._pull_back(self._loss.slopes(self.rows.predict(X), self.y))

    def products(self, X: Matrix, V: Matrix) -> Matrix:
        """Return the Hessian-vector products."""
        bends = self._loss.bends(self.rows.predict(X), self.y)
        return self.penalty * V + self._pull_back(bends * self.rows.predict(V))

    def total_hessian(self, x: Vector) -> Matrix:
        """Return the sum of the members' Hessians at one point."""
        return self._gram(self._loss.bends(self._predict_all(x), self.y))

    def roots(self, x: Vector) -> Iterator[Matrix]:
        """Yield the samples of every member, each times the root of its bend; and the penalty."""
        bends = np.maximum(self._loss.bends(self._predict_all(x), self.y), 0.0)
        for row, weights in enumerate(np.sqrt(bends * self.weight)):
            yield weights[:, None] * self.rows.of(row)
        yield np.diag(np.sqrt(self.whole_penalty))

    def total_majoriser(self, x: Vector) -> Matrix:
        """Return the same with parabolas above the losses: one step of reweighted least squares."""
        return self._gram(self._loss.secants(self._predict_all(x), self.y))

    def _predict_all(self, x: Vector) -> Matrix:
        return self.rows.predict(np.broadcast_to(x, self.shape))

    def _gram(self, bends: Matrix) -> Matrix:
        return self.rows.gram(bends * self.weight) + np.diag(self.whole_penalty)

    def bounds(self) -> Tensor:
        """Return the Hessians if every sample bent as much as it can."""
        grams = self._loss.highest * self.rows.grams(self.weight)
        return grams + self.penalty[:, :, None] * np.eye(self.shape[1])

    def ceiling(self) -> Vector:
        """Return the diagonal of the Hessian if every sample bent as much as it can."""
        return self._loss.highest * self.rows.squares(self.weight) + self.whole_penalty

    def terms(self, x: Vector, scale: Vector) -> Vector:  # noqa: ARG002 - a formula
        """Return the terms of the sum over the samples and, through their bends, of a_k'x - y_k."""
        predictions = self._predict_all(x)
        slopes = np.abs(self._loss.slopes(predictions, self.y))
        sizes = self.rows.absolute()
        inside = sizes.predict(np.broadcast_to(np.abs(x), self.shape)) + np.abs(self.y)
        samples = (slopes + self._loss.bends(predictions, self.y) * inside) * self.weight
        total: Vector = sizes.combine(samples).sum(axis=0)
        return total + self.whole_penalty * np.abs(x)


class Logistic(LinearModel):
    """f(x) = mean log(1 + exp(-y a'x)) + l2/2 |x|^2, labels {-1, 1} or {0, 1}.

    >>> f = Logistic([[1.0], [-2.0]], [1, 0], l2=0.1)
    >>> round(f.value([0.0]), 6), f.gradient([0.0]), f.curvature
    (0.693147, array([-0.75]), Curvature(a=0.1, b=0.725, certified=True))
    """

    highest = 0.25

    def __init__(
        self,
        X: ArrayLike | Features,
        y: ArrayLike,
        l2: float = 0.0,
        *,
        divisor: float | None = None,
        sample_weight: ArrayLike | None = None,
        unpenalised: Sequence[int] = (),
    ) -> None:
        super().__init__(
            X, y, l2, divisor=divisor, sample_weight=sample_weight, unpenalised=unpenalised
        )
        seen = np.unique(self.y)
        if not (np.isin(seen, (-1.0, 1.0)).all() or np.isin(seen, (0.0, 1.0)).all()):
            raise InvalidLabels(
                f"Logistic labels are {seen[:5].tolist()}{'...' if seen.size > 5 else ''}.",
                remedy="Use labels {-1, 1} or {0, 1}; for more classes use Softmax.",
            )
        signs = np.where(self.y > 0, 1.0, -1.0)
        signs.setflags(write=False)
        self.y = signs

    def losses(self, prediction: Matrix, y: Matrix) -> Matrix:
        """Return log(1 + exp(-y t)), without overflow."""
        return np.logaddexp(0.0, -y * prediction)

    def slopes(self, prediction: Matrix, y: Matrix) -> Matrix:
        """Return -y / (1 + exp(y t))."""
        return -y * _sigmoid(-y * prediction)

    def bends(self, prediction: Matrix, y: Matrix) -> Matrix:
        """Return s (1 - s), s the probability of the label."""
        # exp(-|t|)/(1 + exp(-|t|))^2 is the same, and keeps its digits where s is nearly 1
        small = np.exp(-np.abs(y * prediction))
        return small / (1.0 + small) ** 2

    def secants(self, prediction: Matrix, y: Matrix) -> Matrix:  # noqa: ARG002 - both labels alike
        """Return tanh(t/2) / 2t."""
        size = np.maximum(np.abs(prediction), 1e-8)  # where it is 1/4 to rounding
        secants: Matrix = np.tanh(size / 2) / (2 * size)
        return secants


class LeastSquares(LinearModel):
    """f(x) = mean 1/2 (a'x - y)^2 + l2/2 |x|^2.

    >>> LeastSquares([[2.0]], [4.0]).gradient([1.0])
    array([-4.])
    """

    lowest = 1.0

    def losses(self, prediction: Matrix, y: Matrix) -> Matrix:
        """Return half the squared residual."""
        return (prediction - y) ** 2 / 2

    def slopes(self, prediction: Matrix, y: Matrix) -> Matrix:
        """Return the residual."""
        return prediction - y

    def bends(self, prediction: Matrix, y: Matrix) -> Matrix:  # noqa: ARG002
        """Return one."""
        return np.ones_like(prediction)

    secants = bends


class Huber(LinearModel):
    """f(x) = mean huber(a'x - y) + l2/2 |x|^2: least squares that outliers cannot bend.

    huber(r) = r^2/2 where |r| <= delta, delta (|r| - delta/2) beyond.

    >>> Huber([[1.0], [1.0]], [0.0, 100.0], delta=1.0).gradient([0.5])
    array([-0.25])
    """

    def __init__(
        self,
        X: ArrayLike | Features,
        y: ArrayLike,
        delta: float = 1.0,
        l2: float = 0.0,
        *,
        divisor: float | None = None,
        sample_weight: ArrayLike | None = None,
        unpenalised: Sequence[int] = (),
    ) -> None:
        super().__init__(
            X, y, l2, divisor=divisor, sample_weight=sample_weight, unpenalised=unpenalised
        )
        self.delta = checked_scalar(delta, "delta", positive=True)

    def _parameters(self) -> tuple[float, ...]:
        return (self.delta,)

    def losses(self, prediction: Matrix, y: Matrix) -> Matrix:
        """Return huber(r)."""
        inner = np.clip(prediction - y, -self.delta, self.delta)
        return inner * (prediction - y - inner / 2)

    def slopes(self, prediction: Matrix, y: Matrix) -> Matrix:
        """Return the residual, clipped to [-delta, delta]."""
        return np.clip(prediction - y, -self.delta, self.delta)

    def bends(self, prediction: Matrix, y: Matrix) -> Matrix:
        """Return one inside, zero outside."""
        return (np.abs(prediction - y) <= self.delta).astype(float)

    def secants(self, prediction: Matrix, y: Matrix) -> Matrix:
        """Return one inside, delta / |r| outside."""
        return self.delta / np.maximum(np.abs(prediction - y), self.delta)


def _sigmoid(t: Matrix) -> Matrix:
    # exp of a non-positive number only: no overflow on either side
    small = np.exp(-np.abs(t))
    return np.where(t >= 0, 1.0, small) / (1.0 + small)
