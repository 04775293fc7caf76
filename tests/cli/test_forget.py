"""``bequest forget``: a silo leaves a recorded model; ``bequest data``: a table is described."""

import hashlib
import json

import numpy as np
import pytest

import bequest as bq
from bequest.model.withdrawal import withdraw

RUN = """
rounds = 400
[problem]
kind = "table"
file = "people.csv"
label = "ill"
loss = "logistic"
l2 = 0.1
silo = "town"
[graph]
kind = "complete"
[departures]
events = [{ node = 1, round = 50 }, { node = 2, round = 60 }]
[[wills]]
kind = "adaptive"
[[wills]]
kind = "classic"
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["town,age,weight,name,ward,born,odd,ill"]
    for row in range(80):
        age, weight = rng.normal(50, 10), rng.normal(70, 8)
        ill = "yes" if age + rng.normal(0, 5) > 52 else "no"
        text = f"p{row},{'ab'[row % 2]},2001-02-{row % 28 + 1:02},{'x' if row == 3 else row}"
        lines.append(f"{'BORS'[row % 4]},{age:.1f},{weight:.1f},{text},{ill}")
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "run.toml").write_text(
        RUN.replace("l2 = 0.1", 'l2 = 0.1\nfeatures = ["age", "weight"]')
    )
    return tmp_path


def test_a_silo_is_forgotten_with_a_receipt(folder, bequest):
    recorded = ("--record", folder / "runs")
    found = bequest("run", folder / "run.toml", *recorded, "--model", folder / "models")
    assert found.exit_code == 0, found.output
    found = bequest("forget", folder / "run.toml", "O", *recorded, "--run", 1, "-o", folder / "new")
    assert found.exit_code == 0, found.output
    receipt = json.loads((folder / "new" / "receipt.json").read_text())
    assert receipt["exact"] is True
    assert "its memory was withdrawn exactly\n" in found.output
    # R is gone too, and nothing but a memory of it is left
    assert receipt["left"].startswith(
        "the optimum of the rows of B, S, and of what is remembered of R: "
    )
    assert receipt["left"] in " ".join(found.output.split())
    assert receipt["remains"] == ["mean and scale of age", "mean and scale of weight"]
    assert "still in the model: mean and scale of age" in found.output
    assert receipt["holder"] in (0, 3)
    raw = (folder / "new" / "model.json").read_bytes()
    assert receipt["model"] == hashlib.sha256(raw).hexdigest()
    new = bq.load_model(folder / "new" / "model.json")
    old = bq.load_model(folder / "models" / "model-1.json")
    assert new.silos == {"B": "alive", "O": "forgotten", "R": "remembered", "S": "alive"}
    assert old.silos["O"] == "remembered"
    assert new.about["fingerprint"] == old.about["fingerprint"] == receipt["fingerprint"]
    assert new.about["certificate"] is None
    assert np.linalg.norm(new.coef - old.coef) > 1e-3
    # of a run that forgot it anyway there is nothing to withdraw
    told = bequest("forget", folder / "run.toml", "O", *recorded, "--run", 2, "-o", folder / "none")
    assert "no node remembered it" in told.output
    assert "exactly" not in told.output
    receipt = json.loads((folder / "none" / "receipt.json").read_text())
    assert (receipt["withdrawn"], receipt["moved"]) == (None, 0.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("B", "--run", 1), "B is there at the end"),
        (("X", "--run", 1), 'There is no silo "X"'),
        (("O",), "has 2 runs"),
        (("O", "--run", 3), "--run 3"),
    ],
)
def test_what_cannot_be_forgotten_is_told_in_words(folder, bequest, arguments, words):
    recorded = ("--record", folder / "runs")
    bequest("run", folder / "run.toml", *recorded)
    found = bequest("forget", folder / "run.toml", *arguments, *recorded, "-o", folder / "new")
    assert found.exit_code == 2
    assert words in found.stderr
    assert not (folder / "new").exists()
    assert not (folder / "new" / "model.json").exists()


def test_what_is_not_on_record_cannot_be_forgotten(folder, bequest):
    found = bequest(
        "forget",
        folder / "run.toml",
        "O",
        "--record",
        folder / "no",
        "--run",
        1,
        "-o",
        folder / "n",
    )
    assert found.exit_code == 2
    assert "no record of run 1" in found.stderr


def test_a_silo_called_by_a_number_is_forgotten_by_its_name(folder, bequest):
    table, path = folder / "people.csv", folder / "run.toml"
    heads, *rows = table.read_text().splitlines()
    number = {"B": "1", "O": "2", "R": "3", "S": "4"}
    table.write_text("\n".join([heads, *(number[row[0]] + row[1:] for row in rows)]) + "\n")
    path.write_text(
        path.read_text().replace("node = 1", 'node = "3"').replace("node = 2", "node = 0")
    )
    recorded = ("--record", folder / "runs")
    assert bequest("run", path, *recorded).exit_code == 0
    found = bequest("forget", path, "0", *recorded, "--run", 1, "-o", folder / "new")
    assert found.exit_code == 2
    assert 'Silos go by their names: node 0 is "1". The silos are 1, 2, 3, 4.' in found.stderr
    found = bequest("forget", path, "3", *recorded, "--run", 1, "-o", folder / "new")
    assert found.exit_code == 0, found.output
    assert "silo 3 (node 2): " in found.output
    receipt = json.loads((folder / "new" / "receipt.json").read_text())
    assert (receipt["silo"], receipt["node"]) == ("3", 2)
    assert bq.load_model(folder / "new" / "model.json").silos["3"] == "forgotten"


def test_a_withdrawal_is_what_a_run_with_a_forget_event_ends_at():
    problem = bq.problems.quadratics(n=6, dim=3, mu=1.0, L=4.0, seed=1)
    graph = bq.graphs.ring(6)
    leaving = [bq.Departure(2, 100), bq.Departure(4, 150)]
    run = bq.solve(problem, graph, departures=leaving, rounds=600)
    told = bq.solve(problem, graph, departures=[*leaving, bq.Forget(2, 300)], rounds=600)
    gone = withdraw(run, 2)
    np.testing.assert_allclose(gone.x, told.limit, atol=1e-9)
    assert gone.exact
    with pytest.raises(ValueError, match="is there at the end"):
        withdraw(run, 0)


def test_a_table_is_described_before_it_is_used(folder, bequest):
    path = folder / "people.csv"
    shown = bequest("data", path, "--label", "ill", "--silo", "town")
    assert shown.exit_code == 0, shown.output
    for words in (
        "80 rows, 8 columns",
        "silo B: 20 rows (",
        '"name" is text, and nearly every row has its own',
        '"ward" is text: declare categories = { ward = "agree" }',
        '"born" holds dates',
        '"odd" holds numbers and text such as "x"',
    ):
        assert words in shown.stdout
    document = json.loads(bequest("data", path, "--label", "ill", "--json").stdout)
    assert document["rows"] == 80
    assert {one["name"]: one["kind"] for one in document["columns"]}["born"] == "date"
    assert sum(document["labels"].values()) == 80
    path.write_text("a,b,c\n1,,inf\n,,2\n")
    shown = bequest("data", path).stdout
    assert '"a" cells are missing' in shown
    assert '"c" holds infinite numbers' in shown


def test_what_is_there_is_not_replaced_silently(folder, bequest):
    recorded, run = ("--record", folder / "runs"), folder / "run.toml"
    assert bequest("run", run, *recorded, "--model", folder / "models").exit_code == 0
    before = (folder / "models" / "model-1.json").read_bytes()
    found = bequest("run", run, "--model", folder / "models")
    assert found.exit_code == 2
    assert "model-1.json is there already" in found.stderr
    assert "--overwrite" in found.stderr
    for option in ("--overwrite", "--resume"):
        kept = recorded if option == "--resume" else ()
        found = bequest("run", run, "--model", folder / "models", option, *kept)
        assert found.exit_code == 0, found.output
    assert (folder / "models" / "model-1.json").read_bytes() == before
    taken = ("forget", run, "O", *recorded, "--run", 1, "-o", folder / "new")
    assert bequest(*taken).exit_code == 0
    found = bequest(*taken)
    assert found.exit_code == 2
    assert "model.json is there already" in found.stderr
    assert bequest(*taken, "--overwrite").exit_code == 0
    found = bequest("run", run, "--overwrite")
    assert found.exit_code == 2
    assert "nothing to overwrite" in found.stderr


def test_a_folder_without_records_is_not_made_by_looking_into_it(folder, bequest):
    found = bequest(
        "forget", folder / "run.toml", "O", "--record", folder / "none", "--run", 1, "-o",
        folder / "new",
    )  # fmt: skip
    assert found.exit_code == 2
    assert "has no record of run 1" in found.stderr
    assert not (folder / "none").exists()
    assert not (folder / "new").exists()


def test_forgetting_leaves_the_optimum_of_the_other_rows(folder, bequest):
    """Every row brings its share of the penalty, so that a silo takes no more of it along."""
    path = folder / "run.toml"
    lines = (folder / "people.csv").read_text().splitlines()
    kept = [line for line in lines[1:] if not line.startswith("O")]
    (folder / "people.csv").write_text("\n".join([*lines[:45], *kept[30:]]) + "\n")  # unequal silos
    text = path.read_text().replace("l2 = 0.1", "l2 = 0.1\nstandardise = false")
    path.write_text(
        text.replace("rounds = 400", "rounds = 4")
        .replace("node = 2, round = 60", "node = 2, round = 4")
        .replace("round = 50", "round = 3")
    )
    recorded = ("--record", folder / "runs")
    assert bequest("run", path, *recorded).exit_code == 0
    for silo in "OR":
        found = bequest("forget", path, silo, *recorded, "--run", 2, "-o", folder / silo)
        assert found.exit_code == 0, found.output
    receipt = json.loads((folder / "O" / "receipt.json").read_text())
    assert receipt["left"] == "the optimum of the rows of B, S"
    forgotten = bq.load_model(folder / "O" / "model.json")
    table = bq.data.read_table(folder / "people.csv")
    rows = np.isin(table.columns["town"], ["B", "S"])
    X = np.column_stack([table.columns["age"], table.columns["weight"], np.ones(rows.size)])[rows]
    y = np.where(table.columns["ill"][rows] == "yes", 1.0, -1.0)
    pooled = bq.Logistic(X, y, 0.1)
    x = np.append(forgotten.coef[0], forgotten.intercept)
    assert np.linalg.norm(pooled.gradient(x)) < 1e-9


def test_empty_labels_and_silos_are_described_and_said_to_be_refused(folder, bequest):
    path = folder / "holes.csv"
    path.write_text("age,ill,town\n1,yes,Bonn\n2,,Bonn\n3,no,\n4,,Rome\n5,no,Rome\n")
    shown = bequest("data", path, "--label", "ill", "--silo", "town")
    assert shown.exit_code == 0, shown.output
    assert f'"ill" is the label, and has 2 empty cells (the first: {path}, line 3)' in shown.stdout
    assert '"town" is the silo column, and has 1 empty cell' in shown.stdout
    assert "silo (missing): 1 row (no 1)" in shown.stdout
    document = json.loads(bequest("data", path, "--label", "ill", "--json").stdout)
    assert document["labels"] == {"(missing)": 2, "no": 2, "yes": 1}
    path.write_text("age,ill,town\n1,yes,Bonn\n2,yes,Bonn\n")
    shown = bequest("data", path, "--label", "ill", "--silo", "town").stdout
    assert '"ill" is the label, and says the same of every row' in shown
    assert '"town" is the silo column, and says the same of every row' in shown
    path.write_text("age,cost\n1,2.5\n2,\n3,inf\n")
    shown = bequest("data", path, "--label", "cost").stdout
    assert '"cost" is the label, and has 1 empty cell' in shown


def test_files_of_silos_are_described_together(folder, bequest):
    lines = (folder / "people.csv").read_text().splitlines()
    for town in "BOS":
        mine = [line for line in lines[1:] if line.startswith(town)]
        (folder / f"{town}.csv").write_text("\n".join([lines[0], *mine]) + "\n")
    paths = [folder / f"{town}.csv" for town in "BOS"]
    document = json.loads(bequest("data", *paths, "--label", "ill", "--json").stdout)
    assert document["rows"] == 60
    assert document["silos"] == {"B": 20, "O": 20, "S": 20}
    assert sum(document["balance"]["O"].values()) == 20
    shown = bequest("data", *paths).stdout
    assert "silo O: 20 rows" in shown
    assert '"born" holds dates' in shown
    (folder / "more").mkdir()
    (folder / "more" / "B.csv").write_text("age\n1\n")
    for arguments, words in (
        ((*paths, "--silo", "town"), "every file is a silo"),
        ((*paths, folder / "more" / "B.csv"), "Two files have the same name"),
        ((paths[1], folder / "more" / "B.csv"), "has no column"),
    ):
        found = bequest("data", *arguments)
        assert (found.exit_code, words in found.stderr) == (2, True), found.output


def test_a_run_file_is_described_with_what_it_says_about_columns(folder, bequest):
    path, plain = folder / "run.toml", RUN
    path.write_text(plain)
    shown = bequest("data", path)
    assert shown.exit_code == 0, shown.output
    words = " ".join(shown.stdout.split())
    assert "80 rows, 8 columns" in words
    assert "silo B: 20 rows (" in words
    assert '"ward" is text: declare' in words
    assert f"refused: {path}: problem: " in words
    said = 'l2 = 0.1\ncategories = { ward = "agree" }\nignore = ["name", "born", "odd"]'
    path.write_text(plain.replace("l2 = 0.1", said))
    shown = bequest("data", path).stdout
    for gone in ("is text", "holds dates", "refused"):
        assert gone not in shown
    document = json.loads(bequest("data", path, "--json").stdout)
    assert document["run file"] is None
    assert all(one["refused"] is None for one in document["columns"])
    lines = (folder / "people.csv").read_text().splitlines()
    lines[1] = ",".join([*lines[1].split(",")[:1], "", *lines[1].split(",")[2:]])
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    assert '"age" cells are missing' in bequest("data", path).stdout
    path.write_text(path.read_text().replace("l2 = 0.1", 'l2 = 0.1\nimpute = "mean"'))
    assert "are missing" not in bequest("data", path).stdout
    hosts = 'files = { a = "a.csv", b = "b.csv" }\non_hosts = true'
    for text, words in (
        (plain.replace('file = "people.csv"', hosts), "which alone may read them"),
        (plain.replace('file = "people.csv"', ""), "says neither file nor files"),
        (plain.replace('"table"', '"explicit"'), "has no table"),
    ):
        path.write_text(text)
        found = bequest("data", path)
        assert (found.exit_code, words in found.stderr) == (2, True), found.output
    assert "the run file says that" in bequest("data", path, "--label", "ill").stderr
