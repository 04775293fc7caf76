"""A will that cannot be run does not keep the others from it."""

import json

import pytest

from bequest import solver
from bequest.errors import InvalidMethod

# The step is too large for node 0, which leaves; the pilot, in which nobody leaves, diverges.
STIFF = """
rounds = 1500
[method]
step = 0.2
[problem]
kind = "explicit"
objectives = [
  { A = [[60.0]], c = [1.0] },
  { A = [[1.0]], c = [-2.0] },
  { A = [[1.5]], c = [0.5] },
  { A = [[2.0]], c = [3.0] },
]
[graph]
kind = "complete"
[departures]
events = [{ node = 0, round = 2 }, { node = 1, round = 900 }]
"""
CERTIFIED = "[[wills]]\nkind = 'adaptive'\nrule = 'certified'\nlabel = 'certified'\n"
CLASSIC = "[[wills]]\nkind = 'classic'\n"
# Separable classes without a penalty: there is no optimum, so no pilot and no oracle.
ROWS = "x,y,s\n" + "".join(f"{x},{int(x > 0)},{abs(x) % 2}\n" for x in range(-6, 7) if x)
SEPARABLE = """
rounds = 30
[problem]
kind = "table"
file = "rows.csv"
label = "y"
loss = "logistic"
silo = "s"
[graph]
kind = "path"
[departures]
events = [{ node = 1, round = 10 }]
"""
ORACLE = "[[wills]]\nkind = 'adaptive'\nrule = 'oracle'\nlabel = 'oracle'\n"
POINT = "[[wills]]\nkind = 'point-only'\nlabel = 'point'\n"


def row(stdout, will):
    return next(line.split() for line in stdout.splitlines() if line.startswith(will))


@pytest.fixture
def separable(write, tmp_path):
    (tmp_path / "rows.csv").write_text(ROWS)
    return lambda *wills: write(SEPARABLE + "".join(wills))


def test_a_pilot_that_diverges(bequest, write):
    path = write(STIFF + CERTIFIED + CLASSIC)
    result = bequest("run", path)
    assert result.exit_code == 0, result.output
    assert row(result.stdout, "certified")[1:4] == ["not", "run", "-"]
    assert row(result.stdout, "classic")[1] == "converged"
    assert "not run: certified: The pilot, a run without departures, diverged" in result.stdout
    assert "Use a smaller step" in result.stdout
    document = json.loads(bequest("run", path, "--json").stdout)
    assert [run["will"] for run in document["runs"]] == ["classic"]
    (left_out,) = document["not_run"]
    assert (left_out["will"], left_out["seed"]) == ("certified", 0)
    assert "diverged with step 0.2" in left_out["why"]
    assert left_out["remedy"].startswith("Use a smaller step")
    assert [will["will"] for will in document["wills"]] == ["certified", "classic"]
    assert document["wills"][0]["statuses"] == {"not run": 1}
    assert document["wills"][0]["error"] is document["wills"][0]["worst_limit_error"] is None


def test_wills_that_need_an_optimum_where_there_is_none(bequest, separable):
    result = bequest("run", separable(ORACLE, CLASSIC, POINT))
    assert result.exit_code == 0, result.output
    for will in ("oracle", "point"):
        assert row(result.stdout, will)[1:4] == ["not", "run", "-"]
    assert row(result.stdout, "classic")[1] == "unfinished"
    assert "not run: oracle: The will of node 1 needs the optimum" in result.stdout
    assert "not run: point: A pilot measures distances to the optimum" in result.stdout


def test_none_can_be_run(bequest, write, separable):
    result = bequest("run", write(STIFF + CERTIFIED), "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "run.toml: The pilot, a run without departures, diverged" in result.stderr
    result = bequest("run", separable(ORACLE, POINT))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "none of these wills can be run:\n  oracle: The will" in result.stderr
    assert "\n  point: A pilot" in result.stderr


def test_all_that_can_be_run_diverge(bequest, write):
    result = bequest("run", write(STIFF.replace("= 0.2", "= 50.0") + CERTIFIED + CLASSIC))
    assert result.exit_code == 1


def test_one_seed_of_several(bequest, write, monkeypatch):
    calibrate, calls = solver.calibrate, []

    def sometimes(*arguments, **options):
        calls.append(options)
        if len(calls) == 2:
            raise InvalidMethod("The pilot diverged.", remedy="Use a smaller step.")
        return calibrate(*arguments, **options)

    monkeypatch.setattr(solver, "calibrate", sometimes)
    events = "[departures]\nmost_heterogeneous = [50]\n"
    path = write(top="seeds = [4, 5, 6]", rest=events + CLASSIC + CERTIFIED)
    document = json.loads(bequest("run", path, "--json").stdout)
    assert [(one["will"], one["seed"]) for one in document["not_run"]] == [("certified", 5)]
    assert [(run["will"], run["seed"]) for run in document["runs"]] == [
        ("classic", 4), ("certified", 4), ("classic", 5), ("classic", 6), ("certified", 6),
    ]  # fmt: skip
    classic, certified = document["wills"]
    assert sum(classic["statuses"].values()) == 3
    assert certified["statuses"]["not run"] == 1
    assert certified["error"] is not None  # the median of three, of which one is unknown
    assert certified["worst_error"] is None
    calls.clear()
    said = bequest("run", path).stdout
    assert "not run: certified, seed 5: The pilot diverged. Use a smaller step." in said
    assert "not run 1" in said


def test_what_was_not_run_is_not_on_record_and_is_tried_again(bequest, write, tmp_path):
    path, folder = write(STIFF + CERTIFIED + CLASSIC), tmp_path / "record"
    assert bequest("run", path, "--record", folder).exit_code == 0
    assert sorted(found.name for found in folder.iterdir()) == ["run-02.record"]
    again = bequest("run", path, "--record", folder, "--resume")
    assert again.exit_code == 0
    assert "run 2 of 2: classic, seed 0: not run again" in again.stderr
    assert "not run: certified: The pilot" in again.stdout


def test_logs_are_named_after_their_runs(bequest, write, tmp_path):
    path = write(STIFF.replace("1500", "950") + CERTIFIED + CLASSIC)
    result = bequest("run", path, "--engine", "loop", "--log", tmp_path / "logs")
    assert result.exit_code == 0, result.output
    assert "run-2.jsonl: classic, seed 0" in result.stdout
    assert "run-1.jsonl" not in result.stdout
    assert bequest("replay", tmp_path / "logs" / "run-2.jsonl", "--until", 50).exit_code == 0
