"""What tells one run from another: the content of everything that determines its result."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bequest.core.methods import Method
from bequest.errors import BequestError
from bequest.model.content import digest, look_into
from bequest.model.objectives import Function, Loaded
from bequest.version import versions

if TYPE_CHECKING:
    from bequest.core.arrays import Vector
    from bequest.core.bounds import Pilot
    from bequest.engines.base import Engine
    from bequest.model.plan import Plan

# Parts that are numbers: the size of a run.
NODES, UNKNOWNS, ROUNDS = "the number of nodes", "the number of unknowns", "the number of rounds"
# Losses of consecutive nodes are digested together, in at most this many groups.
_MOST_GROUPS = 1000
# A function is evaluated at a point, and this far from it, relative to its norm.
_NEARBY = 0.01
# And this far, where it may be another one: a bend, a bound, a table that ends.
_FURTHER = (10.0, 1000.0)
# Longer parts of a fingerprint are not shown.
_SHOWN = 80
# The package: of its own classes the name says what they do, and the version is compared.
_OURS = __name__.partition(".")[0]


def fingerprint(plan: Plan, engine: Engine) -> dict[str, str]:
    """Return what identifies a run: its parts, in words -> a short text.

    That is a digest of the content, or the value itself where it is short. Of data on the hosts of
    a cluster (``Loaded``) only the loaders and declarations can be told apart from here.
    """
    problem = plan.problem
    whole = {
        NODES: str(problem.n),
        UNKNOWNS: str(problem.dim),
        "the graph": digest(plan.graph.edges),
        "the schedule": digest(plan.schedule, plan.absent),
        "the neighbours of nodes that arrive": digest(plan.known),
        "the wills": digest(plan.wills),
        ROUNDS: str(plan.rounds),
        "the method": _method(plan.method),
        "the start": digest(plan.start),
        "the pilot": digest(_pilot(plan)),
        "the number of buddies": str(plan.buddies),
        "recall": str(plan.recall),
        "statistics": str(plan.statistics),
        "checkpoint_every": str(plan.checkpoint_every),
        "the optimum": digest(plan.optima.how, plan.optima.given),
        "the engine": _engine(engine),
    }
    whole[_STACKED] = digest(plan.problem.stacks)
    whole |= {f"the version of {name}": version for name, version in versions().items()}
    size = -(-problem.n // _MOST_GROUPS)
    for first in range(0, problem.n, size):
        nodes = range(first, min(first + size, problem.n))
        whole[_loss_of(nodes)] = digest([_loss(plan, node, engine) for node in nodes])
    return whole


def _method(method: Method) -> str:
    """Return one of ours in words, and of another one a digest of its content."""
    if not _is_ours(method):
        return digest(method)
    options = ", ".join(f"{name}={_option(value)}" for name, value in vars(method).items())
    return f"{method.label} ({options})"


def _option(value: object) -> str:
    if isinstance(value, Method):
        return _method(value)
    if isinstance(value, str):
        return value
    return str(float(value)) if isinstance(value, int | float | np.number) else _words(value)


def _engine(engine: Engine) -> str:
    """Return an engine with all of its options but those that say that they have no effect."""
    without: frozenset[str] | None = getattr(engine, "without_effect", None)
    if without is None:
        return digest(engine)
    options = {name: value for name, value in vars(engine).items() if name not in without}
    own = "" if _is_ours(engine) else f" of {digest(type(engine))}"
    return f"{type(engine).__name__}{own}({_pairs(options)})"


def _words(value: object) -> str:
    """Return the content of an option: in words where it is ours and plain, else as a digest.

    Never by the ``repr`` of a class of the user's own, which may tell nothing but an address. Sets
    and mappings are sorted: equal ones may be in different orders.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)
    if isinstance(value, Mapping):
        pairs = sorted((_words(key), _words(one)) for key, one in value.items())
        return "{" + ", ".join(f"{key}: {one}" for key, one in pairs) + "}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(map(_words, value)) + ")"
    if isinstance(value, AbstractSet):
        return "{" + ", ".join(sorted(map(_words, value))) + "}"
    if _is_ours(value) and is_dataclass(value):
        held = {field.name: getattr(value, field.name) for field in fields(value)}
        return f"{type(value).__name__}({_pairs(held)})"
    return digest(value)


def _pairs(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_words(value)}" for name, value in options.items())


