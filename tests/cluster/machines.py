"""A real Ray cluster of several machines on this one, whose machines can really be lost.

Each machine is what `ray start --block` starts: one command in a process group of its own, with
its own folder, raylet and workers. Whatever belongs to machine k has BEQUEST_STAGE and
BEQUEST_MACHINE=k in its environment, workers included; that is how its processes are found, since
Ray puts workers into groups of their own.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

# The command ends when we do, however we end, and takes its raylet and workers along. (Ray's
# agent for environments notices within some minutes: no program answers it.) See also agent.py.
RAY = """
import ctypes, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
from ray._private import ray_constants, services
from ray.scripts.scripts import main
usual = services._build_python_executable_command_memory_profileable
def cheap(kind, *rest, **more):
    if kind == ray_constants.PROCESS_TYPE_DASHBOARD_AGENT:
        return [sys.executable, "-S", "-E", STAND_IN]
    return usual(kind, *rest, **more)
if services.ray._private.utils.get_dashboard_dependency_error() is not None:
    services._build_python_executable_command_memory_profileable = cheap
sys.exit(main())
""".replace("STAND_IN", repr(str(Path(__file__).with_name("agent.py"))))
HEAD = 0
HOST = "127.0.0.1"
STORE_BYTES = 80_000_000  # Ray's least is 75 MB


@dataclass(frozen=True)
class Machine:
    """One `ray start --block`, and where it writes."""

    number: int
    process: subprocess.Popen
    folder: Path

    @property
    def output(self) -> Path:
        return self.folder / "output.txt"


class Machines:
    """A head, which runs no actor, and machines 1, 2, ..., each with four processors.

    Use it as a context: on the way out everything it started is gone, or it says what is not.
    """

    def __init__(self, count: int = 4, *, cpus: int = 4, settings: dict[str, str] | None = None):
        self.stage = uuid.uuid4().hex
        self.cpus = cpus
        # Short: Ray's sockets lie below it, and their paths have 107 bytes at most.
        self.folder = Path(os.environ["RAY_TMPDIR"]) / self.stage[:4]
        self.folder.mkdir(parents=True)
        self.environment = {**os.environ, **(settings or {}), "BEQUEST_STAGE": self.stage}
        self.machines: dict[int, Machine] = {}
        # Ray starts a dashboard's process even where none is wanted, and waits for it. It goes on
        # without when the port is taken, so we take it. This saves more than a second.
        self._taken = socket.create_server((HOST, 0))
        self.port = free_port()
        self.address = f"{HOST}:{self.port}"
        self._gcs = None
        try:
            self._start_head()
            self.add(count)
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    # -- starting ---------------------------------------------------------------------------

    def _start_head(self) -> None:
        taken = self._taken.getsockname()[1]
        words = ["--head", f"--port={self.port}", "--num-cpus=0", "--no-monitor"]
        words += ["--include-dashboard=false", f"--dashboard-port={taken}"]
        self._launch(HEAD, words)
        self._until_up({HEAD})

    def add(self, count: int = 1) -> list[int]:
        """Start so many more machines, all at once, and wait until the cluster knows them."""
        first = max(self.machines) + 1
        numbers = list(range(first, first + count))
        for number in numbers:
            self._launch(number, [f"--address={self.address}", f"--num-cpus={self.cpus}"])
        self._until_up(set(numbers))
        return numbers

    def _launch(self, number: int, words: list[str]) -> None:
        # Machines that share a folder and start together may choose the same socket's name.
        folder = self.folder / str(number)
        folder.mkdir()
        command = [
            *(sys.executable, "-c", RAY, "start", "--block", *words),
            *(f"--node-name={name(number)}", f"--node-ip-address={HOST}"),
            *(f"--temp-dir={folder}", f"--object-store-memory={STORE_BYTES}"),
            *("--include-log-monitor=false", "--disable-usage-stats"),
        ]
        with (folder / "output.txt").open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**self.environment, "BEQUEST_MACHINE": str(number)},
                start_new_session=True,
            )
        self.machines[number] = Machine(number, process, folder)

    def _until_up(self, numbers: set[int], patience: float = 60.0) -> None:
        deadline = time.monotonic() + patience
        while missing := {n for n in numbers if name(n) not in self.alive()}:
            for number in missing:
                machine = self.machines[number]
                if machine.process.poll() is not None or time.monotonic() > deadline:
                    said = machine.output.read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{name(number)} did not start; it said:\n{said}")
            time.sleep(0.05)

    # -- looking ----------------------------------------------------------------------------

    def nodes(self) -> dict[str, dict]:
        """What the cluster knows of each machine, by the machine's name; no driver is needed."""
        from ray._private.state import GlobalState
        from ray._raylet import GcsClientOptions

        if self._gcs is None:
            with contextlib.suppress(OSError):
                socket.create_connection((HOST, self.port), timeout=1).close()
                self._gcs = GlobalState()
                self._gcs._initialize_global_state(
                    GcsClientOptions.create(
                        self.address, None, allow_cluster_id_nil=True, fetch_cluster_id_if_nil=False
                    )
                )
        if self._gcs is None:
            return {}
        return {node["NodeName"]: node for node in self._gcs.node_table()}

    def alive(self) -> set[str]:
        """The names of the machines the cluster believes to be alive."""
        return {each for each, node in self.nodes().items() if node["Alive"]}

    def node_id(self, number: int) -> str:
        """The machine's id in Ray, in hexadecimal."""
        return self.nodes()[name(number)]["NodeID"]

    def pid_of(self, number: int) -> int:
        """The process `ray start --block`, to which a terminating machine sends SIGTERM."""
        return self.machines[number].process.pid

    def processes(self, number: int) -> list[int]:
        """All processes of a machine: the command, raylet, agents and workers."""
        return marked({"BEQUEST_STAGE": self.stage, "BEQUEST_MACHINE": str(number)})

    def raylet_pid(self, number: int) -> int:
        """The machine's raylet."""
        (pid,) = [p for p in self.processes(number) if command_of(p)[:1] == ["raylet"]]
        return pid

    def worker_pids(self, number: int) -> list[int]:
        """The machine's workers, which hold its actors."""
        return [p for p in self.processes(number) if is_worker(p)]

    # -- losing -----------------------------------------------------------------------------

    def terminate(self, number: int) -> None:
        """Ask the machine to go, as a cloud does before it takes a machine away: SIGTERM."""
        os.kill(self.pid_of(number), signal.SIGTERM)

    def kill(self, number: int) -> None:
        """A power failure: everything on the machine is gone at once."""
        # Stopped first, so that none of them can tell the world about another's end.
        self.freeze(number)
        self._signal(number, signal.SIGKILL)
        self.machines[number].process.wait(timeout=10)

    def freeze(self, number: int) -> None:
        """Everything on the machine stands still, and its connections stay open."""
        self._signal(number, signal.SIGSTOP)

    def thaw(self, number: int) -> None:
        """A frozen machine goes on, not knowing that it was away."""
        self._signal(number, signal.SIGCONT)

    def drain(self, number: int, *, seconds: float = 30.0, why: str = "a test") -> None:
        """Announce the end of a machine, as a spot instance's cloud does.

        This is the call that `ray drain-node` makes. The command itself takes seconds to start,
        and on a busy machine a run would be over by then.
        """
        from ray._raylet import GcsClient
        from ray.core.generated import autoscaler_pb2

        accepted, refusal = GcsClient(address=self.address).drain_node(
            self.node_id(number),
            autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION"),
            why,
            time.time_ns() // 1_000_000 + int(1000 * seconds),
        )
        assert accepted, refusal

    def _signal(self, number: int, what: signal.Signals) -> None:
        # Twice: a process that was just being started when we looked is found the second time.
        for _ in range(2):
            for pid in self.processes(number):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, what)

    # -- ending -----------------------------------------------------------------------------

    def stop(self) -> None:
        """End everything that was started here; whatever survives that is an error."""
        self._taken.close()
        if self._gcs is not None:
            self._gcs.disconnect()
            self._gcs = None
        left = end_all({"BEQUEST_STAGE": self.stage})
        for machine in self.machines.values():
            machine.process.wait(timeout=10)
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.parent.rmdir()  # unless there is another stage
        if left:
            raise RuntimeError(f"still running after SIGKILL: {json.dumps(left)}")


