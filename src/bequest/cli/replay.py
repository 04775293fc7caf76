"""``bequest replay``: a run once more, from its log, and what happened to a node."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from bequest import journal
from bequest.cli.guard import explain
from bequest.cli.terminal import Meter, plural
from bequest.engines.loop.narration import name_of, told
from bequest.errors import InvalidLog, ReplayDiffers, UnknownNode
from bequest.journal import End
from bequest.protocol.events import Committed
from bequest.protocol.messages import STEWARD
from bequest.replay import Replay
from bequest.runfile.logs import job_of
from bequest.solver import carry_out

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bequest.journal import Entry, LoggedEvent
    from bequest.protocol.events import Effect

_DIFFERS = 1


def replay_log(path: Path, *, node: str | None, until: int | None, tail: int | None) -> int:
    """Replay a log, print what was asked for, and return the exit code."""
    log = journal.read(path)
    job = job_of(log)
    process = None if node is None else _process(node, job.plan.problem.n)
    label, version = _printable(job.label), log.provenance.get("bequest")
    print(f"{log.path}: {label}, seed {job.seed}, bequest {version}")
    reader = _Reader(process, tail, is_telling=node is not None or tail is not None)
    engine = Replay(log, until, reader.hear)
    rounds = job.plan.rounds
    try:
        with Meter(rounds) as meter:
            # A bar and events that are printed as they come would get in each other's way.
            progress = None if reader.tells_at_once else meter.part("replaying", rounds)
            carry_out(job.plan, engine, progress)
    except ReplayDiffers as error:
        reader.finish(identical=False)
        explain("\n".join(map(_printable, error.what.splitlines())), _printable(error.remedy))
        return _DIFFERS
    except InvalidLog:
        reader.finish(identical=True)
        raise
    reader.finish(identical=True)
    return 0


def _process(name: str, n: int) -> int:
    """Return the process that --node means."""
    if name == "steward":
        return STEWARD
    if name.isascii() and name.isdecimal() and int(name) < n:
        return int(name)
    raise UnknownNode(
        f'--node is "{name}".', remedy=f'Nodes are numbered 0..{n - 1}; or say "steward".'
    )


class _Reader:
    """Counts the events that are replayed, and prints them."""

    def __init__(self, process: int | None, tail: int | None, *, is_telling: bool) -> None:
        self._process, self._is_telling = process, is_telling
        self._count = 0
        self._end: End | None = None
        self._latest: deque[str] | None = None if tail is None else deque(maxlen=tail)

    @property
    def tells_at_once(self) -> bool:
        """Whether events are printed as they come, and not only the last ones."""
        return self._is_telling and self._latest is None

    def hear(self, entry: Entry, effects: Sequence[tuple[int, Effect]]) -> None:
        """Take one entry of the log, and the effects it had."""
        if isinstance(entry, End):
            self._end = entry
            return
        self._count += 1
        if not self._is_telling or not (words := self._words(entry, effects)):
            return
        if self._latest is None:
            print(words)
        else:
            self._latest.append(words)

    def _words(self, record: LoggedEvent, effects: Sequence[tuple[int, Effect]]) -> str:
        """Return an event in words; empty if it does not concern the node."""
        concerned = self._process in (None, record.process)
        heading = f"{record.number:>7}  {record.time:>10.3f}  {name_of(record.process)}: "
        # What the steward decides concerns all nodes.
        done = [
            _printable(told(effect))
            for _, effect in effects
            if concerned or isinstance(effect, Committed)
        ]
        if not concerned:
            return heading + "; ".join(done) if done else ""
        indented = ["", *done]
        return heading + _printable(told(record.what)) + f"\n{'':>21}- ".join(indented)

    def finish(self, *, identical: bool) -> None:
        """Print the latest events, if they were kept, and the result."""
        for words in self._latest or ():
            print(words)
        if identical:
            print(f"{plural(self._count, 'event')} replayed, every state identical")
        if self._end is not None and self._end.why is not None:
            print(f"the run broke off there: {_printable(self._end.why)}")


def _printable(words: str) -> str:
    """Return words on one line: a log from elsewhere may hold anything."""
    return "".join(letter if letter.isprintable() else " " for letter in words)
