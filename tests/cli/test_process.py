"""What only a process of its own can show: start-up, pipes, terminals and signals."""

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from bequest.demo import digits

FULL = "/dev/full"
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
    """In processor time: how long that takes on the clock is the machine's affair."""
    times = []
    for _ in range(3):
        before = os.times()
        process = command("--help", stdout=subprocess.PIPE)
        text, _ = process.communicate()
        after = os.times()
        times.append(
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
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


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words",
    ["run FILE", "run FILE --json", "info", "docs", "--help", "run --help", "--version"],
)
def test_a_reader_that_leaves_early_is_no_error(command, write, monkeypatch, words, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    reading, writing = os.pipe()
    os.close(reading)
    arguments = [write() if word == "FILE" else word for word in words.split()]
    process = command(*arguments, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (141, "")


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


def ends_in_words(process, *words):
    """Check that it said what is wrong, with exit code 2 and without a traceback."""
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 2, stderr
    assert stderr.startswith("error: ")
    assert "what to do: " in stderr
    assert stderr.count("\n") == 2, stderr
    for word in words:
        assert word in stderr


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [
        ("run FILE", ""),
        ("run FILE", "1"),
        ("run FILE --json", ""),
        ("replay LOG", ""),
        ("reproduce lower-bound -o OUT", ""),
        ("info", ""),
        ("info --json", ""),
        ("run --help", ""),
        ("--help", ""),
        ("--version", ""),
        ("--version", "1"),
    ],
)
def test_no_room_for_the_output(command, bequest, write, tmp_path, monkeypatch, words, unbuffered):
    """Also not when Python flushes once more at exit."""
    places = {"FILE": write(), "LOG": tmp_path / "logs" / "run-1.jsonl", "OUT": tmp_path / "out"}
    if "LOG" in words:
        made = bequest("run", places["FILE"], "--engine", "loop", "--log", tmp_path / "logs")
        assert made.exit_code == 0
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with Path(FULL).open("w") as full:
        arguments = [places.get(word, word) for word in words.split()]
        process = command(*arguments, stdout=full, stderr=subprocess.PIPE)
        ends_in_words(process, "output cannot be written: no space left on device")


def test_no_room_for_the_output_of_a_demonstration(bequest, monkeypatch, tmp_path):
    """In this process, where nothing has to be computed for it."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bequest.cli.demo.Terminal.print", full)
    monkeypatch.setattr(digits, "study", lambda *_, **__: None)
    monkeypatch.setattr("bequest.cli.guard._give_up", lambda _: None)
    result = bequest("demo", "-o", tmp_path)
    assert result.exit_code == 2
    assert "output cannot be written" in result.stderr


def no_large_files():
    """Let no file grow beyond a kilobyte: a disk that fills up, without one."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--output", "PLACE"], "place"),
        (["--record", "PLACE"], "run-01.record"),
        (["--engine", "loop", "--log", "PLACE"], "run-1.jsonl"),
    ],
    ids=" ".join,
)
def test_no_room_for_a_file(command, write, tmp_path, options, name):
    place = tmp_path / "place"
    process = command(
        "run", write(), *[place if option == "PLACE" else option for option in options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=no_large_files,
    )  # fmt: skip
    ends_in_words(process, name, "cannot be written: file too large", "Make room")
    assert not list(tmp_path.rglob("*.part"))


def test_no_room_for_the_results_of_a_reproduction(command, tmp_path):
    process = command(
        "reproduce", "lower-bound", "-o", tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=no_large_files,
    )  # fmt: skip
    ends_in_words(process, ".npz", "cannot be written: file too large")


def test_an_output_that_is_a_full_device(command, write):
    process = command("run", write(), "-o", FULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ends_in_words(process, f"{FULL} cannot be written: no space left on device", "Make room")


def test_no_room_to_say_so_either(command, write, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", "")
    with Path(FULL).open("w") as full:
        for arguments in (["run", write()], ["run", tmp_path / "nosuch.toml"]):
            process = command(*arguments, stdout=full, stderr=full)
            assert process.wait(timeout=60) == 2


@pytest.mark.parametrize("words", ["run FILE", "run FILE --json", "info", "docs", "--help"])
def test_a_closed_standard_output_is_told_before_anything_runs(command, write, words):
    arguments = [write() if word == "FILE" else word for word in words.split()]
    process = command(*arguments, stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1))
    ends_in_words(process, "output cannot be written: standard output is closed", "/dev/null")


def test_a_standard_output_that_can_only_be_read(command):
    with Path(os.devnull).open() as silent:
        process = command("info", stdout=silent, stderr=subprocess.PIPE)
        ends_in_words(process, "output cannot be written: bad file descriptor")


def test_a_closed_standard_error_is_not_missed(command, write):
    process = command("run", write(), stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    stdout, _ = process.communicate()
    assert process.returncode == 0
    assert "adaptive" in stdout


def test_both_closed_leave_the_exit_code(command, write):
    process = command("run", write(), preexec_fn=lambda: os.closerange(1, 3))
    assert process.wait(timeout=60) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("run PIPE", "pipe cannot be read: it is a named pipe"),
        ("run FILE -o PIPE", "pipe cannot be written: it is a named pipe"),
        ("replay PIPE", "pipe cannot be read: it is not an ordinary file"),
        ("run FILE --engine loop --log LOGS", "run-1.jsonl cannot be written: it is a named pipe"),
    ],
)
def test_named_pipes_are_refused_and_not_waited_for(command, write, tmp_path, words, says):
    places = {"FILE": write(), "PIPE": tmp_path / "pipe", "LOGS": tmp_path / "logs"}
    os.mkfifo(places["PIPE"])
    places["LOGS"].mkdir()
    os.mkfifo(places["LOGS"] / "run-1.jsonl")
    arguments = [places.get(word, word) for word in words.split()]
    process = command(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ends_in_words(process, says)


def test_the_pipes_of_the_shell_are_no_named_ones(root, write):
    script = f"{sys.executable} -m bequest run <(cat {write()}) -o /dev/stdout --json | cat"
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        cwd=root,
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.count('"format": 1') == 2


@pytest.mark.parametrize("engine", ["vector", "loop"])
def test_a_record_that_is_a_link_to_nowhere_is_found_before_anything_runs(
    bequest, write, tmp_path, monkeypatch, engine
):
    monkeypatch.setattr("bequest.cli.run._carried_out", None)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "run-01.record").symlink_to(tmp_path / "nowhere" / "at-all")
    result = bequest("run", write(), "--engine", engine, "--record", tmp_path / "runs", "--resume")
    assert result.exit_code == 2
    assert "run-01.record cannot be written: no such file or directory" in result.stderr
