"""What /proc says, read right."""

import os
import socket
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.deploy.processes import (
    Process,
    ProcessId,
    alive,
    command_line,
    descendants,
    free_port,
    holder,
    look,
    open_ports,
    parse_stat,
    send,
    this_process,
)

NAMES = st.text(alphabet=string.ascii_letters + string.digits + " ()[]:/-_.", max_size=15)
NUMBERS = st.integers(min_value=0, max_value=2**22)


@given(pid=NUMBERS, name=NAMES, letter=st.sampled_from("RSDTZX"), parent=NUMBERS, group=NUMBERS, session=NUMBERS,
       started=st.integers(min_value=0))
def test_a_stat_line_is_read_right_whatever_the_command_is_called(
    pid: int, name: str, letter: str, parent: int, group: int, session: int, started: int
) -> None:
    # proc(5): pid (comm) state ppid pgrp session, then 15 fields, then starttime as the 22nd
    text = f"{pid} ({name}) {letter} {parent} {group} {session} " + "0 " * 15 + f"{started} 1 2 3\n"
    read = parse_stat(text, "boot")
    assert read == Process(ProcessId(pid, f"boot-{started}"), parent, group, session, letter in "ZX")


def test_this_process_lives_and_has_its_parent() -> None:
    found = look(os.getpid())
    assert found is not None
    assert found.parent == os.getppid()
    assert alive(this_process())


def test_a_pid_that_was_given_out_again_is_another_process() -> None:
    other = ProcessId(os.getpid(), "boot-1")
    assert not alive(other)
    assert not send(other, 9)


def test_a_zombie_does_not_live() -> None:
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    found = look(child)
    assert found is not None
    assert found.zombie
    assert not alive(found.id)
    os.waitpid(child, 0)


def test_descendants_are_all_below_and_none_beside() -> None:
    # 1 has 2 and 3; 2 has 4; 5 belongs to nobody here
    parents = {2: 1, 3: 1, 4: 2, 5: 99}
    processes = {pid: Process(ProcessId(pid, "b-1"), parent, pid, pid, False) for pid, parent in parents.items()}
    assert sorted(found.id.pid for found in descendants(1, processes)) == [2, 3, 4]
    assert [found.id.pid for found in descendants(2, processes)] == [4]
    assert descendants(5, processes) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_an_open_port_and_its_holder_are_found(host: str) -> None:
    port = free_port(host)
    assert open_ports([port]) == []
    with socket.create_server((host, port)):
        assert open_ports([port]) == [port]
        found = holder(port)
        assert found == this_process()
        assert "pytest" in command_line(found.pid)
    assert holder(port) is None
