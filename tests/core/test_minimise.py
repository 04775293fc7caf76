"""The minimiser, to the last digits, or an honest no."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bequest.core import directions, minimise
from bequest.errors import OptimumUnknown

some = settings(deadline=None, max_examples=60, derandomize=True)
seeds = st.integers(0, 2**32 - 1)


def spd(rng, spectrum):
    Q = np.linalg.qr(rng.standard_normal((len(spectrum), len(spectrum))))[0]
    A = (Q * np.asarray(spectrum)) @ Q.T
    return (A + A.T) / 2, Q


dense = directions.dense_descent


def of_order_one(x, scale):
    return np.ones_like(x)


def square(x):
    return float((x - 1) @ (x - 1)) / 2


# --- linear systems -----------------------------------------------------------------------------


@some
@given(seed=seeds, dim=st.integers(1, 8), kappa=st.sampled_from([1.0, 1e3, 1e8]))
def test_a_regular_system_is_solved_to_what_its_condition_allows(seed, dim, kappa):
    rng = np.random.default_rng(seed)
    A, _ = spd(rng, np.geomspace(1.0, kappa, dim))
    x = rng.standard_normal(dim)
    error = np.linalg.norm(directions.pseudo_solve(A, A @ x) - x) / np.linalg.norm(x)
    assert error <= 1e-14 * kappa


@some
@given(
    seed=seeds,
    dim=st.integers(2, 8),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    data=st.data(),
)
def test_a_singular_system_has_the_smallest_solution(seed, dim, scale, data):
    rng = np.random.default_rng(seed)
    rank = data.draw(st.integers(1, dim - 1))
    spectrum = np.zeros(dim)
    spectrum[:rank] = scale * np.geomspace(1.0, 100.0, rank)
    A, Q = spd(rng, spectrum)
    x = Q[:, :rank] @ rng.standard_normal(rank)
    np.testing.assert_allclose(directions.pseudo_solve(A, A @ x), x, rtol=0, atol=1e-11)


@pytest.mark.parametrize("dim", [2, 3, 5])
@pytest.mark.parametrize("samples", [1, 10, 200])
def test_rounding_in_a_gram_matrix_is_not_taken_for_curvature(dim, samples):
    """X'X of collinear data has eigenvalues of rounding size where it should have zeros."""
    rng = np.random.default_rng([dim, samples])
    for _ in range(250):
        X = rng.standard_normal((samples, dim - 1)) @ rng.standard_normal((dim - 1, dim))
        sizes = np.linalg.svd(X, compute_uv=False)
        rank = min(samples, dim - 1)
        if sizes[0] > 1e3 * sizes[rank - 1]:
            continue
        gram = X.T @ X
        y = rng.standard_normal(samples)
        inside = X.T @ y  # in the range, so that a solution exists
        solution = directions.pseudo_solve(gram, inside)
        expected = np.linalg.pinv(X) @ np.linalg.pinv(X).T @ inside
        cond = (sizes[0] / sizes[rank - 1]) ** 2
        scale = np.linalg.norm(y) / sizes[rank - 1]
        assert np.linalg.norm(solution - expected) <= 1e-12 * cond * scale


def test_no_curvature_at_all_gives_no_solution_but_zero():
    np.testing.assert_array_equal(
        directions.pseudo_solve(np.zeros((3, 3)), np.zeros(3)), np.zeros(3)
    )


@some
@given(seed=seeds, dim=st.integers(1, 30))
def test_conjugate_gradients_solve_what_they_only_see_through_products(seed, dim):
    rng = np.random.default_rng(seed)
    A, _ = spd(rng, np.linspace(1.0, 50.0, dim))
    x = rng.standard_normal(dim)
    found = directions.conjugate_gradients(lambda v: A @ v, A @ x)
    assert np.linalg.norm(found - x) <= 1e-8 * np.linalg.norm(x)
    np.testing.assert_array_equal(
        directions.conjugate_gradients(lambda v: A @ v, np.zeros(dim)), np.zeros(dim)
    )


# --- Newton -------------------------------------------------------------------------------------


@some
@given(seed=seeds, dim=st.integers(1, 6), far=st.sampled_from([0.0, 1.0, 1e3]))
def test_a_quadratic_is_minimised_from_anywhere(seed, dim, far):
    rng = np.random.default_rng(seed)
    A, _ = spd(rng, np.linspace(1.0, 10.0, dim))
    c = rng.standard_normal(dim)
    x = minimise.newton(
        lambda x: (x - c) @ A @ (x - c) / 2,
        lambda x: A @ (x - c),
        dense(lambda _: A),
        c + far * rng.standard_normal(dim),
    )
    np.testing.assert_allclose(x, c, rtol=0, atol=1e-13 * (1 + np.linalg.norm(c)))


