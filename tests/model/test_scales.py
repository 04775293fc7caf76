"""The optimum does not depend on the units of features, labels and losses."""

import numpy as np
import oracle
import pytest

import bequest as bq
from bequest.core.legacy import Legacy
from bequest.errors import NotFinite, OptimumUnknown

COLUMNS = {
    "falling": lambda d: np.geomspace(1e8, 1e-8, d),
    "rising": lambda d: np.geomspace(1e-8, 1e8, d),
    "alternating": lambda d: np.where(np.arange(d) % 2, 1e8, 1e-8),
    "all large": lambda d: np.full(d, 1e8),
    "all small": lambda d: np.full(d, 1e-8),
}
LINEAR = ["logistic", "least squares", "huber"]
SHAPES = [(1, 60, 3), (4, 30, 4), (1, 30, 1), (6, 20, 6)]  # nodes, samples, features


def losses(kind, rng, shape, columns, l2=0.0, unit=1.0):
    """Losses of one kind; ``unit`` is that of the labels."""
    n, m, d = shape
    made = []
    for _ in range(n):
        X = columns * rng.standard_normal((m, d))
        if kind == "logistic":
            made.append(bq.Logistic(X, rng.integers(2, size=m), l2=l2))
        elif kind == "least squares":
            made.append(bq.LeastSquares(X, unit * rng.standard_normal(m), l2=l2))
        elif kind == "huber":
            y = unit * rng.standard_normal(m)
            made.append(bq.Huber(X, y, delta=unit / 2, l2=l2))
        else:
            made.append(bq.Softmax(X, rng.integers(3, size=m), classes=3, l2=l2))
    return made


def relative_error(found, exact):
    return float((np.abs(found - exact) / np.abs(exact)).max())


# --- scales -------------------------------------------------------------------------------------


@pytest.mark.parametrize("l2", [0.0, 1e-8, 0.05, 1e8])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("kind", LINEAR)
def test_every_coordinate_is_right_whatever_the_scales_of_the_columns(kind, columns, l2):
    for shape in SHAPES:
        for unit in (1.0,) if kind == "logistic" else (1e-8, 1.0, 1e8):
            rng = np.random.default_rng(shape)
            made = losses(kind, rng, shape, COLUMNS[columns](shape[2]), l2, unit)
            x = bq.Problem(made).optimum()
            assert relative_error(x, oracle.polished(made, x)) <= 1e-11


@pytest.mark.parametrize("l2", [1e-8, 0.05, 1e8])
@pytest.mark.parametrize("columns", COLUMNS)
def test_every_score_of_softmax_is_right_whatever_the_scales_of_the_columns(columns, l2):
    """What all classes have in common changes no score, and is as exact as its curvature l2."""
    for shape in SHAPES:
        rng = np.random.default_rng(shape)
        made = losses("softmax", rng, shape, COLUMNS[columns](shape[2]), l2)
        x = bq.Problem(made).optimum()
        exact = oracle.polished(made, x)
        rows = x.reshape(3, -1)
        assert relative_error((rows - rows.mean(axis=0)).ravel(), exact) <= 1e-11
        assert np.linalg.norm(x - exact) <= 1e-6 * np.linalg.norm(exact)


@pytest.mark.parametrize("columns", [0.0, 4.0, 8.0])
@pytest.mark.parametrize("kappa", [1e0, 1e3, 1e6, 1e9, 1e12])
def test_quadratics_lose_what_their_condition_number_takes_and_nothing_to_their_scales(
    kappa, columns
):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        d = int(rng.integers(1, 8))
        scale = 10.0 ** rng.uniform(-columns, columns, d)
        made, Q = [], np.linalg.qr(rng.standard_normal((d, d)))[0]
        for _ in range(3):
            A = (Q * (rng.uniform(1.0, 2.0) * np.geomspace(1.0, kappa, d))) @ Q.T
            A = (A + A.T) / 2 * scale * scale[:, None]
            made.append(bq.Quadratic((A + A.T) / 2, rng.standard_normal(d) / scale))
        x, exact = bq.Problem(made).optimum(), oracle.solved(made)
        assert (
            np.abs(scale * (x - exact)).max()
            <= max(1e-13, 1e-15 * kappa) * np.abs(scale * exact).max()
        )


@pytest.mark.parametrize("kind", LINEAR)
@pytest.mark.parametrize("power", [-70, -30, 30, 70])
def test_features_in_other_units_give_the_same_predictions(kind, power):
    """Nothing but the unit changes, and powers of two are exact."""
    unit = 2.0 ** round(power / np.log10(2))
    one = bq.Problem(losses(kind, np.random.default_rng(1), (3, 40, 4), np.ones(4)))
    other = bq.Problem(losses(kind, np.random.default_rng(1), (3, 40, 4), np.full(4, unit)))
    np.testing.assert_allclose(unit * other.optimum(), one.optimum(), rtol=1e-12, atol=0)


