"""Nodes that have names: events and wills may use them, and records do."""

import numpy as np
import pytest

import bequest as bq
from bequest import runfile
from bequest.errors import InvalidObjective, UnknownNode
from bequest.model.content import digest
from bequest.sklearn import SiloLogisticRegression
from bequest.solver import carry_out

SITES = ("bonn", "Charité", "two\nlines", "rome")


def losses():
    rng = np.random.default_rng(0)
    return [bq.LeastSquares(rng.normal(size=(9, 2)), rng.normal(size=9), 0.1) for _ in SITES]


def run_of(problem, events, engine=None, **options):
    graph = bq.graphs.complete(4)
    return bq.solve(problem, graph, departures=events, rounds=60, engine=engine, **options)


EVENTS = [
    bq.Departure("Charité", 20),
    bq.Crash("two\nlines", 30),
    bq.Return("Charité", 40),
    bq.Forget("two\nlines", 50),
]


@pytest.mark.parametrize("engine", [None, bq.engines.Loop()], ids=["vector", "loop"])
def test_records_show_the_names_that_the_user_gave(engine):
    named = run_of(bq.Problem(losses(), names=SITES), EVENTS, engine)
    numbers = [type(e)(SITES.index(e.node), e.round) for e in EVENTS]
    plain = run_of(bq.Problem(losses()), numbers, engine)
    assert [r.silo for r in (*named.departures, *named.changes)] == [e.node for e in EVENTS]
    assert [r.node for r in named.departures] == [r.node for r in plain.departures]
    told = [str(record) for record in (*named.departures, *named.changes)]
    assert told[0].startswith("silo Charité left after round 20, to silo ")
    assert told[1].startswith("silo 'two\\nlines' crashed after round 30, its checkpoint of round")
    assert told[2].startswith(
        "silo Charité returned after round 40: it begins at the iterate of silo"
    )
    assert "silo" in named.changes[1].why
    assert "node" not in " ".join(told).replace("no node", "")
    assert named.departures[0].heir_silo in SITES
    assert named.departures[0] is named.departures[0]
    assert np.array_equal(named.x, plain.x)
    assert "silo" not in " ".join(map(str, plain.departures))


def test_names_make_no_other_problem():
    assert digest(bq.Problem(losses(), names=SITES)) == digest(bq.Problem(losses()))


def test_wills_and_new_neighbours_go_by_name_too():
    problem = bq.Problem(losses(), names=SITES)
    events = [bq.Join("bonn", 10, ("rome", 1)), bq.Departure("rome", 30)]
    will = {None: bq.wills.Consensus(), "rome": bq.wills.Forgetful()}
    run = run_of(problem, events, will=will)
    assert run.changes[0].neighbours == (1, 3)
    assert run.departures[0].will == bq.wills.Forgetful().title


def test_names_that_are_none_are_refused():
    problem = bq.Problem(losses(), names=SITES)
    with pytest.raises(UnknownNode, match="no silo 'Bonn'") as caught:
        run_of(problem, [bq.Departure("Bonn", 10)])
    assert caught.value.remedy == 'Did you mean "bonn"?'
    for names in (("a", "b"), ("a", "b", "b", "c"), "abcd", 4):
        with pytest.raises(InvalidObjective):
            bq.Problem(losses(), names=names)


def test_silos_of_an_estimator_and_of_files_keep_their_names(tmp_path):
    rng = np.random.default_rng(1)
    sites = np.repeat(["bonn", "oslo", "rome"], 20)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + rng.normal(size=60) > 0, "yes", "no")
    model = SiloLogisticRegression(departures=[bq.Departure("oslo", 100)])
    record = model.fit(X, y, silos=sites).run_.departures[0]
    assert (record.silo, record.heir_silo in sites) == ("oslo", True)
    assert str(record).startswith("silo oslo left after round 100, to silo ")
    for site in ("bonn", "oslo", "rome"):
        rows = zip(X[sites == site].tolist(), y[sites == site], strict=True)
        lines = [f"{a},{b},{label}" for (a, b), label in rows]
        (tmp_path / f"{site}.csv").write_text("a,b,ill\n" + "\n".join(lines) + "\n")
    agreed = bq.phases.on_hosts(
        {site: tmp_path / f"{site}.csv" for site in ("bonn", "oslo", "rome")},
        label="ill", loss="logistic", l2=0.1, graph=bq.graphs.complete(3), engine=None,
    )  # fmt: skip
    leaving = [bq.Departure("rome", 20)]
    run = bq.solve(agreed.problem, agreed.graph, departures=leaving, rounds=60)
    assert run.departures[0].silo == "rome"
    (tmp_path / "run.toml").write_text(
        'rounds = 30\n[problem]\nkind = "table"\nfiles = "*.csv"\nlabel = "ill"\n'
        'loss = "logistic"\nl2 = 0.1\n[graph]\nkind = "complete"\n'
        '[departures]\nevents = [{ node = "bonn", round = 9 }]\n'
    )
    (job,) = runfile.load(tmp_path / "run.toml").jobs()
    assert carry_out(job.plan, job.engine, None).departures[0].silo == "bonn"
