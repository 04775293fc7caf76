"""The page about models says what is true."""

import re
from pathlib import Path

from typer.testing import CliRunner

from bequest.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def test_a_module_takes_twelve_lines_and_they_run():
    block = re.search(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    lines = [line for line in block.splitlines() if line.strip()]
    assert len(lines) <= 12
    exec(compile(block, "docs/models.md", "exec"), {})  # noqa: S102


def test_the_demonstration_tells_the_story(monkeypatch):
    from bequest.demo import networks

    monkeypatch.setattr(networks, "ROUNDS", 60)
    done = CliRunner().invoke(app, ["demo", "--model", "mlp"])
    assert done.exit_code == 0, done.output
    assert "replay, moments" in done.output
