"""Preparing an epoch: what a node collects from others for it, and what it makes of that.

Nothing in a preparation counts before the epoch begins; until then it can be thrown away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from bequest.core.arrays import frozen
from bequest.core.farewell import Farewell
from bequest.core.legacy import Legacy
from bequest.core.recall import Balance
from bequest.errors import InvalidEvent
from bequest.protocol import messages as m
from bequest.protocol.events import Adopted, Decided, Recalled, Send, Withdrawn
from bequest.protocol.scrutiny import is_finite, is_imbalance, is_sound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.arrays import Vector
    from bequest.protocol.events import Effect
    from bequest.protocol.iterate import Iterate
    from bequest.protocol.place import Place
    from bequest.protocol.will_executor import WillExecutor

Part: TypeAlias = Farewell | m.Withdrawal | m.Welcome | m.Imbalance | m.Kept


class Preparation:
    """The epoch that is being prepared.

    Args:
        ident: the node.
        arrange: what it is to prepare.
        iterate: its numbers.
        executor: its will.
        wards: the checkpoints that it keeps.
        place: its place in the present epoch; None for a newcomer.

    Attributes:
        arrange: what is to be prepared.
        inherited: what the node will remember of others.
        surplus: what will be added to its tracker.
        farewells: what has arrived from leavers.
        inherits: whether something is inherited that was not before.
        is_done: whether the steward has been told that the node is ready.
    """

    def __init__(
        self,
        ident: int,
        arrange: m.Arrange,
        iterate: Iterate,
        executor: WillExecutor,
        wards: Mapping[int, m.Checkpoint],
        place: Place | None,
    ) -> None:
        self._ident, self.arrange = ident, arrange
        self._iterate, self._executor, self._wards, self._place = iterate, executor, wards, place
        self.inherited = iterate.inherited
        self.surplus: Vector = np.zeros_like(iterate.x)
        self.farewells: dict[int, Farewell] = {}
        self._withdrawal: Legacy | None = None
        # What others hold of a node that comes back, and takes it over with its gradient.
        self._returned: Legacy | None = None
        self._sums: dict[int, m.Imbalance] = {}
        self._x: Vector | None = None
        self._is_complete = self.inherits = self.is_done = False
        # The buddies that have not confirmed the checkpoint yet.
        self._unkept: set[int] = set()

    # --- what others need, and what is needed of others ---------------------------------------

    @property
    def makes_an_heir(self) -> bool:
        """Whether the node is to inherit, though it was free to leave itself."""
        arrange = self.arrange
        return bool(arrange.farewells) and arrange.heir is None and not arrange.stays

    def give(self, receipt: Legacy | None) -> list[Effect]:
        """Send a newcomer the iterate, and the holder of this node's memory what to forget."""
        arrange = self.arrange
        effects: list[Effect] = []
        if arrange.newcomer is not None:
            welcome = m.Welcome(arrange.epoch, self._iterate.x, self._iterate.pace)
            effects.append(Send((arrange.newcomer,), welcome))
        if arrange.claim is not None:
            if receipt is None:
                raise InvalidEvent(
                    f"Node {arrange.claim} remembers node {self._ident}, which has no receipt.",
                    remedy="Keep what was handed over: the receipt is needed to take it back.",
                )
            effects.append(Send((arrange.claim,), m.Withdrawal(arrange.epoch, receipt)))
            self._returned = receipt if arrange.gives_back else None
        return effects

    def expects(self, sender: int, part: Part) -> bool:
        """Whether it is needed, and has not arrived yet."""
        match part:
            case Farewell():
                return sender in self.arrange.farewells and sender not in self.farewells
            case m.Withdrawal():
                return sender == self.arrange.claimant and self._withdrawal is None
            case m.Welcome():
                return sender == self.arrange.sponsor and self._x is None
            case m.Imbalance():
                return sender in (self.arrange.sums_from or ()) and sender not in self._sums
            case _:  # a buddy has kept the checkpoint
                return sender in self._unkept

    def take(self, sender: int, part: Part) -> bool:
        """Take in what was expected; return whether it can be right."""
        dim = self.surplus.size
        match part:
            case Farewell():
                sound = self._is_sound(part.legacy) and is_finite(part.surplus, dim)
                if sound := sound and sender == part.sender and self._is_news(part.legacy):
                    self.farewells[sender] = part
            case m.Withdrawal():
                held = self.inherited.lineage.keys()
                if sound := self._is_sound(part.legacy) and part.legacy.lineage.keys() <= held:
                    self._withdrawal = part.legacy
            case m.Welcome():
                if sound := is_finite(part.x, dim) and (part.pace is None or part.pace > 0):
                    self._x = part.x
                    self._executor.go_by(part.pace)
            case m.Imbalance():
                if sound := is_imbalance(part, dim):
                    self._sums[sender] = part
            case _:
                self._unkept.discard(sender)
                sound = True
        return sound

    def _is_sound(self, legacy: Legacy) -> bool:
        """Whether it can be a memory, and one that this node can evaluate."""
        return is_sound(legacy, self.surplus.size) and self._executor.accepts(legacy)

    def _is_news(self, legacy: Legacy) -> bool:
        """Whether it is the memory of others only, and of none that is remembered already."""
        known = [self.inherited, *(farewell.legacy for farewell in self.farewells.values())]
        others = frozenset() if self._place is None else self._place.others
        return others.issuperset(legacy.lineage) and all(
            legacy.lineage.keys().isdisjoint(one.lineage) for one in known
        )

    # --- what becomes of it -------------------------------------------------------------------

    def proceed(self) -> list[Effect]:
        """Go on as far as what has arrived allows."""
        if self._is_complete:
            return self._finish()
        arrange = self.arrange
        self._is_complete = (
            len(self.farewells) == len(arrange.farewells)
            and (arrange.claimant is None or self._withdrawal is not None)
            and (arrange.sponsor is None or self._x is not None)
            and len(self._sums) == len(arrange.sums_from or ())
        )
        if not self._is_complete:
            return []
        effects = self.take_over()
        if arrange.heir is not None:
            return effects + self._bequeath(arrange.heir)
        if arrange.neighbours is not None:
            effects += self._write_through()
        return effects + self._finish()

    def take_over(self) -> list[Effect]:
        """Compute what will be inherited, senders in ascending order."""
        arrange, inherited = self.arrange, self.inherited
        effects: list[Effect] = []
        for lost in arrange.adopted:
            kept = self._wards[lost]
            assert kept.inherited is not None  # noqa: S101 - a ward's checkpoint is always whole
            whole = self._iterate.drawn(kept.own + kept.inherited)
            inherited = inherited + whole
            self.inherits |= not whole.is_zero
            effects.append(Adopted(arrange.epoch, lost, kept.round, kept.own, kept.inherited))
        for _, farewell in sorted(self.farewells.items()):
            inherited = inherited + self._iterate.drawn(farewell.legacy)
            self.inherits |= not farewell.legacy.is_zero
            self.surplus = self.surplus + farewell.surplus
        if self._withdrawal is not None:
            claimed = self._iterate.drawn(self._withdrawal)
            exact = inherited.blended.isdisjoint(claimed.lineage)
            inherited = inherited.without(claimed, at=self._iterate.x)
            if arrange.gives_back:  # the owner's tracker will lack as much
                self.surplus = self.surplus + claimed.gradient(self._iterate.x)
            assert arrange.claimant is not None  # noqa: S101 - it sent the withdrawal
            effects.append(Withdrawn(arrange.epoch, arrange.claimant, exact))
        self.inherited = inherited
        return effects + ([] if arrange.sums_from is None else self._settle())

    def _settle(self) -> list[Effect]:
        """Pass on what trackers hold beyond gradients, or make up for it.

        Of the lost nothing need be known: their surplus is what is missing in the sum.
        """
        arrange, iterate = self.arrange, self._iterate
        # What a node adopts changes its gradient, and not its tracker.
        adopted = self.inherited.gradient(iterate.x) - iterate.inherited.gradient(iterate.x)
        self.surplus = self.surplus - adopted
        strength = iterate.objective.curvature.a + iterate.inherited.curvature[0]
        way = iterate.x - self._executor.start
        whole = Balance.of(iterate.z, iterate.g + adopted, strength, way)
        for _, one in sorted(self._sums.items()):
            whole += Balance(
                one.surplus, one.trackers, one.gradients, one.strength, one.nodes, one.way
            )
        if arrange.sums_to is not None:
            sums = m.Imbalance(
                arrange.epoch,
                frozen(whole.surplus),
                whole.trackers,
                whole.gradients,
                whole.strength,
                whole.nodes,
                whole.way,
            )
            return [Send((arrange.sums_to,), sums)]
        self.surplus = self.surplus - whole.surplus
        return [] if arrange.recalls is None else [self._recall(arrange.recalls, whole)]

    def _recall(self, node: int, balance: Balance) -> Effect:
        """Remember a node that left nothing by what all others lack, if that can be trusted."""
        legacy = balance.recall(node) if balance.is_trusted else None
        if legacy is not None:
            self.inherited, self.inherits = self.inherited + legacy, True
        return Recalled(self.arrange.epoch, node, legacy)

    def _bequeath(self, heir: int) -> list[Effect]:
        """Let the will decide, say farewell to the heir, and tell the steward what that means."""
        arrange, inherited, iterate = self.arrange, self.inherited, self._iterate
        bequest, will = self._executor.decide(arrange.remaining), self._executor.will
        assert will is not None  # noqa: S101 - it has just decided
        forgets = {self._ident} if bequest.legacy is None else set()
        # The classic way takes along everything that was inherited.
        restart = bequest.restart
        if restart:
            forgets |= set(inherited.lineage)
            inherited = Legacy.zero(inherited.dim)
        whole = bequest.compose(inherited, iterate.x)
        farewell, blur = None, None
        effects: list[Effect] = []
        if not restart:
            surplus = iterate.z - iterate.g + self.surplus
            farewell = Farewell(self._ident, iterate.round, whole, surplus, arrange.epoch)
            lossless = inherited if bequest.legacy is None else bequest.legacy + inherited
            blur = None if whole.rank == lossless.rank else whole - lossless
            effects.append(Send((heir,), farewell))
        lapsed = tuple(sorted(forgets))
        effects.append(
            Decided(
                arrange.epoch,
                iterate.round,
                frozen(iterate.x),
                will.title,
                bequest,
                tuple(inherited.lineage),
                lapsed,
                farewell,
                blur,
            )
        )
        self.is_done = True
        return [*effects, _tell(m.Ready(arrange.epoch, 0.0, (), lapsed, restart))]

    def _write_through(self) -> list[Effect]:
        """Send a checkpoint to every buddy that does not have what will be inherited."""
        arrange, iterate, executor = self.arrange, self._iterate, self._executor
        if self._place is None:
            iterate.enter(self._x, arrange.round, self._returned)
            if executor.path is not None:
                executor.path.begin(iterate.x, iterate.z, executor.setting.step)
        effects: list[Effect] = []
        if executor.every is not None and (self._place is None or self.inherits):
            effects.append(executor.renew(arrange.members))
        needy = arrange.buddies
        if self._place is not None and not self.inherits and arrange.claimant is None:
            needy = tuple(b for b in needy if b not in self._place.arrange.buddies)
        if needy:
            self._unkept = set(needy)
            own, made = executor.own, executor.own_round
            checkpoint = m.Checkpoint(arrange.epoch, made, own, self.inherited)
            effects.append(Send(needy, checkpoint))
        return effects

    def _finish(self) -> list[Effect]:
        """Tell the steward that the node is ready, once its checkpoint is kept."""
        if self._unkept or self.is_done:
            return []
        self.is_done = True
        return [_tell(self.readiness())]

    def readiness(self) -> m.Ready:
        """Return what the steward has to know of a node that stays."""
        iterate, (low, high) = self._iterate, self.inherited.curvature
        # What was taken out of a sum may leave a little less than nothing.
        stiffness = max(iterate.objective.curvature.b + high, 0.0)
        floor = stiffness
        if iterate.method.wants_matrix:
            bound = iterate.objective.bound() + self.inherited.bound()
            floor = float(np.linalg.eigvalsh(bound)[0])
        return m.Ready(
            self.arrange.epoch,
            stiffness,
            tuple(self.inherited.lineage),
            strength=iterate.objective.curvature.a + low,
            floor=floor,
        )


def _tell(message: m.Message) -> Send:
    return Send((m.STEWARD,), message)
