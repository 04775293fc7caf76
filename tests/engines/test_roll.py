"""Who is there, and in which life: verdicts are about lives, not about numbers of nodes."""

import pytest

from bequest.engines.ray import roll as module
from bequest.engines.ray.reports import Ended
from bequest.engines.ray.roll import Roll
from bequest.protocol.events import Lost


@pytest.fixture
def roll():
    return Roll({0: "a", 1: "a", 2: "b", 3: "b"}, there=[0, 1, 2])


def test_who_is_on_a_host(roll):
    assert (roll.on("a"), roll.on("b"), roll.on("c")) == ([0, 1], [2], [])
    assert roll.nodes == [0, 1, 2]
    assert 3 not in roll  # it is yet to come


def test_who_leaves_in_good_order_is_not_lost(roll):
    assert roll.end(Ended(1, 0)) is None
    assert roll.on("a") == [0]
    assert roll.verdicts == []


def test_who_fails_is_lost(roll):
    verdict = roll.end(Ended(1, 0, "ValueError: no"))
    assert verdict == Lost(1, "ValueError: no", 0)
    assert roll.verdicts == [verdict]
    assert roll.is_latest(verdict)
    assert 1 not in roll


def test_with_a_host_everybody_on_it_is_lost(roll):
    assert roll.end_all("a", "a died") == [Lost(0, "a died", 0), Lost(1, "a died", 0)]
    assert roll.nodes == [2]
    assert roll.end_all("a", "a died") == []


def test_a_silent_death_is_a_verdict_once_it_is_noticed(roll, monkeypatch):
    now = 100.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    assert roll.end(Ended(2, 0, "its process is gone", silent=True)) is None
    assert 2 not in roll
    now = 101.0
    assert roll.noticed(2.0) == []
    now = 102.5
    assert roll.noticed(2.0) == [Lost(2, "its process is gone", 0)]
    assert roll.noticed() == []


def test_whoever_waits_notices_silent_deaths_at_once(roll):
    roll.end(Ended(2, 0, silent=True))
    roll.end(Ended(0, 0, silent=True))
    assert [verdict.node for verdict in roll.noticed()] == [0, 2]


def test_a_late_word_about_an_earlier_life_does_not_end_the_present_one(roll):
    roll.end(Ended(1, 0, "it crashed"))
    life = roll.begin_life(1)
    roll.settle(1, life)
    assert life == 1
    late = roll.end(Ended(1, 0, "it crashed"))
    assert 1 in roll
    assert not roll.is_latest(late)


def test_who_ends_before_it_is_said_to_have_come_is_not_there(roll):
    life = roll.begin_life(3)
    assert life == 0
    roll.end(Ended(3, life))
    roll.settle(3, life)
    assert 3 not in roll


def test_a_process_that_has_ended_answers_for_the_life_that_was_asked_for(roll):
    roll.end(Ended(1, 0))
    roll.settle(1, roll.begin_life(1))
    assert roll.inquire() == {0: 0, 1: 1, 2: 0}
    verdict = roll.end(Ended(1, -1, "its process has ended"))
    assert verdict == Lost(1, "its process has ended", 1)
    assert 1 not in roll


def test_without_a_life_the_verdict_is_about_the_latest(roll):
    roll.end(Ended(2, 0))
    roll.begin_life(2)
    assert roll.lose(2, "its loss is not to be had").life == 1


def test_a_new_steward_hears_of_every_life_that_is_over(roll):
    first = roll.end(Ended(1, 0, "it crashed"))
    roll.settle(1, roll.begin_life(1))
    second = roll.end(Ended(2, 0, "it crashed"))
    asked = roll.inquire()
    assert asked == {0: 0, 1: 1}
    assert roll.gone(asked) == [first, second]
    wrong = roll.lose(1, "wrongly")  # it is asked: its answer counts
    assert wrong not in roll.gone(asked)
