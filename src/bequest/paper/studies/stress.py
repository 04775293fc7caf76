"""tab:stress: shared ill-conditioning and early mass departures, where Legacy-GT is not exact."""

from __future__ import annotations

from bequest.model import wills
from bequest.paper.studies import setups
from bequest.paper.studies.study import Findings, Study, seeded

# (kappa, k, t1), as in the table's rows
ROWS = ((10, 4, 50), (30, 8, 50), (100, 8, 50), (100, 12, 50), (100, 12, 800))


def measure(*, kappa: int, k: int, t1: int, seed: int) -> Findings:
    """Return where every will's survivors end."""
    setup = setups.stress(kappa, seed)
    rounds = setups.spaced(t1, k)
    leaving = setup.worst_leave(rounds)
    compared = {
        "classic": wills.Classic(),
        "GT-C": wills.Consensus(),
        "Legacy-GT": wills.Adaptive(rule="oracle"),
        "Legacy-GT, certified": wills.Adaptive(rule="certified"),
    }
    pilot = setup.pilot(rounds[-1])
    facts = {}
    for name, will in compared.items():
        run = setup.run(will, leaving, rounds=rounds[-1], pilot=pilot)
        facts[name] = {"bias": setups.bias(run), "choices": setups.choices(run)}
    return Findings({}, {"methods": facts, "k_beta": k * (kappa - 1) / (2 * setups.NODES)})


STUDY = Study(
    "stress",
    tuple(case for kappa, k, t1 in ROWS for case in seeded(setups.SEEDS, kappa=kappa, k=k, t1=t1)),
    measure,
)
