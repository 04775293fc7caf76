"""Models of JAX as losses of nodes: ``bequest.jax.Silo``.

    silo = bequest.jax.Silo(loss, params, (X, y), l2=1e-4, batch=16)    # loss(params, (X, y))

Parameters are any pytree of arrays of one floating-point type. It needs the extra ``jax``.
"""

from __future__ import annotations

from functools import cached_property, lru_cache, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Self

from bequest import extras
from bequest.errors import InvalidObjective
from bequest.model.objectives.model_checks import (
    check_backend,
    check_pair,
    check_precision,
    check_scalar,
    speaking_of,
)
from bequest.model.objectives.network import Network

extras.need("jax", what="bequest.jax")

import jax  # noqa: E402 - after the check
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.flatten_util import ravel_pytree  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Indices, Matrix, Tensor, Vector
    from bequest.core.curvature import Curvature

__all__ = ["Silo"]


class Silo(Network):
    """The loss of a JAX model on one node's samples.

    Args:
        loss: ``loss(params, (inputs, targets))``, a pure function: the mean over a batch. With
            ``predict`` it is ``loss(outputs, targets)``.
        params: the parameters to start from, any pytree; the same structure on every node.
        data: a pair of arrays (inputs, targets).
        predict: ``predict(params, inputs)``, the model's outputs. Wills then go by the curvature
            of Gauss-Newton, which is never negative. Without it they are given the Hessian, raised
            by the curvature that it has least.
        l2: adds l2/2 times the squared length of the parameters.
        batch: how many samples a round takes; None for all.
        seed: of that choice.
        full_every: take all samples every so many rounds, against the noise of the others.
        curvature: the range of the loss's curvature, if it is known; a may be below zero.
        name: what the node is called, in what is said about it and in the problem.

    ``run.model`` is the pytree that the survivors agree on.
    """

    def __init__(
        self,
        loss: Callable[..., Any],
        params: Any,  # noqa: ANN401 - any pytree
        data: Any,  # noqa: ANN401 - a pair of arrays
        *,
        predict: Callable[..., Any] | None = None,
        l2: float = 0.0,
        batch: int | None = None,
        seed: int = 0,
        full_every: int | None = None,
        curvature: Curvature | tuple[float, float] | None = None,
        name: str | None = None,
    ) -> None:
        with speaking_of(name):
            backend = _backend(loss, predict, params, data)
            super().__init__(
                backend,
                l2=l2,
                batch=batch,
                seed=seed,
                full_every=full_every,
                curvature=curvature,
                name=name,
            )


def _backend(
    loss: Callable[..., Any],
    predict: Callable[..., Any] | None,
    params: Any,  # noqa: ANN401 - any pytree
    data: Any,  # noqa: ANN401
) -> _Jax:
    """Return the model on these samples, once it has passed all checks."""
    if not callable(loss) or not (predict is None or callable(predict)):
        raise InvalidObjective(
            f"The loss is a {type(loss).__name__}.",
            remedy="Pass a pure function loss(params, (inputs, targets)).",
        )
    kinds = {str(jnp.asarray(leaf).dtype) for leaf in jax.tree.leaves(params)}
    called = getattr(loss, "__name__", "the loss")
    check_precision(kinds, called)
    backend = _Jax(loss, predict, params, *_arrays(data), None)
    check_backend(backend, called)
    return backend


