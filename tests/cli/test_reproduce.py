"""``bequest reproduce``: from nothing to a report, again, and with everything that can be wrong."""

import subprocess
import sys

import numpy as np
import pytest

from bequest.paper import store, studies
from bequest.paper.studies.study import Tally


def bequest(*words, timeout=120):
    return subprocess.run(
        [sys.executable, "-m", "bequest", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_one_study_from_nothing_to_a_report_and_again(tmp_path):
    first = bequest("reproduce", "lower-bound", "-o", tmp_path)
    assert first.returncode == 0, first.stderr
    assert "3 results computed" in first.stdout
    page = (tmp_path / "report" / "index.html").read_text()
    assert "thm:lower" in page
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    assert len(before) == 3
    second = bequest("reproduce", "lower-bound", "-o", tmp_path)
    assert "3 were there already" in second.stdout
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")} == before
    assert (tmp_path / "report" / "index.html").read_text() == page
    numbers = [result.arrays for result in store.read_all(tmp_path, "lower-bound")]
    third = bequest("reproduce", "lower-bound", "-o", tmp_path, "--again")
    assert "3 results computed" in third.stdout
    for old, new in zip(numbers, store.read_all(tmp_path, "lower-bound"), strict=True):
        for name in old:
            np.testing.assert_allclose(new.arrays[name], old[name], rtol=1e-9, atol=0)


def test_an_unknown_study_is_named_with_what_there_is(tmp_path):
    done = bequest("reproduce", "stres", "-o", tmp_path)
    assert done.returncode == 2
    assert "no study called 'stres'" in done.stderr
    assert "Did you mean stress?" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_computed(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    done = bequest("reproduce", "lower-bound", "-o", tmp_path / "file" / "below")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_result_that_was_cut_short_is_refused_and_kept(tmp_path):
    path = store.write(tmp_path, store.Result("lower-bound", "n-005", {"n": 5}, {}, {}))
    path.write_bytes(path.read_bytes()[:40])
    done = bequest("reproduce", "lower-bound", "-o", tmp_path)
    assert done.returncode == 2
    assert "n-005.npz" in done.stderr
    assert "--again" in done.stderr
    assert len(path.read_bytes()) == 40


def test_beyond_brings_the_early_exits_along(monkeypatch, tmp_path):
    """Exits before round 50, and Replay: told in the terminal, beside the report."""
    from bequest.cli import reproduce as command
    from bequest.paper.studies import early

    asked, told = [], []

    def noted(wanted, *_, **__):
        asked.append([study.name for study in wanted])
        return Tally(0, 0)

    monkeypatch.setattr(command, "carry_out", noted)
    monkeypatch.setattr(command, "_tell", lambda name, *_: told.append(name))
    monkeypatch.setattr(command.pages, "build", lambda folder: [folder / "index.html"])
    for names in (["beyond"], ["early", "beyond"], ["stress"], []):
        command.reproduce(names, folder=tmp_path, again=False)
    assert asked == [["beyond", "early"], ["beyond", "early"], ["stress"], list(studies.NAMES)]
    assert told == ["early", "early"]
    assert {"Drift(4)", "FullHessian", "replay, moments", "replay, 32 centroids"} <= set(
        early.WILLS
    )


@pytest.mark.parametrize("name", studies.NAMES)
def test_every_study_is_a_declaration(name):
    study = studies.find(name)
    assert study.name == name
    names = [case.name for case in study.cases]
    assert len(set(names)) == len(names)
    if name == "robustness":
        assert sum(case.params["count"] for case in study.cases) >= 500
    elif name not in ("real", "lower-bound"):
        seeded = [case for case in study.cases if "seed" in case.params]
        # of the rules, every seed holds 24 decisions
        least = {"rules": 6, "methods": 10}.get(name, 20)
        assert len({case.params["seed"] for case in seeded}) >= least
        # the real datasets are what they are, and paces are tuned on all seeds at once
        given = [case for case in study.cases if case not in seeded]
        fixed = [case for case in given if case.params.get("part") != "tuned"]
        assert len(fixed) == {"beyond": 2, "methods": 4}.get(name, 0)


def numbers_in(facts):
    """Every number of nested facts, in a fixed order; everything else as it is."""
    if isinstance(facts, dict):
        return [found for key in sorted(facts) for found in [key, *numbers_in(facts[key])]]
    if isinstance(facts, list):
        return [found for item in facts for found in numbers_in(item)]
    return [facts]


@pytest.mark.slow
def test_everything_in_ten_minutes_and_twice_the_same(tmp_path):
    for folder in ("one", "two"):
        done = bequest("reproduce", "-o", tmp_path / folder, timeout=600)
        assert done.returncode == 0, done.stderr
    page = (tmp_path / "one" / "report" / "index.html").read_text()
    for name in studies.NAMES:
        assert f"bequest reproduce {name}" in page
        pairs = zip(
            store.read_all(tmp_path / "one", name),
            store.read_all(tmp_path / "two", name),
            strict=True,
        )
        for one, two in pairs:
            assert one.case == two.case
            for a, b in zip(numbers_in(one.facts), numbers_in(two.facts), strict=True):
                # what is rounding itself (errors of 1e-13) differs by rounding
                assert a == (pytest.approx(b, rel=1e-9, abs=1e-12) if type(b) is float else b)
            for array in one.arrays:
                np.testing.assert_allclose(
                    two.arrays[array], one.arrays[array], rtol=1e-9, atol=1e-11
                )
