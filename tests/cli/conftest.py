import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bequest.cli import app

SMALL = """
rounds = 200
{top}
[problem]
kind = "quadratics"
n = 6
dim = 3
mu = 1.0
L = 4.0
[graph]
kind = "ring"
{rest}
"""


@pytest.fixture
def write(tmp_path):
    """Write a run file: a whole one, or additions to a small one that works."""

    def write_file(text=None, *, top="", rest=""):
        path = tmp_path / "run.toml"
        path.write_text(SMALL.format(top=top, rest=rest) if text is None else text)
        return path

    return write_file


@pytest.fixture
def bequest():
    """Run the command inside this process."""
    runner = CliRunner()

    def run(*arguments):
        return runner.invoke(app, [str(argument) for argument in arguments])

    return run


@pytest.fixture
def command():
    """The command as a process of its own; python -m bequest is the same command."""

    def start(*arguments, **options):
        hidden = ("COLUMNS", "FORCE_COLOR")
        environment = {k: v for k, v in os.environ.items() if k not in hidden}
        return subprocess.Popen(
            [sys.executable, "-m", "bequest", *map(str, arguments)],
            env=environment,
            text=True,
            **options,
        )

    return start


def hears_interrupts():
    """Started in the background, a process inherits deafness to Ctrl-C; give it its ears back."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def interrupted(command):
    """Run a command in a terminal, press Ctrl-C once it shows some words, check how it ends."""

    def run_until(words, *arguments):
        terminal, stderr = pty.openpty()
        process = command(
            *arguments, stdout=subprocess.PIPE, stderr=stderr, preexec_fn=hears_interrupts
        )
        os.close(stderr)
        seen = b""
        while words not in seen:  # the bar is there, so the work is under way
            seen += os.read(terminal, 4096)
        process.send_signal(signal.SIGINT)
        try:
            while chunk := os.read(terminal, 4096):
                seen += chunk
        except OSError:  # how a terminal says that the other side is gone
            pass
        stdout, _ = process.communicate(timeout=20)
        os.close(terminal)
        assert process.returncode == 130
        assert stdout == ""
        assert b"interrupted" in seen
        assert b"Traceback" not in seen

    return run_until


@pytest.fixture
def root():
    return Path(__file__).parents[2]
