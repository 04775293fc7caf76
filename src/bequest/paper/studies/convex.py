"""thm:cvx: losses with no strong convexity, until a node leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from bequest.model import graphs, wills
from bequest.model.objectives import LeastSquares
from bequest.model.problem import Problem
from bequest.paper.studies import setups
from bequest.paper.studies.study import Findings, Study, seeded

FIRST, ROUNDS, DIM = 1500, 5000, 12
SIZES = tuple(np.geomspace(1e-4, 1.0, 9))


def problem_of(seed: int) -> Problem:
    """Return least squares with one sample per node: each is flat in all directions but one.

    Twenty of them in twelve dimensions leave the sum barely curved in some directions, so that
    the network converges slowly by itself.
    """
    rng = np.random.default_rng(seed)
    scales = np.geomspace(1.0, 0.5, DIM)
    X = rng.standard_normal((setups.NODES, DIM)) * scales
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.standard_normal(setups.NODES)
    return Problem([LeastSquares(x[None], [t]) for x, t in zip(X, y, strict=True)])


def measure(*, seed: int) -> Findings:
    """Return value gaps round by round, and the value gap against the anchor's error."""
    problem = problem_of(seed)
    graph = graphs.ring_with_chords(setups.NODES, chords=setups.CHORDS, seed=seed)
    setup = setups.Setup(problem, graph, step=0.2 / problem.L)
    optimum = problem.optimum()
    best = problem.value(optimum)
    leaving = setup.worst_leave([FIRST])
    arrays: dict[str, np.ndarray] = {}
    facts: dict[str, dict[str, Any]] = {}
    for name, will in (("classic", wills.Classic()), ("Legacy-GT", wills.Adaptive(rule="oracle"))):
        run = setup.run(will, leaving, rounds=ROUNDS)
        arrays[f"gradient {name}"] = run.trajectory.gradient_norm
        facts[name] = {
            "value gap": problem.value(run.limit) - best,
            "rate": rate(run.trajectory.gradient_norm[FIRST + 100 :]),
        }
        if name == "Legacy-GT":
            facts["bounds"] = {
                bound.label: [bound.measured, bound.promised, bound.holds]
                for bound in run.certificate
                if bound.label.startswith(("thm:cvx", "prop:certC"))
            }
    undisturbed = setup.run(wills.Classic(), [], rounds=ROUNDS)
    arrays["gradient nobody leaves"] = undisturbed.trajectory.gradient_norm
    facts["nobody leaves"] = {"rate": rate(undisturbed.trajectory.gradient_norm[FIRST + 100 :])}
    arrays["anchor error"], arrays["value gap"] = np.array(SIZES), _gaps(problem, seed, best)
    return Findings(arrays, {"runs": facts, "departure": FIRST})


def rate(norms: np.ndarray) -> float:
    """Return the average factor per round by which a gradient norm falls, while it does."""
    falling = norms[norms > 1e-13 * max(norms[0], 1e-300)]
    if falling.size < 2:
        return 0.0
    return float((falling[-1] / falling[0]) ** (1 / (falling.size - 1)))


def _gaps(problem: Problem, seed: int, best: float) -> np.ndarray:
    """Return F(limit) - F* when one node's anchor is off by every size."""
    direction = setups.offset(seed, DIM)
    leaver, rest = problem.objective(0), problem.among(range(1, problem.n))
    gaps = []
    for size in SIZES:
        y = problem.optimum() + size * direction
        legacy = setups.legacy_of(leaver, y, leaver.curvature.midpoint)
        gaps.append(problem.value(rest.minimiser(legacy)) - best)
    return np.array(gaps)


STUDY = Study("convex", tuple(seeded(setups.SEEDS)), measure)
