"""The silo that took digit 7 with it.

Ten silos hold one handwritten digit each and learn together to tell all ten apart, by softmax
regression. Then 7, 3 and 8 leave for good, late or early. Which digits do the others still
recognise?

All samples have the same weight: every loss is divided by the mean size of a silo.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bequest import datasets
from bequest.core.methods import GradientTracking
from bequest.data import Exam
from bequest.model import graphs, partition, wills
from bequest.model.events import Departure
from bequest.model.objectives import Softmax
from bequest.model.problem import Problem
from bequest.solver import solve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bequest.data import Score
    from bequest.model.run import Run
    from bequest.model.wills import Will

    # called with a part of the work and its size; returns a function to report progress with
    Watch = Callable[[str, int], Callable[[int], None]]

DIGITS = tuple(range(10))
LEAVERS = (7, 3, 8)
SCHEDULES = {"late": (300, 600, 900), "early": (50, 100, 150)}
# title -> will, by size; the one that forgets comes first, the default last
WILLS: Mapping[str, Will] = {
    will.title: will
    for will in (
        wills.Classic(),
        wills.Adaptive(rule="certified"),
        wills.Drift(),
        wills.Drift(rank=4),
        wills.Adaptive(),
    )
}
CHORDS = 6
L2 = 0.01
TEST_FRACTION = 0.3
ROUNDS = 4000


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """The run of one will under one schedule, and its score.

    ``score`` is that of the mean of the survivors' models; ``unsettled`` counts the test images
    that the limit of the run (``run.limit``) would classify differently.
    """

    schedule: str
    will: str
    run: Run
    score: Score
    unsettled: int

    @property
    def sent(self) -> tuple[float, int]:
        """The largest farewell: how many vectors it carried, and its payload in bytes."""
        records = self.run.departures
        return max(one.vectors for one in records), max(one.bytes for one in records)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The score of the optimum of all the data, and the runs to compare with it."""

    exam: Exam
    nobody_left: Score
    runs: tuple[ScoredRun, ...]

    def under(self, schedule: str) -> list[ScoredRun]:
        """Return the runs of one schedule."""
        return [run for run in self.runs if run.schedule == schedule]


def setting(seed: int) -> tuple[Problem, Exam]:
    """Return ten silos that hold 70% of one digit each, and the other 30% to test on."""
    pixels, digit = datasets.digits()
    X = np.column_stack([pixels / 16, np.ones(digit.size)])
    learn, test = partition.holdout(digit, TEST_FRACTION, seed)
    silos = [learn[rows] for rows in partition.by_label(digit[learn], len(DIGITS))]
    divisor = learn.size / len(silos)
    problem = Problem(
        [Softmax(X[rows], digit[rows], len(DIGITS), L2, divisor=divisor) for rows in silos]
    )
    return problem, Exam(X[test], digit[test], tuple(map(str, DIGITS)), "test")


def work() -> int:
    """Return how many rounds all runs together have."""
    return len(SCHEDULES) * len(WILLS) * ROUNDS


def study(seed: int, *, watch: Watch | None = None) -> Comparison:
    """Run each will once under each schedule; ``watch`` hears about the rounds of every run.

    The seed is that of the chords, and of the choice of test images.
    """
    problem, exam = setting(seed)
    graph = graphs.ring_with_chords(len(DIGITS), chords=CHORDS, seed=seed)
    method = GradientTracking()
    runs = []
    for schedule, rounds in SCHEDULES.items():
        leaving = [Departure(node, t) for node, t in zip(LEAVERS, rounds, strict=True)]
        for name, will in WILLS.items():
            progress = watch(f"{name}, {schedule}", ROUNDS) if watch is not None else None
            run = solve(
                problem,
                graph,
                departures=leaving,
                will=will,
                method=method,
                rounds=ROUNDS,
                progress=progress,
            )
            runs.append(scored(schedule, name, run, exam))
    return Comparison(exam, exam.score(problem.optimum()), tuple(runs))


def scored(schedule: str, will: str, run: Run, exam: Exam) -> ScoredRun:
    """Score the result of a run."""
    model = run.raise_for_status().x.mean(axis=0)
    moved = exam.predict(model) != exam.predict(run.limit)
    return ScoredRun(schedule, will, run, exam.score(model), int(moved.sum()))
