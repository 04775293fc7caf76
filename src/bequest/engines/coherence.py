"""Whether an outcome that was read from a file can be one at all: its parts fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bequest.errors import InvalidMethod
from bequest.model.outcome import Outcome, Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bequest.core.arrays import Vector
    from bequest.core.legacy import Legacy
    from bequest.engines.base import Engine
    from bequest.model.outcome import ChangeRecord, DepartureRecord
    from bequest.model.plan import Plan, Scene


def check(outcome: Outcome, scene: Scene, *, nodes: int, unknowns: int, rounds: int) -> None:
    """Refuse an outcome that contradicts itself, its scene, or the size of its run.

    A checksum says that nothing was altered by chance, not that it was right. What is read here is
    used as indices and shapes later on.

    Raises:
        ValueError: something in it cannot be; the text says what.
    """
    _require(scene.nodes == nodes, f"there are {nodes} nodes, and {scene.nodes} are drawn")
    named = [*scene.absent, *(end for edge in scene.edges for end in edge)]
    _require(_are_nodes(named, nodes), "the network names a node that is not there")
    _check_end(outcome, nodes, unknowns)
    _check_trajectory(outcome, rounds)
    for holder, legacy in outcome.inherited.items():
        _require(holder in outcome.survivors, f"node {holder} inherited, and did not survive")
        _check_legacy(legacy, nodes, unknowns)
    for departure in outcome.departures:
        _check_departure(departure, nodes, unknowns, rounds)
    for change in outcome.changes:
        _check_change(change, nodes, rounds)


def check_own(engine: Engine, plan: Plan, outcome: object) -> None:
    """Refuse what a user's own engine reports, if it cannot be the outcome of that plan.

    Raises:
        InvalidMethod: it cannot.
    """
    if type(engine).__module__.startswith("bequest."):
        return
    why = f"it is a {type(outcome).__name__}"
    if isinstance(outcome, Outcome):
        problem = plan.problem
        try:
            check(outcome, plan.scene, nodes=problem.n, unknowns=problem.dim, rounds=plan.rounds)
        except (ValueError, TypeError, AttributeError) as error:
            why = str(error)
        else:
            return
    raise InvalidMethod(
        f"The engine {type(engine).__name__} reports what cannot be the outcome of this run: "
        f"{why}.",
        remedy="Return a bequest.engines.Outcome; bequest docs own-engine shows one.",
    )


def _require(holds: object, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _check_end(outcome: Outcome, nodes: int, unknowns: int) -> None:
    for name, listed in (("survivors", outcome.survivors), ("lost", outcome.lost)):
        ascending = list(listed) == sorted(set(listed))
        _require(ascending and _are_nodes(listed, nodes), f"{name} are {list(listed)}")
    shape = (len(outcome.survivors), unknowns)
    _require(outcome.x.shape == shape, f"x has shape {outcome.x.shape} instead of {shape}")
    is_lost = outcome.status is Status.LOST
    _require(
        is_lost != bool(outcome.survivors),
        f"the run is {outcome.status}, with {shape[0]} survivors",
    )
    bounded = outcome.status is Status.DIVERGED or np.isfinite(outcome.x).all()
    _require(bounded, f"the run is {outcome.status}, and x is not finite")
    remembered = {node for legacy in outcome.inherited.values() for node in legacy.lineage}
    lost, survivors = set(outcome.lost), set(outcome.survivors)
    both = (remembered & lost) | (remembered & survivors) | (lost & survivors)
    _require(not both, f"nodes {sorted(both)} are two of these: lost, remembered, there")
    left = {record.node for record in outcome.departures}
    forgotten = {record.node for record in outcome.changes if record.kind == "forget"}
    unsaid = (remembered | lost) - left | left - survivors - remembered - lost - forgotten
    _require(not unsaid, f"what became of nodes {sorted(unsaid)} is not said, or not how")


def _check_trajectory(outcome: Outcome, rounds: int) -> None:
    measured = outcome.trajectory
    series = [measured.invariant_gap, measured.gradient_norm, measured.disagreement]
    series += [] if measured.error is None else [measured.error]
    shapes = {one.shape for one in series}
    _require(shapes == {(rounds + 1,)}, f"what was measured has the shapes {sorted(shapes)}")
    since = [step.since for step in outcome.steps]
    in_order = since == sorted(since) and since[:1] == [0] and since[-1] <= rounds
    _require(in_order, f"steps are in force since the rounds {since}")
    values = [step.value for step in outcome.steps]
    _require(all(0 < value < np.inf for value in values), f"the steps are {values}")


def _check_departure(record: DepartureRecord, nodes: int, unknowns: int, rounds: int) -> None:
    who = f"the departure of node {record.node}"
    others = [node for node in (record.heir,) if node is not None]
    others += [*record.passed_on, *record.lost, *(end for pair in record.bridges for end in pair)]
    _require(_are_nodes([record.node, *others], nodes), f"{who} names a node that is not there")
    _require(record.heir != record.node, f"{who} makes it its own heir")
    _require(0 <= record.round <= rounds, f"{who} is after round {record.round}")
    known = record.checkpoint is None or 0 <= record.checkpoint <= record.round
    _require(known, f"{who} goes by a checkpoint of round {record.checkpoint}")
    _check_points([record.x, record.anchor], unknowns, who)
    for legacy in (record.legacy, record.blur):
        if legacy is not None:
            _check_legacy(legacy, nodes, unknowns)


def _check_change(record: ChangeRecord, nodes: int, rounds: int) -> None:
    named = [node for node in (record.holder, record.sponsor) if node is not None]
    who = f"the {record.kind} of node {record.node}"
    sound = _are_nodes([record.node, *named, *record.neighbours], nodes)
    _require(sound, f"{who} names a node that is not there")
    _require(0 <= record.round <= rounds, f"{who} is after round {record.round}")


def _check_legacy(legacy: Legacy, nodes: int, unknowns: int) -> None:
    _check_points([legacy.p], unknowns, "a legacy")
    _require(_are_nodes(legacy.lineage, nodes), f"a legacy is that of {list(legacy.lineage)}")


def _check_points(points: Iterable[Vector | None], unknowns: int, where: str) -> None:
    for point in points:
        sound = point is None or point.shape == (unknowns,)
        _require(sound, f"{where} has a point of another dimension than {unknowns}")


def _are_nodes(listed: Iterable[int], nodes: int) -> bool:
    return all(0 <= node < nodes for node in listed)
