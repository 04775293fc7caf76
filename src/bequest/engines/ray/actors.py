"""How the processes of a run are started: all of them detached, none of them restarted by Ray.

Detached, because a run goes on without its driver; not restarted, because a process that died is
a membership change, which is the steward's business, or the steward itself, whose successor has
to ask everybody where they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from bequest.engines.ray.host import Host
from bequest.engines.ray.stewardship import Stewardship
from bequest.errors import CannotLoad

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.engines.ray.host import Posting
    from bequest.engines.ray.office import Brief
    from bequest.protocol.steward import Charter

OFFICE = "office"


def _options(namespace: str, name: str, machine: str, cpus: float = 0.0) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": namespace,
        "lifetime": "detached",
        "num_cpus": cpus,
        "max_restarts": 0,
        # A call that fails on its way is made again by Ray; nodes recognise what comes twice.
        "max_task_retries": -1,
        # Watching takes a call each that does not end.
        "max_concurrency": 1000,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(machine, soft=False),
    }


def host(brief: Brief, posting: Posting, office: Any, *, machine: str, cpus: float) -> Any:  # noqa: ANN401
    """Start a host on a machine."""
    # Names are for people: one that has just died may still be taken.
    options = _options(brief.namespace, f"{posting.name} {uuid4().hex[:6]}", machine, cpus)
    return ray.remote(Host).options(**options).remote(posting, office)


def steward(brief: Brief, charter: Charter, term: int, office: Any) -> Any:  # noqa: ANN401
    """Start a steward on this machine."""
    own = ray.get_runtime_context().get_node_id()
    options = _options(brief.namespace, f"steward {term} {uuid4().hex[:6]}", own)
    domains = brief.placement.domains
    return ray.remote(Stewardship).options(**options).remote(charter, domains, term, office)


def office(brief: Brief) -> Any:  # noqa: ANN401
    """Start the office on this machine."""
    from bequest.engines.ray.office import Office

    own = ray.get_runtime_context().get_node_id()
    return ray.remote(Office).options(**_options(brief.namespace, OFFICE, own)).remote(brief)


def cannot_load(failures: Mapping[int, str], host: str) -> CannotLoad:
    """Return the error that some nodes' losses could not be made ready."""
    node, why = next(iter(sorted(failures.items())))
    more = f" (and {len(failures) - 1} more there)" if len(failures) > 1 else ""
    return CannotLoad(
        f"The loss of node {node} cannot be made ready on {host}{more}: {why}",
        remedy="Check its loader, and that its data are on that machine.",
    )
