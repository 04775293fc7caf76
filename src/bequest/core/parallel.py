"""Two halves of a large array operation at once, where the machine has two cores.

Results do not depend on it: each half writes its own rows.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Below this many multiplications the hand-over to another thread costs more than it saves.
WORTHWHILE = 400_000

_TWO_CORES = len(os.sched_getaffinity(0)) > 1 if hasattr(os, "sched_getaffinity") else True
_helper: ThreadPoolExecutor | None = None


def both(one: Callable[[], None], other: Callable[[], None]) -> None:
    """Run both, side by side if possible; they must not write to the same memory."""
    global _helper
    if not _TWO_CORES:
        one()
        other()
        return
    if _helper is None:
        _helper = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bequest")
    pending = _helper.submit(one)
    other()
    pending.result()


def _forget_helper() -> None:
    global _helper
    _helper = None


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork; a child that waited for this one would wait for ever.
    os.register_at_fork(after_in_child=_forget_helper)
