"""What of a deployment is still there: processes, open ports, shared memory, files."""

import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from testbed.deploy.ending import end, end_tree, remove
from testbed.deploy.processes import (
    SHARED_MEMORY,
    ProcessId,
    alive,
    command_line,
    holder,
    marked,
    open_ports,
    send_all,
    this_process,
)
from testbed.deploy.records import (
    MARKER,
    DeploymentRecord,
    LeashRecord,
    SupervisorRecord,
    leash_path,
    read,
    supervisor_path,
)

END_LIMIT_S = 15.0


@dataclass(frozen=True)
class Left:
    """One thing that should be gone. `kind` is process, port, shared_memory or file."""

    kind: str
    what: str


def leftovers(record: DeploymentRecord, state: Path) -> list[Left]:
    """All that is left of a deployment on this machine; its records may be gone already."""
    processes = [Left("process", f"{process.pid} {command_line(process.pid)}") for process in _living(record, state)]
    ports = [port for component in record.plan.components for port in component.ports]
    shared = [path for path in _shared_memory(record, state) if Path(path).exists()]
    return [
        *processes,
        *(Left("port", f"{port}{_held_by(port)}") for port in open_ports(ports)),
        *(Left("shared_memory", path) for path in shared),
        *(Left("file", path) for path in (record.temp,) if Path(path).exists()),
    ]


def end_by_records(record: DeploymentRecord, state: Path) -> None:
    """End and remove all of a deployment by what is written down; needs no Ray and may be repeated."""
    leashes = [leash.leash for leash in _leashes(record, state)]
    send_all(leashes, signal.SIGTERM)
    supervisors = [found.process for found in _supervisors(record, state) if found.process != this_process()]
    send_all(supervisors, signal.SIGKILL)
    end(lambda: [process for process in (*leashes, *supervisors) if alive(process)], grace_s=END_LIMIT_S, limit_s=1.0)
    recorded = [process for process in _recorded(record, state) if process != this_process()]
    end_tree(recorded, lambda: marked(MARKER, record.mark))
    remove((*_shared_memory(record, state), record.temp))


def _living(record: DeploymentRecord, state: Path) -> list[ProcessId]:
    recorded = [process for process in _recorded(record, state) if alive(process)]
    return sorted({*recorded, *marked(MARKER, record.mark)} - {this_process()})


def _recorded(record: DeploymentRecord, state: Path) -> list[ProcessId]:
    leashes = _leashes(record, state)
    trees = [process for leash in leashes for process in (leash.leash, leash.command, *leash.members)]
    supervisors = [supervisor.process for supervisor in _supervisors(record, state)]
    return [process for process in (*supervisors, *trees) if process is not None]


def _leashes(record: DeploymentRecord, state: Path) -> list[LeashRecord]:
    paths = [leash_path(state, record.plan.name, component.name) for component in record.plan.components]
    return [found for found in (read(path, LeashRecord) for path in paths) if found is not None]


def _supervisors(record: DeploymentRecord, state: Path) -> list[SupervisorRecord]:
    paths = [supervisor_path(state, record.plan.name, component.name) for component in record.plan.components]
    return [found for found in (read(path, SupervisorRecord) for path in paths) if found is not None]


def _shared_memory(record: DeploymentRecord, state: Path) -> list[str]:
    declared = [str(SHARED_MEMORY / name) for component in record.plan.components for name in component.shared_memory]
    return [*_distinct((*declared, *(path for leash in _leashes(record, state) for path in leash.shared_memory)))]


def _distinct(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(paths))


def _held_by(port: int) -> str:
    found = holder(port)
    return f", held by {found.pid} {command_line(found.pid)}" if found else ""
