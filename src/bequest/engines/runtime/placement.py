"""Places nodes on hosts, and hosts on machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bequest.engines.runtime.node_setup import complete_placement
from bequest.errors import InvalidPlacement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of the cluster.

    Attributes:
        ident: its id in Ray.
        name: its name in Ray; its address if it was given none.
        cpus: how many it offers.
    """

    ident: str
    name: str
    cpus: float


@dataclass(frozen=True, slots=True)
class Placement:
    """The host of every node, and the machine of every host.

    Attributes:
        hosts: node -> the name of its host.
        machines: host -> its machine.
    """

    hosts: Mapping[int, str]
    machines: Mapping[str, Machine]

    @property
    def domains(self) -> dict[int, str]:
        """Node -> what it can fail together with: "machine/host", or "host" on a single machine."""
        return {node: self.domain_of(host) for node, host in self.hosts.items()}

    def domain_of(self, host: str) -> str:
        """Return a host's name with that of its machine, unless there is a single one."""
        alone = len({machine.ident for machine in self.machines.values()}) == 1
        return host if alone else f"{self.machines[host].name}/{host}"

    def nodes_of(self, host: str) -> list[int]:
        """Return the nodes on a host, ascending."""
        return sorted(node for node, there in self.hosts.items() if there == host)


def place(
    n: int,
    machines: Sequence[Machine],
    *,
    nodes_per_host: int | None = None,
    placement: Mapping[int, str] | None = None,
    cpus_per_host: float = 1.0,
) -> Placement:
    """Put n nodes on hosts, and each host on the machine with the most room.

    Args:
        n: how many nodes.
        machines: of the cluster.
        nodes_per_host: consecutive ids share a host; by default there is a host per machine, or,
            on a single machine, per CPU.
        placement: node -> the name of its host; a host with the name of a machine is put there.
        cpus_per_host: how much of a machine a host takes.

    Raises:
        InvalidPlacement: there is not enough room, or a node has no host.
    """
    room = {m.ident: _slots(m.cpus, cpus_per_host) for m in machines}
    usable = [m for m in machines if room[m.ident]]
    if placement is not None:
        hosts = complete_placement(placement, n)
    else:
        if nodes_per_host is None:
            free = sum(room.values()) if len(usable) == 1 else len(usable)
            nodes_per_host = -(-n // max(min(free, n), 1))
        hosts = {node: f"host {node // nodes_per_host}" for node in range(n)}
    names = sorted(set(hosts.values()), key=lambda name: min(k for k in hosts if hosts[k] == name))
    if len(names) > sum(room.values()):
        raise InvalidPlacement(
            f"{n} nodes on {len(names)} hosts need {len(names) * cpus_per_host:g} CPUs, "
            f"{cpus_per_host:g} each; the {len(machines)} machine(s) of the cluster have room for "
            f"{sum(room.values())} such hosts.",
            remedy="Put more nodes on a host (nodes_per_host), lower cpus_per_host, or add "
            "machines.",
        )
    named = {m.name: m for m in machines}
    places: dict[str, Machine] = {}
    for host in sorted(names, key=lambda name: name not in named):  # named machines first
        machine = named[host] if host in named else max(usable, key=lambda m: room[m.ident])
        if not room[machine.ident]:
            raise InvalidPlacement(
                f"Machine {machine.name} has no room for a host of {cpus_per_host:g} CPUs.",
                remedy="Choose another machine, or lower cpus_per_host.",
            )
        room[machine.ident] -= 1
        places[host] = machine
    return Placement(hosts, {name: places[name] for name in names})


def _slots(cpus: float, each: float) -> int:
    if each > 0:
        return int(cpus / each + 1e-9)
    return 10**6 if cpus > 0 else 0  # a machine without CPUs takes no hosts
