"""Losses of models that live in a framework: flattened parameters, and one contract for all.

A framework is one file that says how a model is evaluated on some of its samples (``Backend``).
Everything else is here, once: the penalty, minibatches, curvature, what a legacy needs.

Iterates, trackers and memories are float64 in every case; a model in float32 is evaluated in
float32. (In float32 the invariant of a run would drift to 1e-5.)
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from bequest.core.arrays import EPSILON, norm
from bequest.core.curvature import Curvature
from bequest.core.samples import SPREAD
from bequest.errors import InvalidObjective
from bequest.model.objectives.base import Singles, checked_scalar
from bequest.model.objectives.function import as_curvature
from bequest.model.objectives.minibatches import Sampled
from bequest.model.objectives.model_checks import checked_name, speaking_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Indices, Matrix, Tensor, Vector
    from bequest.core.samples import Clusters
    from bequest.model.pseudo_samples import SampleTable

# Ends of a spectrum are looked for with so many products, and are believed to this factor: a
# network's curvature changes on its way, and cannot be promised.
_PRODUCTS, _WIDENING = 12, 2.0
# How many products look for the lower end where that is needed, and how much further it may be.
_CAREFUL, _MARGIN = 32, 1.25


class Backend(Protocol):
    """What a framework has to say about one model and one set of samples.

    Values and gradients are those of the mean loss over samples, or of the weighted sum where
    there are weights; without any penalty.
    """

    @property
    def dim(self) -> int:
        """How many parameters the model has."""
        ...

    @property
    def samples(self) -> int:
        """How many samples there are."""
        ...

    @property
    def precision(self) -> float:
        """The relative rounding of the numbers that it computes with."""
        ...

    @property
    def architecture(self) -> str:
        """What tells the model from others, whatever its parameters are; at most 64 letters."""
        ...

    def start(self) -> Vector:
        """Return the parameters that the model came with, flattened."""
        ...

    def value(self, x: Vector, rows: Indices | None) -> float:
        """Return the loss on these samples, or on all."""
        ...

    def gradient(self, x: Vector, rows: Indices | None) -> Vector:
        """Return its gradient."""
        ...

    def hessian_product(self, x: Vector, v: Vector) -> Vector:
        """Return the Hessian of the loss on all samples times v."""
        ...

    def gauss_product(self, x: Vector, v: Vector) -> Vector | None:
        """Return the generalised Gauss-Newton matrix, which is never negative, times v.

        None where the framework knows the loss alone, and not what the model puts out.
        """
        ...

    def output_shape(self, x: Vector, rows: Indices) -> tuple[int, ...] | None:
        """Return the shape of what the model puts out for these samples; None if not known."""
        ...

    def arrays(self) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of all samples, as NumPy has them."""
        ...

    def on(self, points: Matrix, labels: Vector, weights: Vector) -> Self:
        """Return the same model on these samples, each with its weight."""
        ...

    def model(self, x: Vector) -> Any:  # noqa: ANN401 - what the framework calls its parameters
        """Return the parameters in the form that the framework has for them."""
        ...

    def content(self) -> object:
        """Return what it computes with, as plain data and arrays."""
        ...


