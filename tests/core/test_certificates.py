"""What a certificate promises is kept, and what it does not promise it says."""

import json

import numpy as np
import pytest
import scenarios

import bequest as bq
from bequest.core.certificates import Bound, Premise
from bequest.model.wills import drift


def close_quadratics(seed: int, n: int = 30) -> bq.Problem:
    """kappa = 1.5, so that thm:main's premise k beta <= 1/2 holds for many departures."""
    return bq.problems.quadratics(n=n, dim=4, mu=1.0, L=1.5, seed=seed)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "will",
    [
        bq.wills.Consensus(),
        bq.wills.LocalTrack(),
        bq.wills.Adaptive(rule="oracle"),
        bq.wills.Adaptive(rule="certified"),
    ],
    ids=str,
)
def test_thm_main_and_cor_selective_hold_where_their_premises_do(seed, will):
    problem = close_quadratics(seed)
    leaving = bq.departures.most_heterogeneous(problem, rounds=[5, 10, 20, 40])
    graph = bq.graphs.ring_with_chords(30, chords=30, seed=seed)
    run = bq.solve(problem, graph, departures=leaving, will=will, rounds=600)
    certificate = run.certificate
    assert certificate["thm:main"].holds is True
    assert certificate["tight"].holds is True
    assert certificate["thm:lower"].holds is True
    assert certificate["tight"].promised <= certificate["thm:main"].promised
    if isinstance(will, bq.wills.Adaptive) and will.rule == "oracle":
        assert certificate["cor:selective"].holds is True
    assert certificate.holds


@pytest.mark.parametrize("name", scenarios.WILLS)
@pytest.mark.parametrize("seed", range(300, 325))
def test_no_promise_is_ever_broken(name, seed):
    scene = scenarios.scenario(seed)
    run = bq.solve(
        scene.problem,
        scene.graph,
        departures=scene.departures,
        will=scenarios.WILLS[name],
        method=bq.GradientTracking(step=scene.step),
        rounds=scene.rounds,
        start=scene.start,
    )
    certificate = run.certificate
    assert certificate["tight"].holds is True, str(certificate["tight"])
    assert certificate.holds, str(certificate)


def test_the_tight_bound_is_attained():
    """One leaver whose curvature is extreme along its own drift: measured = promised."""
    mu, L, n = 1.0, 9.0, 5
    others = [bq.Quadratic([[mu]], [0.0])] * (n - 1)
    problem = bq.Problem([bq.Quadratic([[L]], [10.0]), *others])
    # a curvature range the leaver only promises: [1, 9], where the truth is 9
    leaver = bq.Function(
        lambda x: (L / 2 * float((x[0] - 10) ** 2), L * (x - 10)), dim=1, curvature=(mu, L)
    )
    problem = bq.Problem([leaver, *others])
    run = bq.solve(
        problem,
        bq.graphs.complete(n),
        departures=[bq.Departure(0, 3)],
        will=bq.wills.Consensus(),
        rounds=400,
    )
    tight = run.certificate["tight"]
    assert tight.holds
    assert tight.measured == pytest.approx(tight.promised, rel=1e-9)


def test_thm_main_is_loose_where_the_tight_bound_is_not():
    ratios = []
    for seed in range(10):
        problem = bq.problems.quadratics(n=20, dim=10, mu=1.0, L=10.0, seed=seed)
        graph = bq.graphs.ring_with_chords(20, chords=15, seed=seed)
        leaving = bq.departures.most_heterogeneous(problem, rounds=[50, 90, 130, 170])
        run = bq.solve(problem, graph, departures=leaving, will=bq.wills.Consensus(), rounds=1200)
        ratios.append(run.certificate["thm:main"].promised / run.certificate["tight"].promised)
    assert min(ratios) > 2


def test_premises_that_fail_are_named():
    problem = bq.problems.quadratics(n=8, dim=3, mu=1.0, L=100.0, seed=0)
    run = bq.solve(
        problem,
        bq.graphs.ring(8),
        departures=[bq.Departure(1, 20), bq.Departure(2, 20)],
        will={1: bq.wills.Consensus(), None: bq.wills.Forgetful()},
        rounds=200,
    )
    main = run.certificate["thm:main"]
    assert main.holds is None
    assert "k beta" in main.verdict
    assert "one departure per round" in main.verdict
    assert "gradient-anchored" in main.verdict
    assert run.lost == (2,)


