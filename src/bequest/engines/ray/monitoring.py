"""Reports on a run while it goes on: to its caller, to a file, to Ray's metrics."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ray.util.metrics import Counter, Gauge

from bequest import files
from bequest.engines.runtime.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bequest.engines.runtime.supervisor import Supervisor
    from bequest.engines.runtime.view import HostView, View
    from bequest.model.outcome import Status
    from bequest.model.plan import Plan


class Monitoring:
    """Gives the monitor of a run a clock and a file, and readers that wait for news.

    Args:
        run: its name, for Ray's metrics.
        plan: what it is to do.
        supervisor: knows how far the run is.
        record: the file of its outcome; the event log is beside it. None for no file.
    """

    def __init__(self, run: str, plan: Plan, supervisor: Supervisor, record: Path | None) -> None:
        self._metrics, self._ledger, self._counted = RayMetrics(run), supervisor.ledger, 0
        log = None if record is None else files.Growing(record.with_suffix(".jsonl"))
        self._monitor = Monitor(plan, supervisor, None if log is None else log.write)
        self._began = time.monotonic()
        self._news = asyncio.Event()

    def begin(self) -> None:
        """Start the clock."""
        self._began = time.monotonic()

    def say(self, what: str) -> None:
        """Add a notice."""
        self._monitor.say(what, self._age)
        self.renew()

    def renew(self) -> None:
        """Wake up the callers that wait for news."""
        departures = self._ledger.departures
        for record in departures[self._counted :]:
            self._metrics.departed(crashed=record.crashed)
        self._counted = len(departures)
        self._monitor.renew()
        self._news.set()

    async def news_after(self, version: int, patience: float) -> None:
        """Wait for a later view than that version, at most ``patience`` seconds."""
        if self._monitor.version > version:
            return
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), patience)
        except TimeoutError:
            self._monitor.renew()  # time has passed

    def show(self) -> None:
        """Set Ray's metrics, and write their readings to the event log."""
        self._metrics.show(self._monitor.readings(self._age))

    def view(
        self,
        *,
        hosts: Mapping[str, HostView],
        steward: int | None,
        status: Status | None,
        since: int,
    ) -> View:
        """Return the run as it is now, with what is new since the view of that version."""
        return self._monitor.view(
            hosts=hosts, steward=steward, status=status, since=since, now=self._age
        )

    @property
    def _age(self) -> float:
        return time.monotonic() - self._began


class RayMetrics:
    """Metrics for a dashboard; every one has the tag ``run``.

    Args:
        run: its name.
    """

    def __init__(self, run: str) -> None:
        tags = {"run": run}
        self._gauges = {
            name: Gauge(f"bequest_{name}", description=about, tag_keys=("run",))
            for name, about in {
                "round": "Rounds that every node has completed",
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
        """Set the gauges whose values are known."""
        for name, value in readings.items():
            if value is not None:
                self._gauges[name].set(value)

    def departed(self, *, crashed: bool) -> None:
        """Count one more departure."""
        self._departures.inc(1, {**self._tags, "kind": "crashed" if crashed else "left"})
