"""Model files: read to the bit, or refused in words; whatever is loaded predicts."""

import copy
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import bequest as bq
from bequest import files
from bequest.data import Table, TrainedModel
from bequest.data.recipe import Category, Number, Recipe
from bequest.errors import BequestError, InvalidData, InvalidResult

GOLDEN = Path(__file__).parent / "golden"
RECIPE = Recipe(
    (
        Number("age", mean=51.5, scale=10.25),
        Number("weight", mean=70.0, scale=8.0, impute=True, indicator=True),
        Category("sex", ("f", "m"), impute=True, indicator=True),
    )
)
ROWS = Table({"sex": ["m", "f", ""], "weight": [70.5, np.nan, 91.0], "age": [40.0, 1 / 3, 1e8]})
KINDS = {"logistic": ("no", "yes"), "softmax": ("a", "b", "c"), "least_squares": (), "huber": ()}


def made(loss):
    rng = np.random.default_rng(1)
    rows = 3 if loss == "softmax" else 1
    return TrainedModel(
        loss=loss,
        coef=rng.standard_normal((rows, 6)) / 3,
        intercept=rng.standard_normal(rows) * 1e-17,
        classes=KINDS[loss],
        recipe=RECIPE,
        silos={"bonn": "alive", "rome": "remembered"},
        about={"status": "converged", "certificate": None, "numbers": [1.0, 2.5e-300]},
    )


@pytest.fixture
def reads(monkeypatch):
    """Let files hold what they are said to, without writing thousands of them."""
    return lambda raw: monkeypatch.setattr(files, "read", lambda _: raw)


def signed(content):
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {
        "format": "bequest model",
        "version": 2,
        "content": content,
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }


@pytest.mark.parametrize("loss", [*KINDS])
def test_what_was_saved_predicts_the_same_to_the_bit(tmp_path, loss):
    model, path = made(loss), tmp_path / "model.json"
    model.save(path)
    again = bq.load_model(path)
    assert np.array_equal(again.decision_function(ROWS), model.decision_function(ROWS))
    assert np.array_equal(again.predict(ROWS), model.predict(ROWS))
    if model.classes:
        assert np.array_equal(again.predict_proba(ROWS), model.predict_proba(ROWS))
    assert (again.silos, again.about) == (model.silos, model.about)
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def places(part, way=()):
    """Yield the way to everything in a document."""
    yield way
    if isinstance(part, dict | list):
        for key, value in part.items() if isinstance(part, dict) else enumerate(part):
            yield from places(value, (*way, key))


ODD = (None, True, -1, 0, 1.5, -(10**400), 1e308, "", "x", "\ud800", [], [[]], {}, {"x": 1})


def misfits(content):
    """Yield documents of which one part is of another kind, missing, or there once too often."""
    for way in places(content):
        for odd in ODD:
            changed = copy.deepcopy(content)
            if not way:
                yield odd
                continue
            inner = changed
            for key in way[:-1]:
                inner = inner[key]
            inner[way[-1]] = odd
            yield changed
        if way:
            for again in (False, True):
                changed = copy.deepcopy(content)
                inner = changed
                for key in way[:-1]:
                    inner = inner[key]
                if again and isinstance(inner, list):
                    inner.append(inner[way[-1]])
                else:
                    del inner[way[-1]]
                yield changed


@pytest.mark.parametrize("loss", ["logistic", "softmax", "huber"])
def test_content_that_does_not_fit_has_the_right_checksum_and_is_refused(tmp_path, loss, reads):
    path = tmp_path / "model.json"
    made(loss).save(path)
    content = json.loads(path.read_text())["content"]
    refused = loaded = 0
    for changed in misfits(content):
        reads(json.dumps(signed(changed)).encode())
        try:
            model = bq.load_model(path)
        except InvalidResult:
            refused += 1
            continue
        loaded += 1
        try:
            scores = model.decision_function(ROWS)
            model.predict(ROWS)
        except InvalidData:  # another column or category, or 1e308 times something
            continue
        assert scores.shape[0] == ROWS.rows
        assert np.isfinite(scores).all()
    assert refused > 700
    assert 20 < loaded < refused / 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["coef"][0].pop(), "coef: not every row has 6 numbers"),
        (lambda c: c["intercept"].append(1.0), "intercept: has 2 numbers, and coef 1 rows"),
        (lambda c: c.update(classes=["yes"]), "classes: there are 1"),
        (lambda c: c.update(classes=["yes", "yes"]), "classes: two have the same name"),
        (lambda c: c.update(loss="hinge"), "loss: input should be 'logistic'"),
        (lambda c: c["recipe"]["columns"][0].update(scale=-1.0), r"columns\.0.*greater than 0"),
        (lambda c: c["recipe"]["columns"][0].update(name="sex"), "features: they are not those"),
        (lambda c: c["recipe"]["columns"][2].update(values=["f", "f"]), "each of them once"),
        (lambda c: c["recipe"]["columns"][2].update(kind="word"), "does not match any"),
        (lambda c: c["silos"].update(rome="asleep"), "silos.rome"),
        (lambda c: c.update(run="rm"), "run: extra inputs"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, change, words):
    path = tmp_path / "model.json"
    made("logistic").save(path)
    content = json.loads(path.read_text())["content"]
    change(content)
    path.write_text(json.dumps(signed(content)))
    with pytest.raises(InvalidResult, match=words):
        bq.load_model(path)


def test_flipped_bytes_and_shorter_files_are_refused_or_harmless(tmp_path, reads):
    path, model = tmp_path / "model.json", made("logistic")
    model.save(path)
    raw = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in range(len(raw)):
        flipped = bytearray(raw)
        flipped[place] ^= 1 << int(rng.integers(8))
        reads(bytes(flipped))
        try:
            again = bq.load_model(path)
        except InvalidResult:
            continue
        assert np.array_equal(again.predict_proba(ROWS), model.predict_proba(ROWS))
        assert again.silos == model.silos
    for length in range(len(raw) - 1):
        reads(raw[:length])
        with pytest.raises(InvalidResult):
            bq.load_model(path)


