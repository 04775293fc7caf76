"""Bad days, 1,340 of them in `make test-all`: everything is checked after every event."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from seeds import seeds
from simulation import chaos

REGRESSIONS = Path(__file__).parent / "regressions.txt"
BATCH = 50
BAD_ENOUGH = 340
KINDS = ("crashes", "departures", "forgets", "returns", "joins")


# The first ones are those of test_the_days_are_bad_enough: it also fails when anything is violated.
@pytest.mark.parametrize("first", seeds(range(BAD_ENOUGH, 1340, BATCH), quick=1))
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


def test_the_days_are_bad_enough(monkeypatch):
    """Every kind of fault happens, in every phase of a change, beside everything one can plan."""
    inflicted, phases, seen, methods = set(), set(), Counter(), Counter()
    go_back = chaos.Checker._go_back

    def count(checker):
        seen["an epoch is abandoned"] += 1
        go_back(checker)

    monkeypatch.setattr(chaos.Checker, "_go_back", count)
    for seed in range(BAD_ENOUGH):
        simulation = chaos.Simulation(chaos.day(seed))
        original = simulation.inflict

        def inflict(action, pick, simulation=simulation, original=original):
            steward = simulation.world.steward
            phases.add(None if steward is None else str(steward.phase))
            inflicted.add(action)
            original(action, pick)

        simulation.inflict = inflict
        simulation.run()
        plan, compared = simulation.day.plan, simulation.is_compared
        methods[plan.method.label, getattr(plan.method, "metric", None)] += 1
        seen["compared, a pace chosen anew"] += (
            compared and len(simulation.execution.supervisor.ledger.steps) > 1
        )
        recalled = [
            record.choice == "recall"
            for record in simulation.execution.supervisor.ledger.departures
        ]
        seen["recalled"] += any(recalled)
        seen["compared, with a recall"] += compared and any(recalled)
        told = [
            record.choice == "replay"
            for record in simulation.execution.supervisor.ledger.departures
        ]
        seen["samples handed over"] += any(told)
        seen["compared, with samples"] += compared and any(told)
        batches = simulation.day.kind == "batches"
        back = any(n.incarnation for n in simulation.world.nodes.values())
        seen["compared, on minibatches"] += compared and batches
        seen["back on minibatches"] += batches and back
        planned = {name for c in plan.schedule.values() for name in KINDS if getattr(c, name)}
        seen.update(planned)
        traps = {"torn", "orphans"} & {action for _, action, _ in simulation.day.faults}
        seen["a trap is sprung"] += bool(traps - simulation._traps.keys())
        seen["compared"] += compared
        seen["compared, with appointments"] += compared and bool(planned)
        seen["compared, with crashes"] += compared and "crashes" in planned
        seen["compared, several on a host"] += compared and simulation.day.engine.hosts > 1
        seen["compared, a steward replaced"] += compared and simulation.world._terms > 0
        seen["as planned"] += compared and bool(planned) and not simulation.day.faults
    assert min(seen.values()) >= 5, seen
    assert len(seen) == len(KINDS) + 15, seen
    assert len(methods) == 8, methods
    assert min(methods.values()) >= 10, methods
    assert seen["compared"] >= 85
    assert inflicted == set(chaos.GENERATIONS[chaos.LATEST][0])
    assert phases >= {None, "asking", "running", "halting", "arranging", "beginning", "finished"}
