"""Runs as a whole: where they end, what they record, and the cases at the edges."""

import pickle

import networkx
import numpy as np
import pytest
import scenarios
from seeds import seeds

import bequest as bq


def settled(run: bq.Run, tolerance: float = 1e-10) -> None:
    """The survivors are where the surrogate's minimiser is."""
    assert run.status == "converged"
    distance = np.linalg.norm(run.x - run.limit, axis=1).max()
    assert distance <= tolerance * (1 + np.linalg.norm(run.limit))
    assert run.invariant_gap.max() <= 1e-9


@pytest.mark.parametrize("name", scenarios.WILLS)
@pytest.mark.parametrize("seed", seeds(range(400, 412), quick=5))
def test_the_survivors_converge_to_the_limit(name, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9))
    problem = bq.Problem(scenarios.objectives(rng, n, 3, mixed=bool(seed % 2), l2=0.3))
    leavers = rng.permutation(n)[: int(rng.integers(1, n))]
    when = rng.integers(1, 80, size=2)
    leaving = [bq.Departure(int(node), int(rng.choice(when))) for node in leavers]
    run = bq.solve(
        problem,
        scenarios.graph(rng, n),
        departures=leaving,
        will=scenarios.WILLS[name],
        rounds=6000,
    )
    settled(run)
    # every original node is alive, or remembered by exactly one survivor, or known to be lost
    remembered = [node for legacy in run.inherited.values() for node in legacy.lineage]
    assert sorted([*run.survivors, *remembered, *run.lost]) == list(range(n))


def test_kappa_of_a_million_is_survived():
    """Ill-conditioned on purpose: the run cannot converge, but it must neither blow up nor lie."""
    problem = bq.problems.quadratics(n=8, dim=4, mu=1e-3, L=1e3, seed=1, spectrum="log")
    leaving = bq.departures.most_heterogeneous(problem, rounds=[50, 100])
    for will in (bq.wills.Consensus(), bq.wills.Adaptive(), bq.wills.LocalTrack()):
        run = bq.solve(problem, bq.graphs.ring(8), departures=leaving, will=will, rounds=3000)
        assert run.status != "diverged"
        assert np.isfinite(run.error).all()
        assert run.invariant_gap.max() <= 1e-9 * run.trajectory.gradient_norm.max()
        assert run.certificate["tight"].holds


def test_collinear_data_is_the_convex_regime():
    rng = np.random.default_rng(0)
    column = rng.standard_normal((10, 1))
    losses = [
        bq.LeastSquares(np.hstack([column + k, 2 * (column + k)]), rng.standard_normal(10))
        for k in range(4)
    ]
    problem = bq.Problem(losses)
    assert problem.regime == "C"
    run = bq.solve(problem, bq.graphs.ring(4), departures=[bq.Departure(1, 40)], rounds=8000)
    assert run.departures[0].choice == "full"
    settled(run, 1e-8)


def test_one_node_alone_is_plain_gradient_descent():
    f = bq.Quadratic(np.diag([1.0, 5.0]), [1.0, 2.0])
    run = bq.solve(bq.Problem([f]), bq.Graph([], n=1), rounds=300)
    settled(run)
    np.testing.assert_allclose(run.x[0], [1.0, 2.0], atol=1e-10)


@pytest.mark.parametrize("name", scenarios.WILLS)
def test_a_node_alone_with_its_heir(name):
    problem = bq.Problem([bq.Quadratic([[2.0]], [1.0]), bq.Quadratic([[1.0]], [4.0])])
    run = bq.solve(
        problem, [(0, 1)], departures=[bq.Departure(1, 7)], will=scenarios.WILLS[name], rounds=600
    )
    settled(run)
    assert run.survivors == (0,)
    expected = {"classic": 1.0, "forgetful": 1.0, "consensus": 2.0, "local-track": 2.0}
    if name in expected:
        assert run.x[0, 0] == pytest.approx(expected[name], abs=1e-9)


