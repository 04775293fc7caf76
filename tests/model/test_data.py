"""Tables: what is read, what is chosen, and what is wrong with a file, by line and column."""

import sys

import numpy as np
import pytest

import bequest as bq
from bequest.data import Exam, Samples, Table, problem_of, read_table, select
from bequest.errors import InvalidData, NotInstalled

CSV = "town,age,ill\nBonn,30,no\nRome,40,yes\nBonn,50,yes\nRome,60,no\n"


@pytest.fixture
def csv(tmp_path):
    def write(text, name="people.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def refused(act):
    with pytest.raises(InvalidData) as caught:
        act()
    assert caught.value.remedy
    return caught.value


# --- reading ------------------------------------------------------------------------------


def test_a_csv_has_numbers_and_text(csv):
    table = read_table(csv(CSV))
    assert list(table.columns) == ["town", "age", "ill"]
    assert table.columns["age"].tolist() == [30, 40, 50, 60]
    assert table.columns["town"].tolist() == ["Bonn", "Rome", "Bonn", "Rome"]
    assert table.rows == 4
    assert not table.columns["age"].flags.writeable


def test_a_csv_may_have_a_bom_quotes_blanks_and_windows_line_ends(csv):
    text = '\ufefftown, age\r\n"Bonn, Rhine", 3\r\n\r\n"two\nlines", 4\r\n'
    table = read_table(csv(text))
    assert table.columns["town"].tolist() == ["Bonn, Rhine", "two\nlines"]
    assert table.columns["age"].tolist() == [3, 4]
    assert list(table.lines) == [2, 4]


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        ("", "people.csv is empty.", "with data"),
        ("\n\n", "people.csv is empty.", "with data"),
        ("a,b\n", "has a header, but no rows.", "with data"),
        ("a,b\n1,2\n3\n", "line 3: has 1 cells, but the header has 2.", "one cell per column"),
        ("a,b\n1,2,3\n", "line 2: has 3 cells", "quotes"),
        ('a,b\n"1\n2",3\n4\n', "line 4: has 1 cells", "one cell"),
        ("a,\n1,2\n", "line 1: column 2 has no name.", "Name every column"),
        ("a,a\n1,2\n", 'line 1: two columns are called "a".', "name of its own"),
        ("1,2\n3,4\n", "line 1: holds numbers", "Add a first line"),
        ("a;b\n1;2\n", "line 1: is a single column.", "commas"),
        (b"a,b\n\xff,2\n", "is not text: byte 4", "UTF-8"),
        ('a,b\n"1,2\n', "is not CSV", "quotes"),
    ],
)
def test_a_broken_csv_says_where(csv, text, what, remedy):
    error = refused(lambda: read_table(csv(text)))
    assert what in error.what
    assert remedy in error.remedy
    assert "people.csv" in error.what


def test_files_that_are_no_tables(tmp_path):
    assert "does not exist" in refused(lambda: read_table(tmp_path / "no.csv")).what
    assert "known kind" in refused(lambda: read_table(tmp_path / "data.xlsx")).what
    (tmp_path / "folder.csv").mkdir()
    assert "cannot be read" in refused(lambda: read_table(tmp_path / "folder.csv")).what


def test_an_npz_has_columns_and_blocks(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.arange(8.0).reshape(4, 2), y=[0, 1, 0, 1], town=["a", "b", "a", "b"])
    samples = select(read_table(path), label="y", silo="town", standardise=False)
    assert samples.features == ("X[0]", "X[1]")
    assert samples.X.tolist() == [[0, 1, 1], [2, 3, 1], [4, 5, 1], [6, 7, 1]]


def test_broken_npz_files(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.ones((2, 3, 4)))
    assert 'column "X": holds neither' in refused(lambda: read_table(path)).what
    np.savez(path, X=np.ones(3), y=np.ones(4))
    assert 'column "y": has 4 rows' in refused(lambda: read_table(path)).what
    np.savez(path, X=np.array([{}, {}], dtype=object))
    assert "cannot be read as NPZ" in refused(lambda: read_table(path)).what
    whole = path.read_bytes()
    for content in (whole[:40], b"not a zip file"):
        path.write_bytes(content)
        assert "cannot be read as NPZ" in refused(lambda: read_table(path)).what
    with path.open("wb") as file:
        np.save(file, np.ones(3))
    assert "no archive of arrays" in refused(lambda: read_table(path)).what