class Network(Sampled):
    """The loss of a model on one node's samples, plus l2/2 |x|^2; x are its parameters, flattened.

    Attributes:
        backend: the model and the samples, in their framework.
        l2: the penalty.
        name: what the node is called, if it is called anything.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        l2: float = 0.0,
        batch: int | None = None,
        seed: int = 0,
        full_every: int | None = None,
        curvature: Curvature | tuple[float, float] | None = None,
        name: str | None = None,
    ) -> None:
        self.name = checked_name(name)
        self.backend, self.l2 = backend, checked_scalar(l2, "l2")
        self._sample(batch, seed, full_every)
        self._given = None
        if curvature is not None:
            self._given = as_curvature(
                curvature, remedy="Give (a, b); a may be below zero, or leave it out."
            )

    @property
    def dim(self) -> int:
        """How many parameters the model has."""
        return self.backend.dim

    @property
    def start(self) -> Vector:
        """The parameters that the model came with, flattened: where a run may begin."""
        return self.backend.start()

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return self.backend.samples

    @property
    def precision(self) -> float:
        """That of the model's numbers."""
        return self.backend.precision

    @property
    def architecture(self) -> str:
        """What all nodes of a problem have in common."""
        return self.backend.architecture

    @property
    def sample_form(self) -> str:
        """What its samples look like, which all nodes of a problem have in common as well."""
        inputs, targets = self.backend.arrays()
        return (
            f"inputs of shape {inputs.shape[1:]} with targets of shape {targets.shape[1:]} "
            f"({targets.dtype})"
        )

    @property
    def family(self) -> Hashable:
        """Models of one architecture are asked one by one."""
        return (type(self), self.architecture)

    def stack(self, members: Sequence[Any]) -> NetworkStack:
        """Return these losses as one stack."""
        return NetworkStack(members)

    def batch_gradient(self, x: ArrayLike, rows: Indices) -> Vector:
        """Return the gradient on these samples alone."""
        point = self._row(x)[0]
        slope: Vector = self.backend.gradient(point, rows)
        if self.l2:
            slope += self.l2 * point
        return slope

    @cached_property
    def curvature(self) -> Curvature:
        """As given, or as it is where the model starts, twice as wide: it is no promise.

        The lower end of a network's is below zero.
        """
        if self._given is not None:
            return self._given
        x = self.backend.start()
        most = _WIDENING * self._top + self.l2
        bent = _largest(lambda v: most * v - self.backend.hessian_product(x, v), self.dim)
        least = self.l2 + min(_WIDENING * (most - bent), 0.0)
        return Curvature(least, max(most, abs(least)), certified=False)

    @cached_property
    def _top(self) -> float:
        """The largest eigenvalue of the Gauss-Newton matrix where the model starts."""
        x = self.backend.start()

        def product(v: Vector) -> Vector:
            bent = self.backend.gauss_product(x, v)
            return self.backend.hessian_product(x, v) if bent is None else bent

        return max(_largest(product, self.dim), 0.0)

    @cached_property
    def convexified(self) -> Network:
        """The same with the Gauss-Newton matrix for its Hessian: what a memory is made of.

        Its range is not widened: a memory that bends too much is worse than one that does too
        little.
        """
        if self.curvature.a >= self.l2 and self._given is not None:
            return self
        most = self.curvature.b if self._given is not None else self._top + self.l2
        view = _GaussNewton(self.backend, l2=self.l2)
        view._sample(self.batch, self.seed, self.full_every)
        view.__dict__["curvature"] = Curvature(self.l2, max(most, self.l2), certified=False)
        return view

    def product(self, x: Vector, v: Vector) -> Vector:
        """Return the Hessian-vector product."""
        return self.backend.hessian_product(x, v) + self.l2 * v

    def table(self) -> SampleTable:
        """Return the samples, for a memory that replays them."""
        from bequest.model.pseudo_samples import SampleTable

        inputs, targets = self.backend.arrays()
        rows = np.asarray(inputs, dtype=float).reshape(self.samples, -1)
        classes = targets.dtype.kind in "iu" and targets.ndim == 1
        if targets.size != self.samples:
            with speaking_of(self.name):
                raise InvalidObjective(
                    f"The targets have shape {targets.shape}: they are neither classes nor "
                    "numbers.",
                    remedy="Use whole numbers for classes or one number per sample, or a will that "
                    "needs no samples, such as wills.Trust().",
                )
        flat = np.asarray(targets, dtype=float).reshape(-1)
        return SampleTable(
            (self.architecture, ()),
            rows,
            flat if classes else None,
            None if classes else flat,
            1.0 / self.samples,
            self.l2,
        )

    def replayed(
        self, samples: Clusters, points: Matrix, labels: Vector, weights: Vector
    ) -> Network:
        """Return the loss of these points, as this model evaluates it."""
        if samples.form[0].removeprefix(SPREAD) != self.architecture:
            raise InvalidObjective(
                f"Samples of {samples.form[0]} cannot be replayed by {self.architecture}.",
                remedy="Give all nodes models of one architecture.",
            )
        replayed = Network(self.backend.on(points, labels, weights))
        # The curvature of a few points is not looked for at every hand-off: it is like the node's
        # own, in proportion to what they weigh.
        b = float(weights.sum()) * (self.curvature.b - self.l2)
        a = float(weights.sum()) * min(self.curvature.a - self.l2, 0.0)
        replayed.__dict__["curvature"] = Curvature(a, max(b, 0.0), certified=False)
        return replayed

    def model(self, x: Vector) -> Any:  # noqa: ANN401 - what the framework calls its parameters
        """Return these parameters in the form that the framework has for them."""
        return self.backend.model(np.asarray(x, dtype=float))

    def content(self) -> object:
        """Return what it computes with."""
        options = (self.l2, self.batch, self.seed, self.full_every)
        return self.backend.content(), options, self._given

    def __repr__(self) -> str:
        name = self.architecture.partition(" ")[0]
        return f"{type(self).__name__}({name}, dim={self.dim}, samples={self.samples})"


