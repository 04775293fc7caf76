"""What there is to tell of a run while it goes on: to whoever follows it, to a file, to dials."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING

from bequest.engines.ray.annals import Annals
from bequest.engines.ray.dials import Dials
from bequest.engines.ray.view import Happening, View

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bequest.engines.ray.chronicle import Chronicle
    from bequest.engines.ray.view import HostView
    from bequest.model.run import Status

# So many of the latest happenings are in a view.
_TOLD = 50


class Bulletin:
    """The latest news.

    Args:
        run: its name, for the dials.
        rounds: how many it is to have.
        chronicle: how far it is.
        record: where its outcome will be; the annals are beside it. None for nowhere.
    """

    def __init__(self, run: str, rounds: int, chronicle: Chronicle, record: Path | None) -> None:
        self._rounds, self._chronicle = rounds, chronicle
        self._dials = Dials(run)
        self._annals = None if record is None else Annals(record.with_suffix(".jsonl"))
        self._happenings: deque[Happening] = deque(maxlen=_TOLD)
        self._began = time.monotonic()
        self._version = 0
        self._news = asyncio.Event()

    def begin(self) -> None:
        """Start the clock."""
        self._began = time.monotonic()

    def say(self, what: str) -> None:
        """Tell something worth telling."""
        happening = Happening(self._age, self._chronicle.film.measured, what)
        self._happenings.append(happening)
        if self._annals is not None:
            self._annals.tell(happening)
        self.renew()

    def departed(self, *, crashed: bool) -> None:
        """Count one more who left or was lost."""
        self._dials.departed(crashed=crashed)

    def renew(self) -> None:
        """Let whoever waits for news look again."""
        self._version += 1
        self._news.set()

    async def news_after(self, version: int, patience: float) -> None:
        """Wait until there is a later view than that, or so many seconds."""
        if self._version > version:
            return
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), patience)
        except TimeoutError:
            self._version += 1  # time has passed

    def show(self) -> None:
        """Set the dials, and read them off for the annals."""
        film = self._chronicle.film
        error, gap, slope, _ = film.gauges.reading(film.measured)
        readings = {
            "round": film.measured,
            "survivors": len(film.members),
            "error": error,
            "gradient_norm": slope,
            "invariant_gap": gap,
        }
        self._dials.show(readings)
        if self._annals is not None:
            self._annals.read_off(self._age, readings)

    def view(
        self,
        *,
        hosts: Mapping[str, HostView],
        steward: int | None,
        term: int,
        status: Status | None,
    ) -> View:
        """Return the run as it is now."""
        film = self._chronicle.film
        error, gap, slope, _ = film.gauges.reading(film.measured)
        return View(
            version=self._version,
            time=self._age,
            round=film.measured,
            rounds=self._rounds,
            epoch=self._chronicle.epoch,
            members=tuple(sorted(film.members)),
            error=error,
            gradient_norm=slope,
            invariant_gap=gap,
            departures=len(self._chronicle.ledger.departures),
            happenings=tuple(self._happenings),
            hosts=hosts,
            steward=steward,
            term=term,
            status=status,
        )

    @property
    def _age(self) -> float:
        return time.monotonic() - self._began
