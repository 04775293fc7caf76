"""Averaging weights: what they promise on every graph, and their spectrum."""

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bequest as bq
from bequest.core import mixing

some = settings(deadline=None, max_examples=100, derandomize=True)


@st.composite
def graphs(draw, most=14):
    n = draw(st.integers(1, most))
    ids = draw(st.permutations(range(n)))
    edges = [(ids[draw(st.integers(0, k - 1))], ids[k]) for k in range(1, n)]
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    edges += [pair for pair in draw(st.lists(pairs, max_size=2 * n)) if pair[0] != pair[1]]
    return bq.Graph(edges, n=n)


def spectrum(graph):
    return np.linalg.eigvalsh(graph.weights().toarray())


def true_gap(graph):
    eigenvalues = spectrum(graph)
    return 1.0 - max(abs(eigenvalues[0]), abs(eigenvalues[-2]))


def thick_ring(length, width):
    """A ring of independent sets, each joined to the next completely; bipartite if even."""
    return bq.Graph(
        [
            (place * width + one, (place + 1) % length * width + other)
            for place in range(length)
            for one in range(width)
            for other in range(width)
        ]
    )


def with_a_bipartite_tail():
    """A long path that ends in K_{10,10}: one eigenvalue far below all others, in one corner."""
    dense = networkx.complete_bipartite_graph(10, 10)
    path = [(19 + k, 20 + k) for k in range(430)]
    return bq.Graph([*dense.edges, *path])


# --- the weights --------------------------------------------------------------------------------


@some
@given(graph=graphs())
def test_metropolis_weights_are_symmetric_stochastic_and_follow_the_graph(graph):
    W = graph.weights().toarray()
    assert W.shape == (graph.n, graph.n)
    np.testing.assert_array_equal(W, W.T)
    np.testing.assert_allclose(W.sum(axis=0), 1.0, rtol=0, atol=1e-15)
    np.testing.assert_allclose(W.sum(axis=1), 1.0, rtol=0, atol=1e-15)
    assert W.min() >= 0.0
    assert np.diagonal(W).min() > 0.0
    for j in range(graph.n):
        assert set(np.flatnonzero(W[j])) == {j, *graph.neighbours(j)}


@some
@given(graph=graphs())
def test_metropolis_weights_need_the_degrees_of_two_neighbours_only(graph):
    W = graph.weights().toarray()
    degree = [len(graph.neighbours(j)) for j in range(graph.n)]
    for one, other in graph.edges:
        assert W[one, other] == 1.0 / (1.0 + max(degree[one], degree[other]))


@some
@given(graph=graphs())
def test_eigenvalues_lie_above_minus_one_and_one_is_simple(graph):
    eigenvalues = spectrum(graph)
    assert eigenvalues[0] > -1.0
    assert eigenvalues[-1] == pytest.approx(1.0, abs=1e-14)
    if graph.n > 1:
        assert eigenvalues[-2] < 1.0 - 1e-6


def test_weights_of_known_graphs_are_known():
    np.testing.assert_allclose(bq.graphs.complete(5).weights().toarray(), 0.2, atol=1e-16)
    np.testing.assert_allclose(bq.graphs.path(2).weights().toarray(), 0.5, atol=1e-16)
    np.testing.assert_array_equal(bq.graphs.path(1).weights().toarray(), [[1.0]])
    ring = bq.graphs.ring(5).weights().toarray()
    np.testing.assert_allclose(ring[0], [1 / 3, 1 / 3, 0, 0, 1 / 3], atol=1e-16)
    star = bq.graphs.star(4).weights().toarray()
    np.testing.assert_allclose(star[0], 0.25, atol=1e-16)
    np.testing.assert_allclose(star[1], [0.25, 0.75, 0, 0], atol=1e-16)