@pytest.mark.parametrize("graph", ["path", "star", "ring", "complete"])
@pytest.mark.parametrize("together", [True, False])
def test_everyone_leaves_but_one(graph, together):
    n = 6
    rng = np.random.default_rng(3)
    problem = bq.Problem(scenarios.objectives(rng, n, 2, mixed=False))
    leaving = [bq.Departure(node, 30 if together else 10 * (node + 1)) for node in range(n - 1)]
    run = bq.solve(
        problem,
        getattr(bq.graphs, graph)(n),
        departures=leaving,
        will=bq.wills.Consensus(),
        rounds=4000,
    )
    settled(run)
    assert run.survivors == (n - 1,)
    assert set(run.inherited[n - 1].lineage) == set(range(n - 1))
    assert not run.lost


def test_a_node_whose_every_neighbour_leaves_with_it():
    """The star's hub and all leaves but one, and a path's inner segment."""
    problem = bq.problems.quadratics(n=7, dim=2, mu=1.0, L=3.0, seed=5)
    run = bq.solve(
        problem,
        bq.graphs.path(7),
        departures=[bq.Departure(node, 20) for node in (2, 3, 4)],
        will=bq.wills.Consensus(),
        rounds=2000,
    )
    settled(run)
    # 3 has only leaving neighbours (4, and 1 by the bridge of 2's departure)
    assert [record.node for record in run.departures] == [2, 3, 4]
    assert {node for legacy in run.inherited.values() for node in legacy.lineage} == {2, 3, 4}


def test_chained_heirs_carry_everything_along():
    """Each heir is the next to leave: the first memory travels the whole chain unharmed."""
    problem = bq.problems.quadratics(n=8, dim=3, mu=1.0, L=4.0, seed=2)
    departures = [bq.Departure(node, 200 + 50 * node) for node in range(7)]
    network = bq.graphs.path(8)
    run = bq.solve(problem, network, departures=departures, will=bq.wills.Consensus(), rounds=4000)
    settled(run)
    assert [record.heir for record in run.departures] == [1, 2, 3, 4, 5, 6, 7]
    assert [len(record.passed_on) for record in run.departures] == list(range(7))
    assert len({record.vectors for record in run.departures}) == 1
    assert run.certificate["tight"].holds


def test_wills_may_differ_from_node_to_node():
    problem = bq.problems.quadratics(n=6, dim=2, mu=1.0, L=3.0, seed=0)
    run = bq.solve(
        problem,
        bq.graphs.complete(6),
        departures=[bq.Departure(0, 30), bq.Departure(1, 40), bq.Departure(2, 50)],
        will={0: bq.wills.PointOnly(), 1: bq.wills.Classic(), None: bq.wills.Consensus()},
        rounds=800,
    )
    assert [record.choice for record in run.departures] == ["point", "classic", "consensus"]
    settled(run)


def test_a_classic_leaver_takes_what_it_inherited_along_and_the_record_says_so():
    problem = bq.problems.quadratics(n=4, dim=2, mu=1.0, L=3.0, seed=0)
    run = bq.solve(
        problem,
        bq.graphs.path(4),
        departures=[bq.Departure(0, 30), bq.Departure(1, 40)],
        will={0: bq.wills.Consensus(), 1: bq.wills.Classic()},
        rounds=800,
    )
    assert run.departures[0].heir == 1
    assert run.departures[1].lost == (0, 1)
    assert run.departures[1].heir is None
    assert (run.departures[1].vectors, run.departures[1].bytes) == (0, 0)
    assert run.lost == (0, 1)
    settled(run)


def test_forgetful_passes_on_what_it_inherited():
    problem = bq.problems.quadratics(n=4, dim=2, mu=1.0, L=3.0, seed=0)
    run = bq.solve(
        problem,
        bq.graphs.path(4),
        departures=[bq.Departure(0, 30), bq.Departure(1, 40)],
        will={0: bq.wills.Consensus(), 1: bq.wills.Forgetful()},
        rounds=800,
    )
    assert run.lost == (1,)
    assert run.departures[1].passed_on == (0,)
    assert [record.vectors for record in run.departures] == [2, 2]
    settled(run)


