"""Sec. Conclusion: from which departure round on a legacy pays."""

from __future__ import annotations

import numpy as np

from bequest.paper.studies import setups
from bequest.paper.studies.study import Findings, Study, seeded

TIMES = (1, 2, 5, 10, 20, 40, 80, 160, 320)
DEPARTURES = 4


def measure(*, setup: str, seed: int) -> Findings:
    """Return every method's bias against the round of the first of four departures."""
    made = setups.section51(seed) if setup == "section51" else setups.stress(100, seed)
    pilot = made.pilot(max(TIMES) + setups.GAP * DEPARTURES)
    arrays, choices = {}, []
    for name, will in setups.PAPER.items():
        bias = np.empty(len(TIMES))
        for index, t1 in enumerate(TIMES):
            rounds = setups.spaced(t1, DEPARTURES)
            run = made.run(will, made.worst_leave(rounds), rounds=rounds[-1], pilot=pilot)
            bias[index] = setups.bias(run)
            if name == "Legacy-GT":
                choices.append(setups.choices(run))
        arrays[name] = bias
    return Findings({**arrays, "times": np.array(TIMES)}, {"choices": choices})


STUDY = Study(
    "crossover",
    tuple(
        case for setup in ("section51", "stress100") for case in seeded(setups.SEEDS, setup=setup)
    ),
    measure,
)
