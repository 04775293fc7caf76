"""Node groups, steward and supervisor do what the loop engine does, in any order of arrival."""

from collections import Counter

import numpy as np
import pytest
import rehearsal
import scenarios
from rehearsal import Rehearsal, same
from seeds import seeds

import bequest as bq
from bequest.engines import Loop
from bequest.protocol.messages import Exchange
from bequest.solver import prepare

PROBLEM = bq.problems.quadratics(n=12, dim=4, mu=1.0, L=10.0, seed=3)
GRAPH = bq.graphs.ring_with_chords(12, chords=6, seed=3)
HOSTS = {node: f"host {node // 3}" for node in range(12)}
EVENTS = [
    bq.Departure(2, 30),
    bq.Departure(3, 30),
    bq.Crash(7, 50),
    bq.Crash(8, 50),
    bq.Return(7, 80),
    bq.Join(11, 90),
    bq.Departure(11, 120),
    bq.Forget(2, 130),
    bq.Departure(0, 160),
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("will", [bq.wills.Consensus(), bq.wills.Drift(2), bq.wills.Forgetful()])
def test_same_run_as_on_a_virtual_network(will, seed):
    common = {"departures": EVENTS, "rounds": 200, "will": will, "checkpoint_every": 7}
    loop = bq.solve(PROBLEM, GRAPH, engine=Loop(hosts=HOSTS), **common)
    run = bq.solve(PROBLEM, GRAPH, engine=Rehearsal(hosts=4, seed=seed), **common)
    assert same(run, loop)


@pytest.mark.parametrize("seed", seeds(range(2), quick=1))
@pytest.mark.parametrize("every", [7, None])
@pytest.mark.parametrize("name", scenarios.METHODS)
def test_same_run_with_every_method(name, every, seed):
    """With a pace per epoch, and with slopes recalled where there are no checkpoints."""
    method, events = scenarios.METHODS[name], [*EVENTS, bq.Crash(4, 145), bq.Return(4, 170)]
    common = {"departures": events, "rounds": 200, "method": method, "checkpoint_every": every}
    loop = bq.solve(PROBLEM, GRAPH, engine=Loop(hosts=HOSTS), **common)
    run = bq.solve(PROBLEM, GRAPH, engine=Rehearsal(hosts=4, seed=seed), **common)
    assert same(run, loop)
    (record,) = [one for one in run.departures if one.node == 4]
    # DGD has no trackers that the others could tell a slope by
    assert (record.choice == "recall") == (every is None and method.is_exact)


def test_wills_that_know_the_optimum_hear_when_it_moves():
    common = {"departures": EVENTS, "rounds": 200, "will": bq.wills.Adaptive(rule="oracle")}
    loop = bq.solve(PROBLEM, GRAPH, engine=Loop(hosts=HOSTS), **common)
    assert same(bq.solve(PROBLEM, GRAPH, engine=Rehearsal(hosts=4), **common), loop)


def test_a_leaver_that_knows_the_optimum_does_not_know_who_comes_after_it():
    """A crash, a farewell and a return after the same round: three changes, one after another."""
    events = [
        bq.Departure(5, 20),
        bq.Forget(5, 40),
        bq.Crash(7, 60),
        bq.Departure(2, 60),
        bq.Return(5, 60),
    ]
    will = bq.wills.Adaptive(rule="oracle")
    common = {"departures": events, "rounds": 100, "will": will, "buddies": 0}
    asked, at_last = [], bq.wills.Adaptive.decide

    def decide(self, estate):
        if estate.round == 60 and estate.node == 2:
            asked.append(estate.setting.optimum)
        return at_last(self, estate)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bq.wills.Adaptive, "decide", decide)
        loop = bq.solve(PROBLEM, GRAPH, engine=Loop(hosts=HOSTS), **common)
        assert same(bq.solve(PROBLEM, GRAPH, engine=Rehearsal(hosts=4), **common), loop)
        bq.solve(PROBLEM, GRAPH, **common)
    before, after = (loop.plan.optima.at(t) for t in (59, 60))
    assert np.abs(before - after).max() > 1e-3
    assert len(asked) == 3
    for optimum in asked:
        np.testing.assert_array_equal(optimum, before)


def test_no_process_has_to_see_the_states_of_all_nodes():
    """The records of who came and went need none of them, and nodes know their own results."""
    plan = prepare(PROBLEM, GRAPH, departures=EVENTS, rounds=200, will=bq.wills.Consensus())
    seen, unseen = (
        rehearsal.Stage(Rehearsal(hosts=4, records_rounds=records_rounds), plan)
        for records_rounds in (True, False)
    )
    with_rounds, without = seen.run(), unseen.run()
    assert unseen.supervisor.recorder is None
    assert all(group._reports.rounds == 0 for group in unseen.groups.values())
    for ours, theirs in zip(without, with_rounds, strict=True):
        assert (ours.ident, ours.round, ours.x.tobytes()) == (
            theirs.ident,
            theirs.round,
            theirs.x.tobytes(),
        )
    ledgers = seen.supervisor.ledger, unseen.supervisor.ledger
    for records in ("departures", "changes", "lost", "steps"):
        one, other = (list(map(str, getattr(ledger, records))) for ledger in ledgers)
        assert one == other
    for record in unseen.supervisor.ledger.departures:
        assert not np.array_equal(record.x, plan.start[record.node])
    with pytest.raises(ValueError, match="no rounds were recorded"):
        unseen.outcome(without)


