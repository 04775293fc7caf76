"""x* is measured against, not waited for: computed when asked for, where it is cheap, or not."""

import contextlib

import numpy as np
import pytest

import bequest as bq
from bequest.engines.base import first_pace
from bequest.errors import DimensionMismatch, InvalidMethod, InvalidWill, NotFinite, OptimumUnknown
from bequest.model.ensemble import Ensemble
from bequest.solver import prepare


class Counted:
    """A quadratic that is known by value and gradient only, and counts how often it is asked."""

    def __init__(self, dim, seed, dtype=float):
        self.centre = np.random.default_rng(seed).standard_normal(dim).astype(dtype)
        self.dtype, self.points = dtype, []

    def __call__(self, x):
        self.points.append(np.array(x))
        r = x.astype(self.dtype) - self.centre
        return float(r @ r) / 2, r


def counted(n, dim, **options):
    losses = [Counted(dim, seed, **options) for seed in range(n)]
    functions = [bq.Function(f, dim=dim, curvature=(1.0, 1.0), check=False) for f in losses]
    return bq.Problem(functions), losses


@pytest.fixture
def minimised(monkeypatch):
    """How often a minimiser was looked for."""
    calls, really = [], Ensemble.minimiser

    def minimiser(self, *args, **options):
        if self.size > 1:  # a leaver may look for its own minimiser
            calls.append(options)
        return really(self, *args, **options)

    monkeypatch.setattr(Ensemble, "minimiser", minimiser)
    return calls


@pytest.mark.parametrize("step", [None, 0.5])
@pytest.mark.parametrize("leaving", [(), (bq.Departure(1, 100), bq.Crash(2, 150))])
def test_a_function_of_many_unknowns_is_asked_for_its_gradients_and_little_else(step, leaving):
    n, rounds = 5, 300
    problem, losses = counted(n, 650)
    method = bq.GradientTracking(step=step)
    run = bq.solve(problem, bq.graphs.complete(n), departures=leaving, method=method, rounds=rounds)
    assert run.status == "converged"
    assert sum(len(f.points) for f in losses) <= 1.2 * n * rounds
    for f in losses:
        # The first round is over when a node is asked somewhere else than where it began.
        first = next(k for k, x in enumerate(f.points) if np.any(x))
        assert first <= 3


HESSIANS = {
    "identity": np.ones(650),
    "repeated": np.repeat([1.0, 2.0, 5.0, 10.0], 163)[:650],
    "one flat": np.append(np.ones(649), 1e-3),
    "flat in one direction": np.append(np.ones(649), 0.0),
    "ill-conditioned": np.geomspace(1e-6, 1.0, 650),
}


class Bent(Counted):
    """With a Hessian of that spectrum, mirrored so that no coordinate is an eigenvector."""

    def __init__(self, spectrum, seed, dtype):
        super().__init__(spectrum.size, seed, dtype)
        mirror = np.random.default_rng(99).standard_normal(spectrum.size)
        self.spectrum = spectrum.astype(dtype)
        self.mirror = (mirror / np.linalg.norm(mirror)).astype(dtype)

    def reflected(self, x):
        return x - 2 * self.mirror * (self.mirror @ x)

    def __call__(self, x):
        self.points.append(np.array(x))
        r = x.astype(self.dtype) - self.centre
        g = self.reflected(self.spectrum * self.reflected(r))
        return (r @ g) / 2, g


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", HESSIANS)
def test_value_and_gradient_are_enough_to_begin_at_once(shape, dtype):
    """No curvature is given: estimating it takes a few calls, whatever the Hessian looks like."""
    n, rounds = 3, 500
    losses = [Bent(HESSIANS[shape], seed, dtype) for seed in range(n)]
    functions = [bq.Function(f, dim=650) for f in losses]
    assert all(f.precision <= 4e-7 for f in functions)
    made = [len(f.points) for f in losses]
    assert max(made) <= 137
    bq.solve(bq.Problem(functions), bq.graphs.complete(n), rounds=rounds)
    assert sum(len(f.points) for f in losses) <= 1.2 * n * rounds  # also with what it took to begin
    for f, before in zip(losses, made, strict=True):
        first = next(k for k, x in enumerate(f.points[before:]) if np.any(x))
        assert first <= 3