def test_large_features_without_a_penalty_have_the_gradient_of_an_optimum():
    made = losses("logistic", np.random.default_rng(0), (6, 20, 4), np.full(4, 1e70))
    problem = bq.Problem(made)
    x = problem.optimum()
    pulls = problem.all_nodes.gradients(np.broadcast_to(x, (6, 4)))
    assert np.linalg.norm(pulls.sum(axis=0)) <= 1e-14 * np.linalg.norm(pulls, axis=1).sum()


def test_a_memory_is_minimised_beside_losses_of_any_scale():
    """Curvature in every direction as a legacy has it, beside columns that need none."""
    rng = np.random.default_rng(3)
    made = losses("least squares", rng, (3, 30, 4), COLUMNS["falling"](4))
    p = np.array([1e3, 1.0, 1e-3, 1e-6])
    memory = Legacy(0.5, p, 0.0)
    x = bq.Problem(made).all_nodes.minimiser(memory)
    # the same as a fourth node with this quadratic
    twin = bq.Quadratic(0.5 * np.eye(4), -2 * p)
    assert relative_error(x, oracle.solved([*made, twin])) <= 1e-12


@pytest.mark.parametrize("kind", LINEAR)
def test_unknowns_of_different_scales_are_solved_for_by_products_too(kind, monkeypatch):
    """As beyond the dimension up to which Hessians are formed."""
    monkeypatch.setattr("bequest.model.ensemble._DENSE_DIM", 0)
    made = losses(kind, np.random.default_rng(5), (3, 40, 6), COLUMNS["falling"](6), l2=1e-3)
    x = bq.Problem(made).optimum()
    assert relative_error(x, oracle.polished(made, x)) <= 1e-9


# --- what is flat, and what is not --------------------------------------------------------------


def degenerate(how, rng, m, d):
    Z = rng.standard_normal((m, d))
    if how == "copied":
        Z[:, -1] = Z[:, 0]
    elif how == "combined":
        Z[:, -1] = Z[:, :-1] @ np.arange(1.0, d)
    elif how == "constant":
        Z[:, 0] = 1.0
    elif how == "zero":
        Z[:, 0] = 0.0
    return Z


