"""Array types, and arrays that cannot be changed."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bequest.errors import InvalidInput, NotFinite

Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
Tensor: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]

# The relative rounding of float64.
EPSILON = float(np.finfo(np.float64).eps)


def first_masked(values: object) -> tuple[int, ...] | None:
    """Return where the first entry is that NumPy masks as missing; None if all are there.

    NumPy drops the mask without a word when it makes a plain array of a masked one.
    """
    if isinstance(values, np.ma.MaskedArray):
        masked = np.argwhere(np.ma.getmaskarray(values))
        return tuple(int(index) for index in masked[0]) if len(masked) else None
    if isinstance(values, list | tuple):
        for index, part in enumerate(values):
            if (inside := first_masked(part)) is not None:
                return (index, *inside)
    return None


def refuse_masked(values: object, what: str, error: type[InvalidInput] = NotFinite) -> None:
    """Raise the error if an entry is masked."""
    if type(values) is np.ndarray:
        return  # asked in every round: this one cannot be
    where = first_masked(values)
    if where is not None:
        raise error(
            f"{what} is masked at index {where[0] if len(where) == 1 else where}: that entry is "
            "missing.",
            remedy="Remove or impute missing entries first, for instance with filled(...).",
        )


def frozen(values: ArrayLike) -> Vector:
    """Return a read-only float64 copy of ``values``; masked entries are refused."""
    refuse_masked(values, "An array")
    array = np.array(values, dtype=np.float64)
    array.setflags(write=False)
    return array


def is_fixed(array: object) -> bool:
    """Whether nothing can change this array: it is read-only, and so is the one it is a part of."""
    if not isinstance(array, np.ndarray) or array.flags.writeable:
        return False
    return array.base is None or is_fixed(array.base)


def is_whole(number: object, *, least: int) -> bool:
    """Whether something is a whole number of at least ``least``; NaN, text and booleans are not."""
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        return False
    return int(number) >= least


def is_number(value: object) -> bool:
    """Whether something is a real number; text, booleans and None are not, NaN and infinity are."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def hold_as_floats(holder: object, *names: str) -> None:
    """Let a frozen object hold these numbers as floats, unless they are None.

    So 4, 4.0 and ``np.int64(4)`` make equal objects, which a fingerprint cannot tell apart; and so
    do 0.0 and -0.0.
    """
    for name in names:
        value = getattr(holder, name)
        if value is not None:
            object.__setattr__(holder, name, float(value) + 0.0)


def norm(vector: Vector) -> float:
    """Return the Euclidean norm; unlike a plain sum of squares it does not overflow early."""
    return float(np.linalg.norm(vector))
