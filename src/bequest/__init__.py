"""bequest: decentralized optimization that remembers the nodes it loses.

The public names, and nothing else. They are imported when first used, so that
``import bequest`` costs next to nothing.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from bequest.version import __version__ as __version__

if _TYPE_CHECKING:
    from bequest import data as data
    from bequest import datasets as datasets
    from bequest import departures as departures
    from bequest import engines as engines
    from bequest import errors as errors
    from bequest import graphs as graphs
    from bequest import methods as methods
    from bequest import partition as partition
    from bequest import phases as phases
    from bequest import problems as problems
    from bequest import wills as wills
    from bequest.core.bounds import Pilot as Pilot
    from bequest.core.certificates import Certificate as Certificate
    from bequest.core.curvature import Curvature as Curvature
    from bequest.core.farewell import Farewell as Farewell
    from bequest.core.legacy import Legacy as Legacy
    from bequest.core.methods import NIDS as NIDS
    from bequest.core.methods import GradientTracking as GradientTracking
    from bequest.data import load_model as load_model
    from bequest.model.events import Crash as Crash
    from bequest.model.events import Departure as Departure
    from bequest.model.events import Forget as Forget
    from bequest.model.events import Join as Join
    from bequest.model.events import Return as Return
    from bequest.model.graph import Graph as Graph
    from bequest.model.objectives import Function as Function
    from bequest.model.objectives import Huber as Huber
    from bequest.model.objectives import LeastSquares as LeastSquares
    from bequest.model.objectives import Loaded as Loaded
    from bequest.model.objectives import Logistic as Logistic
    from bequest.model.objectives import Minibatches as Minibatches
    from bequest.model.objectives import Objective as Objective
    from bequest.model.objectives import Quadratic as Quadratic
    from bequest.model.objectives import Softmax as Softmax
    from bequest.model.outcome import ChangeRecord as ChangeRecord
    from bequest.model.outcome import DepartureRecord as DepartureRecord
    from bequest.model.outcome import Status as Status
    from bequest.model.problem import Problem as Problem
    from bequest.model.run import Run as Run
    from bequest.solver import calibrate as calibrate
    from bequest.solver import solve as solve

# name -> its module
_HOMES = {
    "Certificate": "bequest.core.certificates",
    "ChangeRecord": "bequest.model.outcome",
    "Crash": "bequest.model.events",
    "Curvature": "bequest.core.curvature",
    "Departure": "bequest.model.events",
    "DepartureRecord": "bequest.model.outcome",
    "Farewell": "bequest.core.farewell",
    "Forget": "bequest.model.events",
    "Function": "bequest.model.objectives",
    "GradientTracking": "bequest.core.methods",
    "Graph": "bequest.model.graph",
    "Huber": "bequest.model.objectives",
    "Join": "bequest.model.events",
    "LeastSquares": "bequest.model.objectives",
    "Legacy": "bequest.core.legacy",
    "Loaded": "bequest.model.objectives",
    "Logistic": "bequest.model.objectives",
    "Minibatches": "bequest.model.objectives",
    "NIDS": "bequest.core.methods",
    "Objective": "bequest.model.objectives",
    "Pilot": "bequest.core.bounds",
    "Problem": "bequest.model.problem",
    "Quadratic": "bequest.model.objectives",
    "Return": "bequest.model.events",
    "Run": "bequest.model.run",
    "Softmax": "bequest.model.objectives",
    "Status": "bequest.model.outcome",
    "calibrate": "bequest.solver",
    "load_model": "bequest.data",
    "solve": "bequest.solver",
}
# modules of their own
_ROOMS = (
    "data",
    "datasets",
    "departures",
    "engines",
    "errors",
    "graphs",
    "methods",
    "partition",
    "phases",
    "problems",
    "wills",
)

__all__ = sorted([*_HOMES, *_ROOMS, "__version__"])


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        found: object = _import_module(f"bequest.{name}")
    elif name in _HOMES:
        found = getattr(_import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'bequest' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)