def _is_ours(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == _OURS


def differences(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return what two fingerprints differ in, in words; empty if in nothing."""
    parts = [part for part in {**there, **here} if there.get(part) != here.get(part)]
    losses = [part for part in parts if part.startswith(_LOSS)]
    if losses:
        parts = [part for part in parts if part != _STACKED]  # of course
    if there.get(NODES) != here.get(NODES):
        losses = []  # of course
    others = [part for part in parts if not part.startswith(_LOSS)]
    told = [_told(part, there.get(part), here.get(part)) for part in others]
    more = f" (and {len(losses) - 3} more)" if len(losses) > 3 else ""
    if losses:
        told.insert(0, ", ".join(losses[:3]) + more)
    return ", ".join(told)


def without_losses(parts: Mapping[str, str], nodes: Collection[int]) -> dict[str, str]:
    """Return a fingerprint without the losses of these nodes; groups with one of them go whole."""
    if not nodes:
        return dict(parts)
    n = int(parts[NODES])
    size = -(-n // _MOST_GROUPS)
    firsts = {node - node % size for node in nodes}
    gone = {_loss_of(range(first, min(first + size, n))) for first in firsts}
    return {part: value for part, value in parts.items() if part not in gone}


_LOSS = "the loss"
# The numbers that are computed with: a loss may be changed after its problem was made.
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


def described(value: Engine | Method) -> str:
    """Return an engine or a method as a reader may want it: of the user's own by its ``repr``."""
    if not isinstance(value, Method) and hasattr(value, "without_effect"):
        return _engine(value)
    if not _is_ours(value) and type(value).__repr__ is not object.__repr__:
        return repr(value)
    return _words(value)


def _pilot(plan: Plan) -> Pilot | None:
    """Return what the wills use of the pilot: another will of a run file may need more of it."""
    spread = any(will.needs_spread for will in plan.wills.values())
    return plan.pilot if plan.pilot is None or spread else replace(plan.pilot, spread=math.nan)


def _loss(plan: Plan, node: int, engine: Engine) -> str:
    """Return the digest of a node's loss; a function is evaluated, too."""
    loss = plan.problem.objective(node)
    known = look_into(loss)
    if isinstance(loss, Loaded) and not getattr(engine, "loads_elsewhere", False):
        try:
            return digest(known.digits, look_into(loss.load()).digits)
        except Exception as error:  # noqa: BLE001 - a loader may raise anything; so will the run
            return digest(known.digits, type(error).__name__)
    if not isinstance(loss, Function):
        return known.digits
    # Also where its code could be followed: it may read a file, the environment, or a module that
    # it imports when it is called.
    return digest(known.digits, _behaviour(loss, plan.start[node]))


def _behaviour(loss: Function, start: Vector) -> object:
    """Return a function's answers at a few points: its code does not show all it depends on.

    Two points are near the origin, or near the start if it is not defined there; the others are
    further out.
    """
    for around in (np.zeros_like(start), start):
        answers = _answers(loss, around)
        if answers == _STOCHASTIC:
            return answers
        if answers is not None:
            return answers, [_far_answer(loss, around, length) for length in _FURTHER]
    return "not defined"


_STOCHASTIC = "stochastic"


def _answers(loss: Function, around: Vector) -> list[tuple[float, Vector]] | str | None:
    """Return the answers at a point and nearby; None where it is not defined.

    A function that answers differently the second time is stochastic: answers say nothing.
    """
    nearby = _beside(around, _NEARBY * (1.0 + float(np.linalg.norm(around))))
    try:
        answers = [loss.evaluate(x) for x in (around, around, nearby)]
    except (ArithmeticError, ValueError, BequestError):
        return None
    return answers if _are_same(*answers[:2]) else _STOCHASTIC


def _far_answer(loss: Function, around: Vector, length: float) -> object:
    """Return the answer at a point that a run may never come to, where anything may happen.

    Nor does the function learn from it: what it answers there may be rounded more coarsely.
    """
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers = [loss.answer(_beside(around, length)) for _ in range(2)]
    except Exception as error:  # noqa: BLE001 - a user's own function may raise anything
        return type(error).__name__
    return answers if _are_same(*answers) else _STOCHASTIC


def _are_same(one: tuple[float, Vector], other: tuple[float, Vector]) -> bool:
    once, again = (np.append(gradient, value) for value, gradient in (one, other))
    return np.array_equal(once, again, equal_nan=True)


def _beside(around: Vector, length: float) -> Vector:
    found: Vector = around + length * np.cos(np.arange(around.size) + 1.0)
    return found
