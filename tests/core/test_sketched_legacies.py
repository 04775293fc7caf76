"""Legacies with directions of their own: the same group, the same message, a little more in it."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bequest as bq
from bequest.core import sketch

seeds = st.integers(0, 2**32 - 1)
dims = st.integers(1, 8)
ranks = st.integers(0, 8)


def legacy(rng: np.random.Generator, dim: int, rank: int, node: int = 0) -> bq.Legacy:
    """A legacy as a leaver makes it, of any scale."""
    scale = 10 ** rng.uniform(-2, 2)
    return bq.Legacy.anchored(
        node,
        anchor=rng.standard_normal(dim) * 10 ** rng.uniform(-1, 1),
        value=float(rng.standard_normal()),
        gradient=rng.standard_normal(dim) * scale,
        eta=float(scale * rng.uniform(0, 1)) if rng.integers(4) else 0.0,
        factor=rng.standard_normal((dim, min(rank, dim))) * np.sqrt(scale),
    )


def assert_same(one: bq.Legacy, other: bq.Legacy, scale: float) -> None:
    """The same quadratic and the same lineage, to rounding at that scale."""
    tolerance = 1e-11 * scale
    np.testing.assert_allclose(one.hessian(), other.hessian(), rtol=0, atol=tolerance)
    np.testing.assert_allclose(one.p, other.p, rtol=0, atol=tolerance)
    assert one.c == pytest.approx(other.c, rel=0, abs=tolerance)
    x = np.linspace(-2, 2, one.dim)
    assert one.value(x) == pytest.approx(other.value(x), rel=0, abs=20 * one.dim * tolerance)
    np.testing.assert_allclose(
        one.gradient(x), other.gradient(x), rtol=0, atol=20 * one.dim * tolerance
    )
    assert dict(one.lineage) == dict(other.lineage)


def size(*legacies: bq.Legacy) -> float:
    return sum(
        1 + float(np.linalg.norm(q.hessian(), 2)) + float(np.linalg.norm(q.p)) + abs(q.c)
        for q in legacies
    )


# --- the group ----------------------------------------------------------------------------


@given(seeds, dims, ranks, ranks, ranks)
@settings(deadline=None)
def test_sketched_legacies_are_an_abelian_group(seed, dim, r1, r2, r3):
    rng = np.random.default_rng(seed)
    a, b, c = (legacy(rng, dim, r, node) for node, r in enumerate((r1, r2, r3)))
    scale = size(a, b, c)
    assert_same((a + b) + c, a + (b + c), scale)
    assert_same(a + b, b + a, scale)
    assert_same(a + bq.Legacy.zero(dim), a, scale)
    assert_same(bq.Legacy.zero(dim) - (bq.Legacy.zero(dim) - a), a, scale)
    assert (a - a).is_zero
    assert ((a + b + c) - (a + b + c)).is_zero
    assert_same((a + b) - b, a, scale)
    assert_same((a + b + c) - b, a + c, scale)
    assert_same((a + b) - a - b, bq.Legacy.zero(dim), scale)


@given(seeds, dims, ranks, ranks)
@settings(deadline=None)
def test_the_hessian_of_a_sum_is_the_sum_of_the_hessians(seed, dim, r1, r2):
    rng = np.random.default_rng(seed)
    a, b = legacy(rng, dim, r1, 0), legacy(rng, dim, r2, 1)
    total = a.hessian() + b.hessian()
    atol = 1e-12 * (1 + np.linalg.norm(total, 2))
    np.testing.assert_allclose((a + b).hessian(), total, atol=atol)
    np.testing.assert_allclose((a - b).hessian(), a.hessian() - b.hessian(), atol=atol)


@given(seeds, dims, st.integers(2, 12))
@settings(deadline=None)
def test_more_columns_than_unknowns_collapse(seed, dim, many):
    rng = np.random.default_rng(seed)
    parts = [legacy(rng, dim, dim, node) for node in range(many)]
    whole = sum(parts, bq.Legacy.zero(dim))
    assert whole.rank <= dim
    expected = np.sum([part.hessian() for part in parts], axis=0)
    np.testing.assert_allclose(
        whole.hessian(), expected, rtol=0, atol=1e-12 * np.linalg.norm(expected, 2)
    )
    assert list(whole.lineage) == list(range(many))
    np.testing.assert_array_equal(whole.weights, 1.0)  # nothing negative in a sum


@given(seeds, st.integers(2, 8), st.integers(0, 3), st.floats(-2, 6))
@settings(deadline=None)
def test_subtracting_a_stiff_legacy_leaves_no_columns_of_rounding(seed, dim, rank, decades):
    """(a + b) - b is a again: of a's rank, not of a's rank and b's rounding."""
    rng = np.random.default_rng(seed)
    a, stiff = legacy(rng, dim, rank, 0), legacy(rng, dim, dim, 1)
    b = bq.Legacy(stiff.eta, stiff.p, stiff.c, stiff.lineage, stiff.factor * 10 ** (decades / 2))
    back = (a + b) - b
    assert_same(back, a, size(a, b))
    assert back.rank <= a.rank, f"{back.rank} columns where there were {a.rank}"


