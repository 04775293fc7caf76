"""What there is to see of a run on a cluster: drawn from views, without a cluster."""

import io
import os
import pty
import sys
import termios

import pytest
from rich.console import Console

from bequest.cli import live
from bequest.engines.ray import HostView, Notice, View
from bequest.model.outcome import Status

LEFT = Notice(
    1.23,
    300,
    "node 19 left after round 300, to node 4: drift (predicted to move the optimum by 0.0123, "
    "which is less than what anything else would do); 2 vectors, 176 bytes",
)
DIED = Notice(
    9.5,
    800,
    "host 2 died (its worker process has died. Worker unexpectedly exits with a connection error "
    "code 2. End of file.) with nodes 10, 11, 12",
)
HOSTS = {
    "host 0": HostView(41230, "alpha", (0, 1, 2), "there"),
    "host 1": HostView(41231, "beta", (3,), "leaving"),
    "host 2": HostView(41232, "gamma", (), "gone"),
}


def view(**changes):
    usual = {
        "version": 1,
        "time": 12.34,
        "round": 1200,
        "rounds": 5000,
        "epoch": 4,
        "members": tuple(range(18)),
        "error": 1.23e-4,
        "gradient_norm": 2e-3,
        "invariant_gap": 3.1e-13,
        "departures": 2,
        "notices": (LEFT, DIED),
        "hosts": HOSTS,
        "steward": 41299,
        "term": 0,
        "status": None,
    }
    return View(**{**usual, **changes})


def drawn(seen, *, width=80, height=24, rate=310.4, title="run 1 of 2: adaptive, seed 0"):
    console = Console(width=width, height=height, file=io.StringIO(), record=True)
    console.print(live.Picture(title, 20, seen, rate))
    text = console.export_text()
    assert all(len(line) <= width for line in text.splitlines())
    assert len(text.splitlines()) < height
    return text


# --- the picture ---------------------------------------------------------------------------


def test_everything_is_in_the_picture_at_80_columns():
    text = drawn(view())
    for words in (
        "run 1 of 2: adaptive, seed 0",
        "round 1200 of 5000",
        "24%",
        "12.3 s",
        "310 rounds/s",
        "18 of 20 nodes",
        "2 departures",
        "error 1.2e-04",
        "invariant gap 3.1e-13",
        "steward   pid 41299",
    ):
        assert words in text, words
    rows = [line.strip("│ ").split() for line in text.splitlines()]
    assert ["host", "0", "41230", "alpha", "3", "there"] in rows
    assert ["host", "1", "41231", "beta", "1", "leaving"] in rows
    assert ["host", "2", "41232", "gamma", "0", "gone"] in rows


def test_who_and_whom_stay_when_a_notice_is_cut():
    text = drawn(view(notices=(LEFT, DIED, *[Notice(10.0, 900, "and so on")] * 8)))
    (died,) = (line for line in text.splitlines() if "host 2 died" in line)
    assert "9.5 s" in died
    assert "round 800" in died
    assert "with nodes 10, 11, 12" in died
    assert "…)" in died
    (left,) = (line for line in text.splitlines() if "node 19 left" in line)
    assert "to node 4: drift (" in left
    assert "2 vectors, 176 bytes" in drawn(view(), width=120)


def test_lines_that_are_not_needed_go_to_the_latest():
    crash = (
        "node 11 crashed after round 1196, its checkpoint of round 1180 adopted by node 4: "
        "consensus (anchored at the iterate, as asked); 1 vectors, 104 bytes"
    )
    notices = tuple(Notice(k / 10, 1196, crash) for k in range(8))
    lines = drawn(view(notices=notices)).splitlines()
    assert sum("node 11 crashed" in line for line in lines) == 8
    assert "104 bytes" in lines[-2]
    assert sum("by node 4" in line for line in lines) == 1
    lines = drawn(view(notices=notices), height=50).splitlines()
    assert sum("by node 4" in line for line in lines) == 8


@pytest.mark.parametrize("most", [1, 2, 3])
def test_broken_lines_fit(most):
    for width in (1, 9, 30, 60, 300):
        lines = live.broken(DIED.what, width, most)
        assert len(lines) <= most
        assert all(len(line) <= width for line in lines)
    assert live.broken("short", 30, most) == ["short"]


def test_more_width_shows_more():
    narrow, wide = drawn(view()), drawn(view(), width=200)
    assert DIED.what not in narrow
    assert DIED.what in wide


