"""Array types, and arrays that nobody can change behind one's back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector: TypeAlias = NDArray[np.float64]
    Matrix: TypeAlias = NDArray[np.float64]
    Tensor: TypeAlias = NDArray[np.float64]
    Indices: TypeAlias = NDArray[np.intp]


def frozen(values: ArrayLike) -> Vector:
    """Return a read-only float64 copy of ``values``."""
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


def is_whole(number: object, *, least: int) -> bool:
    """Whether something is a whole number of at least ``least``; NaN, text and booleans are not."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        return False
    return int(number) >= least


def norm(vector: Vector) -> float:
    """Return the Euclidean norm; unlike a plain sum of squares it does not overflow early."""
    return float(np.linalg.norm(vector))
