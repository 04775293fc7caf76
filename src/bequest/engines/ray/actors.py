"""Starts the processes of a run: all of them detached, none of them restarted by Ray.

Detached, because a run goes on without its driver. Not restarted, because the death of a host is a
membership change, which the steward handles, and the successor of a steward has to ask all nodes
for their state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from bequest.engines.ray.host_actor import HostActor
from bequest.engines.ray.steward_actor import StewardActor
from bequest.errors import CannotLoad

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bequest.engines.ray.host_actor import HostSetup
    from bequest.engines.ray.supervisor_actor import RunSetup
    from bequest.protocol.steward import Charter

SUPERVISOR = "supervisor"


def _options(namespace: str, name: str, machine: str, cpus: float = 0.0) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": namespace,
        "lifetime": "detached",
        "num_cpus": cpus,
        "max_restarts": 0,
        # Ray repeats a call that fails on its way; nodes recognise messages that come twice.
        "max_task_retries": -1,
        # Every process that watches this one keeps a call open.
        "max_concurrency": 1000,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(machine, soft=False),
    }


def host(
    setup: RunSetup,
    host_setup: HostSetup,
    supervisor: Any,  # noqa: ANN401
    *,
    machine: str,
    cpus: float,
) -> Any:  # noqa: ANN401
    """Start a host on a machine."""
    # A unique name: that of a host that has just died may still be taken.
    options = _options(setup.namespace, f"{host_setup.name} {uuid4().hex[:6]}", machine, cpus)
    return ray.remote(HostActor).options(**options).remote(host_setup, supervisor)


def steward(setup: RunSetup, charter: Charter, term: int, supervisor: Any) -> Any:  # noqa: ANN401
    """Start a steward on this machine."""
    own = ray.get_runtime_context().get_node_id()
    options = _options(setup.namespace, f"steward {term} {uuid4().hex[:6]}", own)
    domains = setup.placement.domains
    return ray.remote(StewardActor).options(**options).remote(charter, domains, term, supervisor)


def supervisor(setup: RunSetup) -> Any:  # noqa: ANN401
    """Start the supervisor on this machine."""
    from bequest.engines.ray.supervisor_actor import SupervisorActor

    own = ray.get_runtime_context().get_node_id()
    return (
        ray.remote(SupervisorActor)
        .options(**_options(setup.namespace, SUPERVISOR, own))
        .remote(setup)
    )


def cannot_load(failures: Mapping[int, str], host: str) -> CannotLoad:
    """Return the error for losses that could not be made ready."""
    node, why = next(iter(sorted(failures.items())))
    more = f" (and {len(failures) - 1} more there)" if len(failures) > 1 else ""
    return CannotLoad(
        f"The loss of node {node} cannot be made ready on {host}{more}: {why}",
        remedy="Check its loader, and that its data are on that machine.",
    )
