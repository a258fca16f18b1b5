"""A supervisor tells the truth about its component, and does what it is told."""

import dataclasses
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testbed.clock import wait_for
from testbed.deploy.processes import ProcessId, alive
from testbed.deploy.supervisor import Supervisor, tail
from testbed.plan.component import Component, Ready
from tests.deploy.trees import LIMIT_S, Trees

Gone = Callable[[list[ProcessId]], None]


@dataclasses.dataclass
class Supervised:
    """A supervisor in this process. `left` is set when it would leave for good."""

    supervisor: Supervisor
    left: threading.Event

    def becomes(self, state: str) -> None:
        """Wait until the status says so."""
        wait_for(lambda: self.supervisor.status().state == state, limit_s=LIMIT_S, what=f"state {state}")


@pytest.fixture
def supervise(trees: Trees) -> Iterator[Callable[..., Supervised]]:
    """Makes supervisors, and stops them after the test."""
    made: list[Supervised] = []

    def make(component: Component, lease_s: float | None = None) -> Supervised:
        left = threading.Event()
        made.append(Supervised(Supervisor(trees.order(component, lease_s), left.set), left))
        return made[-1]

    yield make
    for supervised in made:
        supervised.supervisor.stop()
        supervised.supervisor.close()


Supervise = Callable[..., Supervised]


def state_letter(process: ProcessId) -> str:
    """T for a stopped process."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0]


def test_a_component_loads_until_it_is_ready(trees: Trees, supervise: Supervise, port: int) -> None:
    one = supervise(trees.component({}, Ready(limit_s=LIMIT_S, port=port)))
    assert one.supervisor.status().state == "new"
    one.supervisor.start()
    trees.members()
    assert one.supervisor.status().state == "loading"
    with socket.create_server(("127.0.0.1", port)):
        one.becomes("ready")
    status = one.supervisor.status()
    assert status.pid == trees.member("top").pid
    assert status.uptime_s
    assert status.exit_status is None


def test_an_exit_is_noticed_with_its_status(trees: Trees, supervise: Supervise) -> None:
    one = supervise(trees.component({"top": {"exits": 3}}))
    one.supervisor.start()
    one.becomes("exited")
    assert one.supervisor.status().exit_status == 3
    assert one.supervisor.status().pid is None
    assert not one.supervisor.status().uptime_s


def test_when_the_leash_is_killed_its_tree_is_ended_and_the_component_is_lost(
    trees: Trees, supervise: Supervise, all_gone: Gone, shared_name: str
) -> None:
    one = supervise(trees.component({"bottom": {"deaf": True, "session": True, "map": shared_name}}))
    one.supervisor.start()
    members = trees.members()
    wait_for(lambda: trees.leash().shared_memory != (), limit_s=LIMIT_S, what="a look at the maps")
    os.kill(trees.leash().leash.pid, signal.SIGKILL)
    all_gone(members)
    wait_for(trees.ended, limit_s=LIMIT_S, what="the supervisor's clean-up")
    assert one.supervisor.status().state == "lost"
    assert not Path("/dev/shm", shared_name).exists()


def test_a_restart_is_a_new_tree(trees: Trees, supervise: Supervise, all_gone: Gone) -> None:
    one = supervise(trees.component({}))
    one.supervisor.start()
    before = trees.members()
    trees.forget()
    one.supervisor.restart()
    # The record of the tree before must not speak for the new one.
    assert one.supervisor.status().state in ("loading", "ready")
    all_gone(before)
    after = trees.members()
    one.becomes("ready")
    assert set(before).isdisjoint(after)
    assert one.supervisor.status().pid == after[0].pid


def test_a_stopped_component_is_not_called_exited(trees: Trees, supervise: Supervise, all_gone: Gone) -> None:
    one = supervise(trees.component({}))
    one.supervisor.start()
    members = trees.members()
    assert one.supervisor.stop() == ()
    all_gone(members)
    assert one.supervisor.status().state == "stopped"


def test_a_signal_reaches_the_whole_tree_or_its_main_process_alone(trees: Trees, supervise: Supervise) -> None:
    one = supervise(trees.component({"bottom": {"session": True}}))
    one.supervisor.start()
    members = trees.members()
    assert one.supervisor.signal(signal.SIGSTOP, False) == 1
    wait_for(lambda: state_letter(members[0]) == "T", limit_s=LIMIT_S, what="the main process stopped")
    assert state_letter(members[2]) == "S"
    assert one.supervisor.signal(signal.SIGSTOP) == 3
    wait_for(lambda: [state_letter(member) for member in members] == ["T"] * 3, limit_s=LIMIT_S, what="all stopped")
    one.supervisor.signal(signal.SIGCONT)
    wait_for(lambda: [state_letter(member) for member in members] == ["S"] * 3, limit_s=LIMIT_S, what="all go on")
    one.supervisor.signal(signal.SIGKILL)
    one.becomes("exited")
    assert one.supervisor.status().exit_status == -signal.SIGKILL


def test_a_lease_that_is_not_renewed_ends_the_tree_and_the_supervisor(
    trees: Trees, supervise: Supervise, all_gone: Gone
) -> None:
    one = supervise(trees.component({}))
    one.supervisor.start()
    members = trees.members()
    one.supervisor.renew(0.2)
    assert one.left.wait(LIMIT_S)
    all_gone(members)
    assert one.supervisor.status().state == "expired"


def test_a_lease_counts_before_the_component_was_started(trees: Trees, supervise: Supervise) -> None:
    assert supervise(trees.component({}), lease_s=0.2).left.wait(LIMIT_S)


def test_without_a_lease_nothing_expires(trees: Trees, supervise: Supervise) -> None:
    one = supervise(trees.component({}), lease_s=0.6)
    one.supervisor.renew(None)
    one.supervisor.start()
    members = trees.members()
    assert not one.left.wait(1.5)
    assert all(alive(member) for member in members)


def test_the_component_s_environment_carries_its_mark(trees: Trees, supervise: Supervise) -> None:
    component = dataclasses.replace(trees.component({}), env={"OMP_NUM_THREADS": "3"})
    one = supervise(component)
    one.supervisor.start()
    environment = Path(f"/proc/{trees.members()[2].pid}/environ").read_text().split("\0")
    assert f"TESTBED_DEPLOYMENT=small/{trees.uid}" in environment
    assert f"TESTBED_COMPONENT=small/{trees.uid}/tree" in environment
    assert "OMP_NUM_THREADS=3" in environment


def test_tail_is_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"line {number}\n" for number in range(30)))
    assert tail(log, 2) == ["line 28", "line 29"]
    assert tail(tmp_path / "none.log", 2) == []
