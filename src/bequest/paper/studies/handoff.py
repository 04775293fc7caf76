"""The hand-off as the paper prints it, against the exact one, for both anchors."""

from __future__ import annotations

from bequest.engines import Vector
from bequest.model import wills
from bequest.paper.printed import PrintedHandoff
from bequest.paper.studies import setups
from bequest.paper.studies.study import Findings, Study, seeded

DEPARTURES = (300, 600, 900, 1200)
ROUNDS = 2600


def measure(*, seed: int) -> Findings:
    """Return the invariant's gap and the error, round by round, for the four combinations."""
    setup = setups.section51(seed)
    leaving = setup.worst_leave(DEPARTURES)
    arrays, facts = {}, {}
    for anchor, will in (("consensus", wills.Consensus()), ("local", wills.LocalTrack())):
        for handoff, engine in (("exact", Vector()), ("printed", PrintedHandoff())):
            name = f"{anchor}, {handoff}"
            run = setup.run(will, leaving, rounds=ROUNDS, engine=engine)
            arrays[f"gap {name}"] = run.invariant_gap
            arrays[f"error {name}"] = run.error
            offset = run.x.mean(axis=0) - run.surrogate_minimiser
            facts[name] = {
                "gap": float(run.invariant_gap[-1]),
                "from limit": float((offset @ offset) ** 0.5),
                "error": float(run.error[-1]),
                "bias": setups.bias(run),
            }
    return Findings(arrays, {"combinations": facts, "departures": list(DEPARTURES)})


STUDY = Study("handoff", tuple(seeded(setups.SEEDS)), measure)
