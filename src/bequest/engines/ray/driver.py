"""The driver's side of a run on a cluster: start it, follow it, collect it."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

from bequest.engines import records
from bequest.engines.assembly import (
    charter_of,
    check_wills,
    departure_after,
    opening_step,
    seat_of,
)
from bequest.engines.fingerprint import differences, fingerprint
from bequest.engines.ray import actors, machines
from bequest.engines.ray.engine import AFTERWARDS
from bequest.engines.ray.host import Posting
from bequest.engines.ray.office import Brief
from bequest.engines.ray.placement import place
from bequest.errors import BequestError, ClusterFailed, InvalidWill, NoCluster
from bequest.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bequest.engines.base import Outcome, Plan, Progress
    from bequest.engines.ray.engine import Ray
    from bequest.engines.ray.host import Presence
    from bequest.engines.ray.placement import Placement


def carry_out(engine: Ray, plan: Plan, progress: Progress | None) -> Outcome:
    """Carry out a plan on a cluster, or go on with one that has been left behind."""
    check_wills(plan)
    _check_pilots(plan)
    own = fingerprint(plan, engine)
    if engine.resume and engine.record is not None:
        done = records.find(engine.record, own)
        if done is not None:
            return done
    with _connected(engine):
        namespace = f"bequest {engine.name or uuid4().hex[:12]}"
        office = _find(namespace) if engine.name else None
        if office is not None and not _get(office.is_open.remote(), engine.startup):
            _end_at_once(namespace, office)  # its driver was killed before anything began
            office = None
        if office is not None and not engine.resume:
            raise ClusterFailed(
                f"A run called {engine.name} is going on there.",
                remedy="Go on with it (resume), or choose another name.",
            )
        if office is None:
            office = _start(engine, plan, namespace, own)
        else:
            _check_same_run(engine, _get(office.fingerprint.remote(), engine.startup), own)
        try:
            return _follow(engine, office, progress)
        finally:
            _end(office)


# --- the cluster ---------------------------------------------------------------------------


@contextlib.contextmanager
def _connected(engine: Ray) -> Iterator[None]:
    """Use the Ray that is there, or start one; end what was started."""
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
    """Fail at once if nobody listens at an address: Ray itself would try for minutes."""
    if address == "local":
        return
    if "://" in address:
        raise NoCluster(
            f"{address} is not the address of a cluster that this machine belongs to.",
            remedy="Run the driver on a machine of the cluster, and give HOST:PORT or auto.",
        )
    try:
        place = machines.address_of(address)
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
    """Return every (host, port) that an address stands for: names have several, of both kinds."""
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
    """Hold back an interrupt until the end: in the middle of its start Ray does not survive it."""
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


def _end_at_once(namespace: str, office: Any) -> None:  # noqa: ANN401
    """End an office, and everybody with it, and wait until its name is free."""
    ray.kill(office)
    deadline = time.monotonic() + 30.0
    while _find(namespace) is not None and time.monotonic() < deadline:
        time.sleep(0.05)


def _find(namespace: str) -> Any:  # noqa: ANN401
    try:
        return ray.get_actor(actors.OFFICE, namespace)
    except ValueError:
        return None


# --- a run ---------------------------------------------------------------------------------


def _check_same_run(engine: Ray, there: dict[str, str], here: dict[str, str]) -> None:
    """Refuse to go on with a run that is another one."""
    other = differences(there, here)
    if other:
        raise ClusterFailed(
            f"The run called {engine.name} there is another one; what differs: {other}.",
            remedy="Resume it with the arguments that it was started with, or choose another name.",
        )


def _start(engine: Ray, plan: Plan, namespace: str, own: dict[str, str]) -> Any:  # noqa: ANN401
    """Start every process; return the office."""
    placement = place(
        plan.problem.n,
        machines.machines(),
        nodes_per_host=engine.nodes_per_host,
        placement=engine.placement,
        cpus_per_host=engine.cpus_per_host,
    )
    first = opening_step(plan)
    brief = Brief(
        plan=plan,
        first=first,
        placement=placement,
        namespace=namespace,
        patience=engine.patience,
        record=None if engine.record is None else engine.record.resolve(),
        fingerprint=own,
        findable=engine.name is not None,
        startup=engine.startup,
    )
    office = actors.office(brief)
    try:
        office.expect.remote(office)
        steward = actors.steward(brief, charter_of(plan, first), 0, office)
        hosts = {}
        for name, machine in placement.machines.items():
            posting = _posting(engine, plan, placement, name, step=first.value)
            hosts[name] = actors.host(
                brief, posting, office, machine=machine.ident, cpus=engine.cpus_per_host
            )
        stations = _prepared(hosts, engine.startup)
        _get(office.open.remote(stations, steward, office), engine.startup)
    except BaseException:
        ray.kill(office)  # everybody else ends with it
        raise
    return office


def _posting(engine: Ray, plan: Plan, placement: Placement, host: str, *, step: float) -> Posting:
    there = placement.nodes_of(host)
    present = [node for node in there if node not in plan.absent]
    domains = placement.domains
    leaving = {node: departure_after(plan, node, 0) for node in present}
    doomed = ((node, t) for t, changes in plan.schedule.items() for node in changes.crashes)
    knows = any(will.needs_oracle for will in plan.wills.values())
    return Posting(
        host,
        tuple(seat_of(plan, node, host=domains[node], step=step) for node in present),
        placement.hosts,
        {node: after for node, after in leaving.items() if after is not None},
        tuple(doomed),
        plan.optima.known if knows else None,
        engine.grace,
    )


def _prepared(hosts: dict[str, Any], patience: float) -> dict[str, tuple[Any, Presence]]:
    """Wait until every host has everything ready; return host -> (actor, what it says)."""
    presences = {name: actor.prepare.remote() for name, actor in hosts.items()}
    stations = {}
    deadline = time.monotonic() + patience
    for name, ref in presences.items():
        presence = _get(ref, max(deadline - time.monotonic(), 0.1), waiting_for=name)
        if presence.failures:
            raise actors.cannot_load(presence.failures, name)
        if presence.version != __version__:
            raise ClusterFailed(
                f"{name} has bequest {presence.version}, and the driver {__version__}.",
                remedy="Install the same release on every machine.",
            )
        stations[name] = hosts[name], presence
    return stations


def _get(ref: Any, timeout: float, *, waiting_for: str = "the office") -> Any:  # noqa: ANN401
    """Return what a call gives; whatever else happens is an error that says what to do."""
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
            f"{waiting_for} died: {str(error).splitlines()[0]}",
            remedy="Ray's logs of that process say why; bequest must be installed on every "
            "machine.",
        ) from error


def _follow(engine: Ray, office: Any, progress: Progress | None) -> Outcome:  # noqa: ANN401
    """Watch a run until it is over."""
    version = -1
    while True:
        view = _get(office.follow.remote(version), 600.0)
        version = view.version
        if progress is not None:
            progress(view.round)
        if engine.watch is not None:
            engine.watch(view)
        if view.status is not None:
            outcome: Outcome = _get(office.outcome.remote(), 600.0)
            return outcome


def _end(office: Any) -> None:  # noqa: ANN401
    """End every process of a run."""
    with contextlib.suppress(RayError):
        for actor in ray.get(office.addresses.remote(), timeout=10.0).values():
            if actor is not None:
                ray.kill(actor)
    with contextlib.suppress(RayError):
        ray.kill(office)


def _check_pilots(plan: Plan) -> None:
    """Refuse wills that could not be executed if their node had to leave all of a sudden."""
    for node, will in plan.wills.items():
        if plan.pilot is None and will.needs_pilot_in(plan.problem.regime):
            raise InvalidWill(
                f"The will of node {node} ({will.title}) needs a pilot, and on a cluster anybody "
                "may have to leave at any time.",
                remedy="Pass pilot=bequest.calibrate(...), or use a will that needs none.",
            )
