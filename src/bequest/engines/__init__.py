"""What carries the nodes."""

from bequest.engines.base import Engine, Outcome, Plan
from bequest.engines.loop import Loop, Outage, Partition, Weather
from bequest.engines.ray import Ray, View
from bequest.engines.vector import Vector

__all__ = [
    "Engine",
    "Loop",
    "Outage",
    "Outcome",
    "Partition",
    "Plan",
    "Ray",
    "Vector",
    "View",
    "Weather",
]
