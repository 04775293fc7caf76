"""The driver's side of a run on a cluster: start it, follow it, collect it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

from bequest.engines import records
from bequest.engines.fingerprint import differences, fingerprint
from bequest.engines.ray import AFTERWARDS, actors, ray_private
from bequest.engines.ray.host_actor import HostSetup
from bequest.engines.ray.supervisor_actor import RunSetup
from bequest.engines.runtime.node_setup import (
    charter_of,
    departure_after,
    opening_pace,
    planned_crashes,
    setup_of,
)
from bequest.engines.runtime.placement import place
from bequest.errors import BequestError, ClusterFailed, NoCluster
from bequest.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bequest.engines.base import Progress
    from bequest.engines.ray import Ray
    from bequest.engines.ray.host_actor import HostReady
    from bequest.engines.runtime.placement import Placement
    from bequest.model.outcome import Outcome
    from bequest.model.plan import Plan


def carry_out(engine: Ray, plan: Plan, progress: Progress | None) -> Outcome:
    """Carry out a plan on a cluster, or go on with a run whose driver was killed."""
    own = fingerprint(plan, engine)
    if engine.resume and engine.record is not None:
        done = records.find(Path(engine.record), own)
        if done is not None:
            return done
    with _connected(engine):
        namespace = f"bequest {engine.name or uuid4().hex[:12]}"
        supervisor = _find(namespace) if engine.name else None
        there = None
        if supervisor is not None:
            there = _get(supervisor.fingerprint.remote(), engine.startup)
            if there is None:  # its driver was killed before the run began
                _end_at_once(namespace, supervisor)
                supervisor = None
        if supervisor is not None and not engine.resume:
            raise ClusterFailed(
                f"A run called {engine.name} is going on there.",
                remedy="Go on with it (resume), or choose another name.",
            )
        if there is None:
            supervisor = _start(engine, plan, namespace, own)
        else:
            _check_same_run(engine, there, own)
        try:
            return _follow(engine, supervisor, progress)
        finally:
            _end(supervisor)


# --- the cluster ---------------------------------------------------------------------------


@contextlib.contextmanager
def _connected(engine: Ray) -> Iterator[None]:
    """Use the Ray that this process is connected to, or connect; disconnect afterwards."""
    if ray.is_initialized():
        _check_same(engine.address)
        yield
        return
    # Without an address Ray would join whatever cluster was here last, even a dead one.
    address = engine.address or os.environ.get("RAY_ADDRESS") or "local"
    _check(address)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        options["include_dashboard"] = False
    try:
        with _uninterrupted():
            ray.init(address, **options)
    except Exception as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise _no_cluster(address, said) from error
    with contextlib.ExitStack() as now:
        (AFTERWARDS.get() or now).callback(ray.shutdown)
        yield


def _check(address: str) -> None:
    """Fail at once if nothing listens at an address: Ray itself would try for minutes."""
    if address == "local":
        return
    if "://" in address:
        raise NoCluster(
            f"{address} is not the address of a cluster that this machine belongs to.",
            remedy="Run the driver on a machine of the cluster, and give HOST:PORT or auto.",
        )
    try:
        place = ray_private.address_of(address)
        name, _, port = place.rpartition(":")
        socket.create_connection((name.strip("[]"), int(port)), timeout=5.0).close()
    except (OSError, ValueError) as error:
        raise _no_cluster(address, str(error).splitlines()[0]) from error


def _check_same(address: str | None) -> None:
    """Refuse an address that is not the one this process is connected to."""
    if address in (None, "auto", "local"):
        return
    _check(address)
    there = ray.get_runtime_context().gcs_address
    if not _resolved(address) & _resolved(there):
        raise NoCluster(
            f"This process is connected to the cluster at {there}, not to {address}.",
            remedy="Leave the address out, or end that connection first: ray.shutdown().",
        )


def _resolved(address: str) -> set[tuple[Any, ...]]:
    """Return every (host, port) that an address stands for: a name can have several."""
    name, _, port = address.rpartition(":")
    return {found[4][:2] for found in socket.getaddrinfo(name.strip("[]"), int(port))}


def _no_cluster(address: str, said: str) -> NoCluster:
    return NoCluster(
        f"No Ray cluster answers at {address}: {said}",
        remedy="Start one with: ray start --head; or leave the address out to have one on this "
        "machine for the time of the run.",
    )


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back an interrupt until Ray has started: in the middle Ray does not survive it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[bool] = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        ray.shutdown()
        raise KeyboardInterrupt


def _end_at_once(namespace: str, supervisor: Any) -> None:  # noqa: ANN401
    """End a supervisor and all other processes of its run; wait until its name is free."""
    ray.kill(supervisor)
    deadline = time.monotonic() + 30.0
    while _find(namespace) is not None and time.monotonic() < deadline:
        time.sleep(0.05)


def _find(namespace: str) -> Any:  # noqa: ANN401
    try:
        return ray.get_actor(actors.SUPERVISOR, namespace)
    except ValueError:
        return None


# --- a run ---------------------------------------------------------------------------------


def _check_same_run(engine: Ray, there: dict[str, str], here: dict[str, str]) -> None:
    """Refuse to resume a run that differs from the one asked for."""
    other = differences(there, here)
    if other:
        raise ClusterFailed(
            f"The run called {engine.name} there is another one; what differs: {other}.",
            remedy="Resume it with the arguments that it was started with, or choose another name.",
        )


def _start(engine: Ray, plan: Plan, namespace: str, own: dict[str, str]) -> Any:  # noqa: ANN401
    """Start every process; return the supervisor."""
    placement = place(
        plan.problem.n,
        ray_private.machines(),
        nodes_per_host=engine.nodes_per_host,
        placement=engine.placement,
        cpus_per_host=engine.cpus_per_host,
    )
    first = opening_pace(plan)
    setup = RunSetup(
        plan=plan,
        first=first,
        placement=placement,
        namespace=namespace,
        patience=engine.patience,
        record=None if engine.record is None else Path(engine.record).resolve(),
        fingerprint=own,
        findable=engine.name is not None,
        caller=ray.get_runtime_context().get_job_id(),
        startup=engine.startup,
    )
    supervisor = actors.supervisor(setup)
    try:
        supervisor.expect.remote(supervisor)
        steward = actors.steward(setup, charter_of(plan, first), 0, supervisor)
        hosts = {}
        for name, machine in placement.machines.items():
            host_setup = _host_setup(engine, plan, placement, name, pace=first.value)
            hosts[name] = actors.host(
                setup, host_setup, supervisor, machine=machine.ident, cpus=engine.cpus_per_host
            )
        ready_hosts = _prepared(hosts, engine.startup)
        _get(supervisor.open.remote(ready_hosts, steward, supervisor), engine.startup)
    except BaseException:
        ray.kill(supervisor)  # every other process ends with it
        raise
    return supervisor


def _host_setup(
    engine: Ray, plan: Plan, placement: Placement, host: str, *, pace: float
) -> HostSetup:
    there = placement.nodes_of(host)
    present = [node for node in there if node not in plan.absent]
    domains = placement.domains
    leaving = {node: departure_after(plan, node, 0) for node in present}
    knows = any(will.needs_oracle for will in plan.wills.values())
    return HostSetup(
        host,
        tuple(setup_of(plan, node, host=domains[node], pace=pace) for node in present),
        placement.hosts,
        {node: after for node, after in leaving.items() if after is not None},
        tuple(sorted(planned_crashes(plan))),
        plan.optima.known if knows else None,
        engine.grace,
    )


def _prepared(hosts: dict[str, Any], patience: float) -> dict[str, tuple[Any, HostReady]]:
    """Wait until every host is ready; return host -> (actor, its answer)."""
    answers = {name: actor.prepare.remote() for name, actor in hosts.items()}
    ready_hosts = {}
    deadline = time.monotonic() + patience
    for name, ref in answers.items():
        ready = _get(ref, max(deadline - time.monotonic(), 0.1), waiting_for=name)
        if ready.failures:
            raise actors.cannot_load(ready.failures, name)
        if ready.version != __version__:
            raise ClusterFailed(
                f"{name} has bequest {ready.version}, and the driver {__version__}.",
                remedy="Install the same release on every machine.",
            )
        ready_hosts[name] = hosts[name], ready
    return ready_hosts


def _get(ref: Any, timeout: float, *, waiting_for: str = "the supervisor") -> Any:  # noqa: ANN401
    """Return the result of a call; turn every failure into an error that says what to do."""
    try:
        return ray.get(ref, timeout=timeout)
    except GetTimeoutError as error:
        raise ClusterFailed(
            f"{waiting_for} was not ready within {timeout:.0f} s.",
            remedy="Look whether the cluster's CPUs are taken (ray status), or raise startup.",
        ) from error
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, BequestError):
            raise cause from error
        raise
    except RayActorError as error:
        raise ClusterFailed(
            f"{waiting_for} died: {ray_private.cause(error)}",
            remedy="Ray's logs of that process say why; bequest must be installed on every "
            "machine.",
        ) from error


def _follow(engine: Ray, supervisor: Any, progress: Progress | None) -> Outcome:  # noqa: ANN401
    """Watch a run until it is over."""
    version, own = -1, ray.get_runtime_context().get_job_id()
    while True:
        view = _get(supervisor.follow.remote(version, own), 600.0)
        version = view.version
        if progress is not None:
            progress(view.round)
        if engine.watch is not None:
            engine.watch(view)
        if view.status is not None:
            outcome: Outcome = _get(supervisor.outcome.remote(), 600.0)
            return outcome


def _end(supervisor: Any) -> None:  # noqa: ANN401
    """End every process of a run."""
    try:
        with contextlib.suppress(RayError):
            for actor in ray.get(supervisor.addresses.remote(), timeout=10.0).values():
                if actor is not None:
                    ray.kill(actor)
    finally:  # a second interrupt, too, ends the supervisor, and all other processes with it
        with contextlib.suppress(RayError):
            ray.kill(supervisor)
