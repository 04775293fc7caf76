"""The engines, which carry out plans.

Each is imported when it is first used: a process of a cluster has no use for the others.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from bequest.engines.base import Engine as Engine
    from bequest.engines.loop.engine import Loop as Loop
    from bequest.engines.loop.network import Outage as Outage
    from bequest.engines.loop.network import Partition as Partition
    from bequest.engines.loop.network import Weather as Weather
    from bequest.engines.ray import Ray as Ray
    from bequest.engines.ray import one_cluster as one_cluster
    from bequest.engines.runtime.view import View as View
    from bequest.engines.vector.engine import Vector as Vector
    from bequest.model.outcome import Outcome as Outcome
    from bequest.model.plan import Plan as Plan

_HOMES = {
    "Engine": "engines.base",
    "Loop": "engines.loop.engine",
    "Outage": "engines.loop.network",
    "Outcome": "model.outcome",
    "Partition": "engines.loop.network",
    "Plan": "model.plan",
    "Ray": "engines.ray",
    "Vector": "engines.vector.engine",
    "View": "engines.runtime.view",
    "Weather": "engines.loop.network",
    "one_cluster": "engines.ray",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'bequest.engines' has no attribute {name!r}")
    found: object = getattr(_import_module(f"bequest.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)
