"""Three small real datasets, which scikit-learn ships inside its package, and a made one.

Nothing is downloaded. scikit-learn is imported only while it loads a dataset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bequest import extras
from bequest.core.arrays import frozen
from bequest.errors import InvalidData

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


def wine() -> tuple[Matrix, Indices]:
    """Return 178 wines, 13 measurements each, and which of three growers each is from.

    >>> X, y = wine()
    >>> X.shape, np.bincount(y).tolist()
    ((178, 13), [59, 71, 48])
    """
    return _load("load_wine")


# Six hospitals, each with its share of the patients and its mix of wards.
_HOSPITALS = {
    "bonn": (0.34, (0.2, 0.3, 0.5, 0.0)),
    "charite": (0.26, (0.3, 0.4, 0.3, 0.0)),
    "lyon": (0.18, (0.1, 0.3, 0.5, 0.1)),
    "oslo": (0.12, (0.2, 0.5, 0.3, 0.0)),
    "rome": (0.07, (0.1, 0.2, 0.7, 0.0)),
    "turku": (0.03, (0.4, 0.3, 0.3, 0.0)),
}
_WARDS = ("icu", "surgery", "medicine", "maternity")


def hospitals(rows: int = 1200, *, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Return made patients of six unequal hospitals: numbers and categories, some of them missing.

    Numbers that are missing are NaN, categories that are missing are empty. Rome never measures
    lactate, and Lyon alone has a maternity ward. ``died`` follows a logistic model of the others,
    with an age of its own per hospital.

    Args:
        rows: how many patients; at least 200, so that every hospital has some.
        seed: of the draw.

    >>> table = hospitals(300, seed=1)
    >>> list(table)
    ['hospital', 'age', 'pulse', 'lactate', 'creatinine', 'sex', 'ward', 'admitted', 'died']
    """
    if rows < 200:
        raise InvalidData(f"rows is {rows}.", remedy="Ask for at least 200 patients.")
    rng = np.random.default_rng(seed)
    names, shares = np.array([*_HOSPITALS]), [share for share, _ in _HOSPITALS.values()]
    place = rng.choice(len(names), rows, p=shares)
    place[: 2 * len(names)] = np.arange(2 * len(names)) % len(names)
    wards = np.array([rng.choice(4, p=_HOSPITALS[names[one]][1]) for one in place])
    age = rng.normal(58.0 + 3.0 * place, 14.0).clip(18, 98).round(1)
    pulse = rng.normal(82.0, 12.0, rows).round()
    lactate = rng.lognormal(0.5 + 0.4 * (wards == 0), 0.5).round(2)
    creatinine = rng.lognormal(0.0, 0.4, rows).round(2)
    sex = rng.choice(["f", "m"], rows)
    admitted = rng.choice(["emergency", "planned", "transfer"], rows, p=[0.5, 0.4, 0.1])
    risk = 0.06 * (age - 62) + 0.03 * (pulse - 82) + 0.7 * (lactate - 2) + 0.5 * (creatinine - 1)
    risk += np.array([0.9, 0.2, -0.3, -1.5])[wards] + 0.8 * (admitted == "emergency") - 1.2
    died = np.where(rng.random(rows) < 1 / (1 + np.exp(-risk)), "yes", "no")
    lactate[(rng.random(rows) < 0.15) | (names[place] == "rome")] = np.nan
    creatinine[rng.random(rows) < 0.05] = np.nan
    admitted[rng.random(rows) < 0.08] = ""
    return {
        "hospital": names[place],
        "age": age,
        "pulse": pulse,
        "lactate": lactate,
        "creatinine": creatinine,
        "sex": sex,
        "ward": np.array(_WARDS)[wards],
        "admitted": admitted,
        "died": died,
    }


def _load(name: str) -> tuple[Matrix, Indices]:
    extras.need("data", what="This dataset")
    from sklearn import datasets

    found: tuple[Any, Any] = getattr(datasets, name)(return_X_y=True)
    y = np.array(found[1], dtype=np.intp)
    y.setflags(write=False)
    return frozen(found[0]), y
