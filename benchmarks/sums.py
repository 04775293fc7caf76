"""What it costs to find the last digits by sums of the silos, on digits (650 unknowns).

    python benchmarks/sums.py

Five unequal silos, ten rounds; then Newton steps by sums (``bequest.phases.newton``), and the same
minimiser from the rows of all silos in one place. Printed: how many sums, of how many numbers per
silo at most, the time of one over the other, and how far the two are apart.
"""

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from bequest import phases
from bequest.sklearn import SiloLogisticRegression


def measure(strength: float) -> dict[str, float]:
    """Return these numbers for one strength of the penalty."""
    X, y = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    silos = np.random.default_rng(0).choice(5, y.size, p=np.arange(1, 6) / 15)
    model = SiloLogisticRegression(C=strength, rounds=10).fit(X, y, silos=silos)
    assert model.finished_by_ == "sums"
    began = time.process_time()
    found = phases.newton(model.run_)
    by_sums = time.process_time() - began
    began = time.process_time()
    limit = model.run_.limit
    here = time.process_time() - began
    return {
        "C": strength,
        "sums": found.sums,
        "numbers": found.numbers,
        "times as long": by_sums / here,
        "apart": float(np.abs(found.x - limit).max()),
    }


if __name__ == "__main__":
    for strength in (1e-3, 1.0, 1e3):
        print(", ".join(f"{name} {value:.4g}" for name, value in measure(strength).items()))
