"""Which rule decides best: that from observables, the paper's bounds, or always one branch.

Random nodes leave at every stage of a run. Every rule decides from the same estate, and hindsight
judges: how far does each branch really move the optimum?
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bequest.model import graphs, wills
from bequest.model.events import Departure
from bequest.model.hindsight import Hindsight
from bequest.model.objectives import Logistic
from bequest.model.optima import Optima
from bequest.model.problem import Problem
from bequest.model.wills import Bequest, Branch, Estate, Will
from bequest.model.wills.adaptive import BRANCHES
from bequest.paper.studies import real, setups
from bequest.paper.studies.study import Case, Findings, Study

SEEDS = 20
LEAVERS, GAP = 3, 20
EXITS = (10, 15, 25, 40, 60, 100, 200, 400)
PAPER_BRANCHES: tuple[Branch, ...] = ("consensus", "local", "none")
RULES: dict[str, Will] = {
    "observed": wills.Adaptive(vectors=2, branches=PAPER_BRANCHES),
    "certified": wills.Adaptive(rule="certified"),
    "paper's oracle": wills.Adaptive(rule="oracle"),
    "observed, with drift": wills.Adaptive(vectors=2, branches=BRANCHES),
}


def logistic(heterogeneity: float, seed: int) -> setups.Setup:
    """Return ten silos with logistic losses of 20 to 80 samples, more or less alike."""
    rng = np.random.default_rng(seed)
    n, dim = 10, 8
    losses, common = [], rng.standard_normal(dim)
    for _ in range(n):
        m = int(rng.integers(20, 80))
        scales = np.exp(rng.normal(0, 0.5, dim))
        X = rng.standard_normal((m, dim)) * scales + heterogeneity * rng.standard_normal(dim)
        truth = common + heterogeneity * rng.standard_normal(dim)
        y = X @ truth + 0.5 * rng.standard_normal(m) > 0
        losses.append(Logistic(X, y.astype(int), l2=real.L2))
    problem = Problem(losses)
    graph = graphs.ring_with_chords(n, chords=5, seed=seed)
    return setups.Setup(problem, graph, step=0.5 / problem.L)


SETUPS: dict[str, Callable[[int], setups.Setup]] = {
    "quadratic, Sec. 5.1": setups.section51,
    "quadratic, stress 10": lambda seed: setups.stress(10, seed),
    "quadratic, stress 100": lambda seed: setups.stress(100, seed),
    "quadratic, tilt 30": lambda seed: setups.tilted(30, seed),
    "quadratic, tilt 100": lambda seed: setups.tilted(100, seed),
    "logistic, alike": lambda seed: logistic(0.3, seed),
    "logistic, different": lambda seed: logistic(1.0, seed),
    "logistic, very different": lambda seed: logistic(2.0, seed),
    "logistic, breast cancer": lambda _: real.setup_of("breast-cancer"),
    "logistic, digits": lambda _: real.setup_of("digits"),
}


@dataclass(frozen=True)
class _Panel(Will):
    """Puts one decision to every rule, notes what they say, and leaves a consensus legacy."""

    judge: Hindsight
    decisions: list[dict[str, object]] = field(default_factory=list)
    label: ClassVar[str] = "panel"
    needs_pilot = True  # for the certified rule
    needs_oracle = True  # for the paper's oracle
    needs_history = True  # for the observed rule

    def decide(self, estate: Estate) -> Bequest:
        """Note what every rule would do."""
        said = {name: rule.decide(estate) for name, rule in RULES.items()}
        branches = said["observed, with drift"].branches
        self.decisions.append(
            {
                "round": estate.round,
                "choices": {name: bequest.choice for name, bequest in said.items()},
                "hindsight": self.judge.displacements(estate.node, branches),
            }
        )
        return wills.Consensus().decide(estate)


def measure(*, setup: str, seed: int) -> Findings:
    """Return every decision of this seed, at every stage."""
    scene = SETUPS[setup](seed)
    n = scene.problem.n
    rng = np.random.default_rng([seed, list(SETUPS).index(setup)])
    pilot = scene.pilot(max(EXITS) + LEAVERS * GAP)
    all_nodes = frozenset(range(scene.problem.n))
    optima = Optima(scene.problem, {0: all_nodes}, scene.problem.optimum())
    panel = _Panel(Hindsight(scene.problem, all_nodes, optima, 0))
    for first in EXITS:
        nodes = rng.permutation(n)[:LEAVERS].tolist()
        leaving = [Departure(node, first + GAP * m) for m, node in enumerate(nodes)]
        scene.run(panel, leaving, rounds=leaving[-1].round, pilot=pilot)
    return Findings({}, {"decisions": panel.decisions})


STUDY = Study(
    "rules",
    tuple(
        Case(
            f"{name.replace(', ', '-').replace(' ', '-').replace('.', '')}_seed-{seed:02d}",
            {"setup": name, "seed": seed},
        )
        for name in SETUPS
        for seed in range(SEEDS)
    ),
    measure,
    needs=("data",),
)
