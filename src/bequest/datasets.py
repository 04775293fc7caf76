"""Two small real datasets, which scikit-learn ships inside its package: nothing is downloaded.

Only this module imports scikit-learn, and only while it loads a dataset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bequest import extras
from bequest.core.arrays import frozen

if TYPE_CHECKING:
    from bequest.core.arrays import Indices, Matrix


def breast_cancer() -> tuple[Matrix, Indices]:
    """Return 569 tumours, 30 measurements each, and whether each is benign (1) or not (0).

    >>> X, y = breast_cancer()
    >>> X.shape, np.bincount(y).tolist()
    ((569, 30), [212, 357])
    """
    return _load("load_breast_cancer")


def digits() -> tuple[Matrix, Indices]:
    """Return 1797 handwritten digits of 8 by 8 pixels from 0 to 16, and which digit each is.

    >>> X, y = digits()
    >>> X.shape, X.max(), np.bincount(y).min()
    ((1797, 64), np.float64(16.0), np.int64(174))
    """
    return _load("load_digits")


def _load(name: str) -> tuple[Matrix, Indices]:
    extras.need("data", what="This dataset")
    from sklearn import datasets

    found: tuple[Any, Any] = getattr(datasets, name)(return_X_y=True)
    y = np.array(found[1], dtype=np.intp)
    y.setflags(write=False)
    return frozen(found[0]), y
