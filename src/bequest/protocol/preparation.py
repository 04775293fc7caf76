"""Preparing an epoch: what a node collects from others for it, and what it makes of that.

Nothing in a preparation counts before the epoch begins; until then it can be thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from bequest.core.arrays import frozen
from bequest.core.farewell import Farewell
from bequest.core.legacy import Legacy
from bequest.errors import InvalidEvent
from bequest.protocol import messages as m
from bequest.protocol.events import Adopted, Decided, Send, Withdrawn
from bequest.protocol.inbox import is_finite, is_sound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.arrays import Vector
    from bequest.model.wills import Bequest
    from bequest.protocol.events import Effect

Part: TypeAlias = Farewell | m.Withdrawal | m.Welcome


@dataclass(eq=False)
class Preparation:
    """The epoch that is being prepared.

    Attributes:
        arrange: what is to be prepared.
        inherited: what will be inherited.
        surplus: what will be added to the tracker.
        heard_of: all others who are there, or whom those remember.
        farewells, withdrawal, x: what has arrived of what the epoch needs of others.
        sent: whether all of it has.
        inherits: whether something is inherited that was not before.
        unkept: the buddies that have not confirmed the checkpoint yet.
    """

    arrange: m.Arrange
    inherited: Legacy
    surplus: Vector
    heard_of: frozenset[int]
    farewells: dict[int, Farewell] = field(default_factory=dict)
    withdrawal: Legacy | None = None
    x: Vector | None = None
    sent: bool = False
    inherits: bool = False
    unkept: set[int] = field(default_factory=set)

    # --- what others need, and what is needed of others ---------------------------------------

    @property
    def makes_an_heir(self) -> bool:
        """Whether it is to inherit from somebody, though it was free to leave itself."""
        arrange = self.arrange
        return bool(arrange.farewells) and arrange.heir is None and not arrange.stays

    def give(self, ident: int, x: Vector, receipt: Legacy | None) -> list[Effect]:
        """Send a newcomer the iterate, and whoever remembers this node what to forget."""
        arrange = self.arrange
        effects: list[Effect] = []
        if arrange.newcomer is not None:
            effects.append(Send((arrange.newcomer,), m.Welcome(arrange.epoch, x)))
        if arrange.claim is not None:
            if receipt is None:
                raise InvalidEvent(
                    f"Node {arrange.claim} remembers node {ident}, which has no receipt.",
                    remedy="Keep what was handed over; only whoever has it can take it back.",
                )
            effects.append(Send((arrange.claim,), m.Withdrawal(arrange.epoch, receipt)))
        return effects

    def expects(self, sender: int, part: Part) -> bool:
        """Whether it is needed, and has not arrived yet."""
        if isinstance(part, Farewell):
            return sender in self.arrange.farewells and sender not in self.farewells
        if isinstance(part, m.Withdrawal):
            return sender == self.arrange.claimant and self.withdrawal is None
        return sender == self.arrange.sponsor and self.x is None

    def take(self, sender: int, part: Part) -> bool:
        """Take in what was expected; return whether it can be right."""
        dim = self.surplus.size
        if isinstance(part, Farewell):
            sound = is_sound(part.legacy, dim) and is_finite(part.surplus, dim)
            if sound := sound and sender == part.sender and self._is_news(part.legacy):
                self.farewells[sender] = part
        elif isinstance(part, m.Withdrawal):
            held = self.inherited.lineage.keys()
            if sound := is_sound(part.legacy, dim) and part.legacy.lineage.keys() <= held:
                self.withdrawal = part.legacy
        elif sound := is_finite(part.x, dim):
            self.x = part.x
        return sound

    def _is_news(self, legacy: Legacy) -> bool:
        """Whether it is the memory of others only, and of none who is remembered already."""
        known = [self.inherited, *(farewell.legacy for farewell in self.farewells.values())]
        return self.heard_of.issuperset(legacy.lineage) and all(
            legacy.lineage.keys().isdisjoint(one.lineage) for one in known
        )

    @property
    def is_complete(self) -> bool:
        """Whether everything has arrived that the epoch needs of others."""
        arrange = self.arrange
        return (
            len(self.farewells) == len(arrange.farewells)
            and (arrange.claimant is None or self.withdrawal is not None)
            and (arrange.sponsor is None or self.x is not None)
        )

    # --- what becomes of it -------------------------------------------------------------------

    def take_over(self, wards: Mapping[int, m.Checkpoint], x: Vector) -> list[Effect]:
        """Compute what will be inherited, senders in ascending order.

        Args:
            wards: the checkpoints that the node keeps.
            x: its iterate.
        """
        arrange, inherited = self.arrange, self.inherited
        effects: list[Effect] = []
        for lost in arrange.adopted:
            kept = wards[lost]
            assert kept.inherited is not None  # noqa: S101 - a ward's checkpoint is always whole
            whole = kept.own + kept.inherited
            inherited = inherited + whole
            self.inherits |= not whole.is_zero
            effects.append(Adopted(arrange.epoch, lost, kept.round, kept.own, kept.inherited))
        for _, farewell in sorted(self.farewells.items()):
            inherited = inherited + farewell.legacy
            self.inherits |= not farewell.legacy.is_zero
            self.surplus = self.surplus + farewell.surplus
        if self.withdrawal is not None:
            claimed = self.withdrawal
            exact = inherited.blended.isdisjoint(claimed.lineage)
            inherited = inherited.without(claimed, at=x)
            assert arrange.claimant is not None  # noqa: S101 - it sent the withdrawal
            effects.append(Withdrawn(arrange.epoch, arrange.claimant, exact))
        self.inherited = inherited
        return effects

    def bequeath(
        self,
        ident: int,
        bequest: Bequest,
        *,
        title: str,
        after: int,
        x: Vector,
        z: Vector,
        g: Vector,
    ) -> list[Effect]:
        """Say farewell to the heir, and tell the steward what that means.

        Args:
            ident: who leaves.
            bequest: what its will decided.
            title: the will's.
            after: after which round it leaves.
            x: its last iterate.
            z: its tracker.
            g: the gradient of what it minimised.
        """
        arrange, inherited = self.arrange, self.inherited
        assert arrange.heir is not None  # noqa: S101 - a leaver has an heir
        forgets = {ident} if bequest.legacy is None else set()
        # The classic way takes along whatever was inherited.
        restart = bequest.handoff == "restart"
        if restart:
            forgets |= set(inherited.lineage)
            inherited = Legacy.zero(inherited.dim)
        whole = bequest.compose(inherited, x)
        farewell, blur = None, None
        effects: list[Effect] = []
        if not restart:
            surplus = z - g + self.surplus
            farewell = Farewell(ident, after, whole, surplus, arrange.epoch)
            lossless = inherited if bequest.legacy is None else bequest.legacy + inherited
            blur = None if whole.rank == lossless.rank else whole - lossless
            effects.append(Send((arrange.heir,), farewell))
        lapsed = tuple(sorted(forgets))
        lineage = tuple(inherited.lineage)
        effects.append(
            Decided(
                arrange.epoch, after, frozen(x), title, bequest, lineage, lapsed, farewell, blur
            )
        )
        effects.append(Send((m.STEWARD,), m.Ready(arrange.epoch, 0.0, (), lapsed, restart)))
        return effects

    def needy(self, present: m.Arrange | None) -> tuple[int, ...]:
        """Return the buddies that do not have what will be inherited, given the present epoch."""
        arrange = self.arrange
        if present is None or self.inherits or arrange.claimant is not None:
            return arrange.buddies
        return tuple(b for b in arrange.buddies if b not in present.buddies)

    def ready(self, stiffness: float) -> m.Ready:
        """Return what the steward has to know of a node with a loss that stiff."""
        # What was taken out of a sum may leave a little less than nothing.
        total = max(stiffness + self.inherited.curvature[1], 0.0)
        return m.Ready(self.arrange.epoch, total, tuple(self.inherited.lineage))
