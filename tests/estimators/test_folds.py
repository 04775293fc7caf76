"""Folds of a cross-validation, in which silos have few rows, one class, or none at all."""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bequest as bq
from bequest.sklearn import SiloLogisticRegression, SiloRidge

LEAVING = [bq.Departure("rome", 10), bq.Departure("oslo", 15), bq.Return("oslo", 18)]


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    places = np.random.default_rng(3).choice(["bonn", "charite", "oslo"], size=len(y))
    places[:2] = "rome"  # two rows: some folds have none of them
    return X[:, :6], y, places


@pytest.mark.filterwarnings("ignore:No row is of the silo")
def test_a_search_goes_on_where_a_fold_lacks_a_silo_that_leaves(cancer):
    X, y, places = cancer
    lacking = ["rome" not in places[train] for train, _ in StratifiedKFold(5).split(X, y)]
    assert any(lacking)
    model = SiloLogisticRegression(departures=LEAVING, rounds=20)
    with sklearn.config_context(enable_metadata_routing=True):
        model.set_fit_request(silos=True)
        pipe = make_pipeline(StandardScaler(), model)
        search = GridSearchCV(
            pipe, {"silologisticregression__C": [0.01, 1.0]}, cv=5, error_score="raise"
        ).fit(X, y, silos=places)
        scores = cross_val_score(pipe, X, y, cv=5, params={"silos": places}, error_score="raise")
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert scores.min() > 0.85


@pytest.mark.filterwarnings("ignore:No row is of the silo")
def test_silos_left_out_in_turn(cancer):
    """Every fold lacks a silo: how well do the others predict for one that they do not know?"""
    X, y, places = cancer
    for train, test in LeaveOneGroupOut().split(X, y, places):
        scaled = StandardScaler().fit(X[train])
        model = SiloLogisticRegression(departures=LEAVING, rounds=20)
        model.fit(scaled.transform(X[train]), y[train], silos=places[train])
        assert places[test][0] not in model.silos_
        assert model.score(scaled.transform(X[test]), y[test]) >= 0.5


def test_what_is_left_out_is_said_and_the_others_leave_all_the_same(cancer):
    X, y, places = cancer
    X = StandardScaler().fit_transform(X)[2:]
    model = SiloLogisticRegression(
        departures=LEAVING, will={None: bq.wills.Consensus(), "rome": bq.wills.Classic()}, rounds=20
    )
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y[2:], silos=places[2:])
    words = [str(one.message) for one in told]
    assert len(words) == 2
    assert "'rome': Departure(node='rome', round=10) is left out" in words[0]
    assert "The silos are bonn, charite, oslo" in words[0]
    assert "its will is left out" in words[1]
    assert [(record.node, record.round) for record in model.run_.departures] == [(2, 15)]
    joining = [bq.Join("oslo", 5, neighbours=("rome", "bonn"))]
    with pytest.warns(UserWarning, match="'rome': no neighbour"):
        model.set_params(departures=joining, will=None).fit(X, y[2:], silos=places[2:])
    assert len(model.run_.survivors) == 3


@pytest.mark.parametrize("seed", range(12))
def test_silos_of_one_row_or_one_class_and_constant_columns_are_as_pooled(seed):
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(8, 30))
    X = rng.standard_normal((rows, 3)).round(2)
    X[:, 1] = 5.0
    y = rng.integers(0, 2, rows)
    y[:2] = 0, 1
    # a silo per class, one of a single row, and the rest
    silos = np.array(["zeros", "ones"], dtype=object)[y]
    silos[0] = "single"
    silos[rng.random(rows) < 0.3] = "rest"
    model = SiloLogisticRegression(C=0.5, rounds=5).fit(X, y, silos=silos)
    pooled = LogisticRegression(C=0.5, tol=1e-12, solver="newton-cholesky").fit(X, y)
    np.testing.assert_allclose(model.coef_, pooled.coef_, atol=1e-8)
    leaver = model.silos_[int(rng.integers(model.silos_.size))]
    left = SiloLogisticRegression(C=0.5, departures=[bq.Departure(leaver, 200)])
    left.fit(X, y, silos=silos)
    np.testing.assert_allclose(left.coef_, pooled.coef_, atol=1e-3)
    ridge = SiloRidge(departures=[bq.Departure(leaver, 40)]).fit(X, y, silos=silos)
    np.testing.assert_allclose(ridge.coef_, SiloRidge().fit(X, y).coef_, atol=1e-9)
