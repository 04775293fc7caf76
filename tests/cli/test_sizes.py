"""A run that cannot fit into memory is refused at once, wherever the run file comes from."""

import tracemalloc

import pytest

from bequest import journal, memory
from bequest.errors import InvalidRunFile
from bequest.runfile import load, sizes
from bequest.solver import carry_out


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """A laptop."""
    monkeypatch.setattr(memory, "here", lambda: 16e9)


@pytest.fixture
def untouched(monkeypatch):
    """Nothing may be made."""

    def made(*_, **__):
        raise AssertionError("something was made")

    monkeypatch.setattr("bequest.model.problems.quadratics", made)
    monkeypatch.setattr("bequest.runfile.schema.QuadraticsSection.build", made)
    monkeypatch.setattr("bequest.runfile.schema.GraphSection.build", made)


HUGE = {
    "nodes": ("n = 6", "n = 50_000_000", "50000000 nodes"),
    "unknowns": ("dim = 3", "dim = 100_000", "6e+10 entries"),
    "rounds": ("rounds = 200", "rounds = 1_000_000_000", "1000000000 rounds"),
    "chords": ('"ring"', '"ring_with_chords"\nchords = 1_000_000_000', "1e+09 edges"),
    "a grid": ('"ring"', '"grid"\nrows = 1_000_000_000\ncolumns = 1_000_000_000', "2e+18 edges"),
    "a complete graph": ("n = 6", "n = 100_000", "5e+09 edges"),
    "a random graph": ('"ring"', '"erdos_renyi"\nprobability = 0.9', "edges"),
    "a regular graph": ('"ring"', '"random_regular"\ndegree = 100_000', "edges"),
}


def edited(write, name):
    old, new, _ = HUGE[name]
    path = write()
    text = path.read_text().replace(old, new)
    if "complete" in name:
        text = text.replace('"ring"', '"complete"')
    if name in ("a random graph", "a regular graph"):
        text = text.replace("n = 6", "n = 1_000_000")
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", HUGE)
def test_a_slip_of_the_keyboard(bequest, write, untouched, name):
    result = bequest("run", edited(write, name))
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    for words in (HUGE[name][2], "of memory, and there are 16 GB here", "Use fewer nodes"):
        assert words in result.stderr


def test_a_log_from_elsewhere(bequest, write, tmp_path, untouched):
    path = tmp_path / "run-1.jsonl"
    text = edited(write, "nodes").read_text()
    header = {
        "log": "bequest",
        "format": journal.FORMAT,
        "provenance": {},
        "run": {"file": "run.toml", "toml": text, "label": "adaptive (Legacy-GT)", "seed": 0},
        "engine": {"hosts": 1},
    }
    path.write_bytes(journal.line_of(header))
    result = bequest("replay", path)
    assert result.exit_code == 2
    assert "50000000 nodes" in result.stderr


def test_what_fits_on_one_engine_may_not_fit_on_another(write):
    path = write()
    path.write_text(path.read_text().replace("n = 6", "n = 1_000_000"))
    plan = load(path)
    sizes.check(plan.content, plan.path)
    with pytest.raises(InvalidRunFile, match="1000000 nodes"):
        sizes.check(plan.on("loop").content, plan.path)


def test_a_large_run_is_no_slip(write, monkeypatch):
    monkeypatch.setattr(memory, "here", lambda: 2e9)
    path = write()
    text = path.read_text().replace("n = 6", "n = 100_000").replace("dim = 3", "dim = 10")
    path.write_text(text.replace("rounds = 200", "rounds = 100_000"))
    plan = load(path)
    sizes.check(plan.content, plan.path)


def test_a_placement_of_a_few_nodes_of_very_many(bequest, write):
    path = write(rest="[engine]\nkind = 'ray'\n[engine.placement]\n0 = 'a'\n")
    path.write_text(path.read_text().replace("n = 6", "n = 1_000_000_000"))
    result = bequest("run", path)
    assert result.exit_code == 2
    assert "leaves out node 1" in result.stderr


def test_a_run_file_without_end(bequest, write):
    result = bequest("run", "/dev/zero")
    assert result.exit_code == 2
    assert "/dev/zero is longer than 50 MB" in result.stderr


@pytest.mark.parametrize(
    "changes",
    [{"n = 6": "n = 20_000", "dim = 3": "dim = 10"}, {"n = 6": "n = 500", "ring": "complete"}],
)
def test_the_estimate_is_below_what_a_run_takes_but_not_by_far(write, changes):
    path = write()
    for old, new in {**changes, "rounds = 200": "rounds = 10"}.items():
        path.write_text(path.read_text().replace(old, new))
    plan = load(path)
    tracemalloc.start()
    try:
        for job in plan.jobs():
            carry_out(job.plan, job.engine)
        _, took = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    needed = sum(sizes.needed(plan.content).values())
    assert took / 4 < needed < took
