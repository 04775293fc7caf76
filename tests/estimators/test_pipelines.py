"""A fitted pipeline of scikit-learn as a model file: what it predicts, the file predicts."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

import bequest as bq
from bequest.errors import InvalidData
from bequest.sklearn import SiloLogisticRegression, SiloRidge, to_model

RNG = np.random.default_rng(3)
ROWS = 120
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(60, 12, ROWS).round(1),
        "lactate": np.where(RNG.random(ROWS) < 0.2, np.nan, RNG.normal(2, 1, ROWS)),
        "sex": RNG.choice(["f", "m"], ROWS),
        "ward": RNG.choice(["icu", "surgery", "medicine"], ROWS),
        "grade": RNG.integers(1, 4, ROWS),
    }
)
FRAME.loc[RNG.random(ROWS) < 0.1, "ward"] = np.nan
Y = np.where(FRAME["age"] / 12 + RNG.normal(0, 1, ROWS) > 5, "yes", "no")
SILOS = np.array(["bonn", "oslo", "rome"])[np.arange(ROWS) % 3]
NUMBERS, TEXTS = ["age", "lactate"], ["sex", "ward"]


@pytest.fixture(autouse=True)
def _routed():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def fitted(*steps, X=FRAME, y=Y, last=None):
    last = (last or SiloLogisticRegression(rounds=5)).set_fit_request(silos=True)
    return make_pipeline(*steps, last).fit(X, y, silos=SILOS)


def hospital(**coding):
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(**coding))
    return ColumnTransformer([("numbers", numbers, NUMBERS), ("texts", texts, TEXTS)])


def saved(pipeline, folder):
    to_model(pipeline).save(folder / "model.json")
    return bq.load_model(folder / "model.json")


STEPS = {
    "scaler": lambda: [StandardScaler()],
    "no mean": lambda: [StandardScaler(with_mean=False)],
    "robust": lambda: [RobustScaler()],
    "largest": lambda: [MaxAbsScaler()],
    "nothing": lambda: ["passthrough", FunctionTransformer()],
    "filled": lambda: [SimpleImputer(strategy="constant", fill_value=-1.5), StandardScaler()],
}


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("kind", ["frame", "array"])
def test_a_pipeline_of_numbers_says_the_same_to_the_bit(tmp_path, steps, kind):
    X = FRAME[["age", "grade"]].astype(float)
    if steps == "filled":
        X = FRAME[NUMBERS]
    X = X if kind == "frame" else X.to_numpy()
    pipeline = fitted(*STEPS[steps](), X=X)
    model = saved(pipeline, tmp_path)
    assert model.predict(X).tolist() == pipeline.predict(X).tolist()
    assert np.array_equal(model.predict_proba(X), pipeline.predict_proba(X))
    assert [*model.feature_names_in_] == ([*X.columns] if kind == "frame" else ["x0", "x1"])


@pytest.mark.parametrize(
    "coding",
    [
        {},
        {"drop": "first"},
        {"handle_unknown": "ignore"},
        {"drop": "if_binary", "handle_unknown": "ignore", "sparse_output": False},
    ],
    ids=str,
)
def test_a_pipeline_of_a_hospital_says_the_same(tmp_path, coding):
    pipeline = fitted(hospital(**coding))
    model = saved(pipeline, tmp_path)
    new = FRAME.iloc[:, ::-1].copy()  # in another order, with another column
    new["name"] = "x"
    np.testing.assert_allclose(
        model.predict_proba(new), pipeline.predict_proba(FRAME), rtol=0, atol=1e-14
    )
    path = tmp_path / "new.csv"
    new.to_csv(path, index=False)
    assert model.predict(path).tolist() == pipeline.predict(FRAME).tolist()
    new.loc[4, "sex"] = "other"
    if "handle_unknown" in coding:
        with warnings.catch_warnings(action="ignore"):
            wanted = pipeline.predict_proba(new)
        np.testing.assert_allclose(model.predict_proba(new), wanted, rtol=0, atol=1e-14)
    else:
        with pytest.raises(InvalidData, match='row 5, column "sex": is "other"'):
            model.predict(new)


def test_missing_categories_and_numbers_as_categories(tmp_path):
    coder = ColumnTransformer(
        [("coded", OneHotEncoder(sparse_output=False), ["ward", "grade"])],
        remainder="passthrough",
    )
    X = FRAME.drop(columns=["sex", "lactate"])
    pipeline = fitted(coder, X=X)
    model = saved(pipeline, tmp_path)
    assert np.array_equal(model.predict_proba(X), pipeline.predict_proba(X))
    assert model.features[:5] == (
        "ward=icu", "ward=medicine", "ward=surgery", "ward=(missing)", "grade=1",
    )  # fmt: skip


def test_columns_chosen_by_kind_and_left_out_and_a_regressor(tmp_path):
    chosen = ColumnTransformer(
        [("n", StandardScaler(), make_column_selector("age")), ("out", "drop", ["grade"])]
    )
    pipeline = fitted(chosen, y=FRAME["age"] * 2.0, last=SiloRidge(rounds=5))
    model = saved(pipeline, tmp_path)
    assert np.array_equal(model.predict(FRAME), pipeline.predict(FRAME))
    assert model.recipe.needs == ("age",)
    assert model.silos == dict.fromkeys(["bonn", "oslo", "rome"], "alive")


def test_of_a_search_the_best_is_taken(tmp_path):
    last = SiloLogisticRegression(rounds=5).set_fit_request(silos=True)
    grid = {"silologisticregression__C": [0.1, 1.0]}
    search = GridSearchCV(make_pipeline(hospital(), last), grid, cv=2).fit(FRAME, Y, silos=SILOS)
    model = saved(search, tmp_path)
    assert model.predict(FRAME).tolist() == search.predict(FRAME).tolist()


REFUSED = {
    "MinMaxScaler": ([MinMaxScaler()], "is a MinMaxScaler"),
    "products": ([PolynomialFeatures()], "is a PolynomialFeatures"),
    "twice": ([StandardScaler(), RobustScaler()], 'scales "age" after another step'),
    "order": ([StandardScaler(), SimpleImputer()], 'fills in "age" after another step'),
    "indicator": ([SimpleImputer(add_indicator=True)], "adds indicators"),
    "zeros": ([SimpleImputer(missing_values=0)], "takes 0 for missing"),
    "function": ([FunctionTransformer(np.log1p)], "calls a function of yours"),
    "rare": ([OneHotEncoder(min_frequency=30)], "puts rare categories together"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_file_can_carry_is_refused_in_words(what):
    steps, words = REFUSED[what]
    X = FRAME[["age", "grade"]].abs()
    with pytest.raises(InvalidData, match=words) as caught:
        to_model(fitted(*steps, X=X))
    assert 'the step "' in caught.value.what
    assert "joblib" in caught.value.remedy


def test_what_is_no_pipeline_of_ours_is_refused():
    estimator = SiloLogisticRegression(rounds=5).fit(FRAME[["age"]], Y, silos=SILOS)
    assert to_model(estimator).features == ("age",)
    for other in (make_pipeline(StandardScaler()), StandardScaler(), 3):
        with pytest.raises(InvalidData, match=r"is no estimator of bequest\.sklearn"):
            to_model(other)
    twice = ColumnTransformer([("a", StandardScaler(), ["age"]), ("b", MaxAbsScaler(), ["age"])])
    with pytest.raises(InvalidData, match="twice"):
        to_model(fitted(twice))


def coded(cells, **coding):
    """Return a pipeline that codes these cells, and its table."""
    X = pd.DataFrame({"g": np.resize(np.array(cells, dtype=object), ROWS)}).infer_objects()
    coder = OneHotEncoder(sparse_output=False, **coding)
    y = np.where(np.arange(ROWS) % len(cells) == 0, "no", "yes")
    return fitted(coder, X=X, y=y, last=SiloLogisticRegression()), X


@pytest.mark.parametrize("unknown", ["ignore", "error"])
@pytest.mark.parametrize(
    "odd", [" f", "f ", "\tf", "", "01", "1.0", "+1", "1e3", "-0.0", "nan", "NaN", "0.10"]
)
def test_texts_that_no_file_would_hold_are_no_categories(odd, unknown):
    """A file's cells are read without blanks, and as numbers where they look so: as others."""
    pipeline, _ = coded([odd, "m"], handle_unknown=unknown)
    with pytest.raises(InvalidData, match=re.escape(f'codes "g" by {odd!r}: read')):
        to_model(pipeline)


