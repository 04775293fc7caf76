"""How well a model classifies samples whose classes are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from bequest.core.arrays import refuse_masked
from bequest.errors import InvalidData, NotFinite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.arrays import Indices, Matrix, Vector


@dataclass(frozen=True, slots=True)
class Score:
    """How a model did: the share of samples it classified right, overall and class by class.

    The recall of a class without samples is None.
    """

    accuracy: float
    recall: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Exam:
    """Samples with known classes, to grade a model on.

    Attributes:
        X: the features, as the model was trained on.
        y: the classes, numbered from 0.
        classes: their names.
        on: whether the model has seen these samples (``"training"``) or not (``"test"``).
    """

    X: Matrix
    y: Indices
    classes: tuple[str, ...]
    on: Literal["test", "training"]

    def __post_init__(self) -> None:
        refuse_masked(self.X, "X", InvalidData)
        refuse_masked(self.y, "y", InvalidData)

    def __repr__(self) -> str:
        """Return the shapes of its arrays, and not what is in them."""
        classes = len(self.classes)
        return f"Exam(X {self.X.shape}, y {self.y.shape}, classes={classes}, on={self.on!r})"

    def predict(self, x: Vector) -> Indices:
        """Return the class of every sample, for the parameters of a Logistic or a Softmax.

        >>> Exam(np.eye(2), np.array([0, 1]), ("no", "yes"), "test").predict(np.array([-1.0, 2.0]))
        array([0, 1])
        """
        refuse_masked(x, "x", InvalidData)
        features = self.X.shape[1]
        if x.shape == (features,):
            return (self.X @ x > 0).astype(np.intp)
        if x.shape != (len(self.classes) * features,):
            raise InvalidData(
                f"A model with {x.size} parameters cannot classify samples with {features} "
                f"features into {len(self.classes)} classes.",
                remedy="Pass the parameters of a Logistic or a Softmax over these features.",
            )
        scores = self.X @ x.reshape(len(self.classes), features).T
        predicted: Indices = scores.argmax(axis=1)
        return predicted

    def score(self, x: Vector) -> Score:
        """Return the accuracy and the recalls of these parameters.

        Raises:
            NotFinite: they are not all numbers, so that no class is right.
        """
        if not np.isfinite(np.asarray(x, dtype=float)).all():
            raise NotFinite(
                "The parameters hold NaN or infinite entries.",
                remedy="Grade a run that did not diverge: see run.status.",
            )
        right = self.predict(x) == self.y
        recall = {
            name: float(right[self.y == number].mean()) if (self.y == number).any() else None
            for number, name in enumerate(self.classes)
        }
        return Score(float(right.mean()), recall)
