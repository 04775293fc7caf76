"""What a node would leave behind if it went now: what its will decides, and its own checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bequest.core.arrays import frozen
from bequest.core.legacy import Legacy
from bequest.model.pseudo_samples import can_draw
from bequest.model.wills import Estate, decision, keeps_path
from bequest.protocol.events import Checkpointed
from bequest.protocol.path_history import PathHistory

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.model.wills import Bequest, Setting, Will
    from bequest.protocol.iterate import Iterate


class WillExecutor:
    """A node's will, and the checkpoint that it last decided on.

    Args:
        ident: the node.
        iterate: its numbers.
        will: what it bequeaths; None for nothing.
        setting: what all nodes know.
        every: how many rounds may pass between two checkpoints; None for none at all.

    Attributes:
        setting: what all nodes know; its step is that of the present epoch.
        path: what the node remembers of its own path, if its will needs that.
        start: where the node began.
        own: the memory of its own loss in the latest checkpoint.
        own_round: the round that this checkpoint is from.
    """

    def __init__(
        self,
        ident: int,
        iterate: Iterate,
        will: Will | None,
        setting: Setting,
        every: int | None,
    ) -> None:
        self._ident, self._iterate, self.start = ident, iterate, iterate.x
        self.will, self.setting, self.every = will, setting, every
        self.path: PathHistory | None = None
        if will is not None and keeps_path(will, setting.mu):
            self.path = PathHistory(iterate.objective, by_gradients=will.by_gradients)
        self.own, self.own_round = Legacy.zero(iterate.x.size), 0
        self._descended: tuple[int, Vector] | None = None
        self._minimised: Vector | None = None

    @property
    def is_due(self) -> bool:
        """Whether a multiple of the interval has been reached, or skipped, since the last one."""
        every = self.every
        return every is not None and self._iterate.round // every > self.own_round // every

    def accepts(self, legacy: Legacy) -> bool:
        """Whether the node may and can take this over: samples only if all nodes agreed on them."""
        loss, dim = self._iterate.objective, self.start.size
        return not legacy.samples or (
            self.setting.statistics and all(can_draw(part, loss, dim) for part in legacy.samples)
        )

    def go_by(self, pace: float | None) -> None:
        """Decide by that pace from now on, if there is one."""
        if pace is not None:
            step = self._iterate.method.own_step(pace, self._iterate.objective.curvature.b)
            if step != self.setting.step:
                self.setting = replace(self.setting, step=step)

    def renew(self, members: int) -> Checkpointed:
        """Make another checkpoint, in an epoch of so many members."""
        bequest = None
        if self.will is not None:
            # A node that is alone has no others to decide for; they may come before it is needed.
            bequest = self.decide(max(members - 1, 1))
        legacy = None if bequest is None else bequest.legacy
        self.own = Legacy.zero(self.start.size) if legacy is None else legacy
        self.own_round = self._iterate.round
        return Checkpointed(self.own_round, bequest)

    def decide(self, remaining: int) -> Bequest:
        """Ask the will what the node would leave behind now, with so many remaining."""
        assert self.will is not None  # noqa: S101 - asked of nodes that have one
        iterate, path = self._iterate, self.path
        estate = Estate(
            node=self._ident,
            round=iterate.round,
            remaining=remaining,
            objective=iterate.objective.convexified,
            x=frozen(iterate.x),
            z=frozen(iterate.tracked),
            start=self.start,
            setting=self.setting,
            recent=None if path is None else path.recent,
            carried=None if path is None else path.carried,
            by_gradients=self.will.by_gradients,
            descended=self._descended,
            minimised=self._minimised,
        )
        # A node that leaves nonsense fails here, instead of being accused by its heir.
        bequest = decision(self.will, estate)
        if "local_track" in vars(estate):  # the next decision goes on from here
            self._descended = iterate.round, estate.local_track
        if "own_minimiser" in vars(estate):  # it is there to stay
            self._minimised = estate.own_minimiser
        return bequest
