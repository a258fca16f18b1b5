"""What the client says of itself goes into the journal, so that a reader can judge the instrument too."""

from testbed.clock import now_ns
from testbed.drive.options import DriveOptions
from testbed.drive.result import DriveResult
from testbed.drive.schedule import STALL_LIMIT_S
from testbed.journal.events import DriveEnded
from testbed.journal.writer import JournalWriter


def journal_drive(journal: JournalWriter, result: DriveResult, options: DriveOptions) -> None:
    """Write the end of a drive; call it as soon as `drive` returns, for its time counts from zero to now."""
    journal.write(
        DriveEnded, zero_at_ns=result.zero_at_ns, ended_at_ns=now_ns(), workers=options.workers,
        client_cpu_s=result.client_cpu_s, loop_stall_max_s=result.loop_stall_max_s,
        loop_stall_count=result.loop_stall_count, loop_stall_limit_s=STALL_LIMIT_S, peak_open=result.peak_open,
        interrupted=result.interrupted, max_concurrency=options.max_concurrency,
    )
