"""Two halves of a large array operation at once, where the machine has two cores.

Results do not depend on it: each half writes its own rows. NumPy and SciPy let go of the
interpreter while they compute, so one helping thread is all it takes.
"""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[], None]

# Below this many multiplications the hand-over to another thread costs more than it saves.
WORTHWHILE = 200_000

_TWO_CORES = len(os.sched_getaffinity(0)) > 1 if hasattr(os, "sched_getaffinity") else True


class _Helper(threading.Thread):
    """A thread that does one thing at a time, for one caller; lighter than an executor."""

    def __init__(self) -> None:
        super().__init__(name="bequest-helper", daemon=True)
        self._todo: SimpleQueue[Work] = SimpleQueue()
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            work = self._todo.get()
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - raised again by the caller
                self._done.put(error)
            else:
                self._done.put(None)

    def both(self, one: Work, other: Work) -> None:
        self._todo.put(one)
        try:
            other()
        finally:
            failure = self._done.get()
        if failure is not None:
            raise failure


_helpers = threading.local()


def both(one: Work, other: Work) -> None:
    """Run both, side by side if possible; they must not write to the same memory."""
    if not _TWO_CORES:
        one()
        other()
        return
    helper: _Helper | None = getattr(_helpers, "mine", None)
    # A helper per calling thread; threads do not survive a fork, so a child makes its own.
    if helper is None or not helper.is_alive():
        helper = _helpers.mine = _Helper()
    helper.both(one, other)
