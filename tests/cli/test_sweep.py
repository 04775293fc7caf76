"""[sweep] in run files, and results as tidy tables."""

import csv
import json

import pyarrow.parquet as pq
import pytest

SWEEP = "[sweep]\nrounds = [100, 200]\nproblem.L = [2.0, 4.0, 8.0]\n"
TWO = "[[wills]]\nkind = 'classic'\n[[wills]]\nkind = 'adaptive'\n"


def test_every_combination_is_run_and_is_a_row(write, tmp_path, bequest):
    path = write(
        top="seeds = [0, 1]", rest="[departures]\nmost_heterogeneous = [50]\n" + TWO + SWEEP
    )
    table, whole = tmp_path / "results.csv", tmp_path / "results.parquet"
    found = bequest("run", path, "-o", table)
    assert found.exit_code == 0, found.output
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len(rows) == 2 * 3 * 2 * 2
    assert {(row["rounds"], row["problem.L"]) for row in rows} == {
        (r, L) for r in ("100", "200") for L in ("2.0", "4.0", "8.0")
    }
    assert bequest("run", path, "-o", whole).exit_code == 0
    again = pq.read_table(whole).to_pylist()
    assert [repr(row["error"]) for row in again] == [row["error"] for row in rows]
    document = json.loads(bequest("run", path, "--json").stdout)
    assert [one["settings"]["problem.L"] for one in document["sweep"]] == [2.0, 4.0, 8.0] * 2
    # a combination gives what the file with these values gives
    alone = write(top="seeds = [0, 1]", rest="[departures]\nmost_heterogeneous = [50]\n" + TWO)
    assert bequest("run", alone, "-o", table).exit_code == 0
    last = [row["error"] for row in rows if (row["rounds"], row["problem.L"]) == ("200", "4.0")]
    assert [row["error"] for row in csv.DictReader(table.read_text().splitlines())] == last


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        ("[sweep]\n", "sweep: is empty"),
        ("[sweep]\nproblem.L = 3.0\n", "sweep.problem.L: is no list of values"),
        ("[sweep]\nproblem.L = []\n", "sweep.problem.L: is no list of values"),
        ("[sweep]\nproblem.LL = [2.0]\n", "in the combination problem.LL = 2.0"),
        ("[sweep]\nrounds.much = [2.0]\n", "rounds is no table"),
        (f"[sweep]\nproblem.L = {[2.0] * 200}\nproblem.mu = {[1.0] * 200}\n", "more than 10000"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_told_in_words(write, bequest, sweep, words):
    found = bequest("run", write(rest=sweep))
    assert found.exit_code == 2
    assert words in found.stderr


def test_what_belongs_to_single_runs_is_refused_with_a_sweep(write, tmp_path, bequest):
    path = write(rest=SWEEP)
    for option in ("--record", "--model"):
        found = bequest("run", path, option, tmp_path / "out")
        assert found.exit_code == 2
        assert "has a [sweep]" in found.stderr
    assert not (tmp_path / "out").exists()


POINTS = "[[sweep]]\nrounds = 100\nproblem.L = 2.0\n[[sweep]]\nrounds = 200\nproblem.L = 8.0\n"


def test_results_of_a_sweep_are_for_plot_and_not_for_view(write, tmp_path, bequest):
    path, results = write(rest=SWEEP), tmp_path / "sw.json"
    assert bequest("run", path, "-o", results).exit_code == 0
    found = bequest("view", results, "-o", tmp_path / "page.html")
    assert found.exit_code == 2
    assert "sw.json has a [sweep]" in found.stderr
    assert "is not what bequest run" not in found.stderr
    assert "bequest plot draws it" in found.stderr
    assert not (tmp_path / "page.html").exists()
    assert bequest("plot", results, "-o", tmp_path / "curves.svg").exit_code == 0


@pytest.mark.parametrize(
    "sweep",
    [
        "[sweep]\nproblem.l2 = [0.1, 1.0]\nrounds = [9]\n",
        "[[sweep]]\nproblem.l2 = 0.1\nrounds = 9\n",
    ],
)
def test_the_table_of_a_sweep_is_described(tmp_path, bequest, sweep):
    rows = "\n".join(f"{'ab'[row % 2]},{row},{row % 3 == 0:d}" for row in range(12))
    (tmp_path / "people.csv").write_text(f"town,age,ill\n{rows}\n")
    path = tmp_path / "sw.toml"
    problem = "kind = 'table'\nfile = 'people.csv'\nlabel = 'ill'\nloss = 'logistic'\n"
    graph = "[graph]\nkind = 'complete'\n"
    path.write_text(f"[problem]\n{problem}silo = 'town'\n{graph}{sweep}")
    found = bequest("data", path, "--json")
    assert found.exit_code == 0, found.output
    described = json.loads(found.stdout)
    assert described["run file"] is None  # with a combination it is complete
    assert described["silos"] == {"a": 6, "b": 6}
    path.write_text(path.read_text().replace("'ill'", "'ll'"))
    assert 'Did you mean "ill"?' in json.loads(bequest("data", path, "--json").stdout)["run file"]
    path.write_text(f"[problem]\n{problem}[sweep]\n")
    found = bequest("data", path)
    assert found.exit_code == 2
    assert "sweep: is empty" in found.stderr


def test_points_are_run_one_by_one(write, tmp_path, bequest):
    table = tmp_path / "results.csv"
    path = write(rest=TWO + POINTS)
    found = bequest("run", path, "-o", table)
    assert found.exit_code == 0, found.output
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [(row["rounds"], row["problem.L"]) for row in rows] == [
        *[("100", "2.0")] * 2,
        *[("200", "8.0")] * 2,
    ]


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        ("[[sweep]]\nrounds = 5\n[[sweep]]\n", "sweep[1]: rounds is not in every entry"),
        ("[[sweep]]\n", "sweep[0]: is empty"),
        (POINTS + "problem.mu = 1.0\n", "sweep[1]: problem.mu is not in every entry"),
        ("[[sweep]]\nproblem.LL = 2.0\n", "in the combination problem.LL = 2.0"),
        ("[[sweep]]\nrounds.much = 2.0\n", "rounds is no table"),
    ],
)
def test_points_that_make_no_sense_are_told_in_words(write, bequest, sweep, words):
    found = bequest("run", write(rest=sweep))
    assert found.exit_code == 2
    assert words in found.stderr


def test_a_list_of_what_is_no_point_is_told(write, bequest):
    found = bequest("run", write(top="sweep = [3]"))
    assert found.exit_code == 2
    assert "sweep[0]: is empty" in found.stderr
