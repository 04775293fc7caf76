"""bequest run --record and --resume: what is done is not done again, and nothing else is kept."""

import json

import pytest

from bequest.engines import Ray
from bequest.model.run import Run

WILLS = "[[wills]]\nkind = 'classic'\n[[wills]]\nkind = 'consensus'\n"
LEAVING = "[departures]\nevents = [{node = 1, round = 50}]\n"
LOOP = "[engine]\nkind = 'loop'\ndelay = [0.0, 2.0]\n"
RAY = "[engine]\nkind = 'ray'\nnodes_per_host = 3\n"


@pytest.fixture
def solved(monkeypatch):
    """Which wills were really run, one after the other."""
    from bequest.cli import running

    really, labels = running.solve, []

    def solve(**arguments):
        labels.append(arguments["will"].label)
        return really(**arguments)

    monkeypatch.setattr("bequest.cli.running.solve", solve)
    return labels


def refused(result, *words):
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    for word in (*words, "what to do: "):
        assert word in result.stderr, (word, result.stderr)


@pytest.mark.parametrize("engine", ["", LOOP])
def test_a_run_that_is_on_record_is_not_run_again(bequest, write, tmp_path, solved, engine):
    path, folder = write(rest=engine + LEAVING + WILLS), tmp_path / "new" / "records"
    plain = bequest("run", path, "--json").stdout
    solved.clear()
    first = bequest("run", path, "--json", "--record", folder)
    assert (first.exit_code, first.stdout, first.stderr) == (0, plain, "")
    assert sorted(one.name for one in folder.iterdir()) == ["run-01.json", "run-02.json"]
    (folder / "run-01.json").unlink()  # as if we had been killed before it was done
    solved.clear()
    second = bequest("run", path, "--json", "--record", folder, "--resume")
    assert (second.exit_code, second.stdout) == (0, plain)
    assert solved == ["classic"]
    (line,) = second.stderr.splitlines()
    assert line.startswith("run 2 of 2: consensus (GT-C), seed 0: not run again, it is on record")
    solved.clear()
    third = bequest("run", path, "--json", "--record", folder, "--resume")
    assert (third.stdout, solved) == (plain, [])


