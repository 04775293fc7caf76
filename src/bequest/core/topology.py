"""Which node inherits from a leaver, and how the network is kept connected without it.

A network is a mapping node -> set of neighbours. The functions that change it say so.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    Network = dict[int, set[int]]
    # Node -> what it can fail together with, the smallest first: its host, then its machine.
    Domains = Callable[[int], tuple[Hashable, ...]]


def _alone(node: int) -> tuple[int]:
    """Every node on a machine of its own."""
    return (node,)


def choose_heir(
    network: Network,
    leaver: int,
    *,
    leaving: Collection[int],
    load: Callable[[int], int],
    domains: Domains = _alone,
) -> int:
    """Return the neighbour that inherits: the least loaded, lowest id on ties.

    Neighbours that are ``leaving`` in the same round are chosen only when there is no other;
    they then pass everything on when their own turn comes. Neighbours on the leaver's own machine,
    which may be about to die with it, come after those on others, and those on its own host last.

    Args:
        network: each node's neighbours now.
        leaver: the node that leaves.
        leaving: all nodes that leave in this round.
        load: node -> how many original nodes its inherited quadratic remembers.
        domains: node -> what it can fail together with, the smallest first.

    Paper: alg:lgt ("fewest legacies"), as:net (load balancing).
    """
    neighbours, own = network[leaver], set(domains(leaver))
    staying = [node for node in neighbours if node not in leaving]
    return min(
        staying or neighbours,
        key=lambda node: (len(own.intersection(domains(node))), load(node), node),
    )


def choose_buddies(
    network: Network, node: int, *, count: int, domains: Domains = _alone
) -> tuple[int, ...]:
    """Return the keepers of a node's checkpoints: up to ``count`` others, the preferred one first.

    No two of them are on one host as long as there is another one without any, nor on one machine
    as long as there is another machine; the node's own come last. So ``count`` buddies and the node
    are on ``count + 1`` hosts, and on as many machines, where there are that many: whichever
    ``count`` of these die together, what is known of the node survives. Within that, neighbours
    come before strangers, and then the next ids upward (around the end), so that no node is the
    buddy of all.

    Args:
        network: each node's neighbours.
        node: whose checkpoints are to be kept.
        count: how many buddies there are to be.
        domains: node -> what it can fail together with, the smallest first.
    """
    near = network[node]
    own, taken = set(domains(node)), Counter[Hashable]()

    def is_free(other: int) -> bool:
        places = domains(other)
        return own.isdisjoint(places) and taken.keys().isdisjoint(places)

    def crowding(other: int) -> list[tuple[bool, int]]:
        return [(place in own, taken[place]) for place in domains(other)]

    buddies: list[int] = []
    line: list[int] = []
    # Where there are enough hosts, the neighbours will do, and the others need not be put in line.
    for group in (near, network.keys() - near - {node}):
        if len(buddies) == count:
            return tuple(buddies)
        ids = sorted(group)
        turn = bisect(ids, node)
        for other in ids[turn:] + ids[:turn]:
            if len(buddies) < count and is_free(other):
                taken.update(domains(other))
                buddies.append(other)
            else:
                line.append(other)
    while line and len(buddies) < count:
        best = min(line, key=crowding)  # the first in line of the least crowded
        line.remove(best)
        taken.update(domains(best))
        buddies.append(best)
    return tuple(buddies)


def remove(network: Network, leaver: int, *, hub: int) -> list[tuple[int, int]]:
    """Take ``leaver`` out of ``network``, in place, and bridge what it held together.

    Its edges go with it. Where the rest falls apart, ``hub`` (its heir) links to the lowest-id
    former neighbour of the leaver in every part that the hub is not in.

    Returns:
        The edges that were added; none while the rest stays connected.

    Paper: N2. Deviates: the paper assumes that the rest stays connected.
    """
    former = network.pop(leaver)
    for node in former:
        network[node].discard(leaver)
    added = []
    while cut_off := former - reached(network, hub, until=former):
        nearest = min(cut_off)
        network[hub].add(nearest)
        network[nearest].add(hub)
        added.append((hub, nearest))
    return added


def reached(network: Network, start: int, *, until: Collection[int] | None = None) -> set[int]:
    """Return the nodes that ``start`` can reach, stopping once all of ``until`` are among them.

    In a well-connected network the former neighbours of a leaver find each other within a few
    hops, so a departure does not cost a walk over all nodes.
    """
    missing = None if until is None else set(until) - {start}
    seen = {start}
    frontier = [start]
    while frontier and (missing is None or missing):
        found: list[int] = []
        for node in frontier:
            fresh = network[node] - seen
            seen |= fresh
            found.extend(fresh)
        if missing is not None:
            missing.difference_update(found)
        frontier = found
    return seen


def components(network: Network) -> list[set[int]]:
    """Return the connected parts, each with its lowest id first in line."""
    parts = []
    rest = set(network)
    for node in sorted(network):
        if node in rest:
            part = reached(network, node)
            parts.append(part)
            rest -= part
    return parts


def network_of(nodes: Iterable[int], edges: Iterable[tuple[int, int]]) -> Network:
    """Return the mapping node -> neighbours of an edge list."""
    network: Network = {node: set() for node in nodes}
    for one, other in edges:
        network[one].add(other)
        network[other].add(one)
    return network


def tree(network: Network, root: int) -> dict[int, int | None]:
    """Return each node's way to the root, as node -> the next one; the shortest, lowest id on ties.

    >>> tree({0: {1, 2}, 1: {0, 3}, 2: {0, 3}, 3: {1, 2}}, 0)
    {0: None, 1: 0, 2: 0, 3: 1}
    """
    above: dict[int, int | None] = {root: None}
    for node in (reached := [root]):
        for other in sorted(network[node] - above.keys()):
            above[other] = node
            reached.append(other)
    return above
