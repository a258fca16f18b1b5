"""A process tree of three levels, for a leash to hold: top, middle and bottom.

    python tree.py FOLDER [JSON]

The JSON says for each role what is special: {"bottom": {"deaf": true, "session": true, "map": NAME, "exits": CODE}}.
Deaf ones ignore SIGTERM; those with a session of their own have left their parent's group. Each process writes its pid
to FOLDER/ROLE once all below it are ready; one that exits does so then.
"""

import json
import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

ROLES = ("top", "middle", "bottom")


def map_shared_memory(name: str) -> mmap.mmap:
    """Map a file in shared memory, made if need be, and keep no descriptor of it."""
    with Path("/dev/shm", name).open("a+b") as file:
        file.truncate(mmap.PAGESIZE)
        return mmap.mmap(file.fileno(), mmap.PAGESIZE)


def start_below(folder: str, text: str, level: int) -> None:
    """Start the next process, and wait until it is ready."""
    ready, told = os.pipe()
    special = json.loads(text).get(ROLES[level], {})
    subprocess.Popen(
        [sys.executable, __file__, folder, text, str(level), str(told)],
        pass_fds=(told,), start_new_session=special.get("session", False),
    )
    os.close(told)
    os.read(ready, 1)


def main(folder: str, text: str = "{}", level: str = "0", tell: str | None = None) -> None:
    """Be one process of the tree."""
    role = ROLES[int(level)]
    special = json.loads(text).get(role, {})
    if special.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    held = [map_shared_memory(special["map"])] if "map" in special else []
    if role != ROLES[-1]:
        start_below(folder, text, int(level) + 1)
    draft = Path(folder, f"{role}.draft")
    draft.write_text(str(os.getpid()))
    draft.rename(Path(folder, role))
    if tell is not None:
        os.write(int(tell), b".")
    if "exits" in special:
        os._exit(special["exits"])
    signal.pause()
    held.clear()


if __name__ == "__main__":
    main(*sys.argv[1:])
