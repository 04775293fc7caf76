"""What the documentation says is true: code runs, symbols and files exist, names are frozen."""

import doctest
import importlib
import pkgutil
import re
import runpy
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import bequest
from bequest.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# They need what `make test-models` installs, and have no examples of their own.
FRAMEWORKS = {"bequest.jax", "bequest.torch"}
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(bequest.__path__, "bequest.")
    if not module.name.endswith("__main__") and module.name not in FRAMEWORKS
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_on_every_page_runs(page, monkeypatch, tmp_path, capsys):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), namespace)  # noqa: S102 - our own pages


def test_the_first_lines_of_the_readme_print_what_it_shows(capsys):
    text = (ROOT / "README.md").read_text()
    block, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.DOTALL).groups()
    exec(compile(block, "README.md", "exec"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out == shown
    assert text.index("![") < text.index("```python") < text.index("## Watch it")


def test_the_commands_on_the_page_about_the_loop_engine_run(monkeypatch, tmp_path):
    text = (ROOT / "docs" / "loop.md").read_text()
    (run_file,) = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("weather.toml").write_text(run_file)
    commands = "".join(re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)).splitlines()
    assert len(commands) == 7
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code == 0, (command, result.output)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda path: path.stem)
def test_code_begins_and_ends_as_the_site_reads_it(page):
    """More than the name of a language, and the rest of the page is taken for code."""
    fences = re.findall(r"^```.*$", page.read_text(), flags=re.MULTILINE)
    assert all(re.fullmatch(r"```\w*", fence) for fence in fences)
    assert all(fence == "```" for fence in fences[1::2])


@pytest.mark.parametrize(
    ("name", "made"), [("tutorial", "out/west.html"), ("view", "out/both.html")]
)
def test_the_commands_on_pages_that_end_with_a_picture_run(name, made, monkeypatch, tmp_path):
    text = (ROOT / "docs" / f"{name}.md").read_text()
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(ROOT / "examples")
    blocks = re.findall(r"```(python|toml|sh)\n(.*?)```", text, flags=re.DOTALL)
    for kind, block in blocks:
        if kind == "toml":
            Path("patients.toml").write_text(block)
        elif kind == "python" and "open(" in block:
            exec(compile(block, name, "exec"), {})  # noqa: S102 - our own pages
    commands = "".join(block for kind, block in blocks if kind == "sh").splitlines()
    assert len(commands) >= 2
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command)[1:])
        assert result.exit_code == 0, (command, result.output)
    assert Path(made).stat().st_size > 50_000


@pytest.mark.parametrize("module", MODULES)
def test_every_doctest_is_true(module):
    result = doctest.testmod(
        importlib.import_module(module),
        extraglobs={"np": np},
        optionflags=doctest.NORMALIZE_WHITESPACE,
    )
    assert result.failed == 0


def test_there_are_doctests_at_all():
    finder = doctest.DocTestFinder()
    examples = sum(
        len(test.examples)
        for name in MODULES
        for test in finder.find(importlib.import_module(name))
    )
    assert examples >= 20


def resolves(dotted: str) -> bool:
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


def test_every_symbol_and_file_of_the_paper_map_exists():
    rows = [
        re.findall(r"`([^`]+)`", line)
        for line in (ROOT / "docs" / "paper-map.md").read_text().splitlines()
        if line.startswith("| ") and "tests/" in line
    ]
    assert len(rows) > 30
    for row in rows:
        symbol, shown_by = row[-2], row[-1]
        assert resolves(symbol), symbol
        assert (ROOT / shown_by).is_file(), shown_by


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"], ids=lambda p: p.name
)
def test_every_file_a_page_points_at_exists(page):
    text = page.read_text()
    links = re.findall(r"\]\((?!http)([^)#]+)", text)
    mentioned = re.findall(r"`((?:tests|benchmarks|examples|docs)/[\w./-]+\.\w+)`", text)
    for link in links:
        assert (page.parent / link).exists(), link
    for path in mentioned:
        assert (ROOT / path).exists(), path


def test_the_house_of_architecture_md_is_the_house():
    drawn = re.search(
        r"```\nsrc/bequest/\n(.*?)```", (ROOT / "ARCHITECTURE.md").read_text(), re.DOTALL
    )
    assert drawn is not None
    names = set(re.findall(r"(\w+)\.py", drawn.group(1)))
    source = ROOT / "src" / "bequest"
    real = {
        path.stem
        for path in source.rglob("*.py")
        if not {"objectives", "paper", "demo", "runfile", "cli"}
        & set(path.relative_to(source).parts)
        and path.stem not in ("__init__", "__main__")
    }
    assert real - names - {"base"} == set()
    assert names - real - {"__init__", "__main__"} <= {"base"}


@pytest.mark.parametrize(
    ("heading", "fewer_than"),
    [("### A round, on Ray", 13), ("### A departure", 14), ("### A crash, on Ray", 26)],
)
def test_the_walks_of_architecture_md_pass_real_modules_and_not_too_many(heading, fewer_than):
    walk = (ROOT / "ARCHITECTURE.md").read_text().split(heading)[1].split("\n## ")[0]
    diagram = walk.split("```mermaid\n")[1].split("```")[0]
    declared = re.findall(r"participant (\w+)(?: as (.+))?", diagram)
    modules = {title.split()[0] if title else name for name, title in declared}
    real = {path.stem for path in (ROOT / "src" / "bequest").rglob("*.py")}
    assert modules <= real
    assert len(modules) < fewer_than
    assert f"\n{len(modules)} modules" in walk
    speakers = re.findall(r"^    (\w+)->>(\w+):", diagram, re.MULTILINE)
    assert {name for pair in speakers for name in pair} == {name for name, _ in declared}


def test_the_public_names_are_frozen():
    assert bequest.__all__ == [
        "Certificate", "ChangeRecord", "Crash", "Curvature", "Departure", "DepartureRecord",
        "Farewell", "Forget", "Function", "GradientTracking", "Graph", "Huber", "Join",
        "LeastSquares", "Legacy", "Loaded", "Logistic", "Minibatches", "NIDS", "Objective",
        "Pilot", "Problem", "Quadratic", "Return", "Run", "Softmax", "Status", "__version__",
        "calibrate", "data", "datasets", "departures", "engines", "errors", "graphs", "load_model",
        "methods",
        "partition", "phases", "problems", "solve", "wills",
    ]  # fmt: skip
    for name in bequest.__all__:
        assert getattr(bequest, name) is not None
    assert set(dir(bequest)) == set(bequest.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = bequest.nonsense


def test_the_version_is_said_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == bequest.__version__
    assert f"version: {bequest.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_the_constraints_pin_every_dependency_by_name_and_version():
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+]+", line) for line in lines)
    pinned = {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in lines}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[><=\[]", name)[0].lower() for name in wanted}
    assert names <= pinned


# Those that start a cluster run where it can do no harm: tests/cluster/test_example.py.
@pytest.mark.parametrize(
    "example",
    sorted(set((ROOT / "examples").glob("*.py")) - set((ROOT / "examples").glob("ray_*.py"))),
    ids=lambda p: p.name,
)
def test_every_example_runs(example, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted((ROOT / "examples").glob("*.py"))], ids=lambda page: page.name
)
def test_a_will_is_called_by_its_title(page):
    """A label is only what a class contributes to it: two drift wills have the same."""
    assert "will.label" not in page.read_text()
