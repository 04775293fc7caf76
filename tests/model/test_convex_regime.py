"""Losses without a lower bound on their curvature: the default still spends its vectors."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import bequest as bq
from bequest.model.wills import observed
from bequest.paper.studies import hostile

GRAPH = bq.graphs.ring(6)


class _Path(NamedTuple):
    X: np.ndarray
    Z: np.ndarray


def silos(rng, *, m=12, d=4, separable=()):
    """Logistic losses with an intercept that no penalty holds; some silos have one label only."""
    truth, made = rng.standard_normal(d), []
    for node in range(6):
        X = rng.standard_normal((m, d))
        y = (X @ truth + rng.logistic(size=m) > 0).astype(int)
        y = np.ones(m, dtype=int) if node in separable else y
        X = np.column_stack([X, np.ones(m)])
        made.append(bq.Logistic(X, y, l2=0.05, unpenalised=[-1]))
    return bq.Problem(made)


def regression(rng, d, *, redundant=False):
    """Each silo alone is flat in most directions; all together are flat in one, or in none."""
    truth, made = rng.standard_normal(d), []
    for _ in range(6):
        X = rng.standard_normal((d // 2 + 1, d))
        if redundant:
            X[:, -1] = X[:, 0]
        made.append(bq.LeastSquares(X, X @ truth + rng.standard_normal(len(X))))
    return bq.Problem(made)


@pytest.mark.parametrize(
    ("first", "most", "usual"), [(3, 2.0, 0.8), (40, 1.2, 0.2), (80, 1.2, 0.2)]
)
def test_an_intercept_without_a_penalty_costs_no_exactness(first, most, usual):
    """Better than the paper's anchor, and by far if there was time to see anything."""
    gains = []
    for seed in range(6):
        problem = silos(np.random.default_rng(seed))
        assert problem.regime == "C"
        errors = {
            will.title: bq.solve(
                problem,
                GRAPH,
                departures=[bq.Departure(1, first), bq.Departure(4, first + 10)],
                rounds=first + 10,
                will=will,
            ).limit_error
            for will in (bq.wills.Adaptive(), bq.wills.Consensus())
        }
        gains.append(errors["adaptive"] / errors[bq.wills.Consensus().title])
    assert max(gains) <= most
    assert np.median(gains) <= usual


def test_late_exits_with_a_free_intercept_are_remembered_to_rounding():
    for seed in range(6):
        run = bq.solve(
            silos(np.random.default_rng(seed)),
            GRAPH,
            departures=[bq.Departure(1, 300), bq.Departure(4, 310)],
            rounds=310,
        )
        assert run.limit_error < 1e-13


@pytest.mark.parametrize("redundant", [False, True])
def test_least_squares_without_a_penalty_are_remembered_exactly(redundant):
    for seed in range(5):
        problem = regression(np.random.default_rng(seed), 8, redundant=redundant)
        run = bq.solve(
            problem,
            GRAPH,
            departures=[bq.Departure(0, 2), bq.Departure(3, 9)],
            rounds=20,
            method=bq.methods.GradientTracking(),
        )
        assert problem.regime == "C"
        assert [record.choice for record in run.departures] == ["full", "full"]
        excess = problem.value(run.limit) - problem.value(problem.optimum())
        assert abs(excess) <= 1e-12 * problem.value(np.zeros(8))


def test_a_sketch_has_no_slope_without_curvature():
    """The leaver alone sees a direction; what eight of 40 directions leave out must not run off."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        problem = regression(rng, 24)
        run = bq.solve(
            problem, GRAPH, departures=[bq.Departure(0, 5), bq.Departure(2, 60)], rounds=60
        )
        for record in run.departures:
            assert record.choice == "sketch"
            low, high = record.legacy.curvature
            loss = problem.objective(record.node)
            assert -1e-9 * loss.curvature.b <= low <= high <= loss.curvature.b * (1 + 1e-9)
            slope = record.legacy.gradient(record.anchor)
            H = record.legacy.hessian()
            reached = H @ np.linalg.lstsq(H, slope, rcond=1e-9)[0]
            assert np.linalg.norm(reached - slope) <= 1e-6 * np.linalg.norm(slope)
        far = np.linalg.norm(run.limit - problem.optimum())
        assert far <= 3 * np.linalg.norm(problem.optimum())


def test_a_loss_without_a_minimiser_leaves_a_memory_that_does_not_run_away():
    """One label only: the own loss falls for ever along the intercept."""
    for seed in range(5):
        problem = silos(np.random.default_rng(seed), separable=(1, 4))
        runs = {
            will.title: bq.solve(
                problem,
                GRAPH,
                departures=[bq.Departure(1, 4), bq.Departure(4, 30)],
                rounds=60,
                will=will,
            )
            for will in (bq.wills.Adaptive(), bq.wills.Forgetful())
        }
        mine, none = (run.limit_error for run in runs.values())
        assert mine <= 1.2 * none


def test_what_thm_cvx_is_about_is_consensus_alone():
    problem = silos(np.random.default_rng(0))
    options = {"departures": [bq.Departure(1, 20)], "rounds": 60}
    default = bq.solve(problem, GRAPH, **options).certificate
    paper = bq.solve(problem, GRAPH, will=bq.wills.Consensus(), **options).certificate
    labels = {bound.label for bound in paper.bounds}
    assert {"thm:cvx (i)", "thm:cvx (ii) distance", "thm:cvx (ii) value"} <= labels
    assert not any(bound.label.startswith("thm:cvx") for bound in default.bounds)
    assert default["tight"].holds is not False
    (two,) = bq.solve(problem, GRAPH, will=bq.wills.Adaptive(vectors=2), **options).departures
    assert two.choice == "consensus"


def test_early_exits_of_separable_silos_are_bounded_on_the_bed():
    """The four that were worst on seeds that may be tuned on: no runaway."""
    for seed in (63, 129, 81, 9):
        one = hostile.instance(seed, convex=True)
        run = one.run(bq.wills.Adaptive())
        assert np.linalg.norm(one.curved.T @ (run.limit - one.optimum)) <= 2 * one.scale


def test_a_tracker_that_shows_no_curvature_is_not_divided_by():
    """Beyond 256 unknowns the rule goes by the tracker, which may point backwards at first."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 260))
    loss = bq.Logistic(X, (X[:, 0] > 0).astype(int))
    way = np.arange(3.0)[:, None] * X[0]
    estate = SimpleNamespace(
        objective=loss,
        recent=_Path(way, -way),
        x=np.zeros(260),
        z=X[1],
        believed=(),
        predictions=(),
    )
    (view,) = observed._views(estate, None)
    assert view.mean == loss.curvature.midpoint
    np.testing.assert_allclose(view.optima[0][0], -X[1] / view.mean)


