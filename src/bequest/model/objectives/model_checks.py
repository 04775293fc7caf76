"""What is wrong with a model or its samples, in words and before a run, for all frameworks."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from bequest.errors import (
    BequestError,
    DimensionMismatch,
    InvalidLabels,
    InvalidObjective,
    NotFinite,
)
from bequest.model.silo_names import on_one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bequest.core.arrays import Indices, Vector
    from bequest.model.objectives.network import Backend

# A loss of several samples that is this close to the sum of their losses is no mean.
_SAME = 1e-3


def checked_name(name: object) -> str | None:
    """Return what a silo is called, if it is called anything.

    Raises:
        InvalidObjective: that is no name.
    """
    if name is None or (isinstance(name, str) and name.strip()):
        return name
    raise InvalidObjective(
        f"The name of a silo is {name!r}.", remedy='Pass a text such as name="oslo".'
    )


@contextmanager
def speaking_of(name: str | None) -> Iterator[None]:
    """Let what is refused here say which silo it is about, if that has a name."""
    called = checked_name(name)
    try:
        yield
    except BequestError as error:
        if called is None:
            raise
        told = f"Silo {on_one_line(called)}: {error.what}"
        raise type(error)(told, remedy=error.remedy) from error.__cause__


def check_scalar(shape: tuple[int, ...]) -> None:
    """Refuse a loss of this shape, unless it is one number.

    Raises:
        InvalidObjective: there are several, such as one per sample.
    """
    if shape:
        raise InvalidObjective(
            f"The loss returned shape {tuple(shape)}, and not one number.",
            remedy='Average it over the samples: reduction="mean" in torch, jnp.mean in JAX.',
        )


def check_pair(inputs: tuple[int, ...], targets: tuple[int, ...]) -> None:
    """Refuse inputs and targets of these shapes, unless there is one target per input.

    Raises:
        DimensionMismatch: there is not, or there are none.
    """
    if not inputs or not targets or inputs[0] != targets[0]:
        raise DimensionMismatch(
            f"There are inputs of shape {inputs} and targets of shape {targets}.",
            remedy="Pass one target per input.",
        )
    if not inputs[0]:
        raise DimensionMismatch("There are no samples.", remedy="Pass at least one.")


def check_precision(kinds: set[str], what: str) -> None:
    """Refuse parameters of several types, or of one that is too coarse or no number.

    Raises:
        InvalidObjective: they are.
    """
    if len(kinds) == 1 and next(iter(kinds)).endswith(("float32", "float64")):
        return
    named = ", ".join(sorted(kinds)) or "no"
    if len(kinds) == 1 and "float" in named:
        raise InvalidObjective(
            f"The parameters of {what} are {named}: gradients with two or three digits would move "
            "nodes that are close to each other at random.",
            remedy="Use float32 or float64: model.float() in torch, "
            "jax.tree.map(jnp.float32, params) in JAX.",
        )
    raise InvalidObjective(
        f"The parameters of {what} are of {named} type.",
        remedy="Use one floating-point type for all of them, float32 or float64.",
    )


def check_backend(backend: Backend, what: str) -> None:
    """Refuse a model that cannot be evaluated, or whose loss is no mean over its samples.

    Raises:
        InvalidObjective: it sums them up, draws at random, or fails.
        NotFinite: samples or the loss are infinite, or not numbers.
    """
    for name, values in zip(("inputs", "targets"), backend.arrays(), strict=True):
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            where = tuple(int(k) for k in np.argwhere(~np.isfinite(values))[0])
            raise NotFinite(
                f"The {name} of {what} hold {values[where]} in sample {where[0]}.",
                remedy="Remove or impute missing and infinite entries first.",
            )
    try:
        _check_labels(backend, what)
        _check_means(backend, what)
    except BequestError:
        raise
    except Exception as error:  # whatever a framework raises
        inputs, targets = backend.arrays()
        said = str(error).strip().partition("\n")[0][:200]
        raise InvalidObjective(
            f"The loss of {what} fails on inputs of shape {inputs.shape} ({inputs.dtype}) and "
            f"targets of shape {targets.shape} ({targets.dtype}): {type(error).__name__}: {said}",
            remedy="See that inputs fit the model, and targets its outputs and the loss: for "
            "classes whole numbers (int64) from 0, for numbers the shape of the outputs.",
        ) from error


def _check_labels(backend: Backend, what: str) -> None:
    """Refuse labels without a column of outputs: a loss may pass over them in silence."""
    labels = backend.arrays()[1]
    if labels.dtype.kind not in "iu" or labels.ndim != 1:
        return
    outputs = backend.output_shape(backend.start(), np.arange(min(4, backend.samples)))
    if outputs is None or len(outputs) != 2 or outputs[1] < 2:
        return
    odd = np.flatnonzero((labels < 0) | (labels >= outputs[1]))
    if odd.size:
        raise InvalidLabels(
            f"The targets of {what} hold label {labels[odd[0]]} in sample {odd[0]}, but there are "
            f"{outputs[1]} outputs: labels go from 0 to {outputs[1] - 1}.",
            remedy="Number the classes from 0, and leave out samples without a label. Pass whole "
            "numbers that are no classes, such as counts, as floating-point numbers.",
        )


def _check_means(backend: Backend, what: str) -> None:
    x = backend.start()
    rows = np.arange(min(4, backend.samples))
    together = backend.value(x, rows)
    gradient = backend.gradient(x, rows)
    everywhere = backend.value(x, None)  # a label that is no class may come late
    if not (math.isfinite(together) and np.isfinite(gradient).all() and math.isfinite(everywhere)):
        raise NotFinite(
            f"The loss of {what}, or its gradient, is not finite where the model starts."
            f"{_labels_told(backend)}",
            remedy="Look at the data, at labels that are no class of the model's (they count from "
            "0), and at the model's first parameters.",
        )
    again = backend.value(x, rows)
    apart = [backend.value(x, rows[[k]]) for k in range(rows.size)]
    mean, total = float(np.mean(apart)), float(np.sum(apart))
    rounding = 10 * backend.precision * (abs(together) + abs(total))
    if abs(again - together) > rounding:
        raise InvalidObjective(
            f"The loss of {what} is {together:.6g} and then {again:.6g} for the same samples.",
            remedy="Let it draw nothing at random (dropout, noise, augmentation): no key would "
            "choose that, and no replay could repeat it.",
        )
    slack = _SAME * (abs(mean) + 1e-12) + rounding
    if rows.size == 1 or abs(together - mean) <= slack:
        return
    if abs(together - total) <= slack * 4:
        raise InvalidObjective(
            f"The loss of {what} sums over samples: {together:.4g} for {rows.size} of them, which "
            f"alone have {mean:.4g} in the mean.",
            remedy='Average over the batch: reduction="mean" in torch, jnp.mean in JAX. Sums would '
            "make steps depend on the batch and silos count by their size.",
        )
    found = f"{together:.4g} for {rows.size} samples, which alone have {mean:.4g} in the mean"
    if shapes := _broadcast(backend, x, rows):
        raise InvalidObjective(
            f"The loss of {what} is not a mean over samples: {found}. {shapes}",
            remedy="Give both one shape: targets[:, None], or outputs[:, 0] in the loss.",
        )
    raise InvalidObjective(
        f"The loss of {what} is not a mean over samples: {found}.",
        remedy="Let no sample depend on others of its batch (batch normalisation does), and "
        "average over the batch.",
    )


def _labels_told(backend: Backend) -> str:
    """Return from where to where labels go, if targets look like labels."""
    targets = backend.arrays()[1]
    if targets.dtype.kind not in "iu":
        return ""
    return f" Its labels go from {targets.min()} to {targets.max()}."


def _broadcast(backend: Backend, x: Vector, rows: Indices) -> str:
    """Return what to say if outputs and targets hold as many numbers, but in two shapes."""
    outputs, targets = backend.output_shape(x, rows), backend.arrays()[1][rows].shape
    if outputs is None or outputs == targets or math.prod(outputs) != math.prod(targets):
        return ""
    return (
        f"Its outputs have shape {outputs} and its targets {targets}, which a loss may take for a "
        "table of all pairs."
    )
