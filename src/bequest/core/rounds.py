"""The rounds of any method, and the hand-off that keeps its invariant.

Invariant (prop:invariant): the trackers always sum to the gradients, sum z = sum grad h(x): what
s = z - grad h(x) gains at one node it loses at another.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bequest.core.arrays import Matrix, Tensor, Vector
    from bequest.core.legacy import Legacy
    from bequest.core.methods.base import Local, Method

    Gradient = Callable[[Matrix, Matrix], None]
    Mix = Callable[[Matrix, Matrix | None], Matrix]


class Hear(Protocol):
    """What makes what nodes hear of what they say."""

    def __call__(
        self, said: tuple[Matrix, ...], out: tuple[Matrix, ...] = ()
    ) -> tuple[Matrix, ...]:
        """Return it, an array for each that was said; ``out`` may be used for the first ones."""


# Rounds for which a landmark is near enough.
_NEAR = 16


def advance(
    X: Tensor,
    Z: Tensor,
    G: Tensor,
    *,
    rounds: int,
    method: Method,
    local: Local,
    hear: Hear,
    gradient: Gradient,
    after: int = 0,
) -> None:
    """Run rounds of a method from slot 0 into slots 1..rounds.

    Slot t of the windows ``X``, ``Z``, ``G`` (slots x nodes x dim) holds the state after round t,
    so that many rounds can be measured in one array operation and a round itself stays bare.
    ``hear`` makes what nodes hear of what they say (``averages``, ``differences``),
    ``gradient(points, target)`` writes into its second argument. Slot 0 is the state after round
    ``after``.

    Paper: alg:lgt.
    Deviates: the local track of alg:lgt is communication free and only read at a departure, so
    it is computed there (anchors.local_track), for the leaver alone.
    """
    room, spare = np.empty_like(X[0]), np.empty_like(X[0])
    slots = list(zip(X, Z, G, strict=True))
    x, z, g = slots[0]
    stays = False  # what was heard first is the next x, as in gradient tracking
    for t, (x_next, z_next, g_next) in enumerate(slots[1 : rounds + 1], start=after + 1):
        now = method.at(local, t)
        said = method.message(x, z, now, room)
        # What is heard is written where it will be needed, if this round is like the one before.
        if stays:
            heard = hear(said, (x_next, z_next))
            there, kept = method.advance(x, z, said, heard, now, spare)
        else:
            heard = hear(said, (z_next, spare))
            there, kept = method.advance(x, z, said, heard, now, x_next)
        if there is not x_next:
            stays = there is heard[0]
            if np.may_share_memory(kept, x_next):
                kept = kept.copy()
            x_next[...] = there
        gradient(x_next, g_next)
        np.subtract(np.add(kept, g_next, z_next), g, z_next)
        x, z, g = x_next, z_next, g_next


class Strides:
    """Rounds of long rows, one at a time: what was computed stays where it is, uncopied.

    Args:
        state: x, z and g of all nodes.
        method: how nodes iterate.
        local: what the rounds of the epoch go by.
        hear: makes what nodes hear of what they say.
        gradient: writes gradients into its second argument.
    """

    def __init__(
        self,
        state: tuple[Matrix, Matrix, Matrix],
        *,
        method: Method,
        local: Local,
        hear: Hear,
        gradient: Gradient,
    ) -> None:
        self._method, self._local, self._hear, self._gradient = method, local, hear, gradient
        self.state = (state[0].copy(), state[1].copy(), state[2].copy())
        self._room, self._there, self._spare = (np.empty_like(state[0]) for _ in range(3))

    def advance(self, t: int) -> tuple[Matrix, Matrix, Matrix]:
        """Return the state after round t, in arrays that hold until the next round."""
        method, (x, z, g) = self._method, self.state
        now = method.at(self._local, t)
        said = method.message(x, z, now, self._room)
        there, kept = method.advance(x, z, said, self._hear(said), now, self._there)
        if there is self._there:
            self._there = x
        else:
            there = _of_its_own(there, (x, z, *said))
        kept = _of_its_own(kept, (x, z, there, *said))
        self._gradient(there, self._spare)
        kept += self._spare
        kept -= g
        self.state, self._spare = (there, kept, self._spare), g
        return self.state


def _of_its_own(found: Matrix, taken: tuple[Matrix, ...]) -> Matrix:
    """Return an array that nothing else is written to."""
    own = found.flags.owndata and not any(found is other for other in taken)
    return found if own else found.copy()


def averages(mix: Mix) -> Hear:
    """Return W times what nodes say; ``mix`` is that product."""

    def hear(said: tuple[Matrix, ...], out: tuple[Matrix, ...] = ()) -> tuple[Matrix, ...]:
        if len(said) == len(out) == 2:  # in small networks a loop costs as much as an addition
            return mix(said[0], out[0]), mix(said[1], out[1])
        return tuple([mix(one, there) for one, there in _each(said, out)])

    return hear


def differences(product: Mix) -> Hear:
    """Return c (I - W) times what nodes say, exact where they agree: relative to one of them.

    What one of them said is kept as a landmark for a few rounds; it need only be near.

    Args:
        product: c (I - W) times an array.
    """
    near: list[Matrix] = []
    room, left = np.empty(0), 0

    def hear(said: tuple[Matrix, ...], out: tuple[Matrix, ...] = ()) -> tuple[Matrix, ...]:
        nonlocal near, room, left
        if not left:
            near = [np.broadcast_to(one[0], one.shape).copy() for one in said]
            room, left = np.empty_like(said[0]), _NEAR
        left -= 1
        if len(said) == 1:
            there = out[0] if out else None
            return (product(np.subtract(said[0], near[0], room), there),)
        marked = zip(_each(said, out), near, strict=True)
        return tuple(
            [product(np.subtract(one, mark, room), there) for (one, there), mark in marked]
        )

    return hear


def _each(
    said: tuple[Matrix, ...], out: tuple[Matrix, ...]
) -> Iterator[tuple[Matrix, Matrix | None]]:
    """Return what was said with where to write what is heard of it; the last ones have no place."""
    return zip(said, chain(out, repeat(None)))  # noqa: B905 - the second has no end


def surplus(z: Vector, gradient: Vector) -> Vector:
    """Return s = z - grad h(x): what a tracker holds beyond its own gradient."""
    return z - gradient


def receive(x: Vector, z: Vector, legacy: Legacy, surplus: Vector) -> Vector:
    """Return the heir's tracker after a farewell: z + surplus + grad legacy(x).

    Exact for every anchor and every curvature, and for no legacy at all (the zero legacy).

    Paper: prop:invariant.
    Deviates: the paper's printed correction is exact for the consensus anchor only.
    """
    return z + surplus + legacy.gradient(x)
