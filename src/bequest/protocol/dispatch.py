"""Which messages a node listens to, and what it does with those that it cannot use.

Every message is acted upon, put off until its time has come, or dropped with a record. A node that
sends what cannot be right is accused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest.protocol import messages as m
from bequest.protocol.events import Dropped, Received, Send
from bequest.protocol.scrutiny import is_order
from bequest.protocol.states import FOR_THE_STEWARD, NEXT, ORDERS, TABLE, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.protocol.events import Effect
    from bequest.protocol.states import Turn


class Dispatcher:
    """The part of a node that does not depend on what messages are about.

    Args:
        ident: its number.

    Attributes:
        ident: its number.
        state: where it is in the protocol.
        epoch: the epoch it is in; 0 before its first.
    """

    def __init__(self, ident: int) -> None:
        self.ident = ident
        self.state = State.OUTSIDE
        self.epoch = 0
        # The latest attempt at a change, and the latest steward, that it has heard of.
        self._attempt = self._term = 0
        self._early: list[Received] = []
        self._actions: dict[State, dict[type[m.Message], Callable[..., list[Effect]]]] = {
            state: {} for state in State
        }
        for (state, kind), name in TABLE.items():
            self._actions[state][kind] = getattr(self, name)

    def _turn(self, turn: Turn) -> None:
        """Go to the next state."""
        self.state = NEXT[self.state, turn]

    def _receive(self, event: Received) -> list[Effect]:
        sender, message = event
        kind = type(message)
        if sender >= 0:
            if kind in ORDERS:
                return self._blame(event, "only the steward may say that")
        elif sender == m.STEWARD:
            if not isinstance(message, m.Order):
                return self._drop(event, "the steward does not say that")
            if not is_order(message, self.ident):
                return self._drop(event, "an order that cannot be right")
            if message.term < self._term:
                return self._drop(event, "of an earlier steward")
            self._term = message.term
        else:
            return self._drop(event, "no node has that number")
        act = self._actions[self.state].get(kind)
        if act is not None:
            return act(sender, message)
        if isinstance(message, FOR_THE_STEWARD):
            return self._blame(event, "only the steward may be told that")
        return self._drop(event, f"not expected when {self.state}")

    def _untimely(self, sender: int, message: m.Message, early: bool) -> list[Effect]:  # noqa: FBT001
        """Keep what is early until its time has come; drop what is late."""
        if early:
            self._early.append(Received(sender, message))
            return []
        return self._drop(Received(sender, message), "late: of an epoch or attempt that is over")

    def _catch_up(self) -> list[Effect]:
        """Look again at what came too early."""
        early, self._early = self._early, []
        return [effect for event in early for effect in self._receive(event)]

    def _drop(self, event: Received, why: str) -> list[Effect]:
        return [Dropped(event.sender, type(event.message).__name__, why)]

    def _blame(self, event: Received, why: str) -> list[Effect]:
        what = f"{type(event.message).__name__}: {why}"
        # A node that has not begun any epoch names the one that it is to come in with.
        accusation = m.Accusation(self.epoch or self._attempt, event.sender, what)
        return [*self._drop(event, why), *self._tell(accusation)]

    def _tell(self, message: m.Message) -> list[Effect]:
        return [Send((m.STEWARD,), message)]