def test_the_step_is_lowered_for_everybody_when_an_heir_becomes_too_stiff():
    problem = bq.problems.quadratics(n=12, dim=3, mu=9.0, L=10.0, seed=0)
    run = bq.solve(
        problem,
        bq.graphs.complete(12),
        departures=[bq.Departure(node, 40 + node) for node in range(1, 12)],
        will=bq.wills.Consensus(),
        method=bq.GradientTracking(),
        rounds=3000,
    )
    settled(run)
    assert len(run.steps) > 1
    values = [choice.value for choice in run.steps]
    assert values == sorted(values, reverse=True)
    assert "node 0" in run.steps[-1].why
    assert run.step == values[-1]


def test_a_given_step_is_never_changed():
    problem = bq.problems.quadratics(n=5, dim=2, mu=1.0, L=2.0, seed=0)
    run = bq.solve(
        problem,
        bq.graphs.star(5),
        departures=[bq.Departure(1, 10), bq.Departure(2, 20)],
        will=bq.wills.Consensus(),
        method=bq.GradientTracking(step=0.05),
        rounds=50,
    )
    assert [(choice.value, choice.why) for choice in run.steps] == [(0.05, "as given")]


def test_a_run_is_reproducible_to_the_bit_and_its_arrays_are_read_only():
    scene = scenarios.scenario(7)
    asked = {"departures": scene.departures, "rounds": scene.rounds, "optimum": "always"}
    runs = [bq.solve(scene.problem, scene.graph, **asked) for _ in range(2)]
    assert np.array_equal(runs[0].x, runs[1].x)
    assert np.array_equal(runs[0].error, runs[1].error)
    for array in (runs[0].x, runs[0].error, runs[0].invariant_gap, runs[0].limit, runs[0].optimum):
        assert not array.flags.writeable


def test_windows_do_not_change_a_run(monkeypatch):
    """Rounds are measured a window at a time; where the windows end must not matter."""
    scene = scenarios.scenario(11, rounds=100)

    def run() -> bq.Run:
        return bq.solve(
            scene.problem, scene.graph, departures=scene.departures, rounds=scene.rounds
        )

    whole = run()
    monkeypatch.setattr("bequest.engines.vector.engine._WINDOW_ROUNDS", 1)
    single = run()
    monkeypatch.setattr("bequest.engines.vector.engine._WINDOW_ROUNDS", 7)
    seven = run()
    for other in (single, seven):
        assert np.array_equal(whole.x, other.x)
        np.testing.assert_allclose(other.error, whole.error, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(
            other.trajectory.disagreement, whole.trajectory.disagreement, rtol=1e-12, atol=1e-15
        )


def test_large_networks_agree_with_small_array_code(monkeypatch):
    """The sparse path gives what the dense path gives."""
    problem = bq.problems.quadratics(n=300, dim=4, mu=1.0, L=5.0, seed=1)
    graph = bq.graphs.random_regular(300, 4, seed=1)
    leaving = [bq.Departure(node, 20 + node % 3) for node in range(0, 300, 30)]

    def run() -> bq.Run:
        return bq.solve(
            problem,
            graph,
            departures=leaving,
            will=bq.wills.Consensus(),
            method=bq.GradientTracking(step=0.05),
            rounds=60,
        )

    sparse = run()
    monkeypatch.setattr("bequest.core.mixing.DENSE_NODES", 1000)
    dense = run()
    np.testing.assert_allclose(dense.x, sparse.x, atol=1e-12)


def test_any_networkx_graph_or_edge_list_will_do():
    problem = bq.problems.quadratics(n=6, dim=2, mu=1.0, L=3.0, seed=0)
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]
    by_edges = bq.solve(problem, edges, rounds=30)
    by_networkx = bq.solve(problem, networkx.cycle_graph(6), rounds=30)
    by_graph = bq.solve(problem, bq.graphs.ring(6), rounds=30)
    assert np.array_equal(by_edges.x, by_networkx.x)
    assert np.array_equal(by_edges.x, by_graph.x)


