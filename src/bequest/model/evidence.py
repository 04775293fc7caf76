"""What a leaver really left behind: read off the legacy that was sent, and off its own loss.

A will says which branch it took, where its anchor is and what that can cost. None of this is
evidence: a theorem is about the quadratic that was handed over, so that is what is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from bequest.core.arrays import norm

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.model.objectives.base import Objective
    from bequest.model.outcome import DepartureRecord

# What differs by less than this share of the terms that it is the sum of differs by rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Evidence:
    """One departure, and the loss that its legacy is to stand for.

    Attributes:
        record: what happened.
        loss: the leaver's own.
        remembered: whether a survivor still holds its legacy.
    """

    record: DepartureRecord
    loss: Objective
    remembered: bool

    @property
    def node(self) -> int:
        """The node that left."""
        return self.record.node

    @cached_property
    def anchor(self) -> Vector:
        """Where the legacy is held against the loss: the anchor it names, or else the iterate."""
        named = self.record.anchor
        return self.record.x if named is None else named

    @cached_property
    def spectrum(self) -> tuple[float, float]:
        """The smallest and the largest curvature of what was sent; nothing has none."""
        return (0.0, 0.0) if self.record.legacy is None else self.record.legacy.curvature

    @property
    def weight(self) -> float:
        """The curvature of a legacy that has the same one in every direction."""
        return self.spectrum[0]

    @cached_property
    def off(self) -> float:
        """How far its slope at the anchor is from the loss's."""
        assert self.record.legacy is not None  # noqa: S101 - asked only where there is one
        slope = self.record.legacy.gradient(self.anchor)
        return norm(slope - self.loss.gradient(self.anchor))

    @cached_property
    def is_anchored(self) -> bool:
        """Whether it is the paper's legacy: the loss's slope at the anchor, the midpoint curvature.

        Paper: eq:legacy, lem:center.
        """
        if self.record.legacy is None or not self.remembered:
            return False
        curvature = self.loss.curvature
        apart = max(abs(bend - curvature.midpoint) for bend in self.spectrum)
        return apart <= _ROUNDING * curvature.b and self.off <= self._slack

    @property
    def is_at_iterate(self) -> bool:
        """Whether the anchor is where the leaver was."""
        x = self.record.x
        return norm(self.anchor - x) <= _ROUNDING * (1 + norm(x))

    @cached_property
    def is_point_only(self) -> bool:
        """Whether it is a pull toward its anchor, and nothing else.

        Paper: prop:pointonly.
        """
        legacy = self.record.legacy
        if legacy is None or not self.remembered:
            return False
        low, high = self.spectrum
        isotropic = low >= 0 and high - low <= _ROUNDING * high
        return isotropic and norm(legacy.gradient(self.anchor)) <= self._slack

    @property
    def terms(self) -> float:
        """How large the numbers are that the slopes of loss and legacy are made of."""
        assert self.record.legacy is not None  # noqa: S101 - asked only where there is one
        size = norm(self.anchor)
        held = self.spectrum[1] * size + norm(self.record.legacy.p)
        return held + self.loss.curvature.b * (1 + size)

    @property
    def _slack(self) -> float:
        """What rounding leaves of slopes at the anchor that cancel."""
        return _ROUNDING * self.terms
