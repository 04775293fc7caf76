"""What the report says, a section per item: of the paper, and beyond it, in its order."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bequest.paper import NAMES

if TYPE_CHECKING:
    from bequest.paper.report.sections.base import Item


def _find(study: str) -> Item:
    module = import_module(f"bequest.paper.report.sections.{study.replace('-', '_')}")
    found: Item = module.ITEM
    return found


ITEMS = tuple(_find(name) for name in NAMES)