@pytest.mark.parametrize("hosts", [1, 2, 5, 12])
def test_placement_changes_nothing_where_nobody_leaves(hosts):
    loop = bq.solve(PROBLEM, GRAPH, engine=Loop(), rounds=60)
    assert same(bq.solve(PROBLEM, GRAPH, engine=Rehearsal(hosts=hosts), rounds=60), loop)


def test_one_batch_per_round_and_pair_of_hosts(monkeypatch):
    stages = []
    original = rehearsal.Stage
    monkeypatch.setattr(
        rehearsal, "Stage", lambda *args: stages.append(original(*args)) or stages[-1]
    )
    bq.solve(PROBLEM, GRAPH, engine=Rehearsal(hosts=4), rounds=60)
    sent = Counter()
    for sender, receiver, messages in stages[0].calls:
        for t in {one.message.round for one in messages if type(one.message) is Exchange}:
            sent[sender, receiver, t] += 1
    # Orders of the steward let go what is held back, so that the first rounds may be split.
    later = [count for (_, _, t), count in sent.items() if t > 3]
    assert len(later) > 400
    assert set(later) == {1}


@pytest.mark.parametrize("seed", range(6))
def test_a_host_that_dies_is_adopted(seed):
    engine = Rehearsal(hosts=4, seed=seed, kill=("host 1", 70))
    run = bq.solve(
        PROBLEM,
        GRAPH,
        engine=engine,
        rounds=400,
        will=bq.wills.Drift(0),
        checkpoint_every=5,
        departures=[bq.Departure(0, 30)],
    )
    assert run.survivors == (1, 2, 6, 7, 8, 9, 10, 11)
    assert sorted(r.node for r in run.departures if r.crashed) == [3, 4, 5]
    assert run.lost == ()
    assert np.isfinite(run.invariant_gap).all()
    assert run.invariant_gap.max() < 1e-9
    # Checkpoints of round 65 or later are good enough for this.
    assert run.error[-1] < 1e-3


@pytest.mark.parametrize("at", [1, 31, 51, 52, 80, 91, 140])
def test_a_steward_that_dies_is_replaced(at):
    """Before anything happens, in the middle of a change, and while nodes wait to come in."""
    common = {"departures": EVENTS, "rounds": 200, "will": bq.wills.Drift(2), "checkpoint_every": 7}
    loop = bq.solve(PROBLEM, GRAPH, engine=Loop(hosts=HOSTS), **common)
    run = bq.solve(PROBLEM, GRAPH, engine=Rehearsal(seed=at, kill_steward=at), **common)
    assert run.survivors == loop.survivors
    assert sorted(r.node for r in run.departures) == sorted(r.node for r in loop.departures)
    assert run.lost == ()
    assert run.invariant_gap.max() < 1e-9
    assert len(run.changes) == len(loop.changes)


@pytest.mark.parametrize("at", [12, 70])
def test_a_steward_that_dies_with_its_host_hears_the_verdicts(at):
    engine = Rehearsal(hosts=4, seed=at, kill=("host 1", at), kill_steward=at)
    run = bq.solve(PROBLEM, GRAPH, engine=engine, rounds=200, checkpoint_every=5)
    assert sorted(r.node for r in run.departures if r.crashed) == [3, 4, 5]
    assert run.survivors == (0, 1, 2, 6, 7, 8, 9, 10, 11)


@pytest.mark.parametrize("seed", range(3))
def test_who_fails_is_treated_as_crashed(seed):
    class Armed(Rehearsal):
        """Lets the loss break in the run only, not while the optimum is looked for."""

        def run(self, plan, progress=None):
            armed.append(True)
            return super().run(plan, progress)

    armed = []

    def breaks(x):
        if armed and np.linalg.norm(x) > 0.5:
            raise OSError("the disk is gone")
        return float(x @ x) / 2, x

    losses = [bq.Quadratic(np.eye(2), [3.0, 0.0]) for _ in range(5)]
    losses[2] = bq.Function(breaks, dim=2, curvature=(1.0, 1.0), check=False)
    ring = [(k, (k + 1) % 5) for k in range(5)]
    engine = Armed(hosts=3, seed=seed)
    run = bq.solve(
        bq.Problem(losses), ring, engine=engine, rounds=300, will=bq.wills.Consensus(), start=[0, 0]
    )
    (record,) = run.departures
    assert record.node == 2
    assert record.failed
    assert "the disk is gone" in record.why
    assert run.survivors == (0, 1, 3, 4)
