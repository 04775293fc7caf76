"""The silo that took digit 7 with it: the demo's numbers, in bands."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from bequest.experiments import digits


def accuracy(outcome, will):
    return {e.schedule: e.score.accuracy for e in outcome.endings if e.will == will}


def test_the_setting_is_the_one_described():
    problem, exam = digits.setting(seed=4)
    assert (problem.n, problem.dim) == (10, 650)
    assert problem.mu == pytest.approx(0.01)
    for node in range(10):
        loss = problem.objective(node)
        assert set(loss.y.tolist()) == {node}
        assert loss.divisor == pytest.approx(125.8)
        assert loss.X.min() == 0
        assert loss.X.max() == 1
        assert (loss.X[:, -1] == 1).all()
    assert exam.y.size == 539
    assert np.bincount(exam.y).min() >= 52


def test_the_demo_in_its_bands():
    """One test, so that the study is carried out once however the tests are spread."""
    with threadpool_limits(1):  # as the command does
        outcome = digits.study(seed=4)
    assert 0.94 <= outcome.nobody_left.accuracy <= 0.965
    for ending in outcome.endings:
        # The survivors are where more rounds would leave them, as far as any image can tell.
        distance = np.linalg.norm(ending.run.x - ending.run.limit, axis=1).max()
        assert ending.unsettled == 0
        leavers = [ending.score.recall[str(digit)] for digit in digits.LEAVERS]
        if ending.will == "classic":  # never recognises the leavers' digits again
            assert distance < 0.02
            assert 0.60 <= ending.score.accuracy <= 0.72
            assert leavers == [0, 0, 0]
        else:  # the paper's legacy does
            assert distance < 1e-9
            assert ending.score.accuracy >= 0.88
            assert min(leavers) > 0.5
            assert [record.choice for record in ending.run.departures] == ["consensus"] * 3
            assert ending.run.lost == ()
    remembered = accuracy(outcome, "adaptive (Legacy-GT)")
    assert remembered["late"] > remembered["early"]


@pytest.mark.slow
def test_the_medians_over_twenty_splits_and_networks(monkeypatch):
    monkeypatch.setattr(digits, "ROUNDS", 1500)
    with threadpool_limits(1):
        outcomes = [digits.study(seed) for seed in range(20)]
    assert 0.94 <= np.median([o.nobody_left.accuracy for o in outcomes]) <= 0.965
    for schedule in digits.SCHEDULES:
        for will, low, high in (("classic", 0.66, 0.70), ("adaptive (Legacy-GT)", 0.88, 0.94)):
            assert low <= np.median([accuracy(o, will)[schedule] for o in outcomes]) <= high
