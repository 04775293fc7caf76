"""The last digits of a run by Newton steps, whose gradient and Hessian the survivors add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bequest.core import directions, minimise
from bequest.core.arrays import EPSILON, frozen
from bequest.core.legacy import Legacy
from bequest.errors import InvalidMethod, OptimumUnknown
from bequest.model.objectives import Loaded
from bequest.model.objectives.isotropic import on_its_host
from bequest.model.outcome import Status
from bequest.model.run import Run
from bequest.phases.sums import METHOD, for_these, phase, rehearsed, remaining

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.methods import Method
    from bequest.engines.base import Engine
    from bequest.model.graph import Graph
    from bequest.model.objectives import Objective

# More unknowns than this, and the Hessians of silos are too long to send.
_MOST_UNKNOWNS = 1500
# More unknowns than this, and Hessians are long beside the rest: they are sent alone, and seldom.
_APART = 64
# Sums are rounded by a little more than their terms are.
_ROUNDINGS = 8


@dataclass(frozen=True, slots=True)
class Finish:
    """Where Newton steps have led.

    Attributes:
        x: the minimiser of what the survivors hold, legacies included.
        sums: how many sums it took, each a phase of its own.
        numbers: how many numbers a silo put into each, at most: d(d + 5)/2 + 1 where all of a step
            goes at once; d(d + 1)/2 for a Hessian that goes alone, beyond 64 unknowns.
    """

    x: Vector
    sums: int
    numbers: int


def newton(
    run: Run,
    *,
    engine: Engine | None = None,
    method: Method | None = None,
    inherited: Mapping[int, Legacy] | None = None,
) -> Finish:
    """Return the point that a run approaches, to its last digits: ``run.limit``, by sums.

    The survivors begin at the mean of where the rounds have led. For each step every one of them
    puts in the value, the gradient and the Hessian of its own loss and of what it has inherited, at
    a point that all know, and how large the terms of the gradient are, which tells a slope from
    rounding. Beyond 64 unknowns Hessians are summed up only where a step begins, apart from what is
    asked at every point that is tried. Nothing else is needed, so it also works where the data stay
    on their hosts.

    Args:
        run: the run; its survivors, their network and their legacies at its end.
        engine: what carries the phases; as a rule that of the run.
        method: how silos iterate in them.
        inherited: other memories than survivors hold at the end, by node.

    Raises:
        OptimumUnknown: there is no minimiser, or it was not found; the losses are not convex, or a
            memory holds samples.
        InvalidMethod: the run has no survivors to ask, there are too many unknowns, or a silo left
            meanwhile.
    """
    given: object = run
    if not isinstance(given, Run):
        raise InvalidMethod(f"{given!r} is no run.", remedy="Pass what bequest.solve returns.")
    held = run.inherited if inherited is None else inherited
    chosen = METHOD if method is None else method
    sums = _Sums(run, for_these(engine, run.survivors), chosen, held)
    memory = sum(held.values(), Legacy.zero(run.problem.dim))
    least = float(run.problem.a[list(run.survivors)].sum()) + memory.curvature[0]
    with np.errstate(over="ignore", invalid="ignore"):
        x = minimise.newton(
            lambda x: sums.at(x).value,
            lambda x: sums.at(x).gradient,
            directions.dense_descent(lambda x: sums.hessian(x)),
            run.x.mean(axis=0),
            lambda x, _: sums.at(x).terms,
            exists=least > 0,
            precision=_ROUNDINGS * EPSILON,
        )
    return Finish(frozen(x), sums.asked, sums.numbers)


class _Slope(NamedTuple):
    """What silos add up at every point that is tried."""

    value: float
    gradient: Vector
    terms: Vector


@dataclass(frozen=True, slots=True)
class _Local:
    """What one survivor puts in, computed where its data are: the slope, the Hessian, or both."""

    loss: Objective
    memory: Legacy
    x: Vector
    slope: bool
    bend: bool

    @property
    def __name__(self) -> str:
        """What messages call it."""
        return f"the Newton step of {self.loss!r}"

    @property
    def size(self) -> int:
        """How many numbers it is: of the Hessian, its lower half."""
        return _size(self.x.size, slope=self.slope, bend=self.bend)

    def __call__(self) -> Vector:
        """Return it as one vector."""
        loss = self.loss.load() if isinstance(self.loss, Loaded) else self.loss
        hessian, q = loss.hessian(self.x), self.memory
        parts: list[Any] = []
        if self.slope:
            scale = np.sqrt(np.maximum(np.diagonal(hessian), 0.0))
            size = np.abs(self.x)
            bent = np.abs(q.factor) @ (np.abs(q.weights) * (np.abs(q.factor.T) @ size))
            inherited = abs(q.eta) * size + bent + np.abs(q.p)
            parts += [
                [loss.value(self.x) + q.value(self.x)],
                loss.gradient(self.x) + q.gradient(self.x),
                loss.alone.terms(self.x, scale) + inherited,
            ]
        if self.bend:
            parts.append((hessian + q.hessian())[np.tril_indices(self.x.size)])
        return np.concatenate(parts)


def _size(dim: int, *, slope: bool, bend: bool) -> int:
    return slope * (1 + 2 * dim) + bend * (dim * (dim + 1) // 2)


class _Sums:
    """The survivors of a run, asked at one point after the other."""

    def __init__(
        self,
        run: Run,
        engine: Engine | None,
        method: Method,
        inherited: Mapping[int, Legacy],
    ) -> None:
        dim = run.problem.dim
        if run.status is Status.DIVERGED or not run.survivors:
            raise InvalidMethod(
                f"The run is {run.status}: there is nothing to finish.",
                remedy="Use one that did not diverge, and in which some node is left.",
            )
        if dim > _MOST_UNKNOWNS:
            raise InvalidMethod(
                f"A Newton step of {dim} unknowns would take "
                f"{_size(dim, slope=True, bend=True)} numbers per silo.",
                remedy=f"Up to {_MOST_UNKNOWNS} unknowns it can be done; use more rounds instead.",
            )
        if run.problem.mu < 0 or any(q.samples for q in inherited.values()):
            raise OptimumUnknown(
                "Newton steps need convex losses and legacies that are quadratics.",
                remedy="Go by the rounds: run.x.mean(axis=0).",
            )
        self._method, self._engine = method, engine
        self._held = [
            (run.problem.objective(node), inherited.get(node, Legacy.zero(dim)))
            for node in run.survivors
        ]
        self._graph: Graph = remaining(run)
        self._rounds = rehearsed(self._graph, (), method)
        self._slopes: dict[bytes, _Slope] = {}
        self._bend: tuple[bytes, Matrix] | None = None
        self._together = dim <= _APART
        self.asked, self.numbers = 0, _size(dim, slope=self._together, bend=True)

    def at(self, x: Vector) -> _Slope:
        """Return value and gradient at x; a point is asked about once."""
        key = x.tobytes()
        if key not in self._slopes:
            self._ask(np.array(x), slope=True, bend=self._together)
        return self._slopes[key]

    def hessian(self, x: Vector) -> Matrix:
        """Return the Hessian at x; the last one is kept."""
        key = x.tobytes()
        if self._bend is None or self._bend[0] != key:
            self._ask(np.array(x), slope=False, bend=True)
        assert self._bend is not None  # noqa: S101 - it was asked for
        return self._bend[1]

    def _ask(self, x: Vector, *, slope: bool, bend: bool) -> None:
        shares = [_Local(loss, memory, x, slope, bend) for loss, memory in self._held]
        done = phase(
            [
                on_its_host(share, share.size) if isinstance(share.loss, Loaded) else share()
                for share in shares
            ],
            graph=self._graph,
            engine=self._engine,
            method=self._method,
            rounds=self._rounds,
        )
        if done.run.departures:
            raise InvalidMethod(
                f"{done.run.departures[0]}, in the middle of a Newton step.",
                remedy="Go by the rounds, run.x.mean(axis=0), or by a run with this departure.",
            )
        self.asked += 1
        key, dim, total = x.tobytes(), x.size, done.total
        if slope:
            value, gradient, terms = total[0], total[1 : 1 + dim], total[1 + dim : 1 + 2 * dim]
            self._slopes[key] = _Slope(float(value), gradient, terms)
        if bend:
            hessian = np.zeros((dim, dim))
            hessian[np.tril_indices(dim)] = total[-(dim * (dim + 1) // 2) :]
            self._bend = key, hessian + np.tril(hessian, -1).T
