"""States that arrive in any blocks are measured as if they had arrived one by one."""

import random

import numpy as np
import pytest

import bequest as bq
from bequest.engines.runtime.report_batch import Ended, ReportBatch, Rounds, Told
from bequest.engines.runtime.round_recorder import RoundRecorder
from bequest.model.optima import Optima
from bequest.protocol.events import Began, Checkpointed, Committed, Completed, Dropped

ROUNDS = 150


class Plan:
    """As much of a plan as a recorder looks at."""

    def __init__(self, n, dim):
        self.rounds, self.problem = (
            ROUNDS,
            bq.problems.quadratics(n=n, dim=dim, mu=1.0, L=2.0, seed=1),
        )
        self.start, self.counted = np.zeros((n, dim)), {0: range(n)}
        self.optima = Optima(self.problem, {0: frozenset(range(n))}, np.ones(dim))


def recorder_of(n, dim, members=None):
    recorder = RoundRecorder(Plan(n, dim))
    members = tuple(range(n)) if members is None else members
    recorder.cut(Committed(1, 0, False, members, (), (), None, None, ()))
    return recorder


def states_of(n, dim, seed):
    """Return x, z and g of every node after every round."""
    return np.random.default_rng(seed).normal(size=(3, ROUNDS, n, dim))


def one_by_one(states, members):
    recorder = recorder_of(*states.shape[2:], members)
    for t in range(ROUNDS):
        for node in range(states.shape[2]):
            recorder.take(node, Completed(t + 1, *states[:, t, node]))
    return recorder.metrics.trajectory()


@pytest.mark.parametrize(
    ("n", "dim", "seed"), [(1, 1, 0), (5, 3, 1), (12, 4, 2), (25, 100, 3), (64, 7, 4)]
)
def test_blocks_are_measured_like_single_states(n, dim, seed):
    states, dice = states_of(n, dim, seed), random.Random(seed)  # noqa: S311 - how they come
    members = tuple(range(n)) if n < 12 else tuple(range(1, n))  # the first was taken for lost
    recorder = recorder_of(n, dim, members)
    groups = [list(range(k, n, 3)) for k in range(min(3, n))]
    done = [0] * len(groups)
    while min(done) < ROUNDS:
        k = dice.choice([k for k, t in enumerate(done) if t < ROUNDS])
        count = min(dice.randint(1, 90), ROUNDS - done[k])
        block = states[:, done[k] : done[k] + count, groups[k]]
        recorder.take_many(groups[k], done[k] + 1, block)
        done[k] += count
        if dice.random() < 0.7:
            recorder.catch_up()
            assert recorder.measured == min(done)
    measured, wanted = recorder.metrics.trajectory(), one_by_one(states, members)
    for name in ("error", "invariant_gap", "gradient_norm", "disagreement"):
        assert getattr(measured, name).tobytes() == getattr(wanted, name).tobytes()


def test_an_epoch_that_is_cut_short_ends_with_the_rounds_that_everybody_completed():
    states = states_of(2, 3, 0)
    recorder = recorder_of(2, 3)
    recorder.take_many([0], 1, states[:, :90, :1])
    recorder.take_many([1], 1, states[:, :70, 1:])
    recorder.catch_up()
    recorder.take_many([1], 71, states[:, 70:75, 1:])
    recorder.cut(Committed(2, 80, True, (0, 1), (), (), None, None, ()))
    assert recorder.measured == 75
    for node in (0, 1):
        recorder.begin(node, Began(2, 80, *states[:, 79, node]))
    assert recorder.measured == 80
    recorder.take_many([0, 1], 81, states[:, 80:83])
    recorder.catch_up()
    assert recorder.measured == 83
    trajectory, wanted = recorder.metrics.trajectory(), one_by_one(states, (0, 1))
    measured = [*range(1, 76), *range(80, 84)]
    assert trajectory.error[measured].tobytes() == wanted.error[measured].tobytes()
    # Rounds that the loss has cut short end with the restart.
    assert set(trajectory.error[76:81]) == {trajectory.error[80]}


def test_rounds_that_somebody_has_not_completed_are_not_measured():
    states = states_of(2, 3, 0)
    recorder = recorder_of(2, 3)
    recorder.take_many([0], 1, states[:, :100, :1])
    recorder.catch_up()
    assert recorder.measured == 0
    recorder.take_many([1], 1, states[:, :70, 1:])
    recorder.catch_up()
    assert recorder.measured == 70
    assert np.isfinite(recorder.metrics.trajectory().disagreement[1:71]).all()
    assert np.isinf(recorder.metrics.trajectory().disagreement[71:]).all()


def completed(node, t):
    return Completed(t, *(np.full(2, 100.0 * part + 10 * node + t) for part in range(3)))


def test_rounds_of_many_nodes_become_one_block():
    batch = ReportBatch()
    for t in (4, 5, 6):
        for node in (7, 3):
            batch.take(node, completed(node, t))
    batch.take(3, completed(3, 7))
    assert batch.rounds == 4
    behind, ahead = batch.cut()  # not the same rounds, hence not one block
    assert (behind.processes, ahead.processes) == ((7,), (3,))
    assert (behind.states.shape, ahead.states.shape) == ((3, 3, 1, 2), (3, 4, 1, 2))
    for node in (7, 3):
        batch.take(node, completed(node, 8))
    (block,) = batch.cut()
    assert (block.processes, block.first) == ((7, 3), 8)
    assert block.states[:, 0, :, 0].tolist() == [[78, 38], [178, 138], [278, 238]]
    single = list(block.of_each())
    assert [one.processes for one in single] == [(7,), (3,)]
    assert single[1].states.tolist() == [[[[38, 38]]], [[[138, 138]]], [[[238, 238]]]]
    assert batch.cut() == []
    assert batch.rounds == 0


def test_news_go_without_the_rounds_unless_an_epoch_or_an_incarnation_ends_with_them():
    batch, news = ReportBatch(), Dropped(1, "Exchange", "late")
    batch.take(0, completed(0, 1))
    batch.take(1, completed(1, 1))
    batch.take(0, news)
    assert [item.effect for item in batch.cut(rounds=False)] == [news]
    assert batch.rounds == 1
    began = Began(2, 1, *np.zeros((3, 2)))
    batch.take(0, began)
    batch.end(Ended(1, 0))
    kinds = [type(item) for item in batch.cut(rounds=False)]
    assert kinds == [Rounds, Told, Rounds, Ended]
    assert batch.cut() == []


def test_of_checkpoints_that_nobody_has_yet_only_the_newest_is_told():
    batch = ReportBatch()
    for node, t in [(0, 5), (1, 5), (0, 10)]:
        batch.take(node, Checkpointed(t, None))
    told = batch.cut(rounds=False)
    assert [(item.process, item.effect.round) for item in told] == [(0, 10), (1, 5)]
    batch.take(0, Checkpointed(15, None))
    (told,) = batch.cut()
    assert told.effect.round == 15
