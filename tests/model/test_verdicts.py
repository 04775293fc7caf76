"""Statuses and certificates do not depend on units, and know the precision of the losses."""

import numpy as np
import pytest
from seeds import seeds

import bequest as bq

ENGINES = {"vector": bq.engines.Vector(), "loop": bq.engines.Loop()}
RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 4))
NOISY = (X @ [1, -1, 0.5, 0] + 0.7 * RNG.standard_normal(80) > 0).astype(int)
SEPARABLE = (X[:, 1] > 0).astype(int)
COLUMNS = np.array([1e8, 1e3, 1e-3, 1e-8])

every_engine = pytest.mark.parametrize("engine", ENGINES)


def logistic(unit, y, l2=0.0):
    return bq.Problem([bq.Logistic(unit * X[k::4], y[k::4], l2=l2) for k in range(4)])


def solved(problem, rounds, engine="vector", **options):
    graph = options.pop("graph", bq.graphs.ring(4))
    return bq.solve(problem, graph, rounds=rounds, engine=ENGINES[engine], **options)


# --- units --------------------------------------------------------------------------------------


@every_engine
@pytest.mark.parametrize("rounds", [3, 100])
@pytest.mark.parametrize("labels", [NOISY, SEPARABLE], ids=["noisy", "separable"])
def test_steep_columns_say_nothing_about_flat_ones(labels, rounds, engine):
    assert solved(logistic(COLUMNS, labels), rounds, engine).status == "unfinished"


@pytest.mark.parametrize("unit", [1e-20, 1e-3, 1.0, 1e20])
def test_a_loss_without_a_minimiser_never_converges(unit):
    for rounds in (3, 100, 3000):
        assert solved(logistic(unit, SEPARABLE), rounds).status != "converged"


@every_engine
@pytest.mark.parametrize("l2", [0.0, 0.05])
@pytest.mark.parametrize("unit", seeds([1e20, 1e-20, 1e-3, 1.0], quick=1))
def test_the_status_does_not_depend_on_the_unit_of_the_features(unit, l2, engine):
    problem = logistic(unit, NOISY, l2 * unit**2)
    leaving = [bq.Departure(1, 2)] if l2 else []
    assert solved(problem, 3, engine, departures=leaving).status == "unfinished"
    run = solved(problem, 400 if l2 else 2000, engine, departures=leaving)
    assert run.status == "converged"
    assert np.linalg.norm(run.x - run.limit, axis=1).max() <= 1e-8 * np.linalg.norm(run.limit)


def test_a_memory_that_outweighs_the_penalty_does_not_hide_how_far_the_limit_is():
    problem, leaving = logistic(1e20, NOISY, 0.05), [bq.Departure(1, 2)]
    two = {"departures": leaving, "will": bq.wills.Adaptive(vectors=2)}
    assert solved(problem, 3, **two).status == "unfinished"
    assert solved(problem, 300, **two).status == "converged"


