"""The wills of the paper, and the two ways to forget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bequest.core.arrays import hold_as_floats, norm
from bequest.core.legacy import Legacy
from bequest.errors import InvalidWill
from bequest.model.wills.base import Bequest, Will

if TYPE_CHECKING:
    from bequest.core.bounds import Pilot
    from bequest.model.wills.base import Choice, Estate


@dataclass(frozen=True)
class Classic(Will):
    """Drop and forget: the leaver is gone, every survivor restarts its tracker.

    The baseline of every comparison. What the leaver had inherited is lost with it.

    Paper: eq:dropbias, Sec. 5.1.
    """

    label: ClassVar[str] = "classic"

    def decide(self, estate: Estate) -> Bequest:  # noqa: ARG002 - it forgets without looking
        """Return nothing at all."""
        return Bequest("classic", "drop and restart", restart=True)

    @property
    def forgets(self) -> bool:
        """Yes."""
        return True


@dataclass(frozen=True)
class Forgetful(Will):
    """No legacy of the own loss, but an exact hand-off of the surplus and of what was inherited.

    Paper: alg:lgt, the no-legacy branch. Deviates: the paper's throws the inherited away too.
    """

    label: ClassVar[str] = "forgetful"

    def decide(self, estate: Estate) -> Bequest:  # noqa: ARG002 - it forgets without looking
        """Return no legacy."""
        return Bequest("none", "forgets its own loss, as asked")

    @property
    def forgets(self) -> bool:
        """Yes."""
        return True


@dataclass(frozen=True)
class Consensus(Will):
    """GT-C: anchor at the iterate. The later the exit, the better the memory.

    Paper: Sec. 2 (GT-C), thm:main.
    """

    label: ClassVar[str] = "consensus (GT-C)"

    def decide(self, estate: Estate) -> Bequest:
        """Return the legacy at x."""
        return anchored(estate, "consensus", "anchored at the iterate, as asked")


@dataclass(frozen=True)
class LocalTrack(Will):
    """GT-M: anchor where the node's own descent has led it. Independent of how early the exit is.

    Paper: Sec. 2 (GT-M), thm:main.
    """

    label: ClassVar[str] = "local track (GT-M)"

    def decide(self, estate: Estate) -> Bequest:
        """Return the legacy at u."""
        return anchored(estate, "local", "anchored at the local track, as asked")


@dataclass(frozen=True)
class PointOnly(Will):
    """GT-P: a penalty eta/2 |x - y|^2 toward the iterate; it reveals no gradient in its legacy.

    eta = |grad f(y)| / eps(t), with eps from the pilot, and at most cap/step: an uncapped weight
    outgrows any fixed step in the end (``cap=None`` lets it). The cap is per legacy: an heir that
    inherits from several such leavers gets as stiff as all of them together, which a fixed step
    may not survive; a chosen step is lowered instead.

    Paper: eq:etat, prop:pointonly.
    """

    cap: float | None = 0.5
    label: ClassVar[str] = "point only (GT-P)"
    needs_pilot = True  # the schedule eq:etat divides by the pilot's certificate

    def __post_init__(self) -> None:
        real = isinstance(self.cap, int | float | np.integer | np.floating)
        number = real and not isinstance(self.cap, bool)
        if self.cap is not None and not (number and 0 < self.cap < math.inf):
            raise InvalidWill(
                f"PointOnly(cap={self.cap!r}).",
                remedy="Use a positive number (weights are at most cap/step), or None for no cap.",
            )
        hold_as_floats(self, "cap")

    def decide(self, estate: Estate) -> Bequest:
        """Return the penalty with the scheduled weight."""
        error = pilot_of(estate).error(estate.round)
        pull = norm(estate.gradient)
        scheduled = pull / error if error > 0 else math.inf
        eta = scheduled if self.cap is None else min(scheduled, self.cap / estate.setting.step)
        if math.isinf(eta):
            raise InvalidWill(
                "The pilot certifies an error of zero, which asks for an infinite weight.",
                remedy="Give PointOnly a cap, or start the pilot away from the optimum.",
            )
        capped = "" if eta == scheduled else f", capped from {scheduled:.3g}"
        legacy = Legacy.anchored(
            estate.node, anchor=estate.x, value=0.0, gradient=0 * estate.x, eta=eta
        )
        why = f"weight {eta:.3g} = |grad f| {pull:.3g} / certified error {error:.3g}{capped}"
        return Bequest("point", why, legacy, estate.x)


def anchored(estate: Estate, choice: Choice, why: str) -> Bequest:
    """Return the bequest of the paper's legacy at the iterate or at the local track."""
    anchor = estate.local_track if choice == "local" else estate.x
    return Bequest(choice, why, estate.anchored_at(anchor), anchor)


def pilot_of(estate: Estate) -> Pilot:
    """Return the pilot, or say how to get one."""
    if estate.setting.pilot is None:
        raise InvalidWill(
            "This will needs a pilot, and the run has none.",
            remedy="Pass pilot=bequest.calibrate(problem, graph, rounds=...) to solve.",
        )
    return estate.setting.pilot
