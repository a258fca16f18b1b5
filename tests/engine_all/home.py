"""A user's home for real commands: caches, state and runs in folders of its own; and what is left of what ran there."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from testbed.clock import polls
from testbed.deploy.leftovers import leftovers
from testbed.deploy.processes import ProcessId, alive, command_line, marked
from testbed.deploy.records import DeploymentRecord, KeeperRecord, deployments, keeper_path, read
from testbed.deploy.state import status

ROOT = Path(__file__).parents[2]
GONE_LIMIT_S = 60.0
"""The lease of 15 s, the grace of the trees, and the keeper's last look."""


class Running:
    """A command that runs. What it says on stderr is kept in `heard`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.heard: list[str] = []

    def hear(self, pattern: str) -> None:
        """Read on until it has said this."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.heard.append(line)
            if re.search(pattern, line):
                return
        raise AssertionError(f"never said {pattern!r}, but:\n{''.join(self.heard)}")

    def end(self, limit_s: float) -> int:
        """Wait for its end; its exit code."""
        _, rest = self.process.communicate(timeout=limit_s)
        self.heard.append(rest)
        return self.process.returncode


@dataclass(frozen=True)
class Snapshot:
    """What is written down of deployments and their Ray head while they run."""

    records: tuple[DeploymentRecord, ...]
    keeper: KeeperRecord

    def left(self, state: Path) -> list[str]:
        """What of it is still there."""
        found = [f"{one.kind} {one.what}" for record in self.records for one in leftovers(record, state)]
        found += [f"the keeper {self.keeper.process}"] if alive(self.keeper.process) else []
        return found + ([f"file {self.keeper.temp}"] if Path(self.keeper.temp).exists() else [])


@dataclass(frozen=True)
class Home:
    """Commands are run in `folder`, where they find the files of an experiment and put their results."""

    folder: Path
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        own = {"XDG_CACHE_HOME": str(self.folder / "cache"), "XDG_STATE_HOME": str(self.folder / "state")}
        plain = {"PYTHONPATH": str(ROOT), "TERM": "dumb", "COLUMNS": "120"}
        object.__setattr__(self, "environment", {**os.environ, **plain, **own})

    @property
    def cache(self) -> Path:
        """Where models and golden answers are kept."""
        return self.folder / "cache" / "testbed"

    @property
    def state(self) -> Path:
        """Where deployments are written down."""
        return self.folder / "state" / "testbed"

    def runs(self) -> set[Path]:
        """The folders of all runs."""
        return {path.parent for path in (self.folder / "results").glob("*/manifest.json")}

    def _start(self, line: str, stdout: int) -> "subprocess.Popen[str]":
        words = shlex.split(line)
        assert words[0].endswith("testbed"), line
        return subprocess.Popen(
            [sys.executable, "-m", "testbed", *words[1:]], cwd=self.folder, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, text=True,
        )

    def run(self, line: str, limit_s: float) -> "subprocess.CompletedProcess[str]":
        """Run a command to its end."""
        with self._start(line, subprocess.PIPE) as process:
            try:
                out, said = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(line, process.returncode, out, said)

    @contextmanager
    def start(self, line: str) -> Iterator[Running]:
        """A command that is still running; killed at the end if it still is then."""
        with self._start(line, subprocess.DEVNULL) as process:
            try:
                yield Running(process)
            finally:
                process.kill()

    def snapshot(self) -> Snapshot:
        """What is deployed now."""
        keeper = read(keeper_path(self.state), KeeperRecord)
        assert keeper is not None
        return Snapshot(tuple(deployments(self.state)), keeper)

    def processes(self) -> list[ProcessId]:
        """All that were started from here, at whatever remove."""
        return marked("XDG_STATE_HOME", self.environment["XDG_STATE_HOME"])

    def left(self, snapshot: Snapshot | None = None) -> list[str]:
        """What is still there of all that ran here."""
        found = [] if snapshot is None else snapshot.left(self.state)
        found += [f"deployment {one.name}, {one.state}" for one in status(self.state)]
        return found + [f"process {one.pid} {command_line(one.pid)}" for one in self.processes()]

    def left_at_last(self, snapshot: Snapshot | None = None) -> list[str]:
        """The same, once all had the time to end."""
        for _ in polls(GONE_LIMIT_S, 0.5):
            if not self.left(snapshot):
                break
        return self.left(snapshot)
