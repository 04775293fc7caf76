"""The baseline without farewells: consensus ADMM whose dead neighbours' edges freeze."""

import numpy as np
import pytest

import bequest as bq
from bequest.core import topology
from bequest.errors import EverybodyLeaves, InvalidMethod
from bequest.paper import admm
from bequest.paper.studies import real, setups

RHO = 2.0


def logistic_problem(n: int = 6, dim: int = 3) -> bq.Problem:
    rng = np.random.default_rng(5)
    losses = []
    for node in range(n):
        X = rng.standard_normal((25, dim)) + 0.5 * node
        y = (X @ np.arange(1.0, dim + 1) + 2 * rng.standard_normal(25) > node).astype(int)
        losses.append(bq.Logistic(X, y, l2=0.1))
    return bq.Problem(losses)


def small_setup(seed: int = 0) -> tuple[bq.Problem, bq.Graph]:
    return (
        bq.problems.quadratics(n=9, dim=4, mu=1.0, L=8.0, seed=seed),
        bq.graphs.ring_with_chords(9, chords=4, seed=seed),
    )


def textbook(problem, graph, leaving, rho, rounds):
    """The same, one node and one edge after the other; quadratics only, no bridges."""
    alive = list(range(problem.n))
    zero = np.zeros(problem.dim)
    x = dict.fromkeys(alive, zero)
    neighbours = {i: graph.neighbours(i) for i in alive}
    u = {(i, j): zero for i in alive for j in neighbours[i]}
    z = dict.fromkeys(u, zero)
    for t in range(1, rounds + 1):
        new = {}
        for i in alive:
            f = problem.objective(i)
            H = f.A + rho * len(neighbours[i]) * np.eye(problem.dim)
            pull = sum(rho * z[i, j] - u[i, j] for j in neighbours[i])
            new[i] = np.linalg.solve(H, f.A @ f.c + pull)
        x |= new
        for i in alive:
            for j in neighbours[i]:
                if j in alive:
                    z[i, j] = (x[i] + x[j]) / 2
                    u[i, j] = u[i, j] + rho * (x[i] - z[i, j])
        alive = [i for i in alive if bq.Departure(i, t) not in leaving]
    return np.array([x[i] for i in alive]), u, z


# --- without departures -------------------------------------------------------------------------


def test_everybody_stays_and_quadratics_converge_to_the_optimum():
    problem, graph = small_setup()
    outcome = admm.run(problem, graph, [], rounds=400)
    np.testing.assert_allclose(outcome.x, np.tile(problem.optimum(), (9, 1)), atol=1e-9)
    np.testing.assert_allclose(outcome.limit, problem.optimum(), atol=1e-11)
    assert outcome.error.shape == (401,)
    assert outcome.error[0] == pytest.approx(np.linalg.norm(problem.optimum()))
    assert outcome.error[-1] < 1e-9
    assert outcome.frozen == ()


def test_everybody_stays_and_logistic_losses_converge_to_the_optimum():
    problem = logistic_problem()
    outcome = admm.run(problem, bq.graphs.ring(6), [], rounds=300)
    assert outcome.error[-1] < 1e-9
    np.testing.assert_allclose(outcome.limit, problem.optimum(), atol=1e-10)


def test_losses_of_several_kinds_go_together():
    problem, _ = small_setup()
    mixed = bq.Problem(
        [problem.objective(0), *(logistic_problem(dim=4).objective(i) for i in range(3))]
    )
    assert admm.run(mixed, bq.graphs.complete(4), [], rounds=600).error[-1] < 1e-9


@pytest.mark.parametrize("rho", [0.05, 0.5, 5.0])
def test_every_prox_is_a_minimiser(rho):
    """Round 1 from zero: x_i minimises f_i + rho deg_i/2 |x|^2."""
    problem, graph = logistic_problem(), bq.graphs.ring(6)
    outcome = admm.run(problem, graph, [], rho=rho, rounds=1)
    for node, x in enumerate(outcome.x):
        slope = problem.objective(node).gradient(x) + rho * 2 * x
        assert np.linalg.norm(slope) < 1e-12


# --- with departures ----------------------------------------------------------------------------


def test_rounds_are_those_of_the_textbook():
    problem, graph = small_setup()[0], bq.graphs.ring_with_chords(9, chords=9, seed=0)
    # two neighbours one after the other: the second one held an edge of the first
    first = 4
    second = graph.neighbours(first)[0]
    leaving = [bq.Departure(first, 7), bq.Departure(second, 12)]
    outcome = admm.run(problem, graph, leaving, rho=RHO, rounds=40)
    x, u, z = textbook(problem, graph, leaving, RHO, 40)
    np.testing.assert_allclose(outcome.x, x, atol=1e-12)
    assert {(edge.holder, edge.node) for edge in outcome.frozen} == {
        *((j, first) for j in graph.neighbours(first)),
        *((j, second) for j in graph.neighbours(second) if j != first),
    }
    for edge in outcome.frozen:
        key = edge.holder, edge.node
        assert edge.memory.eta == RHO
        np.testing.assert_allclose(edge.memory.p, u[key] - RHO * z[key], atol=1e-11)


