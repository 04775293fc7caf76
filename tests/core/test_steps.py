"""Which steps are stable: the analysis for equal Hessians, and measurements for different ones."""

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bequest as bq
from bequest.core import mixing, steps
from bequest.core.methods import Conditions

some = settings(deadline=None, max_examples=200, derandomize=True)


def safe(smoothness, smallest_eigenvalue):
    limit = steps.stability_limit(smallest_eigenvalue)
    return steps.safe_step(smoothness=smoothness, limit=limit)


def one_mode(w, ah):
    """The round on an eigenvector of W with eigenvalue w, for one Hessian h: step times h is ah."""
    return np.array([[w, -ah * w], [w - 1, w - ah * w]])


def radius(matrix):
    return np.abs(np.linalg.eigvals(matrix)).max()


def iteration(W, H, step):
    """The round as one matrix on (x, z), for Hessians H (n x n diagonal, or a block per node)."""
    eye = np.eye(len(W))
    return np.block([[W, -step * W], [H @ (W - eye), W - step * H @ W]])


def radius_but_for_the_invariant(matrix, conserved=1):
    """Spectral radius without the eigenvalue 1 of sum z - sum h x, which never changes."""
    eigenvalues = np.linalg.eigvals(matrix)
    order = np.argsort(np.abs(eigenvalues - 1))
    np.testing.assert_allclose(eigenvalues[order[:conserved]], 1.0, atol=1e-6)
    return np.abs(eigenvalues[order[conserved:]]).max()


# --- equal Hessians -----------------------------------------------------------------------------


@some
@given(w=st.floats(-0.999, 0.999), fraction=st.floats(0.01, 0.999))
def test_below_the_limit_every_mode_is_stable(w, fraction):
    limit = steps.stability_limit(w)
    assert radius(one_mode(w, fraction * limit)) < 1.0
    # so are the modes of all larger eigenvalues
    for other in np.linspace(w, 0.999, 25):
        assert radius(one_mode(other, fraction * limit)) < 1.0


@some
@given(w=st.floats(-0.999, -0.42), beyond=st.floats(1.001, 2.0))
def test_above_the_limit_the_mode_of_the_smallest_eigenvalue_is_unstable(w, beyond):
    assert steps.stability_limit(w) < 2.0
    assert radius(one_mode(w, beyond * steps.stability_limit(w))) > 1.0


@some
@given(w=st.floats(-0.41, 1.0), beyond=st.floats(1.001, 2.0))
def test_where_no_eigenvalue_is_very_negative_the_limit_is_that_of_gradient_descent(w, beyond):
    assert steps.stability_limit(w) == 2.0
    # the average of the network is gradient descent, with eigenvalue 1 - step h
    assert radius(one_mode(1.0, 2.0 * beyond)) > 1.0


@some
@given(w=st.floats(-0.999, -1e-3))
def test_at_the_limit_a_mode_neither_grows_nor_decays(w):
    limit = (1 - w * w) / abs(w)
    if limit <= 2.0:
        assert steps.stability_limit(w) == pytest.approx(limit, rel=1e-15)
        assert radius(one_mode(w, limit)) == pytest.approx(1.0, abs=1e-7)
    else:
        assert steps.stability_limit(w) == 2.0


def test_the_smallest_eigenvalue_at_which_the_graph_begins_to_matter():
    """(1 - w^2)/|w| = 2 at w = 1 - sqrt 2."""
    assert steps.stability_limit(1 - np.sqrt(2)) == pytest.approx(2.0, abs=1e-14)
    assert steps.stability_limit(1 - np.sqrt(2) - 1e-3) < 2.0
    assert steps.stability_limit(0.0) == 2.0
    assert steps.stability_limit(-1e-300) == 2.0


# --- the step that is chosen --------------------------------------------------------------------


