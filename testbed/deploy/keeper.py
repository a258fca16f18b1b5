"""Keep our own Ray head as long as a deployment needs it, and not longer.

    python -m testbed.deploy.keeper --state FOLDER --cpus N [--grace SECONDS]

The keeper leaves the process that started it, holds the head on a leash, and ends it when no deployment has needed it
for a while, or on SIGTERM. When the head dies it says so in its log and ends too. A deployment whose driver went away
before it was kept, and whose supervisors left, is tidied up here.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from testbed.clock import polls, wall_time_text
from testbed.deploy.cluster import LOOPBACK, keeper_lock
from testbed.deploy.leftovers import end_by_records
from testbed.deploy.processes import alive, free_port, this_process
from testbed.deploy.records import (
    DeploymentRecord,
    KeeperRecord,
    deployments,
    forget,
    keeper_path,
    locked,
    read,
    supervised,
    write,
)

LOOK_EVERY_S = 0.5
GRACE_S = 5.0
HEAD_LIMIT_S = 90.0
HEAD_GRACE_S = 5.0


class Keeper:
    """One head of ours, from its start to its end."""

    def __init__(self, state: Path, cpus: int) -> None:
        self._state = state
        self._folder = state / "keeper"
        self._told = threading.Event()
        self._temp = tempfile.mkdtemp(prefix="testbed-")
        self._port = free_port(LOOPBACK)
        write(keeper_path(state), KeeperRecord(this_process(), "", self._temp))
        reading, self._pipe = os.pipe()
        self._ready = Path(self._temp) / "ready"
        leash = [sys.executable, "-m", "testbed.deploy.leash", f"--pipe={reading}", f"--grace={HEAD_GRACE_S}",
                 f"--record={self._folder / 'head.leash.json'}", f"--log={self._folder / 'head.log'}",
                 f"--remove={self._temp}", "--"]
        head = [sys.executable, "-m", "testbed.deploy.head", f"--temp={self._temp}", f"--port={self._port}",
                f"--cpus={cpus}", f"--ready={self._ready}"]
        self._leash = subprocess.Popen([*leash, *head], pass_fds=(reading,), start_new_session=True)
        os.close(reading)

    def tell_to_end(self) -> None:
        """Let `keep` return soon."""
        self._told.set()

    def begin(self) -> bool:
        """Wait until the head is ready; False when it is not to be."""
        for _ in polls(HEAD_LIMIT_S, 0.05):
            if self._leash.poll() is not None or self._told.is_set():
                return False
            if self._ready.exists():
                write(keeper_path(self._state), KeeperRecord(this_process(), f"{LOOPBACK}:{self._port}", self._temp))
                return True
        return False

    def keep(self, grace_s: float) -> str:
        """Stay while the head is needed; return why not any longer."""
        idle_s = 0.0
        while not self._told.wait(LOOK_EVERY_S):
            if self._leash.poll() is not None:
                return "the Ray head died"
            self._tidy()
            idle_s = 0.0 if self._needed() else idle_s + LOOK_EVERY_S
            if idle_s > grace_s and self._closed():
                return "no deployment needs the Ray head"
        return "told to end"

    def _needed(self) -> bool:
        return any(_needs_head(self._state, record) for record in deployments(self._state) if record.own_head)

    def _closed(self) -> bool:
        """Withdraw the record, unless a deployment came just now."""
        with locked(keeper_lock(self._state)):
            if self._needed():
                return False
            keeper_path(self._state).unlink(missing_ok=True)
            return True

    def _tidy(self) -> None:
        for record in deployments(self._state):
            if record.own_head and not record.kept and not _needs_head(self._state, record):
                say(f"{record.plan.name}: its driver is gone; removing what it left")
                end_by_records(record, self._state)
                forget(self._state, record.plan.name)

    def end(self) -> None:
        """End the head and all that hangs on it."""
        os.close(self._pipe)
        self._leash.wait()
        record = read(keeper_path(self._state), KeeperRecord)
        if record and record.process == this_process():
            keeper_path(self._state).unlink(missing_ok=True)


def _needs_head(state: Path, record: DeploymentRecord) -> bool:
    return supervised(state, record) or (not record.kept and alive(record.driver))


def say(text: str) -> None:
    """Write a line to the keeper's log."""
    sys.stderr.write(f"{wall_time_text()} {text}\n")
    sys.stderr.flush()


def main(arguments: list[str]) -> int:
    """Leave the caller, then keep a head until nobody needs it."""
    parser = argparse.ArgumentParser(prog="testbed.deploy.keeper")
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--cpus", type=int, required=True)
    parser.add_argument("--grace", type=float, default=GRACE_S)
    options = parser.parse_args(arguments)
    if os.fork():
        return 0
    os.setsid()
    keeper = Keeper(options.state, options.cpus)
    signal.signal(signal.SIGTERM, lambda signum, frame: keeper.tell_to_end())
    say("a Ray head is starting")
    why = keeper.keep(options.grace) if keeper.begin() else "the Ray head did not start"
    say(why)
    keeper.end()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
