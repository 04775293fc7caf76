"""Trust: two vectors, and the curvature on the way."""

import numpy as np
import pytest

import bequest as bq
from bequest.core.history import EpochPath
from bequest.engines import Loop
from bequest.model.wills import Bequest

GRAPH = bq.graphs.ring_with_chords(6, chords=3, seed=1)


def problem():
    rng = np.random.default_rng(2)
    silos = []
    for i in range(6):
        X = rng.standard_normal((24, 4)) + 0.5 * i
        silos.append(bq.Softmax(X, np.digitize(X[:, 0], [0.5, 2.0]), 3, 0.05))
    return bq.Problem(silos)


def run(leaves, engine=None, **options):
    asked = {"rounds": 400, "method": bq.GradientTracking(step=0.05)} | options
    leaving = [bq.Departure(3, leaves)]
    return bq.solve(
        problem(), GRAPH, departures=leaving, will=bq.wills.Trust(), engine=engine, **asked
    )


def test_it_sends_two_vectors_with_the_curvature_on_its_way():
    found = run(300)
    (record,) = found.departures
    assert record.choice == "trust"
    assert record.vectors == 2.0
    curvature = found.problem.objective(3).curvature
    assert curvature.a <= record.legacy.eta <= curvature.b
    assert found.invariant_gap.max() < 1e-12
    np.testing.assert_allclose(
        record.legacy.gradient(record.anchor),
        found.problem.objective(3).gradient(record.anchor),
        atol=1e-12,
    )


def test_engines_agree():
    one, other = run(120), run(120, Loop(as_bytes=True))
    np.testing.assert_allclose(one.x, other.x, rtol=0, atol=1e-10)


def test_what_an_heir_inherits_is_no_stiffer_than_its_step_allows():
    (record,) = run(300, method=bq.GradientTracking(step=0.2)).departures
    assert 0.2 * record.legacy.eta <= 0.5


class Stiffest(bq.wills.Will):
    """As stiff as Trust's quadratics may be, whatever the loss is."""

    def decide(self, estate):
        eta = 0.5 / estate.setting.step
        return Bequest("trust", "the stiffest", estate.anchored_at(estate.x, eta), estate.x)


def chain(graph, own, count):
    """Nodes that leave one after the other; the last heir holds the memories of all of them."""
    rng = np.random.default_rng(0)
    losses = [bq.Quadratic(np.diag([own, own / 2]), rng.standard_normal(2)) for _ in range(10)]
    return bq.solve(
        bq.Problem(losses),
        graph,
        departures=[bq.Departure(node, 10 + 10 * node) for node in range(count)],
        will=Stiffest(),
        method=bq.GradientTracking(step=1.0),
        rounds=6000,
    )


@pytest.mark.parametrize("own", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("name", ["ring", "complete", "ring_with_chords"])
def test_an_heir_that_inherits_twice_is_stable_with_a_step_that_is_given(name, own):
    """The step times its own curvature and that of two of the stiffest is nearly two here."""
    more = {"chords": 6, "seed": 0} if name == "ring_with_chords" else {}
    run = chain(getattr(bq.graphs, name)(10, **more), own, count=2)
    stiffest = max(memory.curvature[1] for memory in run.inherited.values())
    assert stiffest == pytest.approx(1.0)
    assert np.linalg.norm(run.x - run.limit, axis=1).max() < 1e-6


def test_an_heir_that_inherits_five_times_is_not():
    """A step that is given is never touched; a chosen one would be (``test_loaded_heirs``)."""
    assert chain(bq.graphs.ring(10), 0.1, count=5).status is bq.Status.DIVERGED


@pytest.mark.parametrize("length", [0, 5, 40, 1000])
def test_a_movement_is_that_of_about_as_many_rounds(length):
    from bequest.core.history import kept

    ages = kept(length)[::-1]
    path = EpochPath(np.array([[float(age)] for age in ages]), np.zeros((len(ages), 1)), length)
    moved = path.movement(32)
    if length == 0:
        assert moved is None
    else:
        gaps = [length - age for age in ages[1:]]
        way, rounds = moved
        assert way[0] == rounds == min(gaps, key=lambda gap: abs(gap - 32))


def test_a_node_that_stands_still_has_no_movement():
    assert EpochPath(np.ones((2, 3)), np.zeros((2, 3)), 1).movement(32) is None
