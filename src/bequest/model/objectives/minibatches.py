"""Rounds on a few samples each, chosen by a key: stochastic, and the same bits every time.

A round asks for the gradient with a key, (seed, node, incarnation, round). The key alone says which
samples are taken, so that every engine, every replay and every resumed run takes the same ones, and
it takes no second question to find out whether a gradient is noisy. Whatever is no round (a will, a
certificate, x*) asks without a key, and gets the gradient on all samples.

The trackers of a run stay exact for any gradient: nodes keep the one that they used last
(prop:invariant), and never evaluate it anew.
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from bequest.core.arrays import is_whole
from bequest.errors import InvalidObjective
from bequest.model.objectives.base import Objective, Singles

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Indices, Matrix, Tensor, Vector
    from bequest.core.curvature import Curvature


# The samples of so many rounds are found together, unless these are very many.
_AHEAD, _INDICES = 16, 1 << 16


class SampleKey(NamedTuple):
    """What says which samples a round takes."""

    seed: int
    node: int
    incarnation: int
    round: int

    def rows(self, samples: int, size: int) -> Indices:
        """Return that many of the samples, none of them twice, ascending."""
        if size >= samples:
            return np.arange(samples)
        rng = np.random.default_rng(list(self))  # a tuple is taken apart twice as slowly
        chosen = rng.choice(samples, size, replace=False, shuffle=False)
        return np.sort(chosen)


@runtime_checkable
class HasSamples(Protocol):
    """A loss that is a mean over samples, and can be asked for some of them."""

    @property
    def samples(self) -> int:
        """How many there are."""
        ...

    def batch_gradient(self, x: ArrayLike, rows: Indices) -> Vector:
        """Return the gradient on these samples alone, which is that of all in the mean."""
        ...


class Sampled(Objective):
    """A loss whose rounds may take a few samples each.

    Attributes:
        batch: how many samples a round takes; None for all of them.
        seed: of the choice.
        full_every: every so many rounds all samples are taken, and the rounds between them
            correct that gradient by how much it has changed on theirs: the noise then vanishes as
            the node comes to rest (SVRG). None for plain minibatches.
    """

    batch: int | None
    seed: int
    full_every: int | None

    def _sample(self, batch: int | None, seed: int, full_every: int | None) -> None:
        """Say how rounds sample, or refuse it."""
        for name, given, least, optional in (
            ("batch", batch, 1, True),
            ("seed", seed, 0, False),
            ("full_every", full_every, 1, True),
        ):
            if not (optional and given is None) and not is_whole(given, least=least):
                raise InvalidObjective(
                    f"{name} is {given!r}.",
                    remedy=f"Pass a whole number >= {least}{', or None' if optional else ''}.",
                )
        if batch is None and full_every is not None:
            raise InvalidObjective(
                "full_every is given without a batch: every round takes all samples anyway.",
                remedy="Say how many samples a round takes, or leave full_every out.",
            )
        self.batch, self.seed, self.full_every = batch, int(seed), full_every

    @property
    @abstractmethod
    def samples(self) -> int:
        """How many there are."""

    @abstractmethod
    def batch_gradient(self, x: ArrayLike, rows: Indices) -> Vector:
        """Return the gradient on these samples alone, which is that of all in the mean."""

    @property
    def is_stochastic(self) -> bool:
        """Whether rounds take fewer samples than there are."""
        return self.batch is not None and self.batch < self.samples

    def gradient(self, x: ArrayLike, key: SampleKey | None = None) -> Vector:
        """Return grad f(x): on all samples, or on those that the key chooses."""
        if key is None or self.batch is None:
            return super().gradient(x)
        return self.batch_gradient(x, key.rows(self.samples, self.batch))

    def draws(self, node: int, incarnation: int) -> Draws:
        """Return the gradients that the rounds of a node use, from its entry on."""
        return _Sampling(self, node, incarnation) if self.is_stochastic else Draws(self)


class Minibatches(Sampled):
    """A loss over samples of which every round takes a few.

    Args:
        loss: Logistic, Softmax, LeastSquares, Huber, or another one with samples.
        size: how many samples a round takes.
        seed: of the choice; a node, its incarnation and the round do the rest.
        full_every: as in ``Sampled``: every so many rounds all samples are taken.

    >>> from bequest.model.objectives import LeastSquares
    >>> loss = Minibatches(LeastSquares([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0]), size=2)
    >>> loss.gradient([0.0]), loss.gradient([0.0], SampleKey(0, 0, 0, 1))
    (array([-4.66666667]), array([-5.]))
    """

    def __init__(
        self, loss: Objective, size: int, *, seed: int = 0, full_every: int | None = None
    ) -> None:
        if not isinstance(loss, Objective) or not isinstance(loss, HasSamples):
            raise InvalidObjective(
                f"A {type(loss).__name__} has no samples to take a few of.",
                remedy="Pass Logistic, Softmax, LeastSquares or Huber.",
            )
        if size is None:
            raise InvalidObjective("size is None.", remedy="Pass how many samples a round takes.")
        self.loss: Objective = loss
        self._loss: HasSamples = loss
        self._sample(size, seed, full_every)

    @property
    def samples(self) -> int:
        """How many there are."""
        return self._loss.samples

    def batch_gradient(self, x: ArrayLike, rows: Indices) -> Vector:
        """Return the gradient on these samples alone."""
        return self._loss.batch_gradient(x, rows)

    @property
    def dim(self) -> int:
        """That of the loss."""
        return self.loss.dim

    @property
    def curvature(self) -> Curvature:
        """That of the loss on all samples."""
        return self.loss.curvature

    @property
    def family(self) -> Hashable:
        """Rounds ask them one by one; everything else is rare."""
        return (Minibatches, self.dim)

    def stack(self, members: Sequence[Any]) -> MinibatchesStack:
        """Return these losses as one stack."""
        return MinibatchesStack(members)

    def __repr__(self) -> str:
        return f"Minibatches({self.loss!r}, size={self.batch})"


class MinibatchesStack(Singles[Minibatches]):
    """Losses that are asked one by one, on all of their samples."""

    @property
    def constant_hessian(self) -> bool:
        """Whether every loss is a quadratic."""
        return all(m.loss.constant_hessian for m in self.members)

    @property
    def gradient_work(self) -> float:
        """That of all samples."""
        return sum(m.loss.stack([m.loss]).gradient_work for m in self.members)

    @property
    def hessian_work(self) -> float:
        """That of all samples."""
        return sum(m.loss.hessian_work for m in self.members)

    @property
    def attains(self) -> bool:
        """Whether every loss has a minimiser for certain."""
        return all(m.loss.stack([m.loss]).attains for m in self.members)

    def values(self, X: Matrix) -> Vector:
        """Return f_i(x_i) for every member."""
        return np.array([m.loss.value(x) for m, x in zip(self.members, X, strict=True)])

    def gradients(self, X: Matrix, out: Matrix) -> None:
        """Write grad f_i(x_i), on all samples, into ``out``."""
        for row, (m, x) in enumerate(zip(self.members, X, strict=True)):
            out[row] = m.loss.gradient(x)

    def products(self, X: Matrix, V: Matrix) -> Matrix:
        """Return the Hessian-vector products."""
        return np.array([m.loss.hvp(x, v) for m, x, v in zip(self.members, X, V, strict=True)])

    def bounds(self) -> Tensor:
        """Return those of the losses."""
        return np.array([m.loss.bound() for m in self.members])

    def total_hessian(self, x: Vector) -> Matrix:
        """Return the sum of the members' Hessians."""
        total: Matrix = np.sum([m.loss.hessian(x) for m in self.members], axis=0)
        return total

    def roots(self, x: Vector) -> Iterator[Matrix] | None:
        """Return those of the losses."""
        parts = [m.loss.alone.roots(x) for m in self.members]
        return None if any(part is None for part in parts) else chain(*filter(None, parts))


