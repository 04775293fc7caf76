"""The progress of a run on a cluster: a live panel in a terminal, lines in a log."""

from __future__ import annotations

import math
import os
import sys
import tempfile
import textwrap
from collections import Counter, deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TextIO

from rich.console import Console, ConsoleDimensions, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from bequest.cli.terminal import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.console import ConsoleOptions, RenderableType, RenderResult

    from bequest.engines.ray import HostView, Notice, View

# Rounds per second are averaged over this many seconds.
_WINDOW_S = 5.0
# A log gets a line about the progress this often, in seconds.
_EVERY_S = 10.0
# This many notices are shown before hosts take all the room there is.
_TOLD = 6
# Maximum lines per notice.
_LINES = 3
_STYLES = {"there": "green", "leaving": "yellow", "gone": "red"}
# Which hosts are shown first where there is no room for all.
_URGENCY = ("leaving", "there", "gone")
_COLLECTED = "it was over already, and its outcome on record"


@contextmanager
def watching(title: str, *, nodes: int) -> Iterator[Callable[[View], None]]:
    """Show the progress of one run on stderr; yield the function to call with its views.

    Args:
        title: which run it is.
        nodes: how many there are, counting those that are not there yet.
    """
    # Ray prints what happens to its processes on the driver's *standard output*, in between our
    # JSON, even without log_to_driver. What matters of it is among our notices. Ray reads
    # this when it is imported.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")
    if sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"):
        with _alone() as terminal, _Picture(terminal, title, nodes) as picture:
            yield picture.see
        picture.conclude()
    else:
        lines = _Lines(title)
        yield lines.see
        lines.conclude()


@contextmanager
def _alone() -> Iterator[TextIO]:
    """Keep other writers off the terminal: what Ray's C++ writes to stderr would tear a picture.

    It is shown afterwards if the run fails.
    """
    sys.stderr.flush()
    own = os.dup(2)
    with tempfile.TemporaryFile() as aside:
        os.dup2(aside.fileno(), 2)
        try:
            with open(own, "w", encoding=sys.stderr.encoding, errors="replace") as terminal:  # noqa: PTH123 - a descriptor
                try:
                    yield terminal
                finally:
                    os.dup2(own, 2)
        except Exception:
            aside.seek(0)
            os.write(2, aside.read())
            raise


class Pace:
    """Rounds per second, over the last few seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def see(self, view: View) -> None:
        """Take in how far it is now."""
        self._seen.append((view.time, view.round))
        while len(self._seen) > 2 and view.time - self._seen[1][0] > _WINDOW_S:
            self._seen.popleft()

    @property
    def rate(self) -> float | None:
        """Rounds per second; None until it can be told."""
        if len(self._seen) < 2:
            return None
        (began, first), (ended, last) = self._seen[0], self._seen[-1]
        # A few hundredths of a second say nothing yet.
        return (last - first) / (ended - began) if ended - began > 0.2 else None


# --- lines ---------------------------------------------------------------------------------


class _Lines:
    """Every notice at once, and the progress now and then, one line each."""

    def __init__(self, title: str) -> None:
        self._pace = Pace()
        self._latest: Notice | None = None
        self._said: float | None = None
        self._seen = False
        _say(title)

    def see(self, view: View) -> None:
        self._seen = True
        self._pace.see(view)
        for notice in since(self._latest, view.notices):
            what = _one_line(notice.what)
            _say(f"{clock(notice.time)}, round {notice.round}: {what}")
            self._latest = notice
        if self._said is None:
            self._said = view.time
        elif view.time - self._said >= _EVERY_S:
            self._said = view.time
            _say(progress_line(view, self._pace.rate))

    def conclude(self) -> None:
        if not self._seen:
            _say(_COLLECTED)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def since(latest: Notice | None, notices: Sequence[Notice]) -> Sequence[Notice]:
    """Return those that come after the latest one that was told; all if that is forgotten."""
    if latest is None or latest not in notices:
        return notices
    return notices[notices.index(latest) + 1 :]


def progress_line(view: View, rate: float | None) -> str:
    """Return how far a run is, in one line."""
    parts = [f"round {view.round} of {view.rounds}"]
    if rate is not None:
        parts.append(_rate(rate))
    name, value = _distance(view)
    return ", ".join([*parts, plural(len(view.members), "node"), f"{name} {value}"])


# --- the picture ---------------------------------------------------------------------------


class _Screen(Console):
    """A terminal that is not one of the three standard streams."""

    @property
    def size(self) -> ConsoleDimensions:
        """Columns and lines, as they are now; rich asks the standard streams for them."""
        columns, lines = os.get_terminal_size(self.file.fileno())
        return ConsoleDimensions(columns or 80, lines or 24)  # some do not know how large they are

    @size.setter
    def size(self, _new: tuple[int, int]) -> None:
        raise AttributeError  # it is as large as it is


class _Picture:
    """A panel that is drawn again several times a second, and is gone when the run is over."""

    def __init__(self, terminal: TextIO, title: str, nodes: int) -> None:
        self._title, self._nodes = title, nodes
        self._pace = Pace()
        # One value, because the picture is drawn by another thread.
        self._now: tuple[View, float | None] | None = None
        self._waiting = Spinner("line", Text("the cluster and its processes are being started"))
        # What is printed to stderr in Python meanwhile appears above the panel. Standard
        # output is not ours: it may be read by a program.
        self._live = Live(
            console=_Screen(file=terminal, markup=False, highlight=False, emoji=False),
            get_renderable=self._drawn,
            redirect_stdout=False,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # What happened last may say why it failed.
        self._live.transient = kind is None or kind is KeyboardInterrupt
        self._live.stop()

    def see(self, view: View) -> None:
        self._pace.see(view)
        self._now = view, self._pace.rate

    def conclude(self) -> None:
        told = _COLLECTED
        if self._now is not None:
            view, _ = self._now
            told = (
                f"{view.status} in {clock(view.time)}, {len(view.members)} of {self._nodes} nodes"
            )
        _say(f"{self._title}: {told}")

    def _drawn(self) -> RenderableType:
        if self._now is None:
            return Waiting(self._title, self._waiting)
        return Picture(self._title, self._nodes, *self._now)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that has not reported yet."""

    title: str
    sign: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _panel(self.sign, self.title, options)


