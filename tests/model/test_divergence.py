"""A run that explodes says so: infinite from there on, never NaN, and an error on request."""

import numpy as np
import pytest
import scenarios

import bequest as bq


class Poisoned:
    """A loss that is well behaved until it is told to give ``poison`` after some more calls."""

    def __init__(self, centre, poison):
        self.centre, self.poison, self.left = np.asarray(centre), poison, None

    def __call__(self, x):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                return self.poison, np.full_like(x, self.poison)
        return float((x - self.centre) @ (x - self.centre)) / 2, x - self.centre


def assert_diverged(run):
    assert run.status == "diverged"
    assert run.status is bq.Status.DIVERGED
    gone = int(np.argmax(np.isinf(run.error)))
    assert np.isinf(run.error[gone:]).all()
    assert np.isfinite(run.error[:gone]).all()
    for measured in (
        run.error,
        run.invariant_gap,
        run.trajectory.gradient_norm,
        run.trajectory.disagreement,
    ):
        assert measured.shape == (run.rounds + 1,)
        assert not np.isnan(measured).any()
        assert np.isinf(measured[gone:]).all()
        assert np.isfinite(measured[:gone]).all()
    with pytest.raises(bq.errors.Diverged, match="diverged with step") as caught:
        run.raise_for_status()
    assert caught.type is bq.errors.Diverged
    assert caught.value.remedy
    assert np.isnan(run.limit).all()
    assert run.limit.shape == (run.problem.dim,)
    return gone


def problem_of(kind):
    rng = np.random.default_rng(1)
    if kind == "quadratics":
        return bq.problems.quadratics(n=6, dim=3, mu=1.0, L=10.0, seed=0)
    if kind == "mixed":
        return bq.Problem(scenarios.objectives(rng, 6, 2, mixed=True))
    data = [(rng.standard_normal((10, 2)), rng.integers(2, size=10)) for _ in range(6)]
    if kind == "logistic":
        return bq.Problem([bq.Logistic(X, y, l2=1.0) for X, y in data])
    return bq.Problem([bq.Softmax(X, y, classes=2, l2=1.0) for X, y in data])


@pytest.mark.parametrize("kind", ["quadratics", "logistic", "softmax", "mixed"])
@pytest.mark.parametrize("step", [10.0, 1e6, 1e300])
def test_a_step_that_is_too_large_ends_in_the_status_diverged(kind, step):
    problem = problem_of(kind)
    method, best = bq.GradientTracking(step=step), problem.optimum()
    run = bq.solve(problem, bq.graphs.ring(6), method=method, rounds=400, optimum=best)
    gone = assert_diverged(run)
    assert gone >= 1


def test_iterates_far_beyond_return_have_diverged_long_before_they_overflow():
    """Distances double every round: 2^60 is a finite number, and no way to end a run."""
    problem = bq.Problem([bq.Quadratic([[1.0]], [1.0])] * 3)
    run = bq.solve(problem, bq.graphs.complete(3), method=bq.GradientTracking(step=3.0), rounds=60)
    gone = assert_diverged(run)
    assert 30 < gone < 40
    np.testing.assert_allclose(run.error[:gone], 2.0 ** np.arange(gone), rtol=1e-6)


def test_the_same_run_with_a_smaller_step_does_not_diverge():
    problem = problem_of("quadratics")
    run = bq.solve(problem, bq.graphs.ring(6), method=bq.GradientTracking(step=0.02), rounds=2000)
    assert run.status == "converged"
    assert run.raise_for_status() is run
    assert np.isfinite(run.error).all()


@pytest.mark.parametrize("name", scenarios.WILLS)
def test_departures_scheduled_after_the_explosion_do_not_hide_it(name):
    problem = problem_of("quadratics")
    pilot = bq.Pilot(radius=2.0, theta=0.05, zeta=1.0, spread=3.0)
    run = bq.solve(
        problem,
        bq.graphs.ring(6),
        departures=[bq.Departure(0, 300), bq.Departure(1, 350)],
        will=scenarios.WILLS[name],
        method=bq.GradientTracking(step=10.0),
        rounds=400,
        pilot=pilot,
    )
    gone = assert_diverged(run)
    assert gone < 300
    assert run.departures == ()
    assert run.survivors == tuple(range(6))


def test_an_uncapped_point_only_will_can_make_a_run_diverge_after_the_departure():
    problem = problem_of("quadratics")
    run = bq.solve(
        problem,
        bq.graphs.ring(6),
        departures=[bq.Departure(0, 100)],
        will=bq.wills.PointOnly(cap=None),
        method=bq.GradientTracking(step=0.05),
        rounds=600,
        pilot=bq.Pilot(radius=1.0, theta=0.5, zeta=1.0),
    )
    gone = assert_diverged(run)
    assert gone > 100
    assert run.survivors == (1, 2, 3, 4, 5)
    assert len(run.departures) == 1


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("calls", [1, 2, 50, 300])
def test_a_gradient_that_breaks_during_the_run_ends_it_as_diverged(poison, calls):
    losses = [Poisoned(np.full(2, float(k)), poison) for k in range(4)]
    problem = bq.Problem([bq.Function(f, dim=2, curvature=(1.0, 1.0)) for f in losses])
    np.testing.assert_allclose(problem.optimum(), 1.5, atol=1e-12)
    losses[2].left = calls
    run = bq.solve(problem, bq.graphs.ring(4), method=bq.GradientTracking(step=0.2), rounds=500)
    # one gradient at the start, and one per round
    assert assert_diverged(run) == calls


