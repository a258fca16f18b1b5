"""Run the stand-in in a process of its own, and end it again."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.errors import DeployError
from testbed.stub.log import StubLog, decode_log

END_LIMIT_S = 10.0
READ_LIMIT_S = 10.0


@dataclass(frozen=True)
class RunningStub:
    """A stand-in that listens at `base_url`."""

    base_url: str
    process: "subprocess.Popen[str]"

    def log(self) -> dict[str, Any]:
        """What arrived so far: `posts`, one entry each with the server's own stamps, and `peak_open`."""
        with urllib.request.urlopen(f"{self.base_url}/_log", timeout=READ_LIMIT_S) as answer:
            return dict(json.load(answer))

    def columns(self) -> StubLog:
        """The stamps of all that arrived so far, in columns; where a stand-in keeps no rows there are none."""
        with urllib.request.urlopen(f"{self.base_url}/_log.bin", timeout=READ_LIMIT_S) as answer:
            return decode_log(answer.read())


@contextmanager
def running_stub(*arguments: str) -> Iterator[RunningStub]:
    """A stand-in on a free port with these command line arguments, ended with the block or with this process.

    Raises: DeployError if it does not start.
    """
    command = [sys.executable, "-m", "testbed.stub.server", "--leash", *arguments]
    root = Path(__file__).resolve().parents[2]
    pipe, silent = subprocess.PIPE, subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=root, stdin=pipe, stdout=pipe, stderr=silent, text=True)
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        if not port:
            raise DeployError("the stand-in server did not start", where=" ".join(command))
        yield RunningStub(f"http://127.0.0.1:{port}", process)
    finally:
        process.kill()
        process.communicate(timeout=END_LIMIT_S)
