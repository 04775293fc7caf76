"""Without departures: scikit-learn's coefficients on the pooled table. With them: near."""

import warnings

import numpy as np
import pytest
from seeds import seeds
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import bequest as bq
from bequest.sklearn import SiloLogisticRegression, SiloRidge

LOADERS = {"breast cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}


def unequal(rows, n, seed=0):
    """Return silos of which each is larger than the one before."""
    shares = np.arange(1, n + 1) / sum(range(1, n + 1))
    return np.random.default_rng(seed).choice(n, rows, p=shares)


def _tables():
    """Yield tables and strengths; with its 650 unknowns digits takes long."""
    for name in LOADERS:
        for strength in (1e-3, 1.0, 1e3):
            long = name == "digits" and strength != 1.0
            yield pytest.param(name, strength, marks=[pytest.mark.slow] if long else [])


@pytest.mark.parametrize(("name", "strength"), [*_tables()])
def test_logistic_regression_is_that_of_the_pooled_table(name, strength):
    data = LOADERS[name]()
    X, y = StandardScaler().fit_transform(data.data), data.target
    rounds = 10 if name == "digits" else None
    model = SiloLogisticRegression(C=strength, rounds=rounds).fit(X, y, silos=unequal(len(y), 5))
    solver = "newton-cg" if name == "digits" else "newton-cholesky"
    pooled = LogisticRegression(C=strength, solver=solver, tol=1e-12, max_iter=10_000)
    with warnings.catch_warnings():
        # at the end it looks for digits that are rounding, and says that it finds none
        warnings.filterwarnings("ignore", message=".*(?i:line search)")
        pooled.fit(X, y)
    np.testing.assert_allclose(model.coef_, pooled.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, pooled.intercept_, atol=1e-6)
    assert np.array_equal(model.predict(X), pooled.predict(X))
    np.testing.assert_allclose(model.predict_proba(X), pooled.predict_proba(X), atol=1e-6)
    assert model.finished_by_ == "sums"


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("strength", [1e-3, 1.0, 1e3])
def test_ridge_is_that_of_the_pooled_table(strength, intercept):
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    weights = np.random.default_rng(1).random(y.size) + 0.1
    fit = {"sample_weight": weights, "silos": unequal(y.size, 4)}
    ridge = SiloRidge(alpha=strength, fit_intercept=intercept).fit(X, y, **fit)
    pooled = Ridge(alpha=strength, fit_intercept=intercept).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ridge.coef_, pooled.coef_, atol=1e-6)
    np.testing.assert_allclose(ridge.intercept_, pooled.intercept_, atol=1e-6)


@pytest.mark.parametrize("kind", ["balanced", {0: 3.0, 1: 0.5, 2: 1.0}])
def test_class_weights_are_those_of_scikit_learn(kind):
    data = load_wine()
    X, y = StandardScaler().fit_transform(data.data), data.target
    weights = np.random.default_rng(2).integers(0, 3, y.size).astype(float)
    model = SiloLogisticRegression(class_weight=kind)
    model.fit(X, y, weights, silos=unequal(y.size, 3))
    pooled = LogisticRegression(class_weight=kind, tol=1e-12, solver="newton-cholesky")
    pooled.fit(X, y, weights)
    np.testing.assert_allclose(model.coef_, pooled.coef_, atol=1e-6)


def test_the_mean_per_silo_is_another_model_and_has_a_name():
    data = load_breast_cancer()
    X, y = StandardScaler().fit_transform(data.data), data.target
    silos = unequal(len(y), 5)
    model = SiloLogisticRegression(weigh="silos").fit(X, y, silos=silos)
    sizes = np.bincount(silos)
    alike = LogisticRegression(tol=1e-12, solver="newton-cholesky")
    alike.fit(X, y, sample_weight=(len(y) / 5 / sizes)[silos])
    np.testing.assert_allclose(model.coef_, alike.coef_, atol=1e-6)
    pooled = SiloLogisticRegression().fit(X, y, silos=silos)
    assert np.abs(pooled.coef_ - model.coef_).max() > 0.01