def test_a_long_run_begins_at_once_too(monkeypatch):
    """A tenth of its gradients would be 1,400 per node before the first round."""
    n, dim = 3, 650
    problem, losses = counted(n, dim)
    network = bq.graphs.complete(n)
    plan = prepare(problem, network, rounds=14_000, optimum=None)
    first_pace(plan, np.arange(n), network.weights())
    assert max(len(f.points) for f in losses) <= 3


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()])
def test_a_branch_that_is_compared_costs_no_gradients_at_the_guesses(engine):
    """Only what its own legacy takes: the guesses are the same for all branches."""
    asked = {}
    for branches in (("drift", "consensus"), ("drift", "consensus", "none")):
        problem, losses = counted(4, 30)
        bq.solve(
            problem,
            bq.graphs.complete(4),
            departures=[bq.Departure(1, 60)],
            will=bq.wills.Adaptive(branches=branches),
            rounds=80,
            engine=engine,
        )
        asked[branches] = [len(f.points) for f in losses]
    one, other = asked.values()
    assert one == other


def test_an_optimum_that_noise_hides_is_given_up_in_words():
    n, dim = 3, 20
    rng = np.random.default_rng(0)
    asked = []

    def noisy(x):
        asked.append(1)
        return float(x @ x) / 2, x + 1e-5 * rng.standard_normal(dim)

    loss = bq.Function(noisy, dim=dim, curvature=(1.0, 1.0), check=False)
    run = bq.solve(bq.Problem([loss] * n), bq.graphs.complete(n), rounds=20)
    del asked[:]
    with contextlib.suppress(OptimumUnknown):
        assert np.linalg.norm(run.optimum) < 1e-3
    assert len(asked) <= 62 * (2 * dim + 60) * n


def test_a_function_in_float32_costs_what_it_says():
    problem, losses = counted(5, 5, dtype=np.float32)
    run = bq.solve(problem, bq.graphs.ring(5), rounds=300)
    assert sum(len(f.points) for f in losses) <= 1.2 * 5 * 300
    assert run.trajectory.error is None
    assert run.trajectory.disagreement[-1] < 1e-6
    with pytest.raises(OptimumUnknown, match="losses without formulas") as why:
        _ = run.error
    assert 'optimum="always"' in str(why.value)


def test_the_first_round_does_not_wait_for_the_optimum(minimised):
    problem = bq.problems.quadratics(n=4, dim=3, mu=1.0, L=4.0, seed=0)
    asked = []
    loss = bq.Function(
        lambda x: (asked.append(len(minimised)), (float(x @ x) / 2, x))[1],
        dim=3,
        curvature=(1.0, 1.0),
    )
    del asked[:]
    mixed = bq.Problem([*(problem.objective(i) for i in range(4)), loss])
    bq.solve(mixed, bq.graphs.ring(5), rounds=20, optimum="auto")
    assert asked[:20] == [0] * 20
    assert len(minimised) == 1  # it was looked for, but then


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()])
def test_the_optimum_is_not_computed_where_it_is_not_wanted(engine, minimised):
    problem = bq.problems.quadratics(n=6, dim=3, mu=1.0, L=4.0, seed=0)
    asked = {"departures": [bq.Departure(1, 50)], "rounds": 900, "engine": engine}
    silent = bq.solve(problem, bq.graphs.ring(6), **asked, optimum=None)
    assert minimised == []
    measured = bq.solve(problem, bq.graphs.ring(6), **asked)
    assert len(minimised) == 1
    assert silent.status == measured.status == "converged"
    assert np.array_equal(silent.x, measured.x)
    assert silent.trajectory.error is None
    assert silent.departures[0].hindsight == {}
    for name in ("invariant_gap", "gradient_norm", "disagreement"):
        assert np.array_equal(getattr(silent.trajectory, name), getattr(measured.trajectory, name))
    with pytest.raises(OptimumUnknown, match="optimum=None"):
        _ = silent.error
    # but who asks for it gets it
    assert np.array_equal(silent.optimum, measured.optimum)
    assert np.array_equal(silent.optima[0], problem.optimum())
    assert "thm:main" in str(silent.certificate)


