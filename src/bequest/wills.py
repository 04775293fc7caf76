"""What a leaver decides to bequeath: ``bequest.wills``.

The wills to choose from, and what a will of your own is made of. They live in
``bequest.model.wills``.
"""

from bequest.model.wills import (
    Adaptive,
    Bequest,
    Branch,
    Budget,
    Choice,
    Classic,
    Consensus,
    Drift,
    Estate,
    Forgetful,
    FullHessian,
    LocalTrack,
    PointOnly,
    Replay,
    Setting,
    Trust,
    Will,
)

__all__ = [
    "Adaptive",
    "Bequest",
    "Branch",
    "Budget",
    "Choice",
    "Classic",
    "Consensus",
    "Drift",
    "Estate",
    "Forgetful",
    "FullHessian",
    "LocalTrack",
    "PointOnly",
    "Replay",
    "Setting",
    "Trust",
    "Will",
]
