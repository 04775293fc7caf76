"""Forgetting a node after the run: its memory is taken out, and the survivors' model without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bequest.core.arrays import frozen, norm
from bequest.core.legacy import Legacy
from bequest.errors import InvalidEvent, NotThere, StillHere
from bequest.model.outcome import Status
from bequest.model.silo_names import called

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from bequest.core.arrays import Vector
    from bequest.model.run import Run

    Minimiser: TypeAlias = Callable[[Mapping[int, Legacy]], Vector]


@dataclass(frozen=True, slots=True, eq=False)
class Forgetting:
    """What was withdrawn, and what is left.

    Attributes:
        node: the node.
        holder: the survivor that remembered it; None if no node did.
        withdrawn: the legacy that went in when it left, and was subtracted; None if no node
            remembered it.
        exact: whether nothing of it remains; False where it was compressed together with others.
        x: the minimiser of the survivors' losses and the legacies that are left.
        moved: how far that is from the minimiser with its memory.
        why: in words.
    """

    node: int
    holder: int | None
    withdrawn: Legacy | None
    exact: bool
    x: Vector
    moved: float
    why: str


def withdraw(run: Run, node: int, *, minimiser: Minimiser | None = None) -> Forgetting:
    """Take the memory of a node that has left out of a run that is done.

    ``minimiser`` is how to find where the survivors go with memories that are given by node, where
    their data are not here (``bequest.phases.newton``).

    Raises:
        StillHere: it is a survivor, and speaks for itself.
        NotThere: it never took part.
        InvalidEvent: the run has no model.
        OptimumUnknown: there is no minimiser without it, or data are on their hosts.
    """
    if run.status in (Status.DIVERGED, Status.LOST):
        raise InvalidEvent(
            f"The run is {run.status}, so that there is nothing to withdraw from.",
            remedy="Use a run that did not diverge, and in which some node is left.",
        )
    if node in run.survivors:
        raise StillHere(
            f"Node {node} is there at the end of the run, and no other node remembers it.",
            remedy="Run again without it, or with a Departure and a Forget of it.",
        )
    left = [record for record in run.departures if record.node == node]
    if not left:
        raise NotThere(f"Node {node} never took part in the run.", remedy="Name another one.")
    mean = run.x.mean(axis=0)
    holder = next((h for h, held in run.inherited.items() if node in held.lineage), None)
    parts = [record.legacy for record in left if record.legacy is not None]
    before = run.surrogate_minimiser if minimiser is None else minimiser(run.inherited)
    if holder is None or not parts:
        return Forgetting(node, None, None, True, before, 0.0, "no node remembered it")
    held, part = run.inherited[holder], parts[-1]
    exact = node not in held.blended
    memory = {**run.inherited, holder: held.without(part, at=mean)}
    if minimiser is None:
        total = sum(memory.values(), Legacy.zero(run.problem.dim))
        x = frozen(run.problem.among(run.survivors).minimiser(total, start=mean))
    else:
        x = minimiser(memory)
    why = f"what {called(holder, run.problem.names)} had inherited of it was subtracted"
    if not exact:
        why += "; as it was compressed together with others, something of it remains"
    return Forgetting(node, holder, part, exact, x, norm(x - before), why)
