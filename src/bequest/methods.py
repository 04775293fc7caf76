"""How nodes iterate: ``bequest.methods``.

The methods to choose from, and what a method of your own is made of. They live in
``bequest.core.methods``.
"""

from bequest.core.methods import (
    ADMM,
    DGD,
    EXTRA,
    NIDS,
    Conditions,
    Decaying,
    DIGing,
    ExactDiffusion,
    GradientTracking,
    Local,
    Method,
    Momentum,
)
from bequest.core.steps import StepChoice

__all__ = [
    "ADMM",
    "DGD",
    "EXTRA",
    "NIDS",
    "Conditions",
    "DIGing",
    "Decaying",
    "ExactDiffusion",
    "GradientTracking",
    "Local",
    "Method",
    "Momentum",
    "StepChoice",
]
