"""Why the default method is seldom, and then far, worse than gradient tracking: two instances."""

from dataclasses import replace

import numpy as np
import pytest

from bequest.core.arrays import norm
from bequest.core.methods import NIDS, GradientTracking
from bequest.model import wills
from bequest.model.wills import drift
from bequest.paper.studies import hostile

TRACKING, MATRICES = GradientTracking(), NIDS(metric="hessian")


def left(instance, method, will=None):
    """Return how far the survivors' optimum is from all those of all nodes, of the start."""
    run = instance.run(will or wills.Adaptive(), method)
    off = run.surrogate_minimiser - instance.optimum
    return norm(instance.curved.T @ off) / instance.scale


def test_where_the_default_method_is_37_times_worse_every_farewell_alone_is_better():
    """With gradient tracking the errors of three memories happen to cancel."""
    one = hostile.instance(60_169, convex=True)
    assert left(one, MATRICES) > 3 * left(one, TRACKING)
    for leaver in one.departures:
        alone = replace(one, departures=(leaver,))
        found = left(alone, TRACKING), left(alone, MATRICES)
        print(leaver, *(f"{error:.2g}" for error in found))
        assert found[1] < found[0]


def test_a_flat_direction_of_the_sketch_limits_the_curvature_elsewhere(monkeypatch):
    one = hostile.instance(10_089)
    limited = left(one, MATRICES)
    monkeypatch.setattr(drift, "_BELOW", np.inf)
    print(f"{limited:.2g} {left(one, MATRICES):.2g}, {left(one, TRACKING):.2g}")
    assert left(one, MATRICES) < limited / 3


# What was measured is in docs/choosing-a-will.md.
@pytest.mark.slow
@pytest.mark.parametrize("method", [TRACKING, MATRICES], ids=["tracking", "matrices"])
def test_elsewhere_the_limit_helps(method, monkeypatch):
    large = (hostile.instance(seed, large=True) for seed in hostile.DEV)
    early = [one for one, _ in zip((o for o in large if o.first <= 30), range(40), strict=False)]
    best = [
        min(left(one, TRACKING, will) for will in (wills.Forgetful(), wills.Consensus()))
        for one in early
    ]
    limited = np.array([left(one, method) for one in early])
    monkeypatch.setattr(drift, "_BELOW", np.inf)
    free = np.array([left(one, method) for one in early])
    mean = np.exp(np.log(free / limited).mean())
    worst = [float((found / best).max()) for found in (limited, free)]
    print(f"{len(early)} instances: {mean:.2g} in the mean, worst {worst[0]:.2g}, {worst[1]:.2g}")
    assert mean > 1.2
    assert worst[1] > worst[0]