def test_where_the_optimum_is_not_known_the_gradient_is_shown():
    text = drawn(view(error=None))
    assert "gradient norm 2.0e-03" in text
    assert "error" not in text.replace("connection error", "")


def test_a_steward_that_is_missing_is_missed():
    assert "steward   none: another one is being appointed" in drawn(view(steward=None, term=1))
    assert "pid 41300, after 1 that died" in drawn(view(steward=41300, term=1))


def test_before_the_first_round_nothing_is_made_up():
    at_start = view(
        round=0, epoch=0, members=(), error=float("inf"), invariant_gap=float("inf"), notices=()
    )
    text = drawn(at_start, rate=None)
    assert "the nodes are being introduced" in text
    assert "error -   invariant gap -" in text
    assert "inf" not in text.replace("invariant", "")


def test_what_has_escaped_is_infinite():
    assert "error inf" in drawn(view(error=float("inf")))


@pytest.mark.parametrize("height", [24, 40])
@pytest.mark.parametrize("count", [5, 30, 300])
def test_many_hosts_and_notices_fit_the_terminal(height, count):
    hosts = {
        f"host {k}": HostView(10**6 + k, "a-machine-with-a-name.cloud.example.com", (k,), state)
        for k in range(count)
        for state in [("gone", "there", "there", "there", "leaving")[k % 5]]
    }
    notices = tuple(Notice(float(k), k, DIED.what) for k in range(12))
    text = drawn(view(hosts=hosts, notices=notices), height=height)
    assert str(10**6 + 4) in text  # the node that leaves comes first, and its number is not cut
    assert "round 11 " in text  # the latest is there
    if count > 25:
        shown = sum("…  " in line and "100" in line for line in text.splitlines())
        assert f"... and {count - shown} more: " in text


def test_a_small_terminal_shows_the_numbers():
    console = Console(width=40, height=8, file=io.StringIO(), record=True)
    console.print(live.Picture("run 1 of 2: adaptive, seed 0", 20, view(), None))
    text = console.export_text()
    assert "round 1200 of 5000" in text
    assert "- rounds/s   18 of 20 nodes" in text


def test_labels_are_not_markup():
    assert "[bold]:boom:" in drawn(view(), title="run 1 of 1: [bold]:boom:, seed 0")


# --- words and numbers ---------------------------------------------------------------------


def test_the_pace_is_that_of_the_last_seconds():
    pace = live.Pace()
    assert pace.rate is None
    for k in range(100):  # 100 rounds per second, then 10
        pace.see(view(time=k / 10, round=10 * k))
        assert pace.rate is None or pace.rate == pytest.approx(100)
    for k in range(100):
        pace.see(view(time=10 + k / 10, round=1000 + k))
    assert pace.rate == pytest.approx(10)
    for k in range(20):  # nothing moves any more
        pace.see(view(time=20 + k / 2, round=1099))
    assert pace.rate == 0


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.04, "0.0 s"), (99.9, "99.9 s"), (100, "1:40"), (3845, "1:04:05")]
)
def test_times(seconds, told):
    assert live.clock(seconds) == told


@pytest.mark.parametrize(
    ("text", "width", "told"),
    [
        ("short (and good)", 16, "short (and good)"),
        ("node 1 left (for a reason) to node 2", 30, "node 1 left (for a…) to node 2"),
        ("node 1 left (for a reason) to node 2", 20, "node 1 left (for a …"),
        ("nothing in brackets here", 10, "nothing i…"),
    ],
)
def test_what_is_in_brackets_is_cut_first(text, width, told):
    assert live.squeezed(text, width) == told
    assert len(live.squeezed(text, width)) <= width


# --- lines ---------------------------------------------------------------------------------