@some
@given(seed=seeds, dim=st.integers(1, 5), far=st.sampled_from([1.0, 30.0, 1e3]))
def test_full_steps_that_overshoot_are_damped(seed, dim, far):
    """Newton alone diverges on sqrt(1 + x^2) from |x| > 1: its steps cube the distance."""
    rng = np.random.default_rng(seed)
    c = rng.standard_normal(dim)
    x = minimise.newton(
        lambda x: float(np.sqrt(1 + (x - c) ** 2).sum()),
        lambda x: (x - c) / np.sqrt(1 + (x - c) ** 2),
        dense(lambda x: np.diag((1 + (x - c) ** 2) ** -1.5)),
        c + far * rng.choice([-1.0, 1.0], dim),
    )
    np.testing.assert_allclose(x, c, rtol=0, atol=1e-12 * (1 + np.linalg.norm(c)))


@pytest.mark.parametrize("kappa", [1e2, 1e4, 1e6, 1e8])
def test_accuracy_is_what_the_condition_number_leaves(kappa):
    rng = np.random.default_rng(0)
    A, _ = spd(rng, np.geomspace(1.0 / kappa, 1.0, 8))
    c = rng.standard_normal(8)
    x = minimise.newton(
        lambda x: (x - c) @ A @ (x - c) / 2,
        lambda x: A @ x - A @ c,
        dense(lambda _: A),
        np.zeros(8),
    )
    assert np.linalg.norm(x - c) <= max(1e-12, 1e-14 * kappa)


def test_a_minimum_without_curvature_is_approached_to_the_promised_digits_or_not_returned():
    """At the minimum of (x - 1)^4 the Hessian vanishes and steps shrink by a third only."""
    try:
        x = minimise.newton(
            lambda x: float(((x - 1) ** 4).sum()) / 4,
            lambda x: (x - 1) ** 3,
            dense(lambda x: np.diag(3 * (x - 1) ** 2)),
            np.zeros(2),
        )
    except OptimumUnknown:
        return
    np.testing.assert_allclose(x, 1.0, rtol=0, atol=1e-11)


def test_of_many_minimisers_one_close_to_the_start_is_returned():
    A = np.diag([2.0, 0.0])
    x = minimise.newton(
        lambda x: (x - 1) @ A @ (x - 1) / 2,
        lambda x: A @ (x - 1),
        dense(lambda _: A),
        np.array([5.0, 7.0]),
    )
    np.testing.assert_allclose(x, [1.0, 7.0], rtol=0, atol=1e-14)


