"""Generated problems are what they say they are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bequest as bq

some = settings(deadline=None, max_examples=30, derandomize=True)


def hessians(problem):
    return np.array([problem.objective(i).A for i in range(problem.n)])


def spectra(problem):
    return np.linalg.eigvalsh(hessians(problem))


@pytest.mark.parametrize("basis", ["random", "shared"])
@some
@given(
    seed=st.integers(0, 2**31),
    n=st.integers(1, 12),
    dim=st.integers(1, 8),
    mu=st.sampled_from([0.0, 1e-3, 1.0]),
    ratio=st.sampled_from([1.0, 10.0, 1e6]),
)
def test_eigenvalues_lie_between_mu_and_l(basis, seed, n, dim, mu, ratio):
    L = max(mu, 1e-3) * ratio
    problem = bq.problems.quadratics(n=n, dim=dim, mu=mu, L=L, seed=seed, basis=basis)
    assert (problem.n, problem.dim) == (n, dim)
    found = spectra(problem)
    assert found.min() >= mu - 1e-13 * L
    assert found.max() <= L * (1 + 1e-13)
    np.testing.assert_allclose(problem.a, found[:, 0], rtol=0, atol=1e-13 * L)
    np.testing.assert_allclose(problem.b, found[:, -1], rtol=1e-13)


def test_hessians_are_exactly_symmetric():
    for basis in ("random", "shared", "tilted"):
        A = hessians(bq.problems.quadratics(n=5, dim=6, mu=1, L=9, seed=3, basis=basis))
        np.testing.assert_array_equal(A, A.transpose(0, 2, 1))


def test_uniform_spectra_fill_the_range_evenly():
    found = spectra(bq.problems.quadratics(n=500, dim=6, mu=2.0, L=12.0, seed=1)).ravel()
    np.testing.assert_allclose(np.quantile(found, [0.1, 0.5, 0.9]), [3.0, 7.0, 11.0], atol=0.5)


@pytest.mark.parametrize("basis", ["random", "shared"])
def test_every_spectrum_is_the_one_asked_for(basis):
    def found(spectrum):
        made = bq.problems.quadratics(
            n=4, dim=5, mu=1.0, L=100.0, seed=2, basis=basis, spectrum=spectrum
        )
        return spectra(made)

    np.testing.assert_allclose(found("linear"), [np.linspace(1, 100, 5)] * 4, rtol=1e-11)
    np.testing.assert_allclose(found("log"), [np.geomspace(1, 100, 5)] * 4, rtol=1e-11)
    np.testing.assert_allclose(found([3.0, 1.0, 7.0, 5.0, 2.0]), [[1, 2, 3, 5, 7]] * 4, rtol=1e-12)
    uniform = found("uniform")
    assert 1.0 <= uniform.min() < uniform.max() <= 100.0
    assert np.abs(uniform - uniform[0]).max() > 1.0  # drawn anew per node


def test_the_default_spectrum_follows_the_basis():
    shared = bq.problems.quadratics(n=3, dim=4, mu=1, L=10, seed=0, basis="shared")
    np.testing.assert_allclose(spectra(shared), [[1, 4, 7, 10]] * 3, rtol=1e-12)
    random = spectra(bq.problems.quadratics(n=3, dim=4, mu=1, L=10, seed=0))
    assert np.abs(random - [1, 4, 7, 10]).min() > 1e-6


def test_a_shared_basis_commutes_and_a_random_one_does_not():
    def commutator(basis):
        A = hessians(bq.problems.quadratics(n=3, dim=5, mu=1, L=10, seed=4, basis=basis))
        return np.abs(A[0] @ A[1] - A[1] @ A[0]).max()

    assert commutator("shared") <= 1e-12
    assert commutator("random") > 1.0
    assert 0.05 < commutator("tilted") < commutator("random")


def test_a_shared_basis_keeps_the_sum_as_ill_conditioned_as_its_parts():
    shared = bq.problems.quadratics(n=10, dim=8, mu=1, L=100, seed=0, basis="shared")
    random = bq.problems.quadratics(n=10, dim=8, mu=1, L=100, seed=0)
    assert np.linalg.cond(hessians(shared).sum(axis=0)) == pytest.approx(100, rel=1e-9)
    assert np.linalg.cond(hessians(random).sum(axis=0)) < 5


def test_tilted_eigenvalues_are_log_normal_around_the_spectrum():
    made = bq.problems.quadratics(
        n=300, dim=10, mu=1, L=1, seed=6, basis="tilted", spectrum=np.full(10, 4.0)
    )
    logs = np.log(spectra(made))
    assert logs.mean() == pytest.approx(np.log(4.0), abs=4 * 0.3 / np.sqrt(3000))
    assert logs.std() == pytest.approx(0.3, rel=0.05)


def test_tilted_bases_are_turned_by_a_small_random_rotation_each():
    """Two nodes differ by expm(K) with entries of K of deviation 0.15 sqrt(2/dim)."""
    dim = 6
    made = bq.problems.quadratics(
        n=200, dim=dim, mu=1, L=1, seed=6, basis="tilted", spectrum=10.0 ** np.arange(dim)
    )
    bases = np.linalg.eigh(hessians(made))[1]
    between = bases[0::2].transpose(0, 2, 1) @ bases[1::2]
    # eigenvalues lie a decade apart, so the sorted eigenvectors belong together, up to their sign
    assert np.abs(np.diagonal(between, axis1=1, axis2=2)).min() > 0.5
    off = between[:, ~np.eye(dim, dtype=bool)]
    assert np.sqrt((off**2).mean()) == pytest.approx(0.15 * np.sqrt(2 / dim), rel=0.1)


@pytest.mark.parametrize("spread", [0.0, 1.0, 5.0])
def test_the_nodes_own_minimisers_are_as_far_apart_as_asked(spread):
    made = bq.problems.quadratics(n=400, dim=10, mu=1, L=2, seed=9, spread=spread)
    centres = np.array([made.objective(i).c for i in range(made.n)])
    assert centres.std() == pytest.approx(spread, rel=0.05)
    assert np.abs(centres.mean()) <= 4 * spread / np.sqrt(4000)


@pytest.mark.parametrize("basis", ["random", "shared", "tilted"])
def test_a_seed_is_reproducible_and_another_one_is_different(basis):
    def make(seed):
        return bq.problems.quadratics(n=3, dim=4, mu=1, L=9, seed=seed, basis=basis)

    one, again, other = make(5), make(5), make(6)
    np.testing.assert_array_equal(hessians(one), hessians(again))
    np.testing.assert_array_equal(one.optimum(), again.optimum())
    assert np.abs(hessians(one) - hessians(other)).max() > 1e-3
    assert np.abs(one.optimum() - other.optimum()).max() > 1e-3


def test_equal_bounds_make_isotropic_quadratics():
    made = bq.problems.quadratics(n=3, dim=4, mu=2.0, L=2.0, seed=0)
    np.testing.assert_allclose(hessians(made), [2.0 * np.eye(4)] * 3, atol=1e-14)


@pytest.mark.parametrize(
    ("changes", "culprit"),
    [
        ({"n": 0}, "n=0"),
        ({"dim": 0}, "dim=0"),
        ({"mu": -1.0}, "mu=-1"),
        ({"mu": 11.0}, "mu=11"),
        ({"mu": float("nan")}, "mu=nan"),
        ({"L": float("inf")}, "L=inf"),
        ({"L": float("nan")}, "L=nan"),
        ({"basis": "crooked"}, "crooked"),
        ({"spectrum": "pink"}, "pink"),
        ({"spectrum": "log", "mu": 0.0}, "log"),
        ({"spectrum": [1.0, 2.0]}, "spectrum"),
        ({"spectrum": [1.0, -2.0, 3.0]}, "spectrum"),
        ({"spectrum": [1.0, float("nan"), 3.0]}, "spectrum"),
        ({"spread": float("nan")}, "spread"),
        ({"spread": float("inf")}, "spread"),
    ],
)
def test_an_impossible_wish_is_refused_by_name(changes, culprit):
    wish = {"n": 4, "dim": 3, "mu": 1.0, "L": 10.0, "seed": 0}
    with pytest.raises(bq.errors.InvalidObjective, match=culprit) as caught:
        bq.problems.quadratics(**wish | changes)
    assert caught.type is bq.errors.InvalidObjective
    assert caught.value.remedy


def test_the_most_heterogeneous_nodes_leave_first():
    problem = bq.problems.quadratics(n=6, dim=3, mu=1, L=10, seed=0)
    pulls = problem.heterogeneity()
    leaving = bq.departures.most_heterogeneous(problem, rounds=[10, 20, 30])
    assert [event.round for event in leaving] == [10, 20, 30]
    assert [event.node for event in leaving] == np.argsort(-pulls)[:3].tolist()
    assert bq.departures.most_heterogeneous(problem, rounds=[]) == []


@pytest.mark.parametrize("count", [6, 7])
def test_not_everybody_can_be_among_the_most_heterogeneous(count):
    problem = bq.problems.quadratics(n=6, dim=3, mu=1, L=10, seed=0)
    with pytest.raises(bq.errors.EverybodyLeaves, match=str(count)) as caught:
        bq.departures.most_heterogeneous(problem, rounds=range(1, count + 1))
    assert "5" in caught.value.remedy
