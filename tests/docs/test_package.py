"""What is built of the sources: all of it, and with what the command points to."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from typer.main import get_command

from bequest import extras
from bequest.cli import app

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(get_command(app).commands)


def built(what, folder):
    """Build one of the two with what pyproject.toml says, without a network."""
    code = f"import sys; from hatchling.build import {what}; print({what}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The folder that it unpacks to."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(built("build_sdist", folder)) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    return unpacked


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The folder that it is installed in."""
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(built("build_wheel", folder)) as archive:
        archive.extractall(folder / "site")  # noqa: S202 - we have just made it
    return folder / "site"


def files_in(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def sources():
    """What git knows of, or would if it were told."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {name for name in done.stdout.splitlines() if (ROOT / name).is_file()}


def test_an_sdist_is_everything_that_is_in_the_sources(sdist):
    found = files_in(sdist)
    assert {"Makefile", "constraints.txt", "pyproject.toml", ".ci/run"} <= found
    assert {".pre-commit-config.yaml", ".github/workflows/ci.yml"} <= found
    assert "tests/protocol/golden/v1/Ready.bin" in found
    if (ROOT / ".git").exists():  # and not in what an sdist unpacks to
        assert found - {"PKG-INFO"} == sources()


@pytest.mark.parametrize(
    "goal", ["demo", "test", "test-fast", "test-browser", "docs", "chaos", "bench"]
)
def test_the_commands_of_the_readme_are_known_in_an_sdist(sdist, goal):
    done = subprocess.run(
        ["make", "-n", goal], cwd=sdist, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "pip install" in done.stdout
    # A demonstration is not worth the developers' tools and Ray.
    assert ('".[dev]"' in done.stdout) is (goal != "demo")


def test_a_wheel_has_the_package_its_types_and_its_pages(wheel):
    source = ROOT / "src" / "bequest"
    package = {name for name in files_in(source) if "__pycache__" not in name}
    pages = {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert files_in(wheel / "bequest") == package | pages
    assert "py.typed" in package


def test_a_wheel_has_all_that_a_page_is_made_of(wheel):
    code = "from bequest.view.page import page_of; print(len(page_of({'live': False})))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=wheel, env=os.environ | {"PYTHONPATH": str(wheel)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 60_000


def test_whatever_help_and_errors_point_to_is_in_the_wheel(wheel):
    environment = os.environ | {"PYTHONPATH": str(wheel)}

    def bequest(*words):
        done = subprocess.run(
            [sys.executable, "-m", "bequest", *words],
            cwd=wheel, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    told = "".join(bequest(*command, "--help") for command in ((), *((c,) for c in COMMANDS)))
    told += "".join(path.read_text() for path in (wheel / "bequest").rglob("*.py"))
    told = " ".join(told.split())
    assert not re.findall(r"\b(?:docs|examples)/[\w-]+\.\w+", told)
    named = set(re.findall(r"bequest docs ([a-z][\w-]*)", told))
    assert {"run-file", "loop", "deviations"} <= named
    where = subprocess.run(
        [sys.executable, "-c", "import bequest; print(bequest.__file__)"],
        cwd=wheel, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(where.stdout.strip()).is_relative_to(wheel)
    for page in named:
        assert bequest("docs", page) == (ROOT / "docs" / f"{page}.md").read_text()


def test_the_extras_are_those_that_the_code_asks_for_and_all_of_them():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    assert set(optional) == {*extras.MODULES, "all", "browser", "dev", "docs"}
    (everything,) = optional["all"]
    inside = re.fullmatch(r"bequest\[([\w,]+)\]", everything)
    assert inside is not None
    assert set(inside[1].split(",")) == set(extras.MODULES)
    # The tests need all of them too; those of models have a target and a file of their own.
    models = {extra: optional[extra] for extra in ("torch", "jax", "onnx")}
    pinned = (ROOT / "constraints-models.txt").read_text().split()
    runs_them = {"onnxruntime"}
    assert {line.partition("==")[0] for line in pinned} == set(models) | runs_them
    others = set(extras.MODULES) - set(models)
    assert {name for extra in others for name in optional[extra]} <= set(optional["dev"])


def test_what_builds_it_is_what_tests_the_building():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (builder,) = project["build-system"]["requires"]
    assert builder in project["project"]["optional-dependencies"]["dev"]
    assert builder in (ROOT / "constraints.txt").read_text().splitlines()
