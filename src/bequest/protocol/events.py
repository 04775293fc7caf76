"""What goes into a state machine and what comes out of it.

``handle(event) -> effects`` is the only way in which a node or the steward changes. An effect is
a wish (send this) or a fact worth recording; carrying it out is the engine's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.arrays import Vector
    from bequest.core.farewell import Farewell
    from bequest.core.legacy import Legacy
    from bequest.core.steps import StepChoice
    from bequest.model.wills import Bequest
    from bequest.protocol.messages import Message, Purpose


# --- events --------------------------------------------------------------------------------


class Received(NamedTuple):
    """A message has arrived."""

    sender: int
    message: Message


@dataclass(frozen=True, slots=True)
class Leave:
    """The node is to go after that round, or as soon as it can."""

    after: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """The engine's verdict: that process is gone, and will not come back by itself.

    ``incarnation`` says which one: how often that node had been there before.
    """

    node: int
    why: str = "its process is gone"
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class Apply:
    """The node comes from outside: it asks the steward, or asks another steward once more."""


@dataclass(frozen=True, slots=True, eq=False)
class Receipt:
    """What the network remembers of the node has become known; it can now take that back.

    It replaces what was known before: the network may have gone back to another memory.
    """

    legacy: Legacy


@dataclass(frozen=True, slots=True, eq=False)
class OptimumMoved:
    """In a study whose wills know x*: it is this one from now on."""

    optimum: Vector


@dataclass(frozen=True, slots=True)
class FoundNetwork:
    """The steward founds the network with the nodes of its charter."""


@dataclass(frozen=True, slots=True)
class TakeOver:
    """The steward succeeds one that was lost.

    Attributes:
        processes: node -> the incarnation that is running.
    """

    processes: Mapping[int, int]


# What comes from outside in the course of a run; a journal holds these.
Input: TypeAlias = Received | Leave | Lost
# What the process around a node or a steward says to it; it follows from the plan and the events.
Instruction: TypeAlias = Apply | Receipt | OptimumMoved | FoundNetwork | TakeOver


# --- effects -------------------------------------------------------------------------------


class Send(NamedTuple):
    """Deliver the message to each of them, in any order."""

    to: tuple[int, ...]
    message: Message


class Completed(NamedTuple):
    """A node has completed a round, and this is its state after it."""

    round: int
    x: Vector
    z: Vector
    g: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Began:
    """A node has begun an epoch, and this is its state at its beginning."""

    epoch: int
    round: int
    x: Vector
    z: Vector
    g: Vector


@dataclass(frozen=True, slots=True, eq=False)
class Checkpointed:
    """What a node's will decided for its latest checkpoint; None without a will."""

    round: int
    bequest: Bequest | None


@dataclass(frozen=True, slots=True)
class Dropped:
    """A message was recognised as not to be acted upon."""

    sender: int
    kind: str
    why: str


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """What a leaver hands over, if the epoch that it prepares for begins.

    Attributes:
        epoch: the epoch that will begin without it.
        round: after which round it leaves.
        x: its last iterate.
        will: its will's title.
        bequest: what the will decided.
        passed_on: the original nodes in the inherited quadratic that it hands over.
        forgets: the original nodes that no node will remember then.
        farewell: what it sends; None if nothing.
        blur: what compressing the message changed; None where it goes as it is.
    """

    epoch: int
    round: int
    x: Vector
    will: str
    bequest: Bequest
    passed_on: tuple[int, ...]
    forgets: tuple[int, ...]
    farewell: Farewell | None
    blur: Legacy | None


@dataclass(frozen=True, slots=True, eq=False)
class Adopted:
    """What a buddy adopts of a lost node, if the epoch that it prepares for begins.

    Together with ``Decided`` these are the receipts: to come back, or to be forgotten, means to
    present what was handed over. They belong to the owner of the data.

    Attributes:
        epoch: the epoch that will begin with it.
        node: the lost node.
        round: the round that its checkpoint is from.
        own: the memory of its loss.
        inherited: what it had inherited.
    """

    epoch: int
    node: int
    round: int
    own: Legacy
    inherited: Legacy


@dataclass(frozen=True, slots=True, eq=False)
class Recalled:
    """What is remembered of a lost node without a checkpoint, if the epoch begins.

    Attributes:
        epoch: the epoch that will begin with it.
        node: the lost node.
        legacy: what all others lack without it; None where that is not to be trusted.
    """

    epoch: int
    node: int
    legacy: Legacy | None


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """What a holder takes out of what it has inherited, if the epoch that it prepares for begins.

    Attributes:
        epoch: the epoch that will begin without it.
        node: whose memory it is.
        exact: whether nothing of it is left behind.
    """

    epoch: int
    node: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """A node cannot go on; to all others it is lost."""

    why: str


@dataclass(frozen=True, slots=True)
class Handover:
    """One leaver of a change: its heir, and how the network closes ranks."""

    node: int
    heir: int
    bridges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Adoption:
    """One lost node of a change, and the node that adopts its checkpoint, if one can.

    Attributes:
        node: the lost node.
        adopter: the buddy that adopts, or the node that may recall; None if there is neither.
        lost: the original nodes that no node remembers any more.
        bridges: edges added to keep the network connected.
    """

    node: int
    adopter: int | None
    lost: tuple[int, ...]
    bridges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A node that comes in, comes back or is forgotten."""

    purpose: Purpose
    node: int
    holder: int | None
    sponsor: int | None
    neighbours: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """The steward has decided: a new epoch begins.

    Attributes:
        epoch: its number.
        round: after which round it begins.
        restart: whether trackers restart.
        members: the nodes in it, ascending.
        handovers: the leavers.
        adoptions: the lost nodes.
        arrival: the node that came.
        step: the step of all nodes from now on, if it changed.
        lost: the original nodes that no node remembers.
        incarnations: which incarnation each of the members is, in the same order.
        follows: the number of the epoch before it. It need not be the latest one: where all nodes
            that have begun later ones are lost, those did not happen.
    """

    epoch: int
    round: int
    restart: bool
    members: tuple[int, ...]
    handovers: tuple[Handover, ...]
    adoptions: tuple[Adoption, ...]
    arrival: Arrival | None
    step: StepChoice | None
    lost: tuple[int, ...]
    incarnations: tuple[int, ...] = ()
    follows: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """All nodes have stopped after the last round, and nothing is left to do."""

    round: int


Effect: TypeAlias = (
    Send
    | Completed
    | Began
    | Checkpointed
    | Dropped
    | Decided
    | Adopted
    | Recalled
    | Withdrawn
    | Failed
    | Committed
    | Finished
)
