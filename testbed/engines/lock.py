"""One process at a time builds a model or measures the machine: a lock file that dies with its holder."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.engines.child import Talk, telling_polls
from testbed.errors import DeployError


@contextmanager
def held(path: Path, what: str, talk: Talk, limit_s: float = 900.0) -> Iterator[None]:
    """Hold the lock file `path`; while another process holds it, wait and tell that it is at `what`.

    Raises: DeployError when `limit_s` has passed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _try_lock(file):
            _wait(file, what, talk, limit_s)
        yield
    finally:
        os.close(file)


def _wait(file: int, what: str, talk: Talk, limit_s: float) -> None:
    waiting = f"waiting, since another process is {what}"
    talk(waiting)
    if not any(_try_lock(file) for _ in telling_polls(limit_s, talk, waiting)):
        raise DeployError(f"another process was still {what} after {limit_s:g} s", hint="end it, or wait for it")


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
