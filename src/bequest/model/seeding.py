"""Random numbers from a seed, or words about what is no seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bequest.errors import InvalidInput


def seeded(seed: int, error: type[InvalidInput]) -> np.random.Generator:
    """Return the generator of a seed; raises ``error`` where it is none."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as why:
        raise error(f"The seed is {seed!r}.", remedy="Use a whole number >= 0.") from why