@pytest.mark.parametrize("engine", [bq.engines.Vector(), bq.engines.Loop()])
def test_a_given_optimum_is_the_one_that_counts(engine, minimised):
    problem = bq.problems.quadratics(n=6, dim=3, mu=1.0, L=4.0, seed=0)
    there = np.array([1.0, 2.0, 3.0])
    run = bq.solve(problem, bq.graphs.ring(6), rounds=5, engine=engine, optimum=there)
    assert minimised == []
    assert np.array_equal(run.optimum, there)
    assert run.error[0] == pytest.approx(np.linalg.norm(there))
    distances = np.linalg.norm(run.x - there, axis=1)
    assert run.error[-1] == pytest.approx(distances.max(), rel=1e-12)


def test_the_optimum_is_computed_in_any_case_if_it_is_wanted(minimised):
    problem, _ = counted(4, 3)
    joining = [bq.Join(3, 7)]  # the target moves
    run = bq.solve(problem, bq.graphs.complete(4), departures=joining, rounds=200, optimum="always")
    assert len(minimised) == 2
    centres = [problem.objective(node).evaluate(np.zeros(3))[1] for node in range(4)]
    assert run.optima[0] == pytest.approx(-np.mean(centres[:3], axis=0))
    assert run.optima[7] == pytest.approx(-np.mean(centres, axis=0))
    assert run.error[-1] < 1e-8


def test_a_given_optimum_serves_wills_and_pilots(minimised):
    problem = bq.problems.quadratics(n=6, dim=3, mu=1.0, L=4.0, seed=0)
    best = np.linalg.solve(
        sum(problem.objective(i).A for i in range(6)),
        sum(problem.objective(i).A @ problem.objective(i).c for i in range(6)),
    )
    for rule in ("oracle", "certified"):
        run = bq.solve(
            problem,
            bq.graphs.ring(6),
            departures=[bq.Departure(1, 50)],
            will=bq.wills.Adaptive(rule=rule),
            rounds=300,
            optimum=best,
        )
        assert run.error[-1] < 1e-1
    assert minimised == []


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ("nearby", InvalidMethod, "optimum is 'nearby'"),
        ([1.0, 2.0], DimensionMismatch, r"shape \(2,\)"),
        ([[1.0, 2.0, 3.0]], DimensionMismatch, r"shape \(1, 3\)"),
        ([1.0, np.nan, 0.0], NotFinite, "NaN"),
        (["a", "b", "c"], DimensionMismatch, "not a vector of numbers"),
        (object(), DimensionMismatch, "not a vector of numbers"),
        (np.ones(3) * 1j, DimensionMismatch, "not a vector of numbers"),
        (np.ma.array(np.ones(3), mask=[0, 1, 0]), NotFinite, "masked"),
    ],
)
def test_what_is_no_optimum_is_refused(given, error, says):
    problem = bq.problems.quadratics(n=4, dim=3, mu=1.0, L=4.0, seed=0)
    with pytest.raises(error, match=says):
        bq.solve(problem, bq.graphs.ring(4), rounds=5, optimum=given)


def test_one_vector_is_not_enough_where_the_target_moves():
    problem = bq.problems.quadratics(n=4, dim=3, mu=1.0, L=4.0, seed=0)
    with pytest.raises(InvalidMethod, match="the target moves after round 7"):
        bq.solve(
            problem,
            bq.graphs.complete(4),
            departures=[bq.Join(3, 7)],
            rounds=20,
            optimum=np.zeros(3),
        )


