"""The model of pooled training on four tables, quickly; and what departures cost, as it is told."""

import numpy as np
import pytest

from bequest import datasets
from bequest.data import Table
from bequest.errors import InvalidData
from bequest.paper import aside, store
from bequest.paper.studies import tables


@pytest.mark.parametrize(
    "name", [n if n != "digits" else pytest.param(n, marks=pytest.mark.slow) for n in tables.TABLES]
)
def test_without_departures_the_model_is_that_of_pooled_scikit_learn(name):
    found = tables.agreement(table=name).facts["agreement"]
    assert [float(strength) for strength in found] == [*tables.STRENGTHS]
    assert max(found.values()) <= 1e-6


@pytest.mark.parametrize("name", ["breast cancer", "wine", "hospitals"])
def test_a_remembered_silo_costs_less_than_a_forgotten_one(name):
    found = tables.departures(table=name, seed=0).facts["departures"]
    assert [*found] == ["1 early", "1 late", "3 early", "3 late"]
    for costs in found.values():
        assert costs["forget"]["bytes"] == 0 < costs["consensus"]["bytes"]
        assert costs["consensus"]["bytes"] < costs["whole Hessian"]["bytes"]
        assert all(np.isfinite(one["gap"]) for one in costs.values())
    # one that has come near the optimum is remembered as if it were there
    late = found["3 late"]
    assert abs(late["whole Hessian"]["gap"]) <= 0.1 * abs(late["forget"]["gap"])
    assert abs(found["1 late"]["whole Hessian"]["gap"]) <= 1e-4


def test_what_was_measured_is_told(tmp_path):
    for name in ("table-hospitals_pooled", "table-hospitals_seed-03"):
        case = next(one for one in tables.STUDY.cases if one.name == name)
        found = tables.measure(**case.params)
        store.write(tmp_path, store.Result("tables", name, case.params, found.arrays, found.facts))
    agreed, costs = aside.tables("tables", tmp_path)
    assert agreed.headers == ["table", *(f"C = {c:g}" for c in tables.STRENGTHS)]
    assert [row[0] for row in agreed.rows] == ["hospitals"]
    assert costs.headers == ["will", "bytes", "1 early", "1 late", "3 early", "3 late"]
    assert [row[0] for row in costs.rows] == [*tables.WILLS]
    assert costs.rows[0][1] == "0"


def test_the_made_hospitals_lack_cells_and_are_unequal():
    one = Table(datasets.hospitals(seed=3))
    again = datasets.hospitals(seed=3)
    assert all(np.array_equal(one.columns[k], again[k]) for k in ("age", "ward"))
    rome = one.columns["hospital"] == "rome"
    assert np.isnan(one.columns["lactate"][rome]).all()
    assert 0 < np.isnan(one.columns["lactate"][~rome]).mean() < 0.3
    assert set(one.columns["hospital"][one.columns["ward"] == "maternity"]) == {"lyon"}
    assert (one.columns["admitted"] == "").any()
    counts = np.unique(one.columns["hospital"], return_counts=True)[1]
    assert counts.max() > 5 * counts.min() > 0
    with pytest.raises(InvalidData, match="at least 200"):
        datasets.hospitals(10)
