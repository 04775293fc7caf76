"""Validate, plan, run: ``solve``, and the plans that it and the run file share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bequest.core import bounds, topology
from bequest.core.arrays import is_whole, refuse_masked
from bequest.core.bounds import Pilot
from bequest.core.legacy import Legacy
from bequest.core.methods.base import check_method
from bequest.core.methods.trial import try_out
from bequest.engines import coherence
from bequest.engines.fingerprint import described
from bequest.engines.vector.engine import Vector as VectorEngine
from bequest.errors import (
    BequestError,
    DimensionMismatch,
    DisconnectedGraph,
    InvalidEvent,
    InvalidMethod,
    InvalidObjective,
    InvalidWill,
    NotFinite,
    OptimumUnknown,
)
from bequest.model.default_method import default_method
from bequest.model.events import acquaintances, counted, in_order, schedule
from bequest.model.graph import as_graph
from bequest.model.objectives.network import NetworkStack
from bequest.model.optima import Optima
from bequest.model.outcome import Status
from bequest.model.overrides import replaced
from bequest.model.plan import Plan
from bequest.model.problem import Problem
from bequest.model.pseudo_samples import drawn
from bequest.model.run import Run
from bequest.model.silo_names import numbered, told_by_name, wills_by_number
from bequest.model.wills import Adaptive, Will, check_wills, will_of
from bequest.version import versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from bequest.core.arrays import Matrix, Vector
    from bequest.core.methods import Method
    from bequest.engines.base import Engine, Progress
    from bequest.model.events import Changes, Event
    from bequest.model.graph import Graph
    from bequest.model.optima import Wanted
    from bequest.model.outcome import Outcome


def solve(
    problem: Problem,
    graph: Graph | Any,  # noqa: ANN401 - a networkx graph or an edge list
    *,
    departures: Iterable[Event] = (),
    will: Will | Mapping[int | None, Will] = Adaptive(),  # noqa: B008 - immutable
    method: Method | None = None,
    rounds: int,
    engine: Engine | None = None,
    start: ArrayLike | None = None,
    pilot: Pilot | None = None,
    buddies: int = 1,
    checkpoint_every: int | None = 20,
    recall: bool = True,
    statistics: bool = True,
    optimum: Wanted = "auto",
    progress: Progress | None = None,
) -> Run:
    """Minimise the sum of all nodes' losses, also of the nodes that leave on the way.

    Args:
        problem: the losses, one per node.
        graph: which nodes talk to each other: a Graph, a networkx graph or an edge list.
        departures: which nodes leave, crash, return, join or are to be forgotten, and after which
            round; nodes by number, or by name where the problem's have names.
        will: what leavers bequeath: one will for all nodes, or a mapping from node to will with a
            default under the key None.
        method: how nodes iterate; one of ``bequest.methods``. By default NIDS, with a matrix per
            node where losses have one cheaply (``bequest docs choosing-a-method``).
        rounds: how many.
        engine: what carries the nodes; by default all of them as rows of arrays.
        start: one x0, or one per node; zeros by default, and for models the parameters that the
            first of them came with.
        pilot: the certificate of the network's error, for wills that need one; measured on a run
            without departures (``calibrate``) if not given.
        buddies: how many other nodes keep a node's last checkpoint, in case it crashes.
        checkpoint_every: rounds between two checkpoints; None for no checkpoints.
        recall: whether a node that crashes and of which there is no checkpoint may be remembered
            by the slope that the others lack, where the network has come far enough for that.
        statistics: whether statistics of samples may leave a node (``wills.Replay``); False refuses
            every will that would hand them over, and every heir refuses to take them.
        optimum: x*, which ``run.error`` is the distance to. ``"auto"`` computes it beside the run
            where that is cheap: losses have formulas, and the arithmetic takes a tenth of the
            run's or about a second. ``"always"`` computes it at any cost, None does not, and a
            vector is x* itself. The status does not depend on it: gradients and disagreement
            decide that.
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
        recall=recall,
        statistics=statistics,
        optimum=optimum,
        unplanned=getattr(carrier, "unplanned", False),
    )
    return carry_out(plan, carrier, progress)


