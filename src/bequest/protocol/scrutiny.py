"""What can be right at all: names and numbers that a process can have put into a message.

Processes crash, they do not lie; but one of them may be broken, or of another release. A message
that breaks the protocol is not acted upon: a node that sends it is given up, as if it were lost,
and an order of this kind is dropped.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from bequest.protocol import messages as m

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from bequest.core.arrays import Vector
    from bequest.core.legacy import Legacy
    from bequest.core.samples import Clusters

# Metropolis weights sum to less than one, but for rounding.
_ROUNDING = 1e-9
# No more numbers are drawn for a memory: a quarter of a gigabyte.
_MOST_DRAWN = 1 << 25


def are_others(ids: Iterable[int], ident: int) -> bool:
    """Whether these are the numbers of nodes, none of them twice, and not that one."""
    listed = list(ids)
    if not listed:
        return True
    unique = set(listed)
    return len(unique) == len(listed) and ident not in unique and min(unique) >= 0


# --- what nodes send each other ----------------------------------------------------------------


def is_finite(vector: Vector, dim: int) -> bool:
    """Whether it has that many entries, all of them finite numbers."""
    return vector.shape == (dim,) and bool(np.isfinite(vector).all())


def is_sound(legacy: Legacy, dim: int) -> bool:
    """Whether it is a finite memory in that many coordinates, with no node in it twice."""
    once = all(node >= 0 and share == 1 for node, share in legacy.lineage.items())
    once = once and all(_are_samples(part, legacy.lineage) for part in legacy.samples)
    with np.errstate(over="ignore", invalid="ignore"):
        curvature = legacy.eta + legacy.stiffness  # not a number if an entry of F or w is none
    return once and math.isfinite(curvature + legacy.c) and is_finite(legacy.p, dim)


def _are_samples(part: Clusters, lineage: Collection[int]) -> bool:
    """Whether these can be statistics of the samples of nodes in that lineage."""
    return (
        part.sign == 1
        and len(part.origins) > 0
        and all(node in lineage for node in part.origins)
        and min(part.key) >= 0
        and part.rank <= part.width
        and part.points * part.width <= _MOST_DRAWN
        and part.is_finite
        and bool((part.shares >= 0).all())
    )


def is_checkpoint(checkpoint: m.Checkpoint, sender: int, dim: int) -> bool:
    """Whether it can be that node's, of any epoch: the memory of itself, and of others."""
    own, inherited = checkpoint.own, checkpoint.inherited
    itself = is_sound(own, dim) and own.lineage.keys() <= {sender} and checkpoint.round >= 0
    others = inherited is None or (is_sound(inherited, dim) and sender not in inherited.lineage)
    return itself and others


# --- what a node is told ---------------------------------------------------------------------


def is_order(order: m.Order, ident: int) -> bool:
    """Whether a steward can have said this to that node, whatever state it is in."""
    match order:
        case m.Arrange():
            return _is_arrangement(order, ident)
        case m.Begin():
            # Each original node is a member, or inside what one has inherited, or lost.
            sound = math.isfinite(order.pace) and order.pace > 0
            return sound and are_others([*order.named, *order.lost], m.STEWARD)
    return True


def _is_arrangement(arrange: m.Arrange, ident: int) -> bool:
    groups = (arrange.neighbours or (), arrange.buddies, arrange.wards)
    roles = (
        arrange.heir,
        arrange.claim,
        arrange.claimant,
        arrange.newcomer,
        arrange.sponsor,
        arrange.recalls,
    )
    named = [*groups, arrange.farewells, arrange.adopted]
    named += [(role,) for role in roles if role is not None]
    # A tree: no node hears from the one that it tells.
    tells = () if arrange.sums_to is None else (arrange.sums_to,)
    named.append((*(arrange.sums_from or ()), *tells))
    if arrange.round < 0 or not all(are_others(ids, ident) for ids in named if ids):
        return False
    if arrange.neighbours is None:
        alone = not any((arrange.weights, arrange.buddies, arrange.wards))
        return alone and (arrange.heir is None or arrange.remaining > 0)
    return (
        arrange.heir is None
        and len(arrange.neighbours) < arrange.members
        and len(arrange.weights) == len(arrange.neighbours)
        and all(0 < weight <= 1 for weight in arrange.weights)
        and math.fsum(arrange.weights) <= 1 + _ROUNDING
    )


