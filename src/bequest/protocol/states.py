"""The states of a node and, in one table, what it does about every message in each of them.

::

              Arrange            Begin                 until, Halt
    OUTSIDE ----------> PREPARING ... READY ----------> RUNNING ----------> HALTED
                            ^                              ^  Advance        |
                            |                              +-----------------+
                            +------------------------------------------------+ Arrange
    READY --- Dismiss ---> GONE        any --- Dismiss(excluded), failure ---> GONE
    PREPARING, READY --- Halt (the attempt is abandoned) ---> HALTED

A pair that is not in the table is no transition: the message is dropped, with a record.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, get_args

from bequest.core.farewell import Farewell
from bequest.protocol import messages as m

if TYPE_CHECKING:
    from collections.abc import Mapping


class State(StrEnum):
    """Where a node is.

    OUTSIDE: not in any epoch (yet).
    RUNNING: in a round, waiting for its neighbours.
    HALTED: it has stopped after a round and has reported.
    PREPARING: collecting what it needs for the next epoch, and writing it through.
    READY: prepared; waits for the epoch to begin, or to be dismissed.
    GONE: it has left, was taken for lost, or has failed.
    """

    OUTSIDE = "outside"
    RUNNING = "running"
    HALTED = "halted"
    PREPARING = "preparing"
    READY = "ready"
    GONE = "gone"


_MEMBER = (State.RUNNING, State.HALTED, State.PREPARING, State.READY)
_PRESENT = (State.OUTSIDE, *_MEMBER)
_PREPARED = (State.PREPARING, State.READY)

# message -> (states in which it is acted upon, the node's method that does it)
_RULES: Mapping[type, tuple[tuple[State, ...], str]] = {
    m.Exchange: (_PRESENT, "_on_exchange"),
    Farewell: (_PRESENT, "_on_part"),
    m.Checkpoint: (_PRESENT, "_on_checkpoint"),
    m.Kept: ((State.PREPARING,), "_on_kept"),
    m.Withdrawal: (_PRESENT, "_on_part"),
    m.Welcome: ((State.OUTSIDE, *_PREPARED), "_on_part"),
    m.Halt: (_MEMBER, "_on_halt"),
    m.Advance: ((State.HALTED,), "_on_advance"),
    m.Arrange: ((State.OUTSIDE, State.HALTED, *_PREPARED), "_on_arrange"),
    m.Begin: ((State.READY,), "_on_begin"),
    m.Dismiss: (_PRESENT, "_on_dismiss"),
    m.Inquiry: (_PRESENT, "_on_inquiry"),
}

TABLE: Mapping[tuple[State, type], str] = {
    (state, kind): method for kind, (states, method) in _RULES.items() for state in states
}

# What only the steward may say.
ORDERS: frozenset[type] = frozenset(get_args(m.Order))

# What only the steward may be told; a node that receives it knows that the sender is broken.
FOR_THE_STEWARD: tuple[type, ...] = (
    m.Halted,
    m.Ready,
    m.Refused,
    m.Begun,
    m.LeaveRequest,
    m.Accusation,
    m.Situation,
    m.Request,
)
