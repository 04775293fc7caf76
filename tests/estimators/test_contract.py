"""scikit-learn's own battery, and its habits: pipelines, searches, routing, pickles, frames."""

import io
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import bequest as bq
from bequest.errors import InvalidData, UnknownNode
from bequest.sklearn import SiloHuber, SiloLogisticRegression, SiloRidge

ESTIMATORS = [SiloLogisticRegression, SiloRidge, SiloHuber]


@pytest.mark.filterwarnings("ignore")  # the battery provokes them on purpose
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_whole_battery_passes(kind):
    results = check_estimator(kind(), on_skip=None)
    told = [one for one in results if one["status"] != "passed"]
    # it skips itself unless SciPy was imported with another environment
    assert [one["check_name"] for one in told] in ([], ["check_array_api_input"])
    assert len(results) > 55


@pytest.fixture(scope="module")
def cancer():
    data = load_breast_cancer(as_frame=True)
    rng = np.random.default_rng(3)
    places = rng.choice(["bonn", "charite", "rome"], size=len(data.data), p=[0.6, 0.3, 0.1])
    return data.data.iloc[:, :8], data.target.map({0: "malignant", 1: "benign"}), places


def test_names_of_columns_classes_and_silos(cancer):
    X, y, places = cancer
    model = SiloLogisticRegression(C=0.1, departures=[bq.Departure("charite", 40)])
    model.fit((X - X.mean()) / X.std(), y, silos=pd.Series(places))
    assert model.silos_.tolist() == ["bonn", "charite", "rome"]
    assert model.classes_.tolist() == ["benign", "malignant"]
    assert model.feature_names_in_.tolist() == list(X.columns)
    assert model.n_iter_ == 340
    assert isinstance(model.run_, bq.Run)
    assert [record.node for record in model.run_.departures] == [1]
    assert set(model.predict(X)) <= {"benign", "malignant"}
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X.iloc[:3])), proba[:3])


def test_silos_are_routed_through_searches_and_pipelines(cancer):
    X, y, places = cancer
    with sklearn.config_context(enable_metadata_routing=True):
        model = SiloLogisticRegression(rounds=20).set_fit_request(silos=True)
        pipe = make_pipeline(StandardScaler(), model)
        search = GridSearchCV(pipe, {"silologisticregression__C": [1e-3, 1.0]}, cv=3)
        search.fit(X, y, silos=places)
        best = search.best_estimator_[-1]
        assert best.silos_.tolist() == ["bonn", "charite", "rome"]
        assert best.C == 1.0
        scores = cross_val_score(pipe, X, y, params={"silos": places}, cv=3)
        assert scores.min() > 0.9


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_pickle_predicts_the_same_and_holds_no_data(kind, cancer):
    X, y, places = cancer
    X = StandardScaler().set_output(transform="pandas").fit_transform(X)
    target = y if kind is SiloLogisticRegression else X.iloc[:, 0] * 2 + X.iloc[:, 1]
    model = kind(rounds=20).fit(X, target, silos=places)
    for dump, load in ((pickle.dump, pickle.load), (joblib.dump, joblib.load)):
        file = io.BytesIO()
        dump(model, file)
        assert file.tell() < 20_000  # the table has 36,000 bytes
        file.seek(0)
        again = load(file)
        assert np.array_equal(again.predict(X), model.predict(X))
        assert not hasattr(again, "run_")


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_sparse_rows_give_the_same_model(kind, cancer):
    X, y, places = cancer
    X = np.where(np.abs(X) > X.mean(axis=0), X / X.std(), 0.0)
    target = y if kind is SiloLogisticRegression else X @ np.arange(8.0) + np.sin(X[:, 0])
    dense = kind(rounds=20).fit(X, target, silos=places)
    sparse = kind(rounds=20).fit(csr_matrix(X), target, silos=places)
    # most residuals are zero, so that the minimum of Huber's is a corner
    near = 1e-6 if kind is SiloHuber else 1e-7
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=near)
    np.testing.assert_allclose(sparse.intercept_, dense.intercept_, atol=near)


