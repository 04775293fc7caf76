"""The checker can see: every bug on purpose is found within a few bad days."""

from pathlib import Path

import pytest
from simulation import chaos, mutants

# Each of them is found within this many seeds; most within the first ten.
SEEDS = 200


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_a_bug_is_found(name, monkeypatch):
    mutants.MUTANTS[name](monkeypatch)
    found = next((seed for seed in range(SEEDS) if chaos.check(seed)[1] is not None), None)
    assert found is not None, f"{name} was not found in {SEEDS} schedules"


def test_there_are_as_many_bugs_as_the_readme_says():
    readme = Path(__file__).parents[2] / "README.md"
    assert f"{len(mutants.MUTANTS)} bugs put in on purpose" in readme.read_text()


def test_without_a_bug_there_is_nothing_to_find():
    assert [chaos.check(seed)[1] for seed in range(30)] == [None] * 30
