"""Open a run folder: manifest, events and golden answers together."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from testbed.errors import JournalError
from testbed.journal.manifest import Golden, GoldenAnswer, Manifest
from testbed.journal.reader import Journal, load_journal


@dataclass(frozen=True)
class Run:
    """A run as its readers see it. `golden` is empty where outputs were not checked."""

    manifest: Manifest
    journal: Journal
    golden: Golden


def open_run(path: Path) -> Run:
    """Read `results/RUN`.

    Raises: JournalError if it is not a run, or was written by another schema.
    """
    manifest_path = path / "manifest.json"
    if not manifest_path.is_file():
        raise JournalError(
            "is not a run: it has no manifest.json", where=str(path), hint="give a folder below results/"
        )
    try:
        manifest = msgspec.json.decode(manifest_path.read_bytes(), type=Manifest)
    except msgspec.MsgspecError as problem:
        raise JournalError(f"is not a manifest of this version: {problem}", where=str(manifest_path)) from problem
    golden_path = path / "golden.json"
    golden = (
        msgspec.json.decode(golden_path.read_bytes(), type=dict[str, GoldenAnswer]) if golden_path.is_file() else {}
    )
    return Run(manifest, load_journal(path), golden)
