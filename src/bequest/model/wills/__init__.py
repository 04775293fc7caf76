"""What a leaver decides to bequeath.

A will decides once, at the departure, from its estate alone: its own loss, its own path, and what
all nodes of the run know (rem:frozen).
"""

from bequest.model.wills.adaptive import Adaptive
from bequest.model.wills.base import (
    Bequest,
    Branch,
    Choice,
    Estate,
    Setting,
    Will,
    check_wills,
    will_of,
)
from bequest.model.wills.drift import Budget, Drift, FullHessian
from bequest.model.wills.guard import keeps_path
from bequest.model.wills.paper import Classic, Consensus, Forgetful, LocalTrack, PointOnly
from bequest.model.wills.probate import decision
from bequest.model.wills.replay import Replay
from bequest.model.wills.trust import Trust

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
    "check_wills",
    "decision",
    "keeps_path",
    "will_of",
]
