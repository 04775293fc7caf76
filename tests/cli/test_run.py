"""bequest run, inside this process."""

import json

import numpy as np
import pytest

import bequest as bq
from bequest.documents import by_will, document_of
from bequest.runfile import load
from bequest.solver import carry_out

TWO = "[departures]\nevents = [{node = 1, round = 50}, {node = 2, round = 60}]\n"
WILLS = "[[wills]]\nkind = 'classic'\n[[wills]]\nkind = 'consensus'\n"
ALL_DIVERGE = "[method]\nstep = 50.0\n[[wills]]\nkind = 'classic'\n"


def parsed(text):
    def refuse(constant):
        pytest.fail(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_the_table_compares_the_wills(bequest, write):
    result = bequest("run", write(rest=TWO + WILLS))
    assert result.exit_code == 0
    assert result.stderr == ""
    words = (
        "classic",
        "consensus (GT-C)",
        "none",
        "vectors",
        "bytes",
        "coupling of ",
        "slowest",
    )
    for word in (*words, "method: NIDS(metric='hessian')\n"):
        assert word in result.stdout
    row = next(line.split() for line in result.stdout.splitlines() if line.startswith("consensus"))
    assert row[2] in ("converged", "unfinished")
    assert float(row[3]) < 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("kind = 'exact-diffusion'\nmixing = 0.5", "ExactDiffusion(mixing=0.5)"),
        ("kind = 'gradient-tracking'", "GradientTracking()"),
        (
            "kind = 'nids'\nsafety = 0.5\nhalf = 90",
            "Decaying(method=NIDS(metric='scalar', safety=0.5), half=90)",
        ),
    ],
)
def test_methods_are_told_without_options_that_were_left_open(bequest, write, options, said):
    result = bequest("run", write(rest=f"[method]\n{options}\n"))
    assert f"method: {said}\n" in result.stdout


def test_several_seeds_show_median_and_worst(bequest, write):
    result = bequest("run", write(top="seeds = [1, 2, 3]", rest=TWO + WILLS))
    assert result.exit_code == 0
    assert "median and worst of 3 seeds" in result.stdout
    assert "heir" not in result.stdout  # who inherits differs from seed to seed
    assert "chosen per seed" in result.stdout


EVERY_KIND = """
[departures]
events = [
  { node = 1, round = 30 },
  { node = 0, round = 50, kind = "crash" },
  { node = 4, round = 50, kind = "crash" },
  { node = 4, round = 60, kind = "forget" },
  { node = 1, round = 70, kind = "return" },
  { node = 5, round = 80, kind = "join" },
]
"""


def test_crashes_and_changes_are_told_in_words(bequest, write):
    result = bequest("run", write(rest=EVERY_KIND + WILLS))
    assert result.exit_code == 0, result.stdout
    said = " ".join(result.stdout.split())
    for words in (
        "no node remembers 4 (classic)",
        "its checkpoint of round 40 (consensus (GT-C))",
        "node 4 was forgotten after round 60",
        "node 1 returned after round 70",
        "node 5 joined after round 80: it begins at the iterate of node",
    ):
        assert words in said, (words, said)


def test_a_crash_that_takes_memories_with_it_says_whose(bequest, write):
    result = bequest("run", write(top="buddies = 0", rest=EVERY_KIND + WILLS))
    assert "no node remembers" in result.stdout
    document = parsed(bequest("run", write(rest=EVERY_KIND + WILLS), "--json").stdout)
    run = document["runs"][1]
    assert [record["crashed"] for record in run["departures"]] == [False, True, True]
    assert [record["checkpoint"] for record in run["departures"]] == [None, 40, 40]
    assert [change["kind"] for change in run["changes"]] == ["forget", "return", "join"]
    assert run["changes"][2]["neighbours"]
    assert run["changes"][2]["exact"] is True