def test_a_run_is_on_record_as_soon_as_it_is_done(bequest, write, tmp_path, monkeypatch):
    from bequest.cli import running

    really, path, folder = running.solve, write(rest=WILLS), tmp_path / "records"

    def solve(**arguments):
        if arguments["will"].label == "classic":
            return really(**arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr("bequest.cli.running.solve", solve)
    result = bequest("run", path, "--record", folder)
    assert result.exit_code == 130
    assert [one.name for one in folder.iterdir()] == ["run-01.json"]
    record = json.loads((folder / "run-01.json").read_text())
    assert (record["will"], record["seed"], record["run"]["status"]) == ("classic", 0, "converged")


def test_records_are_never_overwritten_silently(bequest, write, tmp_path, solved):
    path, folder = write(rest=WILLS), tmp_path / "records"
    for name in ("run-01.json", "run-07.outcome", "run-1.jsonl"):
        folder.mkdir()
        (folder / name).write_text("precious")
        result = bequest("run", path, "--record", folder)
        refused(result, name, "is there already", "--resume", "another folder")
        assert (folder / name).read_text() == "precious"
        (folder / name).unlink()
        folder.rmdir()
    assert solved == []


def test_something_else_in_the_place_of_a_record_is_not_overwritten(
    bequest, write, tmp_path, solved
):
    path, folder = write(rest=WILLS), tmp_path / "records"
    folder.mkdir()
    for text in ("", "[]", "{}", '{"format": 2}', "7", "null", "no JSON"):
        (folder / "run-02.json").write_text(text)
        result = bequest("run", path, "--record", folder, "--resume")
        refused(result, "run-02.json is not the record of a run", "Move it away")
        assert (folder / "run-02.json").read_text() == text
    assert solved == []


@pytest.mark.parametrize(
    ("other", "options", "why"),
    [
        ({"rest": "# a remark\n" + WILLS}, (), "another run file"),
        ({"rest": WILLS}, ("--engine", "loop"), "another engine"),
        ({"rest": WILLS, "top": "seeds = [4]"}, (), "another run file"),
    ],
)
def test_what_has_changed_is_run_again(bequest, write, tmp_path, solved, other, options, why):
    folder = tmp_path / "records"
    bequest("run", write(rest=WILLS), "--record", folder)
    solved.clear()
    result = bequest("run", write(**other), *options, "--record", folder, "--resume")
    assert result.exit_code == 0
    assert len(solved) == 2
    assert len(result.stderr.splitlines()) == 2
    assert result.stderr.count(f"is of {why}") == 2
    solved.clear()
    bequest("run", write(**other), *options, "--record", folder, "--resume")
    assert solved == []


def test_another_version_or_other_data_are_another_run(
    bequest, write, tmp_path, solved, monkeypatch
):
    table = "rounds = 20\n[problem]\nkind = 'table'\nfile = 'rows.csv'\nlabel = 'y'\n"
    table += "loss = 'least_squares'\nsilo = 'at'\nl2 = 0.1\n[graph]\nkind = 'path'\n"
    rows, folder = tmp_path / "rows.csv", tmp_path / "records"
    rows.write_text("x,y,at\n1,2,a\n2,3,a\n3,5,b\n4,6,b\n")
    path = write(table)
    assert bequest("run", path, "--record", folder).exit_code == 0
    rows.write_text("x,y,at\n1,2,a\n2,3,a\n3,5,b\n4,7,b\n")
    solved.clear()
    result = bequest("run", path, "--record", folder, "--resume")
    assert "is of other data" in result.stderr
    assert len(solved) == 1
    monkeypatch.setattr("bequest.runfile.__version__", "99")
    assert "another version" in bequest("run", path, "--record", folder, "--resume").stderr


def test_accuracy_is_there_for_runs_on_record_too(bequest, root, tmp_path, solved):
    example = root / "examples" / "table.toml"
    plain = bequest("run", example, "--json", "--record", tmp_path / "r").stdout
    assert json.loads(plain)["nobody_left"]
    solved.clear()
    again = bequest("run", example, "--json", "--record", tmp_path / "r", "--resume").stdout
    assert (again, solved) == (plain, [])


def test_resuming_needs_a_record(bequest, write, solved):
    refused(bequest("run", write(), "--resume"), "--resume", "Add --record")
    assert solved == []


def test_a_folder_that_cannot_be_written_fails_before_the_run(bequest, write, tmp_path, solved):
    refused(bequest("run", write(), "--record", tmp_path / "run.toml"), "cannot be written")
    assert solved == []


def test_logs_of_runs_that_are_not_run_again_are_not_promised(bequest, write, tmp_path):
    path, logs, folder = write(rest=LOOP + WILLS), tmp_path / "logs", tmp_path / "records"
    bequest("run", path, "--record", folder)
    (folder / "run-02.json").unlink()
    result = bequest("run", path, "--record", folder, "--resume", "--log", logs)
    assert "run-2.jsonl: consensus" in result.stdout
    assert "run-1.jsonl" not in result.stdout


# --- the cluster, without one --------------------------------------------------------------


@pytest.fixture
def engines(monkeypatch):
    """The engines that runs were carried out with; the vector engine does the work."""
    from bequest.cli import running

    really, found = running.solve, []

    def solve(**arguments) -> Run:
        found.append(arguments.pop("engine"))
        return really(**arguments)

    monkeypatch.setattr("bequest.cli.running.solve", solve)
    return found


def test_a_run_on_a_cluster_can_be_found_again(bequest, write, tmp_path, engines, monkeypatch):
    path = write(rest=RAY + WILLS)
    monkeypatch.chdir(tmp_path)
    assert bequest("run", path, "--record", "records").exit_code == 0
    folder = tmp_path / "records"
    first, second = engines
    assert isinstance(first, Ray)
    assert (first.record, second.record) == (folder / "run-01.outcome", folder / "run-02.outcome")
    assert first.nodes_per_host == 3
    assert not first.resume
    assert first.name != second.name
    names = [first.name, second.name]
    for one in folder.iterdir():
        one.unlink()
    engines.clear()
    monkeypatch.chdir(tmp_path.parent)
    result = bequest("run", path, "--record", folder, "--resume", "--address", "10.0.0.7:6379")
    assert result.exit_code == 0
    assert [engine.name for engine in engines] == names  # wherever we are
    assert all(engine.resume for engine in engines)
    assert {engine.address for engine in engines} == {"10.0.0.7:6379"}
    engines.clear()
    result = bequest("run", path, "--record", folder, "--resume")  # at another address: the same
    assert engines == []


def test_an_outcome_is_not_kept_once_the_run_is_on_record(bequest, write, tmp_path, engines):
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "run-01.outcome").write_bytes(b"from a run that nobody waited for")
    result = bequest("run", write(rest=RAY), "--record", folder, "--resume")
    assert result.exit_code == 0
    assert [one.name for one in folder.iterdir()] == ["run-01.json"]


def test_without_a_record_a_run_has_no_name(bequest, write, engines):
    result = bequest("run", write(rest=RAY), "--json")
    assert (engines[0].name, engines[0].record, engines[0].resume) == (None, None, False)
    assert engines[0].watch is not None
    assert json.loads(result.stdout)["runs"]
    assert result.stderr.startswith("run 1 of 1: ")
