"""The paper's numbers, each in its stated band; on all seeds where slow tests are run."""

import numpy as np
import pytest

from bequest.paper import studies
from bequest.paper.studies import setups

FEW = 5


def findings(name: str, *, seeds: int, **params) -> list:
    """Measure the cases of a study with these parameters, in this process."""
    study = studies.find(name)
    chosen = [
        case
        for case in study.cases
        if case.params.get("seed", 0) < seeds
        and all(case.params[key] == value for key, value in params.items())
    ]
    assert chosen
    return [study.measure(**case.params) for case in chosen]


seeds = pytest.mark.parametrize("seeds", [FEW, pytest.param(20, marks=pytest.mark.slow)])


def of(found: list, method: str, number: str) -> np.ndarray:
    return np.array([one.facts["methods"][method][number] for one in found])


@seeds
def test_trajectories(seeds):
    found = findings("trajectories", seeds=seeds)
    assert 1.5 <= np.median(of(found, "classic", "bias")) <= 4
    # the paper's 2.0e-7, within a decade of the seeds that are as well connected as most
    legacy = of(found, "Legacy-GT", "final")
    assert 2e-10 <= np.median(legacy) <= 2e-6
    assert (legacy < 1e-4 * of(found, "classic", "final")).all()
    if seeds == 20:
        assert (legacy < 2.0e-6).mean() >= 0.5
        assert np.abs(np.log10(legacy / 2.0e-7)).min() < 0.2


def test_a_first_departure_at_240_ends_at_the_papers_2e_7():
    """The paper does not say when its nodes leave; here its number takes about 240 rounds."""
    ends = []
    for seed in range(20):
        setup = setups.section51(seed)
        leaving = setup.worst_leave([240, 540, 840, 1140])
        ends.append(setups.bias(setup.run(setups.PAPER["Legacy-GT"], leaving, rounds=1140)))
    assert 2e-8 <= np.median(ends) <= 2e-6


@seeds
def test_stress(seeds):
    gains = []
    for kappa, k, t1 in ((10, 4, 50), (30, 8, 50), (100, 8, 50), (100, 12, 50), (100, 12, 800)):
        found = findings("stress", seeds=seeds, kappa=kappa, k=k, t1=t1)
        gains.append(np.median(of(found, "classic", "bias") / of(found, "Legacy-GT", "bias")))
    # the medians of math: 27, 6.8, 3.6, 5.3, 24; the printed ones are 57, 8.5, 4.1, 5.8, 33
    for gain, (low, high) in zip(
        gains, ((12, 60), (4, 14), (2.2, 7), (3, 9), (12, 45)), strict=True
    ):
        assert low <= gain <= high, gains
    assert gains[0] > gains[1] > gains[2]
    assert gains[4] > gains[3]


@seeds
def test_compare_every_bound_holds_and_the_order_is_the_papers(seeds):
    for t1 in (50, 300):
        found = findings("compare", seeds=seeds, t1=t1)
        for one in found:
            for method, numbers in one.facts["methods"].items():
                assert numbers["bias"] <= numbers["tight"] * (1 + 1e-9), method
                assert numbers["bias"] <= numbers["promised"] * (1 + 1e-9), method
            assert one.facts["methods"]["classic"]["vectors"] == 0
            assert one.facts["methods"]["GT-C"]["vectors"] == 2
        medians = {m: np.median(of(found, m, "bias")) for m in ("classic", "GT-P", "GT-M", "GT-C")}
        assert medians["GT-C"] < medians["GT-M"] < medians["GT-P"] < medians["classic"]


@seeds
def test_curvature_the_promise_holds_and_the_midpoint_minimises_it(seeds):
    for basis in ("random", "shared"):
        for one in findings("curvature", seeds=seeds, basis=basis):
            arrays = one.arrays
            assert (arrays["mismatch"] <= arrays["promised mismatch"] * (1 + 1e-9)).all()
            assert (arrays["bias"] <= arrays["promised bias"] * (1 + 1e-9)).all()
            for promise in ("promised mismatch", "promised bias"):
                best = arrays["eta"][np.argmin(arrays[promise])]
                assert best == pytest.approx(one.facts["midpoint"], abs=0.21)
            # every leaver here has the full spectrum, so the promise about the gradient is met
            np.testing.assert_allclose(arrays["mismatch"], arrays["promised mismatch"], rtol=1e-9)


