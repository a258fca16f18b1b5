"""Run heavy Python work in a child process, so that its memory goes away with it.

The child has its own session: whatever ends the wait, the whole group is ended too.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from testbed import clock
from testbed.errors import DeployError

Talk = Callable[[str], None]

_PROC = Path("/proc")
_ROOT = Path(__file__).resolve().parents[2]
_POLL_EVERY_S = 0.1
_TAIL_LINES = 15


def python_env(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment for a child that runs our modules: ours, with this package importable, hub access off."""
    path = os.pathsep.join(part for part in (str(_ROOT), os.environ.get("PYTHONPATH", "")) if part)
    env = os.environ | {"PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # without cached bytecode each import of torch costs seconds
    return env | dict(extra) if extra else env


def end_group(process: subprocess.Popen[bytes], limit_s: float = 15.0) -> None:
    """End the process group that `process` leads; safe to call again, and after its leader has gone."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        for pid in group_pids(process.pid):
            _signal(pid, sent)
        for _ in clock.polls(limit_s, 0.05):
            if not group_pids(process.pid):
                break
    process.wait()


def group_pids(group: int) -> list[int]:
    """The living processes of a process group; a zombie isn't one of them."""
    stats = ((int(path.name), _stat(path)) for path in _PROC.iterdir() if path.name.isdigit())
    return [pid for pid, (state, its_group) in stats if its_group == group and state not in "ZX"]


def _stat(process: Path) -> tuple[str, int]:
    """State and process group of one process; they stand behind its name, which may hold anything in parentheses."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0  # it has ended meanwhile
    return fields[0], int(fields[2])


def _signal(pid: int, sent: int) -> bool:
    """Whether the process was still there to take the signal."""
    try:
        os.kill(pid, sent)
    except ProcessLookupError:
        return False
    return True


def tail(text: str, lines: int = _TAIL_LINES) -> str:
    """The last lines of a log that say something."""
    return "\n".join([line.rstrip() for line in text.replace("\r", "\n").splitlines() if line.strip()][-lines:])


def telling_polls(limit_s: float, talk: Talk, what: str, talk_every_s: float = 5.0) -> Iterator[float]:
    """Poll as `clock.polls` does, and say every few seconds how long `what` has taken so far."""
    told_s = 0.0
    for waited_s in clock.polls(limit_s, _POLL_EVERY_S):
        yield waited_s
        if waited_s - told_s >= talk_every_s:
            told_s = waited_s
            talk(f"{what}: {waited_s:.0f} s so far")


def run_python(
    arguments: Sequence[str], *, what: str, talk: Talk, limit_s: float, talk_every_s: float = 5.0,
) -> str:
    """Run this interpreter with `arguments` and return its standard output; tell `what` every few seconds.

    Raises: DeployError with the end of its log if it fails or takes longer than `limit_s`.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            env=python_env(), start_new_session=True,
        )
        try:
            polls = telling_polls(limit_s, talk, what, talk_every_s)
            status = next((process.returncode for _ in polls if process.poll() is not None), None)
        finally:
            end_group(process)
        if status is None:
            raise DeployError(f"{what} took longer than {limit_s:g} s", hint=_said(err))
        if status != 0:
            raise DeployError(f"{what} failed with exit status {status}:\n{_said(err)}")
        out.seek(0)
        return out.read().decode()


def _said(err: IO[bytes]) -> str:
    err.seek(0)
    return tail(err.read().decode(errors="replace"))