@pytest.mark.parametrize("unknown", ["ignore", "error"])
@pytest.mark.parametrize(
    "cells", [["f", "m"], ["1", "x"], ["1", "2"], ["None", "x"], [1, 2], [0.1, 2.5]]
)
def test_other_categories_are_read_from_a_file_as_they_were(tmp_path, cells, unknown):
    pipeline, X = coded(cells, handle_unknown=unknown)
    model = saved(pipeline, tmp_path)
    wanted = pipeline.predict_proba(X)
    for rows in (X, X[:1], X[1:2]):  # also where a file holds but one of them
        rows.to_csv(tmp_path / "new.csv", index=False)
        assert np.array_equal(model.predict_proba(tmp_path / "new.csv"), wanted[rows.index])
        assert np.array_equal(model.predict_proba(rows), wanted[rows.index])


def test_a_text_that_is_unknown_or_missing_is_asked_about_where_that_matters(tmp_path):
    pipeline, X = coded(["f", "m", np.nan], handle_unknown="ignore")
    model = saved(pipeline, tmp_path)
    X.to_csv(tmp_path / "gaps.csv", index=False, na_rep="NA")
    assert pd.read_csv(tmp_path / "gaps.csv").equals(X)
    for rows in (tmp_path / "gaps.csv", bq.data.read_table(tmp_path / "gaps.csv")):
        with pytest.raises(
            InvalidData, match='line 4, column "g": is "NA", which may be a missing'
        ):
            model.predict(rows)
    X.to_csv(tmp_path / "clean.csv", index_label="row")
    assert np.array_equal(model.predict_proba(tmp_path / "clean.csv"), pipeline.predict_proba(X))
    named = pd.DataFrame({"g": ["NA", "f"]})  # in a DataFrame it is text
    assert np.array_equal(model.predict_proba(named), pipeline.predict_proba(named))
    # where no cell was missing, both have no feature
    pipeline, _ = coded(["f", "m"], handle_unknown="ignore")
    gaps = pd.read_csv(tmp_path / "gaps.csv")
    found = saved(pipeline, tmp_path).predict_proba(tmp_path / "gaps.csv")
    assert np.array_equal(found, pipeline.predict_proba(gaps))


def test_large_whole_numbers_are_categories_where_no_digit_is_lost(tmp_path):
    cells = [2**53, 2**53 + 1]
    pipeline, X = coded(cells)
    assert X["g"].dtype == np.int64
    model = saved(pipeline, tmp_path)
    X.to_csv(tmp_path / "new.csv", index=False)
    for rows in (X, X.to_numpy(), tmp_path / "new.csv"):
        assert np.array_equal(model.predict_proba(rows), pipeline.predict_proba(X))
    assert (model.predict(X) == np.resize(["no", "yes"], ROWS)).all()
    with pytest.raises(InvalidData, match='row 1, column "g": is 9007199254740992, and float64'):
        model.predict({"g": [2.0**53]})
    pipeline, _ = coded([2.0**53, 1.5])
    with pytest.raises(InvalidData, match='codes "g" by 9007199254740992, which float64'):
        to_model(pipeline)
