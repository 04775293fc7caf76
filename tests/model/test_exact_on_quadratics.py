"""Whole Hessians of quadratics forget nothing, whatever happens and however early."""

import numpy as np
import pytest
import scenarios

import bequest as bq
from bequest.core.history import EpochPath
from bequest.model.wills import Estate, Setting

EPS = np.finfo(float).eps


def exact_limit(losses, nodes):
    """The minimiser of the sum of these quadratics, by dense algebra, and how sure it is of it."""
    H = sum(losses[node].A for node in nodes)
    pulls = [losses[node].A @ losses[node].c for node in nodes]
    rounding = EPS * (1 + sum(map(np.linalg.norm, pulls)) / np.linalg.eigvalsh(H)[0])
    return np.linalg.solve(H, sum(pulls)), rounding


def surrogate_limit(run, losses):
    """The minimiser of what the survivors hold, by dense algebra."""
    memories = list(run.inherited.values())
    H = sum(losses[node].A for node in run.survivors) + sum(q.hessian() for q in memories)
    h = sum(losses[node].A @ losses[node].c for node in run.survivors) - sum(q.p for q in memories)
    return np.linalg.solve(H, h)


def forgotten_in(events):
    """Who was to be forgotten and has not come back since."""
    last = {}
    for event in sorted(events, key=lambda event: event.round):
        last[event.node] = event
    return {node for node, event in last.items() if isinstance(event, bq.Forget)}


def assert_nothing_is_forgotten(seed, will, **options):
    scene = scenarios.membership(seed, make=scenarios.ill_conditioned)
    losses = scene.objectives
    run = bq.solve(
        scene.problem,
        scene.graph,
        departures=scene.departures,
        will=will,
        rounds=scene.rounds,
        start=scene.start,
        recall=False,  # a slope is no quadratic
        **options,
    )
    # Only a crash of which no node has a checkpoint may lose any node.
    orphans = [record for record in run.departures if record.crashed and record.heir is None]
    assert set(run.lost) <= {node for record in orphans for node in record.lost}
    counted = set(range(len(losses))) - forgotten_in(scene.departures) - set(run.lost)
    truth, rounding = exact_limit(losses, counted)
    off = np.linalg.norm(surrogate_limit(run, losses) - truth)
    assert off <= 100 * rounding, [record.choice for record in run.departures]
    assert np.linalg.norm(run.limit - truth) <= 1e-11 * (1 + np.linalg.norm(truth)) + 100 * rounding


@pytest.mark.parametrize("seed", range(60))
def test_no_schedule_makes_the_whole_hessian_forget_a_quadratic(seed):
    every = 1 + seed % 25
    assert_nothing_is_forgotten(
        seed, bq.wills.FullHessian(), buddies=seed % 3, checkpoint_every=every
    )


@pytest.mark.slow
@pytest.mark.parametrize("block", range(9))
def test_no_schedule_of_many_does(block):
    for seed in range(60 * (block + 1), 60 * (block + 2)):
        assert_nothing_is_forgotten(seed, bq.wills.FullHessian(), checkpoint_every=1 + seed % 25)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("will", "engine"),
    [
        (bq.wills.FullHessian(), bq.engines.Loop(hosts=2, as_bytes=True)),
        (bq.wills.Drift(rank=4), bq.engines.Vector()),
        (bq.wills.Budget(10), bq.engines.Vector()),
    ],
    ids=["real nodes", "drift", "budget"],
)
def test_nor_does_it_under_another_name_or_engine(seed, will, engine):
    assert_nothing_is_forgotten(seed, will, engine=engine)


def squares(rng, dim):
    return bq.LeastSquares(rng.standard_normal((dim + 2, dim)), rng.standard_normal(dim + 2))


def loaded(rng, dim):
    loss = squares(rng, dim)
    return bq.Loaded(lambda: loss, dim=dim, curvature=loss.curvature)