def prepare(
    problem: Problem,
    graph: Graph | Any,  # noqa: ANN401 - a networkx graph or an edge list
    *,
    departures: Iterable[Event] = (),
    will: Will | Mapping[int | None, Will] = Adaptive(),  # noqa: B008 - immutable
    method: Method | None = None,
    rounds: int,
    start: ArrayLike | None = None,
    pilot: Pilot | None = None,
    buddies: int = 1,
    checkpoint_every: int | None = 20,
    recall: bool = True,
    statistics: bool = True,
    optimum: Wanted = "auto",
    unplanned: bool = False,
    measure: bool = True,
) -> Plan:
    """Validate what ``solve`` is asked for, all but the engine, and return it as a plan.

    ``unplanned`` says that any node may have to leave, as on a cluster; ``measure`` that the pilot
    which a will needs is run if none is given (``pilot_for``).
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
    chosen = default_method(problem) if method is None else method
    check_method(chosen)
    try_out(chosen)
    if not is_whole(rounds, least=0):
        raise InvalidMethod(f"rounds is {rounds}.", remedy="Use a whole number >= 0.")
    if not is_whole(buddies, least=0):
        raise InvalidMethod(f"buddies is {buddies}.", remedy="Use a whole number >= 0.")
    if checkpoint_every is not None and not is_whole(checkpoint_every, least=1):
        raise InvalidMethod(
            f"checkpoint_every is {checkpoint_every}.",
            remedy="Use a whole number >= 1, or None for no checkpoints.",
        )
    for name, switch in (("recall", recall), ("statistics", statistics)):
        if not isinstance(switch, bool):
            raise InvalidMethod(f"{name} is {switch!r}.", remedy="Use True or False.")
    network = as_graph(graph, problem.n)
    try:
        events = in_order(numbered(departures, problem.names), n=problem.n, rounds=int(rounds))
        changes = schedule(events, n=problem.n, rounds=int(rounds))
    except InvalidEvent as error:
        raise told_by_name(error, problem.names) from error
    will = wills_by_number(will, problem.names)
    check_wills(will, n=problem.n)
    wills = _wills(will, problem.n, changes)
    _check_statistics(wills, allowed=statistics)
    origin = _start(problem, start)
    members = counted(changes, problem.n)
    optima = Optima(problem, members, optimum, rounds=int(rounds))
    if pilot is not None and not isinstance(pilot, Pilot):
        raise InvalidWill(
            f"The pilot is {pilot!r}.", remedy="Pass what bequest.calibrate returns, or nothing."
        )
    plan = Plan(
        problem=problem,
        graph=network,
        schedule=changes,
        wills=wills,
        rounds=int(rounds),
        method=chosen,
        start=origin,
        pilot=pilot,
        buddies=int(buddies),
        recall=recall,
        checkpoint_every=None if checkpoint_every is None else int(checkpoint_every),
        absent=frozenset(range(problem.n)) - members[0],
        known=acquaintances(events, network),
        counted=members,
        optima=optima,
        statistics=statistics,
    )
    _check_beginning(plan)
    _check_oracle(plan)
    if pilot is None and measure:
        return replace(plan, pilot=pilot_for([plan], unplanned=unplanned))
    return plan


def prepare_each(
    wills: Iterable[Will | Mapping[int | None, Will]],
    *,
    unplanned: bool,
    **common: Any,  # noqa: ANN401 - the other arguments of prepare
) -> list[Plan | BequestError]:
    """Return the plans of runs that differ in their wills only, or why one cannot be run.

    The plans that need a pilot share one; if it fails, the others can be run all the same.
    """
    plans: list[Plan | BequestError] = []
    for will in wills:
        try:
            plans.append(prepare(**common, will=will, measure=False))
        except InvalidWill as error:
            plans.append(error)
    pilot: Pilot | BequestError | None
    try:
        valid = [plan for plan in plans if isinstance(plan, Plan)]
        pilot = pilot_for(valid, unplanned=unplanned)
    except (InvalidMethod, InvalidWill, OptimumUnknown) as error:
        pilot = error
    for place, plan in enumerate(plans):
        if isinstance(plan, Plan) and _needy(plan, unplanned=unplanned):
            plans[place] = pilot if isinstance(pilot, BequestError) else replace(plan, pilot=pilot)
    return plans


def pilot_for(plans: Sequence[Plan], *, unplanned: bool) -> Pilot | None:
    """Return the pilot for plans that differ in their wills only; None if they need none.

    This alone decides whether a pilot is run, for how long and what it measures. It is run if a
    node that leaves or crashes has a will that needs one; where departures may be ``unplanned``,
    if any node has. It lasts until the last event of the plan, or all rounds if there is none. It
    measures the spread if one of these wills needs it.
    """
    needy = [will for plan in plans for will in _needy(plan, unplanned=unplanned)]
    if not needy:
        return None
    plan = plans[0]
    return calibrate(
        plan.problem,
        plan.graph,
        method=plan.method,
        rounds=max(plan.schedule, default=plan.rounds),
        start=plan.start,
        spread=any(will.needs_spread for will in needy),
        optimum=plan.optima.given,
    )


def _needy(plan: Plan, *, unplanned: bool) -> list[Will]:
    """Return the wills that may be executed and lack a pilot."""
    nodes = range(plan.problem.n) if unplanned else plan.leavers
    wills = [plan.wills[node] for node in nodes if node in plan.wills]
    return [will for will in wills if plan.lacks_pilot(will)]


def carry_out(plan: Plan, engine: Engine, progress: Progress | None = None) -> Run:
    """Carry out a plan and return the run."""
    outcome = engine.run(plan, progress)
    coherence.check_own(engine, plan, outcome)
    return conclude(plan, outcome, engine)


def conclude(plan: Plan, outcome: Outcome, engine: Engine) -> Run:
    """Return the run that has led from a plan to an outcome, on that engine."""
    what = {"engine": described(engine), "method": described(plan.method)}
    return Run(plan, drawn(outcome, plan.problem), {**versions(), **what})


def _check_statistics(wills: Mapping[int, Will], *, allowed: bool) -> None:
    telling = [node for node, will in wills.items() if will.tells_statistics and not allowed]
    if telling:
        raise InvalidWill(
            f"The will of node {telling[0]} ({wills[telling[0]].title}) hands over statistics of "
            "its samples, and statistics is False.",
            remedy="Allow them, or use a will that hands over vectors only, such as Adaptive().",
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
    method: Method | None = None,
    start: ArrayLike | None = None,
    spread: bool = False,
    optimum: ArrayLike | None = None,
) -> Pilot:
    """Run without departures and fit the certificate eps(t) = R0 (1 - theta)^(t/2) to it.

    Args:
        problem: the losses.
        graph: which nodes talk to each other.
        rounds: how long to watch: at least until the last departure.
        method: the iteration whose error is to be certified.
        start: as in ``solve``.
        spread: also measure the ball that holds every node's own minimiser (rem:hr).
        optimum: x*; computed, at any cost, if it is not given.

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
    """Return the will of every node; a node that leaves in good order must have one."""
    if isinstance(will, Will) or None in will:
        return {node: will_of(will, node) for node in range(n)}
    leaving = {node for now in changes.values() for node in now.departures}
    willing = leaving.union(node for node in will if node is not None)
    return {node: will_of(will, node) for node in sorted(willing)}