@pytest.mark.parametrize("part", ["coef", "intercept"])
def test_a_model_with_nan_is_not_written(tmp_path, part):
    model = made("logistic")
    getattr(model, part).flat[0] = np.nan
    with pytest.raises(InvalidResult, match="cannot be saved"):
        model.save(tmp_path / "model.json")
    assert not [*tmp_path.iterdir()]


def test_what_is_no_file_or_too_deep_is_refused(tmp_path):
    deep = tmp_path / "deep.json"
    deep.write_text('{"format": ' + "[" * 200_000)
    whole = tmp_path / "about.json"
    nested = json.loads(json.dumps(signed({})))
    nested["content"] = {"about": [[[[]]]]}
    whole.write_text(json.dumps(nested))
    for path in (tmp_path, tmp_path / "none.json", deep, whole):
        with pytest.raises(BequestError):
            bq.load_model(path)


def test_rows_of_an_array_are_columns_in_order_or_refused_in_words():
    model = made("logistic")
    wanted = model.predict_proba({"age": [40.0], "weight": [70.0], "sex": ["f"]})
    for rows in ([[40.0, 70.0, "f"]], np.array([[40.0, 70.0, "f"]], dtype=object)):
        assert np.array_equal(model.predict_proba(rows), wanted)
    masked = np.ma.masked_array([[1.0, 2.0, 3.0]], [[True, False, False]])
    for rows, words in (
        ([[1.0, 2.0], [3.0]], "do not all have the same length"),
        (masked, "masked"),
        (np.array([[1.0, None, "f"]], dtype=object), "neither numbers nor text"),
        ([1.0, 2.0, 3.0], "needs 3 columns"),
    ):
        with pytest.raises(InvalidData, match=words):
            model.predict(rows)
    model.coef[0, 0] = 1e300
    with pytest.raises(InvalidData, match="row 2: its score is beyond"):
        model.predict([[51.5, 70.0, "f"], [1e300, 70.0, "f"]])


def test_files_of_the_first_version_are_still_read(tmp_path):
    """They did not say of what type classes are: these are text, as they were then."""
    model = bq.load_model(GOLDEN / "model-v1.json")
    rows = [[1.0, 1.0], [-1.0, -1.0]]
    assert model.predict(rows).tolist() == ["1", "0"]
    assert model.predict_proba(rows).tolist() == [
        [0.4173062188599173, 0.5826937811400827],
        [0.6821593874780627, 0.31784061252193724],
    ]
    assert model.silos == {"a": "alive", "b": "remembered", "c": "alive"}
    model.save(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text())["version"] == 3
    assert bq.load_model(tmp_path / "again.json").predict(rows).tolist() == ["1", "0"]


def test_files_of_the_second_version_are_still_read(tmp_path):
    model = bq.load_model(GOLDEN / "model-v2.json")
    rows = {"age": [51.5, np.nan], "sex": ["f", ""]}
    assert model.predict(rows).tolist() == [True, False]
    assert model.predict_proba(rows).tolist() == [
        [0.13937180169007427, 0.8606281983099258],
        [0.9149009549929797, 0.08509904500702024],
    ]
    model.save(tmp_path / "again.json")
    assert bq.load_model(tmp_path / "again.json").predict_proba(rows).tolist() == (
        model.predict_proba(rows).tolist()
    )


@pytest.mark.parametrize(
    ("names", "class_type", "words"),
    [
        (["no", "yes"], "bool", "not of the type bool"),
        (["0", "1.5"], "int64", "invalid literal"),
        (["0", "256"], "uint8", "does not fit into uint8"),
        (["0", "1_0"], "float64", "not of the type float64"),
        (["0", "1"], "complex64", "class_type: input should be"),
    ],
)
def test_classes_that_are_not_of_their_type_are_refused(tmp_path, reads, names, class_type, words):
    path = tmp_path / "model.json"
    made("logistic").save(path)
    content = json.loads(path.read_text())["content"]
    content |= {"classes": names, "class_type": class_type}
    reads(json.dumps(signed(content)).encode())
    with pytest.raises(InvalidResult, match=words):
        bq.load_model(path)


def test_a_model_grades_itself_and_has_scikit_learns_names():
    model = made("softmax")
    said = model.predict(ROWS)
    assert model.score(ROWS, said) == 1.0
    wrong = np.where(said == said[0], "z", said)
    right = float(np.average(wrong == said, weights=[1.0, 2.0, 5.0]))
    assert model.score(ROWS, wrong, [1.0, 2.0, 5.0]) == right
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.feature_names_in_.tolist() == ["age", "weight", "sex"]
    assert model.n_features_in_ == 3
    assert model.coef_.shape == (3, 6)
    assert np.array_equal(model.intercept_, model.intercept)
    shares = model.predict_proba(ROWS)
    with np.errstate(divide="ignore"):
        assert np.array_equal(model.predict_log_proba(ROWS), np.log(shares))
    number = made("huber")
    assert number.coef_.shape == (6,)
    assert isinstance(number.intercept_, float)
    assert not hasattr(number, "classes_")
    with pytest.raises(InvalidData, match="there are no classes"):
        number.predict_log_proba(ROWS)
    with pytest.raises(InvalidData, match=r"There are 3 rows, and y has shape \(2,\)"):
        number.score(ROWS, [1.0, 2.0])
    with pytest.raises(InvalidData, match="shifts or codes its columns"):
        number.predict(csr_array(np.ones((2, 3))))
