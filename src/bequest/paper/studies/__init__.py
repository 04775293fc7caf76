"""The paper's figures and tables, one declarative study each; and three beyond the paper.

A study measures and writes files (``bequest.paper.store``); ``bequest.paper.report`` reads those
files and nothing else.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from bequest.paper import NAMES as NAMES

if _TYPE_CHECKING:
    from bequest.paper.studies.study import Study


def find(name: str) -> "Study":
    """Return the study of that name."""
    module = _import_module(f"bequest.paper.studies.{name.replace('-', '_')}")
    found: Study = module.STUDY
    return found