@dataclass(frozen=True, slots=True)
class Picture:
    """A run of that many nodes as it is now, drawn into the terminal that there is.

    ``rate`` is in rounds per second; None if not known yet.
    """

    title: str
    nodes: int
    view: View
    rate: float | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        view = self.view
        width = _width(options) - 4  # the panel's edges
        # 10 lines are always there: edges, progress, numbers, steward, headers and blanks; one
        # stays free for the cursor.
        room = max(console.height - 11, 6)
        shown, rest = _chosen(view.hosts, max(room - min(len(view.notices), _TOLD), 2))
        left = room - len(shown) - bool(rest)
        parts: list[RenderableType] = [
            self._progress(),
            _cut(self._numbers()),
            _cut(
                f"{' '.join(_distance(view))}   invariant gap {_number(view.invariant_gap, view)}"
            ),
            Text(),
            _hosts(shown, width),
        ]
        if rest:
            parts.append(_cut(_others(rest), style="dim"))
        parts.append(_steward(view))
        if view.notices and left > 0:
            parts += [Text(), _notices(view.notices, width, left)]
        yield _panel(Group(*parts), self.title, options)

    def _progress(self) -> RenderableType:
        view = self.view
        row = Table.grid(expand=True, padding=(0, 2, 0, 0), pad_edge=False)
        row.add_column(no_wrap=True)
        row.add_column(ratio=1)
        row.add_column(no_wrap=True, justify="right")
        row.add_column(no_wrap=True, justify="right")
        row.add_row(
            Text(f"round {view.round} of {view.rounds}", style="bold"),
            ProgressBar(total=view.rounds, completed=view.round),
            f"{100 * view.round // view.rounds}%",
            clock(view.time),
        )
        return row

    def _numbers(self) -> str:
        view = self.view
        if not view.epoch:
            return "the nodes are being introduced to each other"
        rate = "- rounds/s" if self.rate is None else _rate(self.rate)
        parts = [rate, f"{len(view.members)} of {self.nodes} nodes"]
        if view.departures:
            parts.append(plural(view.departures, "departure"))
        if view.status is not None:
            parts.append(str(view.status))
        return "   ".join(parts)


def _width(options: ConsoleOptions) -> int:
    # The terminal writes ^C behind the last line; if that did not fit, all would move down.
    return options.max_width - 2


def _panel(content: RenderableType, title: str, options: ConsoleOptions) -> Panel:
    return Panel(content, title=_cut(title), title_align="left", width=_width(options))


