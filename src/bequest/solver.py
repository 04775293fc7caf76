"""Validate, plan, run: the one verb."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.core import bounds, topology
from bequest.core.arrays import is_whole, refuse_masked
from bequest.core.bounds import Pilot
from bequest.core.legacy import Legacy
from bequest.engines.base import Plan
from bequest.engines.fingerprint import described
from bequest.engines.vector import Vector as VectorEngine
from bequest.errors import (
    DimensionMismatch,
    DisconnectedGraph,
    InvalidMethod,
    InvalidObjective,
    InvalidWill,
    NotFinite,
    OptimumUnknown,
)
from bequest.model.events import acquaintances, counted, in_order, schedule
from bequest.model.graph import as_graph
from bequest.model.optima import Optima
from bequest.model.overrides import replaced
from bequest.model.problem import Problem
from bequest.model.run import Run, Status
from bequest.model.wills import Adaptive, Will, check_wills, will_of
from bequest.version import versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Matrix
    from bequest.engines.base import Engine, Outcome, Progress
    from bequest.model.events import Changes, Event
    from bequest.model.graph import Graph
    from bequest.model.optima import Wanted


@dataclass(frozen=True, slots=True)
class GradientTracking:
    """Adapt-then-combine gradient tracking with Metropolis weights.

    Args:
        step: the step of every node; None picks one that is safe and fast on this graph and
            these curvatures, and lowers it if an heir becomes too stiff for it.

    Paper: alg:lgt, fact:gt.
    """

    step: float | None = None

    def __post_init__(self) -> None:
        number = isinstance(self.step, int | float | np.number) and not isinstance(self.step, bool)
        if self.step is not None and not (number and np.isfinite(self.step) and self.step > 0):
            raise InvalidMethod(
                f"The step is {self.step!r}.",
                remedy="Use a positive number, or None to have one chosen.",
            )


def solve(
    problem: Problem,
    graph: Graph | Any,  # noqa: ANN401 - a networkx graph or an edge list
    *,
    departures: Iterable[Event] = (),
    will: Will | Mapping[int | None, Will] = Adaptive(),  # noqa: B008 - immutable
    method: GradientTracking = GradientTracking(),  # noqa: B008 - immutable
    rounds: int,
    engine: Engine | None = None,
    start: ArrayLike | None = None,
    pilot: Pilot | None = None,
    buddies: int = 1,
    checkpoint_every: int | None = 20,
    optimum: Wanted = "auto",
    progress: Progress | None = None,
) -> Run:
    """Minimise the sum of everybody's losses, also of those who leave on the way.

    Args:
        problem: the losses, one per node.
        graph: who talks to whom: a Graph, a networkx graph or an edge list.
        departures: who leaves, crashes, returns, joins or is to be forgotten, and after which
            round.
        will: what leavers bequeath: one will for everybody, or a mapping from node to will with a
            default under the key None.
        method: the iteration.
        rounds: how many.
        engine: what carries the nodes; by default all of them as rows of arrays.
        start: one x0, or one per node; zeros by default.
        pilot: the certificate of the network's error, for wills that need one; measured on a run
            without departures (``calibrate``) if not given.
        buddies: how many others keep a node's last checkpoint, in case that it crashes.
        checkpoint_every: so many rounds lie between two checkpoints; None for no checkpoints.
        optimum: x*, which ``run.error`` is the distance to. ``"auto"`` computes it beside the run
            where that is cheap: losses have formulas, and the arithmetic takes a tenth of the
            run's or about a second. ``"always"`` computes it whatever that takes, None does not,
            and a vector is x* itself. Without it the status is judged by gradients and
            disagreement, as it always is.
        progress: called with the number of rounds completed, now and then.

    Returns:
        The run. A run that diverges is returned too, with the status ``diverged``;
        ``run.raise_for_status()`` makes an error of it. (A pilot that diverges is an
        InvalidMethod: there is nothing to go on with.)

    >>> import bequest as bq
    >>> problem = bq.problems.quadratics(n=20, dim=10, mu=1.0, L=10.0, seed=7)
    >>> graph = bq.graphs.ring_with_chords(20, chords=15, seed=7)
    >>> leaving = bq.departures.most_heterogeneous(problem, rounds=[300, 600])
    >>> run = bq.solve(problem, graph, departures=leaving, rounds=1000)
    >>> run.status, bool(run.error[-1] < 1e-4), len(run.survivors)
    (<Status.CONVERGED: 'converged'>, True, 18)
    """
    carrier = _carrier(engine)
    plan = prepare(
        problem,
        graph,
        departures=departures,
        will=will,
        method=method,
        rounds=rounds,
        start=start,
        pilot=pilot,
        buddies=buddies,
        checkpoint_every=checkpoint_every,
        optimum=optimum,
    )
    return carry_out(plan, carrier, progress)


def prepare(
    problem: Problem,
    graph: Graph | Any,  # noqa: ANN401 - a networkx graph or an edge list
    *,
    departures: Iterable[Event] = (),
    will: Will | Mapping[int | None, Will] = Adaptive(),  # noqa: B008 - immutable
    method: GradientTracking = GradientTracking(),  # noqa: B008 - immutable
    rounds: int,
    start: ArrayLike | None = None,
    pilot: Pilot | None = None,
    buddies: int = 1,
    checkpoint_every: int | None = 20,
    optimum: Wanted = "auto",
) -> Plan:
    """Validate what ``solve`` is asked for, all but the engine, and return it as a plan.

    A pilot is run if a will needs one and none is given.
    """
    if not isinstance(problem, Problem):
        raise InvalidObjective(
            f"The problem is a {type(problem).__name__}.",
            remedy="Pass bequest.Problem([...]) with one objective per node.",
        )
    own = replaced(problem, ("value", "gradient"), Problem)
    if own is not None:
        raise InvalidObjective(
            f"The problem is a {type(problem).__name__} with a {own} of its own, which no node "
            "would ask for: every node has its own loss.",
            remedy="Pass bequest.Problem([...]) with a bequest.Function per node.",
        )
    if type(method) is not GradientTracking:
        raise InvalidMethod(
            f"The method is {method!r}.",
            remedy="Pass GradientTracking(step=...) itself: methods of your own cannot be plugged "
            "in yet, also not as subclasses of it.",
        )
    if not is_whole(rounds, least=0):
        raise InvalidMethod(f"rounds is {rounds}.", remedy="Use a whole number >= 0.")
    if not is_whole(buddies, least=0):
        raise InvalidMethod(f"buddies is {buddies}.", remedy="Use a whole number >= 0.")
    if checkpoint_every is not None and not is_whole(checkpoint_every, least=1):
        raise InvalidMethod(
            f"checkpoint_every is {checkpoint_every}.",
            remedy="Use a whole number >= 1, or None for no checkpoints.",
        )
    network = as_graph(graph, problem.n)
    events = in_order(departures, n=problem.n, rounds=int(rounds))
    changes = schedule(events, n=problem.n, rounds=int(rounds))
    check_wills(will, n=problem.n)
    wills = _wills(will, problem.n, changes)
    leavers = sorted({node for now in changes.values() for node in (*now.crashes, *now.departures)})
    asked = {node: wills[node] for node in leavers if node in wills}
    origin = _start(problem, start)
    members = counted(changes, problem.n)
    optima = Optima(problem, members, optimum, rounds=int(rounds))
    _check_oracle(optima, asked)
    if pilot is not None and not isinstance(pilot, Pilot):
        raise InvalidWill(
            f"The pilot is {pilot!r}.", remedy="Pass what bequest.calibrate returns, or nothing."
        )
    # In regime (C) Adaptive anchors at the iterate without asking; only GT-P still needs a pilot.
    if pilot is None and any(w.needs_pilot_in(problem.regime) for w in asked.values()):
        pilot = calibrate(
            problem,
            network,
            method=method,
            rounds=max(changes),
            start=origin,
            spread=any(w.needs_spread for w in asked.values()),
            optimum=optima.given,
        )
    plan = Plan(
        problem=problem,
        graph=network,
        schedule=changes,
        wills=wills,
        rounds=int(rounds),
        step=method.step,
        start=origin,
        pilot=pilot,
        buddies=int(buddies),
        checkpoint_every=None if checkpoint_every is None else int(checkpoint_every),
        absent=frozenset(range(problem.n)) - members[0],
        known=acquaintances(events, network),
        counted=members,
        optima=optima,
    )
    _check_beginning(plan)
    return plan


def carry_out(plan: Plan, engine: Engine, progress: Progress | None = None) -> Run:
    """Carry out a plan and return the run."""
    return conclude(plan, engine.run(plan, progress), engine)


def conclude(plan: Plan, outcome: Outcome, engine: Engine) -> Run:
    """Return the run that has led from a plan to an outcome, on that engine."""
    method = GradientTracking(step=plan.step)
    return Run(
        status=outcome.status,
        trajectory=outcome.trajectory,
        departures=outcome.departures,
        changes=outcome.changes,
        survivors=outcome.survivors,
        x=outcome.x,
        inherited=outcome.inherited,
        lost=outcome.lost,
        steps=outcome.steps,
        targets=plan.optima,
        problem=plan.problem,
        graph=plan.graph,
        pilot=plan.pilot,
        provenance={**versions(), "engine": described(engine), "method": repr(method)},
    )


def _carrier(engine: Engine | None) -> Engine:
    carrier = VectorEngine() if engine is None else engine
    if isinstance(carrier, type) or not hasattr(carrier, "run"):
        raise InvalidMethod(
            f"The engine is {carrier!r}.", remedy="Pass an engine such as bequest.engines.Vector()."
        )
    return carrier


def calibrate(
    problem: Problem,
    graph: Graph | Any,  # noqa: ANN401 - a networkx graph or an edge list
    *,
    rounds: int,
    method: GradientTracking = GradientTracking(),  # noqa: B008 - immutable
    start: ArrayLike | None = None,
    spread: bool = False,
    optimum: ArrayLike | None = None,
) -> Pilot:
    """Run without departures and fit the certificate eps(t) = R0 (1 - theta)^(t/2) to it.

    Args:
        problem: the losses.
        graph: who talks to whom.
        rounds: how long to watch; at least as long as the last departure is late.
        method: the iteration whose error is to be certified.
        start: as in ``solve``.
        spread: also measure the ball that holds every node's own minimiser (rem:hr).
        optimum: x*; computed, whatever that takes, if it is not given.

    Paper: Sec. 5.1 ("calibrated from a pilot run").
    """
    try:
        best = problem.optimum() if optimum is None else np.asarray(optimum, dtype=float)
    except OptimumUnknown as error:
        raise InvalidWill(
            f"A pilot measures distances to the optimum, which is not known here: {error.what}",
            remedy="Pass pilot=bequest.Pilot(...) with constants you trust, or use a will that "
            "needs no pilot, such as Consensus.",
        ) from error
    run = solve(problem, graph, method=method, rounds=rounds, start=start, optimum=best)
    if run.status is Status.DIVERGED:
        raise InvalidMethod(
            f"The pilot, a run without departures, diverged with step {run.step:.3g}.",
            remedy="Use a smaller step, or leave it out to have one chosen.",
        )
    radius, theta, floor = bounds.fit(run.error)
    distance = np.nan
    if spread:
        own = [
            problem.among([node]).minimiser(Legacy.zero(problem.dim)) for node in range(problem.n)
        ]
        distance = float(np.linalg.norm(np.array(own) - best, axis=1).max())
    zeta = float(problem.heterogeneity(best).max())
    return Pilot(radius=radius, theta=theta, zeta=zeta, spread=distance, floor=floor)


def _wills(
    will: Will | Mapping[int | None, Will], n: int, changes: Mapping[int, Changes]
) -> dict[int, Will]:
    """Return everybody's will; who leaves in good order must have one."""
    if isinstance(will, Will) or None in will:
        return {node: will_of(will, node) for node in range(n)}
    leaving = {node for now in changes.values() for node in now.departures}
    willing = leaving.union(node for node in will if node is not None)
    return {node: will_of(will, node) for node in sorted(willing)}