def test_a_gradient_that_breaks_under_a_chosen_step_ends_the_run_as_diverged():
    losses = [Poisoned(np.full(2, float(k)), np.nan) for k in range(4)]
    problem = bq.Problem([bq.Function(f, dim=2, curvature=(1.0, 1.0)) for f in losses])
    problem.optimum()
    losses[0].left = 60
    run = bq.solve(problem, bq.graphs.ring(4), rounds=200)
    assert 10 < assert_diverged(run) <= 60


def test_a_loss_that_is_nan_from_the_start_diverges_at_once():
    def broken(x):
        return np.nan, np.full(3, np.nan)

    losses = [bq.Quadratic(np.eye(3), np.full(3, float(k))) for k in range(3)]
    losses.append(bq.Function(broken, dim=3, curvature=(1.0, 1.0), check=False))
    for method in (bq.GradientTracking(), bq.GradientTracking(step=0.1)):
        run = bq.solve(bq.Problem(losses), bq.graphs.ring(4), rounds=20, method=method)
        assert run.status == "diverged"
        assert np.isinf(run.trajectory.gradient_norm).all()
        with pytest.raises(bq.errors.OptimumUnknown):
            _ = run.error
        with pytest.raises(bq.errors.Diverged):
            run.raise_for_status()


def test_a_diverged_run_still_knows_where_its_limit_would_have_been():
    run = bq.solve(
        problem_of("quadratics"),
        bq.graphs.ring(6),
        method=bq.GradientTracking(step=10.0),
        rounds=400,
    )
    np.testing.assert_allclose(run.surrogate_minimiser, run.optimum, rtol=0, atol=1e-11)
    assert np.isnan(run.limit_error)
    assert not any(bound.holds for bound in run.certificate)
    assert "measured nan" in str(run.certificate)
    assert "the run stayed bounded" in str(run.certificate)


def test_an_error_that_grows_but_comes_back_is_not_a_divergence():
    """From far away a run is far away; that is no explosion."""
    run = bq.solve(
        problem_of("quadratics"),
        bq.graphs.ring(6),
        start=np.full(3, 1e8),
        rounds=3000,
    )
    assert run.status != "diverged"
    assert run.error[0] > 1e8
    assert run.error[-1] < 1e-6  # what cancellation from 1e8 leaves


class Heavy(bq.wills.Will):
    """A legacy whose curvature no step survives."""

    def __init__(self, eta):
        self.eta = eta

    def decide(self, estate):
        legacy = estate.anchored_at(estate.x, eta=self.eta)
        return bq.wills.Bequest("point", "as heavy as it likes", legacy, anchor=estate.x)


@pytest.mark.parametrize("eta", [1e6, 1e20, 1e100, 1e200, 1e300])
@pytest.mark.parametrize("late", [1, 30])
def test_divergence_is_the_same_on_real_nodes_and_not_their_failure(eta, late):
    """Their gradients overflow sooner or later, which was told as losses of one node each."""
    problem = bq.problems.quadratics(n=4, dim=2, mu=1.0, L=4.0, seed=0)
    for engine in (bq.engines.Vector(), bq.engines.Loop()):
        run = bq.solve(
            problem,
            bq.graphs.ring(4),
            departures=[bq.Departure(1, late)],
            will={1: Heavy(eta), None: bq.wills.Consensus()},
            method=bq.GradientTracking(step=0.05),
            rounds=200,
            engine=engine,
        )
        assert run.status == "diverged"
        assert (run.survivors, run.lost) == ((0, 2, 3), ())
        assert [record.node for record in run.departures] == [1]


@pytest.mark.parametrize("crash", [20, 36, 50])
def test_a_node_that_crashes_just_before_the_escape_is_found_is_accounted_for(crash):
    problem = bq.Problem([bq.Quadratic([[1.0]], [c]) for c in (1.0, -1.0, 3.0)])
    run = bq.solve(
        problem,
        [(0, 1), (1, 2)],
        departures=[bq.Crash(2, crash)],
        rounds=61,
        will=bq.wills.Consensus(),
        method=bq.GradientTracking(step=3.0),
        engine=bq.engines.Loop(),
    )
    assert run.status == "diverged"
    inside = {node for legacy in run.inherited.values() for node in legacy.lineage}
    assert {*run.survivors, *run.lost, *inside} == {0, 1, 2}