def test_an_estimated_curvature_certifies_nothing():
    f = bq.Function(lambda x: (float(x @ x), 2 * x), dim=2)
    g = bq.Function(lambda x: (float((x - 1) @ (x - 1)), 2 * (x - 1)), dim=2)
    run = bq.solve(
        bq.Problem([f, g]),
        [(0, 1)],
        departures=[bq.Departure(0, 5)],
        will=bq.wills.Consensus(),
        rounds=50,
    )
    assert all(bound.holds is None for bound in run.certificate)
    assert "certified" in run.certificate["tight"].verdict


def test_a_diverged_run_certifies_nothing():
    problem = bq.problems.quadratics(n=6, dim=2, mu=1.0, L=10.0, seed=0)
    run = bq.solve(problem, bq.graphs.ring(6), method=bq.GradientTracking(step=1.0), rounds=500)
    assert run.status == "diverged"
    assert all(bound.holds is None for bound in run.certificate)


@pytest.mark.parametrize("cap", [0.5, 0.01, None])
@pytest.mark.parametrize("seed", range(6))
def test_prop_pointonly_holds_capped_or_not(seed, cap):
    problem = bq.problems.quadratics(n=12, dim=3, mu=1.0, L=2.0, seed=seed)
    leaving = bq.departures.most_heterogeneous(problem, rounds=[30])
    run = bq.solve(
        problem,
        bq.graphs.ring(12),
        departures=leaving,
        will=bq.wills.PointOnly(cap=cap),
        rounds=800,
    )
    certificate = run.certificate
    assert certificate["prop:pointonly (capped)"].holds is True
    assert certificate["prop:pointonly"].holds is not False
    if cap is None:
        assert certificate["prop:pointonly"].holds is True, str(certificate["prop:pointonly"])
    if cap == 0.01:
        assert "capped" in certificate["prop:pointonly"].verdict


def test_a_certificate_prints_and_serialises():
    problem = close_quadratics(0)
    run = bq.solve(problem, bq.graphs.ring(30), departures=[bq.Departure(0, 9)], rounds=300)
    text = str(run.certificate)
    for bound in run.certificate:
        assert bound.label in text
    data = json.loads(json.dumps(run.certificate.as_dict(), allow_nan=False))
    assert data["tight"]["holds"] is True
    with pytest.raises(KeyError, match="tight"):
        run.certificate["thm:nonsense"]


def test_a_bound_knows_when_it_is_broken():
    broken = Bound("x", "c", (), promised=1.0, measured=2.0)
    assert broken.holds is False
    assert broken.verdict == "BROKEN"
    assert Bound("x", "c", (), promised=2.0, measured=1.0, relation=">=").holds is False
    assert Bound("x", "c", (), promised=1.0, measured=np.nan).holds is False
    assert Bound("x", "c", (Premise("p", False),), promised=1.0, measured=2.0).holds is None


def test_cor_selective_counts_the_survivors_at_the_end():
    """Five of ten forgotten, each pulling the same way: the bound by (n - k), not by (n - m)."""
    losses = [
        bq.Function(
            lambda x, c=c: (float((x - c) @ (x - c)) / 2, x - c), dim=1, curvature=(1.0, 2.0)
        )
        for c in [20.0] * 5 + [0.0] * 5
    ]
    run = bq.solve(
        bq.Problem(losses),
        bq.graphs.complete(10),
        departures=[bq.Departure(node, 1 + node) for node in range(5)],
        will=bq.wills.Adaptive(rule="oracle"),
        method=bq.GradientTracking(step=1e-3),
        rounds=10,
        start=[1e3],  # so far out that forgetting is best
    )
    assert [record.choice for record in run.departures] == ["none"] * 5
    selective = run.certificate["cor:selective"]
    assert selective.measured == pytest.approx(10.0, rel=1e-6)
    assert selective.promised == pytest.approx(10.0, rel=1e-6)
    assert selective.holds is True


