"""How nodes iterate if nothing is said about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.core.methods import NIDS, GradientTracking
from bequest.model.objectives.minibatches import Sampled

if TYPE_CHECKING:
    from bequest.core.methods import Method
    from bequest.model.objectives.base import Stack
    from bequest.model.problem import Problem

# A matrix per node is cheap up to this dimension, and up to so many numbers in all (128 MB).
_MOST_UNKNOWNS, _MOST_NUMBERS = 200, 2**24
# A curvature that was only estimated may be too small by this factor.
_DOUBT = 0.5


def default_method(problem: Problem) -> Method:
    """Return NIDS, with what is known of the losses; or gradient tracking where they want that.

    Its metric is a matrix where losses have a bound on their Hessian by a formula, and matrices are
    cheap; elsewhere a number. (Losses on their hosts count as unknown: a run must not depend on
    whether they have been loaded.) Where curvatures are estimates, it keeps twice the distance from
    what would be unstable.

    NIDS takes the longest steps that are stable, too long for plain minibatches: gradient tracking
    bears them better. Where all samples are taken now and then, the noise goes away at the optimum,
    and NIDS is the better one again (``python benchmarks/minibatches.py``). On losses that are not
    convex NIDS has not been tried.
    """
    stacks = [stack for _, stack in problem.stacks]
    if problem.mu < 0 or any(_stays_noisy(stack) for stack in stacks):
        return GradientTracking()
    formulas = any(stack.at_hand and np.isfinite(stack.hessian_work) for stack in stacks)
    small = problem.dim <= _MOST_UNKNOWNS and problem.n * problem.dim**2 <= _MOST_NUMBERS
    if not problem.certified:
        return NIDS(safety=_DOUBT)
    return NIDS(metric="hessian" if formulas and small and not problem.away else "scalar")


def _stays_noisy(stack: Stack) -> bool:
    """Return whether gradients of some member are as noisy at the optimum as anywhere."""
    if not (stack.at_hand and stack.is_stochastic):
        return False
    members = (stack.member(row) for row in range(stack.shape[0]))
    return any(isinstance(one, Sampled) and one.full_every is None for one in members)