def _check_oracle(optima: Optima, wills: Mapping[int, Will]) -> None:
    """Compute x* now if a will needs it, whatever that takes; refuse the will if that fails."""
    needy = next((node for node, will in wills.items() if will.needs_oracle), None)
    if needy is None:
        return
    try:
        optima.demand()
    except OptimumUnknown as error:
        raise InvalidWill(
            f"The will of node {needy} needs the optimum, which is not known: {error.what}",
            remedy='Use Adaptive(rule="certified") with a pilot, or Consensus.',
        ) from error


def _check_beginning(plan: Plan) -> None:
    """Refuse a network that falls apart without those who are yet to join."""
    parts = topology.components(plan.network())
    if len(parts) > 1:
        joining = ", ".join(map(str, sorted(plan.absent)))
        raise DisconnectedGraph(
            f"Without those who join later ({joining}) the graph falls into {len(parts)} parts.",
            remedy="Add an edge between the parts, or let those who hold them together be there "
            "from the start.",
        )


def _start(problem: Problem, start: ArrayLike | None) -> Matrix:
    refuse_masked(start, "start")
    try:
        if start is not None and np.iscomplexobj(start):
            raise TypeError("complex numbers")
        origin = np.zeros(problem.dim) if start is None else np.asarray(start, dtype=float)
    except (TypeError, ValueError) as error:
        raise DimensionMismatch(
            "start is not an array of numbers.",
            remedy=f"Use one point of length {problem.dim}, or one row per node.",
        ) from error
    if origin.shape not in {(problem.dim,), (problem.n, problem.dim)}:
        raise DimensionMismatch(
            f"start has shape {origin.shape}.",
            remedy=f"Use one point of length {problem.dim}, or one row per node.",
        )
    if not np.isfinite(origin).all():
        raise NotFinite("start holds NaN or infinite entries.", remedy="Use finite numbers.")
    # order="C": a copy of a broadcast array would otherwise keep its odd memory layout
    return np.array(np.broadcast_to(origin, (problem.n, problem.dim)), order="C")