def test_a_safe_step_is_half_of_the_limit_over_the_smoothness():
    assert safe(4.0, 0.0) == 0.25
    assert safe(1.0, -0.8) == pytest.approx(0.225)
    assert safe(0.0, -0.8) == 1.0


@some
@given(smoothness=st.floats(1e-3, 1e6), modulus=st.floats(1e-6, 1e3), gap=st.floats(1e-6, 1.0))
def test_at_the_balanced_step_descent_and_agreement_are_equally_slow(smoothness, modulus, gap):
    step = steps.balanced_step(smoothness=smoothness, modulus=modulus, gap=gap)
    assert step * modulus == pytest.approx(gap**2 / (step * smoothness), rel=1e-12)


def test_without_curvature_nothing_is_to_be_balanced():
    assert steps.balanced_step(smoothness=1.0, modulus=0.0, gap=0.1) == np.inf
    assert steps.balanced_step(smoothness=0.0, modulus=0.0, gap=0.1) == np.inf


# --- different Hessians -------------------------------------------------------------------------


def _integers(graph):
    return networkx.convert_node_labels_to_integers(graph)


FAMILIES = {
    **{f"path {n}": bq.graphs.path(n) for n in (2, 3, 5, 12, 30)},
    **{f"ring {n}": bq.graphs.ring(n) for n in (3, 4, 5, 12, 30)},
    **{f"star {n}": bq.graphs.star(n) for n in (3, 4, 8, 30)},
    **{f"complete {n}": bq.graphs.complete(n) for n in (2, 3, 8, 20)},
    **{f"grid {a}x{b}": bq.graphs.grid(a, b) for a, b in ((2, 2), (2, 5), (3, 5), (4, 6))},
    **{
        f"K_{a},{b}": bq.Graph(networkx.complete_bipartite_graph(a, b))
        for a, b in ((3, 3), (4, 6), (10, 10), (2, 9))
    },
    "lollipop": bq.Graph(networkx.lollipop_graph(8, 8)),
    "barbell": bq.Graph(networkx.barbell_graph(6, 3)),
    "hypercube": bq.Graph(_integers(networkx.hypercube_graph(4))),
    "torus": bq.Graph(_integers(networkx.grid_2d_graph(4, 4, periodic=True))),
    "tree": bq.Graph(networkx.balanced_tree(3, 2)),
}
every_family = pytest.mark.parametrize("name", FAMILIES)


