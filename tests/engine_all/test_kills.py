"""What holds a run together is killed while it drives: the run says so, and within the lease nothing is left."""

import os
import signal
from collections.abc import Callable, Mapping

import pytest

from testbed.deploy.processes import ProcessId, command_line, descendants, table
from testbed.deploy.records import SupervisorRecord, read, supervisor_path
from testbed.journal.run import open_run
from tests.engine_all.home import Home, Snapshot

pytestmark = pytest.mark.timeout(900)
MID_DRIVE = r"first: \d+ of \d+ sent"
END_LIMIT_S = 240.0


def supervisor(component: str) -> Callable[[Home, Snapshot], ProcessId]:
    def find(home: Home, snapshot: Snapshot) -> ProcessId:
        [record] = snapshot.records
        found = read(supervisor_path(home.state, record.plan.name, component), SupervisorRecord)
        assert found is not None
        return found.process

    return find


def part_of_head(program: str) -> Callable[[Home, Snapshot], ProcessId]:
    def find(home: Home, snapshot: Snapshot) -> ProcessId:
        processes = descendants(snapshot.keeper.process.pid, table())
        [found] = [one.id for one in processes if f"/{program} " in f"{command_line(one.id.pid)} "]
        return found

    return find


VICTIMS: Mapping[str, Callable[[Home, Snapshot], ProcessId]] = {
    "the engine's supervisor": supervisor("engine-0"),
    "the tier's supervisor": supervisor("lmcache"),
    "Ray's raylet": part_of_head("raylet"),
    "Ray's store": part_of_head("gcs_server"),
    "the keeper of Ray": lambda home, snapshot: snapshot.keeper.process,
}


@pytest.mark.parametrize("who", VICTIMS)
def test_when_a_part_is_killed_in_mid_drive_the_run_is_invalid_and_nothing_is_left(home: Home, who: str) -> None:
    before = home.runs()
    with home.start("testbed run small") as run:
        run.hear(MID_DRIVE)
        snapshot = home.snapshot()
        os.kill(VICTIMS[who](home, snapshot).pid, signal.SIGKILL)
        code = run.end(END_LIMIT_S)
    said = "".join(run.heard)
    assert code == 4, said
    assert "Traceback" not in said
    assert "error: " in said
    [folder] = home.runs() - before
    assert open_run(folder).manifest.status == "broken"
    assert home.left_at_last(snapshot) == []


def test_when_the_command_is_killed_in_mid_drive_its_record_can_be_read_and_nothing_is_left(home: Home) -> None:
    before = home.runs()
    with home.start("testbed run small") as run:
        run.hear(MID_DRIVE)
        snapshot = home.snapshot()
        run.process.kill()
        run.end(END_LIMIT_S)
    assert home.left_at_last(snapshot) == []
    [folder] = home.runs() - before
    assert open_run(folder).manifest.status == "running"
    assert home.run(f"testbed report {folder}", 60.0).returncode == 4
