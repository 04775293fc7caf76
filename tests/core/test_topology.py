"""Who inherits, and how the network closes ranks: rules checked on every small network."""

import networkx
import pytest
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
    assert heir({0, 1, 2, 3}) == 2  # a chain: nobody stays, so the least loaded passes it on


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


@some
@given(network=networks(), data=st.data())
def test_an_heir_on_another_host_comes_before_a_less_loaded_one_on_the_leavers(network, data):
    leaver = data.draw(st.sampled_from(sorted(network)))
    hosts = {node: data.draw(st.integers(0, 2)) for node in network}
    load = {node: data.draw(st.integers(0, 2)) for node in network}
    heir = topology.choose_heir(
        network, leaver, leaving={leaver}, load=load.__getitem__, host=hosts.__getitem__
    )
    elsewhere = {node for node in network[leaver] if hosts[node] != hosts[leaver]}
    candidates = elsewhere or network[leaver]
    assert heir in candidates
    assert (load[heir], heir) == min((load[node], node) for node in candidates)


def test_staying_comes_before_another_host():
    network = topology.network_of(range(3), [(0, 1), (0, 2)])
    hosts = {0: "a", 1: "a", 2: "b"}

    def heir(leaving):
        return topology.choose_heir(
            network, 0, leaving=leaving, load=lambda _: 0, host=hosts.__getitem__
        )

    assert heir({0}) == 2
    assert heir({0, 2}) == 1


@some
@given(network=networks(), data=st.data())
def test_buddies_are_neighbours_first_and_then_the_next_ids_upward(network, data):
    node = data.draw(st.sampled_from(sorted(network)))
    count = data.draw(st.integers(0, len(network)))
    found = topology.choose_buddies(network, node, count=count)
    assert len(found) == min(count, len(network) - 1)
    upward = sorted(network, key=lambda other: (other < node, other))
    near = [other for other in upward if other in network[node]]
    far = [other for other in upward if other not in network[node] and other != node]
    assert list(found) == (near + far)[:count]


@some
@given(network=networks(), data=st.data())
def test_buddies_are_on_other_hosts_where_there_are_any(network, data):
    node = data.draw(st.sampled_from(sorted(network)))
    hosts = {one: data.draw(st.integers(0, 2)) for one in network}
    count = data.draw(st.integers(1, len(network)))
    found = topology.choose_buddies(network, node, count=count, host=hosts.__getitem__)
    assert len(set(found)) == len(found) == min(count, len(network) - 1)
    assert node not in found
    elsewhere = {one for one in network if hosts[one] != hosts[node]}
    assert len(elsewhere.intersection(found)) == min(count, len(elsewhere))
    # neighbours before strangers, among those elsewhere
    near = len(elsewhere & network[node])
    assert len(elsewhere.intersection(found) & network[node]) == min(near, count)


def test_nobody_is_everybodys_buddy():
    complete = topology.network_of(range(6), [(i, j) for i in range(6) for j in range(i)])
    first = [topology.choose_buddies(complete, node, count=1) for node in range(6)]
    assert first == [(1,), (2,), (3,), (4,), (5,), (0,)]
