"""What readers see of a run while it goes on, and what its event log holds."""

import json
from types import SimpleNamespace

import bequest as bq
from bequest.engines.runtime.monitor import Monitor
from bequest.solver import prepare
from bequest.view.reading import read


class Measured:
    """Stands for what a recorder has measured so far."""

    measured = 0
    is_bounded = True

    @property
    def metrics(self):
        return self

    def reading(self, t):
        return (1.0 / (t + 1), 0.0, 1.0, 1.0)


def test_every_view_has_what_is_new_since_the_one_before(tmp_path):
    problem = bq.problems.quadratics(n=3, dim=2, mu=1.0, L=4.0, seed=0)
    plan = prepare(problem, bq.graphs.ring(3), departures=[bq.Departure(1, 4)], rounds=9)
    departures = bq.engines.Vector().run(plan).departures
    ledger = SimpleNamespace(departures=[], changes=[])
    supervisor = SimpleNamespace(
        recorder=Measured(),
        ledger=ledger,
        members={0, 1, 2},
        order=SimpleNamespace(epoch=1),
        stewards=SimpleNamespace(term=0),
    )
    log = []
    monitor = Monitor(plan, supervisor, log.append)
    heard, since = [], -1

    def look(now, status=None):
        nonlocal since
        view = monitor.view(hosts={}, steward=1, status=status, since=since, now=now)
        assert (view.time, view.steward, view.members) == (now, 1, (0, 1, 2))
        since = view.version
        heard.extend(view.news)

    look(0.0)
    supervisor.recorder.measured = 3
    look(0.5)
    ledger.departures = list(departures)
    supervisor.recorder.measured = 6
    monitor.readings(1.0)  # between two views, by the clock
    monitor.readings(1.5)
    look(1.5)
    monitor.readings(2.0)
    monitor.say("a host died", 2.0)
    supervisor.recorder.measured = 9
    look(3.0, bq.Status.CONVERGED)
    look(3.0, bq.Status.CONVERGED)
    assert [next(iter(line)) for line in heard].count("begun") == 1
    assert [line["reading"]["round"] for line in heard if "reading" in line] == list(range(10))
    assert [line["departure"]["node"] for line in heard if "departure" in line] == [1]
    assert [line for line in heard if "ended" in line] == [{"ended": "converged"}]
    written = [json.loads(line) for line in log]
    assert "begun" in written[0]
    assert [line["t"] for line in written if "departure" in line] == [1.0]
    assert not any("reading" in line for line in written)
    assert [line["t"] for line in written if "error" in line] == [1.0, 2.0]
    assert {"t": 2.0, "round": 6, "what": "a host died"} in written
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(log))
    assert read(path)[0].is_whole
