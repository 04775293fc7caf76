"""The states of a node, in two tables: what it does about a message, and where that takes it.

A pair that is not in ``TABLE`` is no transition: the message is dropped, with a record. ``NEXT``
holds every change of state that there is; ``diagram`` draws it for ARCHITECTURE.md.
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


class Turn(StrEnum):
    """What takes a node from one state to the next."""

    ARRANGED = "Arrange"
    PREPARED = "everything is there, and kept by the buddies"
    BEGUN = "Begin"
    STOPPED = "Halt, or the last round"
    SENT_ON = "Advance"
    DISMISSED = "Dismiss"
    EXCLUDED = "Dismiss (excluded)"
    FAILED = "its loss or will fails"


_MEMBER = (State.RUNNING, State.HALTED, State.PREPARING, State.READY)
_PRESENT = (State.OUTSIDE, *_MEMBER)
_PREPARED = (State.PREPARING, State.READY)
_ARRANGEABLE = (State.OUTSIDE, State.HALTED, *_PREPARED)

# turn -> (from which states, into which one)
_TURNS: Mapping[Turn, tuple[tuple[State, ...], State]] = {
    Turn.ARRANGED: (_ARRANGEABLE, State.PREPARING),
    Turn.PREPARED: ((State.PREPARING,), State.READY),
    Turn.BEGUN: ((State.READY,), State.RUNNING),
    Turn.STOPPED: (_MEMBER, State.HALTED),
    Turn.SENT_ON: ((State.HALTED,), State.RUNNING),
    Turn.DISMISSED: ((State.READY,), State.GONE),
    Turn.EXCLUDED: (_PRESENT, State.GONE),
    Turn.FAILED: (tuple(State), State.GONE),
}

NEXT: Mapping[tuple[State, Turn], State] = {
    (state, turn): after for turn, (before, after) in _TURNS.items() for state in before
}

# message -> (states in which it is acted upon, the node's method that does it)
_RULES: Mapping[type, tuple[tuple[State, ...], str]] = {
    m.Exchange: (_PRESENT, "_on_exchange"),
    Farewell: (_PRESENT, "_on_part"),
    m.Checkpoint: (_PRESENT, "_on_checkpoint"),
    m.Kept: ((State.PREPARING,), "_on_part"),
    m.Withdrawal: (_PRESENT, "_on_part"),
    m.Welcome: ((State.OUTSIDE, *_PREPARED), "_on_part"),
    m.Imbalance: (_MEMBER, "_on_part"),
    m.Halt: (_MEMBER, "_on_halt"),
    m.Advance: ((State.HALTED,), "_on_advance"),
    m.Arrange: (_ARRANGEABLE, "_on_arrange"),
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


def diagram() -> str:
    """Return the states and the turns between them as a Mermaid diagram.

    Turns that are possible in every state, and those that change nothing, are left out.
    """
    lines = ["stateDiagram-v2", f"    [*] --> {State.OUTSIDE}"]
    for turn, (before, after) in _TURNS.items():
        if not set(before) >= set(_PRESENT):
            lines += [f"    {state} --> {after}: {turn}" for state in before if state is not after]
    return "\n".join([*lines, f"    {State.GONE} --> [*]"])
