"""The items of the paper, and what goes beyond it, in the order of the report."""

from __future__ import annotations

from bequest.paper.report.sections import (
    beyond,
    compare,
    convex,
    crossover,
    curvature,
    handoff,
    lower_bound,
    point_only,
    real,
    rules,
    stress,
    trajectories,
)

ITEMS = (
    trajectories.ITEM,
    stress.ITEM,
    real.ITEM,
    compare.ITEM,
    curvature.ITEM,
    point_only.ITEM,
    handoff.ITEM,
    lower_bound.ITEM,
    convex.ITEM,
    crossover.ITEM,
    beyond.ITEM,
    rules.ITEM,
)
