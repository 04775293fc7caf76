"""Sketches: whatever goes in, the curvature that comes out is one the loss can have."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bequest.core import sketch

seeds = st.integers(0, 2**32 - 1)


def spd(rng: np.random.Generator, dim: int, kappa: float) -> tuple[np.ndarray, float, float]:
    """A symmetric matrix and the ends of its spectrum, both attained where dim > 1."""
    basis, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    values = np.geomspace(1.0, kappa, dim) * 10 ** rng.uniform(-3, 3)
    H = (basis * values) @ basis.T
    return (H + H.T) / 2, float(values[0]), float(values[-1])


def basis_of(rng: np.random.Generator, dim: int, rank: int) -> np.ndarray:
    return sketch.orthonormal(rng.standard_normal((rank, dim)), rank=rank)


def assert_legal(F: np.ndarray, *, low: float, high: float) -> None:
    assert np.isfinite(F).all()
    values = np.linalg.eigvalsh(low * np.eye(F.shape[0]) + F @ F.T)
    assert values[0] >= low - 1e-10 * high
    assert values[-1] <= high + 1e-10 * high


# --- orthonormal --------------------------------------------------------------------------


@given(seeds, st.integers(1, 12), st.integers(0, 15), st.integers(1, 15))
@settings(deadline=None)
def test_independent_directions_become_an_orthonormal_basis_of_their_span(seed, dim, many, rank):
    rng = np.random.default_rng(seed)
    given_ones = rng.standard_normal((many, dim)) * 10.0 ** rng.uniform(-8, 8, (many, 1))
    Q = sketch.orthonormal(given_ones, rank=rank)
    count = min(many, rank, dim)
    if many:
        assert Q.shape == (dim, count)
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=1e-12)
    for direction in given_ones[:count]:  # in their order
        unit = direction / np.linalg.norm(direction)
        np.testing.assert_allclose(Q @ (Q.T @ unit), unit, atol=1e-9)


@given(seeds, st.integers(2, 10), st.integers(1, 6), st.integers(1, 8))
@settings(deadline=None)
def test_collinear_and_zero_directions_count_once_or_not_at_all(seed, dim, distinct, rank):
    rng = np.random.default_rng(seed)
    distinct = min(distinct, dim)
    core = rng.standard_normal((distinct, dim))
    mixed = [np.zeros(dim)]
    for k in range(distinct):
        mixed += [
            core[k],
            -3e7 * core[k],
            np.zeros(dim),
            rng.standard_normal(k + 1) @ core[: k + 1],
        ]
    Q = sketch.orthonormal(mixed, rank=rank)
    assert Q.shape[1] <= min(distinct, rank)
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=1e-12)
    # the first one always counts
    np.testing.assert_allclose(np.abs(Q[:, 0] @ core[0]), np.linalg.norm(core[0]), rtol=1e-12)


@pytest.mark.parametrize("dim", [1, 3])
def test_no_directions_have_an_empty_basis(dim):
    assert sketch.orthonormal([np.zeros(dim)] * 3, rank=2).shape == (dim, 0)
    assert sketch.orthonormal([np.full(dim, np.nan), np.full(dim, np.inf)], rank=2).shape == (
        dim,
        0,
    )
    assert sketch.orthonormal([], rank=2).size == 0
    assert sketch.orthonormal(iter([np.ones(dim)]), rank=2).shape == (dim, 1)


@pytest.mark.parametrize("exponent", [-300, -200, -165, -160, -155, -100, 100, 150])
def test_directions_of_any_length_are_directions(exponent):
    rng = np.random.default_rng(1)
    Q = sketch.orthonormal(rng.standard_normal((3, 5)) * 10.0**exponent, rank=3)
    assert Q.shape[1] <= 3
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=1e-12)


@given(seeds, st.floats(-12, 0))
@settings(deadline=None)
def test_nearly_collinear_directions_are_still_orthonormal_to_the_last_digit(seed, exponent):
    rng = np.random.default_rng(seed)
    first = rng.standard_normal(6)
    nearly = [first + 10.0**exponent * rng.standard_normal(6) for _ in range(5)]
    Q = sketch.orthonormal([first, *nearly], rank=6)
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=1e-12)


# --- nystrom ------------------------------------------------------------------------------


@given(seeds, st.integers(1, 10), st.integers(1, 12), st.floats(0, 6))
@settings(deadline=None)
def test_a_sketch_of_a_true_hessian_is_legal_and_never_more_than_it(seed, dim, rank, decades):
    rng = np.random.default_rng(seed)
    H, low, high = spd(rng, dim, 10**decades)
    Q = basis_of(rng, dim, rank)
    F = sketch.nystrom(H @ Q, Q, low=low, high=high)
    assert F.shape[0] == dim
    assert F.shape[1] <= min(rank, dim)
    assert_legal(F, low=low, high=high)
    # low I <= low I + FF' <= H in exact arithmetic
    assert np.linalg.eigvalsh(H - low * np.eye(dim) - F @ F.T)[0] >= -1e-6 * high


@given(seeds, st.integers(1, 10), st.integers(1, 12), st.floats(0, 3))
@settings(deadline=None)
def test_it_is_exact_on_the_span_of_its_directions(seed, dim, rank, decades):
    rng = np.random.default_rng(seed)
    H, low, high = spd(rng, dim, 10**decades)
    Q = basis_of(rng, dim, rank)
    F = sketch.nystrom(H @ Q, Q, low=low, high=high)
    np.testing.assert_allclose(low * Q + F @ (F.T @ Q), H @ Q, atol=1e-6 * high)


@given(seeds, st.integers(1, 8), st.floats(0.1, 3))
@settings(deadline=None)
def test_with_all_directions_it_is_the_whole_hessian(seed, dim, decades):
    rng = np.random.default_rng(seed)
    H, low, high = spd(rng, dim, 10**decades)
    Q = basis_of(rng, dim, dim + 2)
    F = sketch.nystrom(H @ Q, Q, low=low, high=high)
    np.testing.assert_allclose(low * np.eye(dim) + F @ F.T, H, atol=1e-6 * high)


@given(seeds, st.integers(1, 10), st.integers(1, 12), st.floats(0, 6), st.floats(-18, 12))
@settings(deadline=None, max_examples=300)
def test_noise_of_any_size_leaves_it_legal(seed, dim, rank, decades, noise):
    rng = np.random.default_rng(seed)
    H, low, high = spd(rng, dim, 10**decades)
    Q = basis_of(rng, dim, rank)
    product = H @ Q + 10**noise * high * rng.standard_normal(Q.shape)
    F = sketch.nystrom(product, Q, low=low, high=high)
    assert F.shape[1] <= min(rank, dim)
    assert_legal(F, low=low, high=high)


@given(seeds, st.integers(1, 10), st.integers(1, 12), st.floats(0, 6))
@settings(deadline=None)
def test_single_precision_leaves_it_legal(seed, dim, rank, decades):
    rng = np.random.default_rng(seed)
    H, low, high = spd(rng, dim, 10**decades)
    Q = basis_of(rng, dim, rank)
    product = (H.astype(np.float32) @ Q.astype(np.float32)).astype(float)
    assert_legal(sketch.nystrom(product, Q, low=low, high=high), low=low, high=high)


@given(seeds, st.integers(1, 10), st.integers(1, 12), st.floats(-17, -6))
@settings(deadline=None, max_examples=300)
def test_where_the_core_is_cancellation_it_is_legal(seed, dim, rank, exponent):
    """H = low I on the span of Q but for rounding: what late differences look like."""
    rng = np.random.default_rng(seed)
    low = 10 ** rng.uniform(-3, 3)
    Q = basis_of(rng, dim, rank)
    product = low * Q * (1 + 10**exponent * rng.standard_normal(Q.shape))
    # small along Q, large across it: the shape of noise that made illegal spectra
    across = rng.standard_normal(Q.shape)
    across -= Q @ (Q.T @ across)
    product += 10 ** rng.uniform(-12, 0) * low * across
    for high in (low, low * (1 + 1e-12), 2 * low, 1e6 * low):
        assert_legal(sketch.nystrom(product, Q, low=low, high=high), low=low, high=high)


@given(seeds, st.integers(1, 8), st.integers(1, 10), st.floats(-150, 150))
@settings(deadline=None, max_examples=300)
def test_garbage_leaves_it_legal(seed, dim, rank, exponent):
    rng = np.random.default_rng(seed)
    Q = basis_of(rng, dim, rank)
    garbage = 10**exponent * rng.standard_cauchy(Q.shape)
    for product in (garbage, np.zeros_like(Q), -Q, np.abs(garbage), np.ones_like(Q)):
        for low, high in ((0.0, 1.0), (1.0, 1.0), (1e-6, 1.0), (0.0, 0.0), (3.0, 3e6)):
            F = sketch.nystrom(product, Q, low=low, high=high)
            assert_legal(F, low=low, high=high)


@pytest.mark.parametrize("dim", [1, 4])
def test_directions_that_say_nothing_cost_nothing(dim):
    """What is curved like low everywhere needs no column to say so."""
    Q = sketch.orthonormal(np.eye(dim), rank=dim)
    assert sketch.nystrom(2.0 * Q, Q, low=2.0, high=5.0).shape == (dim, 0)
    assert sketch.nystrom(0.0 * Q, Q, low=2.0, high=5.0).shape == (dim, 0)
    assert sketch.nystrom(5.0 * Q, Q, low=2.0, high=5.0).shape == (dim, dim)
    assert sketch.nystrom(np.empty((dim, 0)), np.empty((dim, 0)), low=2.0, high=5.0).size == 0


def test_where_there_is_no_room_for_curvature_no_column_is_sent():
    """low = high: noise in the products (differences of gradients) must not become columns."""
    rng = np.random.default_rng(0)
    Q = basis_of(rng, 5, 3)
    product = 2.0 * Q + 1e-6 * rng.standard_normal(Q.shape)
    F = sketch.nystrom(product, Q, low=2.0, high=2.0)
    assert F.shape == (5, 0), f"{F.shape[1]} columns of zeros"


@given(seeds, st.integers(2, 10), st.integers(1, 10), st.floats(0, 6))
@settings(deadline=None)
def test_the_rank_is_that_of_the_curvature_seen(seed, dim, bent, decades):
    """A Hessian with few curved directions needs no more columns, however many were asked."""
    rng = np.random.default_rng(seed)
    bent = min(bent, dim)
    basis, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    values = np.full(dim, 1.0)
    values[:bent] += 10**decades
    H = (basis * values) @ basis.T
    Q = basis_of(rng, dim, dim)
    F = sketch.nystrom(H @ Q, Q, low=1.0, high=1 + 10**decades)
    assert F.shape[1] == bent


# --- plausible ----------------------------------------------------------------------------


@given(seeds, st.integers(1, 10), st.integers(1, 10), st.floats(0, 6))
@settings(deadline=None)
def test_true_products_are_plausible_in_any_precision(seed, dim, rank, decades):
    rng = np.random.default_rng(seed)
    H, low, high = spd(rng, dim, 10**decades)
    Q = basis_of(rng, dim, rank)
    assert sketch.is_plausible(H @ Q, Q, low=low, high=high)
    rounded = (H.astype(np.float32) @ Q.astype(np.float32)).astype(float)
    assert sketch.is_plausible(rounded, Q, low=low, high=high)


@given(seeds, st.integers(2, 10), st.integers(1, 10), st.floats(1, 12))
@settings(deadline=None)
def test_products_that_are_noise_are_not_plausible(seed, dim, rank, decades):
    rng = np.random.default_rng(seed)
    H, low, high = spd(rng, dim, 10.0)
    Q = basis_of(rng, dim, rank)
    noise = rng.standard_normal(Q.shape)
    noise[np.abs(noise) < 0.5] = 0.5  # none of it accidentally small
    along = np.abs(np.diag(Q.T @ noise)).max()
    noise *= 10**decades * high / max(along, 0.1)
    if np.abs(Q.T @ noise).max() > 3 * high:
        assert not sketch.is_plausible(H @ Q + noise, Q, low=low, high=high)
    assert not sketch.is_plausible(np.full_like(Q, np.nan), Q, low=low, high=high)
    assert not sketch.is_plausible(np.inf * Q, Q, low=low, high=high)
    assert not sketch.is_plausible(1.1 * high * Q, Q, low=low, high=high)
    assert not sketch.is_plausible(-0.1 * high * Q, Q, low=low, high=high)


@given(seeds, st.integers(2, 10), st.integers(2, 10), st.floats(0, 6))
@settings(deadline=None)
def test_products_of_a_matrix_that_turns_are_not_plausible(seed, dim, rank, decades):
    """Along every direction they are within the range; but a Hessian is symmetric."""
    rng = np.random.default_rng(seed)
    H, low, high = spd(rng, dim, 10**decades)
    Q = basis_of(rng, dim, rank)
    turn = np.zeros((Q.shape[1], Q.shape[1]))
    turn[0, 1], turn[1, 0] = 1.0, -1.0
    assert sketch.is_plausible((H + 0.02 * high * Q @ turn @ Q.T) @ Q, Q, low=low, high=high)
    assert not sketch.is_plausible((H + 0.03 * high * Q @ turn @ Q.T) @ Q, Q, low=low, high=high)


def test_without_directions_everything_is_plausible():
    assert sketch.is_plausible(np.empty((3, 0)), np.empty((3, 0)), low=1.0, high=2.0)