@seeds
def test_point_only_floors_and_diverges(seeds):
    for one in findings("point-only", seeds=seeds):
        bias, statuses = one.arrays["bias"], one.facts["statuses"]
        assert np.isfinite(bias).all()
        assert all(status != "diverged" for row in statuses[:2] for status in row)
        assert statuses[2][-1] == "diverged"
        for row, floor in zip(bias[:2], one.facts["floors"][:2], strict=True):
            assert row[-1] <= floor
            assert row[-1] == pytest.approx(row[-2], rel=0.05)  # it no longer improves
        assert bias[2][-1] < 1e-3 * bias[1][-1]  # the limit would be good, could one get there


@seeds
def test_handoff(seeds):
    for one in findings("handoff", seeds=seeds):
        found = one.facts["combinations"]
        assert found["local, printed"]["gap"] > 10
        assert found["local, printed"]["from limit"] > 0.1
        for name in ("consensus, exact", "consensus, printed", "local, exact"):
            assert found[name]["gap"] < 1e-9


def test_lower_bound_is_the_formula_and_ours_is_within_kappa_of_it():
    for one in findings("lower-bound", seeds=1):
        a = one.arrays
        np.testing.assert_allclose(a["apart"], a["formula"], rtol=1e-6)
        assert (a["ours"] >= a["floor"] * (1 - 1e-6)).all()
        assert (a["ours"] <= a["promised"] * (1 + 1e-9)).all()
        assert (a["ours"] / a["floor"] <= a["kappa"]).all()


@seeds
def test_convex(seeds):
    found = findings("convex", seeds=seeds)
    for one in found:
        runs = one.facts["runs"]
        assert runs["Legacy-GT"]["rate"] < 0.997
        assert runs["Legacy-GT"]["rate"] < runs["classic"]["rate"]
        for label, (_, _, holds) in runs["bounds"].items():
            assert holds is True, label
        slope = np.polyfit(np.log(one.arrays["anchor error"]), np.log(one.arrays["value gap"]), 1)
        assert slope[0] == pytest.approx(2.0, abs=0.05)
    gaps = {
        name: np.median([one.facts["runs"][name]["value gap"] for one in found])
        for name in ("classic", "Legacy-GT")
    }
    assert gaps["Legacy-GT"] < 0.1 * gaps["classic"]


@seeds
def test_crossover_classic_is_flat_and_the_legacies_fall(seeds):
    found = findings("crossover", seeds=seeds, setup="section51")
    medians = {
        name: np.median([one.arrays[name] for one in found], axis=0)
        for name in ("classic", "GT-C", "Legacy-GT")
    }
    assert np.ptp(medians["classic"]) < 1e-9
    for name in ("GT-C", "Legacy-GT"):
        assert (np.diff(medians[name]) < 0).all()
        assert medians[name][-1] < 1e-6


@pytest.mark.parametrize(
    ("dataset", "kappa", "forgotten", "remembered"),
    [("breast-cancer", 322, (0.6, 0.9), (0.2, 0.5)), ("digits", 157, (0.65, 0.95), (1e-3, 2e-2))],
)
def test_real_data(dataset, kappa, forgotten, remembered):
    found = findings("real", seeds=1, dataset=dataset)[0]
    methods = found.facts["methods"]
    assert max(found.facts["kappa"]) == pytest.approx(kappa, rel=0.05)  # as the paper reports
    assert forgotten[0] <= methods["classic"]["bias"] <= forgotten[1]
    assert remembered[0] <= methods["GT-C"]["bias"] <= remembered[1]
    assert methods["Legacy-GT"]["bias"] <= methods["classic"]["bias"] * (1 + 1e-9)
    for one in methods.values():
        assert one["status"] in ("converged", "unfinished")
