"""Softmax regression: many classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.core.arrays import is_whole
from bequest.core.curvature import Curvature
from bequest.errors import InvalidLabels, InvalidObjective
from bequest.model.objectives.samples import SampleLoss, SampleStack

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Matrix, Tensor, Vector
    from bequest.model.objectives.rows import Features


class Softmax(SampleLoss):
    """f(x) = mean -log softmax(W a)_y + l2/2 |x|^2, x = W (classes by features) flattened.

    >>> f = Softmax([[1.0, 0.0], [0.0, 1.0]], [0, 2], classes=3)
    >>> f.dim, round(f.value(np.zeros(6)), 6), f.curvature.b
    (6, 1.098612, 0.25)
    """

    def __init__(
        self,
        X: ArrayLike | Features,
        y: ArrayLike,
        classes: int,
        l2: float = 0.0,
        *,
        divisor: float | None = None,
        sample_weight: ArrayLike | None = None,
        unpenalised: Sequence[int] = (),
    ) -> None:
        super().__init__(X, y, l2, divisor, sample_weight, unpenalised)
        if not is_whole(classes, least=2):
            raise InvalidObjective(f"classes is {classes}.", remedy="Pass a whole number >= 2.")
        self.classes = int(classes)
        wrong = (self.y != np.floor(self.y)) | (self.y < 0) | (self.y >= self.classes)
        if wrong.any():
            where = int(np.argmax(wrong))
            raise InvalidLabels(
                f"Label {self.y[where]:g} (sample {where}) is not one of 0..{self.classes - 1}.",
                remedy="Number the classes from 0, and pass how many there are in all silos.",
            )

    @property
    def dim(self) -> int:
        """Number of classes times number of features."""
        return self.classes * int(self.X.shape[1])

    def _certify(self) -> Curvature:
        # The Hessian of log-sum-exp, diag(p) - pp', has no eigenvalue above 1/2. Nothing bends
        # where all classes move alike, so that only the penalty makes a loss strongly convex.
        return Curvature(self._floor, self.l2 + self._ends()[1] / 2)

    @property
    def family(self) -> Hashable:
        """Same classes, same features, and sample counts within a factor of two."""
        return (Softmax, self.classes, self.X.shape[1], self.size_class)

    def stack(self, members: Sequence[Any]) -> SoftmaxStack:
        """Return these losses as one stack, padded to the longest."""
        return SoftmaxStack(members)


class SoftmaxStack(SampleStack):
    """Softmax regressions with the same classes and features."""

    def __init__(self, members: Sequence[Softmax]) -> None:
        super().__init__(members)
        self.classes = self.members[0].classes
        # where the label's entry of every sample is, in an array of them all
        self._own = np.arange(self.y.size) * self.classes + self.y.astype(int).ravel()

    def _scores(self, X: Matrix) -> Tensor:
        return self.rows.predict_each(X.reshape(X.shape[0], self.classes, self.rows.features))

    def _shares(self, X: Matrix) -> Tensor:
        scores = self._scores(X)
        scores -= scores.max(axis=2, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=2, keepdims=True)
        return scores

    def _misses(self, shares: Tensor) -> Tensor:
        """Return the shares, minus one for the label, in place.

        Written as the sum of the other shares, which keeps its digits where the label is certain.
        """
        entries = shares.reshape(-1)
        entries[self._own] = 0.0
        entries[self._own] = -shares.sum(axis=2).reshape(-1)
        return shares

    def _pull_back(self, samples: Tensor) -> Matrix:
        weighted = samples * self.weight[:, :, None]
        return self.rows.combine_each(weighted).reshape(self.shape)

    def values(self, X: Matrix) -> Vector:
        """Return f_i(x_i) for every member."""
        scores = self._scores(X)
        own = scores.reshape(-1)[self._own].reshape(self.y.shape)
        first = scores.argmax(axis=2, keepdims=True)
        top = np.take_along_axis(scores, first, axis=2)
        others = np.exp(scores - top)
        np.put_along_axis(others, first, 0.0, axis=2)
        # log1p keeps the digits of a small loss
        losses = np.log1p(others.sum(axis=2)) + (top[:, :, 0] - own)
        total: Vector = (losses * self.weight).sum(axis=1) + self.penalties(X)
        return total

    def gradients(self, X: Matrix, out: Matrix) -> None:
        """Write grad f_i(x_i) into ``out``."""
        np.multiply(self.penalty, X, out=out)
        out += self._pull_back(self._misses(self._shares(X)))

    def products(self, X: Matrix, V: Matrix) -> Matrix:
        """Return the Hessian-vector products."""
        shares, moves = self._shares(X), self._scores(V)
        # A shift of all scores changes nothing; after this one the largest share has none to lose.
        moves -= np.take_along_axis(moves, shares.argmax(axis=2, keepdims=True), axis=2)
        centred = shares * (moves - (shares * moves).sum(axis=2, keepdims=True))
        return self.penalty * V + self._pull_back(centred)

    def bounds(self) -> Tensor:
        """Return half of the Gram matrix of the samples for every class, less what they share.

        diag(p) - pp' is at most (I - 11'/K)/2 for all shares p.
        """
        grams = self.rows.grams(self.weight)
        centred = (np.eye(self.classes) - 1.0 / self.classes) / 2
        whole = np.array([np.kron(centred, gram) for gram in grams])
        return whole + self.penalty[:, :, None] * np.eye(self.shape[1])

    def ceiling(self) -> Vector:
        """Return the diagonal of the Hessian if every share were a half."""
        squares = self.rows.squares(self.weight) / 4
        return np.tile(squares, self.classes) + self.whole_penalty

    def terms(self, x: Vector, scale: Vector) -> Vector:  # noqa: ARG002 - a formula
        """Return the terms of the sum over the samples and, through the shares, of the scores."""
        n, d = self.shape
        shares = self._shares(np.broadcast_to(x, (n, d)))
        absolute = self.rows.absolute()
        maps = np.abs(x).reshape(self.classes, -1)
        sizes = absolute.predict_each(np.broadcast_to(maps, (n, *maps.shape)))
        own = shares * sizes
        bent = shares * (sizes - own + own.sum(axis=2, keepdims=True) - own)
        weighted = (np.abs(self._misses(shares)) + bent) * self.weight[:, :, None]
        total: Vector = absolute.combine_each(weighted).sum(axis=0).reshape(d)
        return total + self.whole_penalty * np.abs(x)

    def roots(self, x: Vector) -> Iterator[Matrix]:
        """Yield, per member and class, the samples times the root of the share, less their mean.

        diag(p) - pp' is the sum over the classes a of p_a (e_a - p)(e_a - p)'.
        """
        n, d = self.shape
        shares = self._shares(np.broadcast_to(x, (n, d)))
        for row, (each, weights) in enumerate(zip(shares, self.weight, strict=True)):
            samples = self.rows.of(row)
            for one in range(self.classes):
                away = np.eye(self.classes)[one] - each
                # 1 - p is the sum of the others, which keeps its digits
                away[:, one] = np.delete(each, one, axis=1).sum(axis=1)
                away *= np.sqrt(each[:, one] * weights)[:, None]
                yield (away[:, :, None] * samples[:, None, :]).reshape(-1, d)
        yield np.diag(np.sqrt(self.whole_penalty))

    def total_hessian(self, x: Vector) -> Matrix:
        """Return the sum of the members' Hessians at one point."""
        n, d = self.shape
        shares = self._shares(np.broadcast_to(x, (n, d)))
        features = self.rows.features
        total = np.zeros((self.classes, features, self.classes, features))
        for one in range(self.classes):
            for other in range(one):
                block = self.rows.gram(shares[:, :, one] * shares[:, :, other] * self.weight)
                total[one, :, other, :] = total[other, :, one, :] = -block
                # p (1 - p) is p times the sum of the others, which keeps its digits
                total[one, :, one, :] += block
                total[other, :, other, :] += block
        hessian: Matrix = total.reshape(d, d) + np.diag(self.whole_penalty)
        return hessian