# --- mixing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "graph",
    [
        bq.graphs.path(1),
        bq.graphs.ring(7),
        bq.graphs.ring(mixing.DENSE_NODES),
        bq.graphs.ring(mixing.DENSE_NODES + 1),
        bq.graphs.complete(mixing.DENSE_NODES + 1),
        bq.graphs.random_regular(300, 4, seed=0),
    ],
    ids=repr,
)
@pytest.mark.parametrize("dim", [1, 3])
def test_mixing_is_multiplication_by_the_weights_in_every_form(graph, dim):
    source = np.random.default_rng(0).standard_normal((graph.n, dim))
    kept = source.copy()
    target = mixing.mixer(graph.weights())(source, None)
    np.testing.assert_allclose(target, graph.weights().toarray() @ source, rtol=0, atol=1e-14)
    written = mixing.mixer(graph.weights())(source, np.empty_like(source))
    np.testing.assert_array_equal(written, target)
    np.testing.assert_array_equal(source, kept)
    np.testing.assert_allclose(target.mean(axis=0), source.mean(axis=0), rtol=0, atol=1e-14)


# --- the spectral gap ---------------------------------------------------------------------------


@some
@given(graph=graphs())
def test_the_spectral_gap_of_a_small_graph_is_that_of_its_eigenvalues(graph):
    if graph.n == 1:
        assert graph.spectral_gap == 1.0
    else:
        assert graph.spectral_gap == pytest.approx(true_gap(graph), abs=1e-13)
        assert 0.0 < graph.spectral_gap <= 1.0


@pytest.mark.parametrize("n", [3, 10, 401, 600])
def test_the_gaps_of_complete_graphs_and_stars_are_known(n):
    assert bq.graphs.complete(n).spectral_gap == pytest.approx(1.0, abs=1e-12)
    assert bq.graphs.star(n).spectral_gap == pytest.approx(1.0 / n, rel=1e-9)


@pytest.mark.parametrize("half", [2, 3, 8, 60, 250])
def test_the_gap_of_a_complete_bipartite_graph_is_that_of_its_lowest_eigenvalue(half):
    """The sides change places in every round: -(half - 1)/(half + 1) is what decays slowest."""
    graph = bq.Graph(networkx.complete_bipartite_graph(half, half))
    assert graph.spectral_gap == pytest.approx(2 / (half + 1), rel=1e-9)
    assert mixing.spectral_gap(graph.weights(), rough=True) == pytest.approx(
        2 / (half + 1), rel=0.03
    )


