"""Telling what a user has derived from ours, and replaced, where a run would not notice.

Losses are evaluated by the formulas of their stack and mixed by Metropolis weights. A subclass
that replaces what a run never calls would run as if it had not, so it is refused.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def replaced(thing: object, names: Iterable[str], owner: type) -> str | None:
    """Return the first of these names whose attribute is not the owner's own any more, or None."""
    for name in names:
        own = getattr(owner, name)
        if getattr(type(thing), name) is not own:
            return name
        # What is cached is in there too, once it was asked for.
        if name in vars(thing) and not isinstance(own, cached_property):
            return name
    return None
