"""Runs as frames and figures; ``bequest run --curves`` and ``bequest plot``."""

import json

import numpy as np
import pytest

import bequest as bq


@pytest.fixture(scope="module")
def run():
    problem = bq.problems.quadratics(n=6, dim=3, mu=1.0, L=4.0, seed=1)
    events = [bq.Departure(2, 10), bq.Departure(4, 10), bq.Return(2, 20)]
    return bq.solve(problem, bq.graphs.ring(6), departures=events, rounds=40)


def test_a_frame_has_a_row_per_round(run):
    frame = run.to_frame()
    assert frame["round"].tolist() == list(range(41))
    assert frame["nodes"].tolist() == [6] * 10 + [4] * 10 + [5] * 21
    assert np.array_equal(frame["error"], run.error)
    assert np.array_equal(frame["invariant_gap"], run.invariant_gap)


def test_a_figure_has_the_error_and_the_departures(run, tmp_path):
    figure = run.plot(tmp_path / "run.png")
    above, below = figure.axes
    assert np.array_equal(above.lines[0].get_ydata(), run.error)
    assert {text.get_text() for text in above.texts} == {"node 2", "node 4"}
    assert below.lines[0].get_ydata()[-1] == 5
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    unknown = bq.solve(run.problem, bq.graphs.ring(6), rounds=5, optimum=None)
    assert "gradient" in unknown.plot().axes[0].get_ylabel()
    assert "error" not in unknown.to_frame()


def test_curves_are_drawn_from_a_results_file(write, tmp_path, bequest):
    path = write(rest="[departures]\nmost_heterogeneous = [50]\n")
    results, figure = tmp_path / "results.json", tmp_path / "curves.svg"
    assert bequest("run", path, "--curves", "-o", results).exit_code == 0
    (one,) = json.loads(results.read_text())["runs"]
    assert one["curves"]["rounds"] == list(range(201))
    assert one["curves"]["error"][-1] == one["error"]  # all digits of it
    found = bequest("plot", results, "-o", figure)
    assert found.exit_code == 0, found.output
    assert "<svg" in figure.read_text()
    bequest("run", path, "-o", results)  # thinned, which is enough for a figure
    assert bequest("plot", results, "-o", tmp_path / "thin.png").exit_code == 0
    results.write_text("[]")
    found = bequest("plot", results, "-o", tmp_path / "no.png")
    assert (found.exit_code, "holds no results" in found.stderr) == (2, True)
    assert not (tmp_path / "no.png").exists()


SWEEP = "[sweep]\nproblem.L = [2.0, 8.0, 200.0]\n"
WILLS = "[[wills]]\nkind = 'classic'\n[[wills]]\nkind = 'consensus'\n"


@pytest.fixture
def drawn(monkeypatch):
    """What was drawn, before it became a picture."""
    import matplotlib.figure

    kept = []
    save = matplotlib.figure.Figure.savefig
    monkeypatch.setattr(
        matplotlib.figure.Figure,
        "savefig",
        lambda figure, *given, **more: (kept.append(figure), save(figure, *given, **more))[1],
    )
    return kept


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_a_sweep_is_drawn_over_its_setting(write, tmp_path, bequest, drawn, kind):
    leaves = "[departures]\nmost_heterogeneous = [50]\n"
    path = write(top="seeds = [0, 1, 2]", rest=leaves + WILLS + SWEEP)
    results = tmp_path / f"results.{kind}"
    assert bequest("run", path, "-o", results).exit_code == 0
    document = json.loads(bequest("run", path, "--json").stdout)
    found = bequest("plot", results, "-o", tmp_path / "over.png")
    assert found.exit_code == 0, found.output
    assert (tmp_path / "over.png").read_bytes().startswith(b"\x89PNG")
    (axes,) = drawn[-1].axes
    assert (axes.get_xlabel(), axes.get_xscale()) == ("problem.L", "log")
    titles = ["classic (drop and forget)", "consensus (GT-C)"]
    shown = {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}
    assert len(shown) == len(titles)
    for will, line in zip(range(2), shown.values(), strict=True):
        assert line.get_xdata().tolist() == [2.0, 8.0, 200.0]
        medians = [one["wills"][will]["error"] for one in document["sweep"]]
        np.testing.assert_allclose(line.get_ydata(), medians, rtol=1e-12)


def test_results_as_a_table_are_drawn_over_the_wills(write, tmp_path, bequest, drawn):
    path = write(rest="[departures]\nmost_heterogeneous = [50]\n" + WILLS)
    results = tmp_path / "results.csv"
    bequest("run", path, "-o", results)
    assert bequest("plot", results, "-o", tmp_path / "wills.png").exit_code == 0
    assert drawn[-1].axes[0].get_xlabel() == "will"
    head, *rows = results.read_text().splitlines()
    place = head.split(",").index("error")
    unknown = [",".join("" if k == place else c for k, c in enumerate(r.split(","))) for r in rows]
    for text, words in (
        ("a,b\n1,2\n", "holds no results of bequest run"),
        ("", "holds no results: "),
        ("\n".join([head, *unknown]) + "\n", "no run has an error"),
    ):
        results.write_text(text)
        found = bequest("plot", results, "-o", tmp_path / "none.png")
        assert (found.exit_code, words in found.stderr) == (2, True), found.output
    assert not (tmp_path / "none.png").exists()
