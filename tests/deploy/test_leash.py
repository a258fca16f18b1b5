"""The leash ends whole trees, whatever became of who held it."""

import dataclasses
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.clock import wait_for
from testbed.deploy.leftovers import end_by_records, leftovers
from testbed.deploy.processes import ProcessId, alive
from testbed.plan.component import Component
from tests.deploy.trees import LIMIT_S, Trees

Hold = Callable[[Component], "subprocess.Popen[bytes]"]
Gone = Callable[[list[ProcessId]], None]


def ended(trees: Trees) -> None:
    wait_for(trees.ended, limit_s=LIMIT_S, what="the leash's last word")


@pytest.mark.parametrize("special", [
    {}, {"bottom": {"session": True}}, {"middle": {"deaf": True}, "bottom": {"deaf": True, "session": True}},
])
def test_a_killed_supervisor_takes_the_whole_tree_with_it(
    trees: Trees, hold: Hold, all_gone: Gone, special: dict[str, object]
) -> None:
    supervisor = hold(trees.component(special))
    members = trees.members()
    supervisor.kill()
    all_gone([*members, trees.leash().leash])
    assert trees.leash().state == "ended"
    assert trees.leash().cause == "told to end"


def test_a_member_whose_parents_ended_is_ended_too(trees: Trees, hold: Hold, all_gone: Gone) -> None:
    hold(trees.component({"top": {"exits": 0}, "bottom": {"session": True}}))
    ended(trees)
    all_gone([process for process in (trees.leash().command, *trees.leash().members) if process])
    bottom = int((trees.folder / "bottom").read_text())
    assert not Path(f"/proc/{bottom}").exists()


def test_the_exit_status_of_the_command_is_written_down(trees: Trees, hold: Hold) -> None:
    hold(trees.component({"top": {"exits": 7}}))
    ended(trees)
    assert (trees.leash().cause, trees.leash().exit_status) == ("command ended", 7)


def test_a_killed_command_has_the_negative_signal_as_its_status(trees: Trees, hold: Hold, all_gone: Gone) -> None:
    hold(trees.component({}))
    members = trees.members()
    os.kill(members[0].pid, signal.SIGKILL)
    ended(trees)
    all_gone(members)
    assert trees.leash().exit_status == -signal.SIGKILL


def test_a_program_that_is_not_there_is_said_in_the_log(trees: Trees, hold: Hold) -> None:
    hold(dataclasses.replace(trees.component({}), command=("no-such-program",)))
    ended(trees)
    assert trees.leash().exit_status == 127
    assert "no-such-program: No such file" in (trees.folder / "logs/tree.log").read_text()


def test_a_leash_that_is_told_to_end_ends_its_tree(trees: Trees, hold: Hold, all_gone: Gone) -> None:
    hold(trees.component({}))
    members = trees.members()
    os.kill(trees.leash().leash.pid, signal.SIGTERM)
    all_gone([*members, trees.leash().leash])


def test_stopped_processes_are_ended_too(trees: Trees, hold: Hold, all_gone: Gone) -> None:
    supervisor = hold(trees.component({"bottom": {"deaf": True}}))
    members = trees.members()
    for member in members:
        os.kill(member.pid, signal.SIGSTOP)
    supervisor.kill()
    all_gone(members)


def test_shared_memory_that_the_tree_mapped_is_removed(
    trees: Trees, hold: Hold, all_gone: Gone, shared_name: str
) -> None:
    supervisor = hold(trees.component({"bottom": {"map": shared_name, "session": True}}))
    members = trees.members()
    assert Path("/dev/shm", shared_name).exists()
    supervisor.kill()
    all_gone([*members, trees.leash().leash])
    assert not Path("/dev/shm", shared_name).exists()


def test_shared_memory_that_was_there_before_stays(trees: Trees, hold: Hold, all_gone: Gone, shared_name: str) -> None:
    Path("/dev/shm", shared_name).write_bytes(b"not yours")
    supervisor = hold(trees.component({"bottom": {"map": shared_name}}))
    members = trees.members()
    supervisor.kill()
    all_gone([*members, trees.leash().leash])
    assert Path("/dev/shm", shared_name).exists()


def test_shared_memory_that_another_process_still_maps_stays(
    trees: Trees, hold: Hold, all_gone: Gone, shared_name: str
) -> None:
    supervisor = hold(trees.component({"bottom": {"map": shared_name}}))
    members = trees.members()
    with Path("/dev/shm", shared_name).open("r+b") as file, mmap.mmap(file.fileno(), mmap.PAGESIZE):
        supervisor.kill()
        all_gone([*members, trees.leash().leash])
        assert Path("/dev/shm", shared_name).exists()


def test_declared_shared_memory_and_the_temporary_folder_go_with_the_tree(
    trees: Trees, hold: Hold, all_gone: Gone, shared_name: str
) -> None:
    Path("/dev/shm", shared_name).write_bytes(b"left by a killed server")
    supervisor = hold(dataclasses.replace(trees.component({}), shared_memory=(shared_name,)))
    members = trees.members()
    (trees.temp / "tree" / "socket").write_text("")
    supervisor.kill()
    all_gone([*members, trees.leash().leash])
    assert not Path("/dev/shm", shared_name).exists()
    assert not (trees.temp / "tree").exists()


def test_the_temporary_folder_is_the_component_s_own(trees: Trees, hold: Hold) -> None:
    code = "import tempfile; print('temp', tempfile.gettempdir(), flush=True)"
    hold(dataclasses.replace(trees.component({}), command=(sys.executable, "-c", code)))
    ended(trees)
    assert f"temp {trees.temp / 'tree'}" in (trees.folder / "logs/tree.log").read_text()


def test_when_leash_and_supervisor_are_killed_the_records_still_lead_to_the_tree(
    trees: Trees, hold: Hold, all_gone: Gone, shared_name: str
) -> None:
    component = trees.component({"bottom": {"deaf": True, "session": True, "map": shared_name}})
    supervisor = hold(component)
    members = trees.members()
    wait_for(lambda: trees.leash().shared_memory != (), limit_s=LIMIT_S, what="a look at the maps")
    supervisor.send_signal(signal.SIGSTOP)
    os.kill(trees.leash().leash.pid, signal.SIGKILL)
    supervisor.kill()
    all_gone([trees.leash().leash])
    assert all(alive(member) for member in members)
    record = trees.record(component)
    assert {found.kind for found in leftovers(record, trees.state)} == {"process", "shared_memory", "file"}
    end_by_records(record, trees.state)
    all_gone(members)
    assert leftovers(record, trees.state) == []