def test_a_log_gets_every_notice_once_and_the_progress_now_and_then(capsys):
    notices = [Notice(k + 0.5, 100 * k, f"thing {k}") for k in range(40)]
    with live.watching("run 1 of 2: a, seed 0", nodes=20) as see:
        for k in range(80):  # two views a second
            told = tuple(h for h in notices if h.time <= k / 2)[-12:]
            see(view(time=k / 2, round=50 * k, notices=told))
    with live.watching("run 2 of 2: b, seed 0", nodes=20) as see:
        see(view(time=0.1, round=0, notices=()))
        see(view(time=1.0, round=5000, notices=(Notice(0.9, 5, "much\n  ado"),)))
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == "run 1 of 2: a, seed 0"
    assert lines[-2:] == ["run 2 of 2: b, seed 0", "0.9 s, round 5: much ado"]
    assert [line for line in lines if "thing" in line] == [
        f"{k}.5 s, round {100 * k}: thing {k}" for k in range(39)
    ] + ["39.5 s, round 3900: thing 39"]
    progress = [line for line in lines if " of 5000" in line]
    assert progress == [
        f"round {1000 * k} of 5000, 100 rounds/s, 18 nodes, error 1.2e-04" for k in (1, 2, 3)
    ]


def test_notices_that_were_missed_are_no_reason_to_stop():
    first, second, third = (Notice(float(k), k, str(k)) for k in range(3))
    assert live.since(None, (first,)) == (first,)
    assert live.since(first, (first, second)) == (second,)
    assert live.since(first, (second, third)) == (second, third)


def test_a_line_about_the_progress_says_what_is_known():
    assert live.progress_line(view(members=(3,), error=None), None) == (
        "round 1200 of 5000, 1 node, gradient norm 2.0e-03"
    )


def test_an_outcome_that_was_collected_is_told(capsys):
    with live.watching("run 1 of 1: a, seed 0", nodes=20):
        pass
    assert capsys.readouterr().err.splitlines()[1] == live._COLLECTED


# --- a terminal ----------------------------------------------------------------------------


class Terminal:
    """A terminal of 80 by 24 in the place of stderr, for as long as the context lasts."""

    def __enter__(self):
        self._master, self._slave = pty.openpty()
        termios.tcsetwinsize(self._slave, (24, 80))
        self._saved, self._stderr = os.dup(2), sys.stderr
        os.dup2(self._slave, 2)
        sys.stderr = open(2, "w", closefd=False, encoding="utf-8")
        return self

    def __exit__(self, *_):
        sys.stderr.close()
        os.dup2(self._saved, 2)
        sys.stderr = self._stderr
        for descriptor in (self._saved, self._slave, self._master):
            os.close(descriptor)

    def seen(self):
        """What it was sent since the last time."""
        sys.stderr.flush()
        os.set_blocking(self._master, False)
        found = b""
        try:
            while chunk := os.read(self._master, 65536):
                found += chunk
        except BlockingIOError:
            pass
        return found.decode()


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def noise():
    os.write(2, b"[2026 W 1 1] network_util.cc: what C++ code has to say\n")


def fails_with(error):
    with live.watching("run 1 of 1", nodes=20) as see:
        noise()
        see(view())
        raise error


def test_the_picture_is_gone_when_the_run_is_over(terminal):
    with terminal:
        for number in (1, 2):
            with live.watching(f"run {number} of 2: a, seed 0", nodes=20) as see:
                noise()
                see(view(round=100 * number, notices=()))
                see(view(status=Status.CONVERGED, time=3.0))
        shown = terminal.seen()
        os.write(2, b"and stderr is what it was")
        assert terminal.seen() == "and stderr is what it was"
    assert "round 1200 of 5000" in shown
    assert "C++" not in shown
    for number in (1, 2):
        assert f"run {number} of 2: a, seed 0: converged in 3.0 s, 18 of 20 nodes\r\n" in shown


def test_what_was_kept_off_the_picture_is_told_if_the_run_fails(terminal):
    with terminal:
        with pytest.raises(ZeroDivisionError):
            fails_with(ZeroDivisionError)
        shown = terminal.seen()
    assert shown.rstrip().endswith("what C++ code has to say")
    assert shown.rindex("pid 41299") < shown.rindex("C++")  # the last picture stays above it


def test_an_interrupt_leaves_nothing_behind(terminal):
    with terminal:
        with pytest.raises(KeyboardInterrupt):
            fails_with(KeyboardInterrupt)
        shown = terminal.seen()
    assert "C++" not in shown
    assert "converged" not in shown
    assert shown.endswith("\x1b[1A\x1b[2K")  # every line of it is erased


def test_a_terminal_that_can_do_nothing_gets_lines(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with terminal:
        with live.watching("run 1 of 1: a, seed 0", nodes=20) as see:
            see(view())
        shown = terminal.seen()
    assert "\x1b" not in shown
    assert "9.5 s, round 800: host 2 died" in shown
