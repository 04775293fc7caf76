"""The checker can see: every bug on purpose is found within a few bad days."""

import pytest
from simulation import chaos, mutants

# Each of them is found within this many seeds; most within the first ten.
SEEDS = 600


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_a_bug_is_found(name, monkeypatch):
    mutants.MUTANTS[name](monkeypatch)
    found = next((seed for seed in range(SEEDS) if chaos.check(seed)[1] is not None), None)
    assert found is not None, f"{name} was not found in {SEEDS} schedules"


def test_there_are_enough_bugs():
    assert len(mutants.MUTANTS) >= 10


def test_without_a_bug_there_is_nothing_to_find():
    assert [chaos.check(seed)[1] for seed in range(30)] == [None] * 30
