"""What is left is seen, of each kind; and what is not ours is not."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.deploy.leftovers import Left, end_by_records, leftovers
from testbed.deploy.processes import look
from tests.deploy.trees import Trees


@pytest.fixture
def stranger(trees: Trees) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that no record names, with the mark of the deployment in its environment."""
    environment = {**os.environ, "TESTBED_DEPLOYMENT": f"small/{trees.uid}"}
    command = [sys.executable, "-c", "import signal; print(1, flush=True); signal.pause()"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_nothing_left_is_an_empty_list(trees: Trees) -> None:
    assert leftovers(trees.record(trees.component({})), trees.state) == []


def test_a_process_with_the_mark_is_left_and_is_ended(trees: Trees, stranger: "subprocess.Popen[bytes]") -> None:
    record = trees.record(trees.component({}))
    [found] = leftovers(record, trees.state)
    assert found.kind == "process"
    assert found.what.startswith(f"{stranger.pid} ")
    end_by_records(record, trees.state)
    assert stranger.wait(10) == -9
    assert leftovers(record, trees.state) == []


def test_the_mark_of_another_deployment_is_not_ours(trees: Trees, stranger: "subprocess.Popen[bytes]") -> None:
    other = replace(trees.record(trees.component({})), uid="00000000")
    assert leftovers(other, trees.state) == []
    end_by_records(other, trees.state)
    assert look(stranger.pid) is not None
    assert stranger.poll() is None


def test_an_open_port_of_the_plan_is_left(trees: Trees, port: int) -> None:
    record = trees.record(replace(trees.component({}), ports=(port,)))
    with socket.create_server(("127.0.0.1", port)):
        [found] = leftovers(record, trees.state)
    assert found.kind == "port"
    assert found.what.startswith(f"{port}, held by {os.getpid()} ")


def test_declared_shared_memory_is_left_and_is_removed(trees: Trees, shared_name: str) -> None:
    record = trees.record(replace(trees.component({}), shared_memory=(shared_name,)))
    path = Path("/dev/shm", shared_name)
    path.write_text("pool")
    assert leftovers(record, trees.state) == [Left("shared_memory", str(path))]
    end_by_records(record, trees.state)
    assert not path.exists()


def test_the_temporary_folder_is_left_and_is_removed(trees: Trees) -> None:
    record = trees.record(trees.component({}))
    (trees.temp / "tree").mkdir(parents=True)
    assert leftovers(record, trees.state) == [Left("file", str(trees.temp))]
    end_by_records(record, trees.state)
    assert not trees.temp.exists()