@pytest.mark.parametrize("make", [squares, loaded])
@pytest.mark.parametrize("t", [1, 5])
def test_the_first_checkpoint_of_a_quadratic_holds_its_whole_hessian(make, t):
    rng = np.random.default_rng(t)
    problem = bq.Problem([make(rng, 2), make(rng, 2)])
    run = bq.solve(
        problem,
        [(0, 1)],
        departures=[bq.Crash(0, t)],
        will=bq.wills.FullHessian(),
        rounds=20,
    )
    assert run.departures[0].choice == "full"
    x = rng.standard_normal(2)
    kept = run.inherited[1]
    assert kept.gradient(x) == pytest.approx(problem.objective(0).gradient(x), abs=1e-12)
    assert kept.value(x) == pytest.approx(problem.objective(0).value(x), abs=1e-12)


def newcomer(objective):
    """What a node has that has just come in: one pair, and no path."""
    x = np.ones(objective.dim)
    z = objective.gradient(x)
    return Estate(
        node=0,
        round=0,
        remaining=3,
        objective=objective,
        x=x,
        z=z,
        start=x,
        setting=Setting(n=4, mu=0.1, kappa=50.0, step=0.1, pilot=None, optimum=None),
        recent=EpochPath(x[None], z[None]),
    )


RNG = np.random.default_rng(0)
LOSSES = {
    "quadratic": (bq.Quadratic(np.diag([1.0, 5.0]), np.zeros(2)), True),
    "least squares": (squares(RNG, 2), True),
    "loaded least squares": (loaded(RNG, 2), True),
    "logistic": (bq.Logistic(RNG.standard_normal((5, 2)), [0, 1, 1, 0, 1], l2=0.1), False),
    "huber": (bq.Huber(RNG.standard_normal((5, 2)), np.zeros(5), l2=0.1), False),
    "softmax": (bq.Softmax(RNG.standard_normal((5, 1)), [0, 1, 1, 0, 1], 2, l2=0.1), False),
    "function": (bq.Function(lambda x: (x @ x, 2 * x), dim=2, curvature=(1.0, 3.0)), False),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_node_without_a_path_knows_whether_its_loss_is_a_quadratic(name):
    loss, quadratic = LOSSES[name]
    assert loss.constant_hessian is quadratic
    # a function does not know that it is one, and can be asked
    assert newcomer(loss).is_quadratic is (quadratic or name == "function")
    assert bq.wills.FullHessian().decide(newcomer(loss)).choice == "full"


@pytest.mark.parametrize("later", [bq.Forget(0, 680), bq.Join(5, 680)], ids=["forget", "join"])
@pytest.mark.parametrize("seed", range(4))
def test_the_default_leaves_nothing_out_late_in_a_run(seed, later):
    """Two vectors would do at the optimum as it is, but a later event moves it."""
    problem = bq.problems.quadratics(n=6, dim=6, mu=1.0, L=10.0, seed=seed, basis="tilted")
    run = bq.solve(
        problem,
        bq.graphs.complete(6),
        departures=[bq.Departure(0, 600), bq.Departure(2, 660), later],
        method=bq.GradientTracking(),
        rounds=700,
    )
    assert [record.vectors for record in run.departures] == [5.5, 5.5]
    assert run.limit_error <= 1e-9 * (1 + np.linalg.norm(run.optimum))


@pytest.mark.parametrize("dim", [1, 4, 20])
def test_two_vectors_hold_all_of_a_loss_that_is_curved_alike_in_all_directions(dim):
    rng = np.random.default_rng(dim)
    losses = [
        bq.Quadratic(k * np.eye(dim), 5 * rng.standard_normal(dim)) for k in (1.0, 2.0, 3.0, 4.0)
    ]
    run = bq.solve(
        bq.Problem(losses), bq.graphs.ring(4), departures=[bq.Departure(1, 30)], rounds=60
    )
    assert run.departures[0].vectors == 2
    assert run.limit_error <= 1e-12 * (1 + np.linalg.norm(run.optimum))
