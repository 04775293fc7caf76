"""The ten lines of docs/tables.md, where nothing but bequest[sklearn] is installed."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import bequest as bq

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
# What dev installs and the extra does not.
ELSEWHERE = ["pandas", "pyarrow", "matplotlib", "ray", "pytest", "hypothesis"]
BLOCK = f"""
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ELSEWHERE}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Nothing())
"""


def test_the_ten_lines_run_with_the_extra_alone(tmp_path):
    made, shown = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)[:2]
    assert len([line for line in shown.splitlines() if line.strip()]) <= 10
    found = subprocess.run(
        [sys.executable, "-c", BLOCK + made + shown],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("['yes' 'no'] 0.")
    model = bq.load_model(tmp_path / "model.json")
    assert model.silos == {"bonn": "alive", "oslo": "alive", "rome": "remembered"}
    assert model.predict(np.array([[75.0, 90.0], [40.0, 70.0]])).tolist() == ["yes", "no"]
