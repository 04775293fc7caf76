"""prop:pointonly: the floor that the cap puts under GT-P, and what happens without a cap."""

from __future__ import annotations

import numpy as np

from bequest.model import wills
from bequest.paper.studies import setups
from bequest.paper.studies.study import Findings, Study, seeded

TIMES = (10, 20, 40, 80, 120, 160, 240, 320, 480)
CAPS = (0.05, 0.5, None)


def measure(*, seed: int) -> Findings:
    """Return GT-P's bias for every departure round and cap; one node leaves."""
    setup = setups.section51(seed)
    problem = setup.problem
    pilot = setup.pilot(max(TIMES))
    bias = np.empty((len(CAPS), len(TIMES)))
    statuses: list[list[str]] = []
    for row, cap in enumerate(CAPS):
        statuses.append([])
        for column, t in enumerate(TIMES):
            run = setup.run(
                wills.PointOnly(cap=cap), setup.worst_leave([t]), rounds=t + 400, pilot=pilot
            )
            bias[row, column] = setups.bias(run)
            statuses[-1].append(str(run.status))
    zeta = float(problem.heterogeneity().max())
    floors = [
        None if cap is None else zeta / ((problem.n - 1) * problem.mu + cap / setup.step)
        for cap in CAPS
    ]
    forgetting = setups.bias(setup.run(wills.Classic(), setup.worst_leave([10]), rounds=10))
    return Findings(
        {"bias": bias, "times": np.array(TIMES)},
        {
            "caps": list(CAPS),
            "statuses": statuses,
            "floors": floors,
            "classic": forgetting,
            "pilot": {"radius": pilot.radius, "theta": pilot.theta},
        },
    )


STUDY = Study("point-only", tuple(seeded(setups.SEEDS)), measure)
