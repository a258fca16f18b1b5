"""What is written down about deployments, so that anyone can tell and finish after any crash.

    STATE/deployments/NAME/deployment.json            who asked for what
    STATE/deployments/NAME/COMPONENT.supervisor.json  the actor's process, and how far its component is
    STATE/deployments/NAME/COMPONENT.leash.json       the tree: processes, shared memory, exit status
    STATE/keeper/                                     our own Ray head, its token and its log

Each file is replaced whole, so a reader never sees half of one. STATE is the user's state folder.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from testbed.clock import polls
from testbed.deploy.processes import ProcessId, alive
from testbed.errors import DeployError
from testbed.plan.component import DeploymentPlan

LOCK_LIMIT_S = 60.0
MARKER = "TESTBED_DEPLOYMENT"
COMPONENT_MARKER = "TESTBED_COMPONENT"
Record = TypeVar("Record")


@dataclass(frozen=True)
class DeploymentRecord:
    """One deployment. `uid` tells it from others of the same name.

    Until it is `kept` it belongs to the process `driver`. `own_head`: it runs on the Ray head of our keeper.
    """

    plan: DeploymentPlan
    uid: str
    address: str
    own_head: bool
    driver: ProcessId
    kept: bool
    temp: str

    @property
    def mark(self) -> str:
        """The value of the marker variable in the environment of each of its processes."""
        return f"{self.plan.name}/{self.uid}"


@dataclass(frozen=True)
class SupervisorRecord:
    """The process of a supervisor, and how far its component is: new, loading, ready, stopped or expired.

    Units: `began_s` seconds on this host's monotonic clock.
    """

    process: ProcessId
    state: str
    log: str
    began_s: float | None = None


@dataclass(frozen=True)
class LeashRecord:
    """One process tree. `state` is running, ending or ended; `cause` says what began its end.

    `remove` are paths that go with the tree; `shared_memory` are paths its processes were seen to map.
    """

    leash: ProcessId
    command: ProcessId | None
    state: str
    members: tuple[ProcessId, ...] = ()
    remove: tuple[str, ...] = ()
    shared_memory: tuple[str, ...] = ()
    cause: str = ""
    exit_status: int | None = None
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class KeeperRecord:
    """Our own Ray head, and the process that keeps it."""

    process: ProcessId
    address: str
    temp: str


def default_state() -> Path:
    """The user's state folder, as the XDG convention has it."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local/state") / "testbed"


def folder(state: Path, name: str) -> Path:
    """Where the records of one deployment are."""
    return state / "deployments" / name


def deployment_path(state: Path, name: str) -> Path:
    """The record of a deployment."""
    return folder(state, name) / "deployment.json"


def supervisor_path(state: Path, name: str, component: str) -> Path:
    """The record of a component's supervisor."""
    return folder(state, name) / f"{component}.supervisor.json"


def leash_path(state: Path, name: str, component: str) -> Path:
    """The record of a component's process tree."""
    return folder(state, name) / f"{component}.leash.json"


def keeper_path(state: Path) -> Path:
    """The record of our own Ray head."""
    return state / "keeper" / "keeper.json"


def write(path: Path, record: object) -> None:
    """Replace a record whole; nobody but the user may read it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    draft.touch(mode=0o600)
    draft.write_bytes(msgspec.json.encode(record))
    draft.replace(path)


def read(path: Path, kind: type[Record]) -> Record | None:
    """A record; None when there is none.

    Raises: DeployError if the file is not such a record.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.MsgspecError as problem:
        raise DeployError(f"is not a record of this version: {problem}", where=str(path)) from problem


def read_deployment(state: Path, name: str) -> DeploymentRecord | None:
    """The record of a deployment, or None."""
    return read(deployment_path(state, name), DeploymentRecord)


def deployments(state: Path) -> list[DeploymentRecord]:
    """All deployments that are written down, by name."""
    paths = sorted((state / "deployments").glob("*/deployment.json"))
    found = [read(path, DeploymentRecord) for path in paths]
    return [record for record in found if record is not None]


def forget(state: Path, name: str) -> None:
    """Remove the records of a deployment that is no more."""
    shutil.rmtree(folder(state, name), ignore_errors=True)


def supervised(state: Path, record: DeploymentRecord) -> bool:
    """Whether any supervisor of this deployment lives."""
    paths = [supervisor_path(state, record.plan.name, component.name) for component in record.plan.components]
    found = [read(path, SupervisorRecord) for path in paths]
    return any(alive(supervisor.process) for supervisor in found if supervisor)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, alone among all processes of this user.

    Raises: DeployError when another process holds it too long.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("a") as file:
        for _ in polls(LOCK_LIMIT_S, 0.05):
            if _try_lock(file.fileno()):
                break
        else:
            raise DeployError(f"another process has held it for {LOCK_LIMIT_S:g} s", where=str(path))
        yield


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
