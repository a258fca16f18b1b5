"""A real Redis for the tests of this folder: it starts in a moment."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.clock import wait_for
from testbed.deploy.processes import free_port
from testbed.deploy.ready import is_ready
from testbed.plan.component import Ready
from testbed.tiers.redis import server_command


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Redis started by the command that a plan would give."""
    program = shutil.which("redis-server", path=str(Path(sys.executable).parent))
    assert program is not None, "make setup installs one"
    port = free_port("127.0.0.1")
    command = server_command(program, port, 64 * 2**20, str(tmp_path_factory.mktemp("redis")))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: is_ready(Ready(limit_s=1.0, port=port), limit_s=1.0), limit_s=15, what="redis", every_s=0.01)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(timeout=15)
