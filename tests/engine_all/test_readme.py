"""Every command that the README shows does what it says, in the order in which it shows them."""

import shlex
import shutil
import subprocess

import pytest

from testbed.deploy.state import status
from testbed.stub.process import running_stub
from tests.engine_all.conftest import Ended
from tests.engine_all.home import ROOT, Home
from tests.readme import commands

pytestmark = pytest.mark.timeout(2000)
LIMIT_S = 1800.0
SERVER = "http://HOST:8000"
COMMANDS = [one for one in commands((ROOT / "README.md").read_text(encoding="utf-8")) if "testbed " in one]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_readme_works(home: Home, demo: Ended, line: str) -> None:
    if "results/reference" in line:
        shutil.copytree(ROOT / "results/reference", home.folder / "results/reference", dirs_exist_ok=True)
    with running_stub("--ttft-ms", "20", "--itl-ms", "5") as stub:
        done = home.run(line.replace("results/RUN", str(demo.folder)).replace(SERVER, stub.base_url), LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    what = shlex.split(line)[1]
    if what == "up":
        assert " Paris" in answer(done.stdout)
    elif what == "status":
        assert "colocated: up" in done.stdout
    elif what == "down":
        assert status(home.state) == []
        assert home.left_at_last() == []


def answer(curl: str) -> str:
    """What the engine says to the command that `up` has printed."""
    asked = subprocess.run(["sh", "-c", curl], capture_output=True, text=True, timeout=60, check=True)
    return asked.stdout