def is_imbalance(sums: m.Imbalance, dim: int) -> bool:
    """Whether surpluses, and what goes with them, can sum to this."""
    sizes = (sums.trackers, sums.gradients, sums.way)
    return (
        is_finite(sums.surplus, dim)
        and all(math.isfinite(size) and size >= 0 for size in sizes)
        and math.isfinite(sums.strength)
        and sums.nodes >= 1
    )


# --- what the steward is told ------------------------------------------------------------------


def is_report(
    halted: m.Halted, sender: int, lineage: Mapping[int, tuple[int, ...]], first: int, last: int
) -> bool:
    """Whether a member can have stopped like this.

    Args:
        halted: what it reports.
        sender: the member.
        lineage: every member of the epoch -> the original nodes in what it has inherited.
        first: after which round the epoch began.
        last: after which round every member stops.
    """
    return (
        first <= halted.round <= last
        and _are_among(halted.lineage, lineage.get(sender, ()))
        and are_others((ward for ward, _, _ in halted.wards), sender)
        and all(
            ward in lineage and 0 <= made <= last and _are_among(inside, (ward, *lineage[ward]))
            for ward, made, inside in halted.wards
        )
    )


def is_readiness(ready: m.Ready, inherits: Collection[int], may_forget: Collection[int]) -> bool:
    """Whether a node can be ready like this.

    Args:
        ready: what it says.
        inherits: the original nodes that it can remember in the epoch to come.
        may_forget: those that its will can forget, if it leaves.
    """
    return (
        all(math.isfinite(one) for one in (ready.stiffness, ready.strength, ready.floor))
        and ready.stiffness >= 0
        and _are_among(ready.lineage, inherits)
        and _are_among(ready.forgets, may_forget)
        and (bool(may_forget) or not ready.restart)
    )


def is_situation(situation: m.Situation, sender: int, numbers: int) -> bool:
    """Whether a node can be in this situation; ``numbers`` is more than any epoch can have."""
    present, begun, prepared = situation.present, situation.begun, situation.prepared
    epochs = [0]
    if present is not None or begun is not None:
        if present is None or begun is None or not _is_present(sender, present, begun):
            return False
        if situation.purpose is not None:  # a member does not ask to come
            return False
        epochs.append(begun.epoch)
    if prepared is not None:
        if not is_order(prepared, sender):
            return False
        epochs.append(prepared.epoch)
    ascending = all(one < later for one, later in itertools.pairwise(epochs))
    return ascending and epochs[-1] <= situation.newest < numbers and situation.incarnation >= 0


def _is_present(node: int, place: m.Arrange, begin: m.Begin) -> bool:
    """Whether a node can be in an epoch that began like this."""
    return (
        place.epoch == begin.epoch
        and place.neighbours is not None
        and is_order(place, node)
        and is_order(begin, node)
        and has_place(node, place, begin)
    )


def has_place(node: int, place: m.Arrange, begin: m.Begin) -> bool:
    """Whether what a node has prepared is its place in the epoch that begins, or its leave."""
    if place.neighbours is None:
        return node not in begin.members
    # Every member asks that about all members: no set of them is made.
    absent = {node, *place.neighbours, *place.buddies, *place.wards}.difference(begin.members)
    return not absent and place.round <= begin.until


def _are_among(ids: tuple[int, ...], others: Collection[int]) -> bool:
    return not ids or (len(set(ids)) == len(ids) and all(node in others for node in ids))
