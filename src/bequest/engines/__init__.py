"""What carries the nodes."""

from bequest.engines.base import Engine, Outcome, Plan
from bequest.engines.loop import Loop, Partition, Weather
from bequest.engines.vector import Vector

__all__ = ["Engine", "Loop", "Outcome", "Partition", "Plan", "Vector", "Weather"]