def test_json_holds_everything(bequest, write):
    result = bequest("run", write(top="seeds = [1, 2]", rest=TWO + WILLS), "--json")
    assert result.exit_code == 0
    document = parsed(result.stdout)
    assert document["format"] == 1
    assert document["rounds"] == 200
    assert len(document["runs"]) == 4
    run = document["runs"][1]
    assert (run["will"], run["seed"], run["status"]) == ("consensus (GT-C)", 1, run["status"])
    assert run["error"] < 1
    assert len(run["limit"]) == len(run["optimum"]) == 3
    assert run["survivors"] == [0, 3, 4, 5]
    assert run["lost"] == []
    assert run["provenance"]["bequest"]
    assert run["steps"][0]["why"]
    record = run["departures"][0]
    assert (record["node"], record["round"], record["choice"]) == (1, 50, "consensus")
    assert record["heir"] in (0, 2)
    assert record["vectors"] == 2
    assert record["bytes"] == 72
    assert document["runs"][0]["lost"] == [1, 2]
    consensus = document["wills"][1]
    errors = [r["error"] for r in document["runs"] if r["will"] == consensus["will"]]
    assert consensus["worst_error"] == max(errors)
    assert consensus["error"] == pytest.approx(sum(errors) / 2)


def test_bounds_and_pilot_are_in_the_json(bequest, write):
    wills = "[[wills]]\nkind = 'adaptive'\nrule = 'certified'\n"
    events = "[departures]\nmost_heterogeneous = [50]\n"
    document = parsed(bequest("run", write(rest=events + wills), "--json").stdout)
    run = document["runs"][0]
    assert run["pilot"]["theta"] > 0
    assert run["pilot"]["spread"] is None  # not measured, so not a number
    assert set(run["departures"][0]["bounds"]) == {"consensus", "local", "none"}
    assert set(run["departures"][0]["hindsight"]) == {"consensus", "local", "none"}


def test_what_was_predicted_and_what_hindsight_says_are_in_the_json(bequest, write):
    tracking = "[method]\nkind = 'gradient-tracking'\n"
    document = parsed(bequest("run", write(rest=tracking + TWO), "--json").stdout)
    record = document["runs"][0]["departures"][0]
    assert document["runs"][0]["pilot"] is None  # the observed rule needs none
    assert {"none", "drift", "full"} <= set(record["predicted"])
    assert set(record["hindsight"]) == set(record["predicted"])
    assert all(move >= 0 for move in record["hindsight"].values())


def test_some_runs_diverge(bequest, write):
    wills = "[[wills]]\nkind = 'consensus'\n[[wills]]\nkind = 'point-only'\ncap = 'none'\n"
    path = write(rest="[method]\nstep = 0.05\n[departures]\nmost_heterogeneous = [150]\n" + wills)
    result = bequest("run", path)
    assert result.exit_code == 0
    assert "diverged" in result.stdout
    assert "inf" in result.stdout
    diverged = parsed(bequest("run", path, "--json").stdout)["runs"][1]
    assert diverged["status"] == "diverged"
    assert diverged["error"] is diverged["limit"] is diverged["limit_error"] is None


def test_all_runs_diverge(bequest, write):
    path = write(rest=ALL_DIVERGE)
    assert bequest("run", path).exit_code == 1
    result = bequest("run", path, "--json")
    assert result.exit_code == 1
    assert parsed(result.stdout)["wills"][0]["statuses"] == {"diverged": 1}


def test_an_unknown_optimum_is_null_and_not_an_error():
    # Perfectly separable classes without a penalty: the loss has no minimum.
    losses = [bq.Logistic([[1.0]], [1], l2=0.0), bq.Logistic([[2.0]], [1], l2=0.0)]
    run = bq.solve(bq.Problem(losses), [(0, 1)], rounds=20, will=bq.wills.Classic())
    document = document_of(run, will="classic", seed=0)
    assert document["optimum"] is document["limit"] is None
    assert document["error"] is document["limit_error"] is None
    assert document["status"] == "unfinished"
    assert by_will([document["will"]], [document])[0]["error"] is None
    json.dumps(document, allow_nan=False)


def test_output_is_the_same_json(bequest, write, tmp_path):
    target = tmp_path / "result.json"
    result = bequest("run", write(rest=TWO + WILLS), "--json", "--output", target)
    assert result.exit_code == 0
    assert target.read_text() == result.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_output_with_a_table_says_where(bequest, write, tmp_path):
    target = tmp_path / "result.json"
    target.write_text("old")
    result = bequest("run", write(), "--output", target)
    assert result.exit_code == 0
    assert "result.json" in result.stdout
    parsed(target.read_text())


