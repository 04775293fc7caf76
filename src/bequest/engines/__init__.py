"""What carries the nodes."""

from bequest.engines.base import Engine, Outcome, Plan
from bequest.engines.vector import Vector

__all__ = ["Engine", "Outcome", "Plan", "Vector"]
