"""Quadratics of losses that are not convex, and when they are left out.

A quadratic of a network holds near where it was made. What it does to the survivors depends on how
far they still go, and on how much they would miss the leaver. Both can be seen by the leaver alone:

- **haste**: how far it has come in the last 32 rounds, as a part of the whole way from its start.
  Above a half the training has hardly begun, and a quadratic is in the wrong place; below a
  hundredth the network has settled, and the quadratic is where it is needed.
- **agreement**: how well the way of the network was a way down for the leaver, too; the mean cosine
  between that way and its own descent. A node whose data are like the others' is taken along.
  Where the network has not settled it is better forgotten: the others know what it knows, and a
  quadratic would only hold them back. A node that has been going against its own descent most of
  the time knows what the others do not, and a rough memory of it is better than none.

The constants were chosen on seeds 100 to 114 of `reproduce networks`, whose tables are of others.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from bequest.core.arrays import norm
from bequest.model.wills.stiffness import ROUNDS, bounded

if TYPE_CHECKING:
    from bequest.model.wills.base import Bequest, Estate, Will

# Of the whole way in the last rounds: more is too early for any quadratic, less is settled.
_HARDLY_BEGUN, _SETTLED = 1 / 2, 1 / 100
# From this cosine on the way of all is the node's own, where there are ten nodes. Were the slopes
# of n nodes at right angles, each would have a cosine of 1/sqrt(n) with their sum: its own part.
_AGREED, _NODES = 1 / 8, 10


def guarded(will: Will, bequest: Bequest, estate: Estate) -> Bequest:
    """Return the bequest, without its quadratic where that cannot be trusted.

    It is asked about losses that are not convex (``setting.mu`` is below zero), of wills that do
    not insist. Samples hold everywhere, and pass. A quadratic that passes is no stiffer and no
    softer than it may be (``stiffness``).
    """
    legacy = bequest.legacy
    if estate.setting.mu >= 0 or will.insists or legacy is None or legacy.samples:
        return bequest
    haste = _haste(estate)
    why = _objection(estate, haste)
    if why is None:
        return bounded(bequest, estate, settled=haste <= _SETTLED)
    return replace(
        bequest,
        choice="none",
        why=f"no quadratic ({bequest.choice}) of a loss that is not convex: {why}",
        legacy=None,
        anchor=None,
    )


def keeps_path(will: Will, mu: float) -> bool:
    """Whether a node with that will remembers its own path, in a problem of that curvature."""
    return will.needs_history or (mu < 0 and not (will.insists or will.forgets))


def _objection(estate: Estate, haste: float) -> str | None:
    """Return why a quadratic would do more harm than good, or None."""
    if haste > _HARDLY_BEGUN:
        return f"{ROUNDS} rounds at its pace are {haste:.0%} of its way so far, too early"
    if haste <= _SETTLED:
        return None
    agreement = _agreement(estate)
    if agreement <= _AGREED * math.sqrt(_NODES / estate.setting.n):
        return None
    return (
        f"{ROUNDS} rounds at its pace are {haste:.0%} of its way so far, so it has not settled, "
        f"and the others lead where its own loss does (cosine {agreement:.2f}), "
        "so that they may hardly miss it"
    )


def _haste(estate: Estate) -> float:
    """Return how much of its whole way the node has come in the last rounds.

    A path that is not known, as that of an epoch that has just begun, is taken to be even.
    """
    way, path = norm(estate.x - estate.start), estate.recent
    if path is None or len(path) < 2 or way == 0:
        return ROUNDS / max(estate.round, 1)
    movement = path.movement(ROUNDS)
    if movement is None:
        return 0.0
    moved, rounds = movement
    return norm(moved) / rounds * ROUNDS / way


def _agreement(estate: Estate) -> float:
    """Return the mean cosine between the straight way from the start and the own descent there.

    Along that way the loss falls by the integral of |gradient| times the cosine. The slope is
    looked at in three places (Simpson's rule).
    """
    loss, x, start = estate.objective, estate.x, estate.start
    first, middle = norm(loss.gradient(start)), norm(loss.gradient((start + x) / 2))
    slope = (first + 4 * middle + norm(estate.gradient)) / 6
    fall = loss.value(start) - loss.value(x)
    return fall / (slope * norm(x - start)) if slope > 0 else 0.0
