"""lem:center: how wrong a legacy is for every curvature between mu and L, and where it ends."""

from __future__ import annotations

import numpy as np

from bequest.core.arrays import norm
from bequest.model import problems
from bequest.paper.studies import setups
from bequest.paper.studies.study import Findings, Study, seeded

MU, L, GRID = 1.0, 10.0, 46


def measure(*, basis: problems.Basis, seed: int) -> Findings:
    """Return the gradient error at unit distance and the bias, over a grid of curvatures.

    One node leaves; its anchor lies at distance 1 from x*, in a random direction.
    """
    problem = problems.quadratics(
        n=setups.NODES, dim=setups.DIM, mu=MU, L=L, seed=seed, basis=basis, spectrum="linear"
    )
    leaver, optimum = problem.objective(0), problem.optimum()
    anchor, rest = optimum + setups.offset(seed, setups.DIM), problem.among(range(1, problem.n))
    grid = np.linspace(MU, L, GRID)
    mismatch, bias = np.empty(GRID), np.empty(GRID)
    for index, eta in enumerate(grid):
        legacy = setups.legacy_of(leaver, anchor, float(eta))
        hessian = leaver.hessian(anchor)
        mismatch[index] = np.linalg.norm(hessian - eta * np.eye(setups.DIM), 2)
        bias[index] = norm(rest.minimiser(legacy) - optimum)
    worst = np.maximum(L - grid, grid - MU)
    return Findings(
        {
            "eta": grid,
            "mismatch": mismatch,
            "bias": bias,
            "promised mismatch": worst,
            "promised bias": worst / ((setups.NODES - 1) * MU + grid),
        },
        {"best eta": float(grid[np.argmin(bias)]), "midpoint": (MU + L) / 2},
    )


STUDY = Study(
    "curvature",
    tuple(case for basis in ("random", "shared") for case in seeded(setups.SEEDS, basis=basis)),
    measure,
)
