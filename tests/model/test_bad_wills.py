"""A will that cannot be carried out is refused in words, whatever carries the nodes."""

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import bequest as bq
from bequest.core.legacy import Legacy
from bequest.errors import InvalidWill
from bequest.model.wills import Bequest

DIM = 2
PROBLEM = bq.problems.quadratics(n=4, dim=DIM, mu=1.0, L=4.0, seed=0)


@dataclass(frozen=True)
class Homemade(bq.wills.Will):
    """Decides whatever it is told to."""

    how: Callable = lambda estate: None

    def decide(self, estate):
        return self.how(estate)


class Disguised(Bequest):
    """Looks like a bequest, and sends something else than what it says."""

    __slots__ = ()

    def compose(self, inherited, x):
        return inherited + inherited


def good(estate, **changes):
    kept = Bequest("consensus", "as usual", estate.anchored_at(estate.x), estate.x)
    return dataclasses.replace(kept, **changes)


def spoiled(**changes):
    return lambda estate: good(
        estate, legacy=dataclasses.replace(estate.anchored_at(estate.x), **changes)
    )


nan = float("nan")
# what decide does -> what the error must name
BAD = {
    "nothing": (lambda _: None, "None, not a Bequest"),
    "a word": (lambda _: "consensus", "a str, not a Bequest"),
    "a legacy alone": (lambda e: e.anchored_at(e.x), "a Legacy, not a Bequest"),
    "another kind of bequest": (
        lambda e: Disguised("consensus", "", e.anchored_at(e.x), e.x),
        "a Disguised, not a Bequest",
    ),
    "an unknown choice": (lambda e: good(e, choice="midpoint"), "choice='midpoint'.*consensus"),
    "a restart that is no answer": (lambda e: good(e, restart="later"), "restart='later'.*True"),
    "a reason that is no text": (lambda e: good(e, why=3), "why=3"),
    "half a rank": (lambda e: good(e, rank=1.5), "rank=1.5"),
    "a rank below zero": (lambda e: good(e, rank=-1), "rank=-1"),
    "a legacy that is none": (lambda e: good(e, legacy=e.x), "legacy is a ndarray"),
    "too few dimensions": (
        lambda e: good(e, legacy=Legacy(1.0, np.zeros(1), 0.0, {e.node: 1})),
        "in 1 dimensions, but the problem has 2",
    ),
    "too many dimensions": (
        lambda e: good(e, legacy=Legacy(1.0, np.zeros((DIM, 1)), 0.0, {e.node: 1})),
        "in 2 by 1 dimensions",
    ),
    "a slope that is NaN": (spoiled(p=np.array([1.0, nan])), "not finite"),
    "a curvature that is infinite": (spoiled(eta=np.inf), "not finite"),
    "a constant that is NaN": (spoiled(c=nan), "not finite"),
    "a factor that is NaN": (
        spoiled(factor=np.full((DIM, 1), nan), weights=np.ones(1)),
        "not finite",
    ),
    "weights that are NaN": (
        spoiled(factor=np.ones((DIM, 1)), weights=np.full(1, nan)),
        "not finite",
    ),
    "of another node": (spoiled(lineage={3: 1}), "a legacy of 3"),
    "of others too": (spoiled(lineage={0: 1, 3: 1}), "a legacy of 0, 3"),
    "of no node": (spoiled(lineage={}), "a legacy of no node"),
    "of itself, twice": (spoiled(lineage={0: 2}), "a legacy of 0"),
    "compressed with others": (spoiled(blended=frozenset({0})), "a legacy of 0"),
    "a legacy that stays behind": (lambda e: good(e, restart=True), "hands over nothing"),
    "an anchor that is a list": (lambda e: good(e, anchor=[0.0, 0.0]), "anchor is not 2 finite"),
    "an anchor elsewhere": (lambda e: good(e, anchor=np.zeros(3)), "anchor is not 2 finite"),
    "an anchor nowhere": (lambda e: good(e, anchor=np.full(DIM, nan)), "anchor is not 2 finite"),
    "an anchor of text": (lambda e: good(e, anchor=np.array(["a", "b"])), "anchor is not 2 finite"),
    "directions in another space": (lambda e: good(e, along=np.eye(3)), "along.* 2 rows"),
    "directions that are no array": (lambda e: good(e, along=3), "along.* 2 rows"),
    "directions that are NaN": (lambda e: good(e, along=np.full((2, 1), nan)), "along.* 2 rows"),
    "bounds that are none": (lambda e: good(e, bounds=None), "bounds=None"),
    "bounds of nothing known": (lambda e: good(e, bounds={"best": 1.0}), "bounds=.*best"),
    "bounds that are words": (
        lambda e: good(e, bounds={"none": "small"}),
        "bounds of none is a str",
    ),
    "predictions that are words": (
        lambda e: good(e, predicted={"none": None}),
        "predicted of none is None",
    ),
    "branches that are points": (
        lambda e: good(e, branches={"local": e.x}),
        "branches of local is a ndarray",
    ),
    "branches in another space": (
        lambda e: good(e, branches={"local": Legacy.zero(7)}),
        "branches of local is a Legacy",
    ),
    "a choice that is an array": (lambda e: good(e, choice=np.array(["none"])), "choice=array"),
    "a reason that cannot be written": (lambda e: good(e, why="\ud800"), "why="),
    "bounds beyond all numbers": (
        lambda e: good(e, bounds={"none": 10**400}),
        "bounds of none is a int",
    ),
    "bounds that are complex": (
        lambda e: good(e, predicted={"none": np.complex128(1)}),
        "predicted of none is a complex128",
    ),
}
EVENTS = {"leaves": bq.Departure(0, 3), "crashes": bq.Crash(0, 3)}


