"""Losses that are not convex, and runs of six silos that hold them."""

import numpy as np

import bequest as bq

GRAPH = bq.graphs.ring_with_chords(6, chords=3, seed=1)
LEAVER, STEP = 3, 0.05
# With that step the way is a straight one for long: half of it in 32 rounds at 64, less than a
# hundredth once the nodes have come to rest.
VERY_EARLY, EARLY, LATE = 20, 90, 700
QUADRATICS = [
    bq.wills.Consensus(),
    bq.wills.LocalTrack(),
    bq.wills.Drift(),
    bq.wills.Drift(2),
    bq.wills.FullHessian(),
    bq.wills.Budget(4),
    bq.wills.Trust(),
    bq.wills.Adaptive(),
]


def dent(centre, scale=1.0):
    """Return a loss that is flat far away from its centre, and bent upwards only near it."""

    def value_and_grad(x):
        u = x - centre
        slope = u / (1 + u**2 / 2)
        return scale * float(np.log1p(u**2 / 2).sum()), scale * slope

    return bq.Function(value_and_grad, dim=4, curvature=(-scale / 8, scale))


def problem(*, alike, scale=1.0):
    """Return six silos whose ways are one, or of which node 3 wants to go elsewhere."""
    rng = np.random.default_rng(0)
    ahead, aside = np.array([5.0, 4.0, 0.0, 0.0]), np.array([-2.0, 0.0, 4.0, 4.0])
    centres = [ahead + 0.1 * rng.standard_normal(4) for _ in range(6)]
    if not alike:
        centres[LEAVER] = aside
    return bq.Problem([dent(centre, scale) for centre in centres])


def left(will, leaves, *, alike, scale=1.0, engine=None, departures=None, after=5):
    run = bq.solve(
        problem(alike=alike, scale=scale),
        GRAPH,
        departures=departures or [bq.Departure(LEAVER, leaves)],
        will=will,
        method=bq.GradientTracking(step=STEP / scale),
        rounds=leaves + after,
        start=np.zeros(4),
        engine=engine,
    )
    assert run.invariant_gap.max() < 1e-12 * scale
    return run


class Insistent(bq.wills.Consensus):
    """The paper's quadratic, in any case and as it is."""

    insists = True