def name(number: int) -> str:
    """What a machine is called in Ray."""
    return "head" if number == HEAD else f"machine-{number}"


def free_port() -> int:
    """A port without a listener; the namespace is ours, so it stays one."""
    with socket.create_server((HOST, 0)) as listener:
        return listener.getsockname()[1]


def marked(marks: dict[str, str]) -> list[int]:
    """The processes, other than this one, that were started with these variables set."""
    wanted = {f"{key}={value}".encode() for key, value in marks.items()}
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                # A process that has ended but was not waited for has an empty environment.
                if wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                    found.append(int(entry.name))
    return sorted(found)


def strangers() -> list[str]:
    """Processes of our network namespace that are neither this one nor above it."""
    ours = Path("/proc/self/ns/net").readlink()
    above, pid = set(), os.getpid()
    while pid > 0:
        above.add(pid)
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pid = int(fields[1])
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in above:
            with contextlib.suppress(OSError):
                if (entry / "ns/net").readlink() == ours:
                    found.append(f"{entry.name} {' '.join(command_of(int(entry.name)))[:200]}")
    return found


def command_of(pid: int) -> list[str]:
    """The words a process was started with, its program's name without folders; [] if it ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
    return [Path(words[0]).name, *words[1:]]


def is_worker(pid: int) -> bool:
    """Whether a process is one of Ray's workers."""
    # A worker calls itself ray::IDLE or after its actor; so do the agents, which are not workers.
    title = " ".join(command_of(pid))
    return title.startswith("ray::") and "Agent" not in title


def end_all(marks: dict[str, str], patience: float = 10.0) -> list[str]:
    """Kill everything that carries the marks; return what is left of it all the same."""
    deadline = time.monotonic() + patience
    while (pids := marked(marks)) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return [f"{pid} {' '.join(command_of(pid))[:200]}" for pid in pids]