def _chosen(
    hosts: Mapping[str, HostView], most: int
) -> tuple[Mapping[str, HostView], Sequence[HostView]]:
    """Return the hosts that there is room for, those that are gone last, and all others."""
    if len(hosts) <= most:
        return hosts, ()
    order = sorted(hosts, key=lambda name: _URGENCY.index(hosts[name].state))
    shown = set(order[: most - 1])  # one line says how many there are besides
    return (
        {name: host for name, host in hosts.items() if name in shown},
        [host for name, host in hosts.items() if name not in shown],
    )


def _hosts(hosts: Mapping[str, HostView], width: int) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="bold")
    # Numbers are never cut; names are, if they are longer than half of what numbers leave.
    longest = (width - 35) // 2
    table.add_column("host", no_wrap=True, overflow="ellipsis", max_width=longest)
    table.add_column("pid", no_wrap=True, justify="right")
    table.add_column("machine", no_wrap=True, overflow="ellipsis", max_width=longest)
    table.add_column("nodes", no_wrap=True, justify="right")
    table.add_column("state", no_wrap=True)
    for name, host in hosts.items():
        state = Text(host.state, style=_STYLES[host.state])
        table.add_row(name, str(host.pid), host.machine, str(len(host.nodes)), state)
    return table


def _others(hosts: Sequence[HostView]) -> str:
    states = Counter(host.state for host in hosts)
    told = ", ".join(f"{states[state]} {state}" for state in _STYLES if states[state])
    return f"... and {len(hosts)} more: {told}"


def _steward(view: View) -> Text:
    line = Text.assemble(("steward", "bold"), "   ", no_wrap=True, overflow="ellipsis")
    if view.steward is None:
        line.append("none: another one is being appointed", style="yellow")
    else:
        before = f", after {view.term} that died" if view.term else ""
        line.append(f"pid {view.steward}{before}")
    return line


def _notices(notices: Sequence[Notice], width: int, room: int) -> Table:
    """Return the latest notices, a line each; the latest get more lines if there are some."""
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True, justify="right", style="dim")
    table.add_column(no_wrap=True, style="dim")
    table.add_column(no_wrap=True, overflow="ellipsis")
    rows = [(clock(h.time), f"round {h.round}", _one_line(h.what)) for h in notices[-room:]]
    width -= sum(max(len(row[column]) for row in rows) + 2 for column in (0, 1))
    spare, told = room - len(rows), []
    for when, after, what in reversed(rows):
        lines = broken(what, width, 1 + min(spare, _LINES - 1))
        spare -= len(lines) - 1
        told.append((when, after, Text("\n".join(lines))))
    for row in reversed(told):
        table.add_row(*row)
    return table


# --- words and numbers ---------------------------------------------------------------------


def clock(seconds: float) -> str:
    """Return a time that has passed: ``12.3 s``, ``4:05`` or ``1:04:05``."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def squeezed(text: str, width: int) -> str:
    """Return a text that fits: what is in brackets is cut first, as the nodes come around it."""
    if len(text) <= width:
        return text
    first, last = text.find("(") + 1, text.rfind(")")
    keep = width - (len(text) - (last - first)) - 1
    if 0 < first < last and keep >= 0:
        return f"{text[: first + keep].rstrip()}…{text[last:]}"
    return f"{text[: max(width - 1, 0)]}…"


def broken(text: str, width: int, most: int) -> list[str]:
    """Return a text as at most ``count`` lines."""
    width = max(width, 1)
    lines = textwrap.wrap(text, width)
    if len(lines) <= most:
        return lines
    # Lines break between words, and every break wastes some room.
    fitting = squeezed(text, width * most - 8 * (most - 1))
    return textwrap.wrap(fitting, width, max_lines=most, placeholder="…")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _rate(rate: float) -> str:
    return f"{rate:.0f} rounds/s" if rate >= 10 else f"{rate:.1f} rounds/s"


def _distance(view: View) -> tuple[str, str]:
    """Return how far it is from the end: by x* if that is known, or by the gradient."""
    if view.error is None:
        return "gradient norm", _number(view.gradient_norm, view)
    return "error", _number(view.error, view)


def _number(value: float, view: View) -> str:
    # Before the first round there is nothing to measure; later on, infinite is a fact.
    return "-" if not math.isfinite(value) and not view.round else f"{value:.1e}"