def gaps(name, seed, when):
    """Return how much test log-loss each will costs when two of five silos leave."""
    data = LOADERS[name]()
    X, y = StandardScaler().fit_transform(data.data), data.target
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
    silos = np.array(["abcde"[k] for k in unequal(len(y), 5, seed)])
    wills = {"nobody left": None, "forget": bq.wills.Classic(), "consensus": bq.wills.Consensus()}
    wills |= {"adaptive": bq.wills.Adaptive(), "usual": "usual"}
    found = {}
    for title, will in wills.items():
        leaving = [] if will is None else [bq.Departure("e", when), bq.Departure("d", 2 * when)]
        given = None if will == "usual" else will
        model = SiloLogisticRegression(departures=leaving, will=given, rounds=2 * when + 20)
        model.fit(X, y, silos=silos)
        found[title] = log_loss(y_test, model.predict_proba(X_test))
    return {title: loss - found["nobody left"] for title, loss in found.items()}


@pytest.mark.parametrize("seed", seeds(range(10), quick=3))
@pytest.mark.parametrize("name", ["breast cancer", "wine"])
def test_a_silo_that_leaves_is_remembered(name, seed):
    cost = gaps(name, seed, 100)
    print(name, seed, {title: f"{gap:+.5f}" for title, gap in cost.items()})
    assert abs(cost["usual"]) <= 1e-3
    assert abs(cost["usual"]) <= abs(cost["forget"]) + 1e-4


def test_what_a_departure_costs_is_within_the_certificate():
    data = load_breast_cancer()
    X, y = StandardScaler().fit_transform(data.data[:, :6]), data.target
    silos = np.array(["ab", "cd"])[np.arange(len(y)) % 2]
    model = SiloLogisticRegression(
        C=0.01, fit_intercept=False, departures=[bq.Departure("cd", 12)], will=bq.wills.Consensus()
    ).fit(X, y, silos=silos)
    pooled = LogisticRegression(
        C=0.01, fit_intercept=False, tol=1e-12, solver="newton-cholesky"
    ).fit(X, y)
    offset = float(np.linalg.norm(model.coef_ - pooled.coef_))
    certificate = model.run_.certificate
    assert certificate.holds
    promised = certificate["tight"].promised
    assert promised < 0.01
    assert offset <= promised + 1e-6  # what scikit-learn leaves undone


@pytest.mark.parametrize(
    ("name", "strength", "when", "most"),
    [
        ("breast cancer", 0.01, 12, 10.0),
        ("breast cancer", 0.01, 100, 1e-5),
        ("breast cancer", 1.0, 100, 100.0),
        ("wine", 0.01, 12, np.inf),
        ("diabetes", 0.01, 100, 1e-9),
        ("diabetes", 1.0, 100, 1e-2),
    ],
)
def test_with_the_usual_will_and_an_intercept_coefficients_are_within_it(
    name, strength, when, most
):
    """``most`` is how much the certificate may promise and still say something."""
    data = load_diabetes() if name == "diabetes" else LOADERS[name]()
    X, y = StandardScaler().fit_transform(data.data), data.target
    silos, leaving = unequal(len(y), 5), [bq.Departure(4, when)]
    if name == "diabetes":
        model = SiloRidge(alpha=1.0 / strength, departures=leaving)
        pooled = Ridge(alpha=1.0 / strength)
    else:
        model = SiloLogisticRegression(C=strength, departures=leaving)
        pooled = LogisticRegression(C=strength, tol=1e-12, solver="newton-cholesky")
    model.fit(X, y, silos=silos)
    assert isinstance(next(iter(model.run_.plan.wills.values())), bq.wills.FullHessian)
    certificate = model.run_.certificate
    assert certificate.holds
    promised = certificate["tight"].promised
    assert promised <= most
    offset = float(np.linalg.norm(model.coef_ - pooled.fit(X, y).coef_))
    assert offset <= promised + 1e-8  # what scikit-learn leaves undone