@pytest.mark.parametrize("place", ["missing/result.json", ".", "run.toml/below.json"])
def test_an_output_that_cannot_be_written_fails_before_the_run(
    bequest, write, tmp_path, monkeypatch, place
):
    path = write()
    monkeypatch.setattr("bequest.runfile.prepare_each", lambda *_, **_kw: pytest.fail("too late"))
    result = bequest("run", path, "--output", tmp_path / place)
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
    assert "what to do: " in result.stderr
    assert result.stdout == ""


def test_a_failing_run_leaves_the_old_output_alone(bequest, write, tmp_path):
    target = tmp_path / "result.json"
    target.write_text("old")
    path = write(rest="[departures]\nevents = [{node = 77, round = 5}]")
    assert bequest("run", path, "--output", target).exit_code == 2
    assert target.read_text() == "old"


def test_errors_of_the_library_name_the_file(bequest, write):
    path = write(rest="[departures]\nevents = [{node = 77, round = 5}]")
    result = bequest("run", path)
    assert result.exit_code == 2
    assert result.stdout == ""
    error, remedy = result.stderr.splitlines()
    assert error.startswith(f"error: {path}: ")
    assert "77" in error
    assert remedy == "what to do: Nodes are numbered 0..5."


def test_errors_of_the_file_name_the_file_once(bequest, write):
    path = write(top="seed = [1]")
    result = bequest("run", path)
    assert result.exit_code == 2
    assert result.stderr.count(str(path)) == 1
    assert "Did you mean seeds?" in result.stderr


def test_a_lack_of_memory_is_told_in_words(bequest, write, monkeypatch):
    def prepare(*_, **_kw):
        raise MemoryError("Unable to allocate 30 GiB")

    monkeypatch.setattr("bequest.runfile.prepare_each", prepare)
    result = bequest("run", write())
    assert result.exit_code == 2
    assert "30 GiB" in result.stderr


def test_bugs_keep_their_traceback(bequest, write, monkeypatch):
    def prepare(*_, **_kw):
        raise ZeroDivisionError

    monkeypatch.setattr("bequest.runfile.prepare_each", prepare)
    assert isinstance(bequest("run", write()).exception, ZeroDivisionError)


def test_labels_are_not_markup(bequest, write):
    result = bequest("run", write(rest="[[wills]]\nkind = 'classic'\nlabel = '[bold]:boom: 1'"))
    assert "[bold]:boom: 1" in result.stdout


def test_many_departures_are_cut_short(bequest, write, monkeypatch):
    monkeypatch.setattr("bequest.cli.results.SHOWN", 1)
    result = bequest("run", write(rest=TWO))
    assert "... and 1 more" in result.stdout


def test_examples_run(bequest, root):
    examples = sorted((root / "examples").glob("*.toml"))
    assert examples
    for example in examples:
        assert bequest("run", example).exit_code == 0


def test_the_limit_error_of_a_run_is_that_of_the_json(bequest, write):
    path = write(rest=TWO + WILLS)
    (job, _) = load(path).jobs()
    run = carry_out(job.plan, job.engine)
    assert run.limit_error == pytest.approx(float(np.linalg.norm(run.limit - run.optimum)))
    assert run.limit_error > 0.1
    document = parsed(bequest("run", path, "--json").stdout)["runs"][0]
    assert document["limit_error"] == run.limit_error


def test_the_limit_error_needs_a_limit_and_an_optimum():
    losses = [bq.Logistic([[1.0]], [1], l2=0.0), bq.Logistic([[2.0]], [1], l2=0.0)]
    run = bq.solve(bq.Problem(losses), [(0, 1)], rounds=20, will=bq.wills.Classic())
    with pytest.raises(bq.errors.OptimumUnknown):
        _ = run.limit_error


def test_the_heir_of_a_crashed_node_that_left_nothing_is_none(bequest, write):
    crash = "[departures]\nevents = [{ node = 2, round = 50, kind = 'crash' }]\n"
    said = bequest("run", write(rest=crash + WILLS)).stdout
    rows = [line.split() for line in said.splitlines()]
    assert ["classic", "50", "2", "none", "classic", "0", "0"] in rows
    assert any(row[:5] == ["consensus", "(GT-C)", "50", "2", "3"] for row in rows), said
    assert "no node remembers 2 (classic)" in said
