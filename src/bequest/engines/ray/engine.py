"""Real nodes on a Ray cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bequest import extras
from bequest.core.arrays import is_whole
from bequest.errors import InvalidMethod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bequest.engines.base import Outcome, Plan, Progress
    from bequest.engines.ray.view import View

# What is to be done when nobody needs the cluster any more; None where that is after every run.
AFTERWARDS: ContextVar[ExitStack | None] = ContextVar("AFTERWARDS", default=None)


@contextmanager
def one_cluster() -> Iterator[None]:
    """Let the runs within share the cluster that the first of them starts, or connects to.

    Otherwise each starts one of its own, and ends it, which takes some seconds.
    """
    if AFTERWARDS.get() is not None:
        yield  # they share the cluster of whoever is around this
        return
    with ExitStack() as afterwards:
        token = AFTERWARDS.set(afterwards)
        try:
            yield
        finally:
            AFTERWARDS.reset(token)


@dataclass(frozen=True)
class Ray:
    """The Ray engine; needs ``pip install "bequest[ray]"``.

    Args:
        address: of the cluster, as for ``ray.init``; by default the one that this process is
            connected to, or one on this machine for the time of the run (or of ``one_cluster``).
        nodes_per_host: how many nodes, with consecutive ids, share a process. By default there is
            a host per machine, or, on a single machine, per CPU.
        placement: node -> the name of its host, instead. A host with the name of a machine
            (``ray start --node-name``) is put there; the others go where there is most room.
        cpus_per_host: how many CPUs of its machine a host takes.
        patience: a host that has not answered for so many seconds counts as dead. It must be
            longer than the slowest gradient takes.
        grace: how long a host that got a SIGTERM stays at most, in seconds.
        startup: how long hosts may take to load their data, in seconds.
        name: of the run, to come back to it; by default it has none.
        record: where the outcome is written on this machine, so that it is there even if nobody
            waits for it.
        resume: go on with the run of that name, or collect it from the record, if it is there.
        watch: hears how the run goes, several times a second.
    """

    address: str | None = None
    nodes_per_host: int | None = None
    placement: Mapping[int, str] | None = None
    cpus_per_host: float = 1.0
    patience: float = 60.0
    grace: float = 30.0
    startup: float = 120.0
    name: str | None = None
    record: Path | None = None
    resume: bool = False
    watch: Callable[[View], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Here, and not when it is to run: by then a pilot would have been run for nothing.
        extras.need("ray", what="The Ray engine")
        if self.nodes_per_host is not None and not is_whole(self.nodes_per_host, least=1):
            raise _invalid("nodes_per_host", self.nodes_per_host, "a whole number >= 1")
        if self.placement is not None and not isinstance(self.placement, Mapping):
            raise _invalid("placement", self.placement, "a mapping from node to host")
        if self.placement is not None and self.nodes_per_host is not None:
            raise InvalidMethod(
                "Both nodes_per_host and placement are given.", remedy="Keep the one you mean."
            )
        for name, least in (("cpus_per_host", 0.0), ("grace", 0.0)):
            if not _is_number(getattr(self, name)) or getattr(self, name) < least:
                raise _invalid(name, getattr(self, name), "a number >= 0")
        for name in ("patience", "startup"):
            if not _is_number(getattr(self, name)) or getattr(self, name) <= 0:
                raise _invalid(name, getattr(self, name), "a number of seconds > 0")
        if self.resume and self.name is None:
            raise InvalidMethod(
                "A run without a name cannot be found again.", remedy="Give the name it has."
            )

    def run(self, plan: Plan, progress: Progress | None = None) -> Outcome:
        """Carry out the plan; ``progress`` hears of rounds as they are completed."""
        from bequest.engines.ray.driver import carry_out

        return carry_out(self, plan, progress)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _invalid(name: str, value: object, wanted: str) -> InvalidMethod:
    return InvalidMethod(f"{name} is {value!r}.", remedy=f"Use {wanted}.")
