"""The losses that nodes hold."""

from bequest.model.objectives.base import Objective, Stack
from bequest.model.objectives.function import Function
from bequest.model.objectives.linear import Huber, LeastSquares, Logistic
from bequest.model.objectives.loaded import Loaded
from bequest.model.objectives.minibatches import Minibatches, SampleKey
from bequest.model.objectives.quadratic import Quadratic
from bequest.model.objectives.softmax import Softmax

__all__ = [
    "Function",
    "Huber",
    "LeastSquares",
    "Loaded",
    "Logistic",
    "Minibatches",
    "Objective",
    "Quadratic",
    "SampleKey",
    "Softmax",
    "Stack",
]
