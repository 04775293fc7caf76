"""What a node would leave behind if it went now: what its will decides, and its own checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest.core.arrays import frozen
from bequest.core.legacy import Legacy
from bequest.errors import InvalidWill
from bequest.model.wills import Estate, decision
from bequest.protocol.events import Checkpointed
from bequest.protocol.memory import Memory

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.model.objectives.base import Objective
    from bequest.model.wills import Bequest, Setting, Will


class Testament:
    """A node's will, to be asked whenever there is something to leave behind.

    Args:
        ident: whose it is.
        objective: its private loss.
        start: where it begins.
        will: what it bequeaths; None for nothing.
        every: how many rounds may pass between two checkpoints; None for none at all.

    Attributes:
        memory: what the node remembers of its own path, if its will needs that.
        own: the memory of its own loss in the latest checkpoint.
        own_round: the round that it is from.
    """

    def __init__(
        self, ident: int, objective: Objective, start: Vector, will: Will | None, every: int | None
    ) -> None:
        self._ident, self._objective, self._start = ident, objective, start
        self._will, self.every = will, every
        self.memory: Memory | None = None
        if will is not None and will.needs_history:
            self.memory = Memory(objective, by_gradients=will.by_gradients)
        self.own, self.own_round = Legacy.zero(start.size), 0
        self._descended: tuple[int, Vector] | None = None

    def is_due(self, after: int) -> bool:
        """Whether a multiple of the interval has been reached, or skipped, since the last one."""
        return self.every is not None and after // self.every > self.own_round // self.every

    def renew(
        self, after: int, x: Vector, z: Vector, *, members: int, setting: Setting
    ) -> Checkpointed:
        """Make another checkpoint after that round."""
        bequest = None
        if self._will is not None:
            # Who is alone has nobody to decide for; there may be others by the time it is needed.
            bequest = self.decide(after, x, z, remaining=max(members - 1, 1), setting=setting)
        legacy = None if bequest is None else bequest.legacy
        self.own = Legacy.zero(x.size) if legacy is None else legacy
        self.own_round = after
        return Checkpointed(after, bequest)

    def decide(
        self, after: int, x: Vector, z: Vector, *, remaining: int, setting: Setting
    ) -> Bequest:
        """Ask the will what would be left behind after that round, with so many remaining."""
        assert self._will is not None  # noqa: S101 - asked of those who have one
        memory = self.memory
        estate = Estate(
            node=self._ident,
            round=after,
            remaining=remaining,
            objective=self._objective,
            x=frozen(x),
            z=frozen(z),
            start=self._start,
            setting=setting,
            recent=None if memory is None else memory.chapter,
            carried=None if memory is None else memory.carried,
            by_gradients=self._will.by_gradients,
            descended=self._descended,
        )
        # Better to fail by its own account than to be accused by whoever receives it.
        bequest = decision(self._will, estate)
        if bequest.handoff == "printed":
            raise InvalidWill(
                f"The will of node {self._ident} ({self._will.title}) hands over as printed.",
                remedy="The printed correction is an ablation for the vector engine; real nodes "
                "keep the invariant.",
            )
        if "local_track" in vars(estate):  # the next decision goes on from here
            self._descended = after, estate.local_track
        return bequest
