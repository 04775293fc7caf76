"""The public names: what is written in README and errors can be imported, and type-checks."""

import ast
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import pytest

import bequest

SOURCE = Path(bequest.__file__).parents[1]
ROOMS = [name for name in bequest.__all__ if isinstance(getattr(bequest, name), ModuleType)]

# What a reader of the README writes.
SNIPPET = """
import bequest as bq
import bequest.graphs
from bequest.departures import Crash, most_heterogeneous
from bequest.wills import Adaptive

problem = bq.problems.quadratics(n=4, dim=2, mu=1.0, L=4.0, seed=0)
will: bq.wills.Will = bq.wills.Adaptive(rule="certified")
leaving: list[bq.departures.Event] = [Crash(1, 5), *most_heterogeneous(problem, rounds=[7])]
network: bq.Graph = bequest.graphs.ring(4)
silos = bq.partition.iid(8, n=2, seed=0)
run = bq.solve(problem, network, departures=leaving, will=Adaptive(), rounds=9)
reveal_type(bq.wills.Adaptive)
reveal_type(silos)
reveal_type(run)
bq.wills.Adaptive(rule="wrong")
bq.wills.Adaptve()
"""


def process(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )


def test_the_rooms_are_those_that_are_written_about():
    assert {"data", "departures", "engines", "graphs", "partition", "problems", "wills"} <= set(
        ROOMS
    )


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_can_be_imported_in_every_way(name):
    """In a fresh process each: whatever was imported before would hide what is missing."""
    room = getattr(bequest, name)
    symbol = next(n for n in dir(room) if n[0].isalpha() and callable(getattr(room, n)))
    ways = [
        f"from bequest.{name} import {symbol}; room = bq.{name}; assert {symbol} is room.{symbol}",
        f"import bequest.{name}; room = bequest.{name}",
        f"bq.{name}; import bequest.{name} as room",
    ]
    for way in ways:
        same = f"assert room is bq.{name} is sys.modules['bequest.{name}']"
        done = process("-c", f"import sys, bequest as bq; {way}; {same}")
        assert done.returncode == 0, (way, done.stderr)


def test_the_events_of_a_room_are_those_of_the_house():
    for name in ("Crash", "Departure", "Forget", "Join", "Return"):
        assert getattr(bequest.departures, name) is getattr(bequest, name)


def test_importing_the_package_loads_nothing_heavy():
    done = process(
        "-c", "import sys, bequest; print('numpy' in sys.modules, 'bequest.model' in sys.modules)"
    )
    assert done.stdout == "False False\n"


def test_a_type_checker_sees_what_is_in_the_rooms(tmp_path):
    snippet = tmp_path / "mine.py"
    snippet.write_text(SNIPPET)
    done = process(
        "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "--config-file",
        os.devnull, str(snippet), MYPYPATH=str(SOURCE),
    )  # fmt: skip
    told = [line.partition("mine.py:")[2] for line in done.stdout.splitlines()]
    adaptive, silos, run, wrong, unknown, *_ = told
    assert "bequest.model.wills.adaptive.Adaptive" in adaptive
    assert "list[" in silos
    assert "bequest.model.run.Run" in run
    assert "incompatible type \"Literal['wrong']\"" in wrong
    assert 'has no attribute "Adaptve"' in unknown
    assert len([line for line in told if ": error:" in line]) == 2, done.stdout


def named(tree):
    """The classes, aliases of types and type variables that a module defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            yield ast.unparse(node.target)
        elif isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("TypeVar("):
            yield ast.unparse(node.targets[0])


def test_one_name_is_one_thing():
    where = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        for name in named(ast.parse(path.read_text())):
            where[name].append(path.relative_to(SOURCE))
    assert {"Legacy", "Input", "Answer"} <= where.keys()
    twice = {name: paths for name, paths in where.items() if len(paths) > 1}
    # An array of one dimension, and the engine whose public name it is; a node's loss in either
    # framework; what an heir does with samples, and an engine with a log.
    assert twice.keys() == {"Vector", "Silo", "Replay"}, twice
