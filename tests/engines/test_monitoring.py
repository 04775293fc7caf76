"""What a Prometheus would see."""

import math

from bequest.engines.ray import monitoring


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