def solve(will, *, event="leaves", engine=None):
    events = [EVENTS[event]]
    return bq.solve(
        PROBLEM, bq.graphs.ring(4), departures=events, will=will, rounds=10, engine=engine
    )


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("name", BAD)
def test_a_bequest_that_cannot_be_carried_out_is_refused(name, event):
    how, says = BAD[name]
    with pytest.raises(InvalidWill, match=rf"The will of node 0 \(Homemade\) returned.*{says}"):
        solve({0: Homemade(how), None: bq.wills.Consensus()}, event=event)


@pytest.mark.parametrize("name", BAD)
def test_a_real_node_with_such_a_will_fails_by_its_own_account(name):
    how, says = BAD[name]

    def after_the_first_checkpoint(estate):
        return how(estate) if estate.round else good(estate)

    will = {0: Homemade(after_the_first_checkpoint), None: bq.wills.Consensus()}
    run = solve(will, engine=bq.engines.Loop())
    (record,) = run.departures
    assert record.failed
    assert record.node == 0
    assert re.match(rf"InvalidWill: The will of node 0 \(Homemade\) returned .*{says}", record.why)
    assert run.survivors == (1, 2, 3)
    assert record.checkpoint == 0
    assert run.lost == ()


def test_a_good_one_is_carried_out_by_both():
    vector, loop = (
        solve({0: Homemade(good), None: bq.wills.Consensus()}, engine=engine)
        for engine in (bq.engines.Vector(), bq.engines.Loop())
    )
    assert [record.will for record in vector.departures] == ["Homemade"]
    assert [record.will for record in loop.departures] == ["Homemade"]
    assert vector.limit == pytest.approx(loop.limit, abs=1e-12)


def test_what_is_on_record_cannot_be_changed_by_the_will():
    kept = []

    def how(estate):
        kept.append(estate.x.copy())
        return good(estate, anchor=kept[0])

    run = solve({0: Homemade(how), None: bq.wills.Consensus()})
    before = run.departures[0].anchor.copy()
    kept[0][:] = 7.0
    assert np.array_equal(run.departures[0].anchor, before)


def test_a_will_that_raises_is_named():
    def how(estate):
        raise ZeroDivisionError("my own slip")

    with pytest.raises(ZeroDivisionError, match="my own slip") as caught:
        solve({0: Homemade(how), None: bq.wills.Consensus()})
    assert caught.value.__notes__ == ["It is the will of node 0 (Homemade) that failed."]


class Nameless(bq.wills.Will):
    def decide(self, estate):
        return good(estate)


class Derived(bq.wills.Consensus):
    def decide(self, estate):
        return Bequest("none", "I know better")


def test_a_will_without_a_label_is_called_by_its_class():
    assert Nameless().title == "Nameless"
    (record,) = solve(Nameless()).departures
    assert record.will == "Nameless"


def test_what_is_derived_from_a_will_of_the_paper_does_not_go_by_its_name():
    assert Derived().title == "Derived"
    (record,) = solve(Derived()).departures
    assert record.will == "Derived"


def test_a_label_may_be_a_field_of_its_own():
    @dataclass(frozen=True)
    class Named(bq.wills.Will):
        label: str
        weight: float

        def decide(self, estate):
            return good(estate)

    (record,) = solve(Named("my will", 2.0)).departures
    assert record.will == "my will"


def named(label):
    return type("Odd", (Nameless,), {"label": label})()


def shouting(will):
    raise OSError("no name")


@pytest.mark.parametrize(
    ("will", "says"),
    [
        (named(None), "is called None"),
        (named(3), "is called 3"),
        (named(""), "is called ''"),
        (named("  "), "is called '  '"),
        (named(property(shouting)), "is called OSError"),
    ],
    ids=["nothing", "a number", "empty", "blank", "raises"],
)
def test_a_will_that_cannot_be_named_is_refused_before_anything_is_computed(will, says):
    with pytest.raises(InvalidWill, match=f"The will Odd {says}"):
        bq.solve(PROBLEM, bq.graphs.ring(4), will={2: will}, rounds=1)


def test_nodes_that_all_fail_at_once_are_on_record_with_the_reason():
    """They make their first checkpoints before anything has begun."""
    run = bq.solve(
        PROBLEM,
        bq.graphs.ring(4),
        will=Homemade(BAD["nothing"][0]),
        rounds=10,
        engine=bq.engines.Loop(),
    )
    assert run.status == "lost"
    assert run.lost == (0, 1, 2, 3)
    assert [record.node for record in run.departures] == [0, 1, 2, 3]
    for record in run.departures:
        assert record.failed
        assert "None, not a Bequest" in record.why
