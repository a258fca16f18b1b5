"""Our own client, as `testbed run` and `testbed load` drive it: journal, token ids and all."""

import platform
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.load.tool import Job, Report
from testbed import __version__
from testbed.journal.events import RequestEnded
from testbed.journal.reader import load_journal
from testbed.stub.log import StubLog, stamps_by_id

_FIGURES = "figures.json"


class Figures(msgspec.Struct, frozen=True):
    """In seconds; the TTFT counts from sending, as that of the other tools."""

    ttft_p50_s: float
    ttft_p99_s: float
    itl_p50_s: float
    itl_p99_s: float
    ok: int


def figures(folder: Path) -> Figures:
    """What a drive wrote."""
    return msgspec.json.decode((folder / _FIGURES).read_bytes(), type=Figures)


def write_figures(folder: Path, found: Figures) -> None:
    """For `figures` to read."""
    (folder / _FIGURES).write_bytes(msgspec.json.encode(found))


@dataclass(frozen=True)
class Ours:
    """In one process, or in `workers`."""

    workers: int = 1
    packages: tuple[str, ...] = ()
    python: str = "python3.11"
    first_rps: float = 1_600.0
    open_loop: bool = True

    @property
    def name(self) -> str:
        """With the number of workers where there are several."""
        return "testbed" if self.workers == 1 else f"testbed, {self.workers} workers"

    def command(self, python: Path, job: Job) -> list[str]:
        """Our own process for one drive."""
        return [
            str(python), "-m", "bench.load.drive_once", job.url, str(job.requests), str(job.rate_rps), str(job.tokens),
            str(job.folder), str(self.workers),
        ]

    def version(self, python: Path) -> str:
        """Ours."""
        return f"{__version__}, Python {platform.python_version()}"

    def report(self, job: Job, log: StubLog) -> Report:
        """The figures that the process wrote, and the lag of each request: received minus scheduled."""
        found = figures(job.folder)
        stamps = stamps_by_id(log)
        ended = load_journal(job.folder).select(RequestEnded)
        lags_s = [(stamps[one.request_id].begun_at_ns - one.scheduled_at_ns) / 1e9 for one in ended]
        return Report(found.ttft_p50_s, found.ttft_p99_s, found.itl_p50_s, found.itl_p99_s, lags_s=lags_s)
