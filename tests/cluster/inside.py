"""Run a command where the only network is a loopback of its own, as the tests of a cluster need.

Ray looks for the address by which others would reach this machine, whatever it is told. Inside a
network namespace that has nothing but `lo` it finds 127.0.0.1, and all ports are free.

    python tests/cluster/inside.py pytest tests/cluster

Where a namespace is not permitted the command runs all the same, and BEQUEST_NAMESPACE says why
there is none: the tests then skip with that reason.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1

# What Ray reads. Everything here is inherited by each process of the cluster.
ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    # A frozen machine is given up after 5 to 6 seconds, not after 30.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
    # The metrics are not looked at, and the processes that gather them cost seconds of processor.
    "RAY_enable_metrics_collection": "0",
    # Ray's processes rename themselves, and would write the new name over the variables by which
    # we find them.
    "SPT_NOENV": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


def command(words: list[str]) -> list[str]:
    """The words that run this command inside a namespace."""
    return [sys.executable, str(Path(__file__).resolve()), *words]


def enter() -> None:
    """Move this process into a network namespace of its own; OSError says why it cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        # Not root, or a root without the right to: a user namespace brings the right along.
        user, group = os.getuid(), os.getgid()
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"unshare: {os.strerror(number)}")
        Path("/proc/self/setgroups").write_text("deny")  # or the next lines are refused
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    raise_loopback()


def raise_loopback() -> None:
    """A new namespace has a loopback that is down; iproute2 may not be installed."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sH14x", b"lo", 0)
        _, flags = struct.unpack("16sH14x", fcntl.ioctl(handle, SIOCGIFFLAGS, request))
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | IFF_UP))


def environment() -> dict[str, str]:
    """What the command sees, apart from whether it has a namespace."""
    # Ray's sockets are paths of at most 107 bytes, too few for the usual folder of a test.
    own = {"RAY_TMPDIR": f"/tmp/bq-{os.getpid()}"}  # noqa: S108
    return {**os.environ, **ENVIRONMENT, **own}


def main() -> None:
    words = sys.argv[1:]
    if not words:
        sys.exit("usage: python tests/cluster/inside.py COMMAND [ARGUMENT ...]")
    seen = environment()
    try:
        enter()
    except OSError as refusal:
        seen["BEQUEST_NAMESPACE"] = f"no: {refusal}"
    else:
        seen["BEQUEST_NAMESPACE"] = "1"
    try:
        os.execvpe(words[0], words, seen)  # noqa: S606
    except OSError as failure:
        sys.exit(f"cannot run {words[0]}: {failure}")


if __name__ == "__main__":
    main()
