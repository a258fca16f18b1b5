"""Conduct one load: a server that is there already, one schedule, one journal. Nothing is deployed and nothing reset.

The run is a folder like those of experiments, with a single arm, and says in its manifest that it is a load.
"""

import os
import platform
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from testbed.clock import now_s, wall_time_text
from testbed.drive.endpoint import Endpoint
from testbed.drive.options import DriveOptions
from testbed.drive.result import DriveResult, Progress
from testbed.drive.schedule import drive
from testbed.engines.processor import read_processor
from testbed.errors import RunError
from testbed.experiment.calibrating import known_client
from testbed.experiment.client import journal_drive
from testbed.experiment.folders import Folders, new_run_folder
from testbed.experiment.load_plan import Load, plan_lines
from testbed.experiment.record import (
    SEND_LAG_LIMIT_S,
    SUCCESS_FLOOR_RATIO,
    Record,
    arrival_facts,
    git_commit,
    installed_versions,
)
from testbed.experiment.stop import Stop
from testbed.journal.events import ArmBegan, ArmEnded
from testbed.journal.manifest import ArmFacts, Limits, Manifest
from testbed.journal.writer import JournalWriter
from testbed.missing import Missing
from testbed.plan.arrivals import arrival_distances

ARM = "load"
Talk = Callable[[str], None]


class LoadStop(Stop):
    """The first wish to end is left to the drive. With `drain` that lets what is in flight end, until the second wish.

    One more breaks off at once.
    """

    def __init__(self, *, drain: bool) -> None:
        super().__init__()
        self._drain = drain
        self.drop = False

    def wording(self) -> str:
        """What comes of the next wish to end, in words."""
        if not self._driving or (self.asked and (self.drop or not self._drain)):
            return "breaking off"
        if self.asked:
            return "dropping what is in flight"
        after = "waiting for what is in flight; Ctrl-C again drops it" if self._drain else "dropping what is in flight"
        return f"sending no more, {after}"

    def ask(self) -> None:
        """The user wants to end.

        Raises: KeyboardInterrupt where no drive is under way, or it was told already to drop what is in flight.
        """
        if self._drain and self._driving and self.asked and not self.drop:
            self.drop = True
        else:
            super().ask()


@dataclass(frozen=True)
class Watcher:
    """Who is told while the load is on: of its zero, and about ten times a second where it stands."""

    began: Callable[[int], None]
    progress: Callable[[Progress], None]


def run_load(
    load: Load, endpoint: Endpoint, options: DriveOptions, folders: Folders, *, stop: Stop, talk: Talk, watcher: Watcher
) -> Path:
    """Drive the schedule and return the folder of the run; it is closed whatever happens.

    Raises: RunError for what broke in flight; KeyboardInterrupt where the user did not want to wait.
    """
    folder = new_run_folder(folders.results, f"load-{load.workload.name}")
    talk(f"run {folder.name}")
    manifest = first_manifest(folder.name, load, folders)
    _write(folder, manifest)
    status, began_s = "broken", now_s()
    try:
        with closing(JournalWriter(folder / "events", "driver")) as journal:
            result = _drive(load, endpoint, options, journal, folder.name, stop, watcher)
        status = "interrupted" if result.interrupted else "complete"
    except OSError as problem:
        raise RunError(f"the journal can't be written: {problem.strerror}", where=str(folder)) from problem
    finally:
        broke = sys.exception()
        if broke is not None:
            talk(f"what was measured until then is in {folder}")
            status = "broken" if isinstance(broke, Exception) else "interrupted"  # Ctrl-C, or SIGTERM
        _write(folder, msgspec.structs.replace(manifest, status=status, durations_s={"load": now_s() - began_s}))
    return folder


def _drive(
    load: Load, endpoint: Endpoint, options: DriveOptions, journal: JournalWriter, run: str, stop: Stop,
    watcher: Watcher,
) -> DriveResult:
    journal.enter(ARM, 0)

    def began(zero_at_ns: int) -> None:
        journal.write(ArmBegan, zero_at_ns=zero_at_ns, probed=False, policy="none")
        watcher.began(zero_at_ns)

    with stop.driving():
        result = drive(
            load.planned.requests, endpoint, journal, options=options,
            request_id=lambda one: f"{run}.{ARM}.0.{one.index}", on_zero=began, on_progress=watcher.progress,
            should_stop=lambda: stop.asked,
        )
    journal_drive(journal, result, options)
    complete = not result.interrupted
    journal.write(ArmEnded, complete=complete, reason="" if complete else "interrupted")
    return result


def _write(folder: Path, manifest: Manifest) -> None:
    try:
        Record(folder).write(manifest)
    except OSError as problem:
        raise RunError(f"can't be written: {problem.strerror}", where=str(folder / "manifest.json")) from problem


def first_manifest(run: str, load: Load, folders: Folders) -> Manifest:
    """What is known when a load begins. What is a fact of an engine is not known, and says so."""
    client = known_client(folders.cache)
    processor = read_processor()
    return Manifest(
        run=run, experiment=f"load {load.workload.name}", created=wall_time_text(), status="running", seed=load.seed,
        repetitions=1, model=load.model, dtype="not known", block_size=None, kv_bytes_per_token=None,
        arms=[ArmFacts(name=ARM, tier="none", probed=False, policy="none", attempts=0)],
        limits={name: Limits(**asdict(one), derivation="after --goodput") for name, one in load.limits.items()},
        required_metrics=[], paths=[], tie_gap_nats=0.0, send_lag_limit_s=SEND_LAG_LIMIT_S,
        success_floor_ratio=SUCCESS_FLOOR_RATIO, stub=load.stand_in, arm_order=[ARM],
        client_calibration=None if isinstance(client, Missing) else client,
        arrivals={name: arrival_facts(one) for name, one in arrival_distances(load.workload, load.planned).items()},
        specs={"workload": load.text}, plan="\n".join(plan_lines(load)) + "\n", versions=installed_versions(),
        git_commit=git_commit(), clock_offsets_ns={platform.node(): [0, 0]}, kind="load", load=load.facts,
        host={
            "system": f"{platform.system()} {platform.release()}", "machine": platform.machine(),
            "processor": processor.name, "cores": len(os.sched_getaffinity(0)),
        },
    )
