"""Trees that are gone when a test is over, whatever it did."""

import os
import pickle
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.clock import wait_for
from testbed.deploy.leftovers import end_by_records
from testbed.deploy.processes import ProcessId, alive, free_port
from testbed.deploy.supervisor import SOURCES
from testbed.plan.component import Component
from tests.deploy.trees import LIMIT_S, Trees

HERE = Path(__file__).parent


@pytest.fixture
def trees(tmp_path: Path) -> Iterator[Trees]:
    """Makes trees, and ends them after the test."""
    made = Trees(tmp_path)
    yield made
    end_by_records(made.record(made.component({})), made.state)


@pytest.fixture
def hold(trees: Trees) -> Iterator[Callable[[Component], "subprocess.Popen[bytes]"]]:
    """Starts a supervisor in a process of its own, which the test may kill."""
    started: list[subprocess.Popen[bytes]] = []

    def start(component: Component) -> "subprocess.Popen[bytes]":
        order = trees.folder / "order.json"
        order.write_bytes(pickle.dumps(trees.order(component)))
        environment = {**os.environ, "PYTHONPATH": SOURCES}
        started.append(subprocess.Popen([sys.executable, str(HERE / "hold.py"), str(order)], env=environment))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def all_gone() -> Callable[[list[ProcessId]], None]:
    """Waits until none of the processes lives; the test fails if one does."""

    def wait(processes: list[ProcessId]) -> None:
        what = f"the end of {processes}"
        wait_for(lambda: not any(alive(process) for process in processes), limit_s=LIMIT_S, what=what)

    return wait


@pytest.fixture
def shared_name() -> Iterator[str]:
    """A name below /dev/shm that is free, and is so again afterwards."""
    name = f"testbed-test-{secrets.token_hex(4)}"
    yield name
    Path("/dev/shm", name).unlink(missing_ok=True)


@pytest.fixture
def port() -> int:
    """A port that was free a moment ago."""
    return free_port("127.0.0.1")
