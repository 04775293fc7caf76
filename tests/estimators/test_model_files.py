"""A model that was loaded from a file says what its estimator says, to the bit."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, csr_matrix

import bequest as bq
from bequest.sklearn import SiloHuber, SiloLogisticRegression, SiloRidge

RNG = np.random.default_rng(7)
X = RNG.normal(size=(90, 7)) * 10.0 ** np.arange(-3, 4)
SILOS = np.arange(90) % 3
SCORE = X @ 10.0 ** -np.arange(-3.0, 4.0) + RNG.normal(size=90)
TWO, THREE = SCORE > 0, np.digitize(SCORE, [-2.0, 2.0])

LABELS = {
    "text": np.array(["well", "sick"])[TWO.astype(int)],
    "objects": np.array(["well", "sick"], dtype=object)[TWO.astype(int)],
    "booleans": TWO,
    "integers": THREE * 7 - 3,
    "small integers": THREE.astype(np.uint8),
    "floats": THREE.astype(float),
    "single floats": THREE.astype(np.float32),
    "negative floats": -TWO.astype(float),
}
# How rows may come.
SHAPES = {
    "rows": lambda rows: rows,
    "columns": np.asfortranarray,
    "every second": lambda rows: np.repeat(rows, 2, axis=0)[::2],
    "from an odd place": lambda rows: np.frombuffer(
        b"x" + rows.tobytes(), dtype=np.float64, offset=1
    ).reshape(rows.shape),
    "lists": lambda rows: rows.tolist(),
    "sparse": csr_array,
    "sparse matrix": csr_matrix,
}


def loaded(fitted, folder):
    fitted.to_model().save(folder / "model.json")
    return bq.load_model(folder / "model.json")


@pytest.mark.parametrize("labels", [*LABELS])
def test_a_loaded_classifier_is_its_estimator_to_the_bit(tmp_path, labels):
    y = LABELS[labels]
    fitted = SiloLogisticRegression(rounds=3).fit(X, y, silos=SILOS)
    again = loaded(fitted, tmp_path)
    assert again.classes_.dtype.kind == fitted.classes_.dtype.kind
    assert np.array_equal(again.classes_, fitted.classes_)
    assert np.array_equal(again.coef_, fitted.coef_)
    assert np.array_equal(again.intercept_, fitted.intercept_)
    for give in SHAPES.values():
        rows = give(X)
        said = again.predict(rows)
        assert np.array_equal(said, fitted.predict(rows))
        assert {type(one) for one in said.tolist()} == {type(one) for one in y.tolist()}
        for name in ("decision_function", "predict_proba", "predict_log_proba"):
            assert np.array_equal(getattr(again, name)(rows), getattr(fitted, name)(rows))
    weights = np.linspace(0.5, 2.0, 90)
    assert again.score(X, y) == fitted.score(X, y)
    assert again.score(X, y, weights) == pytest.approx(fitted.score(X, y, weights), abs=1e-15)


@pytest.mark.parametrize("estimator", [SiloRidge(rounds=3), SiloHuber(rounds=3)])
def test_a_loaded_regressor_is_its_estimator_to_the_bit(tmp_path, estimator):
    fitted = estimator.fit(X, SCORE, silos=SILOS)
    again = loaded(fitted, tmp_path)
    assert np.array_equal(again.coef_, fitted.coef_)
    assert again.intercept_ == fitted.intercept_
    for give in SHAPES.values():
        assert np.array_equal(again.predict(give(X)), fitted.predict(give(X)))
    weights = np.linspace(0.5, 2.0, 90)
    assert again.score(X, SCORE) == pytest.approx(fitted.score(X, SCORE), abs=1e-15)
    assert again.score(X, SCORE, weights) == pytest.approx(fitted.score(X, SCORE, weights), 1e-15)


def test_frames_go_by_name(tmp_path):
    frame = pd.DataFrame(X, columns=[*"abcdefg"])
    fitted = SiloLogisticRegression(rounds=3).fit(frame, LABELS["integers"], silos=SILOS)
    again = loaded(fitted, tmp_path)
    assert again.feature_names_in_.tolist() == fitted.feature_names_in_.tolist()
    assert again.n_features_in_ == fitted.n_features_in_
    turned = frame[[*"gfedcba"]].assign(extra=1)
    assert np.array_equal(again.predict_proba(turned), fitted.predict_proba(frame))
