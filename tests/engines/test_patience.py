"""When a silent host is asked, and when it is given up."""

import pytest

from bequest.engines.runtime.patience import Patience


@pytest.fixture
def patience():
    patience = Patience(8.0)
    for host in ("a", "b"):
        patience.heard(host, 100.0)
    return patience


def test_a_host_that_reports_is_left_alone(patience):
    assert patience.look("ab", before=101.8, now=101.9) == ([], [])


def test_a_silent_host_is_asked_at_every_look_and_then_given_up(patience):
    for now in (102.0, 105.0, 108.0):
        patience.heard("b", now)
        assert patience.look("ab", before=now - 0.2, now=now) == (["a"], [])
    assert patience.look("ab", before=108.1, now=108.5).give_up == [("a", 8.5)]
    # It is told once, although its death is heard of later.
    assert patience.look("ab", before=108.5, now=108.7).give_up == []


def test_an_answer_counts(patience):
    patience.heard("a", 107.9)
    assert patience.look("a", before=108.9, now=109.0) == ([], [])


def test_a_host_that_is_gone_is_not_looked_at(patience):
    assert patience.look("", before=119.9, now=120.0) == ([], [])


def test_a_carrier_that_was_away_blames_no_host(patience):
    assert patience.look("ab", before=100.2, now=150.0) == ([], [])
    assert patience.look("ab", before=151.9, now=152.1) == (["a", "b"], [])
