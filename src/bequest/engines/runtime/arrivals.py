"""Nodes that join or return are let in one after the other.

Every process has to know where a node is before the node speaks, so a carrier carries out one
command at a time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from bequest.engines.runtime.supervisor import Relocate, StartNode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bequest.engines.runtime.supervisor import Command, Supervisor


class Arrivals:
    """The supervisor's commands about nodes that arrive, in its order.

    Carry out ``next``, then say how it ended (``moved``, ``answered`` or ``host_died``): it makes
    room for the command after it.

    Args:
        supervisor: hears of the nodes that run, and of those that cannot.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._commands: deque[Relocate | StartNode] = deque()

    def put(self, command: Relocate | StartNode) -> bool:
        """Add a command; return whether it is the only one, so that the carrier has to begin."""
        self._commands.append(command)
        return len(self._commands) == 1

    @property
    def next(self) -> Relocate | StartNode | None:
        """What has to be carried out now."""
        return self._commands[0] if self._commands else None

    def moved(self) -> None:
        """Hear that every process knows where the node is."""
        self._commands.popleft()

    def answered(self, why: str | None) -> Sequence[Command]:
        """Hear that the node runs, or why its loss cannot be made ready."""
        setup = self._pop().setup
        if why is None:
            return self._supervisor.started(setup)
        return self._supervisor.refused(setup, why)

    def host_died(self) -> Sequence[Command]:
        """Hear that the host died before it answered."""
        return self._supervisor.retry(self._pop().setup)

    def _pop(self) -> StartNode:
        command = self._commands.popleft()
        assert isinstance(command, StartNode)  # noqa: S101 - hosts answer to nothing else
        return command