def test_a_will_of_every_silo_and_an_engine_of_real_nodes(cancer):
    X, y, places = cancer
    X = StandardScaler().fit_transform(X)[:120]
    will = {None: bq.wills.Adaptive(), "rome": bq.wills.Classic()}
    leaving = [bq.Departure("rome", 10), bq.Departure("charite", 20)]
    options = {"departures": leaving, "will": will, "rounds": 40, "graph": bq.graphs.path(3)}
    fitted = [
        SiloLogisticRegression(**options, engine=engine).fit(X, y[:120], silos=places[:120])
        for engine in (None, bq.engines.Loop())
    ]
    assert fitted[0].run_.lost == fitted[1].run_.lost == (2,)
    np.testing.assert_allclose(fitted[0].coef_, fitted[1].coef_, atol=1e-8)


def test_twenty_silos_talk_along_a_ring_with_shortcuts(cancer):
    X, y, _ = cancer
    model = SiloLogisticRegression(rounds=5)
    model.fit(StandardScaler().fit_transform(X), y, silos=np.arange(len(y)) % 20)
    assert model.run_.graph.n == 20
    assert len(model.run_.graph.edges) == 40


STRICT = {"absent": "error"}
X4, Y4, S4 = [[0.0], [1.0], [2.0], [4.0]], [0, 1, 0, 1], ["a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("options", "silos", "error", "words"),
    [
        (STRICT | {"departures": [bq.Departure("bb", 9)]}, S4, UnknownNode, 'mean "b"'),
        (STRICT | {"departures": [bq.Departure("zz", 9)]}, S4, UnknownNode, "The silos are a, b"),
        (STRICT | {"will": {"c": bq.wills.Classic()}}, S4, UnknownNode, "no silo 'c'"),
        ({"absent": "ignore"}, S4, InvalidData, "absent is 'ignore'"),
        ({"departures": 3}, S4, ValueError, "not a sequence"),
        ({"departures": ["a"]}, S4, ValueError, "is no event"),
        ({}, ["a", "b"], InvalidData, "there are 4 rows"),
        ({}, ["a", None, "b", "b"], InvalidData, "missing for row 1"),
        ({}, [1.0, 2.0, np.nan, 2.0], InvalidData, "missing for row 2"),
        ({"C": 0}, S4, InvalidData, "C is 0"),
        ({"C": "much"}, S4, InvalidData, "number > 0"),
        ({"weigh": "rows"}, S4, InvalidData, "weigh is 'rows'"),
        ({"finish": "soon"}, S4, InvalidData, "finish is 'soon'"),
    ],
)
def test_bad_input_is_told_in_words(options, silos, error, words):
    with pytest.raises(error, match=words):
        SiloLogisticRegression(**options).fit(X4, Y4, silos=silos)


def test_bad_targets_are_told_in_words():
    with pytest.raises(InvalidData, match="one class only"):
        SiloLogisticRegression().fit(X4, [1, 1, 1, 1], silos=S4)
    with pytest.raises(InvalidData, match="alpha is -1"):
        SiloRidge(alpha=-1).fit(X4, Y4)
    with pytest.raises(InvalidData, match="epsilon is 0"):
        SiloHuber(epsilon=0.5).fit(X4, Y4)
    with pytest.raises(ValueError, match="at least one non-zero"):
        SiloRidge().fit(X4, Y4, sample_weight=np.zeros(4))


def test_silos_of_one_class_one_row_and_constant_columns_are_silos():
    X = np.column_stack([np.arange(6.0), np.ones(6)])
    y = [0, 0, 1, 0, 1, 1]
    model = SiloLogisticRegression().fit(X, y, silos=["one row", *"aabbb"])
    pooled = SiloLogisticRegression().fit(X, y)
    np.testing.assert_allclose(model.coef_, pooled.coef_, atol=1e-9)
    # a silo whose rows do not count is one all the same
    light = SiloLogisticRegression().fit(X, y, sample_weight=[0, 1, 1, 1, 1, 1], silos=[*"aabbbb"])
    other = SiloLogisticRegression().fit(X, y, sample_weight=[0, 1, 1, 1, 1, 1], silos=[*"abbbbb"])
    np.testing.assert_allclose(light.coef_, other.coef_, atol=1e-9)


