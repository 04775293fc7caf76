"""What readers see of a run while it goes on. Times are seconds since the run began."""

from __future__ import annotations

import json
import math
from collections import deque
from typing import TYPE_CHECKING

from bequest.engines.news import News
from bequest.engines.runtime.view import Notice, View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bequest.engines.news import Line
    from bequest.engines.runtime.supervisor import Supervisor
    from bequest.engines.runtime.view import HostView
    from bequest.model.outcome import Status
    from bequest.model.plan import Plan

# The number of latest notices in a view.
_TOLD = 50
# Seconds between two readings of the metrics in the event log.
_EVERY = 1.0


class Monitor:
    """The latest news of a run, each with the version of the first view that has it.

    Args:
        plan: what the run is to do.
        supervisor: knows how far the run is.
        write: writes to the event log; None for no log.

    Attributes:
        version: of the latest view.
    """

    def __init__(
        self, plan: Plan, supervisor: Supervisor, write: Callable[[bytes], object] | None = None
    ) -> None:
        self._rounds, self._supervisor = plan.rounds, supervisor
        self._log = None if write is None else EventLog(write)
        self._notices: deque[Notice] = deque(maxlen=_TOLD)
        self.version = 0
        self._now = 0.0
        self._lines: list[tuple[int, Line]] = []  # each with the first version that has it
        self._told = News(plan, self._tell)

    def say(self, what: str, now: float) -> None:
        """Add a notice."""
        notice = Notice(now, self._measured, what)
        self._notices.append(notice)
        if self._log is not None:
            self._log.tell(notice)

    def renew(self) -> None:
        """Begin another version: what readers know is old."""
        self.version += 1

    def readings(self, now: float) -> dict[str, float | None]:
        """Return what is measured at present, by name; the event log notes it now and then."""
        self._advance(now)
        error, gap, slope = self._readings()
        readings = {
            "round": self._measured,
            "survivors": len(self._supervisor.members),
            "error": error,
            "gradient_norm": slope,
            "invariant_gap": gap,
        }
        if self._log is not None:
            self._log.read_off(now, readings)
        return readings

    def view(
        self,
        *,
        hosts: Mapping[str, HostView],
        steward: int | None,
        status: Status | None,
        since: int,
        now: float,
    ) -> View:
        """Return the run as it is now, with what is new since the view of that version."""
        supervisor = self._supervisor
        self._advance(now)
        if status is not None and not any("ended" in line for _, line in self._lines[-1:]):
            self._told.end(status)
        error, gap, slope = self._readings()
        return View(
            version=self.version,
            time=now,
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
            term=supervisor.stewards.term,
            status=status,
            news=tuple(line for version, line in self._lines if version > since),
        )

    def _advance(self, now: float) -> None:
        self._now = now
        recorder, ledger = self._supervisor.recorder, self._supervisor.ledger
        if recorder is not None:
            told = ledger.departures, ledger.changes
            self._told.advance(recorder.measured, recorder.metrics, *told)

    def _tell(self, line: Line) -> None:
        self.version += 1
        self._lines.append((self.version, line))
        if self._log is not None and "reading" not in line:  # the log has readings by the clock
            self._log.add(self._now, line)

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
    """The events of a run, one line of JSON each: they show how far the run got.

    Args:
        write: writes a line to where the log is kept.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._read_off = -math.inf

    def tell(self, notice: Notice) -> None:
        """Write a notice."""
        self._add({"t": notice.time, "round": notice.round, "what": notice.what})

    def add(self, time: float, line: Line) -> None:
        """Write a line of news."""
        self._add({"t": time, **line})

    def read_off(self, time: float, readings: Mapping[str, float | None]) -> None:
        """Write the readings of the metrics, unless the last ones are recent."""
        if time - self._read_off >= _EVERY:
            self._read_off = time
            known = {k: v for k, v in readings.items() if v is not None and math.isfinite(v)}
            self._add({"t": time, **known})

    def _add(self, fields: Mapping[str, object]) -> None:
        self._write(json.dumps(fields, allow_nan=False).encode() + b"\n")