@pytest.mark.parametrize("start", [0.0, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize("apart", [0.0, 1e-6, 1.0, 1e3])
def test_a_limit_at_the_origin_is_reached_from_anywhere(apart, start):
    losses = [bq.Quadratic(np.eye(2), sign * apart * np.ones(2)) for sign in (1, -1, 1, -1)]
    assert solved(bq.Problem(losses), 300, start=[start, start]).status == "converged"


def test_a_run_that_starts_at_its_limit_is_there():
    alike = bq.Problem([bq.LeastSquares(X, X[:, 0] + 1)] * 4)
    assert solved(alike, 30, start=alike.optimum()).status == "converged"


# --- precision ----------------------------------------------------------------------------------


class Separate:
    """A quadratic with its own curvature per coordinate, computed in one precision."""

    def __init__(self, seed, dtype, *, kappa=10.0, dim=5):
        rng = np.random.default_rng(seed)
        self.h = rng.permutation(np.linspace(1, kappa, dim)).astype(dtype)
        self.c, self.calls = rng.standard_normal(dim).astype(dtype), 0

    def __call__(self, x):
        self.calls += 1
        off = x.astype(self.c.dtype) - self.c
        return (self.h * off @ off) / 2, self.h * off


def functions(first, dtype, *, kappa=10.0, declared=None, check=True):
    made = [Separate(seed, dtype, kappa=kappa) for seed in range(first, first + 5)]
    curvature = (1.0, declared or kappa)
    return made, bq.Problem([bq.Function(f, dim=5, curvature=curvature, check=check) for f in made])


COMPLETE = bq.graphs.complete(5)


@every_engine
@pytest.mark.parametrize("kappa", [2.0, 10.0, 100.0])
def test_a_run_in_float32_converges_as_far_as_its_gradients_tell(kappa, engine):
    made, problem = functions(0, np.float32, kappa=kappa)
    assert solved(problem, 5, engine, graph=COMPLETE).status == "unfinished"
    run = solved(problem, 30 * int(kappa), engine, graph=COMPLETE)
    assert run.status == "converged"
    h, c = (np.array([getattr(f, name) for f in made], dtype=float) for name in "hc")
    exact = (h * c).sum(axis=0) / h.sum(axis=0)
    assert np.linalg.norm(run.x - exact, axis=1).max() <= 1e-5 * (1 + np.linalg.norm(exact))


def test_in_float64_the_tolerance_is_that_of_float64():
    _, problem = functions(0, np.float64)
    run = solved(problem, 40, graph=COMPLETE, method=bq.GradientTracking())
    assert run.trajectory.gradient_norm[-1] < 1e-7
    assert run.status == "unfinished"


@every_engine
def test_flat_columns_are_not_hidden_by_steep_ones_in_float32_either(engine):
    def coarse(loss):
        return lambda x: (np.float32(loss.value(x)), loss.gradient(x).astype(np.float32))

    losses = [
        bq.Logistic(np.array([1e4, 1e2, 1e-2, 1e-4]) * X[k::4], NOISY[k::4], l2=1e-9)
        for k in range(4)
    ]
    problem = bq.Problem(
        [bq.Function(coarse(f), dim=4, curvature=f.curvature, check=False) for f in losses]
    )
    assert solved(problem, 300, engine).status == "unfinished"


@every_engine
def test_the_precision_of_an_unchecked_loss_takes_no_calls(engine):
    _, problem = functions(0, np.float32, check=False)
    assert solved(problem, 300, engine, graph=COMPLETE).status == "converged"
    loss = Separate(0, np.float32)
    f = bq.Function(loss, dim=5, curvature=(1, 10), check=False)
    f.gradient(np.ones(5))
    assert f.precision == np.finfo(np.float32).eps
    assert loss.calls == 1


def test_round_numbers_at_the_start_are_not_taken_for_coarse_ones():
    f = bq.Function(lambda x: (x @ x, 2 * x), dim=2, curvature=(2, 2), check=False)
    f.gradient([1.0, 2.0])
    f.gradient([0.1, 0.2])
    assert f.precision == np.finfo(float).eps


@every_engine
def test_a_loss_on_its_host_tells_its_precision_when_it_is_over(engine):
    made, _ = functions(0, np.float32)
    problem = bq.Problem(
        [
            bq.Loaded(
                lambda f=f: bq.Function(f, dim=5, curvature=(1, 10)), dim=5, curvature=(1, 10)
            )
            for f in made
        ]
    )
    assert solved(problem, 300, engine, graph=COMPLETE).status == "converged"


# --- certificates -------------------------------------------------------------------------------


@pytest.mark.parametrize("will", [bq.wills.Adaptive(), bq.wills.Consensus()], ids=repr)
@pytest.mark.parametrize("kappa", [2.0, 10.0, 100.0])
def test_no_promise_is_broken_by_the_rounding_of_float32(kappa, will):
    for seed in range(0, 50, 5):
        _, problem = functions(seed, np.float32, kappa=kappa)
        run = solved(problem, 300, graph=COMPLETE, departures=[bq.Departure(1, 100)], will=will)
        assert run.certificate.holds, str(run.certificate)
        assert run.certificate["tight"].holds is True


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_promise_that_a_wrong_curvature_breaks_is_broken_in_any_precision(dtype):
    """Declared as almost isotropic, and steep: the memory is far off, the promise is small."""
    for seed in range(0, 25, 5):
        _, problem = functions(seed, dtype, kappa=10.0, declared=1.001, check=False)
        run = solved(
            problem,
            300,
            graph=COMPLETE,
            departures=[bq.Departure(1, 2)],
            will=bq.wills.Consensus(),
            method=bq.GradientTracking(step=0.05),
            optimum="always",
        )
        tight = run.certificate["tight"]
        assert tight.measured > 1e-3
        assert tight.holds is False, str(tight)


@pytest.mark.parametrize("far", [0.0, 1e6, 1e9])
def test_the_rounding_of_legacies_from_far_out_breaks_no_promise(far):
    """A node that leaves early leaves a memory of where it was, and that may be far from x*."""
    rng, leaving = np.random.default_rng(7), [(2, 1), (0, 2), (4, 2), (3, 3)]
    for _ in range(5):
        start = far * rng.standard_normal((5, 1))
        data = rng.standard_normal((5, 8, 2))
        run = bq.solve(
            bq.Problem([bq.LeastSquares(rows[:, :1], rows[:, 1], l2=0.1) for rows in data]),
            bq.graphs.complete(5),
            departures=[bq.Departure(*event) for event in leaving],
            will=bq.wills.Consensus(),
            rounds=80,
            start=start,
        )
        promises = {bound.label: bound for bound in run.certificate.bounds}
        assert promises["tight"].promised <= 1e-15  # a single curvature is remembered as it is
        assert all(bound.holds is not False for bound in promises.values())
        # and there is not so much slack that anything would hold
        assert promises["tight"].slack <= 1e-10 + 1e-14 * far
