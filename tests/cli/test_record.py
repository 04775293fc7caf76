"""bequest run --record and --resume: what is done is not done again, and nothing else is kept."""

import json
import os

import pytest

from bequest.cli import run
from bequest.engines import Ray, Vector, fingerprint, records

WILLS = "[[wills]]\nkind = 'classic'\n[[wills]]\nkind = 'consensus'\n"
LEAVING = "[departures]\nevents = [{node = 1, round = 50}]\n"
LOOP = "[engine]\nkind = 'loop'\ndelay = [0.0, 2.0]\n"
RAY = "[engine]\nkind = 'ray'\nnodes_per_host = 3\n"


@pytest.fixture
def solved(monkeypatch):
    """Which wills were really run, one after the other."""
    really, labels = run._carried_out, []

    def carried_out(file, job, *others):
        labels.append(job.label)
        return really(file, job, *others)

    monkeypatch.setattr(run, "_carried_out", carried_out)
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
    assert sorted(one.name for one in folder.iterdir()) == ["run-01.record", "run-02.record"]
    (folder / "run-01.record").unlink()  # as if we had been killed before it was done
    solved.clear()
    second = bequest("run", path, "--json", "--record", folder, "--resume")
    assert (second.exit_code, second.stdout) == (0, plain)
    assert solved == ["classic"]
    (line,) = second.stderr.splitlines()
    assert line.startswith("run 2 of 2: consensus (GT-C), seed 0: not run again, it is on record")
    solved.clear()
    third = bequest("run", path, "--json", "--record", folder, "--resume")
    assert (third.stdout, solved) == (plain, [])


def test_a_run_is_on_record_as_soon_as_it_is_done(bequest, write, tmp_path, solved, monkeypatch):
    really, path, folder = run._carried_out, write(rest=WILLS), tmp_path / "records"

    def carried_out(file, job, *others):
        if job.label == "classic":
            return really(file, job, *others)
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "_carried_out", carried_out)
    result = bequest("run", path, "--record", folder)
    assert result.exit_code == 130
    assert [one.name for one in folder.iterdir()] == ["run-01.record"]
    monkeypatch.setattr(run, "_carried_out", really)
    result = bequest("run", path, "--record", folder, "--resume")
    assert "run 1 of 2: classic, seed 0: not run again" in result.stderr


def test_records_are_never_overwritten_silently(bequest, write, tmp_path, solved):
    path, folder = write(rest=WILLS), tmp_path / "records"
    for name in ("run-01.record", "run-07.record", "run-1.jsonl"):
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
    place = folder / "run-01.record"
    folder.mkdir()
    for content in (b"", b"[]", b"{}", b'{"run": []}', b"[" * 10_000, b"\x80\x04]", b"x" * 100):
        place.write_bytes(content)
        result = bequest("run", path, "--record", folder, "--resume")
        refused(result, "run-01.record is not the record of a run", "move it away")
        assert place.read_bytes() == content
    place.unlink()
    place.mkdir()
    refused(bequest("run", path, "--record", folder, "--resume"), "run-01.record cannot be read")
    place.rmdir()
    os.mkfifo(place)
    refused(bequest("run", path, "--record", folder, "--resume"), "not an ordinary file")
    assert solved == []