# name -> value, gradient, Hessian of convex functions that have no minimiser
ENDLESS = {
    "a slope": (lambda x: x.sum(), np.ones_like, lambda x: np.zeros((x.size, x.size))),
    "a slope beside a bowl": (
        lambda x: x[0] ** 2 / 2 + x[1],
        lambda x: np.array([x[0], 1.0]),
        lambda x: np.diag([1.0, 0.0]),
    ),
    "a decay": (
        lambda x: float(np.exp(-x).sum()),
        lambda x: -np.exp(-x),
        lambda x: np.diag(np.exp(-x)),
    ),
    "nan": (
        lambda x: np.nan,
        lambda x: np.full_like(x, np.nan),
        lambda x: np.full((2, 2), np.nan),
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_has_no_minimiser_is_not_given_one(name):
    value, gradient, hessian = ENDLESS[name]
    with (
        np.errstate(all="ignore"),
        pytest.raises(OptimumUnknown, match=r"none|no minimiser") as caught,
    ):
        minimise.newton(value, gradient, dense(hessian), np.array([0.5, 0.5]))
    assert caught.value.remedy


def test_a_point_with_a_slope_is_never_returned():
    """Flat curvature where the start is, as of a Huber loss whose residuals are all outliers."""
    x = minimise.newton(
        lambda x: float(np.where(np.abs(x - 9) < 1, (x - 9) ** 2 / 2, np.abs(x - 9) - 0.5).sum()),
        lambda x: np.clip(x - 9, -1, 1),
        dense(lambda x: np.diag((np.abs(x - 9) < 1).astype(float))),
        np.array([0.0, 8.5]),
    )
    np.testing.assert_allclose(x, 9.0, rtol=0, atol=1e-12)


def test_the_start_is_left_alone():
    start = np.array([3.0])
    minimise.newton(lambda x: x @ x / 2, lambda x: x, dense(lambda x: np.eye(1)), start)
    np.testing.assert_array_equal(start, [3.0])


def test_a_hessian_that_is_not_a_number_leads_nowhere():
    with pytest.raises(OptimumUnknown, match="not found"):
        minimise.newton(
            lambda x: x @ x / 2, lambda x: x, dense(lambda x: np.full((2, 2), np.nan)), np.ones(2)
        )


def test_a_value_that_no_step_lowers_ends_the_search():
    """A loss that is a number where it starts, and nowhere else."""
    with pytest.raises(OptimumUnknown, match="not found"):
        minimise.newton(
            lambda x: np.nan if x.any() else 0.0, lambda x: x + 1, dense(lambda x: np.eye(1)),
            np.zeros(1),
        )  # fmt: skip


def test_what_has_only_become_too_flat_to_descend_is_no_minimiser():
    """x^2/2 + exp(-y) beside the bowl: slope and curvature vanish in rounding at y = 30."""
    with np.errstate(over="ignore"), pytest.raises(OptimumUnknown, match="flat to rounding"):
        minimise.newton(
            lambda x: x[0] ** 2 / 2 + float(np.exp(-x[1])),
            lambda x: np.array([x[0], -np.exp(-x[1])]),
            dense(lambda x: np.diag([1.0, np.exp(-x[1])])),
            np.array([1.0, 0.0]),
        )


@some
@given(seed=seeds, dim=st.integers(1, 6))
def test_a_function_known_through_products_only_is_minimised_too(seed, dim):
    rng = np.random.default_rng(seed)
    A, _ = spd(rng, np.linspace(1.0, 10.0, dim))
    c = rng.standard_normal(dim)
    x = minimise.newton(
        lambda x: float(np.sqrt(1 + (x - c) @ A @ (x - c))),
        lambda x: A @ (x - c) / np.sqrt(1 + (x - c) @ A @ (x - c)),
        directions.product_descent(lambda x, v: _root_product(A, x - c, v)),
        c + rng.standard_normal(dim),
    )
    np.testing.assert_allclose(x, c, rtol=0, atol=1e-11 * (1 + np.linalg.norm(c)))


def _root_product(A, e, v):
    """H v for sqrt(1 + e'Ae)."""
    s = np.sqrt(1 + e @ A @ e)
    return A @ v / s - (A @ e) * float(e @ A @ v) / s**3


def test_where_products_say_nothing_the_slope_is_followed():
    """A loss without curvature there: conjugate gradients have nothing to go by."""
    descend = directions.product_descent(lambda x, v: np.zeros_like(v))
    with np.errstate(all="ignore"):
        way = descend(np.zeros(2), np.array([3.0, 4.0]), lambda x, _: np.zeros_like(x))
    np.testing.assert_array_equal(way.step, [-3.0, -4.0])
    assert not way.curved
    assert way.faint().shape == (2, 0)


# --- quadratics ---------------------------------------------------------------------------------


def test_a_quadratic_takes_one_solve_refined_while_that_helps():
    A, c = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, -1.0])
    x = minimise.quadratic(
        lambda x: (x - c) @ A @ (x - c) / 2,
        lambda x: A @ (x - c),
        dense(lambda _: A),
        np.array([9.0, 9.0]),
        of_order_one,
    )
    np.testing.assert_allclose(x, c, rtol=0, atol=1e-15)


def test_a_poor_solver_is_given_ten_refinements_and_no_more():
    """Steps that are 0.7 of the right one leave 0.3 of the error, each."""
    asked = []

    def descend(x, slope, magnitude):
        asked.append(x)
        one = np.ones(1)
        return directions.Direction(-0.7 * slope, True, one, 1e6 * one, lambda: np.eye(1), one)

    x = minimise.quadratic(square, lambda x: x - 1, descend, np.zeros(1), of_order_one)
    assert len(asked) == 10
    assert 1 - x == pytest.approx(0.3**10)


def test_a_quadratic_with_a_slope_and_no_curvature_has_no_minimiser():
    A = np.diag([1.0, 0.0])
    with pytest.raises(OptimumUnknown, match="meets no curvature"):
        minimise.quadratic(
            lambda x: x @ A @ x / 2 + x[1],
            lambda x: A @ x + [0.0, 1.0],
            dense(lambda _: A),
            np.zeros(2),
            of_order_one,
        )


@pytest.mark.parametrize("exists", [True, False])
def test_a_quadratic_whose_hessian_is_not_its_own_is_not_taken_for_solved(exists):
    """Half of what is missing stays with every solve, so that refining does not help."""
    with pytest.raises(OptimumUnknown, match="is left") as why:
        minimise.quadratic(
            square,
            lambda x: x - 1,
            dense(lambda x: 4 * np.eye(2)),
            np.zeros(2),
            of_order_one,
            exists=exists,
        )
    assert ("which there is" in str(why.value)) == exists
