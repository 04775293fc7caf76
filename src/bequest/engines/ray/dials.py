"""The run's dials in Ray's metrics, for whoever has a Prometheus that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ray.util.metrics import Counter, Gauge

if TYPE_CHECKING:
    from collections.abc import Mapping


class Dials:
    """What an existing dashboard can show; every metric has the tag ``run``.

    Args:
        run: its name.
    """

    def __init__(self, run: str) -> None:
        tags = {"run": run}
        self._gauges = {
            name: Gauge(f"bequest_{name}", description=about, tag_keys=("run",))
            for name, about in {
                "round": "Rounds that everybody has completed",
                "survivors": "Nodes that take part",
                "error": "Distance of the worst node to the optimum of all the data",
                "gradient_norm": "Norm of the sum of all gradients, zero at the limit",
                "invariant_gap": "Norm of sum z - sum grad h, zero but for rounding",
            }.items()
        }
        self._departures = Counter(
            "bequest_departures",
            description="Nodes that left or were lost",
            tag_keys=("run", "kind"),
        )
        self._tags = tags
        for gauge in self._gauges.values():
            gauge.set_default_tags(tags)

    def show(self, readings: Mapping[str, float | None]) -> None:
        """Set the gauges; what is not known is not shown."""
        for name, value in readings.items():
            if value is not None:
                self._gauges[name].set(value)

    def departed(self, *, crashed: bool) -> None:
        """Count one more."""
        self._departures.inc(1, {**self._tags, "kind": "crashed" if crashed else "left"})
