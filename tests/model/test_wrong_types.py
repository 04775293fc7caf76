"""Wrong types given to generators, pilots, tables and phases are told in words."""

import numpy as np
import pytest

import bequest as bq
from bequest.data import Table
from bequest.errors import BequestError

PROBLEM = bq.problems.quadratics(n=3, dim=1, mu=1.0, L=2.0, seed=0)
ODD = ("4", None, [3], object())


def calls():
    """Every argument of the generators in turn, with what it cannot be."""
    usual = {
        bq.graphs.ring: {"n": 4},
        bq.graphs.path: {"n": 4},
        bq.graphs.complete: {"n": 4},
        bq.graphs.star: {"n": 4},
        bq.graphs.grid: {"rows": 2, "columns": 2},
        bq.graphs.ring_with_chords: {"n": 6, "chords": 2, "seed": 0},
        bq.graphs.erdos_renyi: {"n": 6, "probability": 0.6, "seed": 0},
        bq.graphs.random_regular: {"n": 6, "degree": 2, "seed": 0},
        bq.problems.quadratics: {
            "n": 4, "dim": 2, "mu": 1.0, "L": 2.0, "seed": 0, "spread": 1.0, "basis": "random",
        },
        bq.Pilot: {"radius": 1.0, "theta": 0.1, "zeta": 1.0, "spread": 1.0, "floor": 0.0},
    }  # fmt: skip
    for make, arguments in usual.items():
        make(**arguments)
        for name in arguments:
            # a seed may be a list of numbers, and None draws one
            odd = ("x", -1, 1.5) if name == "seed" else ODD
            for value in odd:
                yield pytest.param(make, arguments | {name: value}, id=f"{make.__name__}-{name}")


@pytest.mark.parametrize(("make", "arguments"), [*calls()])
def test_arguments_of_other_types_are_refused_in_words(make, arguments):
    with pytest.raises(BequestError) as caught:
        make(**arguments)
    assert caught.value.remedy


@pytest.mark.parametrize(
    "call",
    [
        lambda: Table(3),
        lambda: Table(None),
        lambda: Table([1, 2]),
        lambda: Table({3: [1.0]}),
        lambda: Table({"x": [[1], [2, 3]]}),
        lambda: Table({"x": 3}),
        lambda: bq.problems.quadratics(4, 2, 1.0, 2.0, 0, spectrum=["a", "b"]),
        lambda: bq.partition.iid(10, 2, "s"),
        lambda: bq.partition.dirichlet([0, 1] * 5, 2, "a", 0),
        lambda: bq.partition.holdout([0, 1] * 5, "x", 0),
        lambda: bq.departures.most_heterogeneous(3, rounds=[1]),
        lambda: bq.departures.most_heterogeneous(PROBLEM, rounds=5),
        lambda: bq.departures.most_heterogeneous(PROBLEM, rounds="12"),
        lambda: bq.phases.total(3, graph=[(0, 1)]),
        lambda: bq.phases.total([], graph=[(0, 1)]),
        lambda: bq.phases.total(["a", "b"], graph=[(0, 1)]),
        lambda: bq.phases.total([[np.nan], [1.0]], graph=[(0, 1)]),
        lambda: bq.phases.total([np.ones((2, 2))] * 2, graph=[(0, 1)]),
        lambda: bq.phases.newton(3),
        lambda: bq.phases.on_hosts(["a.csv"], label="y", loss="huber", graph=[(0, 1)]),
    ],
)
def test_things_that_are_none_are_refused_in_words(call):
    with pytest.raises(BequestError) as caught:
        call()
    assert caught.value.remedy
