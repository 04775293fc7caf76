"""Reports on a run while it goes on: to its caller, to a file, to Ray's metrics."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from typing import TYPE_CHECKING

from ray.util.metrics import Counter, Gauge

from bequest import files
from bequest.engines.news import News
from bequest.engines.runtime.view import Notice, View

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bequest.engines.news import Line
    from bequest.engines.runtime.supervisor import Supervisor
    from bequest.engines.runtime.view import HostView
    from bequest.model.outcome import Status
    from bequest.model.plan import Plan

# The number of latest notices in a view.
_TOLD = 50
# Seconds between two readings of the metrics in the event log.
_EVERY = 1.0


class Monitoring:
    """The latest news of a run.

    Args:
        run: its name, for Ray's metrics.
        plan: what it is to do.
        supervisor: knows how far the run is.
        record: the file of its outcome; the event log is beside it. None for no file.
    """

    def __init__(self, run: str, plan: Plan, supervisor: Supervisor, record: Path | None) -> None:
        self._rounds, self._supervisor = plan.rounds, supervisor
        self._metrics = RayMetrics(run)
        self._log = None if record is None else EventLog(record.with_suffix(".jsonl"))
        self._notices: deque[Notice] = deque(maxlen=_TOLD)
        self._counted = 0
        self._began = time.monotonic()
        self._version = 0
        self._news = asyncio.Event()
        self._lines: list[tuple[int, Line]] = []  # each with the first version that has it
        self._told = News(plan, self._tell)

    def begin(self) -> None:
        """Start the clock."""
        self._began = time.monotonic()

    def _tell(self, line: Line) -> None:
        self._version += 1
        self._lines.append((self._version, line))
        if self._log is not None and "reading" not in line:  # the log has readings by the clock
            self._log.add(self._age, line)

    def say(self, what: str) -> None:
        """Add a notice."""
        notice = Notice(self._age, self._measured, what)
        self._notices.append(notice)
        if self._log is not None:
            self._log.tell(notice)
        self.renew()

    def renew(self) -> None:
        """Wake up the callers that wait for news."""
        departures = self._supervisor.ledger.departures
        for record in departures[self._counted :]:
            self._metrics.departed(crashed=record.crashed)
        self._counted = len(departures)
        self._version += 1
        self._news.set()

    async def news_after(self, version: int, patience: float) -> None:
        """Wait for a later view than that version, at most ``patience`` seconds."""
        if self._version > version:
            return
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), patience)
        except TimeoutError:
            self._version += 1  # time has passed

    def show(self) -> None:
        """Set Ray's metrics, and write their readings to the event log."""
        self._advance()
        error, gap, slope = self._readings()
        readings = {
            "round": self._measured,
            "survivors": len(self._supervisor.members),
            "error": error,
            "gradient_norm": slope,
            "invariant_gap": gap,
        }
        self._metrics.show(readings)
        if self._log is not None:
            self._log.read_off(self._age, readings)

    def view(
        self,
        *,
        hosts: Mapping[str, HostView],
        steward: int | None,
        status: Status | None,
        since: int,
    ) -> View:
        """Return the run as it is now, with what is new since the view of that version."""
        supervisor = self._supervisor
        self._advance()
        if status is not None and not any("ended" in line for _, line in self._lines[-1:]):
            self._told.end(status)
        error, gap, slope = self._readings()
        return View(
            version=self._version,
            time=self._age,
            round=self._measured,
            rounds=self._rounds,
            epoch=supervisor.order.epoch,
            members=tuple(sorted(supervisor.members)),
            error=error,
            gradient_norm=slope,
            invariant_gap=gap,
            departures=len(supervisor.ledger.departures),
            notices=tuple(self._notices),
            hosts=hosts,
            steward=steward,
            term=supervisor.term,
            status=status,
            news=tuple(line for version, line in self._lines if version > since),
        )

    def _advance(self) -> None:
        recorder, ledger = self._supervisor.recorder, self._supervisor.ledger
        if recorder is not None:
            told = ledger.departures, ledger.changes
            self._told.advance(recorder.measured, recorder.metrics, *told)

    @property
    def _age(self) -> float:
        return time.monotonic() - self._began

    @property
    def _measured(self) -> int:
        recorder = self._supervisor.recorder
        return 0 if recorder is None else recorder.measured

    def _readings(self) -> tuple[float | None, float, float]:
        """Return the error, the invariant gap and the gradient norm after the last round."""
        recorder = self._supervisor.recorder
        if recorder is None:
            return None, math.nan, math.nan
        error, gap, slope, _ = recorder.metrics.reading(recorder.measured)
        return error, gap, slope


class EventLog:
    """A file of events, one line of JSON each: it shows how far the run got.

    Args:
        path: of the file; an older one is replaced.
    """

    def __init__(self, path: Path) -> None:
        self._file = files.Growing(path)
        self._read_off = -math.inf

    def tell(self, notice: Notice) -> None:
        """Write a notice."""
        self._write({"t": notice.time, "round": notice.round, "what": notice.what})

    def add(self, time: float, line: Line) -> None:
        """Write a line of news."""
        self._write({"t": time, **line})

    def read_off(self, time: float, readings: Mapping[str, float | None]) -> None:
        """Write the readings of the metrics, unless the last ones are recent."""
        if time - self._read_off >= _EVERY:
            self._read_off = time
            known = {k: v for k, v in readings.items() if v is not None and math.isfinite(v)}
            self._write({"t": time, **known})

    def _write(self, fields: Mapping[str, object]) -> None:
        self._file.write(json.dumps(fields, allow_nan=False).encode() + b"\n")


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
