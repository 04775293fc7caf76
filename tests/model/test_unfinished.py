"""A class of a user's own that is half finished is refused in words, before anything runs."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import bequest as bq
from bequest.errors import InvalidMethod, InvalidObjective, InvalidWill

PROBLEM = bq.problems.quadratics(n=4, dim=2, mu=1.0, L=4.0, seed=0)


class NoDecision(bq.wills.Will):
    pass


class NoAdvance(bq.methods.Method):
    def message(self, x, z, local, out=None):
        return (x,)


class NoFormulas(bq.Objective):
    dim = 2
    curvature = bq.Curvature(1.0, 2.0)


@pytest.mark.parametrize(
    ("kind", "error", "says", "page"),
    [
        (NoDecision, InvalidWill, "NoDecision does not define decide", "own-will"),
        (NoAdvance, InvalidMethod, "NoAdvance does not define advance", "own-method"),
        (NoFormulas, InvalidObjective, "NoFormulas does not define family and stack", "own-loss"),
        (bq.wills.Will, InvalidWill, "Will does not define decide", "own-will"),
    ],
)
def test_it_says_what_is_missing_and_which_page_shows_a_whole_one(kind, error, says, page):
    with pytest.raises(error, match=says) as refusal:
        kind()
    assert f"bequest docs {page}" in refusal.value.remedy


def test_what_is_finished_is_made_copied_and_pickled_as_before():
    for one in (bq.wills.Drift(rank=2), bq.NIDS(), bq.Quadratic(np.eye(2), np.ones(2))):
        assert type(pickle.loads(pickle.dumps(one))) is type(one)  # noqa: S301 - we made it


class Wrapper:
    """An engine of a user's own, which alters what another one reports."""

    def __init__(self, change):
        self.change = change

    def run(self, plan, progress=None):
        return self.change(bq.engines.Vector().run(plan, progress))


def solved(change):
    return bq.solve(
        PROBLEM, bq.graphs.ring(4), departures=[bq.Departure(1, 5)], rounds=20,
        engine=Wrapper(change),
    )  # fmt: skip


def test_an_engine_of_ones_own_is_believed_if_what_it_reports_can_be():
    assert solved(lambda outcome: outcome).survivors == (0, 2, 3)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda _: None, "it is a NoneType"),
        (lambda o: {"status": o.status}, "it is a dict"),
        (lambda o: replace(o, survivors=(0, 2, 7)), "survivors are"),
        (lambda o: replace(o, x=o.x[:1]), "x has shape"),
        (lambda o: replace(o, departures=()), "is not said"),
        (lambda o: replace(o, x=np.full_like(o.x, np.nan)), "not finite"),
        (lambda o: replace(o, trajectory=None), "invariant_gap"),
    ],
)
def test_and_refused_in_words_if_not(change, says):
    with pytest.raises(InvalidMethod, match=says) as refusal:
        solved(change)
    assert "The engine Wrapper reports" in refusal.value.what
    assert "own-engine" in refusal.value.remedy
