"""The methods: how nodes iterate. One state and one hand-off carry all of them."""

from bequest.core.methods.base import Conditions, Local, Method
from bequest.core.methods.decaying import Decaying
from bequest.core.methods.momentum import Momentum
from bequest.core.methods.plain import DGD
from bequest.core.methods.primal_dual import ADMM, EXTRA, NIDS, ExactDiffusion
from bequest.core.methods.tracking import DIGing, GradientTracking

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
]
