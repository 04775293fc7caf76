"""Models as ONNX graphs: what onnxruntime makes of them is what the model says."""

import numpy as np
import onnx
import onnxruntime
import pytest
from typer.testing import CliRunner

import bequest as bq
from bequest.cli import app
from bequest.data import Table, TrainedModel
from bequest.data.recipe import Category, Number, Recipe
from bequest.sklearn import SiloLogisticRegression

RECIPE = Recipe(
    (
        Number("age", mean=51.5, scale=10.25),
        Number("body weight", mean=70.0, scale=8.0, impute=True, indicator=True),
        Number("scan", 0, mean=1.0),
        Number("scan", 1, scale=3.0),
        Category("sex", ("f", "m"), impute=True, indicator=True),
        Category("ward", ("icu", "surgery")),
    )
)
RNG = np.random.default_rng(3)
COLUMNS = {
    "age": RNG.normal(50, 10, 200),
    "body weight": np.where(RNG.random(200) < 0.3, np.nan, RNG.normal(70, 9, 200)),
    "scan": RNG.normal(size=(200, 2)),
    "sex": RNG.choice(["f", "m", ""], 200),
    "ward": RNG.choice(["icu", "surgery"], 200),
}
CLASSES = {
    "text": ("no", "yes"),
    "int64": ("3", "7"),
    "uint8": ("0", "1"),
    "bool": ("False", "True"),
    "float32": ("0.5", "2"),
}


def asked(path, columns):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    rows = {name: np.asarray(c).reshape(len(c), -1) for name, c in columns.items()}
    given = {n: c.astype(object if c.dtype.kind == "U" else float) for n, c in rows.items()}
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, given), strict=True))


def made(loss, classes, class_type="text"):
    rows = len(classes) if loss == "softmax" else 1
    coef, intercept = RNG.normal(size=(rows, len(RECIPE.features))), RNG.normal(size=rows)
    return TrainedModel(loss, coef, intercept, classes, RECIPE, {"a": "alive"}, {}, class_type)


@pytest.mark.parametrize("class_type", [*CLASSES])
def test_two_classes(tmp_path, class_type):
    model, path = made("logistic", CLASSES[class_type], class_type), tmp_path / "model.onnx"
    model.to_onnx(path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    found = asked(path, COLUMNS)
    np.testing.assert_array_equal(found["prediction"], model.predict(Table(COLUMNS)))
    np.testing.assert_allclose(
        found["probabilities"], model.predict_proba(Table(COLUMNS)), rtol=1e-9, atol=1e-300
    )


@pytest.mark.parametrize(
    ("loss", "classes"), [("softmax", ("a", "b", "c")), ("least_squares", ()), ("huber", ())]
)
def test_more_classes_and_numbers(tmp_path, loss, classes):
    model, path = made(loss, classes), tmp_path / "model.onnx"
    model.to_onnx(path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    found = asked(path, COLUMNS)
    said = model.predict(Table(COLUMNS))
    if classes:
        np.testing.assert_array_equal(found["prediction"], said)
        shares = model.predict_proba(Table(COLUMNS))
        np.testing.assert_allclose(found["probabilities"], shares, rtol=1e-9)
    else:
        np.testing.assert_allclose(found["prediction"], said, rtol=1e-12, atol=1e-12)


def test_what_predict_refuses_is_not_a_number(tmp_path):
    model, path = made("logistic", ("no", "yes")), tmp_path / "model.onnx"
    model.to_onnx(path)
    for name, odd in (("ward", "attic"), ("age", np.nan)):
        columns = {key: np.array(cells[:2]) for key, cells in COLUMNS.items()}
        columns[name] = np.array([odd, columns[name][1]])
        with pytest.raises(bq.errors.InvalidData):
            model.predict(Table(columns))
        shares = asked(path, columns)["probabilities"]
        assert np.isnan(shares[0]).all()
        assert np.isfinite(shares[1]).all()


def test_an_estimator_is_exported_by_the_command(tmp_path):
    def bequest(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    X = RNG.normal(size=(60, 3))
    y = np.where(X @ [1, 2, 3] > 0, "sick", "well")
    fitted = SiloLogisticRegression(rounds=3).fit(X, y, silos=np.arange(60) % 3)
    fitted.to_model().save(tmp_path / "model.json")
    path = tmp_path / "model.onnx"
    done = bequest("model", "export", tmp_path / "model.json", "-o", path)
    assert done.exit_code == 0, done.output
    found = asked(path, {f"x{k}": X[:, k] for k in range(3)})
    np.testing.assert_array_equal(found["prediction"], fitted.predict(X))
    assert (
        "is there already" in bequest("model", "export", tmp_path / "model.json", "-o", path).stderr
    )
    again = bequest("model", "export", tmp_path / "model.json", "-o", path, "--overwrite")
    assert again.exit_code == 0


def test_what_a_pipeline_says_of_columns(tmp_path):
    """Cells filled in with something else than the mean, and categories without a feature."""
    recipe = Recipe(
        (
            Number("age", mean=50.0, scale=9.0, impute=True, fill=48.5),
            Category("sex", ("m",), silent=("f",)),
            Category("ward", ("icu", "surgery"), fill="surgery", silent=("home",)),
            Category("town", ("bonn",), lenient=True),
        )
    )
    columns = {
        "age": np.array([np.nan, 40.0, 61.0, 50.0]),
        "sex": np.array(["m", "f", "f", "m"]),
        "ward": np.array(["", "home", "icu", "surgery"]),
        "town": np.array(["bonn", "rome", "", "bonn"]),
    }
    coef = np.array([[0.5, -1.0, 0.75, 1.5, -0.25]])
    model = TrainedModel("least_squares", coef, np.array([2.0]), (), recipe, {"a": "alive"})
    model.to_onnx(tmp_path / "model.onnx")
    found = asked(tmp_path / "model.onnx", columns)["prediction"]
    np.testing.assert_allclose(found, model.predict(columns), rtol=0, atol=1e-13)
    codes = [[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 1]]
    ages = (np.array([48.5, 40.0, 61.0, 50.0]) - 50) / 9
    wanted = 2.0 + ages * 0.5 + np.array(codes) @ coef[0, 1:]
    np.testing.assert_allclose(model.predict(columns), wanted, rtol=0, atol=1e-13)
    for name, odd in (("sex", "x"), ("ward", "x")):
        changed = columns | {name: np.array([odd, *columns[name][1:]])}
        assert np.isnan(asked(tmp_path / "model.onnx", changed)["prediction"][0])