@pytest.mark.parametrize("at", [5, 30, 40, 50])
@pytest.mark.parametrize("l2", [0.0, 1e-8])
def test_a_sketch_of_a_loss_that_is_flat_somewhere_does_not_run_away(at, l2):
    """Where the survivor has no data either, eight directions without a floor ended at 1e10."""
    rng = np.random.default_rng(1)
    truth, made = rng.standard_normal(30), []
    for _ in range(2):
        X = rng.standard_normal((20, 30))
        made.append(bq.LeastSquares(X, X @ truth + 0.5 * rng.standard_normal(20), l2))
    problem = bq.Problem(made)

    def excess(will):
        run = bq.solve(problem, [(0, 1)], departures=[bq.Departure(0, at)], will=will, rounds=1500)
        x = run.x.mean(axis=0)
        return sum(loss.value(x) for loss in made) - sum(loss.value(best) for loss in made)

    best = problem.optimum()
    assert excess(bq.wills.Adaptive()) < 1.2 * excess(bq.wills.Consensus()) + 1e-9


def _thin(rng, n, *, d=30):
    """A third more samples than unknowns, and a silo has an n-th of them."""
    truth, made = rng.standard_normal(d), []
    m = -(-4 * d // (3 * n))
    for _ in range(n):
        X = rng.standard_normal((m, d))
        made.append(bq.LeastSquares(X, X @ truth + 0.5 * rng.standard_normal(m), 1e-8))
    return bq.Problem(made)


@pytest.mark.parametrize(("n", "most"), [(3, 1.0), (5, 0.7), (10, 0.01)])
def test_what_is_flat_without_a_sketch_is_held_by_what_the_sketch_left_out(n, most):
    """Two leave, one after the other: what the heir of the first compresses is held as well.

    Without a floor five silos are up to 260 times worse than with Consensus; with one in sketches
    alone, and none in what an heir compresses, up to 5 times.
    """
    ratios = []
    for seed in range(3):
        problem = _thin(np.random.default_rng(seed), n)
        best = problem.value(problem.optimum())
        for at in (2, 30):
            leaving = [bq.Departure(0, at)] + [bq.Departure(1, at + 5)] * (n > 3)
            excess = [
                problem.value(
                    bq.solve(
                        problem, bq.graphs.ring(n), departures=leaving, will=will, rounds=at + 5
                    ).surrogate_minimiser
                )
                - best
                for will in (bq.wills.Adaptive(), bq.wills.Consensus())
            ]
            ratios.append(excess[0] / excess[1])
    assert max(ratios) <= most


@pytest.mark.parametrize(
    ("seed", "convex", "most"), [(40, False, 1e-9), (20, True, 1e-6), (58, True, 0.02)]
)
def test_a_sketch_that_leaves_out_nothing_of_its_loss_has_no_floor(seed, convex, most):
    """With the mean curvature as a floor, the first ended at 0.2 of the way, the second at 0.4."""
    one = hostile.instance(seed, large=True, convex=convex)
    run = one.run(bq.wills.Adaptive())
    assert one.dim > 15
    off = np.linalg.norm(one.curved.T @ (run.surrogate_minimiser - one.optimum))
    assert off <= most * one.scale


@pytest.mark.parametrize(
    "will", [bq.wills.Adaptive(), bq.wills.FullHessian(), bq.wills.Drift(1)], ids=lambda w: w.title
)
def test_a_slope_that_no_curvature_meets_does_not_run_away(will):
    """An outlier stays in Huber's linear zone all the way, and the survivor is not curved there."""
    outlier = bq.Huber(np.array([[30.0, 0.0], [0.0, 1.0]]), np.array([3.0, 50.0]), delta=1.0)
    other = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    survivor = bq.Huber(other, np.array([1.0, 0.0, 1.0, 1.0]), delta=1.0)
    run = bq.solve(
        bq.Problem([outlier, survivor]),
        bq.graphs.complete(2),
        departures=[bq.Departure(0, 3)],
        rounds=2000,
        will=will,
    )
    assert run.status is bq.Status.CONVERGED
    forgotten = 49.5  # the way from the optimum of all to that of the survivor
    assert run.limit_error < forgotten
    (record,) = run.departures
    assert record.legacy.curvature[1] <= outlier.curvature.b * (1 + 1e-12)