class _Jax:
    """A pure loss, where its parameters start, and samples."""

    def __init__(
        self,
        loss: Callable[..., Any],
        predict: Callable[..., Any] | None,
        params: Any,  # noqa: ANN401 - any pytree
        inputs: Any,  # noqa: ANN401
        targets: Any,  # noqa: ANN401
        weights: Any,  # noqa: ANN401
    ) -> None:
        self.loss, self.predict, self.params = loss, predict, params
        self.inputs, self.targets, self.weights = inputs, targets, weights

    def __getstate__(self) -> dict[str, Any]:
        plain = ("loss", "predict", "params", "inputs", "targets", "weights")
        return {name: vars(self)[name] for name in plain}

    @cached_property
    def _raveled(self) -> tuple[Any, Any]:
        flat, back = ravel_pytree(self.params)
        return flat, back

    @cached_property
    def _programs(self) -> _Programs:
        """What is compiled: once for all silos that hold one model."""
        leaves, structure = jax.tree.flatten(self.params)
        shapes = tuple((jnp.shape(leaf), str(jnp.asarray(leaf).dtype)) for leaf in leaves)
        try:
            return _compiled(self.loss, self.predict, structure, shapes)
        except TypeError:  # a callable object that cannot be looked up
            return _compiled.__wrapped__(self.loss, self.predict, structure, shapes)

    @property
    def dim(self) -> int:
        return int(self._raveled[0].size)

    @property
    def samples(self) -> int:
        return int(self.inputs.shape[0])

    @property
    def precision(self) -> float:
        return float(jnp.finfo(self._raveled[0].dtype).eps)

    @cached_property
    def architecture(self) -> str:
        shapes = jax.tree.map(jnp.shape, self.params)
        name = getattr(self.loss, "__qualname__", type(self.loss).__name__)
        words = repr((shapes, name, getattr(self.predict, "__qualname__", None)))
        return f"{name[-40:]} {sha256(words.encode()).hexdigest()[:16]}"

    def start(self) -> Vector:
        return np.asarray(self._raveled[0], dtype=float)

    def model(self, x: Vector) -> Any:  # noqa: ANN401 - a pytree
        return self._raveled[1](self._point(x))

    def _point(self, x: Vector) -> Any:  # noqa: ANN401
        return jnp.asarray(x, dtype=self._raveled[0].dtype)

    # --- evaluation -----------------------------------------------------------------------

    def _batch(self, rows: Indices | None) -> tuple[Any, Any, Any]:
        if rows is None:
            return self.inputs, self.targets, self.weights
        return *self._programs.taken(self.inputs, self.targets, rows), None

    def value(self, x: Vector, rows: Indices | None) -> float:
        return float(self._programs.value(self._point(x), *self._batch(rows)))

    def gradient(self, x: Vector, rows: Indices | None) -> Vector:
        found = self._programs.gradient(self._point(x), *self._batch(rows))
        return np.array(found, dtype=float)  # not a view that JAX keeps to itself

    def hessian_product(self, x: Vector, v: Vector) -> Vector:
        found = self._programs.hessian(self._point(x), self._point(v), *self._batch(None))
        return np.array(found, dtype=float)

    def gauss_product(self, x: Vector, v: Vector) -> Vector | None:
        if self.predict is None:
            return None
        found = self._programs.gauss(self._point(x), self._point(v), *self._batch(None))
        return np.array(found, dtype=float)

    def output_shape(self, x: Vector, rows: Indices) -> tuple[int, ...] | None:
        if self.predict is None:
            return None
        outputs = self._programs.outputs(self._point(x), self.inputs[rows])
        return getattr(outputs, "shape", None)  # a pytree of several has none

    # --- samples --------------------------------------------------------------------------

    def arrays(self) -> tuple[Tensor, Tensor]:
        return np.asarray(self.inputs), np.asarray(self.targets)

    def on(self, points: Matrix, labels: Vector, weights: Vector) -> Self:
        inputs = jnp.asarray(points, self.inputs.dtype).reshape(-1, *self.inputs.shape[1:])
        targets = jnp.asarray(labels, self.targets.dtype).reshape(-1, *self.targets.shape[1:])
        share = jnp.asarray(weights, self._raveled[0].dtype)
        return type(self)(self.loss, self.predict, self.params, inputs, targets, share)

    def content(self) -> object:
        start, kind = self.start(), str(self._raveled[0].dtype)
        return self.architecture, self.arrays(), start, kind, self.loss, self.predict