@given(seeds, st.integers(4, 8), st.floats(4, 6))
@settings(deadline=None)
def test_what_is_rounding_is_measured_by_the_stiffer_of_two(seed, dim, decades):
    """Two forms of one stiff matrix that cancel leave nothing beside a soft legacy, on any side."""
    rng = np.random.default_rng(seed)
    half = dim // 2
    stiff = rng.standard_normal((dim, half)) * 10 ** (decades / 2)
    turned = stiff @ np.linalg.qr(rng.standard_normal((half, half)))[0]
    one = bq.Legacy(0.0, np.zeros(dim), 0.0, {1: 1}, stiff)
    cancelling = one - bq.Legacy(0.0, np.zeros(dim), 0.0, {2: 1}, turned)
    assert cancelling.rank == 2 * half  # no more columns than a full matrix has
    soft = bq.Legacy(0.0, np.zeros(dim), 0.0, {0: 1}, rng.standard_normal((dim, half)))
    for total in (soft + cancelling, cancelling + soft):
        assert total.rank == soft.rank
        atol = 1e-13 * dim * np.linalg.norm(one.hessian(), 2)
        np.testing.assert_allclose(total.hessian(), soft.hessian(), rtol=0, atol=atol)


def test_the_same_columns_twice_weigh_double_and_cancel_one_by_one():
    rng = np.random.default_rng(3)
    a = legacy(rng, 5, 2)
    double = a + a
    assert double.rank == 2
    np.testing.assert_allclose(double.hessian(), 2 * a.hessian(), rtol=1e-14)
    assert_same(double - a, a, size(a))
    assert (double - a - a).is_zero
    assert double.curvature == pytest.approx((2 * a.curvature[0], 2 * a.curvature[1]))


# --- what it says -------------------------------------------------------------------------


@given(seeds, dims, ranks)
@settings(deadline=None)
def test_an_anchored_legacy_is_the_quadratic_it_claims_to_be(seed, dim, rank):
    rng = np.random.default_rng(seed)
    y, g, x = rng.standard_normal((3, dim))
    F = rng.standard_normal((dim, min(rank, dim)))
    eta, value = float(rng.uniform(0, 5)), float(rng.standard_normal())
    q = bq.Legacy.anchored(7, anchor=y, value=value, gradient=g, eta=eta, factor=F)
    H = eta * np.eye(dim) + F @ F.T
    offset = x - y
    expected = value + g @ offset + offset @ H @ offset / 2
    assert q.value(x) == pytest.approx(expected, rel=1e-10, abs=1e-10)
    np.testing.assert_allclose(q.gradient(x), g + H @ offset, atol=1e-10)
    np.testing.assert_allclose(q.gradient(y), g, atol=1e-10)
    np.testing.assert_allclose(q.hessian(), H, atol=1e-12)
    assert q.rank == F.shape[1]
    # and its gradient is the slope of its value
    direction = rng.standard_normal(dim)
    slope = (q.value(x + 1e-5 * direction) - q.value(x - 1e-5 * direction)) / 2e-5
    assert slope == pytest.approx(float(q.gradient(x) @ direction), rel=1e-5, abs=1e-5)


