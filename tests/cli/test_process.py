"""What only a process of its own can show: start-up, pipes, terminals and signals."""

import json
import os
import subprocess
import sys
import time

LONG = """
rounds = 20000000
[problem]
kind = "quadratics"
n = 6
dim = 3
mu = 1.0
L = 4.0
[graph]
kind = "ring"
[[wills]]
kind = "classic"
"""


def test_the_command_starts_without_anything_heavy():
    code = (
        "import sys, bequest.cli; heavy = {'numpy', 'scipy', 'networkx', 'pydantic', 'rich', "
        "'matplotlib', 'sklearn', 'pyarrow'}; print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"


def test_help_answers_at_once(command):
    times = []
    for _ in range(3):
        began = time.perf_counter()
        process = command("--help", stdout=subprocess.PIPE)
        text, _ = process.communicate()
        times.append(time.perf_counter() - began)
        assert process.returncode == 0
        assert text.startswith("Usage: bequest")
    assert min(times) < 0.5


def test_a_pipe_gets_pure_json_and_nothing_on_stderr(command, write):
    process = command("run", write(), "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stdout, stderr = process.communicate()
    assert process.returncode == 0
    assert json.loads(stdout)["runs"]
    assert stderr == ""


def test_a_pipe_gets_no_colours_and_unbroken_lines(command, write):
    label = "a will with a label that is longer than any terminal is wide " * 2
    path = write(rest=f"[[wills]]\nkind = 'classic'\nlabel = '{label}'")
    process = command("run", path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stdout, stderr = process.communicate()
    assert "\x1b" not in stdout
    assert label.strip() in stdout
    assert stderr == ""


def test_a_reader_that_leaves_early_is_no_error(command, write):
    for arguments in (["run", write()], ["run", write(), "--json"], ["info"]):
        reading, writing = os.pipe()
        os.close(reading)
        process = command(*arguments, stdout=writing, stderr=subprocess.PIPE)
        os.close(writing)
        _, stderr = process.communicate()
        assert stderr == ""
        assert process.returncode == 141


def test_labels_survive_an_old_terminal(write, root):
    path = write()
    path.write_text(path.read_text() + "[[wills]]\nkind = 'classic'\nlabel = 'θ'\n", "utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "bequest", "run", str(path)],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\\u03b8" in result.stdout


def test_ctrl_c_ends_a_long_run_in_one_line_and_leaves_no_file(interrupted, write, tmp_path):
    interrupted(b"run 1 of 1", "run", write(LONG), "--output", tmp_path / "result.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.toml"]
