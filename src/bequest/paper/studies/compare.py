"""tab:compare: the error, the bound and the message size of every variant."""

from __future__ import annotations

from bequest.paper.studies import setups
from bequest.paper.studies.study import Findings, Study, seeded

# which bound of a certificate is the table's row for the method
PROMISES = {
    "classic": "tight",
    "GT-P": "prop:pointonly (capped)",
    "GT-M": "thm:main",
    "GT-C": "thm:main",
    "Legacy-GT": "thm:main",
}


def measure(*, t1: int, seed: int) -> Findings:
    """Return bias, bounds and message sizes of every method."""
    setup = setups.section51(seed)
    rounds = setups.spaced(t1, 4)
    leaving = setup.worst_leave(rounds)
    pilot = setup.pilot(rounds[-1])
    problem = setup.problem
    zeta = float(problem.heterogeneity().max())
    facts = {}
    for name, will in setups.PAPER.items():
        run = setup.run(will, leaving, rounds=rounds[-1], pilot=pilot)
        certificate = run.certificate
        facts[name] = {
            "bias": setups.bias(run),
            "promised": certificate[PROMISES[name]].promised,
            "tight": certificate["tight"].promised,
            **setups.largest(run),
        }
    # eq:dropbias, k zeta/(n mu), is the printed row of the classic method
    facts["classic"]["promised"] = len(rounds) * zeta / (problem.n * problem.mu)
    return Findings({}, {"methods": facts})


STUDY = Study(
    "compare",
    tuple(case for t1 in (50, 300) for case in seeded(setups.SEEDS, t1=t1)),
    measure,
)
