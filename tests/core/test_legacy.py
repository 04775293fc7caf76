"""Legacies: the group laws, and the lemmas that say what a legacy remembers."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import bequest as bq

DIM = 3
numbers = st.floats(-100, 100, allow_nan=False, width=64)
vectors = arrays(np.float64, DIM, elements=numbers)
legacies = st.builds(
    bq.Legacy,
    st.floats(0, 100),
    vectors,
    numbers,
    st.dictionaries(st.integers(0, 9), st.integers(1, 2), max_size=4),
)


def assert_equal(one: bq.Legacy, other: bq.Legacy, atol: float = 1e-10) -> None:
    assert one.eta == pytest.approx(other.eta, abs=atol)
    np.testing.assert_allclose(one.p, other.p, atol=atol)
    assert one.c == pytest.approx(other.c, abs=atol)
    assert dict(one.lineage) == dict(other.lineage)


@given(legacies, legacies, legacies)
def test_addition_is_associative_and_commutative(a, b, c):
    assert_equal((a + b) + c, a + (b + c))
    assert_equal(a + b, b + a)


@given(legacies, legacies)
def test_zero_is_neutral_and_subtraction_undoes_addition(a, b):
    zero = bq.Legacy.zero(DIM)
    assert_equal(a + zero, a)
    assert (a - a).is_zero
    assert_equal((a + b) - b, a, atol=1e-9)
    assert_equal(zero - (zero - a), a)


@given(legacies, legacies, vectors)
def test_values_and_gradients_add(a, b, x):
    scale = 1e-12 * (1 + abs(a.value(x)) + abs(b.value(x)) + 1e6)
    assert (a + b).value(x) == pytest.approx(a.value(x) + b.value(x), abs=scale)
    np.testing.assert_allclose((a + b).gradient(x), a.gradient(x) + b.gradient(x), atol=1e-9)


@given(legacies, legacies)
def test_who_was_compressed_on_either_side_of_a_sum_stays_marked(a, b):
    """Shares that cancel take the mark along: of whom nothing is left nothing is blended."""
    one, other = replace(a, blended=frozenset(a.lineage)), replace(b, blended=frozenset(b.lineage))
    for marked, total in (
        (one.blended, one + b),
        (other.blended, a + other),
        (one.blended | other.blended, one + other),
    ):
        assert total.blended == marked & total.lineage.keys()
        assert (-total).blended == total.blended
    assert not (one - a).blended


@given(vectors, numbers, vectors, st.floats(0, 50), vectors)
def test_the_canonical_form_is_the_legacy_of_the_paper(anchor, value, gradient, eta, x):
    legacy = bq.Legacy.anchored(3, anchor=anchor, value=value, gradient=gradient, eta=eta)
    offset = x - anchor
    expected = value + gradient @ offset + eta / 2 * offset @ offset
    assert legacy.value(x) == pytest.approx(expected, rel=1e-9, abs=1e-7)
    np.testing.assert_allclose(legacy.gradient(x), gradient + eta * offset, atol=1e-9)
    assert dict(legacy.lineage) == {3: 1}


def test_a_legacy_cannot_be_changed_and_travels():
    legacy = bq.Legacy.anchored(1, anchor=[1.0], value=0.0, gradient=[2.0], eta=3.0)
    with pytest.raises(ValueError, match="read-only"):
        legacy.p[0] = 9.0
    with pytest.raises(AttributeError):
        legacy.eta = 1.0
    assert_equal(pickle.loads(pickle.dumps(legacy)), legacy)  # noqa: S301 - our own bytes
    assert "of 1" in repr(legacy)
    assert "no node" in repr(bq.Legacy.zero(1))


def test_the_legacy_copies_what_it_is_given():
    p = np.ones(2)
    legacy = bq.Legacy(1.0, p, 0.0)
    p[:] = 7.0
    assert legacy.p.tolist() == [1.0, 1.0]


# --- lem:center ---------------------------------------------------------------------------


def curved(rng: np.random.Generator, dim: int, a: float, b: float) -> bq.Quadratic:
    """A quadratic whose spectrum touches both ends of [a, b]."""
    basis, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    spectrum = rng.uniform(a, b, dim)
    spectrum[0], spectrum[-1] = a, b
    A = (basis * spectrum) @ basis.T
    return bq.Quadratic((A + A.T) / 2, rng.standard_normal(dim))


@given(
    st.integers(0, 10**6),
    st.integers(2, 6),
    st.floats(0, 5),
    st.floats(0.1, 100),
    st.floats(0, 1),
)
@settings(deadline=None)
def test_lem_center_holds_and_is_attained(seed, dim, a, width, where):
    """|grad q - grad h| <= max(b - eta, eta - a) |x - y|, with equality along an eigenvector."""
    rng = np.random.default_rng(seed)
    b = a + width
    h, eta = curved(rng, dim, a, b), a + where * width
    y = rng.standard_normal(dim)
    legacy = bq.Legacy.anchored(0, anchor=y, value=h.value(y), gradient=h.gradient(y), eta=eta)
    factor = max(b - eta, eta - a)
    for x in rng.standard_normal((5, dim)) * 10:
        gap = np.linalg.norm(legacy.gradient(x) - h.gradient(x))
        assert gap <= factor * np.linalg.norm(x - y) * (1 + 1e-9) + 1e-9 * b
    _, basis = np.linalg.eigh(h.A)
    worst = basis[:, -1] if b - eta >= eta - a else basis[:, 0]
    gap = np.linalg.norm(legacy.gradient(y + worst) - h.gradient(y + worst))
    assert gap == pytest.approx(factor, rel=1e-8, abs=1e-8 * b)


@given(st.integers(0, 10**6), st.floats(0, 5), st.floats(0.1, 50), st.floats(0, 1))
@settings(deadline=None)
def test_the_midpoint_has_the_smallest_worst_case(seed, a, width, where):
    curvature, eta = bq.Curvature(a, a + width), a + where * width
    worst = max(curvature.b - eta, eta - curvature.a)
    assert curvature.spread <= worst + 1e-12
    assert max(curvature.b - curvature.midpoint, curvature.midpoint - curvature.a) == pytest.approx(
        curvature.spread
    )


@given(st.integers(0, 10**6))
@settings(deadline=None, max_examples=50)
def test_lem_center_holds_for_losses_that_are_not_quadratic(seed):
    rng = np.random.default_rng(seed)
    f = bq.Logistic(rng.standard_normal((8, 3)), rng.integers(2, size=8), l2=0.05)
    y = rng.standard_normal(3)
    legacy = bq.Legacy.anchored(
        0, anchor=y, value=f.value(y), gradient=f.gradient(y), eta=f.curvature.midpoint
    )
    for x in 5 * rng.standard_normal((10, 3)):
        offset = np.linalg.norm(x - y)
        gap = np.linalg.norm(legacy.gradient(x) - f.gradient(x))
        assert gap <= f.curvature.spread * offset * (1 + 1e-10)
        # and the values, eq:valtransfer
        difference = abs(legacy.value(x) - f.value(x))
        assert difference <= f.curvature.spread / 2 * offset**2 + 1e-10


# --- prop:compose -------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(1, 5))
@settings(deadline=None)
def test_prop_compose_what_was_inherited_is_passed_on_without_loss(seed, links):
    """The legacy of f + Q with the curvatures added equals the legacy of f, plus Q."""
    rng = np.random.default_rng(seed)
    inherited = bq.Legacy.zero(4)
    for node in range(links):
        f = curved(rng, 4, 1.0, 7.0)
        y = rng.standard_normal(4)
        own = bq.Legacy.anchored(
            node, anchor=y, value=f.value(y), gradient=f.gradient(y), eta=f.curvature.midpoint
        )
        # the paper's way: a legacy of the working function h = f + Q as a whole
        whole = bq.Legacy.anchored(
            node,
            anchor=y,
            value=f.value(y) + inherited.value(y),
            gradient=f.gradient(y) + inherited.gradient(y),
            eta=f.curvature.midpoint + inherited.eta,
        )
        composed = own + inherited
        assert composed.eta == pytest.approx(whole.eta, rel=1e-12)
        np.testing.assert_allclose(composed.p, whole.p, rtol=1e-10, atol=1e-10)
        assert composed.c == pytest.approx(whole.c, rel=1e-9, abs=1e-9)
        inherited = composed
    assert dict(inherited.lineage) == dict.fromkeys(range(links), 1)


def test_a_farewell_costs_two_vectors_and_one_where_nothing_is_remembered():
    legacy = bq.Legacy.anchored(4, anchor=np.ones(10), value=0.0, gradient=np.ones(10), eta=2.0)
    with_memory = bq.Farewell(4, 30, legacy, np.ones(10))
    without = bq.Farewell(4, 30, bq.Legacy.zero(10), np.ones(10))
    assert (with_memory.vectors, with_memory.nbytes) == (2, 8 * (2 * 10 + 2 + 1))
    assert (without.vectors, without.nbytes) == (1, 80)


@pytest.mark.parametrize(("a", "b"), [(2.0, 1.0), (np.nan, 1.0), (0.0, np.inf)])
def test_a_curvature_needs_finite_ordered_bounds(a, b):
    with pytest.raises(bq.errors.InvalidObjective, match="curvature"):
        bq.Curvature(a, b)


def test_a_curvature_below_zero_is_a_range_too():
    assert bq.Curvature(-1.0, 3.0).midpoint == 1.0
    assert bq.Curvature(-1.0, 1.0).kappa == np.inf
    assert bq.Curvature(0.0, 2.0).kappa == np.inf
