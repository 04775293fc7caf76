"""A thousand bad days, after every event of which everything is checked."""

import subprocess
import sys
from pathlib import Path

import pytest
from simulation import chaos

REGRESSIONS = Path(__file__).parent / "regressions.txt"
BATCH = 50


@pytest.mark.parametrize("first", range(0, 1000, BATCH))
def test_nothing_is_violated(first):
    results = [chaos.check(seed) for seed in range(first, first + BATCH)]
    assert [(seed, wrong) for seed, wrong, _, _ in results if wrong is not None] == []
    # the days are not empty: messages arrive, and cuts are looked at
    assert sum(events for *_, events, _ in results) > 100 * BATCH
    assert sum(cuts for *_, cuts in results) > 20 * BATCH


@pytest.mark.parametrize("line", REGRESSIONS.read_text().splitlines())
def test_what_once_went_wrong_stays_right(line):
    generation, seed, *_ = line.split()
    assert chaos.check(int(seed), int(generation))[1] is None


def test_a_seed_is_one_line_to_reproduce():
    script = Path(chaos.__file__)
    command = [sys.executable, str(script), "--seed", "7"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "seed 7:" in told.stdout
    assert "no violation" in told.stdout


def test_the_days_are_bad_enough():
    """Every kind of fault happens, in every phase of a change."""
    inflicted, phases = set(), set()
    for seed in range(300):
        simulation = chaos.Simulation(chaos.day(seed))
        original = simulation.inflict

        def inflict(action, pick, simulation=simulation, original=original):
            steward = simulation.world.steward
            phases.add(None if steward is None else str(steward.phase))
            inflicted.add(action)
            original(action, pick)

        simulation.inflict = inflict
        simulation.run()
    assert inflicted == set(chaos.GENERATIONS[chaos.LATEST][0])
    assert phases >= {None, "asking", "running", "halting", "arranging", "beginning", "finished"}
