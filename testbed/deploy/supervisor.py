"""The supervisor of one component: it owns one leash, and through it one process tree.

It runs as a detached Ray actor, but knows nothing of Ray. What it knows is written down as it changes, so that status
and down need not ask it.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import testbed
from testbed.clock import now_s
from testbed.deploy.ending import end_tree, remove
from testbed.deploy.processes import alive, descendants, marked, send_all, table, this_process
from testbed.deploy.ready import is_ready
from testbed.deploy.records import (
    COMPONENT_MARKER,
    MARKER,
    LeashRecord,
    SupervisorRecord,
    leash_path,
    read,
    supervisor_path,
    write,
)
from testbed.deploy.state import ComponentStatus, component_status
from testbed.errors import RunError
from testbed.plan.component import Component

WATCH_EVERY_S = 0.25
READY_EVERY_S = 0.2
ANSWER_LIMIT_S = 30.0
END_LIMIT_S = 45.0
TAIL_BYTES = 200_000
GPUS = "CUDA_VISIBLE_DEVICES"
SOURCES = str(Path(testbed.__file__).parent.parent)


@dataclass(frozen=True)
class SupervisorOrder:
    """What a supervisor is told. `inherited` is the environment that the component's own goes on top of.

    `grace_s` is how long the tree may take to end when asked, before it is killed.
    """

    deployment: str
    mark: str
    component: Component
    folder: Path
    temp: Path
    state: Path
    lease_s: float | None
    inherited: dict[str, str]
    grace_s: float = 3.0

    @property
    def log(self) -> Path:
        """Where the output of the tree goes."""
        return self.folder / "logs" / f"{self.component.name}.log"

    @property
    def temp_folder(self) -> Path:
        """The component's private temporary folder."""
        return self.temp / self.component.name

    @property
    def component_mark(self) -> str:
        """What tells the component's processes from all others."""
        return f"{self.mark}/{self.component.name}"

    def environment(self) -> dict[str, str]:
        """All variables that the component starts with."""
        # The GPUs are those that Ray has chosen for this process, the supervisor's.
        chosen = {GPUS: os.environ[GPUS]} if self.component.gpus and GPUS in os.environ else {}
        given = {**self.inherited, **chosen, **self.component.env}
        path = [SOURCES, *given.get("PYTHONPATH", "").split(os.pathsep)]
        marks = {MARKER: self.mark, COMPONENT_MARKER: self.component_mark, "TMPDIR": str(self.temp_folder)}
        return {**given, "PYTHONPATH": os.pathsep.join(dict.fromkeys(part for part in path if part)), **marks}


