"""What the tests of the cluster do to it, and how they know that it was done."""

import contextlib
import os
import signal
import time
from collections import Counter
from pathlib import Path

import bequest as bq

PROBLEM = bq.problems.quadratics(n=12, dim=5, mu=1.0, L=10.0, seed=7)
GRAPH = bq.graphs.ring_with_chords(12, chords=8, seed=7)
# With four nodes on a host.
NODES = {f"host {k}": list(range(4 * k, 4 * k + 4)) for k in range(3)}


class Fault:
    """Happens once, when the run has come so far; hand it to ``Ray(watch=...)``.

    Args:
        act: what to do, given the view; it returns the processes that it ended.
        at: from this round on.
    """

    def __init__(self, act, *, at: int = 100):
        self._act, self._at = act, at
        self.views = []
        self.fired = None
        self.ended = []

    def __call__(self, view):
        self.views.append(view)
        if self.fired is None and view.round >= self._at and view.status is None:
            self.fired = view
            self.time = time.monotonic()
            self.ended = self._act(view) or []

    @property
    def messages(self) -> list[str]:
        return [notice.what for notice in self.views[-1].notices]

    def since(self, words: str) -> float:
        """Seconds between the fault and the last thing told with these words."""
        told = {h.time for view in self.views for h in view.notices if words in h.what}
        assert told, f"no notice says {words!r}, but {self.messages}"
        return max(told) - self.fired.time


def send(what: signal.Signals, host: str = "host 1"):
    """A fault: a signal to the process of a host."""

    def act(view):
        pid = view.hosts[host].pid
        os.kill(pid, what)
        return [pid]

    return act


def is_gone(pid: int, patience: float = 15.0) -> bool:
    """Whether a process ends in time; one that was not waited for has ended, too."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX":
                time.sleep(0.05)
                continue
        return True
    return False


def check_lineage(run: bq.Run, everybody=range(12)):
    """Every node is there, or inside exactly one inherited quadratic, or named as lost."""
    places = Counter(run.survivors)
    places.update(run.lost)
    for legacy in run.inherited.values():
        places.update(legacy.lineage)
    assert places == Counter(everybody)


def check_sound(run: bq.Run, fault: Fault):
    """What holds whatever has happened."""
    assert fault.fired is not None, "the fault never happened"
    assert all(is_gone(pid) for pid in fault.ended)
    check_lineage(run)
    assert run.invariant_gap[-1] < 1e-9
    assert run.invariant_gap.max() < 1e-9
    pids = [host.pid for host in fault.views[-1].hosts.values()]
    assert all(is_gone(pid) for pid in [*pids, fault.views[-1].steward])
