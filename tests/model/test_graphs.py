"""Graphs, generated and given."""

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bequest as bq

some = settings(deadline=None, max_examples=60, derandomize=True)


def degrees(graph):
    return [len(graph.neighbours(node)) for node in range(graph.n)]


def edge_set(graph):
    return {tuple(edge) for edge in graph.edges.tolist()}


# --- generators ---------------------------------------------------------------------------------

GENERATORS = {
    "path": (lambda: bq.graphs.path(7), 7, 6),
    "ring": (lambda: bq.graphs.ring(7), 7, 7),
    "ring with chords": (lambda: bq.graphs.ring_with_chords(10, 6, seed=1), 10, 16),
    "ring without chords": (lambda: bq.graphs.ring_with_chords(10, 0, seed=1), 10, 10),
    "ring with all chords": (lambda: bq.graphs.ring_with_chords(6, 9, seed=1), 6, 15),
    "grid": (lambda: bq.graphs.grid(3, 4), 12, 17),
    "flat grid": (lambda: bq.graphs.grid(1, 5), 5, 4),
    "complete": (lambda: bq.graphs.complete(6), 6, 15),
    "star": (lambda: bq.graphs.star(6), 6, 5),
    "random regular": (lambda: bq.graphs.random_regular(10, 3, seed=1), 10, 15),
    "random, certain": (lambda: bq.graphs.erdos_renyi(6, 1.0, seed=1), 6, 15),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generated_graph_has_the_right_counts_and_is_connected(name):
    make, nodes, edges = GENERATORS[name]
    graph = make()
    assert graph.n == nodes
    assert len(graph.edges) == len(edge_set(graph)) == edges
    assert all(0 <= one < other < nodes for one, other in edge_set(graph))
    check = networkx.Graph(edge_set(graph))
    check.add_nodes_from(range(nodes))
    assert networkx.is_connected(check)
    assert edge_set(make()) == edge_set(graph)


def test_generated_graphs_are_the_textbook_ones():
    def textbook(graph):
        return {tuple(sorted(edge)) for edge in graph.edges}

    assert edge_set(bq.graphs.path(9)) == textbook(networkx.path_graph(9))
    assert edge_set(bq.graphs.ring(9)) == textbook(networkx.cycle_graph(9))
    assert edge_set(bq.graphs.star(9)) == textbook(networkx.star_graph(8))
    assert edge_set(bq.graphs.complete(9)) == textbook(networkx.complete_graph(9))
    lattice = networkx.relabel_nodes(
        networkx.grid_2d_graph(3, 5), {(i, j): 5 * i + j for i in range(3) for j in range(5)}
    )
    assert edge_set(bq.graphs.grid(3, 5)) == textbook(lattice)


def test_a_ring_with_chords_contains_the_ring():
    graph = bq.graphs.ring_with_chords(20, 15, seed=7)
    assert edge_set(bq.graphs.ring(20)) < edge_set(graph)


@some
@given(n=st.integers(1, 30), seed=st.integers(0, 1000))
def test_a_random_graph_is_always_connected(n, seed):
    graph = bq.graphs.erdos_renyi(n, 0.35 if n > 8 else 0.8, seed=seed)
    assert graph.n == n
    assert n == 1 or min(degrees(graph)) >= 1


@some
@given(half=st.integers(2, 12), degree=st.integers(3, 5), seed=st.integers(0, 1000))
def test_a_random_regular_graph_is_regular(half, degree, seed):
    n = 2 * half
    degree = min(degree, n - 1)
    assert degrees(bq.graphs.random_regular(n, degree, seed=seed)) == [degree] * n


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: bq.graphs.ring_with_chords(12, 8, seed=seed),
        lambda seed: bq.graphs.erdos_renyi(12, 0.4, seed=seed),
        lambda seed: bq.graphs.random_regular(12, 3, seed=seed),
    ],
    ids=["chords", "erdos-renyi", "regular"],
)
def test_a_seed_is_reproducible_and_others_differ(make):
    assert edge_set(make(3)) == edge_set(make(3))
    assert len({frozenset(edge_set(make(seed))) for seed in range(8)}) > 4


@pytest.mark.parametrize(
    "make",
    [
        bq.graphs.path,
        bq.graphs.ring,
        bq.graphs.star,
        bq.graphs.complete,
        lambda n: bq.graphs.grid(1, n),
        lambda n: bq.graphs.erdos_renyi(n, 1.0, seed=0),
        lambda n: bq.graphs.ring_with_chords(n, 0, seed=0),
    ],
)
def test_one_node_and_two_nodes_are_networks_too(make):
    alone, pair = make(1), make(2)
    assert (alone.n, len(alone.edges), alone.neighbours(0)) == (1, 0, ())
    assert alone.spectral_gap == 1.0
    assert (pair.n, edge_set(pair)) == (2, {(0, 1)})
    assert pair.spectral_gap == pytest.approx(1.0, abs=1e-15)