def test_a_dead_nodes_edges_never_change_again():
    problem, graph = small_setup()
    leaving = [bq.Departure(4, 7), bq.Departure(0, 20)]
    short = admm.run(problem, graph, leaving[:1], rho=RHO, rounds=7)
    long = admm.run(problem, graph, leaving, rho=RHO, rounds=300)
    assert len(short.frozen) == len(graph.neighbours(4)) > 0
    for one, other in zip(short.frozen, long.frozen, strict=False):
        assert (one.holder, one.node, one.round) == (other.holder, other.node, other.round)
        assert other.node == 4
        assert other.round == 7
        np.testing.assert_array_equal(one.memory.p, other.memory.p)
    # and nothing is left of it but these edges
    assert 4 not in long.survivors
    assert long.x.shape == (7, problem.dim)


def test_what_the_neighbours_hold_is_a_gradient_anchored_quadratic():
    """It is <grad f_i(x_i), x> + rho/2 sum |x - z_ij|^2 with the averages of the round before."""
    problem, graph = small_setup()
    t, node = 9, 3
    before = admm.run(problem, graph, [], rho=RHO, rounds=t - 1).x
    last = admm.run(problem, graph, [], rho=RHO, rounds=t).x
    outcome = admm.run(problem, graph, [bq.Departure(node, t)], rho=RHO, rounds=t)
    held = sum((edge.memory for edge in outcome.frozen), start=bq.Legacy.zero(problem.dim))
    assert held.eta == pytest.approx(RHO * len(graph.neighbours(node)))
    averages = sum((before[node] + before[j]) / 2 for j in graph.neighbours(node))
    gradient = problem.objective(node).gradient(last[node])
    np.testing.assert_allclose(held.p, gradient - RHO * averages, atol=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_the_limit_is_where_a_long_run_ends(seed):
    setup = setups.section51(seed)
    leaving = setup.worst_leave([30, 31, 60, 90])
    outcome = admm.run(setup.problem, setup.graph, leaving, rounds=3000)
    np.testing.assert_allclose(outcome.x, np.tile(outcome.limit, (16, 1)), atol=1e-7)
    bias = np.linalg.norm(outcome.limit - setup.problem.optimum())
    assert outcome.error[-1] == pytest.approx(bias, abs=1e-7)
    # the same limit however long one waits for it
    early = admm.run(setup.problem, setup.graph, leaving, rounds=90)
    np.testing.assert_allclose(early.limit, outcome.limit, atol=1e-11)


def test_the_limit_is_where_a_long_run_ends_for_logistic_losses():
    problem = logistic_problem()
    leaving = [bq.Departure(5, 15), bq.Departure(1, 30)]
    outcome = admm.run(problem, bq.graphs.complete(6), leaving, rounds=600)
    np.testing.assert_allclose(outcome.x, np.tile(outcome.limit, (4, 1)), atol=1e-7)
    assert np.linalg.norm(outcome.limit - problem.optimum()) > 1e-6


@pytest.mark.parametrize(
    "leaving",
    [
        [bq.Departure(2, 10)],
        [bq.Departure(2, 10), bq.Departure(3, 10)],  # together, and each other's neighbours
        [bq.Departure(4, 10), bq.Departure(3, 10)],  # the end of the line and who it hung on
        [bq.Departure(2, 10), bq.Departure(1, 11)],  # the hub of a bridge, right after
    ],
)
def test_a_network_that_falls_apart_is_bridged(leaving):
    problem = bq.problems.quadratics(n=5, dim=3, mu=1.0, L=4.0, seed=1)
    line = bq.Graph([(0, 1), (1, 2), (2, 3), (3, 4)])
    outcome = admm.run(problem, line, leaving, rounds=800)
    survivors = len(outcome.survivors)
    np.testing.assert_allclose(outcome.x, np.tile(outcome.limit, (survivors, 1)), atol=1e-7)
    # every node is still remembered: forgetting ends ten times further away
    forgotten = problem.among(outcome.survivors).minimiser(bq.Legacy.zero(3))
    optimum = problem.optimum()
    assert outcome.error[-1] < 0.1 * np.linalg.norm(forgotten - optimum)


def test_one_node_alone_remembers_everybody():
    problem = bq.problems.quadratics(n=3, dim=2, mu=1.0, L=2.0, seed=1)
    leaving = [bq.Departure(0, 40), bq.Departure(2, 40)]
    outcome = admm.run(problem, bq.Graph([(0, 1), (1, 2)]), leaving, rounds=60)
    assert outcome.survivors == (1,)
    assert outcome.error[-1] < 1e-6
    np.testing.assert_allclose(outcome.x[0], outcome.limit, atol=1e-12)


# --- what it costs, and what it is good for -----------------------------------------------------


def test_a_prox_per_node_and_round_and_one_vector_per_edge():
    problem, graph = small_setup()
    leaving = [bq.Departure(4, 7), bq.Departure(0, 20)]
    outcome = admm.run(problem, graph, leaving, rounds=50)
    assert outcome.prox_solves == 9 * 7 + 8 * 13 + 7 * 30
    assert outcome.vectors == 1
    assert admm.run(problem, graph, [], rounds=0).prox_solves == 0


def test_the_penalty_is_the_stated_one():
    problem, graph = small_setup()
    stated = np.sqrt(problem.mu * problem.L) * 9 / len(graph.edges)
    assert admm.run(problem, graph, [], rounds=0).rho == pytest.approx(stated)
    assert admm.run(problem, graph, [], rho=3.0, rounds=0).rho == 3.0


def test_under_stress_it_ends_far_below_gt_c():
    ends, tuned, consensus, torn = [], [], [], 0
    for seed in range(10):
        setup = setups.stress(100, seed)
        leaving = setup.worst_leave(setups.spaced(50, 8))
        last = leaving[-1].round
        optimum = setup.problem.optimum()
        outcome = admm.run(setup.problem, setup.graph, leaving, rounds=last)
        ends.append(np.linalg.norm(outcome.limit - optimum))
        outcome = admm.run(setup.problem, setup.graph, leaving, rho=0.9 * outcome.rho, rounds=last)
        tuned.append(np.linalg.norm(outcome.limit - optimum))
        consensus.append(setups.bias(setup.run(bq.wills.Consensus(), leaving, rounds=last)))
        network = setup.graph.network()
        staying = set(outcome.survivors)
        left = {node: network[node] & staying for node in staying}
        torn += len(topology.components(left)) > 1
    assert torn > 0  # so bridges are part of what is measured
    assert 0.3 < np.median(consensus) < 1.5
    assert 0.03 < np.median(ends) < 0.15
    assert 0.03 < np.median(tuned) < 0.15
    assert np.median(ends) < 0.2 * np.median(consensus)
    assert (np.array(ends) < np.array(consensus)).all()


def test_on_real_data_it_ends_far_below_gt_c():
    setup = real.setup_of("breast-cancer")
    first, gap, _ = real.SCHEDULES["breast-cancer"]
    leaving = setup.worst_leave([first, first + gap, first + 2 * gap])
    outcome = admm.run(setup.problem, setup.graph, leaving, rounds=first + 2 * gap)
    run = setup.run(bq.wills.Consensus(), leaving, rounds=first + 2 * gap)
    bias = np.linalg.norm(outcome.limit - setup.problem.optimum())
    assert 1e-3 < bias < 0.1 * setups.bias(run)
    # L overstates the curvature of logistic losses: a smaller penalty is better still
    smaller = admm.run(
        setup.problem, setup.graph, leaving, rho=outcome.rho / 4, rounds=first + 2 * gap
    )
    assert np.linalg.norm(smaller.limit - setup.problem.optimum()) < 0.01 * bias


# --- how it is called ---------------------------------------------------------------------------


def test_twice_the_same():
    problem, graph = logistic_problem(), bq.graphs.ring(6)
    one, other = (admm.run(problem, graph, [bq.Departure(2, 10)], rounds=30) for _ in range(2))
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.error, other.error)
    np.testing.assert_array_equal(one.limit, other.limit)


@pytest.mark.parametrize("rho", [0.0, -1.0, float("nan"), float("inf")])
def test_a_penalty_must_be_positive(rho):
    problem, graph = small_setup()
    with pytest.raises(InvalidMethod):
        admm.run(problem, graph, [], rho=rho, rounds=1)


def test_what_makes_no_sense_is_refused():
    problem, graph = small_setup()
    with pytest.raises(InvalidMethod):
        admm.run(problem, graph, [], rounds=-1)
    with pytest.raises(EverybodyLeaves):
        admm.run(problem, graph, [bq.Departure(i, 1) for i in range(9)], rounds=1)
    flat = bq.Problem([bq.Quadratic([[0.0]], [0.0]), bq.Quadratic([[1.0]], [1.0])])
    with pytest.raises(InvalidMethod, match="Pass rho"):
        admm.run(flat, bq.Graph([(0, 1)]), [], rounds=1)
    assert admm.run(flat, bq.Graph([(0, 1)]), [], rho=1.0, rounds=200).error[-1] < 1e-9
