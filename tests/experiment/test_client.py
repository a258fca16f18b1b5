"""What a run keeps of the client and of the arrivals, as a reader finds it there."""

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.clock import now_ns
from testbed.drive.options import DriveOptions
from testbed.drive.result import DriveResult
from testbed.experiment.client import journal_drive
from testbed.experiment.record import arrival_facts
from testbed.journal.events import DriveEnded
from testbed.journal.reader import read_journal
from testbed.journal.writer import JournalWriter
from testbed.missing import Missing
from testbed.plan.arrivals import ArrivalDistance

RESULT = DriveResult(
    zero_at_ns=now_ns() - 3_000_000_000, planned=10, counts={"ok": 10}, send_lag_p50_s=0.001,
    send_lag_p99_s=Missing("few"), send_lag_max_s=0.002, loop_stall_max_s=0.04, loop_stall_count=2, peak_open=7,
    client_cpu_s=0.6, interrupted=False,
)


def written(folder: Path, result: DriveResult, options: DriveOptions) -> DriveEnded:
    """The event that a reader of the journal finds."""
    journal = JournalWriter(folder, "driver")
    journal.enter("tier", 1)
    journal_drive(journal, result, options)
    journal.close()
    (event,) = read_journal([(journal.path.name, journal.path.read_bytes())]).select(DriveEnded)
    return event


def test_the_end_of_a_drive_says_how_its_client_fared(tmp_path: Path) -> None:
    event = written(tmp_path, RESULT, DriveOptions(workers=2, max_concurrency=8))
    assert (event.arm, event.repetition, event.workers, event.max_concurrency) == ("tier", 1, 2, 8)
    assert (event.client_cpu_s, event.loop_stall_max_s, event.loop_stall_count, event.peak_open) == (0.6, 0.04, 2, 7)
    assert event.loop_stall_limit_s > 0


def test_a_drive_lasts_from_its_zero_until_it_has_ended(tmp_path: Path) -> None:
    before = now_ns()
    event = written(tmp_path, RESULT, DriveOptions())
    assert event.zero_at_ns == RESULT.zero_at_ns
    assert before <= event.ended_at_ns <= now_ns()
    assert event.max_concurrency is None


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_drive_that_was_interrupted_says_so(tmp_path: Path, interrupted: bool) -> None:
    assert written(tmp_path, replace(RESULT, interrupted=interrupted), DriveOptions()).interrupted is interrupted


def test_a_distance_that_is_not_there_is_kept_with_its_reason() -> None:
    none = Missing("a closed loop has no intended arrivals")
    found = arrival_facts(ArrivalDistance("closed", 4, none, none))
    assert (found.distance, found.limit, found.reason) == (None, None, none.reason)
    known = arrival_facts(ArrivalDistance("poisson", 40, 0.1, 0.2))
    assert (known.process, known.arrivals, known.distance, known.limit, known.reason) == ("poisson", 40, 0.1, 0.2, "")
