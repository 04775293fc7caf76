"""The ten lines of docs/tables.md, in an environment with nothing but bequest[sklearn].

A fresh virtual environment: the wheel as it is built, and links to what the extra requires,
directly or through others, and to nothing else. No network.
"""

import importlib.metadata as metadata
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

import bequest as bq

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"


def required(name, extra="", known=None):
    """Return the distributions that one requires, with those that they require."""
    known = {} if known is None else known
    for line in metadata.requires(name) or ():
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
            continue
        if wanted.name not in known:
            known[wanted.name] = metadata.distribution(wanted.name)
            required(wanted.name, known=known)
            for inner in wanted.extras:
                required(wanted.name, inner, known)
    return known


@pytest.fixture
def python(tmp_path):
    """The interpreter of such an environment."""
    place = tmp_path / "env"
    venv.create(place, with_pip=False)
    (site,) = place.glob("lib/python*/site-packages")
    built = subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    with zipfile.ZipFile(tmp_path / built.stdout.split()[-1]) as wheel:
        wheel.extractall(site)
    for one in required("bequest", "sklearn").values():
        for top in {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(one.locate_file(top))
    return place / "bin" / "python"


def test_the_ten_lines_run_with_the_extra_alone(tmp_path, python):
    page = (ROOT / "docs" / "tables.md").read_text()
    made, shown = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[:2]
    assert len([line for line in shown.splitlines() if line.strip()]) <= 10

    def run(code):
        return subprocess.run(
            [python, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    assert "No module named 'pandas'" in run("import pandas").stderr
    where = run("import bequest; print(bequest.__file__)").stdout
    assert str(tmp_path / "env") in where
    assert run(made).returncode == 0
    found = run(shown)  # alone: there are the files, and nothing of the lines that made them up
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("['yes' 'no'] 0.")
    model = bq.load_model(tmp_path / "model.json")
    assert model.silos == {"bonn": "alive", "oslo": "alive", "rome": "remembered"}
    assert model.predict(np.array([[75.0, 90.0], [40.0, 70.0]])).tolist() == ["yes", "no"]
