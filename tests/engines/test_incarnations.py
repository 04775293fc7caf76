"""Who is there, in which incarnation: verdicts are about incarnations, not nodes."""

import math

import pytest

from bequest.engines.runtime.incarnations import Incarnations
from bequest.engines.runtime.report_batch import Ended
from bequest.protocol.events import Lost


@pytest.fixture
def incarnations():
    return Incarnations({0: "a", 1: "a", 2: "b", 3: "b"}, running=[0, 1, 2])


def test_who_is_on_a_host(incarnations):
    assert (incarnations.on("a"), incarnations.on("b"), incarnations.on("c")) == ([0, 1], [2], [])
    assert incarnations.nodes == [0, 1, 2]
    assert 3 not in incarnations  # it is yet to come


def test_who_leaves_in_good_order_is_not_lost(incarnations):
    assert incarnations.end(Ended(1, 0), 0.0) is None
    assert incarnations.on("a") == [0]
    assert incarnations.verdicts == []


def test_who_fails_is_lost(incarnations):
    verdict = incarnations.end(Ended(1, 0, "ValueError: no"), 0.0)
    assert verdict == Lost(1, "ValueError: no", 0)
    assert incarnations.verdicts == [verdict]
    assert 1 not in incarnations


def test_with_a_host_everybody_on_it_is_lost(incarnations):
    assert incarnations.end_all("a", "a died") == [Lost(0, "a died", 0), Lost(1, "a died", 0)]
    assert incarnations.nodes == [2]
    assert incarnations.end_all("a", "a died") == []


def test_a_silent_death_is_a_verdict_once_it_is_noticed(incarnations):
    assert incarnations.end(Ended(2, 0, "its process is gone", silent=True), 100.0) is None
    assert 2 not in incarnations
    assert incarnations.is_silent
    assert incarnations.noticed(99.0) == []
    assert incarnations.noticed(100.5) == [Lost(2, "its process is gone", 0)]
    assert incarnations.noticed(math.inf) == []


def test_whoever_waits_notices_silent_deaths_at_once(incarnations):
    incarnations.end(Ended(2, 0, silent=True), 0.0)
    incarnations.end(Ended(0, 0, silent=True), 0.0)
    assert [verdict.node for verdict in incarnations.noticed(math.inf)] == [0, 2]


def test_a_late_word_about_an_earlier_incarnation_does_not_end_the_present_one(incarnations):
    incarnations.end(Ended(1, 0, "it crashed"), 0.0)
    incarnation = incarnations.begin(1)
    incarnations.settle(1, incarnation)
    assert incarnation == 1
    late = incarnations.end(Ended(1, 0, "it crashed"), 0.0)
    assert 1 in incarnations
    assert late.incarnation < incarnation


def test_who_ends_before_it_is_said_to_have_come_is_not_there(incarnations):
    incarnation = incarnations.begin(3)
    assert incarnation == 0
    incarnations.end(Ended(3, incarnation), 0.0)
    incarnations.settle(3, incarnation)
    assert 3 not in incarnations


def test_a_process_that_has_ended_answers_for_the_incarnation_that_was_asked_for(incarnations):
    incarnations.end(Ended(1, 0), 0.0)
    incarnations.settle(1, incarnations.begin(1))
    assert incarnations.inquire() == {0: 0, 1: 1, 2: 0}
    verdict = incarnations.end(Ended(1, -1, "its process has ended"), 0.0)
    assert verdict == Lost(1, "its process has ended", 1)
    assert 1 not in incarnations


def test_without_an_incarnation_the_verdict_is_about_the_latest(incarnations):
    incarnations.end(Ended(2, 0), 0.0)
    incarnations.begin(2)
    assert incarnations.lose(2, "its loss is not to be had").incarnation == 1


def test_a_new_steward_hears_of_every_incarnation_that_is_over(incarnations):
    first = incarnations.end(Ended(1, 0, "it crashed"), 0.0)
    incarnations.settle(1, incarnations.begin(1))
    second = incarnations.end(Ended(2, 0, "it crashed"), 0.0)
    asked = incarnations.inquire()
    assert asked == {0: 0, 1: 1}
    assert incarnations.gone(asked) == [first, second]
    wrong = incarnations.lose(1, "wrongly")  # it is asked: its answer counts
    assert wrong not in incarnations.gone(asked)
