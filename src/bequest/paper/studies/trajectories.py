"""fig:traj: the five methods over 2600 rounds while four of twenty nodes leave."""

from __future__ import annotations

from bequest.paper.studies import setups
from bequest.paper.studies.study import Findings, Study, seeded

DEPARTURES = (300, 600, 900, 1200)
ROUNDS = 2600


def measure(*, seed: int) -> Findings:
    """Return the error of every method, round by round."""
    setup = setups.section51(seed)
    leaving = setup.worst_leave(DEPARTURES)
    pilot = setup.pilot(max(DEPARTURES))
    arrays, facts = setups.follow(setup, leaving, rounds=ROUNDS, pilot=pilot)
    return Findings(arrays, {"methods": facts, "departures": list(DEPARTURES)})


STUDY = Study("trajectories", tuple(seeded(setups.SEEDS)), measure)
