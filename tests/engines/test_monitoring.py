"""What a Prometheus would see."""

import json
import math
from types import SimpleNamespace

import bequest as bq
from bequest.engines.ray import monitoring
from bequest.solver import prepare
from bequest.view.reading import read


class Fake:
    """Stands for a metric of Ray's, and remembers what it was told."""

    made = {}  # noqa: RUF012

    def __init__(self, name, *, description, tag_keys):
        assert description
        self.tag_keys, self.tags, self.values = tag_keys, {}, []
        self.made[name] = self

    def set_default_tags(self, tags):
        self.tags = tags

    def set(self, value):
        self.values.append(value)

    def inc(self, value, tags):
        self.values.append((value, tags["kind"]))
        assert set(tags) == set(self.tag_keys)


def test_what_is_shown_to_ray(monkeypatch):
    monkeypatch.setattr(Fake, "made", {})
    monkeypatch.setattr(monitoring, "Gauge", Fake)
    monkeypatch.setattr(monitoring, "Counter", Fake)
    shown = monitoring.RayMetrics("bequest x")
    shown.show({"round": 64, "survivors": 5, "error": None, "gradient_norm": math.inf})
    shown.departed(crashed=True)
    shown.departed(crashed=False)
    made = Fake.made
    assert made["bequest_round"].values == [64]
    assert made["bequest_round"].tags == {"run": "bequest x"}
    assert made["bequest_error"].values == []
    assert made["bequest_gradient_norm"].values == [math.inf]
    assert made["bequest_departures"].values == [(1, "crashed"), (1, "left")]


class Measured:
    """Stands for what a recorder has measured so far."""

    measured = 0
    is_bounded = True

    @property
    def metrics(self):
        return self

    def reading(self, t):
        return (1.0 / (t + 1), 0.0, 1.0, 1.0)


def test_every_view_has_what_is_new_since_the_one_before(monkeypatch, tmp_path):
    for name in ("Gauge", "Counter"):
        monkeypatch.setattr(monitoring, name, Fake)
    problem = bq.problems.quadratics(n=3, dim=2, mu=1.0, L=4.0, seed=0)
    plan = prepare(problem, bq.graphs.ring(3), departures=[bq.Departure(1, 4)], rounds=9)
    departures = bq.engines.Vector().run(plan).departures
    ledger = SimpleNamespace(departures=[], changes=[])
    supervisor = SimpleNamespace(
        recorder=Measured(),
        ledger=ledger,
        members={0, 1, 2},
        order=SimpleNamespace(epoch=1),
        term=0,
    )
    news = monitoring.Monitoring("x", plan, supervisor, tmp_path / "run.record")
    heard, since = [], -1

    def look(status=None):
        nonlocal since
        view = news.view(hosts={}, steward=1, status=status, since=since)
        since = view.version
        heard.extend(view.news)

    look()
    supervisor.recorder.measured = 3
    look()
    ledger.departures = list(departures)
    supervisor.recorder.measured = 6
    news.show()  # between two views, by the clock
    look()
    supervisor.recorder.measured = 9
    look(bq.Status.CONVERGED)
    look(bq.Status.CONVERGED)
    assert [next(iter(line)) for line in heard].count("begun") == 1
    assert [line["reading"]["round"] for line in heard if "reading" in line] == list(range(10))
    assert [line["departure"]["node"] for line in heard if "departure" in line] == [1]
    assert [line for line in heard if "ended" in line] == [{"ended": "converged"}]
    news._log._file.close()
    written = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert "begun" in written[0]
    assert any("departure" in line for line in written)
    assert not any("reading" in line for line in written)
    assert read(tmp_path / "run.jsonl")[0].is_whole
