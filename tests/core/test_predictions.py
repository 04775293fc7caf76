"""Predicting the optimum from pairs (x, z): exact where it can be, silent where it cannot."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bequest.core import anchors
from bequest.core.history import EpochPath

seeds = st.integers(0, 2**32 - 1)


def spd(rng: np.random.Generator, dim: int, kappa: float) -> np.ndarray:
    basis, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    return (basis * np.geomspace(1.0, kappa, dim)) @ basis.T


def step(v: np.ndarray) -> np.ndarray:
    return 0.05 * v


def silent(path: EpochPath, correct=step) -> list[anchors.Prediction]:
    """Every prediction, after checking that nothing in it can hurt."""
    # As in the engines, where overflow is measured and not an accident; a division by zero is one.
    with np.errstate(divide="raise", over="ignore", invalid="ignore"):
        found = anchors.predictions(path, correct)
    for one in found:
        assert np.isfinite(one.point).all()
        assert np.isfinite([one.wobble, one.doubt]).all()
        assert all(np.isfinite(point).all() for point in one.earlier)
    return found


def steady(path: EpochPath, correct=step, modulus: float = 1.0) -> list[anchors.Prediction]:
    reach = anchors.reach(path, modulus)
    return [one for one in silent(path, correct) if one.is_steady(path.X[0], reach)]


def descent(rng: np.random.Generator, H: np.ndarray, optimum: np.ndarray, pairs: int) -> EpochPath:
    """The path of gradient descent on a quadratic, the latest pair first."""
    x = optimum + rng.standard_normal(optimum.size) * 3
    X = [x]
    for _ in range(3 * pairs):
        X.append(X[-1] - 0.5 / np.linalg.norm(H, 2) * H @ (X[-1] - optimum))
    X = np.array(X[::-1][: 2 * pairs : 2])
    return EpochPath(X, (X - optimum) @ H)


def towards(rng: np.random.Generator, optimum: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Sixteen points on the way to the optimum, the latest first; they differ within a subspace."""
    scatter = rng.standard_normal((16, len(inside))) @ inside
    ahead = rng.standard_normal(len(inside)) @ inside
    ahead *= 3 / np.linalg.norm(ahead)
    return optimum + (ahead + 0.05 * scatter) * np.linspace(0.1, 1, 16)[:, None]


@given(seeds, st.integers(1, 6), st.floats(0, 2))
@settings(deadline=None, max_examples=100)
def test_a_linear_system_with_enough_differences_is_solved(seed, dim, decades):
    """z = H (x - x*) at 16 points: x* can be read off."""
    rng = np.random.default_rng(seed)
    H, optimum = spd(rng, dim, 10**decades), rng.standard_normal(dim) * 3
    X = towards(rng, optimum, np.eye(dim))
    path = EpochPath(X, (X - optimum) @ H)
    assert path.drifts
    found = silent(path)
    assert len(found) == 2
    for one in found:
        np.testing.assert_allclose(one.point, optimum, atol=1e-6 * np.linalg.norm(X[0] - optimum))
        assert one.wobble <= 1e-5 * np.linalg.norm(X[0] - optimum)
    assert len(steady(path)) == 2


