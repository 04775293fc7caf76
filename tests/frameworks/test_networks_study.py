"""`bequest reproduce networks`, small: its cases, what they find, and the tables made of that."""

import numpy as np
import pytest

pytest.importorskip("torch")

from bequest.paper import aside, store
from bequest.paper.studies import networks

VERY_EARLY, LATE = "very early", networks.LATE


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(networks, "ROUNDS", 60)
    monkeypatch.setattr(networks, "TIMES", {VERY_EARLY: (2, 4, 6), LATE: (30, 40, 50)})


@pytest.mark.parametrize("network", ["relu", "cnn"])
def test_every_will_is_told_on_the_same_minibatches(network):
    facts = networks.measure(network=network, split="digits", seed=0, rounds=60).facts
    assert set(facts["times"]) == {VERY_EARLY, LATE}
    for compared in facts["times"].values():
        assert list(compared) == list(networks.WILLS)
        for told in compared.values():
            assert 0 <= told["of leavers"] <= 100
            assert told["gap"] < 1e-9
            assert len(told["left"]) == 3
    early = facts["times"][VERY_EARLY]
    assert early["replay, moments"]["left"] == ["replay"] * 3
    assert early["replay, moments"]["right"] > early[networks.FORGETS]["right"]


def test_a_sketch_is_one_and_who_insists_hands_over(monkeypatch):
    left = {}
    solve = networks.solve

    def watched(*args, **options):
        run = solve(*args, **options)
        for record in run.departures:
            if record.choice != "none":
                left.setdefault(type(options["will"]).__name__, []).append(record)
        return run

    monkeypatch.setattr(networks, "solve", watched)
    facts = networks.measure(network="tanh", split="digits", seed=0, rounds=60).facts
    early = facts["times"][VERY_EARLY]
    assert len(networks.INSISTING) == 3
    for title in networks.INSISTING:
        assert "none" not in early[title]["left"]
    for title in ("trust", "sketch, rank 8"):
        assert early[title]["left"] == ["none"] * 3
    assert early["trust, insisting"]["vectors"] == 2.0
    assert early["sketch, insisting"]["vectors"] == 10.0
    for record in left["InsistingSketch"]:
        low, high = record.legacy.curvature
        assert record.legacy.rank == 8
        assert low == pytest.approx(networks.L2)
        # as stiff as the Gauss-Newton matrix, but no stiffer than an heir can take
        assert 100 * low < high <= 0.5 / networks.STEPS["tanh"] * (1 + 1e-9)
    np.testing.assert_allclose(
        [record.legacy.curvature[0] for record in left["InsistingConsensus"]],
        [record.legacy.curvature[1] for record in left["InsistingConsensus"]],
    )


def test_a_will_that_leaves_nothing_is_not_run_twice(monkeypatch):
    runs = []
    solve = networks.solve

    def counted(*args, **options):
        runs.append(options["rounds"])
        return solve(*args, **options)

    monkeypatch.setattr(networks, "solve", counted)
    facts = networks.measure(network="tanh", split="dirichlet", seed=0, rounds=60).facts
    early = facts["times"][VERY_EARLY]
    assert early["trust"]["left"] == ["none"] * 3
    assert early["sketch, rank 8"] == early["trust"] == early[networks.FORGETS]
    assert not set(early) & set(networks.INSISTING)  # they are asked with one digit per silo
    # nobody left, forgetting, a look at trust, which is one at all quadratics, and samples
    assert runs[:5] == [60, 60, 6, 60, 60]


def test_a_longer_run_has_late_exits_only():
    facts = networks.measure(network="tanh", split="digits", seed=0, rounds=70).facts
    assert list(facts["times"]) == [LATE]


def test_cases_are_told_as_tables(tmp_path, monkeypatch):
    kinds = {("tanh", "digits", 60), ("tanh", "digits", 70)}
    cases = tuple(
        case
        for case in networks.STUDY.cases
        if case.params["network"] == "tanh"
        and case.params["split"] == "digits"
        and case.params["seed"] == 0
    )
    assert len(cases) == len(kinds)
    found = networks.measure(network="tanh", split="digits", seed=0, rounds=60)
    monkeypatch.setattr(networks, "measure", lambda **_: found)
    for case in cases:
        result = store.Result("networks", case.name, case.params, found.arrays, found.facts)
        store.write(tmp_path, result)
    tables = list(aside.tables("networks", tmp_path))
    assert [table.title.partition(":")[0] for table in tables] == [
        "tanh, one digit per silo",
        f"tanh, one digit per silo, {networks.LONGER} rounds",
    ]
    for table in tables:
        assert table.headers == ["will", VERY_EARLY, LATE]
        assert [row[0] for row in table.rows] == [networks.NOBODY, *networks.WILLS]
        assert all(len(row) == len(table.headers) for row in table.rows)
        # the vectors of that time, and not the most of all times
        cells = dict(zip(table.headers, table.rows[2], strict=True))
        for time in (VERY_EARLY, LATE):
            told = found.facts["times"][time]["trust"]["vectors"]
            assert cells[time].endswith(f", {told:.2f}")
