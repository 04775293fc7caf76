"""``bequest run --model``, ``bequest predict``, ``bequest model show``."""

import json

import numpy as np
import pytest

import bequest as bq
from bequest.errors import InvalidResult
from bequest.sklearn import SiloHuber, SiloLogisticRegression

RUN = """
rounds = 200
[problem]
kind = "table"
file = "people.csv"
label = "ill"
loss = "logistic"
l2 = 0.1
silo = "town"
impute = "mean"
penalise_bias = false
categories = { sex = ["f", "m"] }
[graph]
kind = "complete"
[departures]
events = [{ node = 1, round = 50 }]
[[wills]]
kind = "adaptive"
"""


@pytest.fixture
def bequest(bequest):
    def run(*arguments, code=0):
        found = bequest(*arguments)
        assert found.exit_code == code, found.output
        return found

    return run


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["town,age,weight,sex,ill"]
    for row in range(90):
        age, sex = rng.normal(50, 10), "fm"[row % 2]
        weight = "" if row % 7 == 0 else f"{rng.normal(70, 8):.1f}"
        ill = "yes" if age + rng.normal(0, 5) > 52 else "no"
        lines.append(f"{('Bonn', 'Oslo', 'Rome')[row % 3]},{age:.1f},{weight},{sex},{ill}")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "run.toml").write_text(RUN)
    (tmp_path / "new.csv").write_text("extra,sex,weight,age\n1,f,,40\n2,m,70.5,61.5\n")
    return tmp_path


@pytest.fixture
def model(folder, bequest):
    bequest("run", folder / "run.toml", "--model", folder / "out")
    return folder / "out" / "model.json"


def test_a_run_leaves_a_model_that_predicts(model, folder, bequest):
    found = bequest("predict", model, folder / "new.csv", "--proba")
    head, first, second = found.stdout.splitlines()
    assert head == "prediction,probability of no,probability of yes"
    assert first.startswith("no,")
    assert second.startswith("yes,")
    assert "these columns are not used: extra" in found.stderr
    bequest("predict", model, folder / "new.csv", "-o", folder / "out.csv")
    assert (folder / "out.csv").read_text() == "prediction\nno\nyes\n"
    (folder / "out.csv").write_text("mine\n")
    told = bequest("predict", model, folder / "new.csv", "-o", folder / "out.csv", code=2)
    assert "out.csv is there already" in told.stderr
    assert (folder / "out.csv").read_text() == "mine\n"
    bequest("predict", model, folder / "new.csv", "-o", folder / "out.csv", "--overwrite")
    assert (folder / "out.csv").read_text() == "prediction\nno\nyes\n"
    bequest("predict", model, folder / "new.csv", "-o", "/dev/null")
    proba = bq.load_model(model).predict_proba(folder / "new.csv")
    assert first == f"no,{proba[0, 0]!r},{proba[0, 1]!r}".replace("np.float64(", "").replace(
        ")", ""
    )


def test_a_model_says_what_is_in_it(model, bequest):
    shown = bequest("model", "show", model).stdout
    for words in ("Oslo: remembered", "Bonn: alive", "weight is missing", "sex=f", "fingerprint"):
        assert words in shown
    document = json.loads(bequest("model", "show", model, "--json").stdout)
    assert document["silos"] == {"Bonn": "alive", "Oslo": "remembered", "Rome": "alive"}
    assert document["about"]["label"] == "ill"
    assert len(document["coef"][0]) == len(document["features"]) == 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace('"version": 3', '"version": 4'), "of version 4"),
        (lambda text: text.replace("alive", "alivf", 1), "damaged"),
        (lambda text: text[:-40], "no model file"),
        (lambda text: text.replace("bequest model", "bequest modem"), "no model file"),
        (lambda text: "[1]", "no model file"),
    ],
)
def test_a_file_that_is_no_model_any_more_is_refused(model, folder, change, words, bequest):
    model.write_text(change(model.read_text()))
    with pytest.raises(InvalidResult, match=words):
        bq.load_model(model)
    found = bequest("predict", model, folder / "new.csv", "-o", folder / "out.csv", code=2)
    assert words in found.stderr
    assert not (folder / "out.csv").exists()


def test_any_flipped_bit_is_noticed(model):
    raw = model.read_bytes()
    rng = np.random.default_rng(5)
    for place in rng.integers(0, len(raw), 60).tolist():
        flipped = bytearray(raw)
        flipped[place] ^= 1 << int(rng.integers(0, 8))
        model.write_bytes(bytes(flipped))
        try:
            again = bq.load_model(model)
        except InvalidResult:
            continue
        # white space, or a digit beyond the last that counts
        model.write_bytes(raw)
        whole = bq.load_model(model)
        assert np.array_equal(again.coef, whole.coef)
        assert again.recipe == whole.recipe


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("sex,age\nf,40\n", 'has no column "weight"'),
        ("sex,weight,age\nx,70,40\n", 'is "x", which is no known category'),
        ("sex,weight,age\nf,heavy,40\n", 'is "heavy", which is not a number'),
        ("sex,weight,age\n,70,40\n", "is empty, and no silo lacked one"),
        ("sex,weight,age\nf,,40\n", "prediction"),
    ],
)
def test_new_rows_that_do_not_fit_are_told_in_words(model, folder, rows, words, bequest):
    (folder / "new.csv").write_text(rows)
    good = words == "prediction"
    found = bequest("predict", model, folder / "new.csv", code=0 if good else 2)
    assert words in (found.stdout if good else found.stderr)


def test_only_tables_have_models(folder, bequest):
    path = folder / "quadratics.toml"
    path.write_text(
        'rounds = 5\n[problem]\nkind = "quadratics"\nn = 3\ndim = 2\nmu = 1.0\nL = 2.0\n'
        '[graph]\nkind = "complete"\n'
    )
    found = bequest("run", path, "--model", folder / "out", code=2)
    assert "only a table has rows" in found.stderr
    assert not (folder / "out").exists()
    assert "does not exist" in bequest("model", "show", folder / "none.json", code=2).stderr


def test_an_estimator_becomes_a_model_of_the_same_numbers(tmp_path):
    rng = np.random.default_rng(1)
    X, silos = rng.normal(size=(60, 3)), np.arange(60) % 3
    y = np.where(X @ [1, 2, 3] + rng.normal(size=60) > 0, "sick", "well")
    fitted = SiloLogisticRegression(departures=[bq.Departure(1, 30)], rounds=60)
    fitted.fit(X, y, silos=silos)
    fitted.to_model().save(tmp_path / "model.json")
    again = bq.load_model(tmp_path / "model.json")
    assert again.silos == {"0": "alive", "1": "remembered", "2": "alive"}
    assert np.array_equal(again.predict(X), fitted.predict(X))
    np.testing.assert_allclose(again.predict_proba(X), fitted.predict_proba(X), rtol=1e-14)
    number = SiloHuber(rounds=5).fit(X, X[:, 0]).to_model()
    np.testing.assert_allclose(number.predict(X), X[:, 0], atol=1e-6)
    with pytest.raises(ValueError, match="no classes"):
        number.predict_proba(X)
    with pytest.raises(ValueError, match="needs 3 columns"):
        number.predict(X[:, :2])
    number.save(tmp_path / "model.json")  # as joblib.dump does; the command asks for --overwrite
    assert bq.load_model(tmp_path / "model.json").loss == "huber"
