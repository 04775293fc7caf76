"""How much memory there is, and whether something fits into it."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bequest.errors import InvalidInput

# The memory limit of a container on Linux; "max" if there is none.
_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def here() -> float:
    """Return the memory limit of this process in bytes; infinite if it is not known.

    The least of what the machine has, what its container may have, and what the user allows.
    """
    found = [math.inf]
    with suppress(AttributeError, OSError, ValueError):  # not a Unix, or one that does not say
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):  # no container, or not limited
        found.append(int(_CONTAINER.read_text()))
    with suppress(ImportError):  # not a Unix
        import resource

        allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
        found.append(math.inf if allowed == resource.RLIM_INFINITY else allowed)
    return min(found)


def check(size: float, what: str, *, remedy: str, error: type[InvalidInput]) -> None:
    """Raise the error if this many bytes are more than there are; ``what`` begins the sentence."""
    there = here()
    if size > there:
        raise error(
            f"{what} would take about {shown(size)} of memory, and there are {shown(there)} here.",
            remedy=remedy,
        )


def shown(size: float) -> str:
    """Return a number of bytes as people write it.

    >>> shown(1030840), shown(23.4e9), shown(120)
    ('1.03 MB', '23.4 GB', '120 bytes')
    """
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.0f} bytes"