def test_what_has_not_converged_is_said():
    X = [[0.0], [1.0], [2.0], [3.0]]
    with pytest.warns(ConvergenceWarning, match="not converged after 2 rounds"):
        SiloLogisticRegression(finish="rounds", rounds=2).fit(X, [0, 1, 0, 1])
    with pytest.warns(ConvergenceWarning, match="lead nowhere"):
        SiloLogisticRegression(C=np.inf, rounds=5).fit(X, [0, 0, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SiloRidge(finish="rounds", rounds=2000).fit(
            X, [0.0, 1.0, 2.0, 3.0], silos=[*"aabb"]
        )
    exact = SiloRidge().fit(X, [0.0, 1.0, 2.0, 3.0])
    assert model.coef_ == pytest.approx(exact.coef_, abs=1e-8)
    assert (model.finished_by_, exact.finished_by_) == ("rounds", "sums")


def test_a_memory_of_samples_is_finished_by_the_estimator(cancer):
    X, y, places = cancer
    X, leaving = StandardScaler().fit_transform(X), [bq.Departure("charite", 20)]
    model = SiloLogisticRegression(
        fit_intercept=False, will=bq.wills.Replay(), departures=leaving, rounds=25
    ).fit(X, y, silos=places)
    assert model.finished_by_ == "estimator"
    assert model.score(X, y) > 0.9


def test_a_model_holds_its_certificate():
    rng = np.random.default_rng(0)
    X, silos = rng.normal(size=(60, 2)), np.repeat(["a", "b", "c"], 20)
    y = X @ [1.0, -2.0] + rng.normal(size=60)
    model = SiloRidge(departures=[bq.Departure("b", 30)]).fit(X, y, silos=silos)
    bounds = model.to_model().about["certificate"]
    assert bounds == model.run_.certificate.as_dict()
    assert bounds


@pytest.mark.filterwarnings("ignore:X has feature names")
@pytest.mark.parametrize("estimator", [SiloLogisticRegression(rounds=2), SiloRidge(rounds=2)])
def test_dates_and_tables_are_told_in_words(estimator):
    born = pd.to_datetime(["2001-02-03", "2002-03-04", "2003-04-05", "2004-05-06"])
    y, fitted = (
        [0, 1, 0, 1],
        estimator.fit([[0.0, 1.0], [1.0, 1.0], [0.0, 2.0], [2.0, 0.0]], [0, 1] * 2),
    )
    mixed = pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "born": born})
    spans = pd.DataFrame({"stay": born - born[0]})
    objects = pd.DataFrame({"born": born.astype(object), "age": [1.0, 2.0, 3.0, 4.0]})
    for X, words in (
        (mixed, 'The column "born" of X holds dates'),
        (spans, 'The column "stay" of X holds dates'),
        (objects, "X holds dates"),
        (born.to_numpy()[:, None], "X holds dates"),
        (bq.data.Table({"age": [1, 2, 3, 4]}), r"X is a Table .*an estimator takes an array"),
    ):
        for asked in (lambda X=X: clone(estimator).fit(X, y), lambda X=X: fitted.predict(X)):
            with pytest.raises(bq.errors.InvalidData, match=words):
                asked()


def test_many_unknowns_are_iterated_with_a_number_for_a_metric():
    """A matrix per silo would take more time and memory than the data."""
    rng = np.random.default_rng(0)
    y, silos = np.arange(30) % 2, np.arange(30) % 3
    for unknowns, metric in ((230, "hessian"), (1100, "scalar")):
        X = rng.normal(size=(30, unknowns))
        model = SiloLogisticRegression(rounds=2, finish="rounds")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y, silos=silos)
        assert model.run_.plan.method.metric == metric
