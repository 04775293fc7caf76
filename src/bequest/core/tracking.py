"""The round of gradient tracking, and the hand-off that keeps its invariant.

Invariant (prop:invariant): the trackers always sum to the gradients, sum z = sum grad h(x).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Matrix, Tensor, Vector
    from bequest.core.legacy import Legacy

    Gradient = Callable[[Matrix, Matrix], None]
    Mix = Callable[[Matrix], Matrix]


def advance(
    X: Tensor, Z: Tensor, G: Tensor, *, rounds: int, step: float, mix: Mix, gradient: Gradient
) -> None:
    """Run rounds of adapt-then-combine gradient tracking from slot 0 into slots 1..rounds.

    One round is x+ = W (x - step z), z+ = W z + grad h(x+) - grad h(x). Slot t of the windows
    ``X``, ``Z``, ``G`` (slots x nodes x dim) holds the state after round t, so that
    many rounds can be measured in one array operation and a round itself stays bare.
    ``mix`` returns averages, ``gradient(points, target)`` writes into its second argument.

    Paper: alg:lgt.
    Deviates: the local track of alg:lgt is communication free and only read at a departure, so
    it is computed there (anchors.local_track), for the leaver alone.
    """
    message = np.empty_like(X[0])
    slots = list(zip(X, Z, G, strict=True))
    x, z, g = slots[0]
    for x_next, z_next, g_next in slots[1 : rounds + 1]:
        np.multiply(z, -step, out=message)
        message += x
        x_next[...] = mix(message)
        gradient(x_next, g_next)
        np.add(mix(z), g_next, out=z_next)
        z_next -= g
        x, z, g = x_next, z_next, g_next


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
