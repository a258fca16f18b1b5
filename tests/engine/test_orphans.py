"""A real engine does not outlive the command that started it, even when that is killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from testbed.clock import wait_for
from testbed.deploy.leftovers import leftovers
from testbed.deploy.records import read_deployment
from testbed.deploy.takedown import down
from tests.engine.hold import NAME

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]


def test_a_killed_command_leaves_no_engine_behind(tiny_model: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    shared = {path.name for path in Path("/dev/shm").iterdir()}
    command = [sys.executable, "-m", "tests.engine.hold", str(tiny_model), str(state), str(tmp_path / "run")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        lines = iter(holder.stdout.readline, "")
        assert any(line == "UP\n" for line in lines), "the engine did not come up"
        record = read_deployment(state, NAME)
        assert record is not None
        assert [left for left in leftovers(record, state) if left.kind == "process"], "an engine runs now"
        holder.kill()
    # The lease is 15 s, and the engine may take some seconds to end in order.
    wait_for(lambda: leftovers(record, state) == [], limit_s=45, every_s=0.5, what="the engine to be gone")
    assert {path.name for path in Path("/dev/shm").iterdir()} <= shared
    down(NAME, state, print)