def _check_oracle(plan: Plan) -> None:
    """Compute x* now, at any cost, if a will needs it; refuse the will if that fails."""
    wills = plan.wills
    needy = next((n for n in plan.leavers if n in wills and wills[n].needs_oracle), None)
    if needy is None:
        return
    try:
        plan.optima.demand()
    except OptimumUnknown as error:
        raise InvalidWill(
            f"The will of node {needy} needs the optimum, which is not known: {error.what}",
            remedy='Use Adaptive(rule="certified") with a pilot, or Consensus.',
        ) from error


def _check_beginning(plan: Plan) -> None:
    """Refuse a network that falls apart without the nodes that are yet to join."""
    parts = topology.components(plan.network())
    if len(parts) > 1:
        joining = ", ".join(map(str, sorted(plan.absent)))
        raise DisconnectedGraph(
            f"Without the nodes that join later ({joining}) the graph falls into {len(parts)} "
            "parts.",
            remedy="Add an edge between the parts, or let the nodes that connect them be there "
            "from the start.",
        )


def _beginning(problem: Problem) -> Vector:
    """Return zeros; of models the parameters that the first one came with, as zeros never train."""
    models = (stack.members[0] for _, stack in problem.stacks if isinstance(stack, NetworkStack))
    first = next(models, None)
    return np.zeros(problem.dim) if first is None else first.start


def _start(problem: Problem, start: ArrayLike | None) -> Matrix:
    refuse_masked(start, "start")
    try:
        if start is not None and np.iscomplexobj(start):
            raise TypeError("complex numbers")
        origin = _beginning(problem) if start is None else np.asarray(start, dtype=float)
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
    whole = np.array(np.broadcast_to(origin, (problem.n, problem.dim)), order="C")
    whole += 0.0  # -0.0 is 0.0: one start has one sign
    whole.setflags(write=False)
    return whole