def test_a_parquet_file_is_the_same_table(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "a.parquet"
    columns = {
        "town": pa.array(["Bonn", "Rome", None]).dictionary_encode(),
        "age": pa.array([30, None, 50]),
        "weight": pa.array([1.5, 2.5, 3.5]),
        "ill": pa.array([True, False, True]),
    }
    pq.write_table(pa.table(columns), path)
    table = read_table(path)
    assert table.columns["town"].tolist() == ["Bonn", "Rome", ""]
    assert table.columns["weight"].tolist() == [1.5, 2.5, 3.5]
    assert table.columns["ill"].tolist() == [1, 0, 1]
    error = refused(lambda: select(table, label="ill", ignore=["town"]))
    assert error.what.endswith('a.parquet, row 2, column "age": is missing (empty, or NaN).')
    pq.write_table(pa.table({"x": pa.array([[1, 2], [3]])}), path)
    assert 'column "x": holds list' in refused(lambda: read_table(path)).what
    path.write_bytes(b"PAR1 and then something else")
    assert "as Parquet" in refused(lambda: read_table(path)).what


def test_what_is_not_installed_is_named(csv, monkeypatch):
    path = csv("x", "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(NotInstalled, match="pyarrow") as caught:
        read_table(path)
    assert 'pip install "bequest[parquet]"' in caught.value.remedy
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for load in (bq.datasets.digits, bq.datasets.breast_cancer):
        with pytest.raises(ImportError, match="scikit-learn") as missing:
            load()
        assert 'pip install "bequest[data]"' in missing.value.remedy


def test_datasets_are_plain_read_only_arrays():
    X, y = bq.datasets.digits()
    assert type(X) is type(y) is np.ndarray
    assert X.shape == (1797, 64)
    assert sorted(set(y.tolist())) == list(range(10))
    assert not X.flags.writeable
    assert not y.flags.writeable


# --- choosing -----------------------------------------------------------------------------


def test_the_usual_choice(csv):
    samples = select(read_table(csv(CSV)), label="ill", silo="town")
    assert samples.features == ("age",)
    assert samples.classes == ("no", "yes")
    assert samples.y.tolist() == [0, 1, 1, 0]
    assert samples.silo.tolist() == ["Bonn", "Rome", "Bonn", "Rome"]
    np.testing.assert_allclose(samples.X.mean(axis=0), [0, 1], atol=1e-12)
    np.testing.assert_allclose(samples.X.std(axis=0), [1, 0], atol=1e-12)
    assert samples.exam.on == "training"


def test_numbers_to_predict_have_no_classes(csv):
    samples = select(read_table(csv("x,y\n1,2.5\n2,3.5\n")), label="y", classes=False, bias=False)
    assert samples.y.tolist() == [2.5, 3.5]
    assert samples.classes == ()
    assert samples.exam is None
    assert samples.X.shape == (2, 1)


def test_the_test_rows_do_not_shape_the_features():
    rng = np.random.default_rng(0)
    table = Table({"x": rng.normal(size=100), "constant": np.ones(100), "y": np.arange(100) % 4})
    samples = select(table, label="y", test_fraction=0.25, seed=3)
    assert samples.y.size == 76
    assert samples.exam.y.size == 24
    assert samples.exam.on == "test"
    assert np.bincount(samples.exam.y).tolist() == [6, 6, 6, 6]
    np.testing.assert_allclose(samples.X[:, 0].std(), 1)
    assert not samples.X[:, 1].any()  # a constant is centred, and not divided by nothing
    assert samples.classes == ("0", "1", "2", "3")
    assert sorted([*samples.rows]) == samples.rows.tolist()
    again = select(table, label="y", test_fraction=0.25, seed=3)
    assert np.array_equal(again.X, samples.X)


@pytest.mark.parametrize("silo", ["town", None])
@pytest.mark.parametrize("given", ["agree", ["a", "b", "rare"]])
def test_rows_to_test_on_say_which_categories_there_are(silo, given):
    rows = 40
    whole = {
        "town": np.array(["Bonn", "Rome"] * (rows // 2)),
        "age": np.random.default_rng(0).normal(50, 10, size=rows),
        "ward": np.array(["a", "a", "b", "b"] * (rows // 4)),
        "ill": np.array(["no", "yes", "yes", "no"] * (rows // 4)),
    }
    options = {
        "label": "ill", "silo": silo, "categories": {"ward": given}, "impute": "mean",
        "ignore": () if silo else ("town",), "test_fraction": 0.3, "seed": 5,
    }  # fmt: skip
    plain = select(Table(whole), **options | {"categories": {"ward": "agree"}})
    held_out = np.setdiff1d(np.arange(rows), plain.rows)
    ward = whole["ward"].astype("U8")
    ward[held_out[0]], ward[held_out[1]] = "rare", ""
    samples = select(Table(whole | {"ward": ward}), **options)
    assert samples.features == ("age", "ward=a", "ward=b", "ward=rare", "ward=(missing)")
    assert np.array_equal(samples.rows, plain.rows)
    assert not samples.X[:, 3:5].any()
    assert samples.exam.X[:, 3:5].sum(axis=0).tolist() == [1, 1]
    assert np.array_equal(samples.X[:, :3], plain.X[:, :3])  # means are those of training rows
    ward[held_out[1]] = "a"
    samples = select(Table(whole | {"ward": ward}), **options)
    assert samples.features == ("age", "ward=a", "ward=b", "ward=rare")


@pytest.mark.parametrize(
    ("text", "options", "what", "remedy"),
    [
        (CSV, {"label": "il"}, 'people.csv has no column "il".', 'Did you mean "ill"?'),
        (CSV, {"label": "zzz"}, 'no column "zzz"', 'It has "town", "age", "ill".'),
        (CSV, {"label": "ill", "silo": "twn"}, 'no column "twn"', '"town"'),
        (CSV, {"label": "ill", "features": ["agee"]}, 'no column "agee"', '"age"'),
        (
            CSV,
            {"label": "ill", "features": ["town"]},
            'people.csv, line 2, column "town": is "Bonn", which is not a number.',
            "leave it out",
        ),
        (
            "age,ill\n30,no\n4O,yes\n",
            {"label": "ill"},
            'people.csv, line 3, column "age": is "4O", which is not a number.',
            "Correct the cell",
        ),
        (
            "age,ill\n30,no\n\n,yes\n",
            {"label": "ill"},
            'people.csv, line 4, column "age": is missing (empty, or NaN).',
            "missing value",
        ),
        (
            "age,ill\n30,no\nnan,yes\n",
            {"label": "ill"},
            'people.csv, line 3, column "age": is missing (empty, or NaN).',
            "missing value",
        ),
        (
            "age,ill\n30,no\ninf,yes\n",
            {"label": "ill"},
            'people.csv, line 3, column "age": is inf.',
            "Correct the cell",
        ),
        (
            "age,ill\n30,no\n31,\n",
            {"label": "ill"},
            'people.csv, line 3, column "ill": is empty.',
            "missing value",
        ),
        (
            "age,ill\n30,no\n31,no\n",
            {"label": "ill"},
            'people.csv, column "ill": every label is no.',
            "two classes",
        ),
        (
            "age,ill,town\n30,no,7\n31,yes,7\n",
            {"label": "ill", "silo": "town"},
            'people.csv, column "town": every row belongs to 7.',
            "partition",
        ),
        (
            "town,ill\na,b\nc,d\n",
            {"label": "ill", "silo": "town"},
            "no column besides",
            "one feature",
        ),
        (
            CSV,
            {"label": "ill"},
            'people.csv: "town" is text, and nothing says',
            'ignore = ["town"]',
        ),
        (CSV, {"label": "ill", "ignore": "town"}, "ignore is 'town', which is no list", '["town"]'),
        (CSV, {"label": "ill", "features": ["ill"]}, "is the label, and a feature", "Remove"),
        (CSV, {"label": "ill", "features": ["age", "age"]}, "named twice", "once"),
        (
            CSV,
            {"label": "ill", "ignore": ["town"], "classes": False},
            'line 2, column "ill": is "no"',
            "Correct",
        ),
        (
            "age,ill,town\n1,a,x\n2,a,y\n3,b,y\n4,b,y\n5,b,y\n",
            {"label": "ill", "silo": "town", "test_fraction": 0.5, "seed": 1},
            'column "town": all rows of x were drawn for testing.',
            "smaller test fraction",
        ),
    ],
)
def test_a_wrong_choice_names_file_line_and_column(csv, text, options, what, remedy):
    path = csv(text)

    def choose():
        for seed in range(20):  # which rows are tested is drawn; any seed that errs will do
            select(read_table(path), **{"seed": seed, **options})

    error = refused(choose)
    assert what in error.what
    assert remedy in error.remedy


def test_a_text_column_is_told_and_so_is_a_nearly_numeric_one(csv):
    table = read_table(csv("name,born,none,age,ill\nAnn,2001-02-03,,30,no\nBob,,,x,yes\n"))
    assert not table.is_numeric("name")
    error = refused(lambda: select(table, label="ill"))
    assert '"name" is text, "born" holds dates, "none" is empty, and nothing says' in error.what
    assert table.is_numeric("age")
    error = refused(lambda: select(table, label="ill", ignore=["name", "born", "none"]))
    assert 'line 3, column "age"' in error.what


def test_a_block_cannot_be_a_label():
    table = Table({"X": np.ones((4, 2)), "y": [0, 1, 0, 1]})
    assert "block of 2 columns" in refused(lambda: select(table, label="X")).what


def test_tables_of_ones_own_arrays_are_checked():
    assert "holds no rows" in refused(lambda: Table({"x": np.empty(0)})).what
    assert "neither numbers nor text" in refused(lambda: Table({"x": [None, 1]})).what


# --- losses and grades --------------------------------------------------------------------


def test_every_sample_weighs_alike_whatever_the_silos():
    rng = np.random.default_rng(1)
    table = Table({"x": rng.normal(size=60), "y": rng.integers(0, 3, 60)})
    samples, numbers = select(table, label="y"), select(table, label="y", classes=False)
    uneven = [np.arange(50), np.arange(50, 60)]
    for loss, choice in (("softmax", samples), ("least_squares", numbers), ("huber", numbers)):
        optima = [
            problem_of(choice, silos, loss=loss, l2=0.1).optimum()
            for silos in (uneven, bq.partition.iid(60, 2, seed=0))
        ]
        np.testing.assert_allclose(*optima, atol=1e-9)


def test_silos_weigh_alike_where_that_is_asked_for():
    table = Table({"x": [1.0, 1.0, 1.0, 1.0], "y": [0.0, 0.0, 0.0, 8.0]})
    samples = select(table, label="y", classes=False, standardise=False, bias=False)
    silos = [np.arange(3), np.arange(3, 4)]
    optima = {
        weigh: problem_of(samples, silos, loss="least_squares", weigh=weigh).optimum()[0]
        for weigh in ("samples", "silos")
    }
    assert optima == {"samples": pytest.approx(2.0), "silos": pytest.approx(4.0)}
    error = refused(lambda: problem_of(samples, silos, loss="least_squares", weigh="rows"))
    assert '"samples"' in error.remedy


def test_the_loss_is_the_one_asked_for():
    table = Table({"x": [0.0, 1.0, 2.0, 4.0], "y": [0, 1, 0, 1]})
    silos = bq.partition.iid(4, 2, seed=0)
    kinds = {
        "logistic": bq.Logistic,
        "softmax": bq.Softmax,
        "least_squares": bq.LeastSquares,
        "huber": bq.Huber,
    }
    for loss, kind in kinds.items():
        samples = select(table, label="y", classes=loss in ("logistic", "softmax"))
        objective = problem_of(samples, silos, loss=loss, l2=0.2, delta=0.3).objective(0)
        assert type(objective) is kind
        assert objective.l2 == 0.2
    assert objective.delta == 0.3
    three = select(Table({"x": [1.0, 2, 3], "y": [0, 1, 2]}), label="y")
    error = refused(lambda: problem_of(three, bq.partition.iid(3, 2, seed=0), loss="logistic"))
    assert "softmax" in error.remedy


def test_logistic_and_softmax_models_are_graded_alike():
    exam = Exam(np.array([[1.0], [2.0], [-1.0]]), np.array([1, 1, 1]), ("a", "b"), "test")
    for model in (np.array([1.0]), np.array([-0.5, 0.5])):
        score = exam.score(model)
        assert score.accuracy == pytest.approx(2 / 3)
        assert score.recall == {"a": None, "b": pytest.approx(2 / 3)}
    assert "5 parameters" in refused(lambda: exam.score(np.ones(5))).what


# --- numbers, and what only looks like them -------------------------------------------------


@pytest.mark.parametrize("cell", ["1_0", "１２", "٣", "1_0.5", "1e１"])
@pytest.mark.parametrize("others", ["5", None])
def test_a_cell_that_python_but_no_table_reads_as_a_number(csv, cell, others):
    """Also where every cell of the column is of that kind, and none looks like text."""
    table = read_table(csv(f"x,y,z\n1,{others or cell},a\n2,{cell},b\n"))
    error = refused(lambda: select(table, label="z"))
    line = 3 if others else 2
    assert error.what.endswith(f'line {line}, column "y": is "{cell}", which is not a number.')
    assert "line 1" in refused(lambda: read_table(csv(f"{cell},2\n3,4\n"))).what


@pytest.mark.parametrize(
    "cell", ["1", "-1", "+1.", ".5", "1e3", "1E-3", "-.5e+10", "007", "1e400", "NaN", "-Infinity"]
)
def test_a_number_is_read_as_python_reads_it(csv, cell):
    found = read_table(csv(f"x\n{cell}\n")).columns["x"]
    assert found.tobytes() == np.array([float(cell)]).tobytes()


@pytest.mark.parametrize("cell", ["1e400", "nan", "-inf", "Infinity"])
def test_a_number_that_is_not_finite_is_refused(csv, cell):
    table = read_table(csv(f"x,z\n1,a\n{cell},b\n"))
    assert 'line 3, column "x": is ' in refused(lambda: select(table, label="z")).what


def test_masked_entries_are_missing_ones():
    numbers = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], mask=[[0, 0], [0, 1]])
    text = np.ma.masked_array(["a", "b"], mask=[1, 0])
    assert refused(lambda: Table({"x": numbers})).what.endswith(
        'row 2, column "x": is masked, that is, missing.'
    )
    assert 'row 1, column "t"' in refused(lambda: Table({"t": text})).what
    assert 'row 2, column "x"' in refused(lambda: Table({"x": [1.0, np.ma.masked]})).what
    assert Table({"x": np.ma.masked_array([1.0, 2.0])}).columns["x"].tolist() == [1.0, 2.0]
    exam = {"X": np.eye(2), "y": np.array([0, 1]), "classes": ("a", "b"), "on": "test"}
    for name, values in (("X", numbers), ("y", numbers[1])):
        assert f"{name} is masked" in refused(lambda n=name, v=values: Exam(**exam | {n: v})).what
    assert "x is masked" in refused(lambda: Exam(**exam).score(numbers[1])).what
    samples = {
        "X": np.eye(2), "y": np.zeros(2), "features": ("a", "b"), "classes": (), "silo": None,
        "rows": np.arange(2), "exam": None,
    }  # fmt: skip
    for name, values in (("X", numbers), ("y", numbers[1]), ("silo", text), ("rows", text)):
        error = refused(lambda n=name, v=values: Samples(**samples | {n: v}))
        assert f"{name} is masked at index" in error.what


def test_what_is_printed_are_shapes():
    rows = 5000
    table = Table(
        {"age": np.arange(rows), "town": ["Rome", "Bonn"] * (rows // 2), "px": np.ones((rows, 8))},
        "people.csv",
    )
    assert repr(table) == ('Table(people.csv: "age" (5000,), "town" (5000,) text, "px" (5000, 8))')
    samples = select(table, label="town", test_fraction=0.5)
    assert repr(samples) == (
        "Samples(X (2500, 10), y (2500,), features=9, classes=2, "
        "exam=Exam(X (2500, 10), y (2500,), classes=2, on='test'))"
    )
    wide = Table({f"column {number}": [1.0, 2.0] for number in range(1000)})
    assert len(repr(wide)) < 400
    assert len(repr(select(wide, label="column 0"))) < 400


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_model_that_is_not_finite_is_not_graded(bad):
    table = bq.data.Table({"x": np.arange(6.0), "ill": np.arange(6) % 2})
    samples = bq.data.select(table, label="ill")
    model = np.zeros(samples.X.shape[1])
    assert samples.exam.score(model).accuracy == 0.5
    model[0] = bad
    with pytest.raises(bq.errors.NotFinite, match="parameters"):
        samples.exam.score(model)


@pytest.mark.parametrize("loss", ["least_squares", "huber"])
def test_numbers_are_not_fitted_to_the_numbers_of_classes(loss):
    table = Table({"x": list(range(8)), "y": [10.0 * k for k in range(1, 9)]})
    silos = [np.arange(4), np.arange(4, 8)]
    with pytest.raises(InvalidData, match="8 classes"):
        problem_of(select(table, label="y"), silos, loss=loss)
    exact = problem_of(select(table, label="y", classes=False), silos, loss=loss, delta=1e9)
    assert abs(float(exact.gradient(exact.optimum()).max())) < 1e-9
