"""From columns to features: imputation, categories, and sums that silos agree on."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import bequest as bq
from bequest import phases
from bequest.data import Table, as_table, problem_of, select, trained
from bequest.data.recipe import Recipe
from bequest.errors import InvalidData


def hospital(rows=240, seed=0):
    """Return a made table with categories and missing values, in unequal silos."""
    rng = np.random.default_rng(seed)
    age, pulse = rng.normal(60, 12, rows), rng.normal(80, 9, rows)
    sex = rng.choice(["f", "m"], rows)
    ward = rng.choice(["a", "b", "c"], rows, p=[0.5, 0.4, 0.1])
    ill = age / 12 + (sex == "m") + rng.normal(0, 1, rows) > 5.6
    pulse[rng.random(rows) < 0.2] = np.nan
    ward[rng.random(rows) < 0.1] = ""
    site = rng.choice(["bonn", "oslo", "rome"], rows, p=[0.6, 0.3, 0.1])
    columns = {"age": age, "pulse": pulse, "sex": sex, "ward": ward, "site": site}
    return Table(columns | {"ill": np.where(ill, "yes", "no")})


OPTIONS = {
    "label": "ill",
    "silo": "site",
    "impute": "mean",
    "categories": {"sex": ["f", "m"], "ward": "agree"},
    "bias": "unpenalised",
}


def theirs():
    """Return scikit-learn's pipeline of the same preprocessing."""
    numbers = ["age", "pulse"]
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), numbers),
            ("missing", MissingIndicator(), numbers),
            ("categories", OneHotEncoder(), ["sex", "ward"]),
        ]
    )


def test_samples_are_those_of_a_pooled_pipeline():
    table = hospital()
    samples = select(table, **OPTIONS)
    frame = pd.DataFrame(dict(table.columns))
    pooled = theirs().fit_transform(frame)
    pooled = pooled.toarray() if hasattr(pooled, "toarray") else pooled
    assert samples.features == (
        *("age", "pulse", "pulse is missing", "sex=f", "sex=m"),
        *("ward=a", "ward=b", "ward=c", "ward=(missing)"),
    )
    # theirs: age, pulse, pulse is missing, f, m, "", a, b, c
    np.testing.assert_allclose(samples.X[:, :9], pooled[:, [0, 1, 2, 3, 4, 6, 7, 8, 5]], atol=1e-12)
    assert samples.unpenalised == (9,)


@pytest.mark.parametrize("strength", [1e-3, 1.0, 1e3])
def test_a_made_hospital_table_gives_the_pooled_model(strength):
    table = hospital()
    samples = select(table, **OPTIONS)
    silos = bq.partition.by_column(samples.silo)
    problem = problem_of(samples, silos, loss="logistic", l2=1 / (strength * table.rows))
    best = problem.optimum()
    pooled = make_pipeline(
        theirs(), LogisticRegression(C=strength, tol=1e-12, solver="newton-cholesky")
    )
    frame = pd.DataFrame(dict(table.columns))
    pooled.fit(frame, frame["ill"])
    ours = samples.X @ best
    np.testing.assert_allclose(ours, pooled.decision_function(frame), atol=1e-6)


def test_silos_agree_by_phases_on_what_a_pooled_table_would_say():
    table = hospital()
    pooled = select(table, **OPTIONS)
    asked = []

    def total(parts):
        asked.append([part.size for part in parts])
        return phases.total(parts, graph=bq.graphs.path(3))

    agreed = select(table, **OPTIONS, total=total)
    np.testing.assert_allclose(agreed.X, pooled.X, atol=1e-10)
    # wards: how many of which lengths, and in cells; rows, cells, sums per column; rows, squares
    assert asked == [[40] * 3, [108] * 3, [7] * 3, [3] * 3]


def test_a_model_predicts_the_same_to_the_bit_from_any_kind_of_table(tmp_path):
    table = hospital(seed=3)
    samples = select(table, **OPTIONS)
    silos = bq.partition.by_column(samples.silo)
    problem = problem_of(samples, silos, loss="logistic", l2=0.1)
    leaving = [bq.Departure(0, 20), bq.Departure(2, 25)]
    wills = {None: bq.wills.Adaptive(), 2: bq.wills.Classic()}
    run = bq.solve(problem, bq.graphs.path(3), departures=leaving, will=wills, rounds=60)
    model = trained(run, samples, loss="logistic", names=["bonn", "oslo", "rome"])
    assert model.silos == {"bonn": "remembered", "oslo": "alive", "rome": "lost"}
    model.save(tmp_path / "model.json")
    again = bq.load_model(tmp_path / "model.json")
    assert again.recipe == model.recipe
    assert again.about == model.about
    frame = pd.DataFrame(dict(table.columns)).replace({"ward": {"": None}})
    shuffled = frame[["ward", "ill", "pulse", "age", "sex"]]
    for rows in (
        table,
        frame,
        shuffled,
        pa.Table.from_pandas(frame),
        frame.to_dict("list") | {"ward": table.columns["ward"]},
    ):
        assert np.array_equal(again.decision_function(rows), model.decision_function(table))
        assert np.array_equal(again.predict(rows), model.predict(table))
        assert np.array_equal(again.predict_proba(rows), model.predict_proba(table))
    scores = samples.X @ run.x.mean(axis=0)
    np.testing.assert_allclose(model.decision_function(table), scores, atol=1e-12)


