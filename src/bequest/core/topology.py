"""Who inherits from whom, and how the network closes ranks after somebody left.

A network is a mapping node -> set of neighbours. The functions that change it say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable

    Network = dict[int, set[int]]
    Hosts = Callable[[int], Hashable]


def _own_host(node: int) -> int:
    """Everybody on a machine of its own."""
    return node


def choose_heir(
    network: Network,
    leaver: int,
    *,
    leaving: Collection[int],
    load: Callable[[int], int],
    host: Hosts = _own_host,
) -> int:
    """Return the neighbour that inherits: the least loaded, lowest id on ties.

    Neighbours that are ``leaving`` in the same round are chosen only when there is nobody else;
    they then pass everything on when their own turn comes. Neighbours on the leaver's own host,
    which may be about to die with it, come after those on others.

    Args:
        network: who talks to whom now.
        leaver: who leaves.
        leaving: everybody who leaves in this round.
        load: node -> how many original nodes its inherited quadratic remembers.
        host: node -> the machine it is on, its failure domain.

    Paper: alg:lgt ("fewest legacies"), as:net (load balancing).
    """
    neighbours = network[leaver]
    staying = [node for node in neighbours if node not in leaving]
    return min(
        staying or neighbours,
        key=lambda node: (host(node) == host(leaver), load(node), node),
    )


def choose_buddies(
    network: Network, node: int, *, count: int, host: Hosts = _own_host
) -> tuple[int, ...]:
    """Return who keeps a node's checkpoints: up to ``count`` others, the preferred one first.

    On other hosts than the node where there are any, neighbours before strangers, and then the
    next ids upward (around the end), so that nobody is everybody's buddy.
    """

    def preference(other: int) -> tuple[bool, bool, bool, int]:
        return host(other) == host(node), other not in network[node], other < node, other

    others: Iterable[int] = network[node]
    if sum(host(other) != host(node) for other in others) < count:
        others = (other for other in network if other != node)
    return tuple(sorted(others, key=preference)[:count])


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
    hops, so a departure does not cost a walk over everybody.
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
