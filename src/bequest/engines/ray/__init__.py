"""The cluster: the same nodes as processes of Ray, preempted, killed and still right.

::

    driver        starts everything, follows it, collects it; the run goes on without it
    supervisor    watches over the processes, keeps the record
    steward       serialises membership changes, sees no vector
    host ...      one process with one or many nodes

Each actor carries a part of ``engines.runtime``, which has no I/O. Hosts talk to each other
directly: per round one call with one buffer. Ray itself is imported when a run begins: every module
of this folder may import it, this one must not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from bequest import extras
from bequest.core.arrays import is_whole
from bequest.engines.runtime.view import HostView, Notice, View
from bequest.errors import InvalidMethod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bequest.engines.base import Progress
    from bequest.model.outcome import Outcome
    from bequest.model.plan import Plan

__all__ = ["HostView", "Notice", "Ray", "View", "one_cluster"]

# What to do when the cluster is no longer needed; None where that is after every run.
AFTERWARDS: ContextVar[ExitStack | None] = ContextVar("AFTERWARDS", default=None)


@contextmanager
def one_cluster() -> Iterator[None]:
    """Let the runs inside share the cluster that the first of them starts or connects to.

    Otherwise each run starts and ends one of its own, which takes some seconds.
    """
    if AFTERWARDS.get() is not None:
        yield  # the runs share the cluster of the outer block
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
        patience: seconds without an answer after which a host counts as dead. It must be longer
            than the slowest gradient takes.
        grace: maximum seconds that a host stays after a SIGTERM.
        startup: maximum seconds for hosts to load their data.
        name: of the run, to come back to it; by default it has none.
        record: the file for the outcome, on this machine. It is written even if the driver is gone
            when the run ends.
        resume: go on with the run of that name, or read its outcome from the record, if it exists.
        watch: is called with a view of the run, several times a second.
    """

    # Machines die and are preempted: any node may have to leave.
    unplanned: ClassVar[bool] = True
    # Data lie on the hosts.
    loads_elsewhere: ClassVar[bool] = True
    # The address of a cluster and its time limits change no result.
    without_effect: ClassVar[frozenset[str]] = frozenset(
        {
            "address", "cpus_per_host", "patience", "grace", "startup", "name", "record", "resume",
            "watch",
        }
    )  # fmt: skip

    address: str | None = None
    nodes_per_host: int | None = None
    placement: Mapping[int, str] | None = None
    cpus_per_host: float = 1.0
    patience: float = 60.0
    grace: float = 30.0
    startup: float = 120.0
    name: str | None = None
    record: Path | str | None = None
    resume: bool = False
    watch: Callable[[View], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Here, and not in `run`: by then a pilot would have been run for nothing.
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
        if not isinstance(self.record, Path | str | None):
            raise _invalid("record", self.record, "the path of a file")
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