IMPOSSIBLE = {
    "empty path": lambda: bq.graphs.path(0),
    "empty ring": lambda: bq.graphs.ring(0),
    "empty star": lambda: bq.graphs.star(0),
    "empty complete": lambda: bq.graphs.complete(0),
    "negative": lambda: bq.graphs.complete(-2),
    "empty grid": lambda: bq.graphs.grid(0, 3),
    "flat grid": lambda: bq.graphs.grid(3, 0),
    "too many chords": lambda: bq.graphs.ring_with_chords(5, 6, seed=0),
    "negative chords": lambda: bq.graphs.ring_with_chords(5, -1, seed=0),
    "chords of a pair": lambda: bq.graphs.ring_with_chords(2, 1, seed=0),
    "certain disconnection": lambda: bq.graphs.erdos_renyi(5, 0.0, seed=0),
    "probability above one": lambda: bq.graphs.erdos_renyi(5, 1.5, seed=0),
    "negative probability": lambda: bq.graphs.erdos_renyi(5, -0.5, seed=0),
    "no probability": lambda: bq.graphs.erdos_renyi(5, float("nan"), seed=0),
    "empty random": lambda: bq.graphs.erdos_renyi(0, 0.5, seed=0),
    "odd total degree": lambda: bq.graphs.random_regular(5, 3, seed=0),
    "degree too large": lambda: bq.graphs.random_regular(4, 4, seed=0),
    "degree zero": lambda: bq.graphs.random_regular(4, 0, seed=0),
    "perfect matching": lambda: bq.graphs.random_regular(4, 1, seed=0),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_graph_is_refused(name):
    with pytest.raises(bq.errors.InvalidGraph) as caught:
        IMPOSSIBLE[name]()
    assert caught.type is bq.errors.InvalidGraph
    assert caught.value.what
    assert caught.value.remedy


# --- given graphs -------------------------------------------------------------------------------


@some
@given(n=st.integers(2, 10), data=st.data())
def test_order_and_repeats_of_edges_do_not_matter(n, data):
    tree = [(data.draw(st.integers(0, k - 1)), k) for k in range(1, n)]
    repeats = data.draw(st.lists(st.sampled_from(tree), max_size=5))
    edges = data.draw(st.permutations(tree + repeats))
    flipped = [edge if data.draw(st.booleans()) else edge[::-1] for edge in edges]
    graph = bq.Graph(flipped)
    assert edge_set(graph) == set(tree)
    np.testing.assert_array_equal(graph.edges, bq.Graph(tree).edges)
    for node in range(n):
        assert graph.neighbours(node) == tuple(
            sorted({b for a, b in tree if a == node} | {a for a, b in tree if b == node})
        )


def test_edges_may_come_as_any_pairs():
    expected = {(0, 1), (1, 2)}
    for edges in (
        [(0, 1), (1, 2)],
        [[0, 1], [1, 2]],
        np.array([[0, 1], [1, 2]]),
        ((0, 1), (1, 2)),
        {(0, 1), (1, 2)},
        (edge for edge in [(0, 1), (1, 2)]),
        [(0.0, 1.0), (1.0, 2.0)],
    ):
        assert edge_set(bq.Graph(edges)) == expected


@pytest.mark.parametrize("kind", [networkx.Graph, networkx.MultiGraph])
def test_a_networkx_graph_is_a_graph(kind):
    graph = kind([(2, 0), (0, 1), (1, 2), (2, 3), (3, 2)])
    assert edge_set(bq.Graph(graph)) == {(0, 1), (0, 2), (1, 2), (2, 3)}
    assert bq.Graph(graph).n == 4
    weighted = networkx.Graph()
    weighted.add_edge(1, 0, weight=3.0)
    assert edge_set(bq.Graph(weighted)) == {(0, 1)}


def test_a_networkx_graph_of_one_node_is_a_graph():
    lonely = networkx.Graph()
    lonely.add_node(0)
    assert (bq.Graph(lonely).n, len(bq.Graph(lonely).edges)) == (1, 0)


def test_solve_takes_graphs_of_every_form():
    problem = bq.problems.quadratics(n=4, dim=2, mu=1, L=3, seed=0)
    edges = [(0, 1), (1, 2), (2, 3), (3, 0)]
    forms = [bq.Graph(edges), edges, np.array(edges), networkx.cycle_graph(4)]
    runs = [bq.solve(problem, form, rounds=20) for form in forms]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.x, runs[0].x)


def test_a_graph_cannot_be_changed_from_outside():
    graph = bq.graphs.ring(4)
    with pytest.raises(ValueError, match="read-only"):
        graph.edges[0, 0] = 3
    graph.network()[0].clear()
    assert graph.neighbours(0) == (1, 3)
    graph.weights().data[:] = 0.0
    assert graph.weights().sum() == pytest.approx(4.0)