def patterns(n, rng):
    """Curvatures 1e-3 and 1: stiff nodes alone, by half, in turns, at random, everywhere."""
    soft = np.full(n, 1e-3)
    for stiff in range(n):
        yield np.where(np.arange(n) == stiff, 1.0, soft)
    yield np.where(np.arange(n) <= n // 2, 1.0, soft)
    yield np.where(np.arange(n) > n // 2 - 1, 1.0, soft)
    yield np.where(np.arange(n) % 2 == 0, 1.0, soft)
    yield np.where(np.arange(n) % 2 == 1, 1.0, soft)
    for _ in range(12):
        chosen = rng.random(n) < rng.uniform(0.1, 0.9)
        chosen[rng.integers(n)] = True
        yield np.where(chosen, 1.0, soft)
    yield np.ones(n)


def chosen_step(graph):
    lowest = mixing.smallest_eigenvalue(graph.weights())
    return safe(1.0, lowest)


@every_family
def test_the_safe_step_is_stable_whichever_nodes_are_stiff(name):
    graph = FAMILIES[name]
    W, step = graph.weights().toarray(), chosen_step(graph)
    for h in patterns(graph.n, np.random.default_rng(0)):
        assert radius_but_for_the_invariant(iteration(W, np.diag(h), step)) < 1.0


@pytest.mark.parametrize("name", [name for name in FAMILIES if FAMILIES[name].n <= 16])
def test_the_safe_step_is_stable_when_stiff_directions_differ_from_node_to_node(name):
    graph, rng = FAMILIES[name], np.random.default_rng(1)
    W, step, n = np.kron(graph.weights().toarray(), np.eye(2)), chosen_step(graph), graph.n
    for _ in range(8):
        H = np.zeros((2 * n, 2 * n))
        for j in range(n):
            angle = rng.uniform(0, np.pi)
            v = np.array([np.cos(angle), np.sin(angle)])
            H[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = 1e-3 * np.eye(2) + 0.999 * np.outer(v, v)
        assert radius_but_for_the_invariant(iteration(W, H, step), conserved=2) < 1.0


def test_different_hessians_can_need_a_smaller_step_than_equal_ones():
    """Why the step is half of the limit: a checkerboard of stiff nodes is unstable below it."""
    graph = bq.graphs.grid(2, 5)
    W = graph.weights().toarray()
    limit = steps.stability_limit(mixing.smallest_eigenvalue(graph.weights()))
    stiff = (np.arange(10) // 5 + np.arange(10) % 5) % 2 == 0
    checkerboard = np.diag(np.where(stiff, 1.0, 1e-3))
    assert radius_but_for_the_invariant(iteration(W, np.eye(10), 0.95 * limit)) < 1.0
    assert radius_but_for_the_invariant(iteration(W, checkerboard, 0.95 * limit)) > 1.0
    assert radius_but_for_the_invariant(iteration(W, checkerboard, 0.5 * limit)) < 1.0


@pytest.mark.parametrize("name", ["path 5", "ring 12", "star 8", "complete 8", "K_10,10"])
def test_beyond_the_limit_equal_hessians_diverge(name):
    graph = FAMILIES[name]
    W = graph.weights().toarray()
    limit = steps.stability_limit(mixing.smallest_eigenvalue(graph.weights()))
    inside, outside = (iteration(W, np.eye(graph.n), f * limit) for f in (0.999, 1.001))
    assert radius_but_for_the_invariant(inside) < 1.0
    assert radius_but_for_the_invariant(outside) > 1.0


def test_the_matrix_of_a_round_is_the_round():
    """The sweep above is about the iteration that runs, not about one that looks like it."""
    graph, rng = bq.graphs.grid(2, 3), np.random.default_rng(0)
    h, c, start = rng.uniform(0.1, 1.0, 6), rng.standard_normal(6), rng.standard_normal((6, 1))
    problem = bq.Problem([bq.Quadratic([[hi]], [ci]) for hi, ci in zip(h, c, strict=True)])
    step = 0.3
    run = bq.solve(problem, graph, method=bq.GradientTracking(step=step), rounds=7, start=start)
    optimum = problem.optimum()[0]
    # in deviations: x - x*, z - W-average of what is left, with z = h (x - c) at the start
    state = np.concatenate([start[:, 0] - optimum, h * (start[:, 0] - c)])
    round_matrix = iteration(graph.weights().toarray(), np.diag(h), step)
    for _ in range(7):
        state = round_matrix @ state
    np.testing.assert_allclose(run.x[:, 0] - optimum, state[:6], rtol=0, atol=1e-12)


def test_a_step_is_lowered_only_where_the_stiffest_node_needs_it():
    stiffness, method = {2: 4.0, 5: 8.0, 7: 8.0}, bq.GradientTracking()

    def lowered(step, graph):
        conditions = Conditions(stiffness, stiffness, stiffness, graph.weights())
        return method.next_pace(step, conditions, 9)

    mild = bq.graphs.complete(3)  # all eigenvalues but one are zero
    assert lowered(0.1249, mild) is None
    lower = lowered(0.2, mild)
    assert lower == steps.StepChoice(lower.value, 9, "node 5 now carries smoothness 8")
    assert lower.value == pytest.approx(0.125)
    odd = FAMILIES["K_3,3"]
    lowest = mixing.smallest_eigenvalue(odd.weights())
    assert lowered(0.2, odd).value == safe(8.0, lowest)