@pytest.mark.parametrize("seed", range(40))
def test_cor_selective_is_never_broken(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 12))
    problem = bq.problems.quadratics(n=n, dim=2, mu=1.0, L=float(rng.uniform(1.0, 20.0)), seed=seed)
    leavers = rng.permutation(n)[: int(rng.integers(1, n))]
    leaving = [bq.Departure(int(node), int(rng.integers(1, 30))) for node in leavers]
    will = bq.wills.Adaptive(rule="oracle" if seed % 2 else "certified")
    run = bq.solve(problem, bq.graphs.complete(n), departures=leaving, will=will, rounds=60)
    assert run.certificate["cor:selective"].holds is not False, str(run.certificate)


def test_enormous_condition_numbers_do_not_overflow_a_certificate():
    problem = bq.problems.quadratics(n=5, dim=2, mu=1.0, L=1e5, seed=0, basis="shared")
    run = bq.solve(
        problem,
        bq.graphs.ring(5),
        departures=[bq.Departure(0, 5)],
        will=bq.wills.PointOnly(),
        rounds=20,
    )
    assert run.certificate["prop:pointonly"].promised == np.inf
    assert run.certificate.holds


@pytest.mark.parametrize("kappa", [1e8, 1e9, 1e10])
def test_strongly_convex_quadratics_have_an_optimum_however_ill_conditioned(kappa):
    for seed in range(20):
        problem = bq.problems.quadratics(n=4, dim=2, mu=1.0, L=kappa, seed=seed, basis="shared")
        x = problem.optimum()
        sizes = sum(np.linalg.norm(problem.objective(i).gradient(x)) for i in range(4))
        assert np.linalg.norm(problem.gradient(x)) <= 1e-12 * sizes


@pytest.mark.parametrize("kappa", [1e2, 1e4, 1e6, 1e8])
def test_converged_means_close_to_the_limit(kappa):
    problem = bq.problems.quadratics(n=5, dim=3, mu=1.0, L=kappa, seed=1, basis="shared")
    run = bq.solve(problem, bq.graphs.complete(5), rounds=3000)
    if run.status == "converged":
        assert run.error[-1] <= 1e-8 * (1 + np.linalg.norm(run.optimum))
    assert bq.solve(problem, bq.graphs.complete(5), rounds=0).status == "unfinished"


class _Averages(bq.wills.Drift):
    """Averages although nothing is noisy, and hides it behind another branch's name."""

    def decide(self, estate):
        legacy, anchor = drift._averaged(estate, estate.recent.X)
        return bq.wills.Bequest("drift", "averaged", legacy, anchor)


@pytest.mark.parametrize("seed", range(6))
def test_the_tight_bound_charges_a_gradient_that_is_not_the_anchors_own(seed):
    """An averaged legacy of a bent loss is off at its own anchor, and the bound says so."""
    rng = np.random.default_rng(seed)
    losses = [bq.Logistic(5 * rng.standard_normal((3, 2)), [0, 1, 1], l2=0.1) for _ in range(4)]
    problem = bq.Problem(losses)
    run = bq.solve(
        problem,
        bq.graphs.complete(4),
        departures=[bq.Departure(0, 8), bq.Departure(1, 12)],
        will=_Averages(),
        rounds=400,
        start=problem.optimum() + 2 * rng.standard_normal((4, 2)),
    )
    bound = run.certificate["tight"]
    assert bound.applies
    assert bound.holds, bound


@pytest.mark.parametrize("seed", range(40))
def test_the_tight_bound_holds_under_every_mixture_of_wills(seed):
    scene = scenarios.scenario(seed + 4000)
    rng = np.random.default_rng(seed)
    known = [
        bq.wills.Drift(),
        bq.wills.Drift(rank=1),
        bq.wills.Drift(rank=2, hessian="secant"),
        bq.wills.FullHessian(),
        bq.wills.Budget(3),
        bq.wills.Adaptive(),
        bq.wills.Consensus(),
        bq.wills.Classic(),
        bq.wills.PointOnly(cap=0.01),
    ]
    wills = {event.node: known[int(rng.integers(len(known)))] for event in scene.departures}
    run = bq.solve(
        scene.problem,
        scene.graph,
        departures=scene.departures,
        will=wills,
        method=bq.GradientTracking(step=scene.step),
        rounds=scene.rounds,
        start=scene.start,
    )
    bound = run.certificate["tight"]
    assert bound.holds or not bound.applies, bound
