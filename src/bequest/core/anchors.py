"""The points a legacy can be anchored at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.core.arrays import Vector


def local_track(
    gradient: Callable[[Vector], Vector], start: Vector, *, smoothness: float, rounds: int
) -> Vector:
    """Return u after ``rounds`` steps u+ = u - grad f(u)/L of a node's own descent from ``start``.

    It needs no communication, so it need not run along: a leaver computes it when it leaves.
    Stops early where the steps no longer change a bit.

    Paper: alg:lgt (the auxiliary local run).
    """
    u = np.array(start, dtype=float)
    if smoothness == 0:
        return u
    for _ in range(rounds):
        following = u - gradient(u) / smoothness
        if np.array_equal(following, u):
            break
        u = following
    return u