@pytest.mark.parametrize("how", ["copied", "combined", "constant", "zero", "few samples"])
@pytest.mark.parametrize("kind", [*LINEAR, "softmax"])
def test_a_penalty_always_makes_for_a_minimiser_and_it_is_found(kind, how):
    """However small it is beside the features, however collinear they are."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        d, wide = int(rng.integers(2, 6)), float(rng.choice([0.0, 4.0, 8.0]))
        columns, l2 = 10.0 ** rng.uniform(-wide, wide, d), float(rng.choice([1e-12, 1e-6, 1.0]))
        made = []
        for _ in range(int(rng.integers(1, 4))):
            m = 1 if how == "few samples" else int(rng.integers(2, 30))
            X, y = columns * degenerate(how, rng, m, d), rng.standard_normal(m)
            made.append(
                {
                    "logistic": lambda: bq.Logistic(X, y > 0, l2=l2),  # noqa: B023
                    "least squares": lambda: bq.LeastSquares(X, y, l2=l2),  # noqa: B023
                    "huber": lambda: bq.Huber(X, y, delta=0.1, l2=l2),  # noqa: B023
                    "softmax": lambda: bq.Softmax(X, y > 0, classes=2, l2=l2),  # noqa: B023
                }[kind]()
            )
        problem = bq.Problem(made)
        x = problem.optimum()
        scale = np.sqrt(np.diagonal(problem.all_nodes.total_hessian(x)))
        terms = sum(stack.terms(x, scale) for _, stack in problem.all_nodes._groups)
        slope = np.abs(problem.gradient(x)) / scale
        assert (slope <= 1e-11 * terms / scale + 1e-13 * (terms / scale).max()).all()


@pytest.mark.parametrize("wide", [0.0, 4.0])
def test_of_many_minimisers_the_shortest_is_returned_in_the_units_of_the_features(wide):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        columns = 10.0 ** rng.uniform(-wide, wide, 4)
        X = columns * degenerate("combined", rng, 30, 4)
        y = rng.standard_normal(30)
        x = bq.Problem([bq.LeastSquares(X, y)]).optimum()
        # scaled, so that the data themselves are well conditioned; then the shortest of all
        inside = np.linalg.lstsq(X / columns, y, rcond=1e-10)[0]
        null = np.append(np.arange(1.0, 4.0), -1.0) / columns
        null /= np.linalg.norm(null)
        shortest = inside / columns - null * float(null @ (inside / columns))
        assert np.linalg.norm(x - shortest) <= 1e-9 * np.linalg.norm(shortest)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("classes", [1, 2])
def test_separable_data_have_no_optimum_in_any_units(columns, classes):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        Z = rng.standard_normal((25, 3))
        X, labels = COLUMNS[columns](3) * Z, Z @ rng.standard_normal(3) > 0
        loss = bq.Logistic(X, labels) if classes == 1 else bq.Softmax(X, labels, classes=2)
        with pytest.raises(OptimumUnknown, match=r"no minimiser|may have none") as caught:
            bq.Problem([loss]).optimum()
        assert "l2" in caught.value.remedy


@pytest.mark.parametrize("l2", [1e-12, 1e-8, 1e-3])
@pytest.mark.parametrize("columns", COLUMNS)
def test_separable_data_with_the_smallest_penalty_have_their_optimum(columns, l2):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        Z = rng.standard_normal((25, 3))
        X, labels = COLUMNS[columns](3) * Z, Z @ rng.standard_normal(3) > 0
        # in the features' own units, or the penalty would be none beside a scale of 1e-8
        made = [
            bq.Logistic(X, labels, l2=l2),
            bq.Quadratic(l2 * np.diag(X.var(axis=0)), np.zeros(3)),
        ]
        x = bq.Problem(made).optimum()
        assert relative_error(x, oracle.polished(made, x)) <= 1e-10


@pytest.mark.parametrize("kind", ["least squares", "huber", "quadratic"])
def test_what_is_quadratic_in_pieces_is_never_said_to_have_no_minimiser(kind):
    """It has one, though columns that differ by 1e-7 put that of a matrix beyond float64."""
    said = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((20, 3))
        X[:, 2] = X[:, 0] * (1 + 10.0 ** rng.uniform(-8, -6) * rng.standard_normal(20))
        y = rng.standard_normal(20)
        loss = {
            "least squares": lambda: bq.LeastSquares(X, y),  # noqa: B023
            "huber": lambda: bq.Huber(X, y, delta=0.1),  # noqa: B023
            "quadratic": lambda: bq.Quadratic(X.T @ X, y[:3]),  # noqa: B023
        }[kind]()
        try:
            x = bq.Problem([loss]).optimum()
        except OptimumUnknown as error:
            said.append(str(error))
        else:
            assert np.linalg.norm(loss.gradient(x)) <= 1e-9 * (1 + np.linalg.norm(x))
    assert not any("no minimiser" in words or "none" in words for words in said)
    assert not said or kind == "quadratic"  # samples know what their Gram matrix has lost


def test_a_memory_may_tilt_what_is_flat_for_ever():
    """A quadratic always has a minimiser; beside a slope without curvature it has none."""
    flat = bq.Problem([bq.Quadratic(np.diag([1.0, 0.0]), [3.0, 5.0])]).all_nodes
    np.testing.assert_allclose(flat.minimiser(Legacy.zero(2)), [3.0, 0.0], atol=1e-15)
    with pytest.raises(OptimumUnknown, match="There is no minimiser"):
        flat.minimiser(Legacy(0.0, np.array([0.0, 1.0]), 0.0))


# --- outliers -----------------------------------------------------------------------------------


def hard_huber(seed):
    """Cauchy noise, a threshold far below it, and rows or columns of different scales."""
    rng = np.random.default_rng(seed)
    n, d, kind = int(rng.integers(1, 8)), int(rng.integers(1, 9)), seed % 4
    l2 = float(rng.choice([0.0, 1e-3, 0.1]))
    columns = 10.0 ** rng.uniform(-2, 2, d)
    made = []
    for _ in range(n):
        m = int(rng.integers(1, 60))
        scale = [
            lambda: 10.0 ** rng.choice([-2, 2]),
            lambda: columns,
            lambda: 10.0 ** rng.choice([-2, 2], size=d),
            lambda m=m: 10.0 ** rng.choice([-2, 2], size=(m, 1)),
        ][kind]()
        X = scale * rng.standard_normal((m, d))
        y = (1 if seed % 3 else 100) * rng.standard_cauchy(m)
        if seed % 5:
            y = y + X @ rng.standard_normal(d)
        made.append(bq.Huber(X, y, delta=0.01, l2=l2))
    return made


# those on which Newton steps, damped, go in circles or hardly move; and some others
@pytest.mark.parametrize(
    "seed", [38, 46, 52, 231, 286, 292, 345, 417, 430, 449, 538, 562, 570, *range(30)]
)
def test_a_robust_loss_always_has_an_optimum_and_it_is_found(seed):
    made = hard_huber(seed)
    problem = bq.Problem(made)
    x = problem.optimum()
    terms = sum(stack.terms(x, np.ones(problem.dim)) for _, stack in problem.all_nodes._groups)
    slope = sum(oracle.derivatives(loss, x)[0] for loss in made)
    assert (np.abs(slope) <= 1e-11 * terms + 1e-13 * terms.max()).all()


# --- what the search is told --------------------------------------------------------------------


def every_stack(rng, l2):
    for kind in (*LINEAR, "softmax"):
        yield losses(kind, rng, (3, 12, 3), np.array([1e4, 1.0, 1e-4]), l2)
    roots = rng.standard_normal((3, 3, 3))
    yield [bq.Quadratic(R @ R.T + l2 * np.eye(3), rng.standard_normal(3)) for R in roots]


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_gradients_are_known_to_the_rounding_of_their_terms(l2):
    rng = np.random.default_rng(7)
    for made in every_stack(rng, l2):
        problem = bq.Problem(made)
        stack = problem.all_nodes._groups[0][1]
        for _ in range(20):
            x = rng.standard_normal(problem.dim) * 10.0 ** rng.uniform(-4, 4, problem.dim)
            exact = sum(oracle.derivatives(loss, x)[0] for loss in made)
            error = np.abs(problem.gradient(x) - exact)
            terms = stack.terms(x, np.ones(problem.dim))
            assert (error <= 2e-15 * terms).all()
            assert (np.abs(problem.gradient(x)) <= terms * (1 + 1e-12)).all()


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_a_majoriser_is_nowhere_below_and_no_diagonal_above_its_ceiling(l2):
    rng = np.random.default_rng(8)
    for made in every_stack(rng, l2):
        problem = bq.Problem(made)
        stack = problem.all_nodes._groups[0][1]
        ceiling = stack.ceiling()
        for _ in range(20):
            x, y = rng.standard_normal((2, problem.dim)) * 10.0 ** rng.uniform(-2, 2)
            step, M = y - x, stack.total_majoriser(x)
            above = problem.value(x) + problem.gradient(x) @ step + step @ M @ step / 2
            assert problem.value(y) <= above + 1e-9 * (abs(above) + abs(problem.value(x)))
            assert (np.diagonal(stack.total_hessian(x)) <= ceiling * (1 + 1e-12)).all()


# --- too large, too small -----------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e76, 1e150, 1e155, 1e300])
def test_numbers_too_large_to_square_are_refused_when_the_loss_is_built(size):
    X, y = np.ones((3, 2)), np.array([0.0, 1.0, 1.0])
    large = np.array([[1.0, 1.0], [-size, 1.0], [1.0, 1.0]])
    refused = {
        r"X holds -.*\(1, 0\)": [
            lambda: bq.Logistic(large, y),
            lambda: bq.LeastSquares(large, y),
            lambda: bq.Huber(large, y),
            lambda: bq.Softmax(large, y, classes=2, l2=1.0),
        ],
        "y holds": [lambda: bq.LeastSquares(X, size * y), lambda: bq.Huber(X, size * y)],
        "A holds": [lambda: bq.Quadratic(size * np.eye(2), np.zeros(2))],
        "c holds": [lambda: bq.Quadratic(np.eye(2), [size, 0.0])],
    }
    for words, makers in refused.items():
        for make in makers:
            with pytest.raises(NotFinite, match=words) as caught:
                make()
            assert "Rescale" in caught.value.remedy


@pytest.mark.parametrize("size", [1e-76, 1e-150, 1e-200])
def test_features_too_small_to_square_are_refused_unless_a_penalty_makes_up_for_them(size):
    X, y = size * np.ones((3, 2)), np.array([0.0, 1.0, 1.0])
    for make in (
        lambda l2: bq.Logistic(X, y, l2=l2),
        lambda l2: bq.LeastSquares(X, y, l2=l2),
        lambda l2: bq.Huber(X, y, l2=l2),
        lambda l2: bq.Softmax(X, y, classes=2, l2=l2),
    ):
        with pytest.raises(NotFinite, match="too small") as caught:
            make(0.0)
        assert "Rescale" in caught.value.remedy
        assert make(0.1).curvature.a == 0.1
    with pytest.raises(NotFinite, match="too small"):
        bq.Quadratic(1e-80 * size * np.eye(2), np.zeros(2))
    with pytest.raises(NotFinite, match="too large"):
        bq.LeastSquares(np.ones((3, 2)), y, l2=1e200)
    with pytest.raises(NotFinite, match="too large"):
        bq.LeastSquares(np.ones((3, 2)), y, divisor=1e-200)
    assert bq.LeastSquares(np.zeros((3, 2)), y).curvature == bq.Curvature(0.0, 0.0)
