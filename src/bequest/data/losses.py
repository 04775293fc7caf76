"""The losses of silos that hold samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from bequest.data.dealing import part_of
from bequest.errors import InvalidData
from bequest.model.objectives import Huber, LeastSquares, Logistic, Softmax
from bequest.model.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.core.arrays import Indices, Matrix, Vector
    from bequest.data.samples import Samples
    from bequest.model.objectives import Objective

Loss: TypeAlias = Literal["logistic", "softmax", "least_squares", "huber"]
CLASSIFIERS = ("logistic", "softmax")
# What counts the same: every sample, as if all silos were one table; or every silo.
Weigh: TypeAlias = Literal["samples", "silos"]


def problem_of(
    samples: Samples,
    silos: Sequence[Indices],
    *,
    loss: Loss,
    l2: float = 0.0,
    delta: float = 1.0,
    weigh: Weigh = "samples",
    names: Sequence[str] = (),
) -> Problem:
    """Return the problem in which every silo holds the loss of its own samples.

    Args:
        samples: what to learn from.
        silos: the rows of every silo, from one of ``bequest.partition``.
        loss: which loss.
        l2: weight of the penalty l2/2 |x|^2. With ``weigh="samples"`` every sample brings its
            share of it, so that a silo which is forgotten leaves the optimum of the other rows
            with the same l2; with ``"silos"`` every silo has all of it.
        delta: where a Huber loss becomes linear.
        weigh: ``"samples"``: every sample counts the same, so that the optimum is that of the
            pooled table (all losses are divided by the mean size of a silo). ``"silos"``: every
            silo counts the same, however many samples it has.
        names: what the silos are called, in records, events and wills.

    >>> from bequest.data import Table, select
    >>> from bequest.model import partition
    >>> table = Table({"age": [30, 40, 50, 60], "ill": ["no", "yes", "no", "yes"]})
    >>> samples = select(table, label="ill")
    >>> problem_of(samples, partition.iid(4, n=2, seed=0), loss="logistic", l2=0.1).n
    2
    """
    divisor = pooled_divisor([silo.size for silo in silos], weigh)
    if samples.classes and loss not in ("logistic", "softmax"):
        raise InvalidData(
            f"The labels are {len(samples.classes)} classes, and a loss of the kind {loss!r} fits "
            "numbers.",
            remedy='Choose the samples with select(..., classes=False), or use the loss "softmax".',
        )
    if loss == "logistic" and len(samples.classes) != 2:
        raise InvalidData(
            f"A logistic loss tells two classes apart, and there are {len(samples.classes)}.",
            remedy='Use the loss "softmax".',
        )
    return Problem(
        [
            loss_of(
                part_of(samples.X, rows),
                part_of(samples.y, rows),
                loss=loss,
                classes=len(samples.classes),
                l2=l2,
                delta=delta,
                divisor=divisor,
                unpenalised=samples.unpenalised,
            )
            for rows in silos
        ],
        names=names,
    )


def pooled_divisor(sizes: Sequence[float], weigh: Weigh) -> float | None:
    """Return what the losses of silos of these sizes are divided by; None for each its own."""
    if weigh not in get_args(Weigh):
        raise InvalidData(
            f"weigh is {weigh!r}.",
            remedy='Use "samples", so that every sample counts the same, or "silos".',
        )
    return float(sum(sizes)) / len(sizes) if weigh == "samples" else None


def loss_of(
    X: Matrix,
    y: Vector,
    *,
    loss: Loss,
    classes: int,
    l2: float,
    delta: float,
    divisor: float | None,
    unpenalised: Sequence[int] = (),
) -> Objective:
    """Return the loss of one silo's samples; see ``problem_of``."""
    l2 *= 1.0 if divisor is None else y.size / divisor
    if loss == "softmax":
        return Softmax(X, y, classes, l2, divisor=divisor, unpenalised=unpenalised)
    if loss == "logistic":
        return Logistic(X, y, l2, divisor=divisor, unpenalised=unpenalised)
    if loss == "huber":
        return Huber(X, y, delta, l2, divisor=divisor, unpenalised=unpenalised)
    return LeastSquares(X, y, l2, divisor=divisor, unpenalised=unpenalised)