class _Programs:
    """A loss of flat parameters and its derivatives, compiled.

    Args:
        loss: of parameters and a batch, or of outputs and targets.
        predict: the outputs, if they are known.
        back: from flat parameters to the pytree that they are.
    """

    def __init__(
        self,
        loss: Callable[..., Any],
        predict: Callable[..., Any] | None,
        back: Callable[[Any], Any],
    ) -> None:
        self._loss, self._predict, self._back = loss, predict, back
        self.value, self.gradient = jax.jit(self._total), jax.jit(jax.grad(self._total))
        self.hessian, self.gauss = jax.jit(self._bend), jax.jit(self._bend_outputs)
        # Compiled, and apart from the gradient: alone it takes longer than that of a small model.
        self.taken = jax.jit(lambda inputs, targets, rows: (inputs[rows], targets[rows]))

    def outputs(self, x: Any, inputs: Any) -> Any:  # noqa: ANN401
        """Return what the model puts out."""
        assert self._predict is not None  # noqa: S101 - asked where there is one
        return self._predict(self._back(x), inputs)

    def _mean(self, x: Any, inputs: Any, targets: Any) -> Any:  # noqa: ANN401
        if self._predict is None:
            found = self._loss(self._back(x), (inputs, targets))
        else:
            found = self._loss(self.outputs(x, inputs), targets)
        check_scalar(jnp.shape(found))
        return found

    def _total(self, x: Any, inputs: Any, targets: Any, weights: Any) -> Any:  # noqa: ANN401
        """Return the mean loss, or the weighted sum of the losses of single samples."""
        if weights is None:
            return self._mean(x, inputs, targets)
        each = jax.vmap(lambda i, t: self._mean(x, i[None], t[None]))(inputs, targets)
        return (each * weights).sum()

    def _bend(self, x: Any, v: Any, *batch: Any) -> Any:  # noqa: ANN401
        """Return the Hessian times v, forward over reverse."""
        slope = jax.grad(lambda point: self._total(point, *batch))
        return jax.jvp(slope, (x,), (v,))[1]

    def _bend_outputs(self, x: Any, v: Any, inputs: Any, targets: Any, weights: Any) -> Any:  # noqa: ANN401
        """Return J' H J v."""

        def outer(out: Any) -> Any:  # noqa: ANN401
            if weights is None:
                return self._loss(out, targets)
            each = jax.vmap(lambda o, t: self._loss(o[None], t[None]))(out, targets)
            return (each * weights).sum()

        outputs = partial(self.outputs, inputs=inputs)
        out, moved = jax.jvp(outputs, (x,), (v,))
        bent = jax.jvp(jax.grad(outer), (out,), (moved,))[1]
        return jax.vjp(outputs, x)[1](bent)[0]


@lru_cache(maxsize=32)
def _compiled(
    loss: Callable[..., Any],
    predict: Callable[..., Any] | None,
    structure: Any,  # noqa: ANN401 - of the pytree
    shapes: tuple[tuple[tuple[int, ...], str], ...],
) -> _Programs:
    """Return the programs of a model: compiling takes longer than many a run."""
    leaves = [jnp.zeros(shape, kind) for shape, kind in shapes]
    return _Programs(loss, predict, ravel_pytree(jax.tree.unflatten(structure, leaves))[1])


def _arrays(data: Any) -> tuple[Any, Any]:  # noqa: ANN401
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise InvalidObjective(
            f"The data are a {type(data).__name__}.",
            remedy="Pass (inputs, targets) as two arrays; the key of a round chooses its samples.",
        )
    try:
        inputs, targets = (jnp.asarray(part) for part in data)
    except (TypeError, ValueError) as error:
        raise InvalidObjective(
            f"The data are no arrays: {error}",
            remedy="Pass (inputs, targets) as two arrays of numbers; pad what differs in shape.",
        ) from error
    check_pair(inputs.shape, targets.shape)
    return inputs, targets
