"""Tables that go wrong in one way each: a run, or words with the place and what to do."""

import csv
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import bequest as bq
from bequest.data import as_table
from bequest.errors import InvalidData, LeavesTwice, NotFinite
from bequest.sklearn import SiloLogisticRegression

RUN = """
rounds = 20
[problem]
kind = "table"
{problem}
label = "ill"
loss = "logistic"
l2 = 0.01
[graph]
kind = "complete"
[departures]
events = [{{ node = {leaver}, round = 10 }}]
"""
NAMES = ("a\nb", "a b", 'c"d')


@pytest.fixture
def write(tmp_path):
    """Write a table and a run file about it."""

    def writes(change=lambda row, x, y, site, ill: (x, y, site, ill), leaver='"a b"', problem=""):
        rng = np.random.default_rng(1)
        rows = []
        for row in range(60):
            x, y = rng.normal(), rng.normal(5, 2)
            ill = "yes" if x + rng.normal() > 0 else "no"
            rows.append(change(row, x, y, NAMES[row % 3], ill))
        with (tmp_path / "t.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("x", "y", "site", "ill"), *rows])
        path = tmp_path / "run.toml"
        text = problem or 'file = "t.csv"\nsilo = "site"'
        path.write_text(RUN.format(problem=text, leaver=leaver))
        return path

    return writes


def test_names_with_line_breaks_are_on_one_line(bequest, write, tmp_path):
    path = write(leaver='"a\\nb"')
    made = ("--record", tmp_path / "runs", "--model", tmp_path / "models")
    shown = bequest("run", path, *made)
    assert shown.exit_code == 0, shown.output
    assert "nodes: 0 'a\\nb', 1 a b, 2 c\"d" in shown.stdout
    row = next(line for line in shown.stdout.splitlines() if "'a\\nb'" in line and "10" in line)
    assert " full " in row
    found = bequest("forget", path, "a\nb", "--record", tmp_path / "runs", "-o", tmp_path / "new")
    assert found.stdout.startswith("'a\\nb': what silo ")
    receipt = json.loads((tmp_path / "new" / "receipt.json").read_text())
    assert (receipt["silo"], receipt["holder_silo"] in NAMES) == ("a\nb", True)
    shown = bequest("model", "show", tmp_path / "new" / "model.json").stdout
    assert "'a\\nb': forgotten" in shown
    shown = bequest("data", tmp_path / "t.csv", "--label", "ill", "--silo", "site").stdout
    assert "silo 'a\\nb': 20 rows" in shown


@pytest.mark.parametrize(
    ("cell", "words", "remedy"),
    [
        ("inf", 'line 7, column "y": is inf', "Correct the cell, or remove the row"),
        ("nan", 'line 7, column "y": is missing', 'impute = "mean" does so'),
        ("1e300", 'line 7, column "y": is 1e+300, too large', "rescale the column"),
        ("-1e31", 'line 7, column "y": is -1e+31, too large', "rescale the column"),
    ],
)
def test_numbers_that_no_run_can_take_have_a_place(bequest, write, cell, words, remedy):
    def change(row, x, y, _, ill):
        return x, cell if row == 5 else y, "ab"[row % 2], ill

    shown = bequest("run", write(change, leaver='"a"'))
    assert shown.exit_code == 2
    assert words in shown.stderr
    assert remedy in shown.stderr
    assert "Warning" not in shown.stderr


def test_a_silo_of_one_class_and_a_constant_column_are_no_trouble(bequest, write):
    def change(row, x, y, site, ill):
        return x, 3, site, "yes" if site == "a b" else ill

    assert bequest("run", write(change)).exit_code == 0


def test_a_file_beside_those_of_silos_is_told(bequest, write, tmp_path):
    path = write(problem='files = "*.csv"', leaver='"t"')
    (tmp_path / "predictions.csv").write_text("prediction\nyes\n")
    shown = bequest("run", path)
    assert 'If one of them is no silo, keep it where "*.csv" does not match it.' in shown.stderr


def test_names_of_rows_are_not_proposed_as_categories(bequest, tmp_path):
    rows = "".join(
        f"P{n},{n % 50},{'ab'[n % 2]},{'ny'[n % 3 == 0]},2024-01-02\n" for n in range(60)
    )
    (tmp_path / "t.csv").write_text("patient,age,sex,ill,born\n" + rows)
    path = tmp_path / "run.toml"
    body = RUN.format(problem='file = "t.csv"', leaver=1).replace(
        "[graph]", '[problem.partition]\nkind = "iid"\nn = 3\n[graph]'
    )
    path.write_text(body)
    shown = bequest("run", path).stderr
    assert 'ignore = ["patient", "sex", "born"]' in shown
    assert 'categories = { sex = "agree" }' in shown
    path.write_text(body.replace("l2 = 0.01", 'l2 = 0.01\ncategories = { sex = "agree" }'))
    shown = bequest("run", path).stderr
    assert 'with ignore = ["patient", "born"], or name the features.' in shown


@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame([[1, 2], [3, 4]], columns=["x", "x"]),
        pd.DataFrame([[1, 2], [3, 4]], columns=[1, "1"]),
        pa.table([[1, 2], [3, 4]], names=["x", "x"]),
    ],
    ids=["frame", "names alike", "arrow"],
)
def test_two_columns_of_one_name_are_refused(rows):
    with pytest.raises(InvalidData, match="two columns are called"):
        as_table(rows)


def fitted(X, **options):
    y = np.arange(len(X)) % 2
    silos = np.array(["a", "b", "c"])[np.arange(len(X)) % 3]
    return SiloLogisticRegression(**options).fit(X, y, silos=silos)


@pytest.mark.parametrize("size", [1e80, 1e150, 1e300])
def test_an_estimator_says_which_numbers_are_too_large(size):
    X = np.random.default_rng(0).normal(size=(30, 2))
    X[4, 1] = -size
    with pytest.raises(NotFinite, match=f"X holds -1e\\+{round(np.log10(size))}, too large"):
        fitted(X)


def test_an_estimator_tells_of_silos_by_name():
    X = np.random.default_rng(0).normal(size=(30, 2))
    leaving = [bq.Departure("b", 10), bq.Departure("b", 20)]
    with pytest.raises(LeavesTwice) as caught:
        fitted(X, departures=leaving)
    told = "Departure(node='b', round=20): silo b has already left at round 10."
    assert caught.value.what == told
    with pytest.raises(InvalidData, match="one class only, 'yes'"):
        SiloLogisticRegression().fit(X, ["yes"] * 30)
