"""Where testbed keeps what outlives a command: caches, state, results."""

import os
from dataclasses import dataclass
from pathlib import Path

from testbed.clock import run_name_time
from testbed.errors import SpecError


@dataclass(frozen=True)
class Folders:
    """`cache` can be removed at any time; `state` says what is deployed; `results` holds the runs."""

    cache: Path
    state: Path
    results: Path


def default_folders(results: Path) -> Folders:
    """The folders of this user, by the XDG convention; all absolute, for engines run in folders of their own."""
    home = Path.home()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    state = Path(os.environ.get("XDG_STATE_HOME") or home / ".local" / "state")
    return Folders(cache.absolute() / "testbed", state.absolute() / "testbed", results.absolute())


def new_run_folder(results: Path, experiment: str) -> Path:
    """Make `results/TIME-EXPERIMENT`; a name that is taken gets a number, so that no run overwrites another.

    Raises: SpecError when the folder can't be made or written.
    """
    name = f"{run_name_time()}-{experiment}"
    for number in range(1, 100):
        folder = results / (name if number == 1 else f"{name}-{number}")
        try:
            results.mkdir(parents=True, exist_ok=True)
            folder.mkdir()
            (folder / "events").mkdir()
        except FileExistsError:
            if not results.is_dir():
                raise SpecError("is a file, not a folder for results", where=str(results)) from None
            continue
        except OSError as problem:
            raise SpecError(f"can't write results: {problem.strerror}", where=str(results)) from problem
        return folder
    raise SpecError("holds a hundred runs of this second", where=str(results))