@given(seeds, st.integers(5, 30), st.integers(1, 4))
@settings(deadline=None)
def test_few_directions_in_a_large_space_are_enough(seed, dim, directions):
    """The path moves in a small invariant subspace, and the optimum lies in it."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    H = (basis * np.geomspace(1.0, 10.0, dim)) @ basis.T
    optimum = rng.standard_normal(dim)
    X = towards(rng, optimum, basis[:, :directions].T)
    found = silent(EpochPath(X, (X - optimum) @ H))
    assert len(found) == 2
    for one in found:
        np.testing.assert_allclose(one.point, optimum, atol=1e-6 * np.linalg.norm(X[0] - optimum))


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("seed", range(10))
def test_the_path_of_a_descent_leads_to_the_optimum(dim, seed):
    rng = np.random.default_rng(seed)
    H, optimum = spd(rng, dim, 10.0), rng.standard_normal(dim)
    path = descent(rng, H, optimum, 12)
    found = steady(path)
    assert found, "an exact path was not believed"
    best = min(found, key=lambda one: one.doubt)
    ahead = np.linalg.norm(path.X[0] - optimum)
    assert np.linalg.norm(best.point - optimum) <= 1e-4 * ahead


def test_an_exact_correction_needs_no_history():
    """With B = H^-1 the Newton step is exact, whatever the differences say."""
    rng = np.random.default_rng(2)
    H, optimum = spd(rng, 8, 100.0), rng.standard_normal(8)
    path = descent(rng, H, optimum, 6)
    found = silent(path, lambda v: np.linalg.solve(H, v))
    assert len(found) == 2
    for one in found:
        np.testing.assert_allclose(one.point, optimum, atol=1e-8)


def with_noise(rng: np.random.Generator, path: EpochPath, sizes: np.ndarray) -> EpochPath:
    noise = rng.standard_normal(path.Z.shape) / np.sqrt(path.Z.shape[1])
    return EpochPath(path.X, path.Z + sizes * noise)


@pytest.mark.parametrize("share", [0.1, 0.3, 1.0])
def test_noise_as_large_as_the_trackers_is_mostly_not_believed(share):
    """What noisy gradients look like late: they do not vanish at the optimum, z does."""
    believed = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        H, optimum = spd(rng, 10, 100.0), rng.standard_normal(10)
        path = descent(rng, H, optimum, 16)
        floor = share * np.linalg.norm(path.Z[-1])
        believed += bool(steady(with_noise(rng, path, floor)))
    assert believed <= 50, f"{believed} of 100 were believed"


@pytest.mark.parametrize("noise", [1e-3, 1e-2])
@pytest.mark.parametrize("kappa", [10.0, 100.0])
def test_what_is_believed_of_a_noisy_path_is_better_than_where_it_stands(kappa, noise):
    """Noise that shrinks along with z may be believed, for it still says where to go."""
    kept = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        H, optimum = spd(rng, 10, kappa), rng.standard_normal(10)
        path = descent(rng, H, optimum, 16)
        sizes = noise * np.linalg.norm(path.Z, axis=1, keepdims=True)
        noisy = with_noise(rng, path, sizes)
        found = steady(noisy)
        if found:
            best = min(found, key=lambda one: one.doubt)
            now = np.linalg.norm(path.X[0] - optimum)
            kept.append(np.linalg.norm(best.point - optimum) / now)
            assert np.linalg.norm(best.point - path.X[0]) <= anchors.reach(noisy, 1.0)
    assert np.median(kept) <= 0.8
    assert max(kept) <= 1.5


@pytest.mark.parametrize("pairs", range(5))
def test_fewer_than_five_pairs_predict_nothing(pairs):
    rng = np.random.default_rng(0)
    assert anchors.predictions(EpochPath(*rng.standard_normal((2, pairs, 3))), step) == []


def odd_path(shape: str, scale: float, pairs: int, dim: int) -> EpochPath:
    X, Z = np.random.default_rng(dim + pairs).standard_normal((2, pairs, dim)) * scale
    X += np.linspace(20, 0, pairs)[:, None] * scale  # it leads somewhere, or nothing is asked
    if shape == "still":  # nothing moves any more
        X, Z = np.repeat(X[:1], pairs, axis=0), np.repeat(Z[:1], pairs, axis=0)
    elif shape == "no drift":  # x does not move, z does
        X = np.repeat(X[:1], pairs, axis=0)
    elif shape == "no slope":  # every node is at the optimum
        Z = np.zeros_like(Z)
    elif shape == "collinear":
        along = np.linspace(1, 2, pairs)[:, None]
        X, Z = X[:1] * along, Z[:1] * along
    elif shape == "repeated":
        X[1::2], Z[1::2] = X[:-1:2][: pairs // 2], Z[:-1:2][: pairs // 2]
    return EpochPath(X, Z)


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e-165, 1e-155, 1e-30, 1.0, 1e30, 1e100])
@pytest.mark.parametrize("shape", ["still", "no drift", "no slope", "collinear", "repeated", "any"])
def test_odd_paths_are_no_accident(shape, scale):
    for dim in (1, 2, 7):
        for pairs in (5, 6, 16):
            path = odd_path(shape, scale, pairs, dim)
            for one in silent(path):
                for modulus in (0.0, 1e-9, 1.0):
                    if one.is_steady(path.X[0], anchors.reach(path, modulus)):
                        assert np.linalg.norm(one.point - path.X[0]) > 0


def test_a_path_that_stands_still_is_not_believed():
    X, Z = np.ones((16, 3)), np.zeros((16, 3))
    assert steady(EpochPath(X, Z)) == []


def test_nothing_that_is_not_a_number_is_believed():
    point = np.array([np.nan, 1.0])
    one = anchors.Prediction(point, (point, point), wobble=np.nan, doubt=np.nan)
    assert not one.is_steady(np.zeros(2), np.inf)
    far = anchors.Prediction(np.array([np.inf, 1.0]), (point,), wobble=0.0, doubt=0.0)
    assert not far.is_steady(np.zeros(2), 1e300)


@pytest.mark.parametrize("flat", [1e-4, 1e-2, 1.0])
def test_many_steps_downhill_lead_close_to_the_minimiser(flat):
    """A factor of 1 - sqrt(low/high) per step, in the curvature least favourable."""
    curvature = np.geomspace(flat, 1.0, 7)
    end, start = np.arange(7.0), np.zeros(7)
    found = anchors.downhill(lambda x: curvature * (x - end), start, low=flat, high=1.0, steps=300)
    off = np.linalg.norm(found - end) / np.linalg.norm(end)
    assert off <= 4 * (1 - np.sqrt(flat)) ** 300 + 1e-15
    plain = anchors.local_track(lambda x: curvature * (x - end), start, smoothness=1.0, rounds=300)
    assert off <= np.linalg.norm(plain - end) / np.linalg.norm(end) + 1e-15
