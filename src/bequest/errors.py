"""Everything that can go wrong, as one tree.

Every error says what happened and where, and its ``remedy`` says what to do about it::

    BequestError
    ├── InvalidInput (also a ValueError): nothing was computed
    │   ├── InvalidObjective        a loss that is not what it claims to be
    │   │   ├── NotFinite           NaN or infinite data
    │   │   ├── DimensionMismatch   arrays whose shapes do not fit together
    │   │   ├── InvalidLabels       class labels out of range
    │   │   ├── NotSymmetric        a Hessian that is not symmetric
    │   │   ├── NotConvex           a loss that bends down, and was not declared to
    │   │   └── GradientMismatch    a gradient that is not the derivative of its value
    │   ├── InvalidGraph            edges that do not describe a network of these nodes
    │   │   └── DisconnectedGraph   some nodes cannot hear each other
    │   ├── InvalidEvent            a change of membership that cannot happen
    │   │   ├── UnknownNode         names a node that does not exist
    │   │   ├── NotThere            of a node that has not joined yet
    │   │   ├── StillHere           returns, joins or is forgotten while it is there
    │   │   ├── LeavesTwice         a node leaves that has already left
    │   │   ├── JoinsTwice          a node joins that has been there before
    │   │   ├── ForgottenTwice      a node is forgotten that is forgotten already
    │   │   ├── EverybodyLeaves     no node would be left to remember
    │   │   └── OutsideTheRun       happens before the first or after the last round
    │   ├── InvalidWill             a will that cannot be executed in this run
    │   ├── InvalidMethod           a step or a number of rounds that makes no sense
    │   ├── InvalidPlacement        nodes on hosts that are not there or have no room, or no host
    │   ├── InvalidData             a table that cannot be read, or cannot be split into silos
    │   ├── InvalidRunFile          a TOML file that cannot be read or understood
    │   ├── InvalidResult           a result file that cannot be used
    │   ├── InvalidLog              a log that cannot be used, or breaks off
    │   └── CannotWrite             a place where results cannot be written
    ├── NotInstalled                an optional package that is needed (also an ImportError)
    ├── MalformedMessage            bytes that are not a message
    │   ├── UnsupportedVersion      a message in another version of the format
    │   └── MessageTooLarge         a message that takes more memory than it may
    ├── ClusterFailed               a cluster that cannot begin or go on with a run
    │   ├── NoCluster               nothing answers at that address
    │   └── CannotLoad              a node's data that cannot be loaded on its host
    ├── OptimumUnknown              the minimiser does not exist or was not found
    ├── ReplayDiffers               a replay that leads to another state than its run
    ├── Stalled                     a network of nodes that wait for each other; a defect
    └── Diverged                    raised by ``Run.raise_for_status`` only
"""

from __future__ import annotations


class BequestError(Exception):
    """Base of every error raised on purpose; ``remedy`` says what to do about it."""

    def __init__(self, what: str, *, remedy: str) -> None:
        super().__init__(what, remedy)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling of exceptions.
        return (_rebuild, (type(self), self.what, self.remedy))


def _rebuild(kind: type[BequestError], what: str, remedy: str) -> BequestError:
    return kind(what, remedy=remedy)


class InvalidInput(BequestError, ValueError):
    """The input was refused before anything was computed."""


class InvalidObjective(InvalidInput):
    """A loss that is not what it claims to be."""


class NotFinite(InvalidObjective):
    """NaN or infinite data, or data so large or small that their squares are."""


class DimensionMismatch(InvalidObjective):
    """Arrays whose shapes do not fit together."""


class InvalidLabels(InvalidObjective):
    """Class labels out of range."""


class NotSymmetric(InvalidObjective):
    """A Hessian that is not symmetric."""


class NotConvex(InvalidObjective):
    """A loss that bends down, and was not declared to (``curvature=(a, b)`` with a below zero)."""


class GradientMismatch(InvalidObjective):
    """A gradient that is not the derivative of its value."""


class InvalidGraph(InvalidInput):
    """Edges that do not describe a network of these nodes."""


class DisconnectedGraph(InvalidGraph):
    """Some nodes cannot hear each other, directly or through others."""


class InvalidEvent(InvalidInput):
    """A change of membership that cannot happen."""


class UnknownNode(InvalidEvent):
    """An event names a node that does not exist."""


class NotThere(InvalidEvent):
    """An event of a node that has not joined yet."""


class StillHere(InvalidEvent):
    """A node returns, joins or is forgotten while it is there."""


class LeavesTwice(InvalidEvent):
    """A node leaves that has already left, without returning in between."""


class JoinsTwice(InvalidEvent):
    """A node joins that has been there before; it can only return."""


class ForgottenTwice(InvalidEvent):
    """A node is forgotten that is forgotten already."""


class EverybodyLeaves(InvalidEvent):
    """No node would be left to remember the others."""


class OutsideTheRun(InvalidEvent):
    """An event happens before the first or after the last round."""


class InvalidWill(InvalidInput):
    """A will that cannot be executed in this run."""


class InvalidMethod(InvalidInput):
    """A step or a number of rounds that makes no sense."""


class InvalidPlacement(InvalidInput):
    """Nodes on hosts that are not there or have no room for them, or on no host at all."""


class InvalidData(InvalidInput):
    """A table that cannot be read, or cannot be split into silos."""


class InvalidRunFile(InvalidInput):
    """A TOML file that cannot be read or understood."""


class InvalidResult(InvalidInput):
    """A result file that cannot be used."""


class InvalidLog(InvalidInput):
    """A log that cannot be used, or that breaks off before the end of its run."""


class CannotWrite(InvalidInput):
    """A place where results cannot be written."""


class NotInstalled(BequestError, ImportError):
    """An optional package that is needed here; also an ImportError."""


class MalformedMessage(BequestError):
    """Bytes that are not a message, or a message that makes no sense to any node."""


class UnsupportedVersion(MalformedMessage):
    """A message in another version of the format than ours."""


class MessageTooLarge(MalformedMessage):
    """A message that takes, or could take, more memory than it may."""


class ClusterFailed(BequestError):
    """A cluster that cannot begin a run, or cannot go on with it."""


class NoCluster(ClusterFailed):
    """Nothing answers at the address of a cluster."""


class CannotLoad(ClusterFailed):
    """The data of a node cannot be loaded on its host."""


class OptimumUnknown(BequestError):
    """The minimiser does not exist, or was not found to the promised accuracy."""


class Diverged(BequestError):
    """Iterates left every bounded region, or all nodes failed; by ``Run.raise_for_status`` only."""


class ReplayDiffers(BequestError):
    """A replay that leads to another state than its run did."""


class Stalled(BequestError):
    """Nodes wait for each other and nothing is under way: a defect; says what a node did last."""
