"""Hold one process tree, and end all of it when its supervisor is gone, for whatever cause.

    python -m testbed.deploy.leash --pipe FD --record FILE --log FILE --grace SECONDS [--remove PATH ...] -- COMMAND...

The supervisor keeps the other end of the pipe; the kernel closes it even for a killed process, so end of file is the
one sign that never fails. As child subreaper the leash inherits members whose parents ended, also those in sessions of
their own. When the tree is gone it removes the shared memory that it had mapped, and the paths it was given.
"""

import argparse
import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from testbed.clock import now_s
from testbed.deploy.ending import end, remove
from testbed.deploy.processes import (
    SHARED_MEMORY,
    Process,
    ProcessId,
    descendants,
    look,
    mapped_shared_memory,
    table,
    this_process,
)
from testbed.deploy.records import LeashRecord, write

PR_SET_CHILD_SUBREAPER = 36
LOOK_EVERY_S = 1.0
KILL_LIMIT_S = 30.0
NOT_FOUND = 127


def become_subreaper() -> None:
    """Members whose parent ends become our children, not those of process 1."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


class Leash:
    """The tree below this process, and its record."""

    def __init__(self, record: Path, remove_paths: tuple[str, ...]) -> None:
        self._path = record
        self._before = set(os.listdir(SHARED_MEMORY))
        self._seen_names: set[str] | None = None
        self._command = 0
        self.record = LeashRecord(leash=this_process(), command=None, state="running", remove=remove_paths)

    def start(self, command: list[str], log: Path) -> None:
        """Start the command in a process group of its own; its output goes to the log."""
        with log.open("ab", buffering=0) as output:
            try:
                child = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, process_group=0
                )
            except OSError as problem:
                output.write(f"{command[0]}: {problem.strerror}\n".encode())
                self.update(state="ending", cause="command ended", exit_status=NOT_FOUND)
                return
        self._command = child.pid
        # Reaped by reap(), together with all others; this keeps Popen from waiting for it a second time.
        child.returncode = 0
        found = look(child.pid)
        self.update(command=found.id if found else None)

    def update(self, **changes: object) -> None:
        """Change the record, on disk too."""
        fields = {name: getattr(self.record, name) for name in LeashRecord.__dataclass_fields__}
        self.record = LeashRecord(**(fields | changes))
        write(self._path, self.record)

    def reap(self) -> None:
        """Take the exit status of children that ended, our own or inherited."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._command and self.record.exit_status is None:
                cause = self.record.cause or "command ended"
                self.update(state="ending", cause=cause, exit_status=os.waitstatus_to_exitcode(status))

    def members(self) -> list[ProcessId]:
        """The living processes of the tree."""
        self.reap()
        return [process.id for process in self._tree() if not process.zombie]

    def _tree(self) -> list[Process]:
        return descendants(os.getpid(), table())

    def observe(self) -> None:
        """Write down who belongs to the tree, and which shared memory that was not there before it has mapped."""
        members = tuple(self.members())
        names = set(os.listdir(SHARED_MEMORY))
        same = members == self.record.members
        if same and names == self._seen_names:
            return
        # A look at the maps costs the process a little, so only after something changed.
        mapped = {name for member in members for name in mapped_shared_memory(member.pid)}
        new = {str(SHARED_MEMORY / name) for name in mapped - self._before}
        self._seen_names = names
        known = tuple(sorted(new | set(self.record.shared_memory)))
        if not same or known != self.record.shared_memory:
            self.update(members=members, shared_memory=known)

    def watch(self, wait: Callable[[float], bool]) -> None:
        """Observe until the command ended, or `wait` says that the end has come."""
        self.observe()
        looked_s = now_s()
        while self.record.exit_status is None:
            if wait(LOOK_EVERY_S):
                self.update(state="ending", cause="told to end")
                return
            self.reap()
            if now_s() - looked_s >= LOOK_EVERY_S:
                self.observe()
                looked_s = now_s()

    def end(self, grace_s: float) -> None:
        """End the tree, then remove what it left."""
        self._seen_names = None
        self.observe()
        end(self.members, grace_s=grace_s, limit_s=KILL_LIMIT_S)
        self.reap()
        left = remove((*self.record.remove, *self.record.shared_memory))
        self.update(state="ended", members=tuple(self.members()), left=left)


def _wait_for_end(pipe: int) -> Callable[[float], bool]:
    """A wait that answers True when the pipe is at its end, or a signal told us to end."""
    told: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        told.append(signum)

    awake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, note)
    signal.signal(signal.SIGCHLD, lambda signum, frame: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])

    def wait(limit_s: float) -> bool:
        readable, _, _ = select.select([pipe, awake], [], [], limit_s)
        if awake in readable:
            os.read(awake, 4096)
        return bool(told) or (pipe in readable and not os.read(pipe, 1))

    return wait


def main(arguments: list[str]) -> int:
    """Run one tree to its end."""
    parser = argparse.ArgumentParser(prog="testbed.deploy.leash")
    parser.add_argument("--pipe", type=int, required=True)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--remove", action="append", default=[])
    parser.add_argument("--grace", type=float, required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    if os.getpgid(0) != os.getpid():
        os.setsid()
    become_subreaper()
    os.set_inheritable(options.pipe, False)
    wait = _wait_for_end(options.pipe)
    leash = Leash(options.record, tuple(options.remove))
    leash.start(options.command, options.log)
    leash.watch(wait)
    leash.end(options.grace)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
