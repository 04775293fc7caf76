"""Everything that nodes and the steward say to each other.

Frozen, and complete: no message means anything that is not written in it. Vectors travel between
nodes only; what the steward sends and receives (the second half) holds ids and counts.

An *epoch* is a stretch of rounds with one membership. Every attempt to change the membership has
the number of the epoch that it will begin if it succeeds; a number is never used twice, so that
whatever belongs to an abandoned attempt is recognised.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, TypeAlias

from bequest.core.farewell import Farewell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bequest.core.arrays import Vector
    from bequest.core.legacy import Legacy

    Purpose: TypeAlias = Literal["join", "return", "forget"]

# The steward's address; nodes are numbered from 0.
STEWARD = -1


# --- from node to node ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """What a node tells every neighbour in a round: the vectors of its method, one after the other.

    Attributes:
        epoch: in which epoch.
        round: the round that it is needed for.
        payload: in gradient tracking x - step z and z, 2 dim numbers.

    Paper: alg:lgt.
    """

    epoch: int
    round: int
    payload: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """What a node would bequeath if it died now: a farewell without the surplus.

    Attributes:
        epoch: the epoch it is in, or the one that it is preparing.
        round: after which round.
        own: the memory of its own loss; the zero legacy if its will leaves none.
        inherited: what it has inherited, or will have with that epoch; None for as before.
    """

    epoch: int
    round: int
    own: Legacy
    inherited: Legacy | None


@dataclass(frozen=True, slots=True)
class Kept:
    """A buddy has stored the checkpoint of the epoch that is being prepared."""

    epoch: int


@dataclass(frozen=True, slots=True, eq=False)
class Withdrawal:
    """Take this legacy, which the sender once left behind, out of what you have inherited.

    Attributes:
        epoch: the epoch that begins with it.
        legacy: as it was handed over.
    """

    epoch: int
    legacy: Legacy


@dataclass(frozen=True, slots=True, eq=False)
class Welcome:
    """Where a newcomer begins: at its sponsor's iterate.

    Attributes:
        epoch: the epoch that it comes in with.
        x: the iterate.
        pace: the number that all nodes have agreed on until then, by which its will decides. It may
            have changed since the newcomer asked to come; None if it has not.
    """

    epoch: int
    x: Vector
    pace: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Imbalance:
    """What trackers hold beyond gradients after a loss, added up along a tree of the survivors.

    Attributes:
        epoch: the epoch that begins without the lost.
        surplus: the surpluses of the sender and of all nodes behind it, in sum.
        trackers: likewise the lengths of their trackers, which are zero at the optimum.
        gradients: likewise those of their gradients.
        strength: likewise the least curvature of what they minimise.
        nodes: how many they are.
        way: how far they have come since their start, in sum.
    """

    epoch: int
    surplus: Vector
    trackers: float
    gradients: float
    strength: float
    nodes: int
    way: float


# --- from the steward ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Halt:
    """Stop where you are, between two rounds, and report.

    Attributes:
        epoch: the number of the epoch that is to begin.
        current: the one that has begun last; a node that has not heard of it begins that first.
        term: which steward says so, here and in every other order: nodes do not listen to an
            earlier one any more.
    """

    epoch: int
    current: int
    term: int = 0


@dataclass(frozen=True, slots=True)
class Advance:
    """Go on to this round, the latest at which a node has stopped, and report again."""

    epoch: int
    round: int
    term: int = 0


@dataclass(frozen=True, slots=True)
class Arrange:
    """Prepare the next epoch; nothing that is prepared counts before ``Begin``.

    Attributes:
        epoch: its number.
        round: after which round it begins.
        restart: whether every tracker restarts at its own gradient (the classic way).
        members: how many nodes it will have.
        neighbours: the nodes that the receiver will talk to; None if it will not be in it.
        weights: the Metropolis weight of each of them.
        buddies: the nodes that keep the receiver's checkpoints, the preferred one first.
        wards: the nodes whose checkpoints the receiver keeps.
        heir: the node that a leaver hands over to.
        remaining: how many stay behind when it is a leaver's turn.
        farewells: the leavers that hand over to the receiver.
        adopted: the lost nodes whose checkpoints the receiver turns into legacies.
        claim: the holder from which the receiver, not a member yet, claims its own legacy.
        claimant: the node that takes its legacy out of what the receiver has inherited.
        newcomer: the node that the receiver sends its iterate to.
        sponsor: the node that sends a newcomer its first iterate.
        target_moves: whether the sum that is minimised is another one from then on.
        stays: whether the receiver cannot go although it wants to: no other node would be left.
        gives_back: whether the claimant comes back, so that what is withdrawn goes over to it and
            no tracker moves.
        sums_from: after a loss, the nodes whose surpluses, in sum, the receiver adds to its own;
            None where no node is lost.
        sums_to: the node that the sum goes to; None for the one that makes up for it.
        recalls: the lost node, if there is one, that the latter may remember by that sum: there is
            no checkpoint of it.
        incarnation: the one that this is for: how often the receiver had been there before.
    """

    epoch: int
    round: int
    restart: bool
    members: int
    neighbours: tuple[int, ...] | None = None
    weights: tuple[float, ...] = ()
    buddies: tuple[int, ...] = ()
    wards: tuple[int, ...] = ()
    heir: int | None = None
    remaining: int = 0
    farewells: tuple[int, ...] = ()
    adopted: tuple[int, ...] = ()
    claim: int | None = None
    claimant: int | None = None
    newcomer: int | None = None
    sponsor: int | None = None
    target_moves: bool = False
    stays: bool = False
    incarnation: int = 0
    term: int = 0
    gives_back: bool = False
    sums_from: tuple[int, ...] | None = None
    sums_to: int | None = None
    recalls: int | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """The epoch begins: everything that was prepared for it counts from now on.

    Attributes:
        epoch: its number.
        pace: the number that all nodes agree on, such as a step.
        until: the round after which every member stops and reports.
        roster: every member, with the original nodes in what it has inherited: what a new steward
            must know of the members that do not answer any more.
        lost: the original nodes that no node remembers, so far.
    """

    epoch: int
    pace: float
    until: int
    roster: tuple[tuple[int, tuple[int, ...]], ...]
    lost: tuple[int, ...] = ()
    term: int = 0

    @property
    def members(self) -> Iterator[int]:
        """Every member of the epoch."""
        return map(itemgetter(0), self.roster)

    @property
    def named(self) -> list[int]:
        """Every node in the roster: the members, and those that they have inherited."""
        return [*self.members, *chain.from_iterable(map(itemgetter(1), self.roster))]


@dataclass(frozen=True, slots=True)
class Dismiss:
    """The receiver may go: every member has begun the epoch that it is not in.

    Attributes:
        epoch: that epoch.
        excluded: whether the receiver was taken for lost.
        incarnation: the one that this is for: how often the receiver had been there before.
    """

    epoch: int
    excluded: bool = False
    incarnation: int = 0
    term: int = 0


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A new steward asks every node where it is."""

    term: int = 0


