"""How nodes iterate if nothing is said: fast where losses say much, careful where not."""

import numpy as np
import pytest

import bequest as bq
from bequest.model.default_method import default_method

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((12, 3)), np.arange(12) % 2
MATRIX, NUMBER, CAREFUL = bq.NIDS(metric="hessian"), bq.NIDS(), bq.NIDS(safety=0.5)


def bowl(x):
    return x @ x, 2 * x


def loaded():
    return bq.Logistic(X, Y, 0.1)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([bq.Quadratic(np.eye(3), np.zeros(3))], MATRIX),
        ([bq.Logistic(X, Y, 0.1)], MATRIX),
        ([bq.Softmax(X, Y, 2, 0.1)], MATRIX),
        ([bq.LeastSquares(X, Y), bq.Huber(X, Y)], MATRIX),
        # one that has no formula does not keep the others from using theirs
        ([bq.Logistic(X, Y, 0.1), bq.Function(bowl, dim=3, curvature=(2, 2))], MATRIX),
        ([bq.Function(bowl, dim=3, curvature=(2.0, 2.0))], NUMBER),
        ([bq.Function(bowl, dim=3)], CAREFUL),
        ([bq.Logistic(X, Y, 0.1), bq.Function(bowl, dim=3)], CAREFUL),
        ([bq.Loaded(loaded, dim=3, curvature=(0.1, 5.0))], NUMBER),
        ([bq.Logistic(X, Y, 0.1), bq.Loaded(loaded, dim=3, curvature=(0.1, 5.0))], NUMBER),
        ([bq.Minibatches(bq.Logistic(X, Y, 0.1), 4)], bq.GradientTracking()),
        ([bq.Logistic(X, Y), bq.Minibatches(bq.Logistic(X, Y), 4)], bq.GradientTracking()),
        ([bq.Minibatches(bq.Logistic(X, Y, 0.1), 4, full_every=5)], MATRIX),
        ([bq.Quadratic(np.eye(200), np.zeros(200))], MATRIX),
        ([bq.Quadratic(np.eye(201), np.zeros(201))], NUMBER),
    ],
)  # fmt: skip
def test_it_follows_what_is_known_of_the_losses(losses, expected):
    problem = bq.Problem(losses)
    assert default_method(problem) == expected
    if not problem.away:
        graph = bq.graphs.path(problem.n)
        assert bq.solve(problem, graph, rounds=0).plan.method == expected


def test_many_nodes_have_no_room_for_a_matrix_each():
    few, many = (bq.problems.quadratics(n=n, dim=100, mu=1.0, L=2.0, seed=0) for n in (20, 2000))
    assert default_method(few) == MATRIX
    assert default_method(many) == NUMBER


def test_a_method_that_is_given_is_taken():
    problem = bq.problems.quadratics(n=3, dim=2, mu=1.0, L=2.0, seed=0)
    run = bq.solve(problem, bq.graphs.ring(3), method=bq.GradientTracking(), rounds=3)
    assert run.plan.method == bq.GradientTracking()


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()])
@pytest.mark.parametrize("steeper", [1.0, 1.9])
def test_an_estimate_may_be_too_small_by_almost_a_factor_of_two(engine, steeper):
    """Where nodes end up, the losses are steeper than where the estimate has looked."""

    def loss(centre):
        def value_and_grad(x):
            off, far = x - centre, np.maximum(np.abs(x) - 6.0, 0.0) * np.sign(x)
            pull = (steeper - 1) * 1.1 * far  # 1.1: what an estimate is widened by
            return (off @ off + far @ pull) / 2, off + pull

        return bq.Function(value_and_grad, dim=2)

    problem = bq.Problem([loss(centre) for centre in RNG.uniform(8, 16, (5, 2))])
    assert not problem.certified
    assert problem.L < 1.2
    events = [bq.Departure(2, 30)]
    run = bq.solve(problem, bq.graphs.ring(5), departures=events, rounds=400, engine=engine)
    assert run.status == "converged"


def test_steps_and_safeties_that_cannot_be_are_refused():
    for safety in (0.0, -1.0, 1.0, np.nan, "a", True):
        with pytest.raises(bq.errors.InvalidMethod, match="safety"):
            bq.NIDS(safety=safety)