@given(seeds, dims, ranks, ranks)
@settings(deadline=None)
def test_the_curvature_is_the_spectrum_of_the_hessian(seed, dim, r1, r2):
    rng = np.random.default_rng(seed)
    a, b = legacy(rng, dim, r1, 0), legacy(rng, dim, r2, 1)
    for q in (a, b, a + b, a - b, -a):
        values = np.linalg.eigvalsh(q.hessian())
        scale = 1e-12 * (1 + np.abs(values).max() + size(a, b))
        assert q.curvature == pytest.approx((values[0], values[-1]), rel=0, abs=scale)


@given(seeds, dims, ranks, st.integers(0, 5))
@settings(deadline=None)
def test_products_are_those_of_the_hessian(seed, dim, rank, columns):
    rng = np.random.default_rng(seed)
    q = legacy(rng, dim, rank) - legacy(rng, dim, rank // 2)
    H = q.hessian()
    v, V = rng.standard_normal(dim), rng.standard_normal((dim, columns))
    atol = 1e-12 * (1 + np.linalg.norm(H, 2))
    np.testing.assert_allclose(H, H.T, atol=atol)
    np.testing.assert_allclose(q.product(v), H @ v, atol=10 * atol)
    np.testing.assert_allclose(q.product(V), H @ V, atol=10 * atol)
    assert q.product(v).shape == (dim,)
    assert q.product(V).shape == (dim, columns)


# --- recompress ---------------------------------------------------------------------------


@given(seeds, dims, st.integers(1, 8), st.integers(0, 9), st.integers(0, 4))
@settings(deadline=None, max_examples=300)
def test_compressing_keeps_the_point_the_rank_and_the_range(seed, dim, rank, new, along):
    rng = np.random.default_rng(seed)
    q = legacy(rng, dim, rank, 0) + legacy(rng, dim, rank // 2, 1)
    point = 10 ** rng.uniform(-1, 2) * rng.standard_normal(dim)
    directions = rng.standard_normal((dim, along)) if along else None
    less = q.recompress(new, at=point, along=directions)
    assert less.rank <= new
    assert dict(less.lineage) == dict(q.lineage)
    np.testing.assert_array_equal(less.weights, 1.0)
    slope = np.linalg.norm(q.product(point)) + np.linalg.norm(q.p)
    np.testing.assert_allclose(less.gradient(point), q.gradient(point), rtol=0, atol=1e-9 * slope)
    height = slope * np.linalg.norm(point) + abs(q.c)
    assert less.value(point) == pytest.approx(q.value(point), rel=0, abs=1e-9 * (height + 1e-300))
    low, high = q.curvature
    values = np.linalg.eigvalsh(less.hessian())
    assert values[0] >= low - 1e-9 * high
    assert values[-1] <= high + 1e-9 * high


@given(seeds, dims, st.integers(0, 8))
@settings(deadline=None)
def test_compressing_is_lossless_where_the_rank_suffices(seed, dim, rank):
    rng = np.random.default_rng(seed)
    q = legacy(rng, dim, rank)
    point = rng.standard_normal(dim)
    assert_same(q.recompress(max(q.rank, 1), at=point), q, 1e3 * size(q))
    if q.rank:  # along directions that span its own, in any order
        mixed = q.factor @ rng.standard_normal((q.rank, q.rank))
        if np.linalg.cond(mixed.T @ mixed) < 1e6:
            assert_same(q.recompress(q.rank, at=point, along=mixed), q, 1e4 * size(q))


@given(seeds, st.integers(2, 8), st.integers(1, 7), st.integers(1, 7))
@settings(deadline=None)
def test_the_curvature_along_the_given_directions_is_kept(seed, dim, rank, new):
    rng = np.random.default_rng(seed)
    q = legacy(rng, dim, rank, 0) + legacy(rng, dim, rank, 1)
    along = rng.standard_normal((dim, min(new, dim)))
    less = q.recompress(new, at=np.zeros(dim), along=along)
    scale = np.linalg.norm(q.hessian(), 2) * np.linalg.norm(along)
    np.testing.assert_allclose(less.product(along), q.product(along), rtol=0, atol=1e-6 * scale)


@given(seeds, dims, st.integers(1, 8))
@settings(deadline=None)
def test_compressed_to_rank_zero_the_curvature_is_that_along_the_first_direction(seed, dim, rank):
    rng = np.random.default_rng(seed)
    q = legacy(rng, dim, rank)
    along = rng.standard_normal((dim, 2))
    less = q.recompress(0, at=np.ones(dim), along=along)
    assert less.rank == 0
    v = along[:, 0] / np.linalg.norm(along[:, 0])
    low, high = q.curvature
    assert less.eta == pytest.approx(float(v @ q.product(v)), rel=1e-9, abs=1e-9 * high)
    assert low - 1e-12 * high <= less.eta <= high * (1 + 1e-12)


@pytest.mark.parametrize("along", [np.zeros((4, 2)), np.empty((4, 0)), np.full((4, 1), np.nan)])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_without_usable_directions_compressing_still_gives_something_legal(along, rank):
    q = legacy(np.random.default_rng(5), 4, 4)
    less = q.recompress(rank, at=np.ones(4), along=along)
    low, high = q.curvature
    assert less.rank <= rank
    assert low * (1 - 1e-12) <= less.curvature[0] <= less.curvature[1] <= high * (1 + 1e-12)
    np.testing.assert_allclose(less.gradient(np.ones(4)), q.gradient(np.ones(4)), rtol=1e-9)


def test_compressing_does_not_need_the_whole_matrix(monkeypatch):
    """Few columns in a large space: nothing of size dim by dim, with directions or without."""

    def refuse(_):
        raise AssertionError("formed the Hessian")

    rng = np.random.default_rng(1)
    q = legacy(rng, 600, 8)
    monkeypatch.setattr(bq.Legacy, "hessian", refuse)
    for along in (rng.standard_normal((600, 4)), None):
        assert q.recompress(4, at=np.zeros(600), along=along).rank == 4


# --- what it costs ------------------------------------------------------------------------


def sent(farewell: bq.Farewell) -> bytes:
    """The message itself: everything the heir needs, and nothing it can do without."""
    q = farewell.legacy
    parts = [farewell.surplus]
    if not q.is_zero:
        scalars = [q.eta, q.c]
        if q.rank <= (q.dim + 1) / 2:
            curvature = (q.factor * np.sqrt(q.weights)).ravel()
        else:
            curvature = q.hessian()[np.triu_indices(q.dim)]
        parts += [q.p, curvature, scalars, [float(node) for node in q.lineage]]
    numbers = np.concatenate([np.asarray(part, dtype=float).ravel() for part in parts])
    return struct.pack(f"{numbers.size}d", *numbers)


@given(seeds, st.integers(1, 9), st.integers(0, 9), st.integers(1, 4))
@settings(deadline=None)
def test_the_bytes_of_a_farewell_are_those_one_has_to_send(seed, dim, rank, nodes):
    rng = np.random.default_rng(seed)
    whole = sum((legacy(rng, dim, rank, k) for k in range(nodes)), bq.Legacy.zero(dim))
    farewell = bq.Farewell(0, 1, whole, rng.standard_normal(dim))
    assert farewell.nbytes == len(sent(farewell))
    assert farewell.vectors == 2 + min(whole.rank, (dim + 1) / 2)
    others = 2 + len(whole.lineage)
    assert farewell.nbytes == 8 * (farewell.vectors * dim + others)


def test_the_three_sizes_of_a_farewell():
    rng = np.random.default_rng(0)
    surplus = np.ones(10)
    sizes = {}
    for rank in (0, 4, 10):
        farewell = bq.Farewell(3, 9, legacy(rng, 10, rank, 3), surplus)
        assert farewell.nbytes == len(sent(farewell))
        sizes[rank] = (farewell.vectors, farewell.nbytes)
    assert sizes == {0: (2, 8 * 23), 4: (6, 8 * 63), 10: (7.5, 8 * 78)}
    nothing = bq.Farewell(3, 9, bq.Legacy.zero(10), surplus)
    assert (nothing.vectors, nothing.nbytes) == (1, len(sent(nothing)))


# --- taking out -------------------------------------------------------------------------------


@given(seeds, dims, ranks, ranks, ranks)
@settings(deadline=None)
def test_what_went_in_unchanged_comes_out_exactly(seed, dim, r1, r2, r3):
    """In whatever order it comes out, and however much is still inside."""
    rng = np.random.default_rng(seed)
    parts = [legacy(rng, dim, r, node) for node, r in enumerate((r1, r2, r3))]
    whole = parts[0] + parts[1] + parts[2]
    first, second, third = rng.permutation(3)
    anywhere = rng.standard_normal(dim)
    rest = whole.without(parts[first], at=anywhere)
    assert_same(rest, parts[second] + parts[third], size(*parts))
    rest = rest.without(parts[second], at=anywhere)
    assert_same(rest, parts[third], size(*parts))
    assert rest.without(parts[third], at=anywhere).is_zero
    assert not rest.blended


@given(seeds, st.integers(2, 8), st.integers(1, 6), st.integers(0, 3))
@settings(deadline=None)
def test_out_of_a_compressed_sum_the_rest_keeps_its_slope_and_bends_upward_only(
    seed, dim, rank, kept
):
    rng = np.random.default_rng(seed)
    parts = [legacy(rng, dim, rank, node) for node in range(3)]
    whole = (parts[0] + parts[1]).recompress(kept, at=rng.standard_normal(dim)) + parts[2]
    assert whole.blended == {0, 1}
    point = rng.standard_normal(dim)
    scale = size(*parts)
    rest = whole.without(parts[0], at=point)
    assert set(rest.lineage) == {1, 2}
    assert rest.blended == {1, 2}  # what was dropped of 0 and 1 is beside 2 now
    assert rest.curvature[0] >= -1e-11 * scale
    expected = whole.gradient(point) - parts[0].gradient(point)
    np.testing.assert_allclose(rest.gradient(point), expected, rtol=0, atol=1e-9 * scale)
    assert rest.value(point) == pytest.approx(
        whole.value(point) - parts[0].value(point), rel=0, abs=1e-9 * scale
    )
    # who was not compressed comes out exactly
    assert_same(whole.without(parts[2], at=point), whole - parts[2], scale)


def test_curvature_that_a_compression_moved_away_is_raised_to_zero_and_no_further():
    """1 is stiff along e1, 2 along e2; in two numbers they become one, and 1 is taken out."""
    one = bq.Legacy(0.0, np.zeros(2), 0.0, {1: 1}, np.array([[2.0], [0.0]]))
    two = bq.Legacy(0.0, np.zeros(2), 0.0, {2: 1}, np.array([[0.0], [2.0]]))
    blended = bq.Legacy(2.0, np.zeros(2), 0.0, {1: 1, 2: 1}, blended=frozenset({1, 2}))
    rest = blended.without(one, at=[1.0, 1.0])
    np.testing.assert_allclose(rest.hessian(), [[0.0, 0.0], [0.0, 2.0]], atol=1e-15)
    np.testing.assert_allclose(rest.gradient([1.0, 1.0]), [-2.0, 2.0], atol=1e-15)
    np.testing.assert_allclose((blended.without(two, at=[0, 0])).hessian()[0, 0], 2.0)
    # where the rest is not bent downward it is left alone
    little = bq.Legacy(0.5, np.ones(2), 0.0, {1: 1})
    np.testing.assert_array_equal(blended.without(little, at=[0, 0]).hessian(), 1.5 * np.eye(2))
    # nor where curvature below zero has another reason than a compression
    odd = bq.Legacy(1.0, np.zeros(2), 0.0, {1: 1, 2: 1})
    np.testing.assert_array_equal(
        odd.without(bq.Legacy(3.0, np.zeros(2), 0.0, {1: 1}), at=[0, 0]).hessian(), -2 * np.eye(2)
    )


def test_a_negative_curvature_in_every_direction_is_raised_too():
    blended = bq.Legacy(
        1.0, np.zeros(3), 0.0, {1: 1, 2: 1}, np.eye(3)[:, :1] * 2, blended=frozenset({1, 2})
    )
    rest = blended.without(bq.Legacy(3.0, np.ones(3), 0.0, {1: 1}), at=[1.0, 2.0, 3.0])
    np.testing.assert_allclose(rest.hessian(), np.diag([2.0, 0.0, 0.0]), atol=1e-14)
    assert rest.curvature[0] >= -1e-14


# --- what cannot be ---------------------------------------------------------------------------


def test_shapes_and_ranks_that_do_not_fit_are_refused():
    with pytest.raises(bq.errors.DimensionMismatch, match=r"factor of shape \(3, 1\)"):
        bq.Legacy(1.0, np.zeros(2), 0.0, {1: 1}, np.ones((3, 1)))
    with pytest.raises(bq.errors.DimensionMismatch, match="2 weights"):
        bq.Legacy(1.0, np.zeros(2), 0.0, {1: 1}, np.ones((2, 1)), np.ones(2))
    for rank in (-1, 1.5, True):
        with pytest.raises(bq.errors.DimensionMismatch, match="rank"):
            bq.Legacy.zero(2).recompress(rank, at=np.zeros(2))


def test_without_columns_none_of_them_is_stiff():
    assert bq.Legacy(3.0, np.zeros(2), 0.0).stiffness == 0


def _flat_but_for(rank, *, dim=20, seed=0):
    """A legacy that bends in so many directions only, with a slope that it can hold."""
    rng = np.random.default_rng(seed)
    bent = rng.standard_normal((dim, rank))
    at, end = rng.standard_normal((2, dim))
    slope = bent @ (bent.T @ (at - end))
    legacy = bq.Legacy.anchored(0, anchor=at, value=1.0, gradient=slope, eta=0.0, factor=bent)
    return legacy, at, rng.standard_normal((dim, 4))


def test_a_floor_is_the_mean_of_what_a_compression_leaves_out():
    whole, at, along = _flat_but_for(9)
    bare = whole.recompress(4, at=at, along=along)
    held = whole.recompress(4, at=at, along=along, floor=True)
    assert bare.eta == pytest.approx(0.0, abs=1e-12 * size(whole))
    left_out = np.trace(whole.hessian() - bare.hessian()) / (20 - 4)
    assert held.eta == pytest.approx(left_out)
    assert held.curvature[0] >= held.eta * (1 - 1e-12)
    assert held.curvature[1] <= whole.curvature[1] * (1 + 1e-12)
    for less in (bare, held):
        np.testing.assert_allclose(less.gradient(at), whole.gradient(at), atol=1e-9 * size(whole))
    # a slope is held: the lowest point is near, where without a floor there is none
    lowest = np.linalg.solve(held.hessian(), -held.gradient(at))
    assert np.linalg.norm(lowest) <= 100
    reached = bare.hessian() @ np.linalg.lstsq(bare.hessian(), bare.gradient(at), rcond=1e-9)[0]
    assert np.linalg.norm(reached - bare.gradient(at)) > 0.01


def test_a_compression_that_leaves_out_nothing_has_no_floor():
    whole, at, along = _flat_but_for(3)
    held = whole.recompress(4, at=at, along=np.column_stack([whole.factor, along]), floor=True)
    np.testing.assert_allclose(held.hessian(), whole.hessian(), atol=1e-9 * size(whole))


@pytest.mark.parametrize("rank", [1, 3, 6])
@pytest.mark.parametrize("low", [0.0, 0.5])
def test_what_a_sketch_leaves_out_is_what_is_missing_beside_it(rank, low):
    rng = np.random.default_rng(rank)
    half = rng.standard_normal((12, 12))
    H = half @ half.T + low * np.eye(12)
    high = float(np.linalg.eigvalsh(H)[-1])
    W = sketch.orthonormal(rng.standard_normal((9, 12)), rank=9)
    F = sketch.nystrom(H @ W[:, :rank], W[:, :rank], low=low, high=high)
    missing = W.T @ (H - low * np.eye(12) - F @ F.T) @ W
    found = sketch.left_out(W.T @ H @ W, rank, low=low, high=high)
    assert found == pytest.approx(np.diagonal(missing)[rank:].mean())
    assert sketch.left_out(W.T @ H @ W, 9, low=low, high=high) == 0.0


def test_a_sketch_of_all_there_is_leaves_out_nothing():
    rng = np.random.default_rng(0)
    half = rng.standard_normal((12, 3))
    W = sketch.orthonormal([*half.T, *rng.standard_normal((5, 12))], rank=8)
    core = W.T @ half @ half.T @ W
    assert sketch.left_out(core, 3, low=0.0, high=float(np.linalg.norm(half, 2) ** 2)) == 0.0