# --- to the steward ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Halted:
    """A node has stopped.

    Attributes:
        epoch: the epoch that is to begin; the present one if it stopped by itself at its end.
        round: after which round.
        lineage: the original nodes in what it has inherited.
        wards: the checkpoints that it holds, as (node, round, the original nodes in it).
        leaving: whether it wants to go now.
    """

    epoch: int
    round: int
    lineage: tuple[int, ...]
    wards: tuple[tuple[int, int, tuple[int, ...]], ...]
    leaving: bool


@dataclass(frozen=True, slots=True)
class Ready:
    """A node has prepared the epoch: what it takes over has been written through.

    Attributes:
        epoch: which one.
        stiffness: the largest curvature of what it will minimise.
        lineage: the original nodes in what it will have inherited.
        forgets: the original nodes that its will, it being a leaver, forgets.
        restart: whether its will makes all nodes restart.
        strength: the least curvature of what it will minimise.
        floor: the least curvature of its metric, where its method has one.
    """

    epoch: int
    stiffness: float
    lineage: tuple[int, ...]
    forgets: tuple[int, ...] = ()
    restart: bool = False
    strength: float = 0.0
    floor: float = 0.0


@dataclass(frozen=True, slots=True)
class Refused:
    """An heir that is about to leave itself asks for the epoch to be arranged anew."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Begun:
    """A node is in the new epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    """A node wants to go.

    ``incarnation`` says how often it had been there before, so that what it asked for earlier is
    not held against it.
    """

    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class Accusation:
    """A node has received what cannot be right.

    Attributes:
        epoch: the epoch that the accuser is in, or that it is to come in with.
        culprit: the node that sent it.
        why: in words.
    """

    epoch: int
    culprit: int
    why: str


@dataclass(frozen=True, slots=True)
class Situation:
    """A node's answer to a new steward.

    Attributes:
        present: the last ``Arrange`` it has begun; None before its first epoch.
        begun: the ``Begin`` that went with it.
        prepared: the ``Arrange`` that it is ready for, or None.
        newest: the highest epoch number it has heard of.
        halted: what it would report.
        host: the host it is on, as "machine/host" where hosts share machines.
        purpose: what a node that is not a member wants.
        known: a newcomer's neighbours-to-be.
        incarnation: how often it had been there before.
    """

    present: Arrange | None
    begun: Begin | None
    prepared: Arrange | None
    newest: int
    halted: Halted
    host: str
    purpose: Purpose | None = None
    known: tuple[int, ...] = ()
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """A node that is not a member wants to come in, to come back or to be forgotten.

    Attributes:
        purpose: which of them.
        host: the host it is on, as "machine/host" where hosts share machines.
        known: the nodes that it would talk to, as far as they are there.
        incarnation: how often it had been there before.
    """

    purpose: Purpose
    host: str
    known: tuple[int, ...] = ()
    incarnation: int = 0


# What only the steward may say; each of them names its term.
Order: TypeAlias = Halt | Advance | Arrange | Begin | Dismiss | Inquiry

Message: TypeAlias = (
    Exchange
    | Farewell
    | Checkpoint
    | Kept
    | Withdrawal
    | Welcome
    | Halt
    | Advance
    | Arrange
    | Begin
    | Dismiss
    | Inquiry
    | Halted
    | Ready
    | Refused
    | Begun
    | LeaveRequest
    | Accusation
    | Situation
    | Request
    | Imbalance
)

# Every kind, in the order of their numbers on the wire; only ever appended to.
KINDS: tuple[type[Message], ...] = (
    Exchange,
    Farewell,
    Checkpoint,
    Kept,
    Withdrawal,
    Welcome,
    Halt,
    Advance,
    Arrange,
    Begin,
    Dismiss,
    Inquiry,
    Halted,
    Ready,
    Refused,
    Begun,
    LeaveRequest,
    Accusation,
    Situation,
    Request,
    Imbalance,
)
