"""End processes and remove what they left; used by the leash, and by whoever finishes its job."""

import contextlib
import shutil
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from testbed.clock import polls
from testbed.deploy.processes import (
    SHARED_MEMORY,
    ProcessId,
    alive,
    descendants,
    send_all,
    shared_memory_in_use,
    table,
)

LOOK_AGAIN_S = 0.05


def end(find: Callable[[], list[ProcessId]], *, grace_s: float, limit_s: float) -> bool:
    """Ask what `find` finds to end, kill what stays after `grace_s`; True when none is left.

    `find` is asked again and again, for a tree may still grow.
    """
    asked: set[ProcessId] = set()
    for _ in polls(grace_s, LOOK_AGAIN_S):
        living = find()
        if not living:
            return True
        send_all([process for process in living if process not in asked], signal.SIGTERM)
        asked.update(living)
    for _ in polls(limit_s, LOOK_AGAIN_S):
        living = find()
        if not living:
            return True
        send_all(living, signal.SIGKILL)
    return not find()


def end_tree(known: Iterable[ProcessId | None], more: Callable[[], list[ProcessId]]) -> bool:
    """Kill the known processes of a tree whose leash is gone, all that `more` finds, and all below them.

    Returns True when none is left.
    """
    wanted = {process for process in known if process is not None}

    def living() -> list[ProcessId]:
        wanted.update(more())
        processes = table()
        there = [process for process in wanted if alive(process)]
        below = [child.id for process in there for child in descendants(process.pid, processes) if not child.zombie]
        wanted.update(below)
        return list({*there, *below})

    return end(living, grace_s=0.0, limit_s=10.0)


def remove(paths: Iterable[str]) -> tuple[str, ...]:
    """Remove files and folders; return those that are still there.

    A name in shared memory stays while a living process has it mapped: it belongs to that process too.
    """
    there = [Path(path) for path in paths if Path(path).exists()]
    in_use = shared_memory_in_use() if any(SHARED_MEMORY in path.parents for path in there) else set()
    for path in there:
        if SHARED_MEMORY in path.parents and str(path.relative_to(SHARED_MEMORY)) in in_use:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
    return tuple(str(path) for path in there if path.exists())
