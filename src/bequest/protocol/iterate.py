"""What one node computes: its iterate, its tracker, and the gradient of what it minimises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.core.arrays import frozen
from bequest.core.legacy import Legacy
from bequest.core.methods import Local
from bequest.core.mixing import LONG_MESSAGE
from bequest.model.pseudo_samples import evaluated

if TYPE_CHECKING:
    from bequest.core.arrays import Matrix, Vector
    from bequest.core.methods import Method
    from bequest.model.objectives.base import Objective
    from bequest.model.objectives.minibatches import Draws


class Iterate:
    """The numbers of one node, and what a round and a hand-off do to them.

    Args:
        objective: the node's private loss.
        method: how it iterates.
        start: where it begins.
        ident: the node, and
        incarnation: how often it has been there before: what a stochastic loss samples by.

    Attributes:
        round: how many rounds it has completed.
        x, z, g: its iterate, its tracker and the gradient of what it minimises.
        tracked: the tracker after the last round, whatever hand-offs have done to it since.
        inherited: what it remembers of other nodes.

    Paper: alg:lgt, prop:invariant.
    """

    def __init__(
        self,
        objective: Objective,
        method: Method,
        start: Vector,
        *,
        ident: int = 0,
        incarnation: int = 0,
    ) -> None:
        self.objective, self.method = objective, method
        self._who = ident, incarnation
        self._draws: Draws | None = None
        self.round = 0
        self.x: Vector = frozen(start)
        self.g: Vector = np.zeros_like(self.x)
        self.z = self.tracked = self.g
        self._carries = False
        self._inherited = Legacy.zero(self.x.size)
        # Of the present epoch, and of the round under way.
        self._local = self._now = Local(1.0, 1.0)
        self._said: tuple[Vector, ...] = ()

    @property
    def inherited(self) -> Legacy:
        """What the node remembers of other nodes."""
        return self._inherited

    @inherited.setter
    def inherited(self, legacy: Legacy) -> None:
        self._inherited, self._carries = legacy, not legacy.is_zero

    @property
    def draws(self) -> Draws:
        """The gradients of its own loss, as rounds use them; a loss on its host is loaded now."""
        if self._draws is None:
            self._draws = self.objective.draws(*self._who)
        return self._draws

    def gradient(self, x: Vector, t: int) -> Vector:
        """Return what round t uses: the gradient of its loss and of what it has inherited."""
        g = (self._draws or self.draws).draw(x, t)
        return g + self._inherited.gradient(x) if self._carries else g

    def drawn(self, legacy: Legacy) -> Legacy:
        """Return a memory that has come from elsewhere, with points drawn from its samples."""
        return legacy.drawn_by(lambda part: evaluated(part, self.objective))

    def settle(self, pace: float, own_weight: float) -> None:
        """Begin an epoch with that pace, and that weight of the own message in an average."""
        local = self.method.localise(
            pace, own_weight=own_weight, stiffness=self.stiffness, bound=self.bound
        )
        # Of a long vector its step would be one more to read.
        self._local = local.spread(self.x.shape) if self.x.size <= LONG_MESSAGE else local

    @property
    def pace(self) -> float:
        """The number that all nodes of the epoch agree on."""
        return self._local.pace

    @property
    def coupling(self) -> float:
        """What differences are multiplied with before the node hears them."""
        return self._local.coupling

    @property
    def stiffness(self) -> float:
        """The largest curvature of what the node minimises."""
        # What was taken out of a sum may leave a little less than nothing.
        return max(self.objective.curvature.b + self._inherited.curvature[1], 0.0)

    def bound(self) -> Matrix:
        """Return a matrix above the Hessian of what the node minimises."""
        own = self.objective.bound()
        return own + self._inherited.bound() if self._carries else own

    def payload(self) -> Vector:
        """Return what the node tells its neighbours: its vectors, one after the other."""
        self._now = self.method.at(self._local, self.round + 1)
        self._said = said = self.method.message(self.x, self.z, self._now)
        if len(said) > 1:
            payload = np.concatenate(said)
        else:  # what is the node's own state stays its own
            payload = said[0].copy() if said[0] is self.x or said[0] is self.z else said[0]
        payload.setflags(write=False)
        return payload

    def follow(self, mixed: Vector) -> tuple[Vector, Vector, Vector]:
        """Return x, z and g after one more round, given what was heard."""
        dim, width = self.x.size, mixed.size
        if width == dim:
            heard: tuple[Vector, ...] = (mixed,)
        elif width == 2 * dim:
            heard = mixed[:dim], mixed[dim:]
        else:
            heard = tuple([mixed[begin : begin + dim] for begin in range(0, width, dim)])
        x, kept = self.method.advance(self.x, self.z, self._said, heard, self._now)
        g = self.gradient(x, self.round + 1)
        z = kept + g
        z -= self.g
        return x, z, g

    def accept(self, x: Vector, z: Vector, g: Vector) -> None:
        """Complete the round with that state."""
        self.x, self.z, self.g, self.tracked = x, z, g, z
        self.round += 1

    def enter(self, x: Vector | None, after: int, returned: Legacy | None = None) -> None:
        """Come in after that round, at x or where the node is.

        What another node has held of its loss, and gives back, was in that node's gradient; its
        tracker stays as it is, and the tracker of this one makes up for that.
        """
        if x is not None:
            self.x = x
        self.g = self.draws.enter(self.x, after)  # it has not inherited anything yet
        self.z = self.g if returned is None else self.g - self.drawn(returned).gradient(self.x)
        self.tracked = self.z
        self.round = after

    def take_over(
        self, inherited: Legacy, surplus: Vector, *, after: int, restart: bool, fresh: bool
    ) -> None:
        """Begin an epoch after that round: what was prepared for it counts from now on.

        Args:
            inherited: what the node remembers of others from now on.
            surplus: what it has been handed over.
            after: the round.
            restart: whether trackers begin anew.
            fresh: whether it is the node's first epoch.
        """
        push, changes = surplus, inherited is not self._inherited
        if self._carries or (changes and not inherited.is_zero):
            # The own loss is not asked again: a stochastic one would give another answer.
            change = inherited.gradient(self.x) - self._inherited.gradient(self.x)
            self.g, push = self.g + change, push + change
        if changes:
            self.inherited = inherited
        if restart:
            self.z = self.g.copy()
        elif not fresh:  # a fresh one has come in with the tracker that it needs
            self.z = self.z + push
        self.round = after
