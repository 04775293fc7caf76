"""Every method keeps what leavers hand over: the survivors end at the surrogate's minimiser."""

import numpy as np
import pytest
import scenarios
from seeds import seeds

import bequest as bq

# Departures in a chain, several at once, to heirs that leave too; a crash with a checkpoint and one
# without; a node that comes back, one that joins, one that is forgotten.
CHAINED = [
    bq.Departure(2, 30),
    bq.Departure(3, 30),
    bq.Departure(4, 30),
    bq.Departure(1, 60),
    bq.Departure(5, 60),
    bq.Departure(0, 90),
]
EVERYTHING = [
    *CHAINED,
    bq.Crash(6, 110),
    bq.Return(2, 120),
    bq.Join(11, 130),
    bq.Forget(3, 130),
    bq.Crash(2, 150),
    bq.Departure(7, 150),
]


def losses(seed, *, mixed):
    rng = np.random.default_rng(seed)
    return bq.Problem(scenarios.objectives(rng, 12, 3, mixed=mixed, l2=0.5))


def solved(seed, events, method, *, mixed=False, rounds=3000, **options):
    graph = bq.graphs.ring_with_chords(12, chords=5, seed=seed)
    options = {"will": bq.wills.Consensus(), **options}
    problem = losses(seed, mixed=mixed)
    return bq.solve(problem, graph, departures=events, method=method, rounds=rounds, **options)


def size_of_gradients(run):
    """What the surpluses that cancel are made of."""
    problem, start = run.problem, run.plan.start
    return sum(
        np.linalg.norm(problem.objective(node).gradient(x))
        for node in range(problem.n)
        for x in (start[node], run.limit)
    )


@pytest.mark.parametrize("every", [None, 5])
@pytest.mark.parametrize("events", [CHAINED, EVERYTHING], ids=["chained", "everything"])
@pytest.mark.parametrize("seed", seeds(range(8), quick=2))
@pytest.mark.parametrize("name", scenarios.EXACT_METHODS)
def test_the_survivors_end_at_the_minimiser_of_what_is_left(name, seed, events, every):
    """To 1e-10, and at no time do the surpluses sum to more than 1e-12 of the gradients."""
    run = solved(
        seed,
        events,
        scenarios.EXACT_METHODS[name],
        mixed=bool(seed % 2),
        checkpoint_every=every,
        rounds=8000 if name in ("gradient tracking", "DIGing") else 4000,
    )
    assert run.status == "converged"
    assert len(run.departures) == sum(isinstance(e, bq.Departure | bq.Crash) for e in events)
    assert any(record.passed_on for record in run.departures)
    distance = np.linalg.norm(run.x - run.limit, axis=1).max()
    assert distance <= 1e-10 * (1 + np.linalg.norm(run.limit))
    assert run.invariant_gap.max() <= 1e-12 * size_of_gradients(run)


@pytest.mark.parametrize("name", scenarios.EXACT_METHODS)
def test_exact_memories_leave_no_error(name):
    """Isotropic quadratics are remembered as they are, whichever method makes the way there."""
    problem = bq.Problem(
        [bq.Quadratic((1.0 + k % 3) * np.eye(2), [float(k), (-1.0) ** k]) for k in range(9)]
    )
    run = bq.solve(
        problem,
        bq.graphs.ring(9),
        departures=[bq.Departure(k, 20 + 10 * (k // 3)) for k in range(8)],
        will=bq.wills.Consensus(),
        method=scenarios.EXACT_METHODS[name],
        rounds=800,
    )
    assert run.survivors == (8,)
    np.testing.assert_allclose(run.x[0], problem.optimum(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", scenarios.EXACT_METHODS)
def test_no_digit_is_lost_in_many_rounds(name):
    run = solved(1, CHAINED, scenarios.EXACT_METHODS[name], rounds=20_000)
    assert run.invariant_gap.max() <= 1e-12 * size_of_gradients(run)
    # nor do the nodes drift once they are there
    distance = np.linalg.norm(run.x - run.limit, axis=1).max()
    assert distance <= 1e-12 * (1 + np.linalg.norm(run.limit))


# --- the one that is not exact -----------------------------------------------------------------


@pytest.mark.parametrize("events", [[], CHAINED])
def test_dgd_is_off_by_about_its_step(events):
    """Half the step, half the distance: with and without departures."""
    stiffest = losses(3, mixed=False).L
    off = []
    for share in (0.04, 0.02, 0.01):
        method = bq.methods.DGD(step=share / stiffest)
        run = solved(3, events, method, rounds=12_000)
        assert run.status == "unfinished"
        off.append(np.linalg.norm(run.x - run.surrogate_minimiser, axis=1).max())
    assert off[0] > 1e-2
    assert 1.6 < off[0] / off[1] < 2.4
    assert 1.6 < off[1] / off[2] < 2.4


def test_nothing_is_promised_of_dgd():
    """Neither the status nor a certificate says that it gets there, and the step says why."""
    exact = solved(3, CHAINED, bq.NIDS())
    run = solved(3, CHAINED, bq.methods.DGD(), rounds=6000)
    assert exact.certificate["tight"].holds
    assert run.status == "unfinished"
    assert np.isnan(run.limit).all()  # it goes to neither that minimiser nor the optimum
    assert all(bound.holds is None for bound in run.certificate)
    assert "the method ends at the minimiser, which DGD does not" in str(run.certificate["tight"])
    assert "end about a step" in run.steps[0].why
    assert not run.plan.method.is_exact
