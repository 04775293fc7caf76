"""Which seeds of a random test `make test` runs, and which are for `make test-all`."""

from collections.abc import Iterable

import pytest


def seeds(all_of_them: Iterable[int], *, quick: int) -> list:
    """All seeds as parameters of a test; those after the first so many are slow."""
    return [
        seed if k < quick else pytest.param(seed, marks=pytest.mark.slow)
        for k, seed in enumerate(all_of_them)
    ]