@pytest.mark.parametrize("n", [5, 20, 100, 399])
def test_the_gap_of_a_ring_is_known(n):
    slowest = (1 - np.cos(2 * np.pi / n)) * 2 / 3
    negative = 1 - abs(1 + 2 * np.cos(2 * np.pi * (n // 2) / n)) / 3
    assert bq.graphs.ring(n).spectral_gap == pytest.approx(min(slowest, negative), abs=1e-13)


@pytest.mark.parametrize(
    "graph",
    [
        bq.graphs.random_regular(500, 3, seed=1),
        bq.graphs.random_regular(450, 6, seed=2),
        bq.graphs.random_regular(450, 12, seed=3),
        bq.graphs.erdos_renyi(450, 0.05, seed=4),
        bq.Graph(networkx.complete_bipartite_graph(50, 400)),
        bq.Graph(networkx.complete_bipartite_graph(210, 210)),
        bq.Graph(networkx.convert_node_labels_to_integers(networkx.hypercube_graph(9))),
    ],
    ids=repr,
)
def test_the_gap_of_a_large_graph_that_mixes_well_is_found_without_its_eigenvalues(graph):
    assert graph.n > mixing.EXACT_SPECTRUM_NODES
    assert graph.spectral_gap == pytest.approx(true_gap(graph), rel=0.03)


@pytest.mark.parametrize("graph", [thick_ring(151, 4), bq.graphs.grid(20, 25)], ids=repr)
def test_the_gap_of_a_large_graph_that_mixes_badly_is_at_least_known_to_be_small(graph):
    assert true_gap(graph) * (1 - 1e-9) <= graph.spectral_gap < 0.02


def test_both_ways_of_computing_a_gap_agree(monkeypatch):
    graph = bq.graphs.random_regular(200, 5, seed=0)
    exact = mixing.spectral_gap(graph.weights())
    lowest = mixing.smallest_eigenvalue(graph.weights())
    monkeypatch.setattr(mixing, "EXACT_SPECTRUM_NODES", 100)
    assert mixing.spectral_gap(graph.weights()) == pytest.approx(exact, rel=0.03)
    assert lowest - 0.3 <= mixing.smallest_eigenvalue(graph.weights()) <= lowest


@pytest.mark.parametrize(
    "graph", [bq.graphs.random_regular(500, 6, seed=1), bq.graphs.ring(500)], ids=repr
)
def test_a_rough_gap_is_never_too_small_and_close_where_it_is_large(graph):
    """Lanczos approaches the end of the spectrum from inside; a slow network stays one."""
    rough, true = mixing.spectral_gap(graph.weights(), rough=True), true_gap(graph)
    assert true * (1 - 1e-9) <= rough <= true + 0.02


# --- the smallest eigenvalue --------------------------------------------------------------------


@some
@given(graph=graphs())
def test_the_smallest_eigenvalue_of_a_small_graph_is_exact(graph):
    lowest = mixing.smallest_eigenvalue(graph.weights())
    assert lowest == pytest.approx(spectrum(graph)[0], abs=1e-14)


LARGE = {
    "ring": lambda: bq.graphs.ring(500),
    "star": lambda: bq.graphs.star(500),
    "complete": lambda: bq.graphs.complete(450),
    "grid": lambda: bq.graphs.grid(20, 25),
    "wheel": lambda: bq.Graph(networkx.wheel_graph(500)),
    "lollipop": lambda: bq.Graph(networkx.lollipop_graph(200, 250)),
    "barbell": lambda: bq.Graph(networkx.barbell_graph(200, 20)),
    "tree": lambda: bq.Graph(networkx.full_rary_tree(9, 600)),
    "hypercube": lambda: bq.Graph(
        networkx.convert_node_labels_to_integers(networkx.hypercube_graph(9))
    ),
    "K_{2,500}": lambda: bq.Graph(networkx.complete_bipartite_graph(2, 500)),
    "K_{50,400}": lambda: bq.Graph(networkx.complete_bipartite_graph(50, 400)),
    "K_{210,210}": lambda: bq.Graph(networkx.complete_bipartite_graph(210, 210)),
    "complete tripartite": lambda: bq.Graph(networkx.turan_graph(420, 3)),
    "circulant": lambda: bq.Graph(networkx.circulant_graph(501, [1, 3, 5, 7, 9])),
    "odd thick ring": lambda: thick_ring(101, 5),
    "even thick ring": lambda: thick_ring(100, 5),
    "slow thick ring": lambda: thick_ring(151, 4),
    "bipartite tail": with_a_bipartite_tail,
    "caveman": lambda: bq.Graph(networkx.connected_caveman_graph(40, 12)),
    "hubs": lambda: bq.Graph(networkx.barabasi_albert_graph(600, 5, seed=1)),
    "small world": lambda: bq.Graph(networkx.connected_watts_strogatz_graph(440, 10, 0.05, seed=0)),
    "regular": lambda: bq.graphs.random_regular(420, 8, seed=0),
    "random": lambda: bq.graphs.erdos_renyi(450, 0.03, seed=0),
}


@pytest.mark.parametrize("name", LARGE)
def test_the_smallest_eigenvalue_of_a_large_graph_is_never_overestimated(name):
    """A step that is safe for a larger eigenvalue would not be safe."""
    graph = LARGE[name]()
    assert graph.n > mixing.EXACT_SPECTRUM_NODES
    bound, truth = mixing.smallest_eigenvalue(graph.weights()), spectrum(graph)[0]
    assert bound <= truth + 1e-12
    assert bound > -1.0
    # and it is of use: far below the truth it would only make runs slow
    assert bound >= truth - 0.25


@pytest.mark.parametrize("n", [1, 2, 9, mixing.EXACT_SPECTRUM_NODES + 200])
def test_the_second_eigenvalue_is_that_of_the_slowest_mode_off_consensus(n):
    """Where the network is large, it is how little it is below one that must be right."""
    graph = bq.graphs.path(n) if n < 3 else bq.graphs.ring(n)
    weights = mixing.metropolis(np.asarray(graph.edges).reshape(-1, 2), n)
    known = {1: 0.0, 2: 0.0}.get(n, 1 - 2 * (1 - np.cos(2 * np.pi / n)) / 3)
    found = mixing.second_eigenvalue(weights)
    assert 1 - found == pytest.approx(1 - known, rel=1e-9 if n < 10 else 1e-2)
    assert found < 1