class _GaussNewton(Network):
    """A network with the Gauss-Newton matrix for its Hessian.

    Where only the loss is known there is none. Its Hessian is then raised by the curvature that it
    has least, as far as a few products tell: it is what it was where the loss is convex, never
    negative elsewhere, and bends more than need be in all directions but one.
    """

    _raised: tuple[Vector, float] | None = None  # where, and by how much

    @property
    def convexified(self) -> Network:
        """Itself."""
        return self

    def product(self, x: Vector, v: Vector) -> Vector:
        """Return the Gauss-Newton matrix times v, or that of the raised Hessian."""
        bent = self.backend.gauss_product(x, v)
        if bent is None:
            bent = self.backend.hessian_product(x, v) + self._raise(x) * v
        return bent + self.l2 * v

    def _raise(self, x: Vector) -> float:
        """Return how far below zero the Hessian goes there."""
        if self._raised is None or not np.array_equal(self._raised[0], x):

            def product(v: Vector) -> Vector:
                return self.backend.hessian_product(x, v)

            most = max(_largest(product, self.dim), 0.0)
            below = _largest(lambda v: most * v - product(v), self.dim, _CAREFUL) - most
            # Rounding is not below zero; and what so few products find is not quite the end.
            real = below > 10 * self.precision * max(most, below)
            self._raised = x.copy(), _MARGIN * below if real else 0.0
        return self._raised[1]


class NetworkStack(Singles[Network]):
    """Models, evaluated one after the other."""

    @property
    def gradient_work(self) -> float:
        """At least a multiplication per sample and parameter."""
        return float(sum(m.samples * m.dim for m in self.members))

    @property
    def precision(self) -> float:
        """The coarsest one of the members."""
        return max(m.precision for m in self.members)

    def values(self, X: Matrix) -> Vector:
        """Return f_i(x_i) for every member."""
        return np.array(
            [
                m.backend.value(x, None) + m.l2 / 2 * float(x @ x)
                for m, x in zip(self.members, X, strict=True)
            ]
        )

    def gradients(self, X: Matrix, out: Matrix) -> None:
        """Write grad f_i(x_i), on all samples, into ``out``."""
        for row, (m, x) in enumerate(zip(self.members, X, strict=True)):
            out[row] = m.backend.gradient(x, None) + m.l2 * x

    def products(self, X: Matrix, V: Matrix) -> Matrix:
        """Return the Hessian-vector products."""
        return np.array([m.product(x, v) for m, x, v in zip(self.members, X, V, strict=True)])

    def total_hessian(self, x: Vector) -> Matrix:
        """Return the sum of the members' Hessians, a product per coordinate."""
        total: Matrix = np.sum(
            [[m.product(x, e) for e in np.eye(m.dim)] for m in self.members], axis=0
        )
        return (total + total.T) / 2


def _largest(product: Callable[[Vector], Vector], dim: int, products: int = _PRODUCTS) -> float:
    """Return about the largest eigenvalue of a symmetric matrix, by Lanczos's iteration."""
    rng = np.random.default_rng(0)
    q = rng.standard_normal(dim)
    q /= norm(q)
    before, beside = np.zeros(dim), 0.0
    diagonal: list[float] = []
    off: list[float] = []
    for _ in range(min(products, dim)):
        bent = product(q) - beside * before
        diagonal.append(float(q @ bent))
        bent = bent - diagonal[-1] * q
        beside = norm(bent)
        if beside <= EPSILON * (1 + abs(diagonal[-1])):
            break
        off.append(beside)
        before, q = q, bent / beside
    size = len(diagonal)
    T = np.diag(diagonal) + np.diag(off[: size - 1], 1) + np.diag(off[: size - 1], -1)
    return float(np.linalg.eigvalsh(T)[-1])
