"""What tells one run from another: the content of everything that determines its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.engines.ray.engine import Ray
from bequest.errors import BequestError
from bequest.model.content import digest, look_into
from bequest.model.objectives import Function
from bequest.version import versions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.arrays import Vector
    from bequest.engines.base import Engine, Plan

# A fingerprint has the losses of consecutive nodes together, so that there are at most this many.
_MOST_GROUPS = 1000
# A function is asked at its start, and this far from it, relative to where that is.
_NEARBY = 0.01
# A part of a fingerprint that is no longer than this is shown.
_SHOWN = 40


def fingerprint(plan: Plan, engine: Engine) -> dict[str, str]:
    """Return what tells a run from any other: what it consists of, in words -> a short text.

    That is a digest of the content, or the value itself where it is short. Where the data are on
    their hosts (``Loaded``) only their loaders and declarations can be told apart from here.
    """
    problem = plan.problem
    whole = {
        "the number of nodes": str(problem.n),
        "the number of unknowns": str(problem.dim),
        "the graph": digest(plan.graph.edges),
        "the schedule": digest(plan.schedule, plan.absent),
        "the neighbours of nodes that arrive": digest(plan.known),
        "the wills": digest(plan.wills),
        "the number of rounds": str(plan.rounds),
        "the step": repr(None if plan.step is None else float(plan.step)),
        "the start": digest(plan.start),
        "the pilot": digest(plan.pilot),
        "the number of buddies": str(plan.buddies),
        "checkpoint_every": str(plan.checkpoint_every),
        "the optimum": digest(plan.optima.how, plan.optima.given),
        "the engine": described(engine),
    }
    whole[_STACKED] = digest(plan.problem.stacks)
    whole |= {f"the version of {name}": version for name, version in versions().items()}
    size = -(-problem.n // _MOST_GROUPS)
    for first in range(0, problem.n, size):
        nodes = range(first, min(first + size, problem.n))
        whole[_loss_of(nodes)] = digest([_loss(plan, node) for node in nodes])
    return whole


def differences(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return what two fingerprints differ in, in words; empty if in nothing."""
    parts = [part for part in {**there, **here} if there.get(part) != here.get(part)]
    losses = [part for part in parts if part.startswith(_LOSS)]
    if losses:
        parts = [part for part in parts if part != _STACKED]  # of course
    if there.get("the number of nodes") != here.get("the number of nodes"):
        losses = []  # of course
    others = [part for part in parts if not part.startswith(_LOSS)]
    told = [_told(part, there.get(part), here.get(part)) for part in others]
    more = f" (and {len(losses) - 3} more)" if len(losses) > 3 else ""
    if losses:
        told.insert(0, ", ".join(losses[:3]) + more)
    return ", ".join(told)


_LOSS = "the loss"
# What is computed with: a loss whose attributes are changed after its problem was made is not.
_STACKED = "the numbers of the problem"


def _loss_of(nodes: range) -> str:
    if len(nodes) == 1:
        return f"{_LOSS} of node {nodes[0]}"
    return f"{_LOSS}es of nodes {nodes[0]} to {nodes[-1]}"


def _told(part: str, there: str | None, here: str | None) -> str:
    short = [value for value in (there, here) if value is not None and len(value) <= _SHOWN]
    if len(short) < 2 or all(_is_digest(value) for value in short):
        return part
    return f"{part} ({there} there, {here} here)"


def _is_digest(value: str) -> bool:
    return len(value) == len(digest()) and set(value) <= set("0123456789abcdef")


def described(engine: Engine) -> str:
    """Return an engine with those of its options that make a difference to the result.

    Where a cluster is, and how long it is waited for, make none.
    """
    if isinstance(engine, Ray):
        placed = None if engine.placement is None else dict(sorted(engine.placement.items()))
        return f"Ray(nodes_per_host={engine.nodes_per_host}, placement={placed})"
    if type(engine).__repr__ is object.__repr__:
        return digest(engine)
    return repr(engine)


def _loss(plan: Plan, node: int) -> str:
    """Return the digest of a node's loss; a function that hides something is asked, too."""
    loss = plan.problem.objective(node)
    known = look_into(loss)
    if not known.opaque or not isinstance(loss, Function):
        return known.digits
    return digest(known.digits, _behaviour(loss, plan.start[node]))


def _behaviour(loss: Function, start: Vector) -> object:
    """Return what a function answers at two points: what it depends on cannot all be seen.

    One that answers differently when it is asked again is not known by its answers.
    """
    length = _NEARBY * (1.0 + float(np.linalg.norm(start)))
    nearby = start + length * np.cos(np.arange(start.size) + 1.0)
    try:
        answers = [loss.evaluate(x) for x in (start, start, nearby)]
    except (ArithmeticError, ValueError, BequestError) as error:
        return type(error).__name__  # it is not defined there
    once, again = (np.append(gradient, value) for value, gradient in answers[:2])
    return answers if np.array_equal(once, again, equal_nan=True) else "stochastic"
