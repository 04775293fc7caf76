"""The hand-off as the paper prints it: an ablation, which only the study of it uses."""

from __future__ import annotations

from dataclasses import replace

from bequest.core.arrays import Vector
from bequest.core.legacy import Legacy
from bequest.engines.base import Progress
from bequest.engines.vector.engine import Vector as VectorEngine
from bequest.engines.vector.membership import Membership
from bequest.model.outcome import Outcome
from bequest.model.plan import Plan
from bequest.model.wills import Bequest


def receive(x: Vector, z: Vector, legacy: Legacy, z_leaver: Vector, anchor: Vector) -> Vector:
    """Return z + z_leaver + H (x - anchor), the heir's tracker after the printed correction.

    It breaks the invariant for good unless the anchor is the leaver's iterate.

    Paper: prop:invariant, as printed.
    """
    return z + z_leaver + legacy.product(x - anchor)


class _PrintedMembership(Membership):
    """Departures whose heirs correct their trackers as printed."""

    def hand_over(
        self, node: int, heir: int, t: int, legacy: Legacy, bequest: Bequest
    ) -> tuple[float, int]:
        """Carry out a bequest; return the vectors and bytes that travelled."""
        if bequest.anchor is None:
            return super().hand_over(node, heir, t, legacy, bequest)
        i, a = self._rows[node], self._rows[heir]
        corrected = receive(self.X[a], self.Z[a], legacy, self.Z[i], bequest.anchor)
        vectors, size = super().hand_over(node, heir, t, legacy, bequest)
        self.Z[a] = corrected
        # The message is (y, g, z) instead of (p, surplus).
        return vectors + 1, size + corrected.nbytes


class PrintedHandoff(VectorEngine):
    """The vector engine with the printed hand-off wherever a legacy has an anchor.

    A run on it promises nothing: its records say that the hand-offs were not exact.
    """

    membership = _PrintedMembership

    def run(self, plan: Plan, progress: Progress | None = None) -> Outcome:
        """Carry out the plan; ``progress`` hears of rounds as they are completed."""
        outcome = super().run(plan, progress)
        records = [
            replace(record, exact_handoff=record.crashed or record.anchor is None)
            for record in outcome.departures
        ]
        return replace(outcome, departures=tuple(records))