class Draws:
    """The gradients that the rounds of one node use: of a loss that is the same every time."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def enter(self, x: Vector, after: int) -> Vector:
        """Return the gradient that a node comes in with, after that round."""
        return self.draw(x, after)

    def draw(self, x: Vector, t: int) -> Vector:
        """Return the gradient that round t uses."""
        _ = t
        return self._objective.gradient(x)


class _Sampling(Draws):
    """The same of a loss that takes a few samples per round."""

    def __init__(self, objective: Sampled, node: int, incarnation: int) -> None:
        self._loss, self._node, self._incarnation = objective, node, incarnation
        self._at: Vector | None = None  # where all samples were last taken, and their gradient
        self._full: Vector | None = None
        self._ahead: dict[int, Indices] = {}  # round -> its samples

    def enter(self, x: Vector, after: int) -> Vector:
        """Return the gradient that a node comes in with; what it knew before does not count."""
        self._at = self._full = None
        return self.draw(x, after)

    def draw(self, x: Vector, t: int) -> Vector:
        """Return the gradient that round t uses."""
        loss = self._loss
        if loss.full_every is None:
            return loss.batch_gradient(x, self._rows(t))
        if self._at is None or self._full is None or t % loss.full_every == 0:
            self._at, self._full = x.copy(), loss.gradient(x)
            return self._full.copy()
        rows = self._rows(t)
        return loss.batch_gradient(x, rows) - loss.batch_gradient(self._at, rows) + self._full

    def _rows(self, t: int) -> Indices:
        """Return the samples of round t, and find those of some rounds ahead with them.

        Between the gradients of large models the caches are cold, and a key takes four times as
        long as beside others.
        """
        loss = self._loss
        if t not in self._ahead:
            size = loss.samples if loss.batch is None else loss.batch
            ahead = range(t, t + max(1, min(_AHEAD, _INDICES // size)))
            keys = (SampleKey(loss.seed, self._node, self._incarnation, u) for u in ahead)
            self._ahead = {key.round: key.rows(loss.samples, size) for key in keys}
        return self._ahead[t]
