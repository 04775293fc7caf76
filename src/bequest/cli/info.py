"""``bequest info``: what is installed, and what there is to choose from."""

from __future__ import annotations

import inspect
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from bequest import engines, extras
from bequest.cli.run import as_text
from bequest.cli.terminal import Terminal, pairs
from bequest.model import objectives
from bequest.runfile.iterating import METHODS
from bequest.runfile.schema import GRAPHS, PROBLEMS, WILLS

_PACKAGES = ("bequest", "numpy", "scipy", "networkx")


def tell(*, as_json: bool) -> None:
    """Print it."""
    facts = gather()
    if as_json:
        print(as_text(facts))
        return
    rows = [[name.replace("_", " "), _listed(value)] for name, value in facts.items()]
    Terminal().print(pairs(rows))


def gather() -> dict[str, Any]:
    """Return everything, as plain data."""
    return {
        "versions": {"python": platform.python_version()} | {p: _version(p) for p in _PACKAGES},
        "blas": _blas(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "extras": {extra: extras.is_there(extra) for extra in extras.MODULES},
        "problems": list(PROBLEMS),
        "objectives": _concrete(objectives, "gradient"),
        "graphs": list(GRAPHS),
        "methods": list(METHODS),
        "vectors_per_edge_and_round": {kind: make().vectors for kind, make in METHODS.items()},
        "wills": list(WILLS),
        "engines": _concrete(engines, "run"),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "not installed"


def _blas() -> str:
    """Return the name and version of the library numpy multiplies with."""
    built = np.show_config(mode="dicts")
    blas = built.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _concrete(module: Any, method: str) -> list[str]:  # noqa: ANN401
    """Return the public classes of a module that can be used as they are."""
    classes = {name: getattr(module, name) for name in module.__all__}
    return [
        name
        for name, found in classes.items()
        if hasattr(found, method)
        and not inspect.isabstract(found)
        and not getattr(found, "_is_protocol", False)
    ]


def _listed(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, dict):
        words = {True: "installed", False: "not installed"}
        told = {k: words[v] if isinstance(v, bool) else v for k, v in value.items()}
        return ", ".join(f"{k} {v}" for k, v in told.items())
    return ", ".join(value) if isinstance(value, list) else str(value)
