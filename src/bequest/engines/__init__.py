"""What carries the nodes.

Engines are imported when first used: a process of a cluster has no use for the others.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from bequest.engines.base import Engine as Engine
    from bequest.engines.base import Outcome as Outcome
    from bequest.engines.base import Plan as Plan
    from bequest.engines.loop import Loop as Loop
    from bequest.engines.network import Outage as Outage
    from bequest.engines.network import Partition as Partition
    from bequest.engines.network import Weather as Weather
    from bequest.engines.ray.engine import Ray as Ray
    from bequest.engines.ray.engine import one_cluster as one_cluster
    from bequest.engines.ray.view import View as View
    from bequest.engines.vector import Vector as Vector

_HOMES = {
    "Engine": "base",
    "Loop": "loop",
    "Outage": "network",
    "Outcome": "base",
    "Partition": "network",
    "Plan": "base",
    "Ray": "ray.engine",
    "Vector": "vector",
    "View": "ray.view",
    "Weather": "network",
    "one_cluster": "ray.engine",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'bequest.engines' has no attribute {name!r}")
    found: object = getattr(_import_module(f"bequest.engines.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)