class Supervisor:
    """Start, watch, signal and end one component. `leave` is called last when the lease has run out."""

    def __init__(self, order: SupervisorOrder, leave: Callable[[], None]) -> None:
        self._order = order
        self._leave = leave
        self._path = supervisor_path(order.state, order.deployment, order.component.name)
        self._lock = threading.RLock()
        self._leash: subprocess.Popen[bytes] | None = None
        self._pipe: int | None = None
        self._lease_s = order.lease_s
        self._renewed_s = now_s()
        self._over = threading.Event()
        self._record = SupervisorRecord(this_process(), "new", str(order.log))
        write(self._path, self._record)
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def start(self) -> None:
        """Start the component's tree; nothing happens if it runs.

        Raises: RunError if the tree of before can't be ended.
        """
        with self._lock:
            if self._leash is not None and self._leash.poll() is None:
                return
            if not self._finish_by_record():
                raise RunError("processes of the tree before can't be ended", where=self._order.component.name)
            # What is written there now is about the tree before.
            self._leash_path.unlink(missing_ok=True)
            self._order.log.parent.mkdir(parents=True, exist_ok=True)
            self._order.temp_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._note(state="loading", began_s=now_s())
            self._leash = self._spawn()
        threading.Thread(target=self._await_ready, args=(self._leash,), name="ready", daemon=True).start()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        component = self._order.component
        shared = [f"/dev/shm/{name}" for name in component.shared_memory]
        removed = [f"--remove={path}" for path in (*shared, self._order.temp_folder)]
        reading, self._pipe = os.pipe()
        with self._order.log.open("ab") as log:
            leash = subprocess.Popen(
                [sys.executable, "-m", "testbed.deploy.leash", f"--pipe={reading}", f"--record={self._leash_path}",
                 f"--log={self._order.log}", f"--grace={self._order.grace_s}", *removed, "--", *component.command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._order.environment(),
                cwd=self._order.folder, pass_fds=(reading,), start_new_session=True,
            )
        os.close(reading)
        return leash

    @property
    def _leash_path(self) -> Path:
        return leash_path(self._order.state, self._order.deployment, self._order.component.name)

    def _note(self, **changes: object) -> None:
        self._record = replace(self._record, **changes)  # type: ignore[arg-type]
        write(self._path, self._record)

    def _await_ready(self, leash: "subprocess.Popen[bytes]") -> None:
        ready = self._order.component.ready
        while leash.poll() is None and not self._over.wait(READY_EVERY_S):
            if is_ready(ready, limit_s=min(ready.limit_s, ANSWER_LIMIT_S)):
                with self._lock:
                    # A port may still be answered by the tree of before; only the leash of now counts.
                    if leash is self._leash and leash.poll() is None and self._record.state == "loading":
                        self._note(state="ready")
                return

    def _watch(self) -> None:
        while not self._over.wait(WATCH_EVERY_S):
            if self._leash is not None and self._leash.poll() is not None:
                with self._lock:
                    self._finish_by_record()
            if self._lease_s is not None and now_s() - self._renewed_s > self._lease_s:
                self._expire()

    def _finish_by_record(self) -> bool:
        """End what a killed leash has left of its tree; True when nothing of it lives."""
        record = read(self._leash_path, LeashRecord)
        if record is None or record.state == "ended" or alive(record.leash):
            return True
        marked_processes = partial(marked, COMPONENT_MARKER, self._order.component_mark)
        if not end_tree([record.command, *record.members], marked_processes):
            return False
        left = remove((*record.remove, *record.shared_memory))
        cause = record.cause or "its leash was killed"
        write(self._leash_path, replace(record, state="ended", cause=cause, left=left))
        return True

    def _expire(self) -> None:
        try:
            self.stop()
        finally:
            self._note(state="expired")
            self._over.set()
            self._leave()

    def stop(self) -> tuple[str, ...]:
        """End the tree; return what could not be removed.

        Raises: RunError if its processes can't be ended.
        """
        with self._lock:
            self._note(state="stopped")
            self._let_go()
            self._finish_by_record()
            record = read(self._leash_path, LeashRecord)
            return record.left if record else ()

    def close(self) -> None:
        """Stop watching; for a supervisor whose process goes on."""
        self._over.set()

    def _let_go(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        if self._leash is not None:
            try:
                self._leash.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired as problem:
                raise RunError(f"its processes did not end in {END_LIMIT_S:g} s",
                               where=self._order.component.name) from problem

    def restart(self) -> None:
        """End the tree and start it anew; does not wait until it is ready."""
        with self._lock:
            self.stop()
            self.start()

    def signal(self, signum: int, whole_tree: bool = True) -> int:
        """Signal the tree, or its main process alone; return how many processes got it."""
        record = read(self._leash_path, LeashRecord)
        if self._leash is None or record is None or record.command is None:
            return 0
        main = record.command
        tree = [process.id for process in descendants(self._leash.pid, table()) if not process.zombie]
        chosen = tree if whole_tree else [process for process in tree if process == main]
        send_all(chosen, signum)
        return len(chosen)

    def tail(self, line_count: int) -> list[str]:
        """The last lines of the log."""
        return tail(self._order.log, line_count)

    def status(self) -> ComponentStatus:
        """How the component is now."""
        return component_status(self._order.state, self._order.deployment, self._order.component.name)

    def renew(self, lease_s: float | None) -> None:
        """Let the lease run for `lease_s` from now; with None there is no lease any more."""
        self._renewed_s = now_s()
        self._lease_s = lease_s


def tail(log: Path, line_count: int) -> list[str]:
    """The last lines of a log file; none where there is no file."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()[-line_count:]