def test_numbers_that_are_not_standardised_stay_as_they_are_with_the_mean_filled_in(tmp_path):
    gaps = [0.0, np.nan, 1.0, 2.0]
    table = Table({"a": [1.0, 2, 3, 6], "b": gaps, "y": [1.0, 2, 3, 4]})
    samples = select(
        table, label="y", classes=False, standardise=False, impute="mean", bias="unpenalised"
    )
    frame = pd.DataFrame({"a": [1.0, 2, 3, 6], "b": gaps})
    pooled = make_pipeline(SimpleImputer(add_indicator=True), Ridge(alpha=0.5))
    pooled.fit(frame, [1.0, 2, 3, 4])
    assert samples.X[:, :3].tolist() == pooled[0].transform(frame).tolist()
    assert samples.X[:, 0].tolist() == [1, 2, 3, 6]
    silos = [np.array([0, 1]), np.array([2, 3])]
    problem = problem_of(samples, silos, loss="least_squares", l2=0.5 / table.rows)
    run = bq.solve(problem, bq.graphs.complete(2), rounds=1)
    model = trained(run, samples, loss="least_squares", x=problem.optimum())
    new = {"a": [4.0, np.nan], "b": [np.nan, 3.0]}
    np.testing.assert_allclose(model.predict(new), pooled.predict(pd.DataFrame(new)), atol=1e-9)
    model.save(tmp_path / "model.json")
    again = bq.load_model(tmp_path / "model.json")
    assert np.array_equal(again.predict(new), model.predict(new))


def test_a_model_file_that_shifts_a_filled_column_goes_on_doing_so():
    """What files of before say: the mean, taken off and filled in, without a scale."""
    column = {"kind": "number", "name": "a", "part": None, "mean": 3.0, "scale": 1.0}
    column |= {"impute": True, "indicator": False, "fill": None}
    recipe = Recipe.from_dict({"columns": [column], "bias": False})
    assert recipe.matrix(Table({"a": [1.0, np.nan, 6.0]}))[:, 0].tolist() == [-2.0, 0.0, 3.0]


def test_of_numbers_to_predict_a_share_of_all_rows_is_kept_for_testing():
    x = np.arange(8.0)
    table = Table({"x": x, "y": x**2})
    samples = select(table, label="y", classes=False, test_fraction=0.25)
    assert (samples.rows.size, samples.exam) == (6, None)
    np.testing.assert_allclose(samples.X[:, 0].mean(), 0.0, atol=1e-12)
    assert np.array_equal(samples.y, samples.rows**2)


def test_constant_columns_and_columns_without_a_number():
    table = Table({"one": [3.1, 3.1, 3.1], "x": [1.0, 2.0, 4.0], "y": [0, 1, 0]})
    assert select(table, label="y").X[:, 0].tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)
    empty = Table({"none": [np.nan] * 3, "x": [1.0, 2.0, 4.0], "y": [0, 1, 0]})
    with pytest.raises(InvalidData, match="holds no number at all"):
        select(empty, label="y", impute="mean")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"impute": None}, r"row \d+, column .*: is (nan|empty)"),
        ({"impute": "median"}, "impute is 'median'"),
        ({"categories": {"sex": ["f"], "ward": "agree"}}, 'is "m", which is no known category'),
        ({"categories": {"sex": "f", "ward": "agree"}}, "categories are given as 'f'"),
        ({"categories": {"sex": ["f", "f"], "ward": "agree"}}, "each once"),
        ({"categories": {"site": "agree"}}, "is the silo column"),
        ({"categories": {"sxe": "agree"}}, 'Did you mean "sex"'),
        ({"features": ["age"], "categories": {"sex": "agree"}}, "none of the features"),
        ({"bias": "free"}, "bias is 'free'"),
    ],
)
def test_what_is_missing_or_unknown_is_told_in_words(options, words):
    with pytest.raises(InvalidData, match=words):
        select(hospital(), **OPTIONS | options)


def test_odd_tables_are_refused_and_dates_are_no_features():
    born = pd.to_datetime(["2001-02-03", None])
    dates = as_table(pd.DataFrame({"born": born, "age": [1, 2], "ill": ["n", "y"]}))
    with pytest.raises(InvalidData, match='the DataFrame: "born" holds dates, and nothing says'):
        select(dates, label="ill")
    assert select(dates, label="ill", ignore=["born"]).features == ("age",)
    with pytest.raises(InvalidData, match="A int is no table"):
        as_table(3)
    table = as_table(pd.DataFrame({"a": [1, None], "b": [True, False], "c": ["x", None]}))
    assert np.isnan(table.columns["a"][1])
    assert table.columns["b"].tolist() == [1.0, 0.0]
    assert table.columns["c"].tolist() == ["x", ""]


def test_a_recipe_is_used_where_the_data_are(tmp_path):
    table = hospital()
    samples = select(table, **OPTIONS)
    silos = bq.partition.by_column(samples.silo)
    here = problem_of(samples, silos, loss="logistic", l2=0.1)
    for node, rows in enumerate(silos):
        path = tmp_path / f"{node}.npz"
        np.savez(path, **{name: column[rows] for name, column in table.columns.items()})
        load = bq.data.loader(
            path,
            label="ill",
            loss="logistic",
            classes=["no", "yes"],
            bias="unpenalised",
            l2=0.1,
            divisor=table.rows / 3,
            recipe=samples.recipe,
        )
        there = bq.Loaded(load, dim=here.dim, curvature=here.objective(node).curvature)
        x = np.linspace(-1, 1, here.dim)
        np.testing.assert_allclose(there.gradient(x), here.objective(node).gradient(x), atol=1e-12)
    with pytest.raises(InvalidData, match="recipe says which features"):
        bq.data.loader("a.csv", label="y", loss="huber", features=["x"], recipe=samples.recipe)
