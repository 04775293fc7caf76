"""What happens to processes and what they do about it, in words and without vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from bequest.protocol.events import (
    Adopted,
    Began,
    Checkpointed,
    Committed,
    Completed,
    Decided,
    Dropped,
    Failed,
    Finished,
    Leave,
    Lost,
    Recalled,
    Received,
    Send,
    Withdrawn,
)
from bequest.protocol.messages import STEWARD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bequest.model.wills import Bequest
    from bequest.protocol.events import Adoption, Arrival, Effect, Input
    from bequest.protocol.messages import Request


# --- what happens to processes, apart from events -------------------------------------------


@dataclass(frozen=True, slots=True)
class Founded:
    """The first nodes start, and the steward with them."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The process of a node starts that asks to come in, to come back or to be forgotten."""

    request: Request


@dataclass(frozen=True, slots=True)
class Killed:
    """A process ends without a word."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another steward starts."""


Happening: TypeAlias = Founded | Admitted | Killed | Replaced


# --- in words -------------------------------------------------------------------------------


def name_of(process: int) -> str:
    """Return how a process is called."""
    return "the steward" if process == STEWARD else f"node {process}"


def told(what: Input | Happening | Effect) -> str:
    """Return in words what happened to a process, or what it did, without vectors."""
    match what:
        case Received(sender, message):
            names = [name for name in ("epoch", "round") if hasattr(message, name)]
            shown = ", ".join(f"{name} {getattr(message, name)}" for name in names)
            return f"{type(message).__name__} from {name_of(sender)}" + (shown and f" ({shown})")
        case Lost():
            return f"the verdict that node {what.node} is lost ({what.why})"
        case Leave():
            return f"asked to leave after round {what.after}" if what.after else "asked to leave"
        case Founded():
            return "the network is founded"
        case Admitted():
            return f"starts, and asks to {_PURPOSES[what.request.purpose]}"
        case Killed():
            return "its process is killed"
        case Replaced():
            return "another one takes over, and asks every node where it is"
        case _:
            return _done(what)


_PURPOSES = {"join": "come in", "return": "come back", "forget": "be forgotten"}


def _done(effect: Effect) -> str:
    match effect:
        case Send():
            return f"{type(effect.message).__name__} to {_listed(map(name_of, effect.to))}"
        case Completed():
            return f"round {effect.round} is completed"
        case Began():
            return f"epoch {effect.epoch} begins after round {effect.round}"
        case Checkpointed():
            left = "no will" if effect.bequest is None else _explained(effect.bequest)
            return f"checkpoint of round {effect.round}: {left}"
        case Dropped():
            return f"{effect.kind} from {name_of(effect.sender)} dropped ({effect.why})"
        case Decided():
            size = "nothing" if effect.farewell is None else f"{effect.farewell.vectors:g} vectors"
            passed = f", passes on {_numbers(effect.passed_on)}" if effect.passed_on else ""
            return (
                f"prepares to leave after round {effect.round}, with {size}: "
                f"{_explained(effect.bequest)}{passed}"
            )
        case Adopted():
            return f"prepares to adopt node {effect.node}'s checkpoint of round {effect.round}"
        case Recalled():
            told = "cannot recall" if effect.legacy is None else "prepares to recall"
            return f"{told} node {effect.node}, of which there is no checkpoint"
        case Withdrawn():
            rest = "" if effect.exact else ", approximately: it was compressed with others"
            return f"prepares to take out its memory of node {effect.node}{rest}"
        case Failed():
            return f"cannot go on: {effect.why}"
        case Finished():
            return f"the run is over after round {effect.round}"
        case Committed():
            return _committed(effect)


def _explained(bequest: Bequest) -> str:
    return f"{bequest.choice} ({bequest.why})"


def _committed(change: Committed) -> str:
    parts = [f"epoch {change.epoch} is to begin after round {change.round}"]
    parts += [f"node {one.node} hands over to node {one.heir}" for one in change.handovers]
    parts += [_adoption(one) for one in change.adoptions]
    if change.arrival is not None:
        parts.append(_arrival(change.arrival))
    if change.restart:
        parts.append("trackers restart")
    if change.step is not None:
        parts.append(f"the step is {change.step.value:.3g} from now on")
    return "; ".join([*parts, f"members: {_numbers(change.members)}"])


def _adoption(adoption: Adoption) -> str:
    gone = f", no node remembers {_numbers(adoption.lost)}" if adoption.lost else ""
    if adoption.adopter is None:
        return f"node {adoption.node} is lost{gone}"
    left = "its checkpoint"
    if adoption.node in adoption.lost:
        left = "what it had inherited, if anything"
    return f"node {adoption.node} is lost, node {adoption.adopter} adopts {left}{gone}"


def _arrival(arrival: Arrival) -> str:
    came = {"join": "comes in", "return": "comes back", "forget": "is forgotten"}[arrival.purpose]
    held = "" if arrival.holder is None else f", node {arrival.holder} takes its memory out"
    return f"node {arrival.node} {came}{held}"


def _numbers(nodes: Iterable[int]) -> str:
    return _listed(map(str, nodes))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
