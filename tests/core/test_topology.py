"""Who inherits, and how the network closes ranks: rules checked on every small network."""

import itertools

import networkx
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from bequest.core import topology

some = settings(deadline=None, max_examples=150, derandomize=True)


@st.composite
def networks(draw, least=2, most=12):
    """Any connected network: a random tree on shuffled ids, and any further edges."""
    n = draw(st.integers(least, most))
    ids = draw(st.permutations(range(n)))
    edges = {(ids[draw(st.integers(0, k - 1))], ids[k]) for k in range(1, n)}
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    edges |= {pair for pair in draw(st.lists(pairs, max_size=2 * n)) if pair[0] != pair[1]}
    return topology.network_of(range(n), edges)


@st.composite
def cut_networks(draw):
    """A network and a node that holds several parts of it together, by one edge or by many."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    ids = draw(st.permutations(range(sum(sizes) + 1)))
    leaver, rest, edges = ids[0], list(ids[1:]), []
    for size in sizes:
        part, rest = rest[:size], rest[size:]
        edges += [(part[draw(st.integers(0, k - 1))], part[k]) for k in range(1, size)]
        held = draw(st.sets(st.sampled_from(part), min_size=1))
        edges += [(leaver, node) for node in held]
    return topology.network_of(range(sum(sizes) + 1), edges), leaver


def as_networkx(network):
    graph = networkx.Graph()
    graph.add_nodes_from(network)
    graph.add_edges_from((one, other) for one in network for other in network[one])
    return graph


def copied(network):
    return {node: set(others) for node, others in network.items()}


# --- healing ------------------------------------------------------------------------------------


@some
@given(network=networks(), data=st.data())
def test_whoever_leaves_and_whoever_inherits_the_rest_stays_connected(network, data):
    leaver = data.draw(st.sampled_from(sorted(network)))
    hub = data.draw(st.sampled_from(sorted(network[leaver])))
    rest = copied(network)
    topology.remove(rest, leaver, hub=hub)
    assert set(rest) == set(network) - {leaver}
    graph = as_networkx(rest)
    assert networkx.is_connected(graph)
    # still a network: symmetric, without loops, without the leaver
    assert all(node in rest[other] for node in rest for other in rest[node])
    assert all(node not in rest[node] and leaver not in rest[node] for node in rest)


@some
@given(cut=cut_networks(), data=st.data())
def test_each_part_that_is_cut_off_is_bridged_to_its_lowest_former_neighbour(cut, data):
    network, leaver = cut
    hub = data.draw(st.sampled_from(sorted(network[leaver])))
    without = as_networkx(network)
    without.remove_node(leaver)
    parts = list(networkx.connected_components(without))
    cut_off = [part for part in parts if hub not in part]
    assert cut_off
    expected = {(hub, min(part & network[leaver])) for part in cut_off}
    rest = copied(network)
    added = topology.remove(rest, leaver, hub=hub)
    assert len(added) == len(parts) - 1
    assert set(added) == expected
    # and nothing else changed
    without.add_edges_from(added)
    assert networkx.utils.edges_equal(without.edges, as_networkx(rest).edges)


@some
@given(network=networks(least=3), data=st.data())
def test_no_edge_is_added_while_the_rest_stays_connected(network, data):
    graph = as_networkx(network)
    safe = sorted(set(network) - set(networkx.articulation_points(graph)))
    leaver = data.draw(st.sampled_from(safe))
    hub = data.draw(st.sampled_from(sorted(network[leaver])))
    before = copied(network)
    assert topology.remove(network, leaver, hub=hub) == []
    assert network == {node: others - {leaver} for node, others in before.items() if node != leaver}


@some
@given(network=networks(), data=st.data())
def test_everybody_but_one_can_leave_one_after_the_other(network, data):
    while len(network) > 1:
        leaver = data.draw(st.sampled_from(sorted(network)))
        heir = topology.choose_heir(network, leaver, leaving=(), load=lambda _: 0)
        topology.remove(network, leaver, hub=heir)
        assert networkx.is_connected(as_networkx(network))
    assert list(network.values()) == [set()]


def test_the_hub_of_a_star_is_replaced_by_its_heir():
    network = topology.network_of(range(5), [(0, k) for k in range(1, 5)])
    added = topology.remove(network, 0, hub=3)
    assert sorted(added) == [(3, 1), (3, 2), (3, 4)]
    assert network == {1: {3}, 2: {3}, 3: {1, 2, 4}, 4: {3}}


def test_a_cut_path_is_bridged_across_the_gap():
    network = topology.network_of(range(5), [(0, 1), (1, 2), (2, 3), (3, 4)])
    assert topology.remove(network, 2, hub=3) == [(3, 1)]
    assert network == {0: {1}, 1: {0, 3}, 3: {1, 4}, 4: {3}}


def test_a_ring_that_loses_a_node_becomes_a_path_without_help():
    network = topology.network_of(range(4), [(0, 1), (1, 2), (2, 3), (3, 0)])
    assert topology.remove(network, 1, hub=0) == []
    assert network == {0: {3}, 2: {3}, 3: {0, 2}}


# --- heirs --------------------------------------------------------------------------------------


@some
@given(network=networks(), data=st.data())
def test_the_least_loaded_staying_neighbour_inherits_and_the_lowest_of_equals(network, data):
    leaver = data.draw(st.sampled_from(sorted(network)))
    load = {node: data.draw(st.integers(0, 2)) for node in network}
    leaving = {node for node in network if data.draw(st.booleans())} | {leaver}
    heir = topology.choose_heir(network, leaver, leaving=leaving, load=load.__getitem__)
    staying = network[leaver] - leaving
    candidates = staying or network[leaver]
    assert heir in candidates
    assert load[heir] == min(load[node] for node in candidates)
    assert heir == min(node for node in candidates if load[node] == load[heir])


def test_load_comes_before_the_id_and_staying_before_the_load():
    network = topology.network_of(range(4), [(0, 1), (0, 2), (0, 3)])
    load = {1: 2, 2: 1, 3: 1}

    def heir(leaving):
        return topology.choose_heir(network, 0, leaving=leaving, load=load.__getitem__)

    assert heir({0}) == 2
    assert heir({0, 2}) == 3
    assert heir({0, 2, 3}) == 1
    assert heir({0, 1, 2, 3}) == 2  # a chain: no node stays, so the least loaded passes it on


# --- reaching -----------------------------------------------------------------------------------


@some
@given(network=networks(), data=st.data())
def test_reaching_finds_the_whole_part_and_no_more(network, data):
    removed = data.draw(st.sets(st.sampled_from(sorted(network)), max_size=len(network) - 1))
    rest = {node: others - removed for node, others in network.items() if node not in removed}
    graph = as_networkx(rest)
    start = data.draw(st.sampled_from(sorted(rest)))
    whole = networkx.node_connected_component(graph, start)
    assert topology.reached(rest, start) == whole
    until = data.draw(st.sets(st.sampled_from(sorted(rest))))
    early = topology.reached(rest, start, until=until)
    assert early <= whole
    assert until & early == until & whole
    assert [set(part) for part in topology.components(rest)] == sorted(
        (set(part) for part in networkx.connected_components(graph)), key=min
    )


def test_reaching_stops_as_soon_as_it_has_found_them():
    network = topology.network_of(range(1000), [(k, k + 1) for k in range(999)])
    assert len(topology.reached(network, 0, until={0, 3})) == 4
    assert len(topology.reached(network, 0)) == 1000


@pytest.mark.parametrize("edges", [[(0, 1), (0, 1)], [(0, 1), (1, 0)]])
def test_a_network_hears_both_ways_and_repeats_once(edges):
    assert topology.network_of(range(3), edges) == {0: {1}, 1: {0}, 2: set()}


# --- hosts and buddies --------------------------------------------------------------------------


@st.composite
def placed(draw, **sizes):
    """A network, and for each node its host and the machine that its host is on."""
    network = draw(networks(**sizes))
    machine_of = [f"machine {draw(st.integers(0, 2))}" for _ in range(draw(st.integers(1, 5)))]
    hosts = {node: draw(st.integers(0, len(machine_of) - 1)) for node in network}
    return network, {node: (f"host {k}", machine_of[k]) for node, k in hosts.items()}


@some
@given(placed=placed(), data=st.data())
def test_an_heir_elsewhere_comes_before_a_less_loaded_one_close_to_the_leaver(placed, data):
    network, where = placed
    leaver = data.draw(st.sampled_from(sorted(network)))
    load = {node: data.draw(st.integers(0, 2)) for node in network}
    heir = topology.choose_heir(
        network, leaver, leaving={leaver}, load=load.__getitem__, domains=where.__getitem__
    )
    host, machine = where[leaver]
    off_the_machine = {node for node in network[leaver] if where[node][1] != machine}
    off_the_host = {node for node in network[leaver] if where[node][0] != host}
    candidates = off_the_machine or off_the_host or network[leaver]
    assert heir in candidates
    assert (load[heir], heir) == min((load[node], node) for node in candidates)


def test_staying_comes_before_another_host():
    network = topology.network_of(range(3), [(0, 1), (0, 2)])
    hosts = {0: ("a",), 1: ("a",), 2: ("b",)}

    def heir(leaving):
        return topology.choose_heir(
            network, 0, leaving=leaving, load=lambda _: 0, domains=hosts.__getitem__
        )

    assert heir({0}) == 2
    assert heir({0, 2}) == 1


@some
@given(network=networks(), data=st.data())
def test_buddies_are_neighbours_first_and_then_the_next_ids_upward(network, data):
    """Where every node is on a machine of its own."""
    node = data.draw(st.sampled_from(sorted(network)))
    count = data.draw(st.integers(0, len(network)))
    found = topology.choose_buddies(network, node, count=count)
    assert len(found) == min(count, len(network) - 1)
    upward = sorted(network, key=lambda other: (other < node, other))
    near = [other for other in upward if other in network[node]]
    far = [other for other in upward if other not in network[node] and other != node]
    assert list(found) == (near + far)[:count]


@some
@given(placed=placed(), data=st.data())
def test_buddies_are_whom_the_reference_chooses(placed, data):
    network, where = placed
    node = data.draw(st.sampled_from(sorted(network)))
    count = data.draw(st.integers(0, len(network)))
    found = topology.choose_buddies(network, node, count=count, domains=where.__getitem__)
    assert list(found) == reference.buddies_of(network, node, count, where)
    # in whatever order the network was put together
    order = data.draw(st.permutations(sorted(network)))
    other = {one: network[one] for one in order}
    assert topology.choose_buddies(other, node, count=count, domains=where.__getitem__) == found


@some
@given(placed=placed(most=10), data=st.data())
def test_buddies_are_in_as_many_places_as_there_are(placed, data):
    network, where = placed
    node = data.draw(st.sampled_from(sorted(network)))
    count = data.draw(st.integers(1, len(network) - 1))
    found = topology.choose_buddies(network, node, count=count, domains=where.__getitem__)
    assert len(set(found)) == len(found) == count
    assert node not in found
    for level in (0, 1):
        own = where[node][level]
        there = {where[one][level] for one in network} - {own}
        taken = [where[one][level] for one in found]
        assert len(set(taken) - {own}) == min(count, len(there))
    elsewhere = [one for one in network if where[one][0] != where[node][0]]
    assert sum(where[one][0] != where[node][0] for one in found) == min(count, len(elsewhere))
    # a neighbour is the first to be asked unless that would be closer to the node
    far = {one for one in network if where[one][1] != where[node][1]} or set(elsewhere)
    if far & network[node]:
        assert found[0] in far & network[node]


@some
@given(placed=placed(most=10), data=st.data())
def test_whichever_places_are_lost_a_buddy_is_left(placed, data):
    """So many buddies survive the loss of as many hosts, or machines, where there are more."""
    network, where = placed
    count = data.draw(st.integers(1, 3))
    for level in (0, 1):
        places = sorted({there[level] for there in where.values()})
        for dead in itertools.combinations(places, min(count, len(places) - 1)):
            for node in network:
                if where[node][level] in dead:
                    found = topology.choose_buddies(
                        network, node, count=count, domains=where.__getitem__
                    )
                    assert any(where[one][level] not in dead for one in found)


def test_all_buddies_of_a_node_are_never_on_one_host_where_there_are_others():
    complete = topology.network_of(range(8), [(i, j) for i in range(8) for j in range(i)])
    found = {
        node: topology.choose_buddies(complete, node, count=2, domains=lambda one: (one // 2,))
        for node in range(8)
    }
    assert found == {
        0: (2, 4), 1: (2, 4), 2: (4, 6), 3: (4, 6), 4: (6, 0), 5: (6, 0), 6: (0, 2), 7: (0, 2),
    }  # fmt: skip


def test_nobody_is_everybodys_buddy():
    complete = topology.network_of(range(6), [(i, j) for i in range(6) for j in range(i)])
    first = [topology.choose_buddies(complete, node, count=1) for node in range(6)]
    assert first == [(1,), (2,), (3,), (4,), (5,), (0,)]


@some
@given(networks(least=1))
def test_a_tree_leads_every_node_to_the_root_by_a_shortest_way(network):
    for root in network:
        above = topology.tree(network, root)
        assert above.keys() == network.keys()
        assert [node for node, next_one in above.items() if next_one is None] == [root]
        hops = {root: 0}
        for node, next_one in above.items():  # nearer nodes come first
            if next_one is not None:
                assert next_one in network[node]
                hops[node] = hops[next_one] + 1
        for node, others in network.items():
            assert all(hops[node] <= hops[other] + 1 for other in others)


def test_of_two_ways_to_the_root_the_lower_id_is_taken():
    square = {0: {1, 2}, 1: {0, 3}, 2: {0, 3}, 3: {1, 2}}
    assert topology.tree(square, 0) == {0: None, 1: 0, 2: 0, 3: 1}
    assert topology.tree(square, 3) == {3: None, 1: 3, 2: 3, 0: 1}
    assert topology.tree({4: set()}, 4) == {4: None}