def test_a_run_travels():
    problem = bq.problems.quadratics(n=5, dim=2, mu=1.0, L=3.0, seed=0)
    run = bq.solve(problem, bq.graphs.ring(5), departures=[bq.Departure(1, 9)], rounds=300)
    copy = pickle.loads(pickle.dumps(run))  # noqa: S301 - our own bytes
    assert np.array_equal(copy.x, run.x)
    assert np.array_equal(copy.limit, run.limit)
    assert copy.status is run.status
    assert str(copy.certificate) == str(run.certificate)


def test_the_error_needs_no_optimum_to_run_but_says_so_when_asked():
    """Separable logistic regression without l2 has no optimum; the run goes on without one."""
    X = np.array([[1.0], [2.0], [-1.0], [-2.0]])
    problem = bq.Problem([bq.Logistic(X, [1, 1, 0, 0]), bq.Logistic(2 * X, [1, 1, 0, 0])])
    run = bq.solve(
        problem,
        [(0, 1)],
        departures=[bq.Departure(1, 10)],
        will=bq.wills.Consensus(),
        method=bq.GradientTracking(),  # not there yet after 30 rounds
        rounds=30,
    )
    assert run.status == "unfinished"
    assert np.isfinite(run.trajectory.gradient_norm).all()
    with pytest.raises(bq.errors.OptimumUnknown, match="l2"):
        _ = run.error
    # Adaptive needs neither pilot nor optimum in regime (C); GT-P does
    assert bq.solve(problem, [(0, 1)], departures=[bq.Departure(1, 10)], rounds=30).pilot is None
    with pytest.raises(bq.errors.InvalidWill, match="optimum"):
        bq.solve(
            problem,
            [(0, 1)],
            departures=[bq.Departure(1, 10)],
            will=bq.wills.PointOnly(),
            rounds=30,
        )


def test_progress_is_reported_up_to_the_last_round():
    heard: list[int] = []
    problem = bq.problems.quadratics(n=5, dim=2, mu=1.0, L=3.0, seed=0)
    bq.solve(problem, bq.graphs.ring(5), rounds=700, progress=heard.append)
    assert heard[-1] == 700
    assert heard == sorted(heard)
    assert len(heard) > 1


def test_records_say_what_happened():
    problem = bq.problems.quadratics(n=6, dim=2, mu=1.0, L=3.0, seed=0)
    run = bq.solve(
        problem,
        bq.graphs.ring(6),
        departures=[bq.Departure(3, 60)],
        method=bq.GradientTracking(),
        rounds=300,
    )
    record = run.departures[0]
    assert set(record.predicted) == set(record.hindsight) == {"none", "drift", "full"}
    assert record.choice == min(record.predicted, key=record.predicted.get) == "full"
    text = str(record)
    for word in ("node 3", "round 60", "whole Hessian", "3 vectors", f"{record.bytes} bytes"):
        assert word in text
    assert record.bytes == 8 * (3 * 2 + 2 + 1)
    assert "survivors=5" in repr(run)
    assert run.provenance["bequest"] == bq.__version__


def test_what_a_will_does_not_need_is_not_computed(monkeypatch):
    def refuse(*_args, **_options):
        raise AssertionError("no node asked for a local track")

    monkeypatch.setattr("bequest.core.anchors.local_track", refuse)
    problem = bq.problems.quadratics(n=6, dim=2, mu=1.0, L=3.0, seed=0)
    leaving = [bq.Departure(3, 40)]
    for will in (bq.wills.Classic(), bq.wills.Forgetful(), bq.wills.Consensus()):
        run = bq.solve(problem, bq.graphs.ring(6), departures=leaving, will=will, rounds=50)
        assert run.pilot is None
    with pytest.raises(AssertionError, match="no node asked"):
        bq.solve(
            problem, bq.graphs.ring(6), departures=leaving, will=bq.wills.LocalTrack(), rounds=50
        )
