"""Processes as /proc shows them: who is alive, who descends from whom, who maps which shared memory.

A process is named by its pid and its start time, so that a number that was given out again is never taken for it.
"""

import contextlib
import os
import re
import signal
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
SHARED_MEMORY = Path("/dev/shm")
LISTEN = "0A"


@dataclass(frozen=True, order=True)
class ProcessId:
    """A process for good: `started` holds the boot of the machine and the clock ticks since then."""

    pid: int
    started: str


@dataclass(frozen=True)
class Process:
    """One line of the process table. A zombie has ended; only its parent has not looked yet."""

    id: ProcessId
    parent: int
    group: int
    session: int
    zombie: bool


def boot() -> str:
    """What tells this boot of the machine from another."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()[:8]


def parse_stat(text: str, boot_id: str) -> Process:
    """Read the text of /proc/PID/stat; the command's name in it may hold blanks and brackets."""
    pid, _, rest = text.partition(" ")
    fields = rest[rest.rindex(")") + 2 :].split()
    return Process(
        id=ProcessId(int(pid), f"{boot_id}-{fields[19]}"),
        parent=int(fields[1]), group=int(fields[2]), session=int(fields[3]), zombie=fields[0] in "ZX",
    )


def _text(pid: int, name: str) -> str | None:
    """A file of a process; None when the process ended meanwhile or is not ours to read."""
    try:
        return (PROC / str(pid) / name).read_text(errors="replace")
    except OSError:
        return None


def look(pid: int) -> Process | None:
    """The process that has this number now."""
    text = _text(pid, "stat")
    return parse_stat(text, boot()) if text else None


def table() -> dict[int, Process]:
    """All processes that this one may see."""
    boot_id = boot()
    texts = [_text(int(name), "stat") for name in os.listdir(PROC) if name.isdigit()]
    found = [parse_stat(text, boot_id) for text in texts if text]
    return {process.id.pid: process for process in found}


def this_process() -> ProcessId:
    """The caller itself."""
    return ProcessId(os.getpid(), parse_stat((PROC / "self/stat").read_text(), boot()).id.started)


def alive(process: ProcessId) -> bool:
    """Whether exactly this process runs, or is stopped; a zombie does not count."""
    found = look(process.pid)
    return found is not None and found.id == process and not found.zombie


def descendants(pid: int, among: dict[int, Process]) -> list[Process]:
    """All below `pid`, zombies included, as far as the chain of parents is whole in this table."""
    children: dict[int, list[Process]] = {}
    for process in among.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [process.id.pid for process in below]
    return found


def send(process: ProcessId, signum: int) -> bool:
    """Signal exactly this process; False when it is gone."""
    if not alive(process):
        return False
    try:
        os.kill(process.pid, signum)
    except ProcessLookupError:
        return False
    return True


def send_all(processes: Iterable[ProcessId], signum: int) -> None:
    """Signal each; those asked to end are woken too, for a stopped process takes no notice."""
    for process in processes:
        if send(process, signum) and signum == signal.SIGTERM:
            send(process, signal.SIGCONT)


def command_line(pid: int) -> str:
    """The command of a process, for a message."""
    return (_text(pid, "cmdline") or "").replace("\0", " ").strip() or f"process {pid}"


def marked(variable: str, value: str) -> list[ProcessId]:
    """Living processes that were started with this variable in their environment."""
    wanted = f"{variable}={value}"
    processes = table()
    return [
        process.id for pid, process in processes.items()
        if not process.zombie and wanted in (_text(pid, "environ") or "").split("\0")
    ]


def mapped_shared_memory(pid: int) -> set[str]:
    """Names below /dev/shm that a process has mapped and that still have a name."""
    pattern = rf" {re.escape(str(SHARED_MEMORY))}/(.+)$"
    names = re.findall(pattern, _text(pid, "maps") or "", flags=re.MULTILINE)
    return {name for name in names if not name.endswith(" (deleted)")}


def shared_memory_in_use() -> set[str]:
    """Names below /dev/shm that any living process has mapped."""
    return {name for pid in table() for name in mapped_shared_memory(pid)}


def _listening() -> dict[int, set[str]]:
    """Port → inodes of the sockets that listen on it."""
    ports: dict[int, set[str]] = {}
    for name in ("tcp", "tcp6"):
        path = PROC / "net" / name
        lines = path.read_text().splitlines()[1:] if path.exists() else []
        for fields in (line.split() for line in lines):
            if fields[3] == LISTEN:
                ports.setdefault(int(fields[1].rpartition(":")[2], 16), set()).add(fields[9])
    return ports


def open_ports(ports: Iterable[int]) -> list[int]:
    """Those of `ports` that somebody on this machine listens on."""
    listening = _listening()
    return [port for port in ports if port in listening]


def holder(port: int) -> ProcessId | None:
    """Who listens on a port, if /proc tells."""
    inodes = _listening().get(port, set())
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for pid, process in table().items():
        if wanted & _open_files(pid):
            return process.id
    return None


def _open_files(pid: int) -> set[str]:
    """What the open files of a process are; those that close while we look, or are not ours to see, are left out."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(PROC / str(pid) / "fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(entry))
    return found


def free_port(host: str) -> int:
    """A port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind((host, 0))
        return int(listener.getsockname()[1])
