"""fig:real: logistic regression on two datasets; the three most different of ten silos leave."""

from __future__ import annotations

from bequest import datasets
from bequest.model import graphs, partition
from bequest.model.objectives import Logistic
from bequest.model.problem import Problem
from bequest.paper.studies import setups
from bequest.paper.studies.study import Case, Findings, Study

SILOS, L2 = 10, 0.05
# dataset -> round of the first departure, gap, rounds
SCHEDULES = {"breast-cancer": (100, setups.GAP, 3000), "digits": (1000, setups.GAP, 6000)}


def setup_of(dataset: str) -> setups.Setup:
    """Return the ten silos: standardised, sorted by label and first component, then cut."""
    if dataset == "breast-cancer":
        X, y = datasets.breast_cancer()
    else:
        X, digit = datasets.digits()
        y = digit % 2
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / (spread + (spread == 0))
    silos = partition.sorted_chunks(y, partition.first_component(X), n=SILOS)
    problem = Problem([Logistic(X[rows], y[rows], l2=L2) for rows in silos])
    return setups.Setup(
        problem, graphs.ring_with_chords(SILOS, chords=5, seed=0), step=0.5 / problem.L
    )


def measure(*, dataset: str) -> Findings:
    """Return the error of every method, round by round."""
    setup = setup_of(dataset)
    first, gap, rounds = SCHEDULES[dataset]
    times = [first, first + gap, first + 2 * gap]
    leaving = setup.worst_leave(times)
    pilot = setup.pilot(times[-1])
    arrays, facts = setups.follow(setup, leaving, rounds=rounds, pilot=pilot)
    kappas = setup.problem.b / setup.problem.a
    return Findings(
        arrays, {"methods": facts, "departures": times, "kappa": [float(k) for k in kappas]}
    )


STUDY = Study(
    "real", tuple(Case(name, {"dataset": name}) for name in SCHEDULES), measure, needs=("data",)
)
