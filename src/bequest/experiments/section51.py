"""Sec. 5.1: four nodes leave a network of twenty quadratics, under every will of the paper.

The four are the most heterogeneous ones, so that forgetting them hurts most. Only the will
differs between the runs: problem, graph, step and departures are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bequest.model import events, graphs, problems, wills
from bequest.solver import GradientTracking, calibrate, solve

if TYPE_CHECKING:
    from collections.abc import Callable

    from bequest.model.run import Run
    from bequest.model.wills import Will

NODES = 20
DIM = 10
CURVATURE = (1.0, 10.0)
CHORDS = 15
STEP = 0.02
DEPARTURES = (300, 600, 900, 1200)
ROUNDS = 2600

BASELINE = "classic"
WILLS: dict[str, Will] = {
    BASELINE: wills.Classic(),
    "forgetful": wills.Forgetful(),
    "local track (GT-M)": wills.LocalTrack(),
    "point only (GT-P)": wills.PointOnly(),
    "point only, no cap": wills.PointOnly(cap=None),
    "consensus (GT-C)": wills.Consensus(),
    "adaptive (Legacy-GT)": wills.Adaptive(rule="certified"),
}


def runs(seed: int, *, progress: Callable[[int], None] | None = None) -> dict[str, Run]:
    """Run the study once.

    Args:
        seed: of the problem and of the chords.
        progress: called with the number of runs completed.

    Returns:
        The run of every will, by its name.

    >>> study = runs(seed=7)
    >>> study["point only, no cap"].status
    <Status.DIVERGED: 'diverged'>
    >>> bool(study["adaptive (Legacy-GT)"].error[-1] < 1e-6 < study[BASELINE].error[-1])
    True
    """
    mu, L = CURVATURE
    problem = problems.quadratics(n=NODES, dim=DIM, mu=mu, L=L, seed=seed)
    graph = graphs.ring_with_chords(NODES, chords=CHORDS, seed=seed)
    leaving = events.most_heterogeneous(problem, rounds=DEPARTURES)
    method = GradientTracking(step=STEP)
    pilot = calibrate(problem, graph, rounds=max(DEPARTURES), method=method)
    results = {}
    for name, will in WILLS.items():
        results[name] = solve(
            problem,
            graph,
            departures=leaving,
            will=will,
            method=method,
            rounds=ROUNDS,
            pilot=pilot,
        )
        if progress is not None:
            progress(len(results))
    return results