def test_an_oracle_without_an_optimum_is_refused():
    problem = bq.problems.quadratics(n=4, dim=3, mu=1.0, L=4.0, seed=0)
    with pytest.raises(InvalidWill, match=r"needs the optimum, which is not known: .*optimum=None"):
        bq.solve(
            problem,
            bq.graphs.ring(4),
            departures=[bq.Departure(1, 5)],
            will=bq.wills.Adaptive(rule="oracle"),
            rounds=20,
            optimum=None,
        )


def test_what_would_take_longer_than_the_run_is_not_computed(minimised, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 8)), np.arange(60) % 2
    silos = [bq.Logistic(X[k::4], y[k::4], l2=0.1) for k in range(4)]
    graph = bq.graphs.ring(4)
    assert bq.solve(bq.Problem(silos), graph, rounds=10).trajectory.error is not None
    # With less that it may cost in any case, the length of the run decides.
    monkeypatch.setattr("bequest.model.optima._AFFORDABLE", 0.0)
    short = bq.solve(bq.Problem(silos), graph, rounds=10)
    assert short.trajectory.error is None
    with pytest.raises(OptimumUnknown, match="a good part of the time of the run"):
        _ = short.error
    long = bq.solve(bq.Problem(silos), graph, rounds=2000)
    assert long.error[-1] < 1e-6
    # What was computed once costs nothing.
    problem = bq.Problem(silos)
    problem.optimum()
    assert bq.solve(problem, graph, rounds=10).trajectory.error is not None


def test_a_run_far_out_is_not_taken_for_one_that_diverges():
    """Without x* the slope and the curvature say how far away it can be."""
    far = bq.Function(
        lambda x: (float((x - 1e13) @ (x - 1e13)) / 2, x - 1e13), dim=2, curvature=(1.0, 1.0)
    )
    run = bq.solve(bq.Problem([far, far, far]), bq.graphs.ring(3), rounds=300)
    assert run.status == "converged"
    assert run.x == pytest.approx(1e13, rel=1e-9)
    wild = bq.GradientTracking(step=30.0)
    run = bq.solve(bq.Problem([far, far, far]), bq.graphs.ring(3), method=wild, rounds=300)
    assert run.status == "diverged"


def test_no_rounds_at_all_are_measured_too():
    problem = bq.problems.quadratics(n=3, dim=2, mu=1.0, L=4.0, seed=0)
    for engine in (bq.engines.Vector(), bq.engines.Loop()):
        run = bq.solve(problem, bq.graphs.ring(3), rounds=0, engine=engine)
        assert run.error == pytest.approx([np.linalg.norm(problem.optimum())])


def test_a_certificate_does_not_take_the_given_optimum_for_the_true_one():
    """Where losses are flat, gradients nearly cancel far away from x*."""
    kappa = 1e6
    centre = [0.0, 0.3e-8 * kappa]
    losses = [bq.Quadratic(np.diag([1.0, 1 / kappa]), centre) for _ in range(3)]
    losses.append(bq.Quadratic(np.diag([1.0, 1.5 / kappa]), centre))
    problem, graph = bq.Problem(losses), bq.graphs.ring(4)
    asked = {"departures": [bq.Departure(3, 5)], "will": bq.wills.Consensus(), "rounds": 20}
    first = bq.solve(problem, graph, **asked, optimum=None)
    told = bq.solve(problem, graph, **asked, optimum=first.limit)
    true = float(np.linalg.norm(first.limit - centre))
    assert true > 1e-4
    for run in (first, told):
        (bound,) = [one for one in run.certificate.bounds if one.label == "tight"]
        assert bound.measured == pytest.approx(true, rel=1e-3)


def test_complex_starts_are_refused():
    problem = bq.problems.quadratics(n=4, dim=3, mu=1.0, L=4.0, seed=0)
    with pytest.raises(DimensionMismatch, match="start"):
        bq.solve(problem, bq.graphs.ring(4), rounds=5, start=np.ones(3) * 1j)
