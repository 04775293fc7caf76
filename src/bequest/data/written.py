"""How numbers are written in cells, and which of them float64 tells apart."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

# What a number looks like in a table. Python reads more than that as one: 1_0, and the digits of
# every script; where such a cell was meant as a number, it had better be said.
_NUMBER = re.compile(
    r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)", re.ASCII | re.IGNORECASE
)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
# From here on float64 lacks whole numbers: what it holds may have been a neighbour.
BEYOND = 2**53


def label_of(value: Any) -> str:  # noqa: ANN401 - a cell
    """Return a cell as people write it: 7 and not 7.0."""
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)


def number_in(cell: str) -> float | None:
    """Return the number that a cell holds, if it holds one."""
    return float(cell) if _NUMBER.fullmatch(cell) else None


def is_whole_number(cell: str) -> bool:
    """Whether a cell is a whole number, written in full."""
    return _WHOLE.fullmatch(cell) is not None


def are_beyond(numbers: Sequence[int]) -> bool:
    """Whether some of these whole numbers are of a size where float64 lacks neighbours."""
    return bool(numbers) and (max(numbers) >= BEYOND or min(numbers) <= -BEYOND)


def may_be_another(number: float) -> bool:
    """Whether a number of float64 may have been another whole number."""
    return math.isfinite(number) and abs(number) >= BEYOND


def first_beyond(column: np.ndarray[Any, Any]) -> int | None:
    """Return the first row whose number may have been another whole number, if any."""
    beyond = np.isfinite(column) & (np.abs(column) >= BEYOND)
    return int(np.argmax(beyond)) if beyond.any() else None


def exact_in(cell: str) -> str:
    """Return the number that a cell holds with all its digits, 7 for 007 and 7.0; empty for NaN.

    >>> exact_in("+09007199254740993.0"), exact_in("1e3"), exact_in("nan")
    ('9007199254740993', '1000', '')
    """
    number = float(cell or "nan")
    if math.isnan(number):
        return ""
    if abs(number) < BEYOND or (math.isinf(number) and not is_whole_number(cell)):
        return label_of(number)
    digits = format(Decimal(cell), "f")
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def is_read_as_it_is(text: str) -> bool:
    """Whether a file that holds this text holds it for ``read_table``, too.

    It takes blanks around a cell away, and in a column of numbers it reads 1.0 and 01 as 1.

    >>> [is_read_as_it_is(text) for text in ("f", "7", " f", "", "07", "nan")]
    [True, True, False, False, False, False]
    """
    if not text or text != text.strip():
        return False
    return number_in(text) is None or exact_in(text) == text


def looks_like_a_number(cell: str) -> bool:
    """Whether a cell may have been meant as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
