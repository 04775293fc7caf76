"""What is not installed is said before anything is computed, by every command and function."""

import subprocess
import sys

import pytest

import bequest as bq
from bequest import extras
from bequest.errors import NotInstalled
from bequest.paper import studies

PARQUET = """
rounds = 10
[problem]
kind = "table"
file = "a.parquet"
label = "y"
loss = "least_squares"
silo = "s"
[graph]
kind = "ring"
"""


@pytest.fixture
def hide(monkeypatch):
    """Let modules be missing, and let whatever computes something before that is said fail."""

    def computed(*_, **__):
        raise AssertionError("something was computed")

    for place in (
        "bequest.engines.vector.engine.Vector.run",
        "bequest.engines.loop.engine.Loop.run",
        "bequest.solver.calibrate",
        "bequest.paper.studies.study._compute",
        "bequest.paper.studies.study.ProcessPoolExecutor",
        "bequest.model.problem.Problem.__init__",
    ):
        monkeypatch.setattr(place, computed)

    def hidden(*modules):
        for module in modules:
            monkeypatch.setitem(sys.modules, module, None)

    return hidden


def refused(result, *words):
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize("name", studies.NAMES)
def test_a_reproduction_without_matplotlib(bequest, hide, tmp_path, name):
    hide("matplotlib")
    result = bequest("reproduce", name, "-o", tmp_path / "out")
    refused(result, "needs matplotlib", 'pip install "bequest[plot]"')
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("names", [["real"], ["beyond"], ["rules"], ["methods"], []])
def test_a_reproduction_without_scikit_learn(bequest, hide, tmp_path, names):
    hide("sklearn")
    result = bequest("reproduce", *names, "-o", tmp_path / "out")
    refused(result, "needs scikit-learn", 'pip install "bequest[data]"')
    hide("matplotlib")
    result = bequest("reproduce", *names, "-o", tmp_path / "out")
    refused(result, "needs matplotlib and scikit-learn", 'pip install "bequest[plot,data]"')


def test_studies_say_what_they_need():
    """Who needs the datasets imports them."""
    code = """
import sys, bequest
from bequest.paper import studies
for name in studies.NAMES:
    for module in [m for m in sys.modules if m.startswith(("bequest.datasets", "bequest.paper"))]:
        del sys.modules[module]
    vars(bequest).pop("datasets", None)
    study = studies.find(name)
    print(name, study.needs == (("data",) if "bequest.datasets" in sys.modules else ()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [word for name in studies.NAMES for word in (name, "True")]


@pytest.mark.parametrize(
    ("module", "name", "engine", "extra"),
    [
        ("matplotlib", "matplotlib", "vector", "plot"),
        ("sklearn", "scikit-learn", "vector", "data"),
        ("sklearn", "scikit-learn", "ray", "data"),
        ("ray", "Ray", "ray", "ray"),
    ],
)
def test_the_demonstration(bequest, hide, tmp_path, module, name, engine, extra):
    hide(module)
    result = bequest("demo", "--engine", engine, "-o", tmp_path / "out")
    refused(result, f"needs {name}", f'pip install "bequest[{extra}]"')
    assert not (tmp_path / "out").exists()


def test_a_run_on_a_cluster(bequest, hide, write):
    hide("ray")
    certified = "[[wills]]\nkind = 'adaptive'\nrule = 'certified'\n"
    result = bequest("run", write(rest=certified), "--engine", "ray")
    refused(result, "needs Ray", 'pip install "bequest[ray]"')
    assert "run 1 of" not in result.stderr
    result = bequest("run", write(rest=f"[engine]\nkind = 'ray'\n{certified}"))
    refused(result, "needs Ray", 'pip install "bequest[ray]"')


def test_a_file_that_asks_for_a_cluster_runs_elsewhere_without_it(bequest, monkeypatch, write):
    monkeypatch.setitem(sys.modules, "ray", None)
    result = bequest("run", write(rest="[engine]\nkind = 'ray'\n"), "--engine", "vector")
    assert result.exit_code == 0


def test_a_run_file_with_a_parquet_table(bequest, hide, write, tmp_path):
    hide("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    result = bequest("run", write(PARQUET))
    refused(result, "problem.file", "needs pyarrow", 'pip install "bequest[parquet]"')


def test_solve_on_a_cluster_before_the_pilot(monkeypatch):
    """Before ``solve`` is called at all: there is no engine without Ray."""
    problem = bq.problems.quadratics(n=4, dim=2, mu=1.0, L=4.0, seed=0)
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr("bequest.solver.calibrate", lambda *_, **__: pytest.fail("a pilot ran"))
    with pytest.raises(NotInstalled, match="Ray engine needs Ray"):
        bq.solve(
            problem,
            bq.graphs.ring(4),
            departures=[bq.Departure(1, 5)],
            will=bq.wills.Adaptive(rule="certified"),
            rounds=10,
            engine=bq.engines.Ray(),
        )


def test_what_draws(hide, tmp_path):
    from bequest.demo import figure
    from bequest.paper.report import charts, pages, plots

    hide("matplotlib")
    chart = charts.Chart(title="", panels=(), key="", text="")
    for draw in (
        lambda: pages.build(tmp_path),
        lambda: plots.files(chart),
        lambda: plots.themed(chart, name="a"),
        lambda: figure.draw(None, {"": {}}, title=""),
    ):
        with pytest.raises(NotInstalled, match="matplotlib"):
            draw()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_the_name_of_a_package_is_no_package(tmp_path, monkeypatch):
    (tmp_path / "nosuchpackage").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(extras.MODULES, "plot", "nosuchpackage")
    assert not extras.is_there("plot")
