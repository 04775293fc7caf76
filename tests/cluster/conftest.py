"""Tests that start a real cluster and really lose machines: they need a network of their own."""

import os
import shutil
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # `import machines` and `import inside`, here and in the tests


def missing() -> str | None:
    """Why the tests of this folder cannot run here; None if they can."""
    said = os.environ.get("BEQUEST_NAMESPACE")
    if said is None:
        return "needs a network namespace: run `make test-cluster`"
    return None if said == "1" else f"needs a network namespace, and there is none: {said}"


def pytest_collection_modifyitems(items):
    reason = missing()
    if reason is not None:
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def nothing_left():
    """A process that is still in our namespace after all tests was forgotten by one of them."""
    yield
    if missing() is None:
        from machines import strangers

        assert strangers() == []
        shutil.rmtree(os.environ["RAY_TMPDIR"], ignore_errors=True)  # of stages that were killed


@pytest.fixture(scope="session")
def machines():
    """Four machines for all tests that leave them as they are.

    A test that loses a machine uses `fragile`, or adds one to these and loses that.
    """
    from machines import Machines

    with Machines(4) as stage:
        yield stage


@pytest.fixture
def fragile():
    """Starts clusters that belong to one test alone: `fragile(3)` has three machines."""
    from machines import Machines

    stages = []

    def start(count=3, **settings):
        stages.append(Machines(count, settings=settings))
        return stages[-1]

    yield start
    for stage in stages:
        stage.stop()


@pytest.fixture
def driver():
    """Connects this process to a cluster, as a user's program would, and leaves it afterwards."""
    import ray

    def connect(stage, namespace="test"):
        return ray.init(address=stage.address, namespace=namespace, log_to_driver=False)

    yield connect
    ray.shutdown()