@pytest.mark.parametrize(
    ("other", "options", "what"),
    [
        ({"rest": WILLS, "top": "seeds = [4]"}, (), "the loss of node 0"),
        ({"rest": WILLS, "top": "start = 1.0"}, (), "the start"),
        ({"rest": WILLS, "top": "buddies = 3"}, (), "the number of buddies (1 there, 3 here)"),
        ({"rest": WILLS, "top": "checkpoint_every = 7"}, (), "checkpoint_every (20 there, 7 here)"),
        ({"rest": LEAVING + WILLS}, (), "the schedule"),
        ({"rest": WILLS.replace("classic", "forgetful")}, (), "the wills"),
        (
            {"rest": "[method]\nstep = 0.01\n" + WILLS},
            (),
            "the method (NIDS (metric=hessian, coupling=None, safety=None) there",
        ),
        ({"rest": WILLS}, ("--engine", "loop"), "the engine"),
    ],
)
def test_the_record_of_another_run_is_refused(
    bequest, write, tmp_path, solved, other, options, what
):
    folder = tmp_path / "records"
    bequest("run", write(rest=WILLS), "--record", folder)
    before = (folder / "run-01.record").read_bytes()
    solved.clear()
    result = bequest("run", write(**other), *options, "--record", folder, "--resume")
    refused(result, "run-01.record is the record of another run", what, "another place")
    assert solved == []
    assert (folder / "run-01.record").read_bytes() == before


def test_records_are_compared_before_anything_is_run(bequest, write, tmp_path, solved):
    """Or a run of the new kind would be recorded beside those of the old."""
    folder = tmp_path / "records"
    bequest("run", write(rest=WILLS), "--record", folder)
    (folder / "run-01.record").unlink()
    solved.clear()
    path = write(top="buddies = 2", rest=WILLS)
    result = bequest("run", path, "--record", folder, "--resume")
    refused(result, "run-02.record is the record of another run")
    assert solved == []
    assert not (folder / "run-01.record").exists()
    result = bequest("run", write(rest=WILLS), "--record", folder, "--resume")
    assert (result.exit_code, solved) == (0, ["classic"])


def test_what_makes_no_difference_to_a_run_is_not_another_run(bequest, write, tmp_path, solved):
    folder = tmp_path / "records"
    bequest("run", write(rest=WILLS), "--record", folder)
    solved.clear()
    path = write(rest="# a remark\n" + WILLS.replace("classic'", "classic'\nlabel = 'drop'"))
    result = bequest("run", path, "--record", folder, "--resume", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["runs"][0]["will"] == "drop"
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
    refused(result, "is the record of another run; what differs: the loss of node 1.")
    assert solved == []
    rows.write_text("x,y,at\n1,2,a\n2,3,a\n3,5,b\n4,6,b\n")
    here = {**fingerprint.versions(), "numpy": "99"}
    monkeypatch.setattr(fingerprint, "versions", lambda: here)
    result = bequest("run", path, "--record", folder, "--resume")
    refused(result, "the version of numpy", "99 here")


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
    (folder / "run-02.record").unlink()
    result = bequest("run", path, "--record", folder, "--resume", "--log", logs)
    assert "run-2.jsonl: consensus" in result.stdout
    assert "run-1.jsonl" not in result.stdout


# --- the cluster, without one --------------------------------------------------------------


@pytest.fixture
def engines(monkeypatch):
    """The engines that runs were carried out with; the vector engine does the work."""
    found = []

    def run(engine, plan, progress=None):
        found.append(engine)
        outcome = Vector().run(plan, progress)
        if engine.record is not None:
            own = fingerprint.fingerprint(plan, engine)
            records.write(engine.record, records.Record(own, plan.scene, outcome))
        return outcome

    monkeypatch.setattr(Ray, "run", run)
    return found


def test_a_run_on_a_cluster_can_be_found_again(bequest, write, tmp_path, engines, monkeypatch):
    path = write(rest=RAY + WILLS)
    monkeypatch.chdir(tmp_path)
    assert bequest("run", path, "--record", "records").exit_code == 0
    folder = tmp_path / "records"
    first, second = engines
    assert isinstance(first, Ray)
    assert (first.record, second.record) == (folder / "run-01.record", folder / "run-02.record")
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


def test_without_a_record_a_run_has_no_name(bequest, write, engines):
    result = bequest("run", write(rest=RAY), "--json")
    assert (engines[0].name, engines[0].record, engines[0].resume) == (None, None, False)
    assert engines[0].watch is not None
    assert json.loads(result.stdout)["runs"]
    assert result.stderr.startswith("run 1 of 1: ")
